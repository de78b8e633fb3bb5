# shellcheck shell=bash disable=SC2034,SC2154 # work, bin, here and patience are run's; the tests use what is set
# The host of these tests. Each test has a folder $host with the orchestrator's shared tree in $host/kubelet and the plugin's
# state in $host/state. Both are bound into the plugin's container.

hosts=/run/hosts # on the disk that the scratch folder is on; but a socket's path may have 107 bytes

next_image=localhost/mooring:next

set_up_image_tests() {
  local engine other
  set_up_engines
  share "$work/hosts" "$hosts"
  build_plugin_image docker &
  other=$!
  build_plugin_image podman
  wait "$other"
  for engine in docker podman; do engine "$engine" tag "$plugin_image" "$next_image"; done
}

# Detaches the loop devices that a failed test has left, kubelet's devices first. (Its mounts go with the namespace.)
detach_loops() {
  local record device
  for record in "$hosts"/*/records/*.loop-*; do
    [ ! -e "$record" ] || losetup -d "$(<"$record")" 2>/dev/null || true
  done
  mounts_below "$hosts" | tac | while read -r device; do umount -- "$device"; done
  detach_below "$hosts"
}

tear_down_image_tests() {
  remove_containers
  detach_loops
  tear_down_engines
}

# For checks.sh: prints the logs of the containers.
on_failure() {
  local engine container
  for engine in docker podman; do
    for container in $(engine "$engine" ps -aq); do
      say "        $engine logs $(engine "$engine" inspect -f '{{.Name}}' "$container"):"
      engine "$engine" logs "$container" 2>&1 | tail -n 30 | sed 's/^/          /'
    done
  done
  remove_containers
  detach_loops
}

# use_host NAME: selects the host of the test.
use_host() {
  host=$hosts/$1 root=$hosts/$1/kubelet
  socket=$root/plugins/mooring.csi/csi.sock
  mkdir -p "$root/plugins/mooring.csi" "$root/pods" "$host/state" "$host/records"
  # The binds of an orchestrator: the folders of the socket, of staging paths and targets, /dev, and the state.
  flags=(-v "$root/plugins/mooring.csi:/csi" -v "$root:$root:rshared" -v /dev:/dev -v "$host/state:/var/lib/mooring"
    -e MOORING_NODE_ID=n1 -e "MOORING_MOUNT_ROOT=$root")
}

# leave_host: expects that nothing of the test's volumes is left.
leave_host() {
  expect_nothing_left "$host"
  expect "images left" "$(ls -A "$host/state/volumes")" ''
}

csi() { "$bin/mooring" csi --endpoint "unix://$socket" "$@"; }

# created NAME FLAG...: prints the volume's id.
created() { csi create "$1" --size 64MiB "${@:2}" --json | jq -r .volume.volume_id; }
