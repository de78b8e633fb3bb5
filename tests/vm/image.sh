# shellcheck shell=bash disable=SC2034,SC2154 # machine.sh and run use these
# The parts of the virtual machine, made of Debian packages alone and kept below $cache: qemu, the stock kernel, and a root
# disk. Nothing is installed on this host. A part is made again when a package in it has a new version.

cache=${MOORING_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/mooring-vm}

tool_packages=(qemu-system-x86 qemu-utils mmdebstrap)
# Kernel modules that find the root disk. All others are loaded from that disk.
boot_modules=(virtio_pci virtio_blk ext4 crc32c_generic)
# The libraries below are those of Mooring's packages.
root_packages=(
  systemd systemd-sysv udev dbus openssh-server kmod iproute2 procps util-linux mount
  e2fsprogs xfsprogs btrfs-progs dmsetup lvm2 quota nfs-kernel-server jq
  libfmt9 libspdlog1.10-fmt9 libcpp-httplib0.11 libprometheus-cpp-core1.0 libsqlite3-0 libssl3 libseccomp2 libcap2 libudev1
)

# apt_get ARG...: with a folder for downloads that any user of apt may write.
apt_get() { apt-get -o "Dir::Cache::archives=$downloads" -o APT::Sandbox::User=root -q "$@"; }

# versions PACKAGE...: a line for each package that apt would install here, with its version.
versions() { apt_get --simulate --no-install-recommends install "$@" | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1 \2/p' | sort; }

key_of() { sha256sum | cut -c 1-12; }

# made NAME KEY: is the part there? Else prepares an empty folder for it, which `keep` renames when it is complete.
made() {
  part=$cache/$1-$2
  [ ! -e "$part" ] || return 0
  rm -rf -- "${part:?}.part"
  mkdir -p "$part.part"
  say "making $part"
  return 1
}

keep() {
  mv -- "$part.part" "$part"
  find "$cache" -mindepth 1 -maxdepth 1 -name "${part##*/}" -prune -o -name "$1-*" -prune -exec rm -rf -- {} +
}

make_tools() {
  local package key
  key=$(versions "${tool_packages[@]}" | key_of)
  if ! made tools "$key"; then
    apt_get --download-only --no-install-recommends --yes install "${tool_packages[@]}" >"$part.part/apt.log"
    for package in "$downloads"/*.deb; do dpkg-deb --extract "$package" "$part.part"; done
    rm -f -- "$downloads"/*.deb
    keep tools
  fi
  tools=$part
}

# with_tools COMMAND...: a program of the tools. A tool that is installed here serves as well.
with_tools() {
  local libraries
  libraries=$(find "$tools" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)
  LD_LIBRARY_PATH=$libraries PATH=$tools/usr/bin:$PATH "$@"
}

# The xz stream in vmlinuz is the kernel as an ELF file, which qemu starts at once (PVH). Decompression by the emulated
# processor would take longer than the boot.
make_kernel() {
  local package file offset
  package=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p' | grep -m 1 '^linux-image-')
  if ! made kernel "$(apt-cache show "$package" | grep -m 2 -E '^(Package|Version):' | key_of)"; then
    (cd "$part.part" && apt_get download "$package" >apt.log)
    dpkg-deb --extract "$part.part"/*.deb "$part.part"
    rm -- "$part.part"/*.deb
    release=$(ls "$part.part/lib/modules")
    file=$part.part/boot/vmlinuz-$release
    offset=$(LC_ALL=C grep -obUaP '\xFD7zXZ\x00' "$file" | head -n 1 | cut -d : -f 1)
    tail -c "+$((offset + 1))" "$file" | xz -dc --single-stream >"$part.part/vmlinux" 2>/dev/null || true # other data follows
    depmod -b "$part.part" "$release"
    make_initramfs "$part.part"
    keep kernel
  fi
  kernel=$part
  release=$(ls "$kernel/lib/modules")
}

# make_initramfs KERNEL
make_initramfs() {
  local tree=$1/initramfs module
  mkdir -p "$tree"/{bin,proc,sys,dev,root}
  cp "$(command -v busybox)" "$tree/bin/"
  cp "$here/init" "$tree/init"
  for module in "${boot_modules[@]}"; do modprobe -d "$1" -S "$release" --show-depends "$module"; done |
    sed -n 's/^insmod //p' | awk '!seen[$0]++' >"$1/boot-modules"
  while read -r module; do
    cp "$module" "$tree/"
    basename "$module" >>"$tree/modules"
  done <"$1/boot-modules"
  (cd "$tree" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$1/initramfs.gz"
  rm -r -- "$tree"
}

# The root disk is an ext4 in a file, made without a mount.
make_root() {
  local key
  key=$(cat <(versions "${root_packages[@]}") <(apt-cache policy "${root_packages[@]}" | grep Candidate) "$here/image.sh" "$here/configure-root" <(echo "$release") | key_of)
  if ! made root "$key"; then
    ssh-keygen -q -t ed25519 -N '' -C mooring-vm -f "$part.part/key"
    with_tools unshare --mount --propagation private mmdebstrap --quiet --mode=root --variant=minbase \
      --include="$(IFS=,; printf '%s' "${root_packages[*]}")" \
      --customize-hook="$here/configure-root \"\$1\" '$kernel' '$part.part/key.pub'" \
      "$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")" "$part.part/tree" >"$part.part/mmdebstrap.log" 2>&1 ||
      { tail -n 20 "$part.part/mmdebstrap.log" >&2 && die "the root of the machine could not be made"; }
    mke2fs -q -t ext4 -L root -d "$part.part/tree" "$part.part/disk.raw" 3G
    rm -r -- "$part.part/tree"
    keep root
  fi
  root=$part
}

make_image() {
  mkdir -p "$cache"
  downloads=$(mktemp -d --tmpdir mooring-vm-downloads.XXXXXX)
  mkdir "$downloads/partial"
  on_exit rm -r -- "$downloads"
  make_tools
  make_kernel
  make_root
}
