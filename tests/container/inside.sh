# shellcheck shell=bash
# The functions of tests with container engines. Sourced by their run, inside the namespaces.

readonly patience=60 # seconds until an expected event counts as missing
bin=$MOORING_ROOT/build/release/bin

# shellcheck source=tests/checks.sh
. "$MOORING_ROOT/tests/checks.sh"
# shellcheck source=tests/container/engines.sh
. "$MOORING_ROOT/tests/container/engines.sh"
# shellcheck source=tests/container/images.sh
. "$MOORING_ROOT/tests/container/images.sh"
# shellcheck source=tests/container/plugin_image.sh
. "$MOORING_ROOT/tests/container/plugin_image.sh"
