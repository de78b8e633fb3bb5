# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# The plugin in its own image, and tasks beside it, as an orchestrator runs them; for tests that source engines.sh and
# images.sh, too. ENGINE is docker or podman. Endpoints and paths are the host's, which is the namespace of the tests.
# Directories that containers share lie below a shared mount, see share.

plugin_image=localhost/mooring:test

# engine ENGINE WORD...
engine() {
  case $1 in
    docker) docker "${@:2}" ;;
    podman) podman_do "${@:2}" ;;
    *) fail "there is no engine '$1'" ;;
  esac
}

# engine_run ENGINE FLAG... IMAGE WORD...: a container without a network of its own.
engine_run() {
  case $1 in
    docker) docker run --network none "${@:2}" ;;
    podman) podman_run "${@:2}" ;;
    *) fail "there is no engine '$1'" ;;
  esac
}

# share DIR AT: mounts DIR at another path, shared, because engines bind only shared mounts with rshared.
share() {
  mkdir -p "$1" "$2"
  mount --bind "$1" "$2"
  mount --make-rshared "$2"
}

# engine_command ENGINE: the argument of packaging/image. For buildah, too, with podman's storage.
engine_command() {
  case $1 in
    docker) say docker ;;
    podman) say "${podman_command[*]}" ;;
    buildah) say "buildah ${podman_storage[*]}" ;;
  esac
}

# build_plugin_image ENGINE [TAG]: from the release build.
build_plugin_image() {
  "$MOORING_ROOT/packaging/image" --engine "$(engine_command "$1")" --prebuilt "${bin%/bin}" --tag "${2:-$plugin_image}" \
    >/dev/null
}

# start_plugin ENGINE NAME IMAGE [ENGINE-FLAG...] [-- PLUGIN-FLAG...]: privileged, as orchestrators start it.
# start_container does not add --privileged. Neither waits for the plugin.
start_plugin() { start_container "${@:1:3}" --privileged "${@:4}"; }

# Keeps its arguments for start_again.
start_container() {
  local name=$2
  printf '%q ' "${@:1}" >"$work/$name.container"
  start_again "$name"
}

# start_again NAME [IMAGE]: as it was started, or with another image.
start_again() {
  local words engine name image flags=()
  eval "words=($(<"$work/$1.container"))"
  engine=${words[0]} name=${words[1]} image=${2:-${words[2]}}
  words=("${words[@]:3}")
  while [ ${#words[@]} -gt 0 ] && [ "${words[0]}" != -- ]; do
    flags+=("${words[0]}")
    words=("${words[@]:1}")
  done
  engine_run "$engine" -d --name "$name" "${flags[@]}" "$image" "${words[@]:1}" >/dev/null
}

# await_plugin SOCKET: waits until the plugin is ready.
await_plugin() { "$bin/mooring" csi --endpoint "unix://$1" probe --wait "$patience" >/dev/null; }

# kill_plugin ENGINE NAME: sends SIGKILL, and removes the container.
kill_plugin() {
  engine "$1" kill -s KILL "$2" >/dev/null
  engine "$1" wait "$2" >/dev/null
  engine "$1" rm "$2" >/dev/null
}

# stop_plugin ENGINE NAME: sends SIGTERM, expects exit status 0, and removes the container.
stop_plugin() {
  engine "$1" stop -t "$patience" "$2" >/dev/null
  expect "the exit status of $2" "$(engine "$1" inspect -f '{{.State.ExitCode}}' "$2")" 0
  engine "$1" rm "$2" >/dev/null
}

# upgrade_plugin ENGINE NAME IMAGE: stops the plugin, and starts the new image with the same flags.
upgrade_plugin() {
  stop_plugin "$1" "$2"
  start_again "$2" "$3"
}

# start_task ENGINE NAME [ENGINE-FLAG...]: a container that sleeps until end_task.
start_task() { engine_run "$1" -d --name "$2" "${@:3}" base sleep 100000 >/dev/null; }

in_task() { engine "$1" exec "$2" "${@:3}"; }

end_task() {
  if [ "$1" = podman ]; then podman_do rm -f -t 0 "$2"; else engine "$1" rm -f "$2"; fi >/dev/null
}

# mounts_in_task ENGINE NAME PATH: the mount points at and below PATH, as the task sees them, a line each.
mounts_in_task() {
  in_task "$1" "$2" cat /proc/self/mountinfo | awk -v path="$3" '$5 == path || index($5, path "/") == 1 { print $5 }' | sort
}

# expect_nothing_left DIR: no mount below it, and soon no loop device over a file there.
expect_nothing_left() {
  expect "what is mounted below $1" "$(mounts_below "$1")" ''
  await "loop devices over files of $1 are gone: $(loops_below "$1")" no_loops_below "$1"
}

no_loops_below() { [ -z "$(loops_below "$1")" ]; }
