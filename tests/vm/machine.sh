# shellcheck shell=bash disable=SC2154 # work is run's, the others are image.sh's
# A virtual machine with the parts of image.sh. Its disk is a layer over the root disk, so each run begins with the same
# disk, and a restart keeps what was written. The folders of share_with_machine are read-only in it.

readonly ssh_port=${MOORING_VM_PORT:-$((20000 + $$ % 10000))}
shares=()

# share_with_machine NAME FOLDER: before the first start. `inside mount -t 9p NAME PATH` shows it.
share_with_machine() {
  shares+=(-fsdev "local,id=$1,path=$2,security_model=none,readonly=on" -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

make_machine() {
  with_tools qemu-img create -q -f qcow2 -F raw -b "$root/disk.raw" "$work/root.qcow2"
  mkfifo "$work/monitor.in" "$work/monitor.out"
  qemu=(qemu-system-x86_64 -L "$tools/usr/share/qemu" -L "$tools/usr/share/seabios")
  choose_accelerator
}

# KVM can be there and fail, in a virtual machine without nested ones: then qemu ends or hangs.
choose_accelerator() {
  accelerator=(-accel 'tcg,thread=multi,tb-size=1024')
  [ -w /dev/kvm ] || return 0
  local status=0
  with_tools timeout 10 "${qemu[@]}" -accel kvm -machine q35 -cpu host \
    -m 512 -display none -vga none -monitor none -serial none -no-reboot \
    -kernel "$kernel/vmlinux" -append 'panic=-1 quiet' >/dev/null 2>&1 || status=$?
  # Without a root the kernel panics, restarts, and so ends qemu.
  if [ "$status" -eq 0 ]; then accelerator=(-accel kvm); fi
}

# qemu runs on when the shell of a test ends, so its process is known by a file.
start_machine() {
  local disk serial disks=()
  for disk in "$work"/*.plugged; do
    serial=$(basename "$disk" .plugged)
    [ ! -e "$disk" ] || disks+=(-drive "$(drive "$serial")" -device "$(disk_device "$serial")")
  done
  with_tools "${qemu[@]}" \
    -machine q35 "${accelerator[@]}" -cpu max -smp 2 -m 2048 -display none -vga none -no-reboot \
    -kernel "$kernel/vmlinux" -initrd "$kernel/initramfs.gz" -append 'console=ttyS0 rw apparmor=0 quiet' \
    -drive "file=$work/root.qcow2,if=virtio,format=qcow2,cache=writeback" \
    -netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:$ssh_port-:22" -device virtio-net-pci,netdev=net,romfile= \
    -device virtio-scsi-pci,id=scsi -device virtio-rng-pci "${shares[@]}" "${disks[@]}" \
    -serial "file:$work/console.log" -monitor "pipe:$work/monitor" -daemonize -pidfile "$work/machine.pid" >"$work/qemu.log" 2>&1
  await_boot
}

is_running() { kill -0 "$(cat "$work/machine.pid" 2>/dev/null || echo none)" 2>/dev/null; }

await_boot() {
  local deadline=$((SECONDS + boot_patience))
  until inside true >/dev/null 2>&1; do
    is_running || fail "qemu has ended: $(tail -n 3 "$work/qemu.log")"
    [ "$SECONDS" -lt "$deadline" ] || fail "no answer by ssh within $boot_patience s: $(tail -n 3 "$work/console.log")"
    sleep 1
  done
  inside systemctl is-system-running --wait >"$work/state" || true # a test judges a system that is degraded
}

# inside COMMAND...: as root in the machine. Each word stays a word.
inside() { inside_with_input "$@" </dev/null; }

inside_with_input() {
  ssh -i "$root/key" -p "$ssh_port" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
    -o ConnectTimeout=10 -o ServerAliveInterval=20 root@127.0.0.1 "$(printf '%q ' "$@")"
}

# The machine goes down in order, and comes up again with the same disks.
reboot_machine() {
  local deadline=$((SECONDS + boot_patience))
  inside systemctl reboot || true # the connection may end first
  while is_running; do
    [ "$SECONDS" -lt "$deadline" ] || fail "the machine did not go down within $boot_patience s"
    sleep 0.5
  done
  start_machine
}

# The machine ends at once. Its disks keep all that it has written to them, but nothing that it still held in memory.
cut_power() {
  kill -KILL "$(cat "$work/machine.pid")"
  while is_running; do sleep 0.1; done
  start_machine
}

# shellcheck disable=SC2317 # a hook
end_machine() {
  ! is_running || kill -KILL "$(cat "$work/machine.pid")"
  while is_running; do sleep 0.1; done
}

drive() { printf 'if=none,id=drive-%s,file=%s/%s.raw,format=raw' "$1" "$work" "$1"; }
disk_device() { printf 'scsi-hd,bus=scsi.0,drive=drive-%s,serial=%s,id=disk-%s' "$1" "$1" "$1"; }
monitor() { printf '%s\n' "$*" >"$work/monitor.in"; }

# plug_disk SERIAL MIB: the disk, which a reboot keeps, appears as /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_SERIAL. Its content is kept when it is
# unplugged.
plug_disk() {
  [ -e "$work/$1.raw" ] || truncate -s "$2M" "$work/$1.raw"
  touch "$work/$1.plugged"
  monitor "drive_add 0 $(drive "$1")"
  monitor "device_add $(disk_device "$1")"
  await "udev has linked the disk $1" inside test -b "$(disk_link "$1")"
}

unplug_disk() {
  rm "$work/$1.plugged"
  monitor "device_del disk-$1"
  await "the disk $1 is gone" inside test ! -e "$(disk_link "$1")"
}

disk_link() { printf '/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_%s\n' "$1"; }
