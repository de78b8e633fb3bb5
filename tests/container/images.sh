# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# The images: made here, from what is installed.

# make_image: "base", busybox alone, for docker and podman.
make_image() {
  local applet root=$work/base
  mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
  cp -- "$(command -v busybox)" "$root/bin/busybox"
  for applet in sh cat df grep ls mkdir mount printf rmdir sleep stat sync umount; do ln -s busybox "$root/bin/$applet"; done
  tar -C "$root" -cf "$work/base.tar" .
  docker import "$work/base.tar" base >/dev/null
  podman_do import -q "$work/base.tar" base >/dev/null
}

# copy_program ROOT PROGRAM: it, at the same place, and the libraries that it loads.
copy_program() {
  local file
  while read -r file; do
    [ -n "$file" ] || continue
    mkdir -p "$1$(dirname "$file")"
    cp -Ln -- "$file" "$1$file"
  done < <(printf '%s\n' "$2" && ldd "$2" | grep -oE '/[^ ]+')
}

# make_plugin_image ENGINE: "localhost/mooring-plugin:test", our plugin and what it executes.
make_plugin_image() {
  local program root=$work/plugin-image
  mkdir -p "$root/etc" "$root/tmp" "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/var/lib"
  for program in mkfs.ext4 e2fsck resize2fs tune2fs; do copy_program "$root" "$(command -v "$program")"; done
  cp /etc/mke2fs.conf "$root/etc/"
  for program in mooring-plugin mooring-mounter; do
    copy_program "$root" "$bin/$program"
    mkdir -p "$root/usr/bin"
    mv -- "$root$bin/$program" "$root/usr/bin/$program"
  done
  tar -C "$root" -cf "$work/plugin-image.tar" .
  "$1" import --change 'ENTRYPOINT ["/usr/bin/mooring-plugin"]' --change 'ENV PATH=/usr/bin:/usr/sbin:/bin:/sbin' \
    "$work/plugin-image.tar" localhost/mooring-plugin:test >/dev/null
}
