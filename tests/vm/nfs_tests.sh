# shellcheck shell=bash disable=SC2154 # run's
# Pools with backend=nfs: the machine's own server exports directories to two plugins, as two nodes. The second one is in
# a network of its own, so that the server sees another client.
first_socket=/run/nfs-first/csi.sock second_socket=/run/nfs-second/csi.sock
first() { inside env "CSI_ENDPOINT=unix://$first_socket" mooring csi "$@"; }
second() { inside env "CSI_ENDPOINT=unix://$second_socket" mooring csi "$@"; }
id_of() { jq -r .volume.volume_id; }
share='name=share,backend=nfs,server=127.0.0.1,export=/share,options=timeo=50,actimeo=1'
many='--access multi-node-multi-writer'

# start_node NAME SOCKET PREFIX... -- FLAG...: a plugin as a unit, NAME is its node id.
start_node() {
  local name=$1 socket=$2 before=()
  shift 2
  while [ "$1" != -- ]; do
    before+=("$1")
    shift
  done
  shift
  inside mkdir -p "$(dirname "$socket")"
  inside systemctl reset-failed "mooring-nfs-$name.service" 2>/dev/null || true
  inside systemd-run --quiet --unit="mooring-nfs-$name" "${before[@]}" mooring-plugin --endpoint "unix://$socket" \
    --state-dir "/var/lib/nfs-$name" --node-id "$name" --mount-root /srv "$@"
}

start_first() {
  start_node first "$first_socket" -- --pool "$share" --pool name=directories,backend=directory,path=/var/lib/nfs-directories "$@"
}

stop_nodes() { inside systemctl stop mooring-nfs-first.service mooring-nfs-second.service 2>/dev/null || true; }

test_n1_volumes_of_an_export_are_directories() {
  local id
  inside systemctl --quiet unmask nfs-server.service
  inside sh -c 'printf "[nfsd]\nvers3=n\nlease-time=10\ngrace-time=10\n" >/etc/nfs.conf.d/machine.conf'
  inside mkdir -p /share /squashed /srv/n-stage /etc/exports.d
  inside chmod 0755 /share /squashed
  inside install -d -m 0755 -o 4321 -g 4321 /one-user
  inside sh -c 'printf "/share 127.0.0.1(rw,no_root_squash,no_subtree_check) 10.10.0.2(rw,no_root_squash,no_subtree_check)\n/squashed 127.0.0.1(rw,root_squash,no_subtree_check)\n/one-user 127.0.0.1(rw,all_squash,anonuid=4321,anongid=4321,no_subtree_check)\n" >/etc/exports.d/mooring.exports'
  inside systemctl restart nfs-server.service
  start_first
  await "the plugin is ready" first probe
  await "the pool is mounted" first capacity --param pool=share
  expect "its mounts" "$(inside sh -c 'grep -c "nfs4 127.0.0.1:/share " /proc/self/mountinfo')" 2
  id=$(first create a --size 64MiB --param pool=share --json | id_of)
  echo "$id" >"$work/n-id"
  inside test -d "/share/$id"
  # shellcheck disable=SC2086 # words
  first stage "$id" --staging-path /srv/n-stage $many
  # shellcheck disable=SC2086
  first publish "$id" --staging-path /srv/n-stage --target-path /srv/n-target $many
  # shellcheck disable=SC2086
  first publish "$id" --staging-path /srv/n-stage --target-path /srv/n-target $many
  inside sh -c 'echo kept >/srv/n-target/kept && sync /srv/n-target/kept'
  expect "the file on the server" "$(content "/share/$id/kept")" kept
  expect "its size" "$(first stats "$id" --path /srv/n-target --json | jq -r '.usage[] | select(.unit == "BYTES").total')" \
    "$(($(inside stat -f -c '%b * %S' /srv/n-target)))"
  refused FAILED_PRECONDITION first delete "$id"
}

