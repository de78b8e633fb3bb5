# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# dockerd, podman and the manager of tests with containers. Sourced by their run, inside the namespaces.

container_tests=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
cgroup=/${work##*/}
export DOCKER_HOST=unix://$work/docker/docker.sock
export MOORING_MANAGER_SOCKET=$work/manager.sock
export CONTAINERS_CONF=$work/containers.conf
export DISABLE_HC_SYSTEMD=true # podman asks after a container's health by timers of systemd, which need not be here
plugin_socket=/run/docker/plugins/mooring.sock

# start NAME COMMAND...: in the background, its process in $work/NAME.pid: each test has a shell of its own, and the
# processes are everybody's.
start() {
  local name=$1
  shift
  "$@" >>"$work/$name.log" 2>&1 </dev/null &
  echo $! >"$work/$name.pid"
}

# end NAME SIGNAL: sends the signal and waits for the end of the process.
end() {
  local process
  process=$(cat "$work/$1.pid")
  kill "-$2" "$process" 2>/dev/null || return 0
  await "the end of $1" gone "$process"
}

# The first process of the namespace reaps ended processes, so `wait` cannot be used.
gone() { ! grep -qs '^State:\s*[^Z]' "/proc/$1/status"; }

start_manager() {
  start manager "$bin/mooring-manager" --socket "$work/manager.sock" --state-dir "$work/manager" \
    --runtime-dir "$work/plugins" --docker-socket "$plugin_socket" --docker-plugin "${docker_plugin:-}" \
    --engine "$work/docker/docker.sock" --host container-test
  await "the manager serves" "$bin/mooring" plugin status
}

# dockerd lets a containerd that answers too late write its stacks to the folder for temporary files.
start_dockerd() {
  start dockerd env "TMPDIR=$work" dockerd --data-root "$work/docker/data" --exec-root "${docker_exec_root:-$work/docker/exec}" \
    --pidfile "$work/docker/pid" -H "$DOCKER_HOST" --cgroup-parent "$cgroup" --bridge none --iptables=false --ip-forward=false --ip-masq=false \
    --add-runtime "bounded=$container_tests/runc-bounded" --default-runtime bounded "--live-restore=${live_restore:-false}"
  await "dockerd serves" docker version
}

# limit -n|-u: the hard limit for podman, which does not know "unlimited".
limit() { ulimit -H "$1" | sed 's/^unlimited$/-1/'; }

# Without --ulimit podman raises limits, which needs CAP_SYS_RESOURCE. The storage needs no kernel module.
podman_run_flags=(--network none --cgroup-parent "$cgroup" --ulimit "nofile=$(limit -n)" --ulimit "nproc=$(limit -u)")
podman_run() { podman_do run "${podman_run_flags[@]}" "$@"; }

# Podman allows at most 50 bytes for --runroot.
podman_storage=(--root "$work/podman/root" --runroot /run/podman-test --storage-driver vfs)
podman_command=(podman "${podman_storage[@]}" --tmpdir "$work/podman/tmp")
podman_do() { "${podman_command[@]}" "$@"; }

write_podman_configuration() {
  cat >"$CONTAINERS_CONF" <<END
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
volume_plugin_timeout = 60
[engine.volume_plugins]
mooring = "$plugin_socket"
END
}

in_docker() { docker run --rm --network none "$@"; }

run_plugin_as_process() {
  "$bin/mooring" plugin run mooring.csi --exec "$bin/mooring-plugin --state-dir $work/volumes"
}

# A /run of our own: the sockets and locks of engines that may run here are theirs. Where /etc/resolv.conf leads into it, as
# systemd-resolved and NetworkManager have it, the new one has that file, too.
cover_run() {
  local file content
  file=$(readlink -f /etc/resolv.conf || true)
  content=$(cat /etc/resolv.conf 2>/dev/null || true)
  mount -t tmpfs run /run
  [[ $file == /run/* ]] || return 0
  mkdir -p "$(dirname "$file")"
  printf '%s\n' "$content" >"$file"
}

# Starts a dockerd, and makes the image "base" for it and for podman.
set_up_engines() {
  mount --bind "$work" "$work"
  cover_run
  mount -t tmpfs shared /dev/shm
  mkdir -p "$(dirname "$plugin_socket")" "$work/docker"
  write_podman_configuration
  start_dockerd
  make_image
}

set_up() {
  set_up_engines
  docker_plugin=mooring.csi
  start_manager
  run_plugin_as_process >/dev/null
}

remove_containers() {
  docker ps -aq | xargs -r docker rm -f >/dev/null || true
  podman_do rm -fat 0 >/dev/null || true
}

tear_down_engines() {
  remove_containers
  end dockerd TERM
}

tear_down() {
  remove_containers
  "$bin/mooring" plugin stop mooring.csi >/dev/null || true
  end manager TERM
  tear_down_engines
}
