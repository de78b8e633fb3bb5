# shellcheck shell=bash disable=SC2034,SC2154 # work, bin, here and patience are run's; kubelet.sh uses engine
# Surroundings that a container can have: what the plugin does without, and where it cannot, one line that says what to do,
# and the answer to Probe.

# The lines of the container's log at the levels warning and error, or those that are no log lines: why it did not start.
complaints() { docker logs plugin 2>&1 | grep -Ev '^[^ ]+ (info|debug) ' || true; }

# start_bad FLAG...: privileged, it is not waited for.
start_bad() {
  engine=docker
  start_plugin docker plugin "$plugin_image" "$@"
}

ended() { [ "$(docker inspect -f '{{.State.Running}}' plugin)" = false ]; }

# does_not_start WORDS: it ends with status 1, its log is the one line, and nobody answers.
does_not_start() {
  await "the plugin ends" ended
  expect "its exit status" "$(docker inspect -f '{{.State.ExitCode}}' plugin)" 1
  expect "the lines of its log" "$(docker logs plugin 2>&1 | wc -l)" 1
  expect_match "its log" "$(docker logs plugin 2>&1)" "$1"
  refused UNAVAILABLE csi probe
  docker rm plugin >/dev/null
  expect_nothing_left "$host"
}

# without_flag WORD: `flags` without that one and the -v before it.
without_bind() {
  local index
  for index in "${!flags[@]}"; do
    if [ "${flags[index]}" = "$1" ]; then unset "flags[index]" "flags[index - 1]"; fi
  done
  flags=("${flags[@]}")
}

test_a_read_only_root_filesystem_does() {
  use_host read-only
  start_bad "${flags[@]}" --read-only
  await_plugin "$socket"
  kubelet_provision db 64MiB
  use_volume db
  stop_plugin docker plugin
  leave_host
}

test_a_state_directory_that_cannot_be_written_to_is_said() {
  use_host unwritable
  without_bind "$host/state:/var/lib/mooring"
  start_bad "${flags[@]}" -v "$host/state:/var/lib/mooring:ro"
  does_not_start "/var/lib/mooring.*Read-only file system"
}
