# shellcheck shell=bash disable=SC2154 # run's
# Pools with backend=lvm, in volume groups on files of the machine. Group `data` has a thin pool for use, and a small one
# that is filled. Group `slow` lies on a device that knows no write-zeroes command, so that clearing writes each block and
# takes a while. Group `late` goes away. These tests need test_a2.
lvm_socket=/run/lvm-test/csi.sock
lvm_csi() { inside env "CSI_ENDPOINT=unix://$lvm_socket" mooring csi "$@"; }
lvm_pools=(
  --pool "name=thick,backend=lvm,vg=data"
  --pool "name=thin,backend=lvm,vg=data,thinpool=thin"
  --pool "name=tight,backend=lvm,vg=data,thinpool=tight"
  --pool "name=raw,backend=lvm,vg=slow"
  --pool "name=late,backend=lvm,vg=late"
  --pool "name=images,backend=image,path=/var/lib/lvm-images"
)

attach_lvm_file() { inside losetup --find --show "/root/lvm-$1.img"; }

make_lvm_groups() {
  local device
  inside modprobe -a dm_thin_pool dm_delay
  # A tenant's group, of the name of a pool's.
  inside truncate -s 32M /root/lvm-tenant.img
  device=$(attach_lvm_file tenant)
  inside vgcreate -q slow "$device"
  inside lvcreate -q -an -Zn -Wn -n inside -l 100%FREE slow
  inside losetup --detach "$device"
  inside truncate -s 1900M /root/lvm-data.img
  inside truncate -s 258M /root/lvm-slow.img
  inside truncate -s 65M /root/lvm-late.img
  device=$(attach_lvm_file slow)
  # Behind the first MiB, or lvm would find the disk on both devices.
  inside dmsetup create lvm-test-slow --table "0 $((257 << 11)) delay $device 2048 0 $device 2048 5"
  inside vgcreate -q slow /dev/mapper/lvm-test-slow
  inside vgcreate -q data "$(attach_lvm_file data)"
  inside vgcreate -q late "$(attach_lvm_file late)"
  inside lvcreate -q -y --type thin-pool -L 600M -n thin data
  inside lvcreate -q -y --type thin-pool -L 64M -n tight data
}

stop_lvm_plugin() {
  inside systemctl stop mooring-lvm.service 2>/dev/null || true
  inside systemctl reset-failed mooring-lvm.service 2>/dev/null || true
}

start_lvm_plugin() {
  stop_lvm_plugin
  inside mkdir -p "$(dirname "$lvm_socket")"
  inside systemd-run --quiet --unit=mooring-lvm mooring-plugin --endpoint "unix://$lvm_socket" \
    --state-dir /var/lib/lvm-test --node-id lvm --mount-root /srv "${lvm_pools[@]}"
  await "the plugin is ready" lvm_csi probe
}

# lvm_volume POOL NAME SIZE FLAG...: creates a volume, and prints its id.
lvm_volume() {
  local pool=$1 name=$2 size=$3
  shift 3
  lvm_csi create "$name" --size "$size" --param "pool=$pool" "$@" --json | jq -r .volume.volume_id
}

# lvm_published ID NAME FLAG...: at /srv/lvm-NAME.
lvm_published() {
  local id=$1 name=$2
  shift 2
  inside mkdir -p "/srv/lvm-stage-$name"
  lvm_csi stage "$id" --staging-path "/srv/lvm-stage-$name" "$@"
  lvm_csi publish "$id" --staging-path "/srv/lvm-stage-$name" --target-path "/srv/lvm-$name" "$@"
}

lvm_unpublished() {
  lvm_csi unpublish "$1" --target-path "/srv/lvm-$2"
  lvm_csi unstage "$1" --staging-path "/srv/lvm-stage-$2"
}

lvm_removed() {
  lvm_unpublished "$@"
  lvm_csi delete "$1"
}

# lvm_shown GROUP FIELD: of each logical volume of Mooring, a line.
lvm_shown() {
  inside lvs --noheadings --separator ' | ' -o "lv_tags,$2" "$1" | sed -nE 's/^ *mooring(,[^ ]*)? \| //p' | sort
}

