# shellcheck shell=bash disable=SC2154,SC2034 # run's
# Filesystems of other systems on disks of a pool (--fs-type), and by hand. These tests need test_a2. Debian 12's kernel has
# no ntfs3, and Debian 13's has it.

others=(vfat)
[ "$release" = bookworm ] || others+=(ntfs3)
declare -rA makers=([vfat]='mkfs.vfat' [ntfs3]='mkfs.ntfs -Q -q -F')

test_j1_the_kernel_has_the_modules() {
  local type
  for type in "${others[@]}"; do
    inside modprobe "$type"
    inside grep -qw "$type" /proc/filesystems
  done
}

test_j2_a_disk_with_the_filesystem_of_another_system_is_a_volume() {
  local type id
  inside sed -i '/^MOORING_FS_TYPE=/d' /etc/default/mooring-plugin
  inside sh -c "echo MOORING_FS_TYPE=$(IFS=, && echo "${others[*]}") >>/etc/default/mooring-plugin"
  inside systemctl restart mooring-plugin.service
  await "the plugin is ready" csi probe
  inside mkdir -p /srv/other
  for type in "${others[@]}"; do
    plug_disk "POOL$type" 64
    # shellcheck disable=SC2086 # several words
    inside ${makers[$type]} "$(disk_link "POOL$type")"
    id=$(csi create "$type" --fs-type "$type" --param pool=disks --param "device=$(basename "$(disk_link "POOL$type")")" --json |
      jq -r .volume.volume_id)
    csi stage "$id" --staging-path /srv/other
    expect "the type" "$(inside findmnt -n -o FSTYPE /srv/other)" "$type"
    csi publish "$id" --staging-path /srv/other --target-path /srv/other-target
    inside sh -c 'echo kept >/srv/other-target/kept'
    csi unpublish "$id" --target-path /srv/other-target
    csi unstage "$id" --staging-path /srv/other
    csi stage "$id" --staging-path /srv/other --read-only
    expect "the content" "$(content /srv/other/kept)" kept
    refused 'Read-only file system' inside touch /srv/other/more
    csi unstage "$id" --staging-path /srv/other
    csi delete "$id"
    unplug_disk "POOL$type"
  done
}

# The tests of the command line with these filesystems, which the kernel of the host lacks.
test_j3_the_command_line_mounts_them_with_their_options() {
  inside mkdir -p "$MOORING_ROOT/build/release"
  inside mountpoint -q "$MOORING_ROOT/build/release" || inside mount -t 9p -o ro,msize=262144 build "$MOORING_ROOT/build/release"
  inside "$MOORING_ROOT/build/release/bin/kernel_tests" --gtest_filter='CliMountTypesTest.*' | tee "$work/types"
  for type in "${others[@]}"; do
    ! grep -q "no $type\." "$work/types" || fail "it was skipped for $type"
  done
}
