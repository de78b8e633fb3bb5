# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# Tests which mounts containers of tasks see, through a bind of the target with each propagation, and of the folder
# above targets. The plugin's container comes and goes meanwhile.

propagations=(rprivate rslave rshared)

start_tasks() {
  local propagation flags_of_task
  for propagation in "${propagations[@]}"; do
    kubelet_publish db "$propagation" >/dev/null
    flags_of_task=(-v "$(target_of db "$propagation"):/data:$propagation")
    [ "$propagation" != rshared ] || flags_of_task+=(--privileged) # to mount in it
    start_task "$engine" "task-$propagation" "${flags_of_task[@]}"
    start_task "$engine" "folder-$propagation" -v "$root/pods:/pods:$propagation"
  done
}

end_tasks() {
  local propagation
  for propagation in "${propagations[@]}"; do
    end_task "$engine" "folder-$propagation"
    end_task "$engine" "task-$propagation"
    kubelet_unpublish db "$propagation" >/dev/null
  done
}

# Each task sees only the volume's own mount, with every propagation.
expect_own_volume() {
  local propagation word=$1
  in_task "$engine" task-rprivate sh -c "echo $word >/data/file"
  for propagation in "${propagations[@]}"; do
    expect "$word: the mounts of the task with $propagation" "$(mounts_in_task "$engine" "task-$propagation" /data)" /data
    expect "$word: what it reads" "$(in_task "$engine" "task-$propagation" cat /data/file)" "$word"
    expect "$word: what the host reads" "$(kubelet_read db "$propagation")" "$word"
  done
}

# Mounts of the host below a volume reach all tasks except the private one.
expect_mounts_to_come_in() {
  local propagation below wanted
  for propagation in "${propagations[@]}"; do
    below=$(target_of db "$propagation")/below
    mkdir -p "$below"
    mount -t tmpfs below "$below"
    wanted=$'/data\n/data/below'
    [ "$propagation" != rprivate ] || wanted=/data
    expect "$1: below a volume with $propagation" "$(mounts_in_task "$engine" "task-$propagation" /data)" "$wanted"
    umount "$below"
    rmdir "$below"
  done
}

# Mounts of the task with rshared reach the host, and no other volume.
expect_mounts_to_come_out() {
  local target
  in_task "$engine" task-rshared mkdir /data/own
  in_task "$engine" task-rshared mount -t tmpfs own /data/own
  target=$(target_of db rshared)
  expect "$1: below the volume on the host" "$(mounts_below "$target")" "$target/own"
  expect "$1: below the task's with rslave" "$(mounts_in_task "$engine" task-rslave /data)" /data
  in_task "$engine" task-rshared umount /data/own
  expect "$1: when it is gone" "$(mounts_below "$target")" ''
  in_task "$engine" task-rshared rmdir /data/own
}

# A volume that is published later reaches a running task only through the folder of all targets.
expect_new_volumes_to_come_in() {
  local propagation wanted inside
  kubelet_publish db "$1" >/dev/null
  inside=/pods/${1}/volumes/kubernetes.io~csi/db/mount
  for propagation in "${propagations[@]}"; do
    wanted=$inside
    [ "$propagation" != rprivate ] || wanted=''
    expect "$1: a new volume in a folder with $propagation" \
      "$(mounts_in_task "$engine" "folder-$propagation" "/pods/$1")" "$wanted"
  done
  kubelet_unpublish db "$1" >/dev/null
  for propagation in "${propagations[@]}"; do
    expect "$1: when it is gone" "$(mounts_in_task "$engine" "folder-$propagation" "/pods/$1")" ''
  done
}

expect_all() {
  expect_own_volume "$1"
  expect_mounts_to_come_in "$1"
  expect_mounts_to_come_out "$1"
  expect_new_volumes_to_come_in "$1"
}

tasks_see_mounts_by_their_propagation_in() {
  engine=$1
  use_host "tasks-$engine"
  start_plugin "$engine" plugin "$plugin_image" "${flags[@]}"
  await_plugin "$socket"
  kubelet_provision db 64MiB
  kubelet_stage db >/dev/null
  start_tasks
  expect_all started
  kill_plugin "$engine" plugin
  expect_own_volume killed
  kubelet_start_plugin
  expect_all restarted
  upgrade_plugin "$engine" plugin "$next_image"
  await_plugin "$socket"
  expect_all upgraded
  end_tasks
  kubelet_unstage db >/dev/null
  kubelet_delete db >/dev/null
  stop_plugin "$engine" plugin
  leave_host
}

test_tasks_see_mounts_by_their_propagation_in_docker() { tasks_see_mounts_by_their_propagation_in docker; }
test_tasks_see_mounts_by_their_propagation_in_podman() { tasks_see_mounts_by_their_propagation_in podman; }

# A task with rshared ends without unmounting. Its mounts on the host are removed with the volume.
test_mounts_left_by_a_task_are_removed_with_the_volume() {
  engine=docker
  use_host leftover
  start_plugin docker plugin "$plugin_image" "${flags[@]}"
  await_plugin "$socket"
  kubelet_provision db 64MiB
  kubelet_stage db >/dev/null
  kubelet_publish db untidy >/dev/null
  start_task docker untidy --privileged -v "$(target_of db untidy):/data:rshared"
  in_task docker untidy mkdir /data/own
  in_task docker untidy mount -t tmpfs own /data/own
  end_task docker untidy
  expect "what is left on the host" "$(mounts_below "$(target_of db untidy)")" "$(target_of db untidy)/own"
  kubelet_unpublish db untidy >/dev/null
  kubelet_unstage db >/dev/null
  kubelet_delete db >/dev/null
  stop_plugin docker plugin
  leave_host
}
