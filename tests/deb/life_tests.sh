# shellcheck shell=bash disable=SC2154,SC2016 # run's, dpkg-query's
# Installation, upgrade, removal and purge. Each test continues from the ones before.

# Mount roots of the plugin: for a task, and for the manager.
roots=/srv/tasks,/var/lib/mooring-manager/mounts
csi() { inside env CSI_ENDPOINT=unix:///run/mooring-plugin/csi.sock mooring csi "$@"; }
install() { inside sh -c "dpkg --install $1"; }
state_of() { inside dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null || true; }
active() { property "$1" ActiveState; }
main_process() { property "$1" MainPID; }

# Prints the remains of a package, except the state directories, the user, and dpkg's own files.
left_of() {
  inside find /etc /run /usr /var -xdev \( -name '*mooring*' -o -path '*/mooring/*' \) -not -path '/usr/share/*' \
    -not -path "/var/lib/$1*" -not -path '/var/lib/dpkg/*' -not -path '/etc/systemd/system/mooring-plugin.service.d*' | LC_ALL=C sort
}

test_b1_the_packages_can_be_installed() {
  install '/packages/*.deb'
  for name in mooring-cli mooring-manager mooring-plugin; do expect "the state of $name" "$(state_of $name)" installed; done
  expect "what dpkg finds changed" "$(inside dpkg --verify mooring-cli mooring-manager mooring-plugin)" ''
  expect "the user" "$(inside getent passwd mooring | cut -d : -f 1,5,6)" 'mooring:Mooring CSI driver:/nonexistent'
  expect "the socket's directory" "$(inside stat -c '%U:%G %a' /run/mooring-plugin)" 'mooring:mooring 2750'
}

test_b2_the_manager_runs_and_the_plugin_waits_for_its_configuration() {
  expect "the manager" "$(active mooring-manager.service)" active
  expect "at the next boot" "$(inside systemctl is-enabled mooring-manager.service mooring-manager.socket)" $'enabled\nenabled'
  inside mooring manager
  expect "the plugin" "$(active mooring-plugin.service)" inactive
  expect "at the next boot" "$(inside systemctl is-enabled mooring-plugin.service || true)" disabled
}

test_b3_configured_and_started_it_mounts() {
  inside sed -i "s|^#MOORING_MOUNT_ROOT=.*|MOORING_MOUNT_ROOT=$roots|" /etc/default/mooring-plugin
  inside mkdir -p /srv/tasks/stage
  inside systemctl enable --now mooring-plugin.service
  await "the plugin is ready" csi probe
  expect "what it works as" "$(inside stat -c %U "/proc/$(main_process mooring-plugin.service)")" mooring
  csi create web --size 64MiB --json | jq -r .volume.volume_id >"$work/id"
  csi stage "$(cat "$work/id")" --staging-path /srv/tasks/stage
  csi publish "$(cat "$work/id")" --staging-path /srv/tasks/stage --target-path /srv/tasks/web
  refused "FAILED_PRECONDITION" csi publish "$(cat "$work/id")" --staging-path /srv/tasks/stage --target-path /srv/elsewhere
  inside mooring plugin register mooring.csi --endpoint unix:///run/mooring-plugin/csi.sock
  inside mooring volume create db --plugin mooring.csi --size 64MiB --access single-node-writer --fs-type ext4
  inside mooring attach db /srv/db --for web-1
  inside sh -c 'echo kept >/srv/db/f'
}

# A task that writes a line every 10 ms until it is stopped. It fails when a write fails.
# shellcheck disable=SC2016 # the task's
start_task() {
  inside sh -c 'cd /srv/tasks/web && while [ ! -e end ]; do echo line >>lines || exit 1; sleep 0.01; done' &
  task=$!
}

end_task() {
  inside touch /srv/tasks/web/end
  wait "$task"
  inside rm /srv/tasks/web/end
}

test_b4_an_upgrade_unmounts_nothing_that_is_in_use() {
  local plugin manager mount task lines
  plugin=$(main_process mooring-plugin.service) manager=$(main_process mooring-manager.service)
  mount=$(inside findmnt -n -o ID,SOURCE --mountpoint /srv/tasks/web)
  start_task
  install '/packages/newer/*.deb'
  await "the new plugin is ready" csi probe
  lines=$(inside grep -c line /srv/tasks/web/lines)
  await "the task writes on" inside sh -c "test \$(grep -c line /srv/tasks/web/lines) -gt $lines"
  end_task
  expect "the mount" "$(inside findmnt -n -o ID,SOURCE --mountpoint /srv/tasks/web)" "$mount"
  expect_match "the version" "$(inside dpkg-query -W -f '${Version}' mooring-plugin)" "^$newer-1~deb[0-9]+\$"
  if [ "$(main_process mooring-plugin.service)" = "$plugin" ]; then fail "the old plugin runs still"; fi
  if [ "$(main_process mooring-manager.service)" = "$manager" ]; then fail "the old manager runs still"; fi
  expect "the configuration" "$(inside grep ^MOORING_MOUNT /etc/default/mooring-plugin)" "MOORING_MOUNT_ROOT=$roots"
  csi publish "$(cat "$work/id")" --staging-path /srv/tasks/stage --target-path /srv/tasks/web # it knows of it
  expect "what the manager's volume holds" "$(inside cat /srv/db/f)" kept
  inside mooring volume status db
}

test_b5_disabled_units_stay_disabled() {
  inside systemctl disable --now mooring-plugin.service mooring-manager.service mooring-manager.socket
  install '/packages/newer/*.deb'
  for unit in mooring-plugin.service mooring-manager.service; do
    expect "$unit" "$(active $unit)" inactive
    expect "$unit at the next boot" "$(inside systemctl is-enabled $unit || true)" disabled
  done
  inside systemctl enable --now mooring-plugin.service mooring-manager.socket mooring-manager.service
  await "the plugin is ready" csi probe
}

test_b6_a_removal_leaves_volumes_and_configuration() {
  local task
  start_task
  inside dpkg --remove mooring-manager mooring-plugin mooring-cli
  end_task
  expect "the plugin" "$(active mooring-plugin.service)" inactive
  expect "the manager" "$(active mooring-manager.service)" inactive
  is_mounted /srv/tasks/web
  expect "what the manager's volume holds" "$(inside cat /srv/db/f)" kept
  expect "the configuration" "$(inside grep ^MOORING_MOUNT /etc/default/mooring-plugin)" "MOORING_MOUNT_ROOT=$roots"
  expect "its program" "$(inside sh -c 'command -v mooring-plugin || true')" ''
}

test_b7_a_new_installation_finds_the_volumes() {
  install '/packages/*.deb' # the older, too; what was enabled is started
  await "the plugin is ready" csi probe
  expect "what was written" "$(inside head -n 1 /srv/tasks/web/lines)" line
  inside mooring volume status db
}

test_b8_a_purge_keeps_only_the_data() {
  inside dpkg --purge mooring-manager mooring-plugin mooring-cli 2>&1 | tee "$work/purged"
  grep -q 'kept, for volumes of it are in use: /var/lib/mooring;' "$work/purged"
  grep -q 'kept, for volumes are attached still: /var/lib/mooring-manager;' "$work/purged"
  if grep -w rm "$work/purged"; then fail "a command to delete what is in use"; fi
  is_mounted /srv/tasks/web
  expect "the state of mooring-plugin" "$(state_of mooring-plugin)" ''
  expect "what is left" "$(left_of mooring)" ''
  expect_match "the volumes" "$(inside ls /var/lib/mooring/volumes)" "$(cat "$work/id").img"
}

no_loop_of() { [ -z "$(inside losetup --associated "$1")" ]; }

test_b9_a_purge_with_data_deletes_unused_data() {
  install '/packages/*.deb'
  inside env MOORING_PURGE=data dpkg --purge mooring-manager mooring-plugin 2>&1 | tee "$work/purged"
  grep -q 'kept, for volumes of it are in use' "$work/purged"
  grep -q 'kept, for volumes are attached still' "$work/purged"
  inside test -e "/var/lib/mooring/volumes/$(cat "$work/id").img"
  install '/packages/*.deb'
  inside systemctl start mooring-plugin.service
  await "the manager has its plugin" inside mooring detach --if-exists /srv/db
  inside umount /srv/tasks/web /srv/tasks/stage
  await "the loop device goes with its last mount" no_loop_of "/var/lib/mooring/volumes/$(cat "$work/id").img"
  inside env MOORING_PURGE=data dpkg --purge mooring-manager mooring-plugin mooring-cli
  expect "what is left" "$(inside find /var/lib -maxdepth 1 -name 'mooring*')" ''
}

# postrm PACKAGE [VARIABLE=VALUE]: runs postrm as `dpkg --purge` does. Prints all its output on standard output.
postrm() {
  unpack "$1"
  inside env DPKG_MAINTSCRIPT_PACKAGE="$1" "${@:2}" sh -s purge <"$work/tree/$1/DEBIAN/postrm" 2>&1
}

test_c1_a_purge_empties_a_filesystem_for_the_data() {
  local directory
  for directory in /var/lib/mooring /var/lib/mooring-manager; do
    inside mkdir "$directory"
    inside mount -t tmpfs own "$directory"
    inside sh -c "mkdir $directory/volumes && echo old >$directory/volumes/f"
  done
  install '/packages/*.deb'
  inside mooring manager # it makes its mount
  inside env MOORING_PURGE=data dpkg --purge mooring-manager mooring-plugin mooring-cli
  for directory in /var/lib/mooring /var/lib/mooring-manager; do
    expect "what is left in $directory" "$(inside find "$directory" -mindepth 1)" ''
    is_mounted "$directory"
    postrm "mooring-$([ $directory = /var/lib/mooring ] && echo plugin || echo manager)" # once more, of what is empty
    inside umount "$directory"
    inside rmdir "$directory"
  done
}

test_c2_a_purge_deletes_no_directory_that_is_mounted_elsewhere() {
  inside sh -c 'mkdir -p /var/lib/mooring/volumes/a && echo kept >/var/lib/mooring/volumes/a/f'
  expect_match "what it says of what nobody uses" "$(postrm mooring-plugin)" 'to delete them: rm -r '
  inside mkdir -p /srv/a
  inside mount --bind /var/lib/mooring/volumes/a /srv/a
  for told in MOORING_PURGE= MOORING_PURGE=data; do
    expect_match "what it says" "$(postrm mooring-plugin $told)" 'kept, for volumes of it are in use: /var/lib/mooring;'
  done
  expect "what it holds" "$(inside cat /srv/a/f)" kept
  inside umount /srv/a
  expect "what it says" "$(postrm mooring-plugin MOORING_PURGE=data)" ''
  inside test ! -e /var/lib/mooring
}

# The used volumes lie elsewhere, and the records in /var/lib/mooring name them.
test_c2b_a_purge_sees_volumes_of_other_pools() {
  local id=vol-0123456789abcdef0123456789abcdef source
  inside mkdir -p /var/lib/mooring/devices/disks "/srv/pool/$id" /srv/a
  inside touch /srv/b
  inside mknod /dev/purged b 240 200
  inside sh -c "printf '/dev/purged\n\n' >/var/lib/mooring/devices/disks/$id && echo \"row $id of SQLite's\" >/var/lib/mooring/catalog.db"
  expect_match "what it says of what nobody uses" "$(postrm mooring-plugin)" 'to delete them: rm -r '
  for source in "-t tmpfs mooring:$id /srv/a" "--bind /srv/pool/$id /srv/a" "--bind /dev/purged /srv/b"; do
    # shellcheck disable=SC2086 # words
    inside mount $source
    expect_match "what it says with $source" "$(postrm mooring-plugin MOORING_PURGE=data)" 'kept, for volumes of it are in use'
    inside umount "${source##* }"
  done
  expect "what it says" "$(postrm mooring-plugin MOORING_PURGE=data)" ''
  inside test ! -e /var/lib/mooring
}

# The attached volume is on the same filesystem as the manager's state, so `rm --one-file-system` would not stop there.
test_c3_a_purge_deletes_no_directory_that_is_attached() {
  inside sh -c 'mkdir -p /var/lib/mooring-manager/mounts/a /srv/a && echo kept >/srv/a/f'
  inside mount --bind /var/lib/mooring-manager/mounts /var/lib/mooring-manager/mounts
  expect_match "what it says of what is not attached" "$(postrm mooring-manager)" 'to delete it: rm -r '
  inside mount --bind /var/lib/mooring-manager/mounts /var/lib/mooring-manager/mounts
  inside mount --bind /srv/a /var/lib/mooring-manager/mounts/a
  for told in MOORING_PURGE= MOORING_PURGE=data; do
    expect_match "what it says" "$(postrm mooring-manager $told)" 'kept, for volumes are attached still: /var/lib/mooring-manager;'
  done
  expect "what it holds" "$(inside cat /srv/a/f)" kept
  inside umount /var/lib/mooring-manager/mounts/a
  expect "what it says" "$(postrm mooring-manager MOORING_PURGE=data)" ''
  inside test ! -e /var/lib/mooring-manager
}
