# shellcheck shell=bash disable=SC2154 # run's
# Pools of directories with quota=enforced, on an xfs and an ext4 that enforce project quotas. The kernel of a container's
# host often has none. Tasks are the user 1000, because ext4 lets root with CAP_SYS_RESOURCE exceed a limit.
quota_socket=/run/quota/csi.sock
quota_csi() { inside env "CSI_ENDPOINT=unix://$quota_socket" mooring csi "$@"; }
quota_types=(xfs ext4)
declare -rA quota_makers=([xfs]='mkfs.xfs -q' [ext4]='mkfs.ext4 -q -O quota,project -E quotatype=prjquota')

start_quota_plugin() {
  local type pools=()
  for type in "${quota_types[@]}"; do pools+=(--pool "name=$type,backend=directory,path=/srv/quota/$type/pool,quota=enforced"); done
  run_quota_plugin "${pools[@]}" "$@"
  await "the plugin is ready" quota_csi probe
}

run_quota_plugin() {
  inside systemctl stop mooring-quota.service 2>/dev/null || true
  inside systemctl reset-failed mooring-quota.service 2>/dev/null || true
  inside mkdir -p "$(dirname "$quota_socket")"
  inside systemd-run --quiet --unit=mooring-quota mooring-plugin --endpoint "unix://$quota_socket" \
    --state-dir /var/lib/quota --node-id quota --mount-root /srv "$@"
}

# refused_at_start WORDS FLAG...: the plugin says so, and serves nothing but that reason.
refused_at_start() {
  local words=$1 since
  shift
  since=$(inside date +'%F %T')
  run_quota_plugin "$@"
  await "the start is refused with: $words" inside sh -c "journalctl --no-pager --since '$since' -u mooring-quota.service | grep -q '$words'"
  inside systemctl stop mooring-quota.service
}

mount_quota_pools() {
  local type
  inside modprobe quota_v2
  for type in "${quota_types[@]}"; do
    inside mkdir -p "/srv/quota/$type"
    inside mountpoint -q "/srv/quota/$type" || inside mount -o loop,prjquota "/srv/$type.img" "/srv/quota/$type"
  done
}

# created_on TYPE NAME SIZE: publishes a new volume at /srv/quota-NAME, and prints its id.
created_on() {
  local id
  id=$(quota_csi create "$2" --size "$3" --param "pool=$1" --json | jq -r .volume.volume_id)
  published "$id" "$2"
  inside chown 1000:1000 "/srv/quota-$2"
  echo "$id"
}

published() {
  inside mkdir -p "/srv/quota-stage-$2"
  quota_csi stage "$1" --staging-path "/srv/quota-stage-$2" >/dev/null
  quota_csi publish "$1" --staging-path "/srv/quota-stage-$2" --target-path "/srv/quota-$2" >/dev/null
}

removed_volume() {
  quota_csi unpublish "$1" --target-path "/srv/quota-$2"
  quota_csi unstage "$1" --staging-path "/srv/quota-stage-$2"
  quota_csi delete "$1"
}

as_task() { inside setpriv --reuid 1000 --regid 1000 --clear-groups sh -c "$1"; }
fits() { as_task "dd if=/dev/zero of=$1 bs=1M count=$2 conv=fsync 2>/dev/null"; }
does_not_fit() { if fits "$@"; then fail "$2 MiB fit into $1"; fi; }
size_of() { inside df --output=size -B1M "$1" | tail -n 1 | tr -d ' '; }

# The projects that have a usage or a limit, without that of all other files.
projects_of() { inside repquota -P -n "/srv/quota/$1" | grep -E '^#[1-9]' || true; }

problem_of() { quota_csi stats "$1" --path "/srv/quota-$2" --json | jq -r '.volume_condition | select(.abnormal) | .message'; }

test_q1_a_pool_without_enforcement_is_refused() {
  local type
  inside modprobe quota_v2
  for type in "${quota_types[@]}"; do
    inside truncate -s 400M "/srv/$type.img"
    # shellcheck disable=SC2086 # words
    inside ${quota_makers[$type]} "/srv/$type.img"
    inside mkdir -p "/srv/quota/$type"
    inside mount -o loop "/srv/$type.img" "/srv/quota/$type"
    refused_at_start 'does not enforce project quotas' --pool "name=a,backend=directory,path=/srv/quota/$type/pool,quota=enforced"
    inside mount -o remount,prjquota "/srv/quota/$type" || true
    refused_at_start 'because a remount changes nothing' --pool "name=a,backend=directory,path=/srv/quota/$type/pool,quota=enforced"
    run_quota_plugin --pool "name=a,backend=directory,path=/srv/quota/$type/pool,quota=advisory"
    await "the plugin is ready" quota_csi probe
    expect_match "the log" "$(inside journalctl --no-pager -u mooring-quota.service)" 'size not enforced'
    inside systemctl stop mooring-quota.service
    inside umount "/srv/quota/$type"
  done
  refused_at_start 'filesystem without project quotas' --pool "name=a,backend=directory,path=/run/pool,quota=enforced"
}

