# shellcheck shell=bash
# Functions of the project's scripts. Source it: it sets MOORING_ROOT and installs cleanup hooks, nothing else.

MOORING_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# need_root "$@": continues as root, through sudo if necessary. Call it first, with the script's own arguments.
need_root() {
  if [ "$(id -u)" -eq 0 ]; then
    [ -z "${SUDO_UID:-}" ] || behave_as_guest
    return 0
  fi
  command -v sudo >/dev/null || die "this needs root, and there is no sudo here: run it as root"
  exec sudo -E -- "$(readlink -f "$0")" "$@"
}

# on_exit COMMAND [ARG...]: runs at exit, also after an error, Ctrl-C or SIGTERM. The last command runs first.
exit_hooks=()
on_exit() { exit_hooks+=("$(printf '%q ' "$@")"); }

run_exit_hooks() {
  local status=$? i
  trap '' INT TERM HUP # a second Ctrl-C must not cut the clean-up short
  for ((i = ${#exit_hooks[@]} - 1; i >= 0; i--)); do
    eval "${exit_hooks[i]}" || say "clean-up failed: ${exit_hooks[i]}" >&2
  done
  exit "$status"
}
trap run_exit_hooks EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# behave_as_guest: for root through sudo, in the tree of another user. That user must be able to build by hand later. So the
# build folder is given back at the end, and the user's compiler cache is not used.
behave_as_guest() {
  HOME=$(getent passwd 0 | cut -d : -f 6)
  export HOME
  unset CCACHE_DIR XDG_CACHE_HOME XDG_CONFIG_HOME
  on_exit give_back_build
}

give_back_build() {
  [ ! -d "$MOORING_ROOT/build" ] || chown -R --no-dereference --reference="$MOORING_ROOT" "$MOORING_ROOT/build"
}

# mounts_below DIR: the mount points below DIR in this mount namespace, oldest first. `read` would seek back after each
# line, and miss mounts while others mount and unmount.
mounts_below() {
  local target
  while read -r target; do
    printf -v target '%b' "${target//\\/\\0}" # the kernel writes a space as \040, and %b wants \0040
    [[ $target != "$1"/* ]] || printf '%s\n' "$target"
  done < <(cut -d " " -f 5 /proc/self/mountinfo)
}

# loops_below DIR: "/dev/loopN file" for each loop device over a file below DIR, or over a deleted file there. Compares
# inodes, too: for a device from a container the kernel shows the container's path of the file.
loops_below() {
  local device number inode file disk
  disk=$(stat -c %Hd:%Ld -- "$1" 2>/dev/null || true)
  while read -r device number inode file; do
    if [[ $file == "$1"/* ]] || { [ "$number" = "$disk" ] && has_inode "$1" "$inode"; }; then printf '%s %s\n' "$device" "$file"; fi
  done < <(losetup -l -n -O NAME,BACK-MAJ:MIN,BACK-INO,BACK-FILE)
}

# has_inode DIR NUMBER: a file below DIR, on the same disk, has this inode.
has_inode() { [ -n "$(find "$1" -xdev -inum "$2" -print -quit 2>/dev/null || true)" ]; }

# end_holders DEVICE: ends the mooring-hold processes that have DEVICE open, and detaches the loop device that holds it:
# docs/security.md.
end_holders() {
  local pid
  for pid in $(pgrep -x mooring-hold || true); do
    find "/proc/$pid/fd" -lname "$1" -print -quit 2>/dev/null | grep -q . || continue
    kill -KILL "$pid" || true
  done
  local number=${1#/dev/loop}
  if [ "$number" -ge 65536 ] && losetup "/dev/loop$((number + 1))" >/dev/null 2>&1; then
    losetup -d "/dev/loop$((number + 1))"
  fi
}

# detach_below DIR: detaches the loop devices over files below DIR, also held ones.
detach_below() {
  local device
  loops_below "$1" | while read -r device _; do
    end_holders "$device"
    losetup -d "$device"
  done
}

# clear_below DIR: clears our own scratch folder after a failure. Unmounts and detaches everything there, then removes it.
# Keeps the files if that fails.
clear_below() {
  local dir=$1 target
  mounts_below "$dir" | tac | while read -r target; do umount -- "$target"; done
  detach_below "$dir"
  if [ -n "$(mounts_below "$dir")" ]; then
    say "kept, for something is mounted there still: $dir" >&2
    return 1
  fi
  rm -rf --one-file-system -- "$dir"
}

# reboot_below DIR [RUN...]: has the effect of a reboot on a directory whose processes have ended. Removes the mounts, the
# loop devices and the content of the directories RUN. Files, directories, empty mount points and old sockets stay.
reboot_below() {
  local dir=$1 target run
  shift
  mounts_below "$dir" | tac | while read -r target; do umount -- "$target"; done
  detach_below "$dir"
  for run; do find "$run" -mindepth 1 -delete; done
}

# not_installed PACKAGE...: prints the missing packages, a line each.
not_installed() {
  local have package
  have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    [[ $'\n'$have$'\n' == *$'\n'"installed $package"$'\n'* ]] || printf '%s\n' "$package"
  done
}

# install_missing PACKAGE...
install_missing() {
  local log attempt missing
  mapfile -t missing < <(not_installed "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "this is not a Debian system; install what matches these packages: ${missing[*]}"
  [ "$(id -u)" -eq 0 ] || die "these packages are missing, and installing them needs root: ${missing[*]}"

  say "installing ${missing[*]}"
  log=$(mktemp)
  on_exit rm -f "$log"
  for attempt in 1 2; do
    if apt_install "${missing[@]}" >"$log" 2>&1; then return 0; fi
    [ "$attempt" -eq 2 ] || sleep 5
  done
  tail -n 40 "$log" >&2
  die "the packages could not be installed: ${missing[*]}"
}

apt_install() {
  local -x DEBIAN_FRONTEND=noninteractive
  apt-get update -q && apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
}

# The codename of this system.
this_release() { (. /etc/os-release && printf '%s\n' "${VERSION_CODENAME:-}"); }

# debian_sources RELEASE: lines of sources.list for it, from the mirrors of this system's release.
debian_sources() {
  local uri suite component here
  here=$(this_release)
  # shellcheck disable=SC2016 # apt's own variables
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sort -u |
    while read -r uri suite component; do
      case $suite in
        "$here" | "$here-updates" | "$here-security") printf 'deb %s %s %s\n' "$uri" "${suite/#$here/$1}" "$component" ;;
      esac
    done
}

# fixed_addresses COMMAND...: runs it without address randomisation. The sanitizers of GCC 12 fail on kernels that randomise
# more than these expect.
fixed_addresses() {
  if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

# build PRESET [TARGET...]: builds, and prints nothing unless that fails.
build() {
  local preset=$1 dir=$MOORING_ROOT/build/$1 log=$MOORING_ROOT/build/$1.log target targets=() started=$SECONDS
  shift
  for target in "$@"; do targets+=(--target "$target"); done
  mkdir -p "$dir"
  say "building ($preset; log: build/$preset.log)"
  if ! (flock 9 && build_steps "$preset" "$dir" "${targets[@]}" >"$log" 2>&1) 9>"$dir.lock"; then # one at a time
    tail -n 60 "$log" >&2
    die "the $preset build failed; the whole log is $log"
  fi
  say "built ($preset) in $((SECONDS - started)) s"
}

build_steps() (
  preset=$1 dir=$2
  shift 2
  cd "$MOORING_ROOT" || return
  [ -f "$dir/build.ninja" ] || cmake --preset "$preset" || return
  fixed_addresses cmake --build --preset "$preset" "$@" # the build runs the test programs to list their tests
)