test_n2_pools_start_without_each_other() {
  inside systemctl stop mooring-nfs-first.service
  start_first --pool 'name=dead,backend=nfs,server=10.99.0.1,export=/share' \
    --pool 'name=squashed,backend=nfs,server=127.0.0.1,export=/squashed' \
    --pool 'name=one-user,backend=nfs,server=127.0.0.1,export=/one-user' \
    --pool 'name=wrong,backend=nfs,server=127.0.0.1,export=/nowhere'
  await "the plugin is ready" first probe
  await "the good pool is mounted" first capacity --param pool=share
  first create b --size 64MiB --param pool=default >/dev/null
  await "the squashed pool is told" refused_quietly no_root_squash first create c --param pool=squashed
  await "root that is squashed to the owner is told" refused_quietly no_root_squash first create c --param pool=one-user
  expect "what is left of the question" "$(inside ls -A /one-user)" ''
  await "the wrong pool is told" refused_quietly 'the server' first create c --param pool=wrong
  refused UNAVAILABLE first create c --param pool=dead
  expect "the content after a restart" "$(content /srv/n-target/kept)" kept
  inside systemctl stop mooring-nfs-first.service
  start_first
  await "the pool is mounted" first capacity --param pool=share
}

refused_quietly() { (refused "$@"); }

test_n3_two_nodes_use_a_volume_at_once() {
  local id
  id=$(cat "$work/n-id")
  inside ip netns add n-second
  inside ip link add n-here type veth peer name there netns n-second
  inside ip addr add 10.10.0.1/24 dev n-here
  inside ip link set n-here up
  inside ip -n n-second addr add 10.10.0.2/24 dev there
  inside ip -n n-second link set there up
  inside ip -n n-second link set lo up
  inside ip netns exec n-second sh -c 'echo second >/sys/fs/nfs/net/nfs_client/identifier'
  start_node second "$second_socket" nsenter --net=/run/netns/n-second -- --pool "${share/127.0.0.1/10.10.0.1}"
  await "the second pool is mounted" second capacity --param pool=share
  inside mkdir -p /srv/n-stage-2
  # shellcheck disable=SC2086 # words
  first controller-publish "$id" --node first $many
  # shellcheck disable=SC2086
  second controller-publish "$id" --node second $many
  refused FAILED_PRECONDITION second controller-publish "$id" --node second --access single-node-writer
  second stage "$id" --staging-path /srv/n-stage-2 --access multi-node-multi-writer
  second publish "$id" --staging-path /srv/n-stage-2 --target-path /srv/n-target-2 --access multi-node-multi-writer
  expect "the content on the second node" "$(content /srv/n-target-2/kept)" kept
  inside sh -c 'echo two >/srv/n-target-2/two && sync /srv/n-target-2/two'
  await "the first node sees it" inside test -e /srv/n-target/two
  expect "its nodes" "$(first get "$id" --json | jq -r '.status.published_node_ids | sort | join(" ")')" 'first second'
  refused 'published to node' second delete "$id"
  second controller-unpublish "$id" --node first
  second controller-unpublish "$id" --node second
  refused "in use on node 'first'" second delete "$id"
  refused "in use on node 'first'" second controller-publish "$id" --node second --access single-node-writer
  # shellcheck disable=SC2086
  first controller-publish "$id" --node first $many
  # shellcheck disable=SC2086
  second controller-publish "$id" --node second $many
}

# took_less_than SECONDS SINCE WHAT
took_less_than() {
  local took=$((SECONDS - $2))
  [ "$took" -lt "$1" ] || fail "$3 took $took s, and may take less than $1 s"
  say "$3 took $took s"
}

# answer_of NAME COMMAND...: for the background. Its answer and its status are in $work/NAME.
answer_of() {
  local file=$work/$1 status=0
  shift
  "$@" >"$file" 2>&1 || status=$?
  echo "status $status" >>"$file"
}