# The name below /dev/mapper.
lvm_device() { printf '%s-%s\n' "$1" "${2//-/--}"; }

lvm_mappings() { inside sh -c "dmsetup ls | grep -c '^$1' || true"; }

# expect_zeros FILE SKIP SIZE, in MiB.
expect_zeros() {
  inside cmp -n "$(($3 << 20))" -i "$(($2 << 20)):0" "$1" /dev/zero || fail "$1 is not empty from $2 MiB on"
}

lvm_condition() { lvm_csi get "$1" --json | jq -r '.status.volume_condition | select(.abnormal) | .message'; }

foreign=vol-00000000000000000000000000000001

test_l1_volumes_are_logical_volumes() {
  local type id
  make_lvm_groups
  inside lvcreate -q -y -L 4M -n "$foreign" data
  inside sh -c "echo foreign | dd of=/dev/data/$foreign conv=fsync status=none"
  start_lvm_plugin
  for type in ext4 btrfs; do
    id=$(lvm_volume thick "$type" 109MiB --fs-type "$type")
    expect "its size" "$(inside lvs --noheadings --units m --nosuffix -o lv_size "data/$id" | tr -d ' ')" 112.00
    expect "its tags" "$(lvm_shown data lv_tags)" mooring
    lvm_published "$id" used
    lvm_csi stage "$id" --staging-path /srv/lvm-stage-used
    expect "the filesystem" "$(inside findmnt -n -o FSTYPE /srv/lvm-used)" "$type"
    inside sh -c 'echo kept >/srv/lvm-used/kept' # nobody syncs it
    refused FAILED_PRECONDITION lvm_csi delete "$id"
    lvm_unpublished "$id" used
    expect "the mounts" "$(inside sh -c 'grep -c " /srv/lvm-" /proc/self/mountinfo || true')" 0
    lvm_published "$id" used
    expect "the content" "$(content /srv/lvm-used/kept)" kept
    lvm_removed "$id" used
    expect "the volumes after the deletion" "$(lvm_shown data lv_name)" ''
    expect "the mappings after the deletion" "$(lvm_mappings "$(lvm_device data "$id")")" 0
  done
  id=$(lvm_volume thick taken 16MiB)
  inside lvchange -q --deltag mooring "data/$id"
  refused 'add the tag' lvm_csi delete "$id"
  inside lvchange -q --addtag mooring "data/$id"
  lvm_csi delete "$id"
  expect "the content of a logical volume of others" "$(inside head -c 7 "/dev/data/$foreign")" foreign
  inside lvremove -q -f "data/$foreign"
}

# The free space of the group is full of the data of others.
test_l2_a_raw_volume_shows_nothing_of_others() {
  local id
  inside lvcreate -q -y -l 100%FREE -n scratch slow
  inside sh -c 'tr "\000" "\252" </dev/zero | dd of=/dev/slow/scratch bs=1M iflag=fullblock conv=fsync status=none || true'
  expect "the last byte of the group" "$(inside sh -c 'tail -c 1 /dev/slow/scratch | od -A n -t x1' | tr -d ' ')" aa
  inside lvremove -q -f slow/scratch

  id=$(lvm_volume raw files 32MiB)
  inside mkdir -p /srv/lvm-stage-files
  refused 'made for a filesystem' inside sh -c "export CSI_ENDPOINT=unix://$lvm_socket
    mooring csi stage $id --staging-path /srv/lvm-stage-files --block &&
    mooring csi publish $id --staging-path /srv/lvm-stage-files --target-path /srv/lvm-files --block"
  lvm_csi unstage "$id" --staging-path /srv/lvm-stage-files
  lvm_csi delete "$id"

  id=$(lvm_volume raw zeros 96MiB --block)
  echo "$id" >"$work/l-raw"
  expect "its tags" "$(lvm_shown slow lv_tags)" mooring,mooring_cleared_100663296
  lvm_published "$id" raw --block
  expect "the size" "$(inside blockdev --getsize64 /srv/lvm-raw)" $((96 << 20))
  expect_zeros /srv/lvm-raw 0 96
  # Nobody has it open, but its number must not become another volume's.
  refused 'in use' inside lvchange -an "slow/$id"
}

