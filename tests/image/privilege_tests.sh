# shellcheck shell=bash disable=SC2119,SC2120,SC2154 # work, bin, here and patience are run's; more_tests.sh gives start_with words
# The smallest set of privileges that works (docs/containers.md); what each capability beyond it is for: more_tests.sh.

# Without --privileged: a single capability, loop devices, and the engine's own seccomp profile.
confined=(--cap-drop ALL --security-opt apparmor=unconfined --security-opt no-new-privileges --read-only)
device_rules=(--device-cgroup-rule 'b 7:* rwm' --device-cgroup-rule 'c 10:237 rwm')
least=("${confined[@]}" "${device_rules[@]}" --cap-add SYS_ADMIN)
# Further capabilities.
more=(CHOWN DAC_OVERRIDE FOWNER FSETID MKNOD SETGID SETUID)

with() {
  local capability
  for capability; do printf -- '--cap-add\n%s\n' "$capability"; done
}

# start_with CAPABILITY...: beyond the least. It is not waited for.
start_with() {
  local added
  mapfile -t added < <(with "$@")
  [ "$engine" != podman ] || added+=(--security-opt unmask=/sys/dev/block) # which podman hides, and xfs is measured by
  start_container "$engine" plugin "$plugin_image" "${least[@]}" "${added[@]}" "${flags[@]}"
}

# Uses a volume of each filesystem, with a snapshot while it is in use, and a block volume.
use_volumes() {
  local fs_type
  for fs_type in ext4 xfs btrfs; do
    kubelet_provision "$fs_type" 320MiB --fs-type "$fs_type"
    use_volume "$fs_type"
  done
  kubelet_provision device 64MiB --block
  use_volume device
}

use_volume() {
  kubelet_stage "$1"
  kubelet_publish "$1" pod
  ! is_block "$1" || kubelet_unpublish "$1" pod # a block volume has readers or writers
  kubelet_publish "$1" reader --read-only
  is_block "$1" || take_snapshot "$1" # of a device in use no copy is of one instant
  is_block "$1" || kubelet_unpublish "$1" pod
  kubelet_unpublish "$1" reader
  kubelet_unstage "$1"
  kubelet_delete "$1"
}

take_snapshot() {
  csi snapshot create "snapshot-$1" --volume "$(id_of "$1")" --json >"$work/snapshot"
  csi snapshot delete "$(jq -r .snapshot.snapshot_id "$work/snapshot")"
}

smallest_set_works_in() {
  engine=$1
  use_host "least-$engine"
  start_with
  await_plugin "$socket"
  use_volumes >/dev/null
  stop_plugin "$engine" plugin
  leave_host
}

test_the_smallest_set_of_privileges_works_in_docker() { smallest_set_works_in docker; }
test_the_smallest_set_of_privileges_works_in_podman() { smallest_set_works_in podman; }

use_loop_device() { kubelet_provision db 64MiB && kubelet_stage db; }

# The plugin becomes ready, and the call succeeds.
serves() { csi probe --wait 2 >/dev/null && "use_$1" >/dev/null; }

# is_refused_with NAME WORDS FLAG...: a container with a part of the smallest set. A call fails with the WORDS.
is_refused_with() {
  engine=docker
  use_host "$1"
  start_container docker plugin "$plugin_image" "${@:3}" "${flags[@]}"
  refused "$2" serves loop_device
  kill_plugin docker plugin
  expect_nothing_left "$host"
}

test_SYS_ADMIN_is_for_mounts() {
  local others
  mapfile -t others < <(with "${more[@]}")
  is_refused_with no-sys-admin 'nothing can be mounted without CAP_SYS_ADMIN' "${confined[@]}" "${device_rules[@]}" "${others[@]}"
}
test_the_device_rules_are_for_loop_devices() {
  is_refused_with no-devices 'Operation not permitted' "${confined[@]}" --cap-add SYS_ADMIN
}
