# shellcheck shell=bash disable=SC2154 # root, socket, host and bin are host.sh's and run's
# The work of kubelet and its sidecars, with their paths and in their order: the verbs of kubelet.table. A persistent
# volume is PV, a pod is POD. $host/records has their state, because each verb runs in a shell of its own.

record() { printf '%s\n' "${@:3}" >"$host/records/$1.$2"; }
recorded() { cat "$host/records/$1.$2"; }
id_of() { recorded "$1" id; }
is_block() { [[ " $(recorded "$1" use) " == *' --block '* ]]; }

# use_of PV: the words of its capability, into `use`.
use_of() { read -ra use <<<"$(recorded "$1" use)"; }

as_kubelet_makes_it() {
  mkdir -p "$(dirname "$1")"
  [ -d "$1" ] || mkdir -m 0750 "$1"
}

devices=plugins/kubernetes.io/csi/volumeDevices
staging_of() {
  if is_block "$1"; then
    printf '%s\n' "$root/$devices/staging/$1"
  else
    printf '%s\n' "$root/plugins/kubernetes.io/csi/mooring.csi/$(id_of "$1" | tr -d '\n' | sha256sum | cut -d ' ' -f 1)/globalmount"
  fi
}
target_of() { # PV POD
  if is_block "$1"; then
    printf '%s\n' "$root/$devices/publish/$1/$2"
  else
    printf '%s\n' "$root/pods/$2/volumes/kubernetes.io~csi/$1/mount"
  fi
}
device_of() { printf '%s\n' "$root/$devices/$1/dev/$2"; }

# Before each call of its own kubelet asks for the node's capabilities, three times, each on a connection of its own.
ask_capabilities() {
  local time
  for ((time = 0; time < 3; time++)); do csi capabilities >/dev/null; done
}

# Kubelet removes the directories that it made, unless something is mounted there.
remove_as_kubelet() {
  if [ -d "$1" ] && ! mountpoint -q "$1"; then rmdir "$1"; fi
}

kubelet_register() { csi node-info --json | jq -r .node_id; }

# provision PV SIZE [CAPABILITY-FLAG...]
kubelet_provision() {
  record "$1" use --access single-node-multi-writer "${@:3}"
  record "$1" use "$(recorded "$1" use | tr '\n' ' ')"
  use_of "$1"
  csi create "pvc-$1" --size "$2" "${use[@]}" --param "csi.storage.k8s.io/pv/name=pvc-$1" \
    --param "csi.storage.k8s.io/pvc/name=$1" --param csi.storage.k8s.io/pvc/namespace=default --json >"$host/records/$1.answer"
  record "$1" id "$(jq -r .volume.volume_id "$host/records/$1.answer")"
}

# The call often comes twice.
kubelet_delete() { csi delete "$(id_of "$1")" && csi delete "$(id_of "$1")"; }

kubelet_stage() {
  local staging
  staging=$(staging_of "$1")
  use_of "$1"
  as_kubelet_makes_it "$staging"
  ask_capabilities
  csi stage "$(id_of "$1")" --staging-path "$staging" "${use[@]}" \
    --volume-context storage.kubernetes.io/csiProvisionerIdentity=1-mooring.csi
}

# publish PV POD [FLAG...]
kubelet_publish() {
  local target
  target=$(target_of "$1" "$2")
  use_of "$1"
  as_kubelet_makes_it "$(dirname "$target")"
  is_block "$1" || printf '{}\n' >"$(dirname "$target")/vol_data.json"
  ask_capabilities
  csi publish "$(id_of "$1")" --staging-path "$(staging_of "$1")" --target-path "$target" "${use[@]}" "${@:3}"
  record "$1" "pod-$2" "${@:3}"
  if is_block "$1"; then hold_device "$1" "$2"; fi
}

# For a block volume kubelet makes a bind mount for the runtime, and attaches a loop device to it.
hold_device() {
  local device
  device=$(device_of "$1" "$2")
  ! mountpoint -q "$device" || return 0
  mkdir -p "$(dirname "$device")"
  : >"$device"
  mount --bind "$(target_of "$1" "$2")" "$device"
  record "$1" "loop-$2" "$(losetup --find --show "$device")"
}

