# shellcheck shell=bash disable=SC2154,SC2034 # run's
# The host's udev and the content of raw block volumes. These tests need test_a2.

rules=/usr/lib/udev/rules.d/59-mooring.rules

# A disk with a volume group and a disk with a filesystem, as a task writes them into its volume.
# shellcheck disable=SC2016 # for the inner shell
make_contents() {
  inside sh -c 'set -e
    for file in group filesystem; do truncate -s 64M /root/$file; done
    mkfs.ext4 -q -U 11111111-2222-4333-8444-555555555555 /root/filesystem
    device=$(losetup --find --show /root/group)
    pvcreate -q "$device" && vgcreate -q intruder "$device" && lvcreate -q -n inside -l 100%FREE intruder
    vgchange -q -an intruder
    losetup -d "$device"'
}

# write_volume ID CONTENT: a task writes the content to the raw volume, and udev has looked at it.
write_volume() {
  csi stage "$1" --staging-path /srv/raw-stage --block
  csi publish "$1" --staging-path /srv/raw-stage --target-path /srv/raw --block
  inside dd "if=/root/$2" of=/srv/raw bs=1M conv=fsync status=none
  inside udevadm trigger --action=change --subsystem-match=block --sysname-match='loop*'
  inside udevadm settle
}

take_away() {
  csi unpublish "$1" --target-path /srv/raw
  csi unstage "$1" --staging-path /srv/raw-stage
}

# LVM itself may refuse to activate the group, because the hold of a raw volume shows the same content a second time.
knows_of_lvm() { inside sh -c 'udevadm info --export-db | grep -qx "E: ID_FS_TYPE=LVM2_member"'; }

link=/dev/disk/by-uuid/11111111-2222-4333-8444-555555555555

# Without the rules, to see that the next test can fail.
test_i1_without_the_rules_udev_acts_on_the_content() {
  inside mkdir -p /srv/raw-stage
  make_contents
  csi create raw --size 64MiB --block --param pool=images --json | jq -r .volume.volume_id >"$work/raw"
  inside mv "$rules" /root/rules
  inside udevadm control --reload
  write_volume "$(cat "$work/raw")" filesystem
  await "a link to the volume" inside test -e "$link"
  write_volume "$(cat "$work/raw")" group
  await "a physical volume in udev's database" knows_of_lvm
  inside vgchange -an intruder
  inside mv /root/rules "$rules"
  inside udevadm control --reload
  take_away "$(cat "$work/raw")"
}

test_i2_the_rules_hide_the_content() {
  local content
  for content in filesystem group; do
    write_volume "$(cat "$work/raw")" "$content"
    sleep 5 # systemd starts the activation on its own
    expect "the mappings" "$(inside dmsetup ls)" 'No devices found'
    refused '' knows_of_lvm
    refused '' inside test -e "$link"
    take_away "$(cat "$work/raw")"
  done
  csi delete "$(cat "$work/raw")"
}
