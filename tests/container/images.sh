# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# The image of tasks: made here, from what is installed. The plugin's: plugin_image.sh.

# make_image: makes "base", which has only busybox, for docker and podman.
make_image() {
  local applet root=$work/base
  mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
  cp -- "$(command -v busybox)" "$root/bin/busybox"
  for applet in sh cat df grep ls mkdir mount printf rmdir sleep stat sync umount; do ln -s busybox "$root/bin/$applet"; done
  tar -C "$root" -cf "$work/base.tar" .
  docker import "$work/base.tar" base >/dev/null
  podman_do import -q "$work/base.tar" base >/dev/null
}