test_l3_volumes_grow() {
  local id type
  id=$(cat "$work/l-raw")
  inside sh -c 'echo kept | dd of=/srv/lvm-raw conv=notrunc,fsync status=none'
  refused FAILED_PRECONDITION lvm_csi expand "$id" --size 160MiB
  lvm_unpublished "$id" raw
  expect "the holders" "$(inside pgrep -xc mooring-hold || true)" 0
  lvm_csi expand "$id" --size 160MiB
  lvm_published "$id" raw --block
  expect "the size" "$(inside blockdev --getsize64 /srv/lvm-raw)" $((160 << 20))
  expect "the content" "$(inside head -c 4 /srv/lvm-raw)" kept
  expect_zeros /srv/lvm-raw 96 64
  lvm_unpublished "$id" raw

  # Somebody else enlarges it, and uses what is new. No call clears that.
  inside lvextend -q -L 176M "slow/$id"
  inside sh -c "printf theirs | dd of=/dev/slow/$id bs=1M seek=170 conv=notrunc,fsync status=none"
  inside mkdir -p /srv/lvm-stage-raw
  lvm_csi stage "$id" --staging-path /srv/lvm-stage-raw --block
  refused 'enlarged by another program' lvm_csi publish "$id" --staging-path /srv/lvm-stage-raw --target-path /srv/lvm-raw --block
  lvm_csi unstage "$id" --staging-path /srv/lvm-stage-raw
  refused 'lvchange --deltag' lvm_csi expand "$id" --size 192MiB
  refused 'lvchange --deltag' lvm_csi expand "$id" --size 176MiB
  inside lvchange -q --deltag "mooring_cleared_$((160 << 20))" --addtag "mooring_cleared_$((176 << 20))" "slow/$id"

  # A growth ended before it had added anything. Its note must not make somebody else's part Mooring's.
  inside lvchange -q --addtag mooring_growing "slow/$id"
  inside lvchange -q -an "slow/$id"
  lvm_csi stage "$id" --staging-path /srv/lvm-stage-raw --block
  expect "its tags" "$(lvm_shown slow lv_tags)" "mooring,mooring_cleared_$((176 << 20)),mooring_raw"
  lvm_csi unstage "$id" --staging-path /srv/lvm-stage-raw

  # A growth is interrupted before it has cleared anything.
  inside lvchange -q --addtag mooring_growing "slow/$id"
  inside lvextend -q -L 192M "slow/$id"
  refused 'was interrupted' lvm_csi stage "$id" --staging-path /srv/lvm-stage-raw --block
  expect_match "its condition" "$(lvm_condition "$id")" 'was interrupted'
  lvm_csi expand "$id" --size 192MiB
  expect "its tags" "$(lvm_shown slow lv_tags)" "mooring,mooring_cleared_$((192 << 20)),mooring_raw"
  lvm_published "$id" raw --block
  expect "the content" "$(inside head -c 4 /srv/lvm-raw)" kept
  expect "what they wrote" "$(inside sh -c 'tail -c +178257921 /srv/lvm-raw | head -c 6')" theirs
  expect_zeros /srv/lvm-raw 176 16
  lvm_removed "$id" raw
  expect "what is left" "$(lvm_shown slow lv_name)" ''

  # The extents hold what others wrote. The volume has no filesystem yet when it grows.
  id=$(lvm_volume raw early 48MiB)
  lvm_csi expand "$id" --size 240MiB
  lvm_published "$id" early
  lvm_removed "$id" early

  # lvm would remove the snapshots of others with their origin.
  id=$(lvm_volume thick origin 64MiB)
  inside lvcreate -q -s -L 8M -n backup "data/$id"
  refused "snapshots that are not Mooring's" lvm_csi delete "$id"
  inside lvs --noheadings data/backup
  inside lvremove -q -f data/backup
  lvm_csi delete "$id"

  for type in ext4 xfs; do
    id=$(lvm_volume thick "$type" 300MiB --fs-type "$type")
    lvm_published "$id" grown
    inside sh -c 'echo kept >/srv/lvm-grown/kept'
    refused OUT_OF_RANGE lvm_csi expand "$id" --size 401MiB --limit 402MiB # no multiple of an extent
    lvm_csi expand "$id" --size 400MiB
    lvm_csi node-expand "$id" --path /srv/lvm-grown
    [ "$(inside df --output=size -B1M /srv/lvm-grown | tail -n 1)" -gt 310 ] || fail "it did not grow: $(inside df -h /srv/lvm-grown)"
    # systemd must not unmount what udev hides.
    inside udevadm trigger --action=change --subsystem-match=block --sysname-match='dm-*'
    inside udevadm settle
    expect "the content" "$(content /srv/lvm-grown/kept)" kept
    inside udevadm trigger --action=add --subsystem-match=block --sysname-match='dm-*'
    inside udevadm settle
    sleep 2 # systemd would unmount on its own
    expect "the content after another event" "$(content /srv/lvm-grown/kept)" kept
    lvm_removed "$id" grown
  done
}

