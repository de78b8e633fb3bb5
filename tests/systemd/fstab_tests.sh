# shellcheck shell=bash
# The units that systemd makes of /etc/fstab with our generator.

# deps UNIT PROPERTY
deps() { inside systemctl show --value --property "$2" "$1"; }

# expect_dependency TARGET PROPERTY UNIT YES|NO. A target is asked, and not the unit: systemd knows who requires a unit only
# while that is loaded.
expect_dependency() {
  local answer=no list
  list=$(deps "$1" "$2")
  list=${list//\"/} # around names with a backslash, which is doubled
  [[ " ${list//\\\\/\\} " != *" $3 "* ]] || answer=yes
  expect "whether $1 has $3 in $2" "$answer" "$4"
}

# expect_network UNIT REQUIRES WANTS: it neither holds up local-fs.target nor is required by it. The other two: whether
# remote-fs.target does.
expect_network() {
  expect_dependency "$1" Before local-fs.target no
  expect_dependency local-fs.target Requires "$1" no
  expect_dependency local-fs.target Wants "$1" no
  expect_dependency remote-fs.target Requires "$1" "$2"
  expect_dependency remote-fs.target Wants "$1" "$3"
}

test_7_a_csi_line_counts_as_a_network_filesystem() {
  local unit
  inside tee /etc/fstab >/dev/null <<'FSTAB'
# A comment
csi:a /srv/a csi defaults 0 0
csi:b /srv/b csi nofail 0 2
csi:c	/srv/c	csi	x-systemd.automount	0 0
csi:d /srv/d\040x csi ro
csi:e /srv/e csi ro,x-systemd.requires=mooring-manager.service,x-systemd.mount-timeout=7 0 0
csi:f /srv/f csi noauto 0 0
csi:g /srv/g csi _netdev,nofail 0 0
csi:own /srv/own csi defaults 0 0
/srv/a/www /srv/h none bind 0 0
tmpfs /srv/a/i tmpfs defaults 0 0
tmpfs /srv/other tmpfs noauto 0 0
FSTAB
  printf '[Mount]\nWhat=tmpfs\nWhere=/srv/own\nType=tmpfs\n' | inside tee /etc/systemd/system/srv-own.mount >/dev/null
  inside systemctl daemon-reload
  expect_network srv-a.mount yes no
  expect_network srv-b.mount no yes
  expect_network srv-c.mount no no
  expect_network 'srv-d\x20x.mount' yes no
  expect_network srv-e.mount yes no
  expect_network srv-f.mount no no
  expect_network srv-g.mount no yes
  expect_network srv-h.mount yes no
  expect_network srv-a-i.mount yes no
  expect_dependency local-fs.target Requires srv-c.automount no
  expect_dependency remote-fs.target Requires srv-c.automount yes
  for unit in srv-a.mount srv-b.mount srv-c.mount 'srv-d\x20x.mount' srv-e.mount srv-f.mount srv-g.mount srv-h.mount; do
    expect "the source of $unit" "$(deps "$unit" SourcePath)" /etc/fstab
    expect_dependency "$unit" Wants mooring-manager.service yes
    expect_dependency "$unit" After mooring-manager.service yes
    expect_dependency "$unit" Conflicts umount.target yes
  done
  expect_match "what srv-h.mount requires" "$(deps srv-h.mount RequiresMountsFor)" /srv/a/www
  expect_match "the options" "$(deps srv-e.mount Options)" '^ro,.*,_netdev$'
  expect "the time-out" "$(deps srv-e.mount TimeoutUSec)" 7s
  expect "the administrator's own unit" "$(deps srv-own.mount FragmentPath)" /etc/systemd/system/srv-own.mount
  expect_dependency srv-other.mount Before local-fs.target yes
  expect "what is left beside the units" "$(inside find /run/systemd/generator.early -name 'mooring.fstab*')" ''
  inside sh -c ': >/etc/fstab; rm /etc/systemd/system/srv-own.mount'
  inside systemctl daemon-reload
  refused '' inside test -e /run/systemd/generator.early/srv-a.mount
}
