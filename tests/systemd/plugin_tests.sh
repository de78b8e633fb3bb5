# shellcheck shell=bash disable=SC2154 # MOORING_ROOT is run's
# Tests of mooring-plugin.service, after the manager's. The namespaces of systemd are the plugin's host here.

csi() { inside env CSI_ENDPOINT=unix:///run/mooring-plugin/csi.sock mooring csi "$@"; }
id_of() { csi create "$@" --json | jq -r .volume.volume_id; }
stage() { csi stage "$1" --staging-path "/srv/stage-$2" "${@:3}"; }
publish() { csi publish "$1" --staging-path "/srv/stage-$2" --target-path "/srv/tasks/$2" "${@:3}"; }
status_of() { inside sh -c "sed -n 's/^$2:[[:space:]]*//p' /proc/$1/status"; }

# volume NAME CREATE-FLAG...: its id, staged at /srv/stage-NAME and published at /srv/tasks/NAME.
volume() {
  local id
  id=$(id_of "$@") && inside mkdir -p "/srv/stage-$1" /srv/tasks && stage "$id" "$1" >/dev/null &&
    publish "$id" "$1" >/dev/null && printf '%s\n' "$id"
}

take_away() {
  csi unpublish "$1" --target-path "/srv/tasks/$2"
  csi unstage "$1" --staging-path "/srv/stage-$2"
  csi delete "$1"
}

test_p1_the_unit_is_well_formed() {
  expect "what systemd-analyze finds" "$(inside systemd-analyze verify --man=no --recursive-errors=yes \
    mooring-plugin.service 2>&1)" ''
}

# "| `mooring-plugin.service` | 4.2 |" of docs/packages.md, as systemd-analyze has it: 42.
recorded() { sed -nE "s/^\| \`$1\` \| ([0-9]+)\.([0-9]) \|.*/\1\2/p" "$MOORING_ROOT/docs/packages.md"; }

test_p2_the_units_are_as_secure_as_the_documentation_says() {
  local unit
  for unit in mooring-plugin.service mooring-manager.service; do
    expect_match "what is recorded of $unit" "$(recorded $unit)" '^[0-9]+$'
    inside systemd-analyze security --offline=true --no-pager --threshold="$(recorded $unit)" \
      "/usr/lib/systemd/system/$unit" | tail -n 1
  done
}

test_p3_it_starts_with_its_user_and_directory_and_is_confined() {
  local spawner process
  inside systemd-sysusers mooring-plugin.conf
  inside systemd-tmpfiles --create mooring-plugin.conf mooring-manager.conf
  inside systemctl start mooring-plugin.service
  await "it is ready" csi probe
  expect "the socket's directory" "$(inside stat -c '%U:%G %a' /run/mooring-plugin)" 'mooring:mooring 2750'
  expect "who may use the socket" "$(inside stat -c '%G %a' /run/mooring-plugin/csi.sock)" 'mooring 660'
  process=$(property mooring-plugin.service MainPID)
  expect "what it works as" "$(inside stat -c %U "/proc/$process")" mooring
  expect "its mount namespace" "$(inside readlink "/proc/$process/ns/mnt")" "$(inside readlink /proc/1/ns/mnt)"
  expect "the plugin's capabilities" "$(status_of "$process" CapPrm)" 0000000000000000
  spawner=$(inside cat "/proc/$process/task/$process/children")
  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETFCAP, SYS_ADMIN, SYS_RESOURCE, MKNOD, SETUID, SETGID.
  expect "what the helper may beyond that" "$((0x$(status_of "${spawner% }" CapBnd) & ~0x892000db))" 0
  expect "no_new_privs" "$(status_of "${spawner% }" NoNewPrivs)" 1
  expect "a filter of system calls" "$(status_of "${spawner% }" Seccomp)" 2
}

# The kernel's log is a device that the plugin does not need.
# shellcheck disable=SC2016 # for the inner shell
test_p4_no_other_device_is_opened() {
  local join='echo $$ >/sys/fs/cgroup/system.slice/mooring-plugin.service/cgroup.procs'
  inside mknod /root/kmsg c 1 11
  inside sh -c 'exec 3</root/kmsg'
  refused "Operation not permitted" inside sh -c "$join && exec 3</root/kmsg"
}

test_p5_each_kind_of_volume_works_under_its_restrictions() {
  local id kind
  for kind in ext4 xfs btrfs; do
    id=$(volume "$kind" --size 400MiB --fs-type "$kind")
    expect "what the host sees of $kind" "$(inside findmnt -n -o FSTYPE --mountpoint "/srv/tasks/$kind")" "$kind"
    inside sh -c "echo written >/srv/tasks/$kind/f"
    csi snapshot create "of-$kind" --volume "$id" --json | jq -r .snapshot.snapshot_id | {
      read -r snapshot
      csi snapshot delete "$snapshot"
    }
    csi expand "$id" --size 500MiB
    take_away "$id" "$kind"
  done
  id=$(id_of raw --size 16MiB --block)
  inside mkdir -p /srv/stage-raw
  stage "$id" raw --block
  publish "$id" raw --block
  inside dd if=/dev/zero of=/srv/tasks/raw bs=1M count=16 conv=notrunc,fsync status=none
  take_away "$id" raw
}

# The timer is off by default.
test_p5b_freed_space_goes_back_to_the_pool() {
  local id used
  expect "what systemd-analyze finds" "$(inside systemd-analyze verify --man=no --recursive-errors=yes \
    mooring-trim.service mooring-trim.timer 2>&1)" ''
  expect "the timer" "$(inside systemctl is-enabled mooring-trim.timer || true)" disabled
  id=$(volume trimmed --size 64MiB)
  inside sh -c 'cd /srv/tasks/trimmed && dd if=/dev/urandom of=gone bs=1M count=32 status=none && sync -f . && rm gone && sync -f .'
  used=$(inside du -m "/var/lib/mooring/volumes/$id.img" | cut -f 1)
  inside systemctl start mooring-trim.service
  [ "$(inside du -m "/var/lib/mooring/volumes/$id.img" | cut -f 1)" -le $((used - 24)) ] || fail "the image kept its space"
  take_away "$id" trimmed
}

test_p6_volumes_stay_over_a_restart_and_a_kill() {
  local id process
  id=$(volume kept --size 64MiB)
  inside sh -c 'echo kept >/srv/tasks/kept/f'
  inside systemctl restart mooring-plugin.service
  await "it is ready" csi probe
  expect "what is read after a restart" "$(inside cat /srv/tasks/kept/f)" kept
  process=$(property mooring-plugin.service MainPID)
  inside systemctl kill --kill-whom=main --signal=KILL mooring-plugin.service
  await "another process" inside sh -c "test \$(systemctl show --value -p MainPID mooring-plugin.service) -gt 0 &&
    test \$(systemctl show --value -p MainPID mooring-plugin.service) -ne $process"
  await "it is ready" csi probe
  expect "what is read after a kill" "$(inside cat /srv/tasks/kept/f)" kept
  publish "$id" kept # the same once more
  inside systemctl stop mooring-plugin.service
  expect "how it ended" "$(property mooring-plugin.service Result)" success
  expect "what is read after a stop" "$(inside cat /srv/tasks/kept/f)" kept
  inside systemctl start mooring-plugin.service
  await "it is ready" csi probe
  take_away "$id" kept
  expect "what is mounted" "$(inside findmnt -n -l -o TARGET | grep /srv/ || true)" ''
}

# On the loopback interface, as a user without privileges.
test_p6b_metrics_are_served_under_its_restrictions() {
  local address id
  echo 'MOORING_METRICS_LISTEN=127.0.0.1:0' | inside tee -a /etc/default/mooring-plugin >/dev/null
  inside systemctl restart mooring-plugin.service
  await "it is ready" csi probe
  id=$(id_of measured --size 16MiB)
  address=$(inside sed -n 's/.* serving metrics address=//p' /mooring-plugin.log | tail -n 1)
  expect "the volumes that are told" \
    "$(curl -sS --noproxy '*' "http://$address/metrics" | sed -nE 's/^mooring_plugin_volumes\{.*state="ready"\} //p')" 1
  csi delete "$id"
  inside sed -i /MOORING_METRICS_LISTEN=127.0.0.1:0/d /etc/default/mooring-plugin
}

# Without that filesystem it would find no volumes, and make a new state.
test_p7_it_waits_for_the_filesystem_of_its_state() {
  inside systemctl stop mooring-plugin.service
  printf '[Mount]\nWhat=own\nWhere=/var/lib/mooring\nType=tmpfs\nOptions=uid=%s,mode=0700\n' "$(inside id -u mooring)" |
    inside tee /etc/systemd/system/var-lib-mooring.mount
  inside systemctl daemon-reload
  inside systemctl start mooring-plugin.service
  await "it is ready" csi probe
  is_mounted /var/lib/mooring
  inside test -e /var/lib/mooring/catalog.db
  expect_match "of the manager" "$(property mooring-manager.service RequiresMountsFor)" '(^| )/var/lib/mooring-manager( |$)'
  inside systemctl stop mooring-plugin.service
  inside umount /var/lib/mooring
  inside rm /etc/systemd/system/var-lib-mooring.mount
  inside systemctl daemon-reload
}

# Restarts each unit more often than the default limit of systemd allows.
test_p8_systemd_restarts_the_units_without_limit() {
  local unit
  for unit in mooring-plugin.service mooring-manager.service; do
    for _ in 1 2 3 4 5 6 7; do inside systemctl restart $unit; done
    expect "$unit" "$(property $unit ActiveState)" active
    expect "how many starts are too many for $unit" "$(property $unit StartLimitIntervalUSec)" 0
    inside systemctl stop $unit
  done
}