# Both copies are mounted beside their source, so their filesystems need other UUIDs.
test_l4_thin_volumes_are_copied_in_use() {
  local id snapshot copy twin
  id=$(lvm_volume thin source 300MiB --fs-type xfs)
  lvm_published "$id" source
  inside sh -c 'echo before >/srv/lvm-source/data' # nobody syncs it
  snapshot=$(lvm_csi snapshot create before --volume "$id" --json | jq -r .snapshot.snapshot_id)
  inside sh -c 'echo after >/srv/lvm-source/data'
  copy=$(lvm_volume thin copy 300MiB --fs-type xfs --from-snapshot "$snapshot")
  twin=$(lvm_volume thin twin 300MiB --fs-type xfs --from-volume "$id")
  lvm_published "$copy" copy
  lvm_published "$twin" twin
  expect "the content of the source" "$(content /srv/lvm-source/data)" after
  expect "the content of the snapshot's copy" "$(content /srv/lvm-copy/data)" before
  expect "the content of the volume's copy" "$(content /srv/lvm-twin/data)" after
  refused FAILED_PRECONDITION lvm_csi group-snapshot create both --volume "$copy" --volume "$twin"
  expect "the active snapshots" "$(inside lvs --noheadings -o lv_active "data/$snapshot" | tr -d ' ')" ''

  lvm_removed "$id" source
  lvm_csi snapshot delete "$snapshot"
  expect "the content of the copy without its source" "$(content /srv/lvm-copy/data)" before
  inside sh -c 'echo more >/srv/lvm-copy/more && sync /srv/lvm-copy/more'
  lvm_removed "$copy" copy
  lvm_removed "$twin" twin
  expect "what is left" "$(lvm_shown data lv_name)" ''
}

test_l4a_the_bandwidth_of_a_task_can_be_limited() { expect_limits_work lvm thick thin; }

test_l5_a_thin_pool_that_is_nearly_full_takes_nothing_new() {
  local id
  inside lvchange -q -Zn data/tight
  refused 'lvchange -Zy' lvm_csi create dirty --size 16MiB --param pool=tight
  inside lvchange -q -Zy data/tight

  id=$(lvm_volume tight filled 64MiB --block)
  lvm_published "$id" filled --block
  expect "its problem" "$(lvm_condition "$id")" ''
  inside dd if=/dev/urandom of=/srv/lvm-filled bs=1M count=62 conv=fsync,notrunc status=none
  refused RESOURCE_EXHAUSTED lvm_csi create more --size 4MiB --block --param pool=tight
  refused RESOURCE_EXHAUSTED lvm_csi snapshot create more --volume "$id"
  refused RESOURCE_EXHAUSTED lvm_csi create more --size 64MiB --block --param pool=tight --from-volume "$id"
  expect_match "its problem" "$(lvm_condition "$id")" 'full'
  expect "the logical volumes" "$(lvm_shown data lv_name)" "$id"
  lvm_removed "$id" filled
  lvm_csi delete "$(lvm_volume tight again 16MiB)"
}

