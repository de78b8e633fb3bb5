# shellcheck shell=bash disable=SC2154 # run's
# Pools with backend=luks, on an xfs with reflinks, on a disk of its own. Pool `secret` has a key file. Pool `given` has none,
# so each request brings the passphrase. Pool `plain` does not encrypt. These tests need test_a2.
luks_socket=/run/luks-test/csi.sock luks_root=/srv/luks
luks_keys=/etc/luks-test # `secret`, `other`, `given`: passphrases. `given.secrets` and the like: the same for --secrets-file
luks_marker=a-text-that-only-the-volume-may-show
luks_properties=() # of the plugin's unit, as MemoryMax=256M
luks_csi() { inside env "CSI_ENDPOINT=unix://$luks_socket" mooring csi "$@"; }
luks_pools=(
  --pool "name=secret,backend=luks,path=$luks_root/secret,keyfile=$luks_keys/pool.key"
  --pool "name=given,backend=luks,path=$luks_root/given"
  --pool "name=plain,backend=image,path=$luks_root/plain"
)

# use_luks_key NAME: the plugin reads the key file at each use. It ends with a newline, which does not count.
use_luks_key() { inside sh -c "umask 077 && cd $luks_keys && { cat '$1' && echo; } >pool.new && mv pool.new pool.key"; }

# No passphrase is in the arguments of a command.
make_luks_keys() {
  local name
  inside install -d -m 0700 "$luks_keys"
  for name in secret other given; do
    inside sh -c "umask 077 && cd $luks_keys && head -c 33 /dev/urandom | base64 -w 0 >$name &&
      { printf encryptionPassphrase= && cat $name && echo; } >$name.secrets"
  done
  use_luks_key secret
}

mount_luks_disk() {
  await "the disk is there" inside test -b "$(disk_link LUKS)"
  inside mkdir -p "$luks_root"
  inside mount "$(disk_link LUKS)" "$luks_root"
}

make_luks_pools() {
  plug_disk LUKS 1600
  inside mkfs.xfs -q "$(disk_link LUKS)"
  mount_luks_disk
  make_luks_keys
  inside sh -c 'head -c 8M /dev/urandom >/root/luks-data'
}

stop_luks_plugin() {
  inside systemctl stop mooring-luks.service 2>/dev/null || true
  inside systemctl reset-failed mooring-luks.service 2>/dev/null || true
}

start_luks_plugin() {
  stop_luks_plugin
  inside mkdir -p "$(dirname "$luks_socket")"
  inside systemd-run --quiet --unit=mooring-luks "${luks_properties[@]/#/--property=}" mooring-plugin --endpoint "unix://$luks_socket" \
    --state-dir /var/lib/luks-test --node-id luks --mount-root /srv --log-level debug "${luks_pools[@]}"
  await "the plugin is ready" luks_csi probe
}

# luks_volume POOL NAME SIZE FLAG...: creates a volume, and prints its id.
luks_volume() {
  local pool=$1 name=$2 size=$3
  shift 3
  luks_csi create "$name" --size "$size" --param "pool=$pool" "$@" --json | jq -r .volume.volume_id
}

# luks_staged ID NAME FLAG...: at /srv/luks-stage-NAME. luks_published does that, too, and publishes it at /srv/luks-NAME.
luks_staged() {
  local id=$1 name=$2
  shift 2
  inside mkdir -p "/srv/luks-stage-$name"
  luks_csi stage "$id" --staging-path "/srv/luks-stage-$name" "$@"
}

luks_published() {
  luks_staged "$@"
  local id=$1 name=$2
  shift 2
  luks_csi publish "$id" --staging-path "/srv/luks-stage-$name" --target-path "/srv/luks-$name" "$@"
}

luks_unstaged() { luks_csi unstage "$1" --staging-path "/srv/luks-stage-$2"; }

luks_unpublished() {
  luks_csi unpublish "$1" --target-path "/srv/luks-$2"
  luks_unstaged "$@"
}