let_go_of_device() {
  losetup -d "$(recorded "$1" "loop-$2")"
  rm "$host/records/$1.loop-$2"
  umount "$(device_of "$1" "$2")"
  rm "$(device_of "$1" "$2")"
}

kubelet_unpublish() {
  local target
  target=$(target_of "$1" "$2")
  if is_block "$1" && mountpoint -q "$(device_of "$1" "$2")"; then let_go_of_device "$1" "$2"; fi
  csi unpublish "$(id_of "$1")" --target-path "$target"
  remove_as_kubelet "$target"
  rm -f "$(dirname "$target")/vol_data.json" "$host/records/$1.pod-$2"
  if is_block "$1"; then return; fi # the folder is that of other pods, too
  remove_as_kubelet "$(dirname "$target")"
}

kubelet_unstage() {
  local staging
  staging=$(staging_of "$1")
  csi capabilities >/dev/null
  csi unstage "$(id_of "$1")" --staging-path "$staging"
  remove_as_kubelet "$staging"
}

# figures PV POD: the size, once a minute for each pod; of a block volume by the path of kubelet's own bind.
kubelet_figures() {
  local path
  path=$(target_of "$1" "$2")
  ! is_block "$1" || path=$(device_of "$1" "$2")
  csi stats "$(id_of "$1")" --path "$path" --json | jq -r '[.usage[] | select(.unit == "BYTES")][0].total'
}

# expand PV POD SIZE: the resizer's call, and kubelet's some time later.
kubelet_expand() {
  use_of "$1"
  csi expand "$(id_of "$1")" --size "$3" "${use[@]}"
  csi node-expand "$(id_of "$1")" --path "$(target_of "$1" "$2")" --staging-path "$(staging_of "$1")" --size "$3" "${use[@]}"
}

# A restart: it registers the plugin again, then stages and publishes for every pod that runs, mounted or not.
kubelet_restart() {
  local record pv pod flags_of_pod
  kubelet_register >/dev/null
  for record in "$host"/records/*.pod-*; do
    pv=$(basename "${record%.pod-*}") pod=${record##*.pod-}
    kubelet_stage "$pv"
    mapfile -t flags_of_pod < <(grep . "$record")
    kubelet_publish "$pv" "$pod" "${flags_of_pod[@]}"
  done
}

# own PV POD GROUP: the pod's fsGroup on all of the volume, which is kubelet's work where the plugin does not offer it.
kubelet_offers_mount_group() { csi capabilities | grep -c VOLUME_MOUNT_GROUP || true; }
kubelet_own() {
  chgrp -R "$3" "$(target_of "$1" "$2")"
  chmod -R g+rwX "$(target_of "$1" "$2")"
  find "$(target_of "$1" "$2")" -type d -exec chmod g+s {} +
}
kubelet_group_of_file() { stat -c %g "$(target_of "$1" "$2")/file"; }

# The work of the pods, and its effect on the host.
kubelet_write() { printf '%s\n' "$3" >"$(target_of "$1" "$2")/file"; }
kubelet_read() { cat "$(target_of "$1" "$2")/file"; }
kubelet_write_device() { printf '%s\n' "$3" | dd of="$(device_of "$1" "$2")" conv=notrunc,fsync status=none; }
kubelet_read_device() { dd if="$(device_of "$1" "$2")" bs=512 count=1 iflag=direct status=none | tr -d '\0' | head -n 1; }
kubelet_flag_of() { findmnt -n -o VFS-OPTIONS --mountpoint "$(target_of "$1" "$2")" | cut -d , -f 1; }
kubelet_mounts() { mounts_below "$root" | wc -l; }
kubelet_loops() { loops_below "$host/state" | wc -l; }

# The plugin's container.
kubelet_kill_plugin() { kill_plugin "$engine" plugin; }
kubelet_stop_plugin() { stop_plugin "$engine" plugin; }
kubelet_start_plugin() {
  start_again plugin "${1:-}"
  await_plugin "$socket"
}
# The kernel forgets everything: kubelet's loop devices, the mounts, the plugin's loop devices.
kubelet_reboot() {
  local record
  kill_plugin "$engine" plugin
  for record in "$host"/records/*.loop-*; do
    losetup -d "$(<"$record")"
    rm "$record"
  done
  reboot_below "$root"
  reboot_below "$host/state"
  await "no loop device" no_loops_below "$host/state"
}
