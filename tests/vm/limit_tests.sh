# shellcheck shell=bash disable=SC2154 # those of luks_tests.sh and lvm_tests.sh
# Limits of bandwidth belong to the orchestrator's control groups: docs/operations.md. A unit of systemd stands for a task.

# limited_run PROPERTY COMMAND...: prints how many milliseconds the command takes in a unit with the property.
limited_run() {
  local property=$1
  shift
  # shellcheck disable=SC2016 # for the shell there
  inside systemd-run --quiet --wait --pipe --collect --property="$property" sh -c 'begin=$(date +%s%N) && "$@" && end=$(date +%s%N) &&
    echo $(((end - begin) / 1000000))' sh "$@"
}

# expect_limited NAME PATH [FLAG-OF-DD]...: in the directory, 8 MiB at 2 MiB per second take 4 s. A unit without a limit has
# the disk's own speed at the same time.
expect_limited() {
  local name=$1 path=$2 limited free
  shift 2
  free=$(limited_run Nice=0 dd if=/dev/zero "of=$path/free" bs=256k count=32 status=none "$@")
  limited=$(limited_run "IOWriteBandwidthMax=$path 2M" dd if=/dev/zero "of=$path/limited" bs=256k count=32 status=none "$@")
  say "        8 MiB to $name, $*: $free ms without a limit, $limited ms with 2 MB/s"
  [ "$limited" -gt 3000 ] || fail "$name, $*: 8 MiB took $limited ms, and 4000 ms is the limit's time"
  [ "$free" -lt 2500 ] || fail "$name, $*: 8 MiB took $free ms without a limit"
}

expect_limits_at() { # NAME PATH
  local limited
  expect_limited "$1" "$2" oflag=direct
  expect_limited "$1" "$2" conv=fsync
  inside sh -c "sync; echo 3 >/proc/sys/vm/drop_caches"
  limited=$(limited_run "IOReadBandwidthMax=$2 2M" dd "if=$2/free" of=/dev/null bs=256k status=none)
  [ "$limited" -gt 3000 ] || fail "$1: reading 8 MiB took $limited ms"
}

# expect_limits_work luks|lvm POOL...
expect_limits_work() {
  local kind=$1 pool id
  shift
  for pool; do
    id=$("${kind}_volume" "$pool" limited 64MiB)
    "${kind}_published" "$id" limited
    expect_limits_at "the pool $pool" "/srv/$kind-limited"
    "${kind}_removed" "$id" limited
  done
}