test_q2_a_task_is_held_to_the_size_of_its_volume() {
  local type id at
  mount_quota_pools
  start_quota_plugin
  for type in "${quota_types[@]}"; do
    id=$(created_on "$type" "$type" 32MiB)
    echo "$id" >"$work/quota-$type"
    at=/srv/quota-$type
    expect "the size that df shows" "$(size_of "$at")" 32
    expect "the size in the statistics" \
      "$(quota_csi stats "$id" --path "$at" --json | jq -r '.usage[] | select(.unit == "BYTES").total')" $((32 << 20))
    expect "the inodes" "$(inside df --output=itotal "$at" | tail -n 1 | tr -d ' ')" 2048
    fits "$at/kept" 20
    does_not_fit "$at/written" 20
    as_task "rm -f $at/written"
    if as_task "fallocate -l 20M $at/allocated 2>/dev/null"; then fail "fallocate got more than the size"; fi
    as_task "rm -f $at/allocated"
    if as_task "xfs_io -f -c 'truncate 20m' -c 'mmap -w 0 20m' -c 'mwrite 0 20m' -c fsync $at/mapped >/dev/null 2>&1"; then
      [ "$(inside du -m "$at/mapped" | cut -f 1)" -lt 13 ] || fail "a mapped write got more than the size"
    fi
    as_task "rm -f $at/mapped"
    if as_task "mkdir $at/many && cd $at/many && seq 3000 | xargs touch 2>/dev/null"; then fail "3000 files were made"; fi
    [ "$(inside sh -c "ls $at/many | wc -l")" -lt 2048 ] || fail "more files than inodes"
    as_task "rm -rf $at/many"
  done
}

test_q3_a_volume_grows_while_it_is_written_to() {
  local type id writer
  for type in "${quota_types[@]}"; do
    id=$(cat "$work/quota-$type")
    as_task "until dd if=/dev/zero of=/srv/quota-$type/more bs=1M count=30 conv=fsync 2>/dev/null; do sleep 1; done" &
    writer=$!
    quota_csi expand "$id" --size 64MiB
    wait "$writer" || fail "the writer failed"
    expect "the size" "$(size_of "/srv/quota-$type")" 64
    does_not_fit "/srv/quota-$type/third" 30
    as_task "rm -f /srv/quota-$type/third /srv/quota-$type/more"
    refused OUT_OF_RANGE quota_csi expand "$id" --size 10GiB
  done
}

test_q4_a_reboot_keeps_the_limits() {
  local type
  reboot_machine
  mount_quota_pools
  start_quota_plugin
  for type in "${quota_types[@]}"; do
    published "$(cat "$work/quota-$type")" "$type"
    expect "the size" "$(size_of "/srv/quota-$type")" 64
    does_not_fit "/srv/quota-$type/more" 60
    as_task "rm -f /srv/quota-$type/more"
    expect "the problem" "$(problem_of "$(cat "$work/quota-$type")" "$type")" ''
  done
}

# As after a restored backup: neither projects nor limits.
test_q5_lost_limits_are_told_and_set_again() {
  local type id
  for type in "${quota_types[@]}"; do
    id=$(cat "$work/quota-$type")
    inside setquota -P "$(projects_of "$type" | sed -n 's/^#\([0-9]*\) .*/\1/p')" 0 0 0 0 "/srv/quota/$type"
    inside chattr -R -P -p 0 "/srv/quota/$type/pool/$id"
    expect_match "the problem" "$(problem_of "$id" "$type")" 'has lost its limit'
  done
  start_quota_plugin
  for type in "${quota_types[@]}"; do
    id=$(cat "$work/quota-$type")
    expect "the problem" "$(problem_of "$id" "$type")" ''
    expect "the size" "$(size_of "/srv/quota-$type")" 64
    [ "$(inside df --output=used -B1M "/srv/quota-$type" | tail -n 1)" -ge 20 ] || fail "older files are not counted"
    does_not_fit "/srv/quota-$type/more" 50
    as_task "rm -f /srv/quota-$type/more"
  done
  # A filesystem that enforces nothing any more does not stop a plugin that has volumes there. New ones are refused.
  for type in "${quota_types[@]}"; do
    quota_csi unpublish "$(cat "$work/quota-$type")" --target-path "/srv/quota-$type"
    quota_csi unstage "$(cat "$work/quota-$type")" --staging-path "/srv/quota-stage-$type"
  done
  inside systemctl stop mooring-quota.service
  for type in "${quota_types[@]}"; do inside umount "/srv/quota/$type"; done
  # Without their disks the pools are empty, and belong to a disk that enforces nothing. Others are served.
  start_quota_plugin --pool name=other,backend=tmpfs,size=64MiB
  expect_match "the log" "$(inside journalctl --no-pager -u mooring-quota.service)" 'if its disk is not mounted'
  quota_csi delete "$(quota_csi create other --size 16MiB --param pool=other --json | jq -r .volume.volume_id)"
  for type in "${quota_types[@]}"; do
    refused 'if its disk is not mounted' quota_csi create "refused-$type" --size 16MiB --param "pool=$type"
    expect "what is made on the disk below" "$(inside find "/srv/quota/$type" -mindepth 1)" ''
  done
  inside systemctl stop mooring-quota.service
  for type in "${quota_types[@]}"; do inside mount -o loop "/srv/$type.img" "/srv/quota/$type"; done
  start_quota_plugin
  for type in "${quota_types[@]}"; do
    refused 'does not enforce project quotas' quota_csi create refused --size 16MiB --param "pool=$type"
    expect_match "the problem" "$(quota_csi get "$(cat "$work/quota-$type")" --json | jq -r .status.volume_condition.message)" \
      'has lost its limit'
  done
  inside systemctl stop mooring-quota.service
  for type in "${quota_types[@]}"; do inside umount "/srv/quota/$type"; done
  mount_quota_pools
  start_quota_plugin
}