# Calls for its volumes fail at once, and others are not delayed. Tasks can be taken away. MOORING_VM_NFS_STOP is the
# time for which the server is away longer than the calls take, in seconds.
test_n4_a_server_that_stops_delays_nobody_and_comes_back() {
  local id other started silent
  id=$(cat "$work/n-id")
  silent=$(inside date +"%F %T")
  inside systemctl stop nfs-server.service
  await "the plugin has noticed" refused_quietly 'has not answered' first get "$id" --timeout 5
  started=$SECONDS
  other=$(first create other --size 64MiB --param pool=default --json | id_of)
  inside mkdir -p /srv/n-other
  first stage "$other" --staging-path /srv/n-other
  first unstage "$other" --staging-path /srv/n-other
  first delete "$other"
  other=$(first create directory --size 16MiB --param pool=directories --json | id_of)
  first stage "$other" --staging-path /srv/n-other
  inside systemctl restart mooring-nfs-first.service
  await "the plugin is ready beside a dead server" first probe
  refused UNAVAILABLE first get "$id"
  first stats "$other" --path /srv/n-other
  first unstage "$other" --staging-path /srv/n-other
  first delete "$other"
  took_less_than 60 "$started" "work with other pools, and a start, beside a dead server"
  started=$SECONDS
  refused UNAVAILABLE first create d --param pool=share
  expect_match "its condition" "$(first stats "$id" --path /srv/n-target --json | jq -c .volume_condition)" '"abnormal":true'
  second unpublish "$id" --target-path /srv/n-target-2 --timeout 60
  second unstage "$id" --staging-path /srv/n-stage-2 --timeout 60
  took_less_than 30 "$started" "the end of a use without the server"
  sleep "${MOORING_VM_NFS_STOP:-0}"
  inside journalctl --no-pager -q -o cat -u mooring-nfs-second.service --since "$silent" >"$work/n-said"
  expect "that the second node says that the server is silent" "$(grep -c 'a file server does not answer' "$work/n-said")" 1
  expect "that it takes the server for back" "$(grep -c 'answers again' "$work/n-said" || true)" 0
  inside systemctl start nfs-server.service
  await "the pool answers" first get "$id"
  await "the second pool answers" second get "$id"
  expect "the content" "$(content /srv/n-target/kept)" kept
  second controller-unpublish "$id" --node second
}

# Nothing is refused, packets are lost. Calls are under way, and more begin before the plugin has noticed.
test_n4b_calls_that_hang_hold_no_teardown() {
  local id started calls=()
  id=$(second create silent --size 16MiB --param pool=share --json | id_of)
  inside mkdir -p /srv/n-silent
  second stage "$id" --staging-path /srv/n-silent
  second publish "$id" --staging-path /srv/n-silent --target-path /srv/n-silent-target
  inside ip addr del 10.10.0.1/24 dev n-here
  started=$SECONDS
  answer_of n-created second create during --size 16MiB --param pool=share --timeout 120 &
  calls+=("$!")
  answer_of n-published second publish "$id" --staging-path /srv/n-silent --target-path /srv/n-silent-other \
    --timeout 120 &
  calls+=("$!")
  second unpublish "$id" --target-path /srv/n-silent-target --timeout 60
  second unstage "$id" --staging-path /srv/n-silent --timeout 60
  took_less_than 45 "$started" "the end of a use while the server falls silent"
  refused UNAVAILABLE second get "$id" --timeout 30
  wait "${calls[@]}"
  expect_match "the answer to a creation during the silence" "$(cat "$work/n-created")" 'UNAVAILABLE'
  # The volume may be unstaged before, or another call holds it.
  expect_match "the answer to a publication during the silence" "$(cat "$work/n-published")" \
    'status 0|UNAVAILABLE|ABORTED|FAILED_PRECONDITION'
  inside ip addr add 10.10.0.1/24 dev n-here
  await "the pool answers" second get "$id"
  second unpublish "$id" --target-path /srv/n-silent-other
  await "its use has ended for all" first delete "$id"
}

# The place of the first plugin for the mount of tasks.
first_place() { inside sh -c "grep ' nfs4 127.0.0.1:/share ' /proc/self/mountinfo | cut -d ' ' -f 5 | grep '/share\$'"; }

