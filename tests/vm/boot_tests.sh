# shellcheck shell=bash disable=SC2154,SC2034 # run's
# Lines of type csi in /etc/fstab, as people write them, at the start of the machine. These tests need test_a2.

claims_of() { inside mooring claims --json | jq --arg volume "$1" '[.claims[] | select(.volume.id == $volume)] | length'; }
mounted_from() { inside findmnt -n -o SOURCE --mountpoint "$1"; }

# override_manager LINE...: settings of [Service] in a drop-in.
override_manager() {
  inside mkdir -p /etc/systemd/system/mooring-manager.service.d
  printf '%s\n' '[Service]' "$@" | inside_with_input tee /etc/systemd/system/mooring-manager.service.d/test.conf >/dev/null
  inside systemctl daemon-reload
}

# The boot is over, and did not end in emergency mode. Its state depends on the units that failed.
expect_booted() {
  local boot
  expect "the system" "$(cat "$work/state")" "$1"
  expect "the local filesystems" "$(inside systemctl is-active local-fs.target)" active
  expect "the login" "$(inside systemctl is-active multi-user.target)" active
  expect "the emergency mode" "$(inside systemctl is-active emergency.target || true)" inactive
  for boot in -1 0; do # the shutdown before, and this boot
    expect "the cycles" "$(inside journalctl "--boot=$boot" --no-pager --grep 'ordering cycle' --output=cat || true)" ''
  done
}

test_h1_a_plain_line_is_mounted_like_others() {
  inside mooring volume create plain --plugin mooring.csi --size 64MiB --fs-type ext4 --param pool=images
  inside mkdir -p /srv/plain /srv/www
  inside sh -c "printf '%s\n' 'csi:plain /srv/plain csi defaults 0 0' '/srv/plain/www /srv/www none bind 0 0' >>/etc/fstab"
  inside systemctl daemon-reload
  inside mount /srv/plain
  inside sh -c 'mkdir /srv/plain/www && echo kept >/srv/plain/www/kept && sync'
  inside mount -a
  inside mount -a
  expect "the content" "$(content /srv/www/kept)" kept
  inside systemctl stop srv-www.mount srv-plain.mount
  expect "the claims" "$(claims_of plain)" 0
  inside systemctl start srv-www.mount
  expect "the content" "$(content /srv/www/kept)" kept
  expect "the claims" "$(claims_of plain)" 1
  inside mount -o remount /srv/plain
  refused 'attached in another way' inside mount -o remount,ro /srv/plain
}

test_h2_the_machine_boots_with_the_plain_line() {
  reboot_machine
  expect_booted running
  expect "the content" "$(content /srv/www/kept)" kept
  expect_match "the source" "$(mounted_from /srv/plain)" ^/dev/loop
  inside systemctl restart mooring-manager.service
  expect "the content" "$(content /srv/www/kept)" kept
  inside umount /srv/www
  inside umount /srv/plain
  expect "the claims" "$(claims_of plain)" 0
  inside mount -a
  inside umount /srv/www
  inside umount.csi csi:plain
  expect "the claims" "$(claims_of plain)" 0
}

# The same boot, after the power was cut while the volume was mounted.
test_h3_the_machine_boots_with_a_late_manager() {
  inside mount -a
  override_manager 'ExecStartPre=/bin/sleep 30'
  cut_power
  expect_booted running
  expect "the content" "$(content /srv/www/kept)" kept
  expect "the claims" "$(claims_of plain)" 1
}

test_h4_the_machine_boots_with_a_broken_manager() {
  local said
  override_manager 'ExecStart=' 'ExecStart=/bin/false' 'RestartSec=30'
  reboot_machine
  expect_booted degraded
  expect "the mount" "$(inside systemctl is-active srv-plain.mount || true)" failed
  said=$(inside journalctl --boot --no-pager --output=cat -u srv-plain.mount)
  expect_match "the reason" "$said" "mount.csi: waiting up to [0-9]+ s: the manager does not answer"
  inside rm /etc/systemd/system/mooring-manager.service.d/test.conf
  inside systemctl daemon-reload
  inside systemctl restart mooring-manager.service
  inside mount -a
  expect "the content" "$(content /srv/www/kept)" kept
}

test_h5_the_machine_boots_without_a_manager() {
  local said
  inside systemctl mask mooring-manager.service mooring-manager.socket
  reboot_machine
  expect_booted degraded
  said=$(inside journalctl --boot --no-pager --output=cat -u srv-plain.mount)
  expect_match "the reason" "$said" "waiting up to [0-9]+ s: there is no socket at .*: start the manager"
  inside systemctl unmask mooring-manager.service mooring-manager.socket
  inside systemctl start mooring-manager.service
  inside mount -a
  expect "the content" "$(content /srv/www/kept)" kept
  inside sed -i '/plain/d' /etc/fstab
  inside systemctl daemon-reload
  inside umount /srv/www
  inside umount /srv/plain
  inside mooring volume delete plain
}