# docs/security.md says so: the limit is against accidents. The quotas of others stay as they are.
test_q6_a_hostile_task_can_leave_its_limit() {
  local type at
  for type in "${quota_types[@]}"; do
    published "$(cat "$work/quota-$type")" "$type"
    at=/srv/quota-$type
    as_task "mkdir $at/out"
    if as_task "unshare --user --map-root-user chattr -p 0 $at/out 2>/dev/null"; then fail "a user namespace did not help"; fi
    as_task "chattr -P -p 0 $at/out"
    fits "$at/out/file" 80
    if as_task "mv $at/kept /srv/quota/$type/ 2>/dev/null"; then fail "a task moved a file out of its volume"; fi
    as_task "rm -r $at/out"
  done
}

# Plugin and mounter are killed at times that differ, while volumes are made, grown and deleted.
test_q7_a_kill_leaves_nothing() {
  local type round
  for type in "${quota_types[@]}"; do
    for round in 1 2 3 4 5 6 7 8; do
      inside sh -c "export CSI_ENDPOINT=unix://$quota_socket
        (id=\$(mooring csi create killed-$type --size 16MiB --param pool=$type --json 2>/dev/null | jq -r .volume.volume_id)
         mooring csi expand \$id --size 20MiB; mooring csi delete \$id) >/dev/null 2>&1 &
        sleep $((round % 3)).$((round * 37 % 89 + 10)); systemctl kill --signal=KILL mooring-quota.service; wait" || true
      start_quota_plugin
    done
    # An orchestrator repeats its call until it ends.
    quota_csi delete "$(quota_csi create "killed-$type" --size 16MiB --param "pool=$type" --json | jq -r .volume.volume_id)"
    expect "the directories" "$(inside ls "/srv/quota/$type/pool")" "$(cat "$work/quota-$type")"
    expect "the number of projects" "$(projects_of "$type" | wc -l)" 1
  done
}

test_q8_a_deleted_volume_leaves_no_limit() {
  local type
  for type in "${quota_types[@]}"; do
    removed_volume "$(cat "$work/quota-$type")" "$type"
    expect "the projects" "$(projects_of "$type")" ''
    expect "the directories" "$(inside ls -A "/srv/quota/$type/pool")" ''
  done
}

test_q8b_a_clone_is_held_to_its_size() {
  local type id copy
  for type in "${quota_types[@]}"; do
    id=$(created_on "$type" "cloned-$type" 32MiB)
    fits "/srv/quota-cloned-$type/kept" 20
    refused 'in use' quota_csi create "copy-$type" --size 32MiB --from-volume "$id"
    quota_csi unpublish "$id" --target-path "/srv/quota-cloned-$type"
    quota_csi unstage "$id" --staging-path "/srv/quota-stage-cloned-$type"
    copy=$(quota_csi create "copy-$type" --size 32MiB --from-volume "$id" --json | jq -r .volume.volume_id)
    published "$copy" "copy-$type"
    inside cmp "/srv/quota/$type/pool/$id/kept" "/srv/quota-copy-$type/kept"
    does_not_fit "/srv/quota-copy-$type/more" 20
    removed_volume "$copy" "copy-$type"
    quota_csi delete "$id"
  done
}

test_q9_csi_sanity_passes() {
  start_quota_plugin --max-volumes 16 --volume-mount-group \
    --pool name=default,backend=directory,path=/srv/quota/xfs/sanity,quota=enforced
  sanity_passes quota "$quota_socket" 16 32
  expect "what is left in the pool" "$(inside ls -A /srv/quota/xfs/sanity)" ''
  expect "the projects" "$(projects_of xfs)" ''
}

# Single calls of the mounter, also with other users of a project.
test_qa_the_kernel_tests_of_quotas_pass() {
  inside systemctl stop mooring-quota.service
  inside mkdir -p "$MOORING_ROOT/build/release"
  inside mountpoint -q "$MOORING_ROOT/build/release" || inside mount -t 9p -o ro,msize=262144 build "$MOORING_ROOT/build/release"
  inside "$MOORING_ROOT/build/release/bin/kernel_tests" --gtest_filter='*QuotaTest.*' | tee "$work/quota-kernel"
  ! grep -q SKIPPED "$work/quota-kernel" || fail "some were skipped"
}