# As umount -a -t nfs4: the mount of the plugin's own files is busy.
test_n4c_a_deletion_does_not_forget_a_volume_that_it_does_not_see() {
  local id
  id=$(first create unseen --size 16MiB --param pool=share --json | id_of)
  inside touch "/share/$id/data"
  inside umount "$(first_place)"
  answer_of n-deleted first delete "$id"
  if grep -q 'status 0' "$work/n-deleted"; then
    expect "what an answered deletion left" "$(inside sh -c "ls /share | grep -c '^$id' || true")" 0
  else
    expect_match "the answer" "$(cat "$work/n-deleted")" 'UNAVAILABLE'
  fi
  await "the mount is back" first_place
  await "the volume is deleted" first delete "$id"
  expect "what is left of it" "$(inside sh -c "ls /share | grep -c '^$id' || true")" 0
}

test_n4d_a_deletion_goes_on_after_a_kill() {
  local id
  id=$(first create large --size 16MiB --param pool=share --json | id_of)
  inside sh -c "cd /share/$id && seq 8000 | xargs touch"
  answer_of n-deleted first delete "$id" &
  await "the deletion has begun" inside test -e "/share/$id.deleting"
  inside systemctl kill --signal=KILL mooring-nfs-first.service
  wait "$!"
  start_first
  await "the reconcile has removed the directory" inside test ! -e "/share/$id.deleting"
  await "the pool answers" first delete "$id"
  expect "what is left of it" "$(inside sh -c "ls /share | grep -c '^$id' || true")" 0
}

test_n5_a_deletion_removes_one_directory() {
  local id kept
  id=$(first create archived --size 16MiB --param pool=share --param onDelete=archive --json | id_of)
  inside sh -c "echo kept >/share/$id/data"
  first delete "$id"
  expect "what the deletion of a volume with onDelete=archive left" "$(content "/share/archived-$id/data")" kept
  inside rm -r "/share/archived-$id"
  id=$(cat "$work/n-id")
  kept=$(first create e --size 64MiB --param pool=share --json | id_of)
  first controller-unpublish "$id" --node first
  first unpublish "$id" --target-path /srv/n-target
  first unstage "$id" --staging-path /srv/n-stage
  # The nodes share their mounts here, so the second one took those of the first for its own.
  inside systemctl restart mooring-nfs-second.service
  await "the use of the second node has ended" second delete "$id"
  expect "what is left" "$(inside ls /share)" "$kept"
  first delete "$kept"
  expect "what is left" "$(inside ls /share)" ''
}

test_n5a_an_existing_directory_becomes_a_volume() {
  local id
  await "the plugin is ready" first probe
  inside sh -c 'install -d -m 0750 -o 1000 /share/web && echo old >/share/web/data'
  refused 'onDelete=retain' first create web --size 16MiB --param pool=share --param subDir=web
  id=$(first create web --size 16MiB --param pool=share --param subDir=web --param onDelete=retain --json | id_of)
  expect "the link" "$(inside readlink /share/web)" "$id"
  first controller-publish "$id" --node first --access multi-node-multi-writer
  first stage "$id" --staging-path /srv/n-stage --access multi-node-multi-writer
  first publish "$id" --staging-path /srv/n-stage --target-path /srv/n-target --access multi-node-multi-writer
  expect "what the task reads" "$(content /srv/n-target/data)" old
  expect "the owner and mode" "$(inside stat -c '%u %a' /srv/n-target)" '1000 750'
  inside sh -c 'echo new >/srv/n-target/data'
  expect "what others read by the name" "$(content /share/web/data)" new
  refused 'published to node' first delete "$id"
  first unpublish "$id" --target-path /srv/n-target
  first unstage "$id" --staging-path /srv/n-stage
  first controller-unpublish "$id" --node first
  first delete "$id"
  expect "the directory" "$(inside sh -c 'test ! -L /share/web && cat /share/web/data')" new
  inside rm -r /share/web
}

