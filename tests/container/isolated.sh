# shellcheck shell=bash
# Runs tests with container engines so that nothing of them is left. Sourced by their run.

# in_isolation [--with-network] SCRIPT [ARG...]: `SCRIPT inside WORK ARG...` in mount, process and network namespaces of
# its own, where WORK is a scratch folder. Processes that still run when SCRIPT has ended are killed with the namespace.
# A loop device that is left fails it. Status 77 where no engine can run. --with-network: in the machine's network,
# where no other Docker is: one without a bridge removes the bridge of the other.
in_isolation() {
  local script network=(--net) status=0
  if [ "$1" = --with-network ]; then
    network=()
    shift
    if ip link show docker0 >/dev/null 2>&1; then
      say "skipped: Docker has its bridge docker0 here, and a second Docker would remove it"
      return 77
    fi
  fi
  script=$1
  shift
  if [ ! -w /sys/fs/cgroup/cgroup.procs ] && [ ! -w /sys/fs/cgroup/unified/cgroup.procs ]; then
    say "skipped: no control groups can be made here, and without them no container engine runs"
    return 77 # as tests/run understands it
  fi
  work=$(realpath "$(mktemp -d --tmpdir mooring-container.XXXXXX)")
  # Podman chooses the control group of containers that its API creates.
  of_podman=()
  if [ -z "$(find /sys/fs/cgroup -name libpod_parent)" ]; then of_podman=(-o -path '*/libpod_parent*'); fi
  on_exit clear_below "$work"
  on_exit remove_cgroups
  # shellcheck disable=SC2016 # for the inner shell
  unshare --mount --propagation private "${network[@]}" --pid --fork --kill-child --mount-proc \
    bash -c 'ip link set lo up && exec "$@"' isolated "$script" inside "$work" "$@" || status=$?
  no_loops_left || status=1
  return "$status"
}

# The kernel detaches a device a moment after its last unmount.
no_loops_left() {
  local tries left
  for ((tries = 0; tries < 50; tries++)); do
    left=$(loops_below "$work")
    [ -n "$left" ] || return 0
    sleep 0.1
  done
  say "left attached: $left"
  return 1
}

# shellcheck disable=SC2317 # a hook
remove_cgroups() {
  find /sys/fs/cgroup -depth -type d \( -path "*/${work##*/}*" "${of_podman[@]}" \) -exec rmdir -- {} + || true
}