luks_removed() {
  luks_unpublished "$@"
  luks_csi delete "$1"
}

luks_snapshot() { luks_csi snapshot create "$1" --volume "$2" --json | jq -r .snapshot.snapshot_id; }

luks_image() { printf '%s/%s/%s.img\n' "$luks_root" "$1" "$2"; } # POOL ID
luks_mapping() { printf '/dev/mapper/mooring-%s\n' "$1"; }

# Prints the UUID that the header of a volume or snapshot has.
luks_uuid() {
  local digits=${1#*-}
  printf '%s-%s-%s-%s-%s\n' "${digits:0:8}" "${digits:8:4}" "${digits:12:4}" "${digits:16:4}" "${digits:20}"
}

# luks_field IMAGE FIELD: the first of luksDump.
luks_field() { inside cryptsetup luksDump "$1" | sed -nE "s/^[[:space:]]*$2:[[:space:]]*(.*[^[:space:]])[[:space:]]*$/\1/p" | sed -n 1p; }

# luks_sum IMAGE: of all that is behind the header.
luks_sum() { inside sh -c "tail -c +$(((16 << 20) + 1)) '$1' | sha256sum" | cut -d ' ' -f 1; }

# shows_marker FILE: yes or no. A file that cannot be read is neither.
shows_marker() { inside sh -c "if LC_ALL=C grep -qazF '$luks_marker' '$1'; then echo yes; elif [ \$? -eq 1 ]; then echo no; fi"; }

# The mappings and loop devices of encrypted volumes, a line each.
luks_devices() {
  inside sh -c "dmsetup ls | grep -o '^mooring-[^[:space:]]*'
    losetup --noheadings --output NAME,BACK-FILE | grep -E ' ($luks_root/|/dev/dm-|/dev/mapper/)'
    true"
}

luks_is_closed() {
  local devices
  devices=$(luks_devices) && [ -z "$devices" ]
}

# The kernel removes them shortly after their last use.
await_luks_closed() { await "no device of an encrypted volume is left" luks_is_closed; }

expect_luks_empty() {
  local pool
  await_luks_closed
  for pool in secret given; do expect "what is left in the pool $pool" "$(inside ls -A "$luks_root/$pool")" ''; done
}

expect_none_suspended() {
  expect "the suspended devices" "$(inside dmsetup info -c --noheadings -o suspended | grep -c Suspended || true)" 0
}

test_k1_volumes_are_encrypted_images() {
  local type size id image
  make_luks_pools
  start_luks_plugin # nobody has loaded dm_crypt
  for type in ext4:64 xfs:300 btrfs:109; do
    size=${type#*:} type=${type%:*}
    id=$(luks_volume secret "$type" "${size}MiB" --fs-type "$type" --param encrypted=true)
    image=$(luks_image secret "$id")
    expect "the repeated creation" "$(luks_volume secret "$type" "${size}MiB" --fs-type "$type" --param encrypted=true)" "$id"
    expect "the size of its image" "$(inside stat -c %s "$image")" $(((size + 16) << 20))
    expect "the version of its header" "$(luks_field "$image" Version)" 2
    expect "its UUID" "$(luks_field "$image" UUID)" "$(luks_uuid "$id")"
    expect "the derivation of its key" "$(luks_field "$image" PBKDF) $(luks_field "$image" Memory)" 'argon2id 32768'
    expect_luks_is_used "$id" "$type" "$size"
    luks_removed "$id" used
    expect_luks_empty
  done
  inside sync
  expect "plaintext on the disk" "$(shows_marker "$(disk_link LUKS)")" no

  refused 'backend luks (secret, given)' luks_csi create plain --size 16MiB --param pool=plain --param encrypted=true
  refused 'backend luks (secret, given)' luks_csi create plain --size 16MiB --param pool=plain --secrets-file "$luks_keys/given.secrets"
  refused INVALID_ARGUMENT luks_csi create clear --size 16MiB --param pool=secret --param encrypted=false
}

# expect_luks_is_used ID TYPE MIB: leaves it published as `used`.
expect_luks_is_used() {
  local id=$1 loop
  luks_published "$id" used
  luks_csi stage "$id" --staging-path /srv/luks-stage-used
  expect "the filesystem" "$(inside findmnt -n -o FSTYPE /srv/luks-used)" "$2"
  expect "the size of its content" "$(inside blockdev --getsize64 "$(luks_mapping "$id")")" $(($3 << 20))
  inside sh -c "echo $luks_marker >/srv/luks-used/kept" # nobody syncs it
  refused FAILED_PRECONDITION luks_csi delete "$id"
  luks_unpublished "$id" used
  await_luks_closed
  luks_published "$id" used
  expect "the content" "$(content /srv/luks-used/kept)" "$luks_marker"
  loop=$(inside losetup --noheadings --output NAME --associated "$(luks_image secret "$id")")
  expect "the text in the mapping" "$(shows_marker "$(luks_mapping "$id")")" yes
  expect "plaintext in the loop device" "$(shows_marker "$loop")" no
  expect "plaintext in the image" "$(shows_marker "$(luks_image secret "$id")")" no
}

# luks_found FLAG...: of find_secret.py.
luks_found() { inside_with_input python3 - "$@" <"$here/find_secret.py" || echo 'the search failed'; }

# The memory is searched for the content of a key file. gRPC keeps the secrets of requests in memory that it frees later.
test_k1a_a_passphrase_is_nowhere_else() {
  local id given places=(/var/lib /run /tmp /var/tmp)
  # A process that shows it, so that the search can fail.
  inside systemd-run --quiet --unit=luks-control sh -c "read -r SEEN <$luks_keys/pool.key; export SEEN; exec sleep infinity"
  await "the search finds it in the memory of a process" seen_in_memory
  expect_match "where it is" "$(luks_found --file "$luks_keys/secret" "$luks_keys")" "environ of sleep.*$luks_keys/pool.key"
  inside systemctl stop luks-control.service

  id=$(luks_volume secret sought 16MiB)
  luks_published "$id" sought
  given=$(luks_volume given sought-given 16MiB --secrets-file "$luks_keys/given.secrets")
  refused UNAUTHENTICATED luks_staged "$given" given --secrets-file "$luks_keys/secret.secrets"
  luks_published "$given" given --secrets-file "$luks_keys/given.secrets"
  expect "where a given passphrase is" "$(luks_found --file "$luks_keys/given" "${places[@]}")" ''
  expect "where the key of the volume is" \
    "$(luks_found --mapping "mooring-$id" --memory '^(mooring|cryptsetup)' "${places[@]}" "$luks_keys")" ''
  expect "where the passphrase of the pool is" \
    "$(luks_found --file "$luks_keys/secret" --memory '^(mooring|cryptsetup)' "${places[@]}")" ''
  luks_removed "$id" sought
  luks_removed "$given" given
  expect_luks_empty
}

seen_in_memory() { luks_found --file "$luks_keys/secret" --memory '^sleep$' | grep -x 'memory of sleep'; }

test_k2_a_wrong_passphrase_changes_nothing() {
  local id given sum
  id=$(luks_volume secret locked 32MiB)
  luks_published "$id" locked
  inside sh -c 'echo kept >/srv/luks-locked/kept'
  luks_unpublished "$id" locked
  await_luks_closed
  sum=$(inside sha256sum "$(luks_image secret "$id")")

  use_luks_key other
  refused UNAUTHENTICATED luks_staged "$id" locked
  refused UNAUTHENTICATED luks_csi create locked-copy --size 32MiB --param pool=secret --from-volume "$id"
  use_luks_key secret
  refused UNAUTHENTICATED luks_staged "$id" locked --secrets-file "$luks_keys/other.secrets" # a given one counts
  await_luks_closed
  expect "the image" "$(inside sha256sum "$(luks_image secret "$id")")" "$sum"
  inside mv "$luks_keys/pool.key" "$luks_keys/away"
  refused FAILED_PRECONDITION luks_staged "$id" locked
  inside mv "$luks_keys/away" "$luks_keys/pool.key"
  luks_published "$id" locked
  expect "the content" "$(content /srv/luks-locked/kept)" kept
  luks_removed "$id" locked

  refused provisioner-secret-name luks_csi create open --size 16MiB --param pool=given
  given=$(luks_volume given locked-given 16MiB --secrets-file "$luks_keys/given.secrets")
  refused node-stage-secret-name luks_staged "$given" locked
  refused UNAUTHENTICATED luks_staged "$given" locked --secrets-file "$luks_keys/other.secrets"
  luks_published "$given" locked --secrets-file "$luks_keys/given.secrets"
  luks_removed "$given" locked
  expect_luks_empty
}

# expect_data_loss ID IMAGE SUM: SUM: of the image behind its header.
expect_data_loss() {
  refused DATA_LOSS luks_staged "$1" headless
  refused DATA_LOSS luks_csi create of-headless --size 32MiB --param pool=secret --from-volume "$1"
  await_luks_closed
  expect "the image behind its header" "$(luks_sum "$2")" "$3"
}

test_k2a_a_volume_without_its_header_is_never_formatted() {
  local id other image sum backup=/root/luks-header
  id=$(luks_volume secret headless 32MiB)
  other=$(luks_volume secret other 32MiB)
  image=$(luks_image secret "$id")
  luks_published "$id" headless
  inside sh -c 'echo kept >/srv/luks-headless/kept'
  luks_unpublished "$id" headless
  await_luks_closed
  inside cryptsetup luksHeaderBackup "$image" --header-backup-file "$backup"
  sum=$(luks_sum "$image")

  inside dd if=/dev/zero "of=$image" bs=1M count=16 conv=notrunc status=none
  expect_data_loss "$id" "$image" "$sum"
  inside cmp -n $((16 << 20)) "$image" /dev/zero || fail "a header was written"
  inside dd "if=$(luks_image secret "$other")" "of=$image" bs=1M count=16 conv=notrunc status=none
  expect_data_loss "$id" "$image" "$sum"
  expect "the header" "$(luks_field "$image" UUID)" "$(luks_uuid "$other")"
  inside cryptsetup luksHeaderRestore --batch-mode "$image" --header-backup-file "$backup"
  luks_published "$id" headless
  expect "the content" "$(content /srv/luks-headless/kept)" kept
  luks_unpublished "$id" headless
  await_luks_closed

  # The header has a second copy.
  inside dd if=/dev/zero "of=$image" bs=4096 count=1 conv=notrunc status=none
  luks_published "$id" headless
  expect "the content" "$(content /srv/luks-headless/kept)" kept
  expect "the repaired header" "$(luks_field "$image" UUID)" "$(luks_uuid "$id")"
  luks_removed "$id" headless
  luks_csi delete "$other"
  inside rm "$backup"
  expect_luks_empty
}

# As docs/backends.md, "Encrypted volumes", has it.
luks_derivation=(--pbkdf argon2id --pbkdf-memory 32768 --pbkdf-parallel 1 --pbkdf-force-iterations 4)

test_k2b_a_passphrase_can_be_changed() {
  local id image
  id=$(luks_volume secret changed 16MiB)
  image=$(luks_image secret "$id")
  inside cryptsetup luksChangeKey "$image" --key-file "$luks_keys/secret" "${luks_derivation[@]}" "$luks_keys/other"
  expect "the derivation of its key" "$(luks_field "$image" PBKDF) $(luks_field "$image" Memory)" 'argon2id 32768'
  refused UNAUTHENTICATED luks_staged "$id" changed
  use_luks_key other
  luks_staged "$id" changed
  luks_unstaged "$id" changed
  await_luks_closed

  inside cryptsetup luksAddKey "$image" --key-file "$luks_keys/other" "${luks_derivation[@]}" "$luks_keys/secret"
  luks_staged "$id" changed
  luks_unstaged "$id" changed
  await_luks_closed
  inside cryptsetup luksRemoveKey --batch-mode "$image" "$luks_keys/other"
  refused UNAUTHENTICATED luks_staged "$id" changed
  use_luks_key secret
  luks_staged "$id" changed
  luks_unstaged "$id" changed
  luks_csi delete "$id"
  expect_luks_empty
}

# expect_same_data FILE SKIP: the 8 MiB of random data are there, from SKIP MiB on.
expect_same_data() {
  inside cmp -n $((8 << 20)) -i "$(($2 << 20)):0" "$1" /root/luks-data || fail "other data is in $1"
}

test_k3_raw_volumes_keep_their_data() {
  local id
  id=$(luks_volume secret raw 64MiB --block)
  echo "$id" >"$work/k-raw"
  luks_published "$id" raw --block
  expect "the size" "$(inside blockdev --getsize64 /srv/luks-raw)" $((64 << 20))
  inside dd if=/root/luks-data of=/srv/luks-raw bs=1M seek=20 conv=notrunc status=none # nobody syncs it
  luks_unpublished "$id" raw
  await_luks_closed
  luks_published "$id" raw --block
  expect_same_data /srv/luks-raw 20
  refused UNAUTHENTICATED luks_staged "$id" raw --block --secrets-file "$luks_keys/other.secrets"
  expect_same_data /srv/luks-raw 20
  luks_csi unpublish "$id" --target-path /srv/luks-raw

  luks_csi publish "$id" --staging-path /srv/luks-stage-raw --target-path /srv/luks-raw --block --read-only
  expect "the size" "$(inside blockdev --getsize64 /srv/luks-raw)" $((64 << 20))
  refused 'not permitted' inside dd if=/dev/zero of=/srv/luks-raw bs=1M seek=20 count=1 conv=notrunc,fsync status=none
  luks_unpublished "$id" raw
  await_luks_closed
  luks_published "$id" raw --block
  expect_same_data /srv/luks-raw 20
  luks_unpublished "$id" raw
  await_luks_closed
}

# start_luks_task ID: it holds the device open, and writes `late` to its begin when it is told to. A container has such a
# node of its own. With the target open, the unpublish would fail.
start_luks_task() {
  inside rm -f /run/luks-test/open /run/luks-test/write /run/luks-test/written
  inside systemd-run --quiet --unit=luks-task sh -c "exec 3<>$(luks_mapping "$1") && touch /run/luks-test/open
    until [ -e /run/luks-test/write ]; do sleep 0.2; done
    printf late >&3 && touch /run/luks-test/written && exec sleep infinity"
  await "the task has the device open" inside test -e /run/luks-test/open
}

# The image has a single mapping at any time, so there is a single cache. Staging again may also be refused.
test_k3a_a_device_that_is_still_open_is_not_mixed_up() {
  local id said staged=yes
  id=$(cat "$work/k-raw")
  luks_published "$id" raw --block
  start_luks_task "$id"
  luks_unpublished "$id" raw
  if ! said=$(luks_published "$id" raw --block 2>&1); then
    expect_match "the refusal" "$said" 'FAILED_PRECONDITION|ABORTED'
    staged=no
  fi
  expect "the mappings" "$(inside sh -c "dmsetup ls | grep -c '^mooring-'")" 1
  expect "the loop devices" "$(inside losetup --noheadings --output NAME --associated "$(luks_image secret "$id")" | wc -l)" 1
  inside touch /run/luks-test/write
  await "the task has written" inside test -e /run/luks-test/written
  if [ "$staged" = yes ]; then expect "the content beside the task" "$(inside head -c 4 /srv/luks-raw)" late; fi
  inside systemctl stop luks-task.service
  if [ "$staged" = no ]; then await "it can be staged" luks_published "$id" raw --block; fi
  inside udevadm settle
  sleep 2 # a mapping that is to go with its last user
  expect "the content" "$(inside head -c 4 /srv/luks-raw)" late
  expect_same_data /srv/luks-raw 20
  luks_removed "$id" raw
  expect_luks_empty
}

# groups_of_tenant CONFIG: of lvm.
groups_of_tenant() { inside vgs --noheadings -o vg_name ${1:+--config "$1"} | grep -c luks-tenant || true; }

# udev of the host must not look at a tenant's group.
test_k3b_the_content_is_hidden_from_the_host() {
  local id device
  inside truncate -s 32M /root/luks-tenant.img
  device=$(inside losetup --find --show /root/luks-tenant.img)
  inside vgcreate -q luks-tenant "$device"
  inside lvcreate -q -an -Zn -Wn -n inside -l 100%FREE luks-tenant
  inside losetup --detach "$device"
  id=$(luks_volume secret tenant 32MiB --block)
  luks_published "$id" raw --block
  inside dd if=/root/luks-tenant.img of=/srv/luks-raw bs=1M conv=notrunc,fsync status=none
  inside udevadm trigger --action=change --subsystem-match=block
  inside udevadm settle
  sleep 5 # systemd starts the activation on its own
  expect "the mappings" "$(inside dmsetup ls | sed 's/[[:space:]].*//')" "mooring-$id"
  expect "the content that udev knows" \
    "$(inside sh -c "udevadm info --query=property \$(readlink -f '$(luks_mapping "$id")') >/tmp/known && grep -c ^ID_FS_ /tmp/known || true")" 0
  # shellcheck disable=SC2016 # for the shell there
  expect "the links to the device" "$(inside sh -c 'find /dev/disk -lname "*/$(basename "$(readlink -f "$1")")"' sh "$(luks_mapping "$id")")" ''
  expect "the groups that the host's own commands see" "$(groups_of_tenant '')" 1
  expect "the groups with the setting of docs/security.md" \
    "$(groups_of_tenant 'devices { global_filter = [ "r|^/dev/loop.*|", "r|^/dev/mapper/mooring-.*|" ] }')" 0
  luks_removed "$id" raw
  inside rm /root/luks-tenant.img
  expect_luks_empty
}

# A task that writes and closes its device has no error to see: the data is written later, and the image has no room. The
# next unstage tells it, and what was written is there once there is room. The middle of a volume of more than 128 MiB is
# a hole at first.
test_k3c_a_full_pool_loses_no_data_of_a_raw_volume() {
  local id pools=("${luks_pools[@]}")
  inside sh -c "truncate -s 320M /root/luks-tight.img && mkfs.ext4 -q /root/luks-tight.img && mkdir -p /srv/luks-tight &&
    mount -o loop /root/luks-tight.img /srv/luks-tight"
  luks_pools=(--pool "name=tight,backend=luks,path=/srv/luks-tight,keyfile=$luks_keys/pool.key")
  start_luks_plugin
  id=$(luks_volume tight full 160MiB --block)
  luks_published "$id" full --block
  inside sh -c 'dd if=/dev/zero of=/srv/luks-tight/full bs=1M status=none || true; truncate -s -1M /srv/luks-tight/full; sync'
  inside dd if=/root/luks-data of=/srv/luks-full bs=1M seek=80 conv=notrunc status=none
  inside sync
  luks_csi unpublish "$id" --target-path /srv/luks-full
  refused 'the data that tasks wrote to' luks_unstaged "$id" full
  expect "the holders" "$(inside pgrep -xc mooring-hold)" 1
  inside rm /srv/luks-tight/full
  await "it can be unstaged" luks_unstaged "$id" full
  await_luks_closed
  expect "the holders" "$(inside pgrep -xc mooring-hold || true)" 0
  luks_published "$id" full --block
  expect_same_data /srv/luks-full 80
  luks_removed "$id" full
  stop_luks_plugin
  inside sh -c 'umount /srv/luks-tight && rm /root/luks-tight.img'
  luks_pools=("${pools[@]}")
  start_luks_plugin
}
