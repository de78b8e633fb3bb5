# shellcheck shell=bash disable=SC2034,SC2154 # machine.sh and run use these; release and work are run's
# The parts of the virtual machine, made of Debian packages alone and kept below $cache: qemu, the stock kernel, and a root
# disk. Nothing is installed on this host. A part is made again when a package in it has a new version.

cache=${MOORING_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/mooring-vm}

tool_packages=(qemu-system-x86 qemu-utils mmdebstrap)
# Kernel modules that find the root disk. All others are loaded from that disk.
boot_modules=(virtio_pci virtio_blk ext4 crc32c_generic)
# The libraries of Mooring's packages come on top: `make_root`.
root_packages=(
  systemd systemd-sysv udev dbus openssh-server kmod iproute2 procps util-linux mount
  e2fsprogs xfsprogs btrfs-progs dosfstools ntfs-3g dmsetup lvm2 thin-provisioning-tools cryptsetup-bin quota nfs-kernel-server jq
  python3-grpcio python3-protobuf protobuf-compiler libprotobuf-dev fio stress-ng # for tests/model and tests/judges
)

# apt_get ARG...: with a folder for downloads that any user of apt may write.
apt_get() { apt-get -o "Dir::Cache::archives=$downloads" -o APT::Sandbox::User=root -q "$@"; }

# with_release COMMAND...: apt of the machine's release: of this system, or of the root of another release.
with_release() { if [ "$release" = "$(this_release)" ]; then "$@"; else in_debian_root "$@"; fi; }

# versions COMMAND...: a line for each package that this apt-get command would install, with its version.
versions() { "$@" | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1 \2/p' | sort; }

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
  key=$(versions apt_get --simulate --no-install-recommends install "${tool_packages[@]}" | key_of)
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

make_kernel() {
  local package
  package=$(with_release apt-cache depends linux-image-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-/ && !found++ { print $2 }')
  if ! made "kernel-$release" "$(with_release apt-cache show "$package" | awk '/^(Package|Version):/ && !seen[$1]++' | key_of)"; then
    fetch_kernel "$package"
    dpkg-deb --extract "$part.part"/*.deb "$part.part"
    rm -- "$part.part"/*.deb
    [ -e "$part.part/lib" ] || ln -s usr/lib "$part.part/lib"
    version=$(ls "$part.part/lib/modules")
    unpack_kernel "$part.part/boot/vmlinuz-$version" >"$part.part/vmlinux"
    depmod -b "$part.part" "$version"
    make_initramfs "$part.part"
    keep "kernel-$release"
  fi
  kernel=$part
  version=$(ls "$kernel/lib/modules")
}

# unpack_kernel VMLINUZ: an xz stream in it is the kernel as an ELF file, which qemu starts at once (PVH). An emulated
# processor would take longer to unpack it than to boot. Debian 13 has zstd there, which is unpacked in seconds.
unpack_kernel() {
  local offset
  offset=$({ LC_ALL=C grep -obUaP '\xFD7zXZ\x00' "$1" || true; } | LC_ALL=C sed -n '1s/:.*//p')
  if [ -z "$offset" ]; then
    cat "$1"
  else
    tail -c "+$((offset + 1))" "$1" | xz -dc --single-stream 2>/dev/null || true # other data follows
  fi
}

fetch_kernel() {
  if [ "$release" = "$(this_release)" ]; then
    (cd "$part.part" && apt_get download "$1" >apt.log)
  else
    # shellcheck disable=SC2016 # for the shell in the root
    in_debian_root sh -euc 'rm -rf /tmp/kernel && mkdir /tmp/kernel && cd /tmp/kernel && apt-get -q download "$1"' sh "$1" >"$part.part/apt.log"
    mv -- "$debian_root"/tmp/kernel/*.deb "$part.part/"
  fi
}

# make_initramfs KERNEL: the modules are unpacked, because busybox's insmod cannot do that.
make_initramfs() {
  local tree=$1/initramfs module name
  mkdir -p "$tree"/{bin,proc,sys,dev,root}
  cp "$(command -v busybox)" "$tree/bin/"
  cp "$here/init" "$tree/init"
  for module in "${boot_modules[@]}"; do modprobe -d "$1" -S "$version" --show-depends "$module"; done |
    sed -n 's/^insmod //p' | awk '!seen[$0]++' >"$1/boot-modules"
  while read -r module; do
    name=$(basename "$module" .xz)
    if [[ $module == *.xz ]]; then xz -dc "$module" >"$tree/$name"; else cp "$module" "$tree/$name"; fi
    printf '%s\n' "$name" >>"$tree/modules"
  done <"$1/boot-modules"
  (cd "$tree" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$1/initramfs.gz"
  rm -r -- "$tree"
}

# libraries_of PACKAGE...: names of the libraries that the package files depend on, a line each.
libraries_of() {
  local package
  for package in "$@"; do dpkg-deb --field "$package" Depends; done | tr ',' '\n' | sed -nE 's/^ *(lib[^ (|]*).*/\1/p' | sort -u
}

# The root disk is an ext4 in a file, made without a mount.
make_root() {
  local key sources packages
  mapfile -t packages < <(printf '%s\n' "${root_packages[@]}" && libraries_of "$work"/packages/*.deb)
  mapfile -t sources < <(debian_sources "$release")
  key=$(cat <(versions with_release apt-get -q --simulate --no-install-recommends install "${packages[@]}") \
    <(with_release apt-cache policy "${packages[@]}" | grep Candidate) "$here/image.sh" "$here/configure-root" <(echo "$version") | key_of)
  if ! made "root-$release" "$key"; then
    ssh-keygen -q -t ed25519 -N '' -C mooring-vm -f "$part.part/key"
    with_tools unshare --mount --propagation private mmdebstrap --quiet --mode=root --variant=minbase \
      --include="$(IFS=, && printf '%s' "${packages[*]}")" \
      --customize-hook="$here/configure-root \"\$1\" '$kernel' '$part.part/key.pub'" \
      "$release" "$part.part/tree" "${sources[@]}" >"$part.part/mmdebstrap.log" 2>&1 ||
      { tail -n 20 "$part.part/mmdebstrap.log" >&2 && die "the root of the machine could not be made"; }
    mke2fs -q -t ext4 -L root -d "$part.part/tree" "$part.part/disk.raw" 3G
    rm -r -- "$part.part/tree"
    keep "root-$release"
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
