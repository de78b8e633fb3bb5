# shellcheck shell=bash disable=SC2034,SC2154 # work, bin, here and patience are run's; kubelet.sh uses engine
# Containers that lack something. The plugin works without it, or it logs one line that says what to do, and Probe says it,
# too.

# start_bad FLAG...: privileged. Does not wait for the plugin.
start_bad() {
  engine=docker
  start_plugin docker plugin "$plugin_image" "$@"
}

# Prints the problems in its log. Each answer to Probe is a line of its own.
complaints() { docker logs plugin 2>&1 | grep -E ' (warning|error) ' | grep -v ' method=Probe ' || true; }

ended() { [ "$(docker inspect -f '{{.State.Running}}' plugin)" = false ]; }
said_by_probe() { [[ $(csi probe 2>&1 || true) == *"$1"* ]]; }

# probe_says WORDS: Probe answers FAILED_PRECONDITION with the words, and the log and the container's health have them, too.
probe_says() {
  await "Probe says it" said_by_probe "$1"
  refused FAILED_PRECONDITION csi probe
  csi probe --liveness
  expect "the lines of its log about it" "$(complaints | wc -l)" 1
  expect_match "its log" "$(complaints)" "$1"
  refused "$1" docker exec plugin mooring csi info
  kill_plugin docker plugin
  expect_nothing_left "$host"
}

# does_not_start WORDS: the plugin ends with status 1, and its log is one line with the words.
does_not_start() {
  await "the plugin ends" ended
  expect "its exit status" "$(docker inspect -f '{{.State.ExitCode}}' plugin)" 1
  expect "the lines of its log" "$(docker logs plugin 2>&1 | wc -l)" 1
  expect_match "its log" "$(docker logs plugin 2>&1)" "$1"
  refused UNAVAILABLE csi probe
  docker rm plugin >/dev/null
  expect_nothing_left "$host"
}

# without_bind BIND: `flags` without it and the -v before it.
without_bind() {
  local index
  for index in "${!flags[@]}"; do
    if [ "${flags[index]}" = "$1" ]; then unset "flags[index]" "flags[index - 1]"; fi
  done
  flags=("${flags[@]}")
}

test_a_read_only_state_directory_is_reported() {
  use_host unwritable
  without_bind "$host/state:/var/lib/mooring"
  start_bad "${flags[@]}" -v "$host/state:/var/lib/mooring:ro"
  probe_says 'mount it writable'
}

# docs/containers.md: the state is a directory on a disk, so it is missing when the disk is.
test_a_missing_state_directory_prevents_the_start() {
  local missing=$work/no-disk/mooring
  refused 'bind source path does not exist' docker create \
    --mount "type=bind,source=$missing,target=/var/lib/mooring" "$plugin_image"
  refused 'no such file or directory' \
    engine_run podman --rm -v "$missing:/var/lib/mooring" "$plugin_image" --version
  [ ! -e "$missing" ] || fail "$missing was made"
}

test_a_missing_dev_is_reported() {
  use_host no-dev
  without_bind /dev:/dev
  engine=docker
  start_with
  probe_says 'loop devices are not to be had'
}

test_a_mount_directory_that_is_not_shared_is_reported() {
  use_host not-shared
  without_bind "$root:$root:rshared"
  start_bad "${flags[@]}" -v "$root:$root"
  probe_says "other mount namespaces would not see the mounts below"
}

test_a_socket_directory_of_another_user_is_reported() {
  use_host socket
  chown 4321 "$root/plugins/mooring.csi"
  start_bad "${flags[@]}"
  does_not_start "^mooring-plugin: make the socket in the directory '/csi' \(owner 4321:"
}

# The plugin may not even enter this one.
test_an_inaccessible_socket_directory_is_reported() {
  use_host closed
  chown 4321 "$root/plugins/mooring.csi"
  chmod 0700 "$root/plugins/mooring.csi"
  start_bad "${flags[@]}"
  does_not_start "^mooring-plugin: use the socket's directory '/csi': Permission denied"
}

# With --user, and the capabilities that the start then needs.
test_the_plugin_works_as_the_images_user() {
  local process
  engine=docker
  use_host user
  chown 65525:65525 "$host/state"
  start_container docker plugin "$plugin_image" "${least[@]}" --cap-add SETUID --cap-add SETGID --cap-add CHOWN --cap-add FOWNER \
    --cap-add DAC_OVERRIDE "${flags[@]}" -- --user mooring
  await_plugin "$socket"
  process=$(docker inspect -f '{{.State.Pid}}' plugin)
  expect "the user of the plugin" "$(awk '/^Uid:/ { print $2, $3, $4, $5 }' "/proc/$process/status")" "65525 65525 65525 65525"
  expect "its capabilities" "$(awk '/^Cap(Eff|Prm):/ { print $2 }' "/proc/$process/status" | uniq)" 0000000000000000
  use_volumes >/dev/null
  stop_plugin docker plugin
  leave_host
}
