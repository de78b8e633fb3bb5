# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# Tests the content of the image, its size, and the time of its start.

label() { docker image inspect -f "{{index .Config.Labels \"org.opencontainers.image.$1\"}}" "$plugin_image"; }

# files_of_image: writes the names of the files in the image to $work/files.
files_of_image() {
  local container
  container=$(docker create "$plugin_image")
  docker export "$container" | tar -t >"$work/files"
  docker rm "$container" >/dev/null
}

test_the_image_says_what_it_is() {
  local version
  version=$(engine_run docker --rm "$plugin_image" --version)
  expect "the program's version and commit" "$version" "mooring-plugin $(label version) ($(label revision))"
  expect "its licence" "$(label licenses)" Apache-2.0
  expect "podman's" "$(engine_run podman --rm "$plugin_image" --version)" "$version"
}

test_the_image_has_its_programs_and_no_shell() {
  local program
  files_of_image
  for program in mkfs.ext4 e2fsck resize2fs tune2fs mkfs.xfs xfs_db mkfs.btrfs cryptsetup; do
    docker run --rm --network none --entrypoint "$program" "$plugin_image" -V >"$work/said" 2>&1 || true
    expect_match "what $program says" "$(<"$work/said")" '[0-9]+\.[0-9]+'
  done
  expect "shells" "$(grep -E '/(ba|da|z|k)?sh$|/busybox$|/perl$|/python' "$work/files" || true)" ''
  expect "what belongs to package managers" "$(grep -E '/(apt|dpkg)$|^etc/apt' "$work/files" || true)" ''
}

# The packages inside our programs, from static libraries or headers. The kernel's headers are left out: with them scanners
# would report all faults of a kernel for the image.
packages_inside() {
  "$MOORING_ROOT/packaging/sbom" --inside "${bin%/bin}" mooring mooring-mounter mooring-plugin | grep -vx linux-libc-dev
}

# shellcheck disable=SC2016 # for dpkg-query
source_of() { dpkg-query -W -f '${source:Package}\n' "$@"; }

is_named() { grep -qxF "var/lib/dpkg/status.d/$1" "$work/files"; }

# The image names the package, or another package of its source (libmount1 for the headers of libmount-dev).
is_named_by_source() { is_named "$1" || grep -qxF "$(source_of "$1" | head -n 1)" "$work/sources"; }

# The image has the licence, name and version of each package of a file, and of each linked package. Vulnerability
# scanners read them.
test_the_image_keeps_licences_and_names_its_packages() {
  local package inside named
  files_of_image
  sed -n 's,^var/lib/dpkg/status.d/\(.\+\)$,\1,p' "$work/files" | grep -v '\.md5sums$' >"$work/named"
  for package in libc6 libmount1 libblkid1 libudev1 e2fsprogs xfsprogs btrfs-progs; do
    is_named "$package" || fail "$package is not named"
  done
  mapfile -t named <"$work/named"
  source_of "${named[@]}" | sort -u >"$work/sources"
  inside=$(packages_inside)
  [ "$(wc -l <<<"$inside")" -gt 10 ] || fail "what is in the programs is not known: $inside"
  for package in $inside; do
    is_named_by_source "$package" || fail "$package is not named: see linked_in of packaging/image-root"
  done
  for package in "${named[@]}"; do
    grep -qxF "usr/share/doc/$package/copyright" "$work/files" || fail "no licence of $package"
  done
  grep -qx usr/share/doc/mooring/copyright "$work/files" || fail "no licence of ours"
}

# Buildah uses podman's storage, so podman can run the image. The OCI image format has no health checks.
test_buildah_builds_the_same_image() {
  local image=localhost/mooring:of-buildah
  build_plugin_image buildah "$image"
  expect "what it says" "$(engine_run podman --rm "$image" --version)" "$(engine_run podman --rm "$plugin_image" --version)"
  expect_match "its health check" "$(podman_do image inspect -f '{{.HealthCheck.Test}}' "$image")" 'CMD mooring csi info'
  expect "its files" "$(podman_do image inspect -f '{{.RootFS.Layers}}' "$image")" \
    "$(podman_do image inspect -f '{{.RootFS.Layers}}' "$plugin_image")"
  podman_do rmi "$image" >/dev/null
}

test_the_image_is_small() {
  local bytes
  bytes=$(docker save "$plugin_image" | gzip | wc -c)
  figure "compressed: $bytes bytes; unpacked: $(docker image inspect -f '{{.Size}}' "$plugin_image")"
  [ "$bytes" -le 60000000 ] || fail "the image has $bytes bytes compressed: more than 60 MB"
}