test_n6_a_second_host_with_the_name_is_refused() {
  stop_nodes
  # shellcheck disable=SC2016 # for the shell there
  inside sh -c 'for f in /share/.mooring/host-*; do echo another-boot-0000000000000000000000 >"$f"; done'
  start_first
  await "the plugin is ready" first probe
  await "the name is refused" refused_quietly 'another host with the name' first create f --param pool=share
  await "half a minute later it is taken" first capacity --param pool=share
}

leave_mounts() {
  stop_nodes
  # shellcheck disable=SC2016 # for the shell there
  inside sh -c 'umount -l $(awk "\$5 ~ \"^/run/mooring-nfs/\" { print \$5 }" /proc/self/mountinfo)'
}

# As on a server that has started without its disk.
test_n7_an_emptied_export_is_not_taken_for_the_pool() {
  local id
  id=$(first create g --size 16MiB --param pool=share --json | id_of)
  leave_mounts
  inside sh -c 'mv /share /share-away && install -d -m 0755 /share && exportfs -f'
  start_first
  await "it is refused" refused_quietly identity first delete "$id"
  expect "what the plugin made there" "$(inside ls -A /share)" ''
  leave_mounts
  inside sh -c 'rmdir /share && mv /share-away /share && exportfs -f'
  start_first
  await "the pool is back" first get "$id"
  first delete "$id"
}

test_n8_a_full_export_stays_a_pool() {
  local id
  inside sh -c 'truncate -s 32M /full.img && mkfs.ext4 -q -m 0 /full.img && mkdir -p /full && mount -o loop /full.img /full'
  inside sh -c 'echo "/full 127.0.0.1(rw,no_root_squash,no_subtree_check)" >>/etc/exports.d/mooring.exports && exportfs -ra'
  inside systemctl stop mooring-nfs-first.service
  start_first --pool 'name=full,backend=nfs,server=127.0.0.1,export=/full'
  await "the pool is mounted" first capacity --param pool=full
  id=$(first create full --size 1MiB --param pool=full --json | id_of)
  # ext4 keeps some blocks for data that it has not written yet, so the first file does not get all.
  inside sh -c "for size in 64k 4k 1k 512; do dd if=/dev/zero of=/full/$id/\$size bs=\$size 2>/dev/null; sync; done"
  expect "the free blocks before the restart" "$(inside stat -f -c %a /full)" 0
  inside systemctl restart mooring-nfs-first.service
  await "the full pool is there" first get "$id"
  sleep 15 # in which the name of the host is renewed
  first get "$id"
  inside mkdir -p /srv/n-full
  first stage "$id" --staging-path /srv/n-full
  first unstage "$id" --staging-path /srv/n-full
  first stage "$id" --staging-path /srv/n-full --access multi-node-multi-writer
  first unstage "$id" --staging-path /srv/n-full
  expect "the free blocks" "$(inside stat -f -c %a /full)" 0
  first delete "$id"
  leave_mounts
  inside sh -c 'sed -i /full/d /etc/exports.d/mooring.exports && exportfs -ra && umount /full && rm /full.img'
}

test_n9_csi_sanity_passes() {
  stop_nodes
  inside install -d -m 0755 /share/sanity
  start_node first "$first_socket" -- --max-volumes 16 --volume-mount-group \
    --pool name=default,backend=nfs,server=127.0.0.1,export=/share/sanity
  await "the pool is mounted" first capacity
  sanity_passes nfs "$first_socket" 64 128
  expect "what is left in the pool" "$(inside ls /share/sanity)" ''
}

# The model of a node, whose directories are on an export. MOORING_VM_MODEL is the time for which it is played, in seconds.
test_na_the_model_finds_no_difference() {
  play model/play.py --kinds exports --pools tmpfs --seconds "${MOORING_VM_MODEL:-120}" --shrink 0
}

test_nb_programs_of_others_find_no_damage() {
  if command -v fsx >/dev/null; then inside_with_input sh -c 'cat >/usr/local/bin/fsx && chmod 755 /usr/local/bin/fsx' <"$(command -v fsx)"; fi
  play judges/sessions.py --exports --volumes directory --images tmpfs
}

