# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# csi-sanity against the plugin in its container, with the smallest set of privileges.

# Writes the command that tests/sanity/run starts as the plugin. All its files are in $host.
write_sanity_plugin() {
  {
    printf '#!/bin/sh\nexec docker run --rm --network none '
    printf '%q ' "${least[@]}" -v /dev:/dev -v "$host:$host:rshared" "$plugin_image"
    printf '"$@"\n'
  } >"$host/plugin"
  chmod +x "$host/plugin"
}

csi_sanity_passes() {
  use_host "sanity-$1"
  write_sanity_plugin
  MOORING_SANITY_PLUGIN=$host/plugin TMPDIR=$host "$here/../sanity/run" --in-namespace "$1"
  expect_nothing_left "$host"
}

test_csi_sanity_with_mount_volumes() { csi_sanity_passes mount; }
