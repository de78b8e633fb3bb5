# shellcheck shell=bash disable=SC2154 # work and MOORING_ROOT are run's
# A real systemd as the first process of its own namespaces, in its own root, for the parts that source this file. It sees
# only the units of the part, and cannot change this machine. The part gives start_machine a script that fills the root
# (become-systemd).

cgroup=$work/cgroup/${work##*/}

skip() {
  say "skipped: $*"
  exit 77 # as tests/run understands it
}

# Version 2 of control groups: systemd can have it beside the version that this machine uses.
make_cgroup() {
  if ! { mount -t cgroup2 cgroup2 "$work/cgroup" && mkdir "$cgroup"; } 2>"$work/console.log"; then
    skip "no control groups can be made here, and without them no systemd runs"
  fi
  on_exit remove_cgroup
}

# shellcheck disable=SC2317 # a hook
remove_cgroup() {
  (await "the end of all that systemd ran" grep -qx 'populated 0' "$cgroup/cgroup.events") || true # the rest has to go, too
  find "$cgroup" -depth -type d -exec rmdir -- {} +
  umount "$work/cgroup"
}

# start_machine SCRIPT. systemd is the child of unshare; what is left in the namespaces ends with it.
start_machine() {
  mkdir "$work/root" "$work/cgroup"
  : >"$work/console.log"
  make_cgroup
  bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' start "$cgroup" \
    unshare --cgroup --mount --propagation private --pid --fork --kill-child --uts --ipc \
    "$MOORING_ROOT/tests/systemd/become-systemd" "$work" "$MOORING_ROOT" "$1" >>"$work/console.log" 2>&1 </dev/null &
  unshare_pid=$!
  on_exit end_machine
  await "systemd answers" inside systemctl is-system-running --wait
}

# shellcheck disable=SC2317 # a hook
end_machine() {
  kill -KILL "$unshare_pid"
  wait "$unshare_pid" 2>/dev/null || true
}

# inside COMMAND...: in systemd's namespaces.
inside() {
  local process
  process=$(cat "/proc/$unshare_pid/task/$unshare_pid/children") && [ -n "$process" ] || return
  nsenter --target "${process% }" --mount --pid --uts --ipc --root \
    env -i --chdir=/ PATH=/usr/sbin:/usr/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive SYSTEMD_PAGER= "$@"
}

property() { inside systemctl show --value --property "$2" "$1"; }
is_mounted() { inside findmnt --noheadings --mountpoint "$1"; }