# As a reboot: no mount, no mapping, and udev finds the group anew.
test_l6_volumes_are_there_after_a_reboot() {
  local pool id
  for pool in thick thin; do
    id=$(lvm_volume "$pool" "boot-$pool" 64MiB)
    echo "$id" >"$work/l-boot-$pool"
    lvm_published "$id" "boot-$pool"
    inside sh -c "echo kept >/srv/lvm-boot-$pool/kept"
  done
  stop_lvm_plugin
  for pool in thick thin; do inside umount "/srv/lvm-boot-$pool" "/srv/lvm-stage-boot-$pool"; done
  inside vgchange -q -an data
  inside losetup --detach "$(inside losetup --noheadings --output NAME --associated /root/lvm-data.img)"
  attach_lvm_file data >/dev/null
  inside udevadm settle
  sleep 5 # systemd starts the activation on its own
  expect "what the host has activated" "$(lvm_shown data lv_active | tr -d '\n')" ''
  start_lvm_plugin
  expect "what the plugin has activated" "$(lvm_shown data lv_active | paste -sd ' ')" 'active active'
  for pool in thick thin; do
    id=$(cat "$work/l-boot-$pool")
    lvm_published "$id" "boot-$pool"
    expect "the content" "$(content "/srv/lvm-boot-$pool/kept")" kept
    lvm_removed "$id" "boot-$pool"
  done
}

test_l7_a_missing_group_delays_no_other_pool() {
  local id
  id=$(lvm_volume late away 16MiB)
  lvm_published "$id" away
  inside sh -c 'echo kept >/srv/lvm-away/kept'
  lvm_unpublished "$id" away
  stop_lvm_plugin
  inside vgchange -q -an late
  inside losetup --detach "$(inside losetup --noheadings --output NAME --associated /root/lvm-late.img)"
  start_lvm_plugin
  refused UNAVAILABLE lvm_csi create other --size 16MiB --param pool=late
  expect_match "the reason" "$(lvm_csi create other --size 16MiB --param pool=late 2>&1 || true)" '[Vv]olume group [^a-z]*late'
  refused UNAVAILABLE lvm_csi stage "$id" --staging-path /srv/lvm-stage-away
  refused UNAVAILABLE lvm_csi delete "$id"
  lvm_csi delete "$(lvm_volume thick other 16MiB)"
  attach_lvm_file late >/dev/null
  await "the group is back" lvm_csi stage "$id" --staging-path /srv/lvm-stage-away
  lvm_published "$id" away
  expect "the content" "$(content /srv/lvm-away/kept)" kept
  lvm_removed "$id" away
}

# killed_creation: kills the mounter while it clears. Fails if the creation was quicker.
# shellcheck disable=SC2016 # for the shell there
killed_creation() {
  inside sh -c 'export CSI_ENDPOINT=unix://$1
    mooring csi create killed --size 200MiB --block --param pool=raw >/dev/null 2>&1 &
    until lvs --noheadings -o lv_tags slow | grep -q mooring_new || ! kill -0 $! 2>/dev/null; do :; done
    for process in $(cat /sys/fs/cgroup/system.slice/mooring-lvm.service/cgroup.procs); do
      if grep -qx mooring-mounter "/proc/$process/comm"; then kill -KILL "$process"; fi
    done
    ! wait $!' sh "$lvm_socket"
}

test_l8_a_kill_while_a_volume_is_cleared_leaves_nothing() {
  local round id
  for round in 1 2 3 4 5 6; do
    if killed_creation; then break; fi
    [ "$round" -lt 6 ] || fail "no kill met a creation"
    lvm_csi delete "$(lvm_volume raw killed 200MiB --block)"
  done
  # An orchestrator repeats its call until it ends.
  await "the repeated creation succeeds" lvm_csi create killed --size 200MiB --block --param pool=raw
  id=$(lvm_volume raw killed 200MiB --block)
  expect "the logical volumes" "$(lvm_shown slow lv_name)" "$id"
  expect "its tags" "$(lvm_shown slow lv_tags)" mooring,mooring_cleared_209715200
  expect "the suspended devices" "$(inside dmsetup info -c --noheadings -o suspended | grep -c Suspended || true)" 0
  lvm_published "$id" killed --block
  expect_zeros /srv/lvm-killed 0 200
  lvm_removed "$id" killed
  expect "what is left" "$(lvm_shown slow lv_name)" ''
}

