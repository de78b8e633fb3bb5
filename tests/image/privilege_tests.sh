# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# The smallest set of privileges that works, and what each capability beyond it is for (docs/containers.md).

# No --privileged: one capability, loop devices, and the engine's own seccomp profile.
confined=(--cap-drop ALL --security-opt apparmor=unconfined --security-opt no-new-privileges --read-only)
device_rules=(--device-cgroup-rule 'b 7:* rwm' --device-cgroup-rule 'c 10:237 rwm')
least=("${confined[@]}" "${device_rules[@]}" --cap-add SYS_ADMIN)
# With all there is to have.
more=(CHOWN DAC_OVERRIDE FOWNER FSETID MKNOD)

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

# A volume's life, for each filesystem, a device, and a copy of what is in use.
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
  kubelet_publish "$1" reader --read-only
  is_block "$1" || take_snapshot "$1" # of a device in use no copy is of one instant
  kubelet_unpublish "$1" pod
  kubelet_unpublish "$1" reader
  kubelet_unstage "$1"
  kubelet_delete "$1"
}

take_snapshot() {
  csi snapshot create "snapshot-$1" --volume "$(id_of "$1")" --json >"$work/snapshot"
  csi snapshot delete "$(jq -r .snapshot.snapshot_id "$work/snapshot")"
}

smallest_set_does_in() {
  engine=$1
  use_host "least-$engine"
  start_with
  await_plugin "$socket"
  use_volumes >/dev/null
  stop_plugin "$engine" plugin
  leave_host
}

test_the_smallest_set_of_privileges_does_in_docker() { smallest_set_does_in docker; }
test_the_smallest_set_of_privileges_does_in_podman() { smallest_set_does_in podman; }

# What each capability beyond it is for: a call that fails without it.
stage_for_group() {
  kubelet_provision db 64MiB --mount-group 1234
  kubelet_stage db
}

use_CHOWN() { stage_for_group; }

# Where a task has made the volume's root directory its own.
use_FOWNER() {
  kubelet_provision db 64MiB
  kubelet_stage db
  chown 4321:1234 "$(staging_of db)"
  kubelet_unstage db
  record db use "--access single-node-multi-writer --mount-group 1234"
  kubelet_stage db
}

# The kernel leaves the bit out without a word.
use_FSETID() {
  stage_for_group || return
  [ -g "$(staging_of db)" ] && return
  say "the volume's root directory, of group $(stat -c %g "$(staging_of db)"), has no set-group-id bit" >&2
  return 1
}

use_DAC_OVERRIDE() {
  kubelet_provision db 64MiB
  kubelet_stage db
  mkdir -m 0700 "$root/pods/of-another-user"
  chown 4321 "$root/pods/of-another-user"
  csi publish "$(id_of db)" --staging-path "$(staging_of db)" --target-path "$root/pods/of-another-user/target" \
    --access single-node-multi-writer
}

# With a /dev of the container's own, which lacks the nodes of loop devices: of those that are there, and of new ones.
use_MKNOD() { use_loop_device; }
use_loop_device() { kubelet_provision db 64MiB && kubelet_stage db; }

# start_for CAPABILITY ADDED...: with the flags of everybody, but for MKNOD, which is about /dev.
start_for() {
  local flags=("${flags[@]}") index
  if [ "$1" = MKNOD ]; then
    for index in "${!flags[@]}"; do [ "${flags[index]}" != /dev:/dev ] || flags[index]=$host/records:/records; done
    flags+=(--device /dev/loop-control)
  fi
  start_with "${@:2}"
}

# The plugin is ready, and the call is done.
serves() { csi probe --wait 2 >/dev/null && "use_$1" >/dev/null; }

clean_up_db() {
  [ -e "$host/records/db.id" ] || return 0
  if [ -d "$root/pods/of-another-user" ]; then
    chown 0 "$root/pods/of-another-user"
    csi unpublish "$(id_of db)" --target-path "$root/pods/of-another-user/target"
    rmdir "$root/pods/of-another-user"
  fi
  kubelet_unstage db
  kubelet_delete db
}

# capability_is_for CAPABILITY WORDS: without it, with all others, the call fails with the WORDS; with it, it does not.
capability_is_for() {
  local others
  engine=docker
  use_host "capability-$1"
  mapfile -t others < <(printf '%s\n' "${more[@]}" | grep -vx "$1")
  start_for "$1" "${others[@]}"
  refused "$2" serves "$1"
  clean_up_db
  stop_plugin docker plugin
  start_for "$1" "${more[@]}"
  await_plugin "$socket"
  "use_$1"
  clean_up_db
  stop_plugin docker plugin
  leave_host
}

test_CHOWN_is_for_the_group_of_a_volume() { capability_is_for CHOWN "give the volume's root directory to group 1234"; }
test_FOWNER_is_for_the_group_of_a_volume_of_somebody() {
  capability_is_for FOWNER "give the volume's root directory to group 1234"
}
test_FSETID_is_for_the_group_of_a_volumes_files() { capability_is_for FSETID 'of group 1234, has no set-group-id bit'; }
test_DAC_OVERRIDE_is_for_targets_in_folders_of_others() { capability_is_for DAC_OVERRIDE 'Permission denied'; }
test_MKNOD_is_for_a_dev_of_its_own() { capability_is_for MKNOD "'/dev/loop"; }

# Without one of the three that the smallest set is made of.
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
  is_refused_with no-sys-admin 'Operation not permitted' "${confined[@]}" "${device_rules[@]}" "${others[@]}"
}
test_the_device_rules_are_for_loop_devices() {
  is_refused_with no-devices 'Operation not permitted' "${confined[@]}" --cap-add SYS_ADMIN
}