# The server copies by itself, so the data does not cross the network.
test_nc_a_clone_is_copied_by_the_server() {
  local id copy
  stop_nodes
  start_first
  await "the pool is mounted" first capacity --param pool=share
  id=$(first create cloned --size 64MiB --param pool=share --json | id_of)
  inside mkdir -p /srv/n-clone
  # shellcheck disable=SC2086 # words
  first stage "$id" --staging-path /srv/n-clone $many
  inside sh -c 'cd /srv/n-clone && mkdir d && head -c 8M /dev/urandom >d/data && ln -s d/data link && mkfifo pipe && chown -R 4711:4712 d'
  refused 'in use' first create copy --size 64MiB --from-volume "$id"
  first unstage "$id" --staging-path /srv/n-clone
  copy=$(first create copy --size 64MiB --from-volume "$id" --json | id_of)
  inside sh -c "cmp /share/$id/d/data /share/$copy/link && test -p /share/$copy/pipe"
  expect "the owner of the copy" "$(inside stat -c %u:%g "/share/$copy/d/data")" 4711:4712
  expect_match "the copies by the server" "$(inside sed -n 's/^[[:space:]]*COPY: //p' /proc/self/mountstats)" '(^|[[:space:]])[1-9][0-9]* '
  first delete "$id"
  first delete "$copy"
  expect "the rest of them" "$(inside sh -c "ls -d /share/$id* /share/$copy* 2>/dev/null | wc -l")" 0
}

test_nd_the_manager_attaches_a_volume_of_an_export() {
  inside install -d -m 0755 -o mooring -g mooring /share-of-manager
  inside sh -c 'echo "/share-of-manager 127.0.0.1(rw,no_root_squash,no_subtree_check)" >>/etc/exports.d/mooring.exports && exportfs -ra'
  add_pool 'name=managed,backend=nfs,server=127.0.0.1,export=/share-of-manager'
  await "the pool is mounted" csi capacity --param pool=managed
  inside mooring volume create on-export --plugin mooring.csi --size 64MiB --access multi-node-multi-writer --param pool=managed
  inside mooring attach on-export /srv/managed-1 --for one
  inside mooring attach on-export /srv/managed-2 --for two
  inside sh -c 'echo kept >/srv/managed-1/kept && sync /srv/managed-1/kept'
  expect "what the other task sees" "$(content /srv/managed-2/kept)" kept
  inside systemctl restart mooring-plugin.service mooring-manager.service
  await "the manager is back" inside mooring volume status on-export
  expect "the content after a restart" "$(content /srv/managed-2/kept)" kept
  inside mooring detach /srv/managed-1
  expect "what a task keeps" "$(content /srv/managed-2/kept)" kept
  inside mooring detach /srv/managed-2
  inside mooring volume delete on-export
  expect "what is left on the export" "$(inside ls /share-of-manager)" ''
  inside sed -i 's/;name=managed,[^;]*//' /etc/default/mooring-plugin
  inside systemctl restart mooring-plugin.service
}

# play PROGRAM FLAG...: a program of tests/model or tests/judges, which starts plugins of its own. All that it prints is shown.
play() {
  local tree=/var/lib/tree built=$MOORING_ROOT/build/release program=$1
  shift
  stop_nodes
  inside systemctl stop mooring-plugin.service
  inside sh -c "mkdir -p '$built' $tree && { mountpoint -q '$built' || mount -t 9p -o ro,msize=262144 build '$built'; }"
  tar -C "$MOORING_ROOT" -c tests/model tests/judges tests/replay csi-spec | inside_with_input tar -C "$tree" -x
  inside python3 "$tree/tests/$program" --programs "$built/bin" --work /var/lib/played --seed "${MOORING_VM_SEED:-$RANDOM}" "$@" \
    >"$work/n-played" 2>&1 || { cat "$work/n-played" && fail "tests/$program failed"; }
  sed 's/^/        /' "$work/n-played"
  inside systemctl start mooring-plugin.service
}
