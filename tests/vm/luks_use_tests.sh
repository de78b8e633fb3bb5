# shellcheck shell=bash disable=SC2034,SC2154 # run's, and those of luks_tests.sh
# Encrypted volumes that grow and are copied in use, and whose plugin is killed. These tests need test_k1, and test_k3 for
# their data.

# luks_grown ID NAME MIB: in use. No request has a secret.
luks_grown() {
  luks_csi expand "$1" --size "$3MiB"
  luks_csi node-expand "$1" --path "/srv/luks-$2"
  expect "the size of its image" "$(inside stat -c %s "$(luks_image given "$1")")" $((($3 + 16) << 20))
  expect "the size of its content" "$(inside blockdev --getsize64 "$(luks_mapping "$1")")" $(($3 << 20))
}

# `mooring doctor` knows the volumes by the labels of their loop devices, and finds what is mounted through the mappings.
expect_doctor_finds() { # ID PATH
  expect_match "what the doctor says of $1" "$(inside mooring doctor "$1" 2>&1 || true)" "is mounted here.*$2"
}

size_within() { inside df --output=size -B1M "$1" | tail -n 1 | tr -d ' '; }

test_k4_volumes_grow_in_use_without_a_passphrase() {
  local type size id writer secrets=(--secrets-file "$luks_keys/given.secrets")
  for type in ext4:64 xfs:300; do
    size=${type#*:} type=${type%:*}
    id=$(luks_volume given "grown-$type" "${size}MiB" --fs-type "$type" "${secrets[@]}")
    luks_published "$id" grown "${secrets[@]}"
    expect_doctor_finds "$id" /srv/luks-grown
    inside rm -f /run/luks-test/end
    inside sh -c '(while [ ! -e /run/luks-test/end ]; do echo line; sleep 0.05; done) >/srv/luks-grown/lines' &
    writer=$!
    luks_grown "$id" grown $((size + 128))
    inside touch /run/luks-test/end
    wait "$writer" || fail "the writer failed while the volume grew"
    [ "$(size_within /srv/luks-grown)" -gt $((size + 56)) ] || fail "it did not grow: $(inside df -h /srv/luks-grown)"
    inside sh -c 'cp /srv/luks-grown/lines /root/luks-lines'
    luks_unpublished "$id" grown
    await_luks_closed
    luks_published "$id" grown "${secrets[@]}"
    [ "$(size_within /srv/luks-grown)" -gt $((size + 56)) ] || fail "it has shrunk: $(inside df -h /srv/luks-grown)"
    inside cmp /srv/luks-grown/lines /root/luks-lines || fail "other lines are there"
    luks_removed "$id" grown
  done
  expect_luks_empty
}

test_k4a_a_raw_volume_grows_in_use_without_a_passphrase() {
  local id secrets=(--secrets-file "$luks_keys/given.secrets")
  id=$(luks_volume given grown-raw 32MiB --block "${secrets[@]}")
  luks_published "$id" grown --block "${secrets[@]}"
  expect_doctor_finds "$id" /srv/luks-grown
  inside dd if=/root/luks-data of=/srv/luks-grown bs=1M seek=24 conv=notrunc status=none
  luks_grown "$id" grown 64
  expect "the size that a task sees" "$(inside blockdev --getsize64 /srv/luks-grown)" $((64 << 20))
  expect_same_data /srv/luks-grown 24
  inside dd if=/root/luks-data of=/srv/luks-grown bs=1M seek=56 conv=notrunc status=none # in the part that is new
  luks_unpublished "$id" grown
  await_luks_closed
  luks_published "$id" grown --block "${secrets[@]}"
  expect "the size" "$(inside blockdev --getsize64 /srv/luks-grown)" $((64 << 20))
  expect_same_data /srv/luks-grown 24
  expect_same_data /srv/luks-grown 56
  luks_removed "$id" grown
  expect_luks_empty
}

# Both copies are mounted beside their source, so their filesystems need other UUIDs.
test_k5_volumes_are_copied_in_use() {
  local type size id snapshot copy twin volume
  for type in xfs:300 ext4:32 btrfs:109; do
    size=${type#*:}MiB type=${type%:*}
    id=$(luks_volume secret "source-$type" "$size" --fs-type "$type")
    luks_published "$id" source
    inside sh -c 'echo before >/srv/luks-source/data' # nobody syncs it
    snapshot=$(luks_snapshot "of-$type" "$id")
    inside sh -c 'echo after >/srv/luks-source/data'
    copy=$(luks_volume secret "copy-$type" "$size" --fs-type "$type" --from-snapshot "$snapshot")
    twin=$(luks_volume secret "twin-$type" "$size" --fs-type "$type" --from-volume "$id")
    for volume in "$id" "$snapshot" "$copy" "$twin"; do
      expect "the UUID of $volume" "$(luks_field "$(luks_image secret "$volume")" UUID)" "$(luks_uuid "$volume")"
    done
    luks_published "$copy" copy
    luks_published "$twin" twin
    expect "the content of the source" "$(content /srv/luks-source/data)" after
    expect "the content of the snapshot's copy" "$(content /srv/luks-copy/data)" before
    expect "the content of the volume's copy" "$(content /srv/luks-twin/data)" after
    # shellcheck disable=SC2016 # for the shell there
    expect "the UUIDs of their filesystems" "$(inside sh -c \
      'for name; do blkid -p -s UUID -o value "/dev/mapper/mooring-$name"; done | sort -u | wc -l' sh "$id" "$copy" "$twin")" 3
    luks_removed "$id" source
    luks_csi snapshot delete "$snapshot"
    expect "the content of the copy without its source" "$(content /srv/luks-copy/data)" before
    inside sh -c 'echo more >/srv/luks-copy/more && sync /srv/luks-copy/more'
    luks_removed "$copy" copy
    luks_removed "$twin" twin
    expect_luks_empty
  done
}

test_k5a_a_copy_needs_the_passphrase_and_the_pool_of_its_source() {
  local id copy snapshot
  id=$(luks_volume given origin 32MiB --secrets-file "$luks_keys/given.secrets")
  snapshot=$(luks_snapshot of-origin "$id") # needs none
  refused UNAUTHENTICATED luks_csi create copied --size 32MiB --param pool=given --from-volume "$id"
  refused UNAUTHENTICATED luks_csi create copied --size 32MiB --param pool=given --from-snapshot "$snapshot" --secrets-file "$luks_keys/other.secrets"
  refused 'lies in the pool of its source' luks_csi create copied --size 32MiB --param pool=secret --from-volume "$id"
  refused 'has the backend luks' luks_csi create copied --size 32MiB --param pool=plain --from-volume "$id"
  copy=$(luks_volume given copied 48MiB --from-snapshot "$snapshot" --secrets-file "$luks_keys/given.secrets")
  luks_published "$copy" copy --secrets-file "$luks_keys/given.secrets"
  [ "$(size_within /srv/luks-copy)" -gt 36 ] || fail "the copy did not grow: $(inside df -h /srv/luks-copy)"
  luks_removed "$copy" copy
  luks_csi snapshot delete "$snapshot"
  luks_csi delete "$id"
  expect_luks_empty
}

test_k5b_a_group_snapshot_is_of_one_instant() {
  local name ids=() group json snapshot copies=() number=0
  for name in one two; do
    ids+=("$(luks_volume secret "$name" 32MiB)")
    luks_published "${ids[-1]}" "$name"
    inside sh -c "echo before >/srv/luks-$name/data" # nobody syncs it
  done
  json=$(luks_csi group-snapshot create both --volume "${ids[0]}" --volume "${ids[1]}" --json)
  group=$(jq -r .group_snapshot.group_snapshot_id <<<"$json")
  for name in one two; do inside sh -c "echo after >/srv/luks-$name/data"; done
  for snapshot in $(jq -r '.group_snapshot.snapshots[].snapshot_id' <<<"$json"); do
    number=$((number + 1))
    copies+=("$(luks_volume secret "copy-$number" 32MiB --from-snapshot "$snapshot")")
    luks_published "${copies[-1]}" "copy-$number"
    expect "the content of copy $number" "$(content "/srv/luks-copy-$number/data")" before
  done
  expect "the copies" "$number" 2
  for number in 1 2; do luks_removed "${copies[number - 1]}" "copy-$number"; done
  luks_csi group-snapshot delete "$group" --snapshot "$(jq -r '.group_snapshot.snapshots[0].snapshot_id' <<<"$json")" \
    --snapshot "$(jq -r '.group_snapshot.snapshots[1].snapshot_id' <<<"$json")"
  luks_removed "${ids[0]}" one
  luks_removed "${ids[1]}" two
  expect_luks_empty
}

# luks_killed PROGRAM COMMAND...: kills the program of the plugin while the command of `mooring csi` runs, or just after it.
# shellcheck disable=SC2016 # for the shell there
luks_killed() {
  local program=$1
  shift
  inside sh -c 'export CSI_ENDPOINT=unix://$1
    program=$2 delay=$3
    shift 3
    mooring csi "$@" >/dev/null 2>&1 &
    sleep "$delay"
    for process in $(cat /sys/fs/cgroup/system.slice/mooring-luks.service/cgroup.procs); do
      if grep -qsx "$program" "/proc/$process/comm"; then kill -KILL "$process"; fi
    done
    wait $! || true' sh "$luks_socket" "$program" "$((RANDOM % 3)).$((RANDOM % 10))" "$@"
}

# luks_after_kill PROGRAM COMMAND...: an orchestrator repeats its call until it ends.
luks_after_kill() {
  local program=$1
  shift
  luks_killed "$program" "$@"
  await "the repeated call succeeds: $1" luks_csi "$@"
  expect_none_suspended
}

test_k6_calls_survive_kills() {
  local round program id stage=/srv/luks-stage-killed
  luks_properties=(Restart=always RestartSec=0 StartLimitIntervalSec=0)
  start_luks_plugin
  inside mkdir -p "$stage"
  for round in 1 2; do
    for program in mooring-plugin mooring-mounter; do
      luks_after_kill "$program" create killed --size 64MiB --param pool=secret
      id=$(luks_volume secret killed 64MiB)
      luks_after_kill "$program" stage "$id" --staging-path "$stage"
      inside sh -c "echo $round >$stage/kept"
      luks_after_kill "$program" expand "$id" --size 96MiB
      luks_after_kill "$program" node-expand "$id" --path "$stage"
      expect "the size of its content" "$(inside blockdev --getsize64 "$(luks_mapping "$id")")" $((96 << 20))
      luks_after_kill "$program" unstage "$id" --staging-path "$stage"
      await_luks_closed
      luks_csi stage "$id" --staging-path "$stage"
      expect "the content" "$(content "$stage/kept")" "$round"
      luks_csi unstage "$id" --staging-path "$stage"
      luks_after_kill "$program" create killed-copy --size 96MiB --param pool=secret --from-volume "$id"
      luks_csi delete "$(luks_volume secret killed-copy 96MiB --from-volume "$id")"
      luks_csi delete "$id"
      expect_luks_empty
    done
  done
}

test_k5c_the_bandwidth_of_a_task_can_be_limited() {
  expect_limits_work luks plain secret
  expect_luks_empty
}

# Also: a shutdown with encrypted volumes in use ends, and writes what nobody has synced.
test_k6a_volumes_are_there_after_a_reboot() {
  local id raw
  id=$(luks_volume secret boot 32MiB)
  raw=$(luks_volume secret boot-raw 32MiB --block)
  luks_published "$id" boot
  luks_published "$raw" boot-raw --block
  inside sh -c 'echo kept >/srv/luks-boot/kept'
  inside dd if=/root/luks-data of=/srv/luks-boot-raw bs=1M conv=notrunc,fsync status=none
  reboot_machine
  mount_luks_disk
  start_luks_plugin
  expect "the devices after the boot" "$(luks_devices)" ''
  luks_published "$id" boot
  expect "the content" "$(content /srv/luks-boot/kept)" kept
  luks_removed "$id" boot
  luks_published "$raw" boot-raw --block
  expect_same_data /srv/luks-boot-raw 0
  luks_removed "$raw" boot-raw
  expect_luks_empty
}

# luks_many COMMAND: a shell command for each of twenty volumes, all at the same time. $1 is its number, and $2 its id
# once there is one. An orchestrator repeats a call that was too slow.
luks_many() {
  inside sh -c "export CSI_ENDPOINT=unix://$luks_socket
    repeat() { timeout 500 sh -c 'until \"\$@\" 2>/dev/null; do sleep 1; done' sh \"\$@\"; }
    one() { $1; }
    jobs=
    for number in \$(seq 20); do
      one \$number \"\$(cat /run/luks-test/id-\$number 2>/dev/null)\" & jobs=\"\$jobs \$!\"
    done
    for job in \$jobs; do wait \$job || exit 1; done" || fail "not all could: $1"
}

test_k7_twenty_volumes_fit_into_256_mib() {
  luks_properties=(MemoryMax=256M MemorySwapMax=0)
  start_luks_plugin
  # shellcheck disable=SC2016 # for the shell there
  luks_many 'repeat mooring csi create many-$1 --size 16MiB --param pool=secret >/dev/null &&
    mooring csi create many-$1 --size 16MiB --param pool=secret --json >/run/luks-test/made-$1 &&
    jq -r .volume.volume_id /run/luks-test/made-$1 >/run/luks-test/id-$1'
  # shellcheck disable=SC2016
  luks_many 'mkdir -p /srv/luks-many-$1 && repeat mooring csi stage $2 --staging-path /srv/luks-many-$1 >/dev/null'
  expect "the mappings" "$(inside sh -c "dmsetup ls | grep -c '^mooring-'")" 20
  expect "the mounts" "$(inside sh -c 'grep -c " /srv/luks-many-" /proc/self/mountinfo')" 20
  expect "the processes that the limit ended" \
    "$(inside sed -n 's/^oom_kill //p' /sys/fs/cgroup/system.slice/mooring-luks.service/memory.events)" 0
  # shellcheck disable=SC2016
  luks_many 'repeat mooring csi unstage $2 --staging-path /srv/luks-many-$1 >/dev/null && repeat mooring csi delete $2 >/dev/null'
  inside sh -c 'rm /run/luks-test/id-* /run/luks-test/made-*'
  expect_luks_empty
}

# The plugin of the tests before has no restrictions. The unit of the package has, and a user of its own.
test_k8_the_service_can_encrypt() {
  local id raw process
  stop_luks_plugin
  inside install -d -m 0700 -o mooring -g mooring "$luks_root/service"
  inside install -d -m 0755 /etc/mooring
  inside install -m 0640 -g mooring "$luks_keys/secret" /etc/mooring/secret.key
  add_pool "name=encrypted,backend=luks,path=$luks_root/service,keyfile=/etc/mooring/secret.key"
  process=$(inside systemctl show --value -p MainPID mooring-plugin.service)
  expect_match "its limit of core dumps" "$(inside grep 'Max core file size' "/proc/$process/limits")" ' 1 +1 '
  expect "its limit of swap" "$(inside cat /sys/fs/cgroup/system.slice/mooring-plugin.service/memory.swap.max)" 0
  id=$(csi create encrypted --size 32MiB --param pool=encrypted --json | jq -r .volume.volume_id)
  inside mkdir -p /srv/luks-stage-used /srv/luks-stage-raw
  csi stage "$id" --staging-path /srv/luks-stage-used
  csi publish "$id" --staging-path /srv/luks-stage-used --target-path /srv/luks-used
  inside sh -c 'echo kept >/srv/luks-used/kept'
  csi expand "$id" --size 64MiB
  csi node-expand "$id" --path /srv/luks-used
  csi snapshot create encrypted --volume "$id" --json | jq -r .snapshot.snapshot_id >"$work/k-snapshot"
  inside systemctl restart mooring-plugin.service
  await "the plugin is ready" csi probe
  expect "the content" "$(content /srv/luks-used/kept)" kept
  csi unpublish "$id" --target-path /srv/luks-used
  csi unstage "$id" --staging-path /srv/luks-stage-used
  csi snapshot delete "$(cat "$work/k-snapshot")"
  raw=$(csi create encrypted-raw --size 16MiB --block --param pool=encrypted --json | jq -r .volume.volume_id)
  csi stage "$raw" --staging-path /srv/luks-stage-raw --block
  csi publish "$raw" --staging-path /srv/luks-stage-raw --target-path /srv/luks-raw --block
  inside dd if=/root/luks-data of=/srv/luks-raw bs=1M conv=notrunc status=none
  csi unpublish "$raw" --target-path /srv/luks-raw
  csi unstage "$raw" --staging-path /srv/luks-stage-raw
  csi delete "$id"
  csi delete "$raw"
  await_luks_closed
  expect "what is left in the pool" "$(inside ls -A "$luks_root/service")" ''
  inside sed -i 's/;name=encrypted,[^;]*//' /etc/default/mooring-plugin
  inside systemctl restart mooring-plugin.service
}

# docker CALL NAME [CONTAINER | OPTIONS]: Docker's volume protocol, as its daemon speaks it to the manager. The options are
# an object of JSON. Prints the answer.
docker() {
  local request
  request=$(jq -cn --arg name "$2" --arg more "${3:-}" \
    '{Name: $name} + if $more == "" then {} elif $more[0:1] == "{" then {Opts: ($more | fromjson)} else {ID: $more} end')
  inside python3 -c 'import http.client, socket, sys
connection = http.client.HTTPConnection("docker")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect("/run/docker/plugins/mooring.sock")
connection.request("POST", "/VolumeDriver." + sys.argv[1], body=sys.argv[2])
print(connection.getresponse().read().decode())' "$1" "$request"
}

docker_succeeds() { expect "the error of $1 $2" "$(docker "$@" | jq -r .Err)" ''; }
docker_mounted() { docker Mount "$@" | jq -r .Mountpoint; } # prints the place

# The packaged manager and plugin, over a boot. Docker's volumes have the passphrase of their pool, or their own. Another
# volume is in /etc/fstab.
test_k8b_the_manager_and_docker_use_encrypted_volumes() {
  local name place
  inside install -d -m 0700 -o mooring -g mooring /srv/encrypted /srv/asked
  inside install -D -m 0640 -g mooring "$luks_keys/secret" /etc/mooring/secret.key
  add_pool 'name=encrypted,backend=luks,path=/srv/encrypted,keyfile=/etc/mooring/secret.key;name=asked,backend=luks,path=/srv/asked'
  inside sh -c 'echo MOORING_MANAGER_DOCKER_SOCKET=/run/docker/plugins/mooring.sock >>/etc/default/mooring-manager'
  inside systemctl restart mooring-manager.service
  await "the manager serves Docker" inside test -S /run/docker/plugins/mooring.sock
  docker_succeeds Create own '{"size": "32MiB", "param.pool": "encrypted"}'
  docker_succeeds Create asked "{\"size\": \"32MiB\", \"param.pool\": \"asked\", \"secrets-file\": \"$luks_keys/given.secrets\"}"
  expect_match "the error without a passphrase" \
    "$(docker Create none '{"size": "32MiB", "param.pool": "asked"}' | jq -r .Err)" passphrase
  for name in own asked; do
    place=$(docker_mounted "$name" c1)
    expect_match "the source of $name" "$(mounted_from "$place")" ^/dev/dm-
    inside sh -c "echo kept >$place/kept"
  done
  inside mooring volume create at-boot --plugin mooring.csi --size 32MiB --param pool=encrypted
  inside mkdir -p /srv/at-boot
  inside sh -c "echo 'csi:at-boot /srv/at-boot csi defaults 0 0' >>/etc/fstab"
  inside systemctl daemon-reload
  inside mount /srv/at-boot
  inside sh -c 'echo kept >/srv/at-boot/kept'
  inside systemctl restart mooring-plugin.service mooring-manager.service
  expect "the content after a restart" "$(content /srv/at-boot/kept)" kept
  reboot_machine
  expect_booted running
  expect "the content after a boot" "$(content /srv/at-boot/kept)" kept
  expect_match "the source after a boot" "$(mounted_from /srv/at-boot)" ^/dev/dm-
  for name in own asked; do
    place=$(docker_mounted "$name" c2)
    expect "the content of $name" "$(content "$place/kept")" kept
    docker_succeeds Unmount "$name" c2
    docker_succeeds Remove "$name"
  done
  inside umount /srv/at-boot
  inside sed -i '/csi:at-boot/d' /etc/fstab
  inside mooring volume delete at-boot
  expect "the mappings" "$(luks_devices)" ''
  expect "what is left in the pools" "$(inside ls -A /srv/encrypted /srv/asked | grep -v : | tr -d '\n')" ''
  inside sed -i 's/;name=encrypted,[^;]*//; s/;name=asked,[^;]*//' /etc/default/mooring-plugin
  inside sed -i '/DOCKER_SOCKET/d' /etc/default/mooring-manager
  inside systemctl restart mooring-plugin.service mooring-manager.service
}

test_k8c_the_model_finds_no_difference() {
  stop_luks_plugin
  play model/play.py --kinds encrypted --pools ext4,xfs --seconds "${MOORING_VM_MODEL:-120}" --shrink 0
}

# A credential belongs to root, and the plugin stays user 0 here.
test_k8a_a_key_file_can_be_a_credential() {
  local id
  luks_pools=(--pool "name=secret,backend=luks,path=$luks_root/secret,keyfile=/run/credentials/mooring-luks.service/secret.key")
  luks_properties=("LoadCredential=secret.key:$luks_keys/pool.key")
  start_luks_plugin
  id=$(luks_volume secret credential 16MiB)
  luks_published "$id" used
  expect "the mount outside of the service" "$(inside findmnt -n -o FSTYPE /srv/luks-used)" ext4
  luks_removed "$id" used
  expect_luks_empty
}

# Without a key file, as Kubernetes has it: only the calls that create and stage have the passphrase.
test_k9_csi_sanity_passes() {
  inside install -d -m 0700 "$luks_root/sanity"
  inside sh -c "umask 077 && for call in CreateVolume NodeStageVolume; do
      printf '%sSecret:\n  encryptionPassphrase: ' \$call && cat $luks_keys/given && echo
    done >$luks_keys/sanity.yaml"
  luks_pools=(--max-volumes 16 --volume-mount-group --pool "name=default,backend=luks,path=$luks_root/sanity")
  start_luks_plugin
  sanity_passes luks "$luks_socket" 16 32 "-csi.secrets=$luks_keys/sanity.yaml"
  await_luks_closed
  expect "what is left in the pool" "$(inside ls -A "$luks_root/sanity")" ''
}

test_k9a_nothing_is_left() {
  stop_luks_plugin
  expect "the mappings" "$(inside dmsetup ls)" 'No devices found'
  expect_none_suspended
  inside umount "$luks_root"
  unplug_disk LUKS
  inside sh -c "rm -rf $luks_keys /etc/mooring/secret.key /root/luks-data /root/luks-lines /var/lib/luks-test"
}
