# shellcheck shell=bash disable=SC2154 # MOORING_ROOT is run's
# The tests run in the order of their names, and each continues from the ones before.

plugin_process() { inside sh -c "grep -lsz '^/build/mooring-plugin' /proc/[0-9]*/cmdline; true"; } # others end meanwhile
claims() { inside mooring claims --json | jq '.claims | length'; }

test_1_the_units_are_well_formed() {
  expect "what systemd-analyze finds" "$(inside systemd-analyze verify --man=no --recursive-errors=yes \
    mooring-manager.service mooring-manager.socket 2>&1)" ''
}

test_2_the_first_client_starts_it() {
  inside systemctl start mooring-manager.socket
  expect "the manager before anybody calls" "$(property mooring-manager.service ActiveState)" inactive
  expect "who may open the socket" "$(inside stat -c '%a %u' /run/mooring/manager.sock)" '600 0'
  inside mooring manager
  await "systemd knows that it serves" inside systemctl is-active mooring-manager.service
  expect "how systemd knows" "$(property mooring-manager.service Type)" notify
  expect "its state directory" "$(inside stat -c %a /var/lib/mooring-manager)" 700
  inside mooring plugin run mooring.csi --exec \
    '/build/mooring-plugin --state-dir /var/lib/managed --pool name=default,backend=directory,path=/var/lib/volumes --node-id n1'
  inside mooring volume create db --plugin mooring.csi --access single-node-writer
}

# Without READY=1 the start would not end.
test_3_a_start_ends_when_it_answers() {
  inside systemctl stop mooring-manager.service
  expect "how it ended" "$(property mooring-manager.service Result)" success
  inside systemctl start mooring-manager.service
  inside mooring volume status db --timeout 1
}

test_4_volumes_and_plugins_outlive_it() {
  local plugin process
  inside mooring attach db /srv/db --for web-1
  inside sh -c 'echo kept >/srv/db/f'
  plugin=$(plugin_process)
  process=$(property mooring-manager.service MainPID)
  inside systemctl kill --kill-whom=main --signal=KILL mooring-manager.service
  await "another manager" inside sh -c "test \$(systemctl show --value -p MainPID mooring-manager.service) -gt 0 &&
    test \$(systemctl show --value -p MainPID mooring-manager.service) -ne $process && mooring volume status db"
  for _ in 1 2; do
    expect "the plugin" "$(plugin_process)" "$plugin"
    expect "what is read" "$(inside cat /srv/db/f)" kept
    expect "the claims" "$(claims)" 1
    inside systemctl restart mooring-manager.service
  done
  inside mooring detach /srv/db
  expect "the claims of what is detached" "$(claims)" 0
}

# Uses the unit of mount.csi.8 unchanged.
test_5_a_mount_unit_mounts_a_volume() {
  local mount
  sed -n '/^\[Unit\]/,/^WantedBy=/p' "$MOORING_ROOT/docs/man/mount.csi.8" | inside tee /etc/systemd/system/srv-db.mount
  inside systemctl daemon-reload
  inside systemctl stop mooring-manager.service
  inside systemctl start srv-db.mount
  expect "the manager that it wants" "$(property mooring-manager.service ActiveState)" active
  expect "what is read" "$(inside cat /srv/db/f)" kept
  expect "the claims" "$(claims)" 1
  mount=$(inside findmnt --noheadings --output ID --mountpoint /srv/db)
  inside systemctl restart mooring-manager.service
  expect "the unit" "$(property srv-db.mount ActiveState)" active
  expect "the mount" "$(inside findmnt --noheadings --output ID --mountpoint /srv/db)" "$mount"
  inside systemctl stop srv-db.mount
  expect "the claims of what is unmounted" "$(claims)" 0
  if is_mounted /srv/db; then fail "it is mounted still"; fi
}

test_6_a_stop_leaves_volumes_attached() {
  inside mooring attach db /srv/db --for web-1
  inside systemctl stop mooring-manager.socket mooring-manager.service
  expect "how it ended" "$(property mooring-manager.service Result)" success
  refused "No such file" inside stat /run/mooring/manager.sock
  expect "what is read" "$(inside cat /srv/db/f)" kept
  inside systemctl start mooring-manager.service
  inside mooring detach /srv/db
  inside mooring volume delete db
  inside mooring plugin stop mooring.csi
}
