# shellcheck shell=bash disable=SC2034 # tests/debian/run and tests/vm use these
# A root of another Debian release, made of its packages by mmdebstrap and kept below $debian_cache. It has compilers,
# libraries, a clone of this tree and the build there, so a second build is quick.

debian_cache=${MOORING_DEBIAN_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/mooring-debian}

# make_debian_root RELEASE: sets debian_root, with the packages of packaging/install-deps and a clone of the tree. An existing
# root gets the new versions of its packages. No service is started in it.
make_debian_root() {
  local release=$1 log=$debian_cache/$1.log
  debian_root=$debian_cache/$release
  mkdir -p "$debian_cache"
  if [ ! -d "$debian_root" ]; then
    say "making a root of $release in $debian_root" >&2
    make_small_debian_root "$release" >"$log" 2>&1 || die "the root cannot be made: see $log"
  fi
  clone_tree_to_debian_root
  in_debian_root sh -euc 'apt-get -q update && apt-get -q -y -o Dpkg::Options::=--force-confold upgrade
    packaging/install-deps' >"$log" 2>&1 || die "the packages of $debian_root cannot be installed: see $log"
}

make_small_debian_root() {
  local release=$1 sources root=$debian_root.part
  install_missing mmdebstrap
  mapfile -t sources < <(debian_sources "$release")
  if [ ${#sources[@]} -eq 0 ]; then
    say "no package source of '$(this_release)' is configured here"
    return 1
  fi
  rm -rf --one-file-system -- "$root"
  # shellcheck disable=SC2016 # for the shell of mmdebstrap, whose $1 is the root
  unshare --mount --propagation private mmdebstrap --quiet --mode=root --variant=apt --include=ca-certificates,git,mount \
    --setup-hook='cp -a /etc/apt/apt.conf* /etc/apt/auth.conf* "$1/etc/apt/" 2>/dev/null || true' \
    --dpkgopt=force-confold "$release" "$root" "${sources[@]}" || return
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # invoke-rc.d(8): do nothing
  chmod +x "$root/usr/sbin/policy-rc.d"
  mv -- "$root" "$debian_root"
}

# in_debian_root COMMAND...: as root, in the clone of the tree, which has the path of the tree. The mounts that it makes, and
# the processes that it leaves, end with it. It cannot change the settings of this kernel, but drop its caches. The root is
# that of a mount namespace: setns(2) leads out of a chroot.
in_debian_root() {
  local name settings=()
  for name in SSL_CERT_FILE PIP_CERT http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || settings+=("$name=${!name}")
  done
  # shellcheck disable=SC2016 # for the inner shells
  unshare --mount --pid --fork --kill-child --propagation private sh -euc '
    root=$1 tree=$2
    shift 2
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --bind -o ro "$root/proc/sys" "$root/proc/sys"
    mount --bind /proc/sys/vm/drop_caches "$root/proc/sys/vm/drop_caches"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    mount --bind /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    mount --bind -o ro /etc/ssl/certs "$root/etc/ssl/certs" # this host may trust more
    mkdir -p "$root$tree"
    cd "$root"
    pivot_root . mnt
    umount --lazy mnt
    exec env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "cd \"\$0\" && exec \"\$@\"" "$tree" "$@"
  ' sh "$debian_root" "$MOORING_ROOT" env "${settings[@]}" "$@"
}

# build_in_debian_root RELEASE TARGET...: a root with the targets and the packages of the last commit, in build/.
build_in_debian_root() {
  local release=$1
  shift
  make_debian_root "$release"
  in_debian_root bash -euc '. packaging/lib.sh && build release "$@"' bash "$@"
  in_debian_root sh -euc 'rm -rf build/packages && packaging/deb --plain'
}

# clone_tree_to_debian_root: the last commit, without changes that are not committed. Files that are the same keep their time,
# so that little is built again.
clone_tree_to_debian_root() {
  local copy=$debian_root$MOORING_ROOT
  [ -d "$copy/.git" ] || git init -q "$copy"
  git -C "$copy" -c safe.directory="$MOORING_ROOT/.git" -c safe.directory="$MOORING_ROOT" fetch -q --no-tags "$MOORING_ROOT" HEAD
  git -C "$copy" -c advice.detachedHead=false checkout -q --force --detach FETCH_HEAD
  git -C "$copy" clean -q -d --force
}