health() { [ "$(docker inspect -f '{{.State.Health.Status}}' plugin)" = "$1" ]; }

# The engine asks every 30 s by default.
test_the_engine_learns_the_plugins_health() {
  use_host health
  start_plugin docker plugin "$plugin_image" "${flags[@]}" --health-interval 1s
  await "the container is healthy" health healthy
  kill_plugin docker plugin
  expect_nothing_left "$host"
}

# process_tree PID: prints the process and its descendants.
process_tree() {
  local child children
  echo "$1"
  read -ra children < <(cat "/proc/$1/task/"*/children)
  for child in "${children[@]}"; do process_tree "$child"; done
}

# since_start NAME TIME: milliseconds from the fork of the container's first process until TIME. /proc has the fork in
# hundredths of a second.
since_start() {
  local started
  started=$(awk '{ sub(/.*\) /, ""); print $20 * 10 }' "/proc/$(docker inspect -f '{{.State.Pid}}' "$1")/stat") # since boot
  echo $(($(date -d "$2" +%s%3N) - $(date +%s%3N) + $(awk '{ printf "%d", $1 * 1000 }' /proc/uptime) - started))
}

time_to_ready() { since_start plugin "$(docker logs plugin 2>&1 | awk '/ ready$/ { print $1; exit }')"; }

# The time that the engine needs alone: mke2fs prints its version at once, and then asks whether to overwrite the filesystem.
time_to_first_word() {
  engine_run docker -d -i -t --name other --privileged "${flags[@]}" --entrypoint mke2fs "$plugin_image" "$root/filesystem" >/dev/null
  await "mke2fs has said something" other_has_spoken
  since_start other "$(docker logs -t other 2>&1 | awk '{ print $1; exit }')"
  docker rm -f other >/dev/null
}
other_has_spoken() { docker logs other 2>&1 | grep -q .; }

# memory Rss|Anonymous: KiB of the plugin, its mounter and the spawner together.
memory() {
  local process
  for process in $(process_tree "$(docker inspect -f '{{.State.Pid}}' plugin)"); do
    awk -v what="$1:" '$1 == what { print $2 }' "/proc/$process/smaps_rollup"
  done | awk '{ sum += $1 } END { print sum }'
}

smallest() { printf '%s\n' "$@" | sort -n | head -n 1; }

# The engine needs most of that time. On a slow machine it needs more than 100 ms. So the plugin is compared with mke2fs, and
# may need 40 ms more, or half as much more. Other programs only add to a time, so the smallest counts, of as many starts as
# a busy machine needs.
test_the_plugin_serves_within_100_ms() {
  local times=() others=()
  use_host start
  truncate -s 4M "$root/filesystem"
  mke2fs -q "$root/filesystem"
  until [ ${#times[@]} -ge 5 ] && is_quick; do
    [ ${#times[@]} -lt 30 ] || fail "never as quick as mke2fs: ${times[*]} ms, and ${others[*]} ms"
    others+=("$(time_to_first_word)")
    start_plugin docker plugin "$plugin_image" "${flags[@]}"
    await_plugin "$socket"
    times+=("$(time_to_ready)")
    stop_plugin docker plugin
  done
  figure "start to ready: ${times[*]} ms; to the first word of mke2fs in its place: ${others[*]} ms"
  rm "$root/filesystem"
}

is_quick() {
  local time other
  time=$(smallest "${times[@]}") other=$(smallest "${others[@]}")
  [ "$time" -le 100 ] || [ $((time - other)) -le 40 ] || [ $((2 * time)) -le $((3 * other)) ]
}

says_ready() { docker logs plugin 2>&1 | grep -q ' ready$'; }
is_within() { [ "$(memory Rss)" -le "$1" ]; }

# The plugin returns the memory of its start a moment after it is ready. A call brings back what calls need.
test_an_idle_plugin_needs_little_memory() {
  use_host memory
  start_plugin docker plugin "$plugin_image" "${flags[@]}"
  await "it is ready, unasked" says_ready
  await "plugin, spawner and mounter have 12 MiB at most, of $(memory Rss) KiB" is_within $((12 * 1024))
  figure "memory of plugin, spawner and mounter, before the first call: RSS $(memory Rss) KiB, of it anonymous $(memory Anonymous) KiB"
  await_plugin "$socket"
  csi info >/dev/null
  figure "after calls: RSS $(memory Rss) KiB, of it anonymous $(memory Anonymous) KiB"
  is_within $((20 * 1024)) || fail "more than 20 MiB"
  [ "$(memory Anonymous)" -le $((6 * 1024)) ] || fail "more than 6 MiB of memory of their own"
  stop_plugin docker plugin
}
