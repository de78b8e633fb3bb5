# shellcheck shell=bash
# Where tests with container engines run, so that nothing of them is left: sourced by their run.

# in_isolation SCRIPT [ARG...]: `SCRIPT inside WORK ARG...` in mount and process namespaces of its own, where WORK is a scratch
# folder. What is still running when SCRIPT has ended is ended with the namespace. Status 77 where no engine can run.
in_isolation() {
  local script=$1
  shift
  if [ ! -w /sys/fs/cgroup/cgroup.procs ] && [ ! -w /sys/fs/cgroup/unified/cgroup.procs ]; then
    say "skipped: no control groups can be made here, and without them no container engine runs"
    return 77 # as tests/run understands it
  fi
  work=$(realpath "$(mktemp -d --tmpdir mooring-container.XXXXXX)")
  # Of containers that podman is asked for by its API it chooses the group itself.
  of_podman=()
  if [ -z "$(find /sys/fs/cgroup -name libpod_parent)" ]; then of_podman=(-o -path '*/libpod_parent*'); fi
  on_exit clear_below "$work"
  on_exit remove_cgroups
  unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$script" inside "$work" "$@"
}

# shellcheck disable=SC2317 # a hook
remove_cgroups() {
  find /sys/fs/cgroup -depth -type d \( -path "*/${work##*/}*" "${of_podman[@]}" \) -exec rmdir -- {} + || true
}