# lvm_tenant ID NAME: the tenant of a raw volume makes its group there.
lvm_tenant() {
  lvm_published "$1" "$2" --block
  inside dd if=/root/lvm-tenant.img "of=/srv/lvm-$2" bs=1M conv=notrunc,fsync status=none
  inside udevadm trigger --action=change --subsystem-match=block
  inside udevadm settle
  sleep 5 # systemd starts the activation on its own
}

test_l9_the_group_of_a_tenant_is_not_looked_at() {
  local id image device groups
  groups=$(inside vgs --noheadings -o vg_uuid | sort)
  id=$(lvm_volume raw tenant 64MiB --block)
  lvm_tenant "$id" tenant
  device=/dev/mapper/$(lvm_device slow "$id")
  expect "the groups that the host sees" "$(inside vgs --noheadings -o vg_uuid | sort)" "$groups"
  expect "the mappings of the tenant's volumes" "$(lvm_mappings slow-inside)" 0
  expect "the content that udev knows" \
    "$(inside sh -c "udevadm info --query=property \$(readlink -f '$device') >/tmp/known && grep -c ^ID_FS_ /tmp/known || true")" 0
  lvm_csi delete "$(lvm_volume raw beside 16MiB)"

  # lvm itself finds a group on a loop device. The plugin's must not.
  image=$(lvm_volume images tenant-image 64MiB --block)
  lvm_tenant "$image" image
  expect "the groups of the name that the host sees" "$(inside vgs --noheadings -o vg_uuid -S vg_name=slow | wc -l)" 2
  expect "the mappings of the tenant's volumes" "$(lvm_mappings slow-inside)" 0
  lvm_csi delete "$(lvm_volume raw beside 16MiB)"
  lvm_removed "$image" image
  lvm_removed "$id" tenant
  expect "what is left" "$(lvm_shown slow lv_name)" ''
  inside rm /root/lvm-tenant.img
}

# The plugin of the tests before has no restrictions. The unit of the package has, and a user of its own.
test_l9a_the_service_can_use_logical_volumes() {
  local id
  stop_lvm_plugin
  add_pool 'name=logical,backend=lvm,vg=data,thinpool=thin'
  id=$(csi create logical --size 64MiB --param pool=logical --json | jq -r .volume.volume_id)
  csi stage "$id" --staging-path /srv/lvm-stage-used
  csi expand "$id" --size 80MiB
  csi unstage "$id" --staging-path /srv/lvm-stage-used
  csi delete "$id"
  expect "what is left" "$(lvm_shown data lv_name)" ''
  inside sed -i 's/;name=logical,[^;]*//' /etc/default/mooring-plugin
  inside systemctl restart mooring-plugin.service
}

test_l9ab_the_model_finds_no_difference() {
  play model/play.py --kinds logical --seconds "${MOORING_VM_MODEL:-120}" --shrink 0
}

test_l9b_csi_sanity_passes() {
  lvm_pools=(--max-volumes 16 --volume-mount-group --pool "name=default,backend=lvm,vg=data,thinpool=thin")
  start_lvm_plugin
  sanity_passes lvm "$lvm_socket" 16 32
  expect "what is left" "$(lvm_shown data lv_name)" ''
}

test_l9c_nothing_is_left() {
  local group
  stop_lvm_plugin
  for group in data slow late; do inside vgremove -q -y -f "$group"; done
  inside dmsetup remove lvm-test-slow
  expect "the mappings" "$(inside dmsetup ls)" 'No devices found'
  # shellcheck disable=SC2016 # for the shell there
  inside sh -c 'for file in /root/lvm-*.img; do losetup -d $(losetup -n -O NAME -j "$file") && rm "$file"; done'
}
