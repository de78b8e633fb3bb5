# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# The image of tasks: made here, from what is installed. The plugin's: plugin_image.sh.

# make_image: makes "base", which has only busybox, for docker and podman.
make_image() {
  local applet root=$work/base
  mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
  cp -- "$(command -v busybox)" "$root/bin/busybox"
  for applet in cat chown df grep id ls mkdir mount printf rmdir sh sleep stat su sync touch umount; do
    ln -s busybox "$root/bin/$applet"
  done
  import_image base
}

# import_image NAME [CHANGE...]: what is in $work/NAME.
import_image() {
  local name=$1 change changes=()
  shift
  for change in "$@"; do changes+=(--change "$change"); done
  tar -C "$work/$name" -cf "$work/$name.tar" .
  docker import "${changes[@]}" "$work/$name.tar" "$name" >/dev/null
  podman_do import -q "${changes[@]}" "$work/$name.tar" "$name" >/dev/null
}

# make_task_images: "app" runs as a user of its own, who owns a directory with a file. "database" starts as databases
# do. As root it gives its directory to a user, and goes on as that user. It refuses a directory with other files.
make_task_images() {
  [ ! -d "$work/app" ] || return 0
  cp -a "$work/base" "$work/app"
  mkdir -m 0750 "$work/app/data"
  echo content >"$work/app/data/seed"
  chown -R 1000:1001 "$work/app/data"
  import_image app "USER 1000:1001"
  cp -a "$work/base" "$work/database"
  mkdir -p "$work/database/etc"
  printf 'root:x:0:0::/:/bin/sh\ndb:x:999:999::/:/bin/sh\n' >"$work/database/etc/passwd"
  printf 'root:x:0:\ndb:x:999:\n' >"$work/database/etc/group"
  cat >"$work/database/bin/start" <<'END'
#!/bin/sh
set -e
if [ "$(id -u)" = 0 ]; then
  chown db:db /store
  exec su db -c /bin/start
fi
if [ ! -s /store/VERSION ]; then
  if [ -n "$(ls -A /store)" ]; then
    echo "/store is not empty: $(ls -A /store)" >&2
    exit 1
  fi
  echo 15 >/store/VERSION
fi
echo "version $(cat /store/VERSION) as $(id -u), store of $(stat -c %u:%g /store)"
END
  chmod +x "$work/database/bin/start"
  import_image database "ENTRYPOINT [\"/bin/start\"]"
}
