# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's
# The tests. Each makes volumes of its own and leaves none.

status_of() { docker volume inspect -f "{{index .Status \"$2\"}}" "$1"; }
claims_of() { docker volume inspect -f '{{len .Status.Claims}}' "$1"; }
podman_rm() { podman_run --rm "$@"; }
mounts_of() { mounts_below "$work/manager/docker" | grep -c -F "/docker/$1/" || true; }

# Expects that nothing of a deleted volume is left.
expect_nothing_of() {
  expect "the mounts of $1" "$(mounts_of "$1")" 0
  refused "no such volume" docker volume inspect "$1"
}

test_docker_writes_and_reads_a_volume() {
  docker volume create -d mooring -o size=64MiB -o fsType=ext4 db
  expect "the plugin" "$(status_of db Plugin)" mooring.csi
  expect_match "its health" "$(status_of db PluginHealth)" '^nodes 1/1'
  expect "the capacity" "$(status_of db CapacityBytes)" 6.7108864e+07
  in_docker -v db:/data base sh -c 'echo hello >/data/f'
  expect "what was written" "$(in_docker -v db:/data base cat /data/f)" hello
  expect_match "the mount in the container" "$(in_docker -v db:/data base grep ' /data ' /proc/mounts)" '^/dev/loop[0-9]+ /data ext4 rw'
  refused "Read-only file system" in_docker -v db:/data:ro base sh -c 'echo more >/data/f'
  expect "the claims afterwards" "$(claims_of db)" 0
  docker volume rm db
  expect_nothing_of db
}

test_docker_and_podman_fill_a_new_volume_from_the_image() {
  local fs engine
  make_task_images
  for engine in in_docker podman_rm; do
    for fs in ext4:64 xfs:320 btrfs:128; do
      docker volume create -d mooring -o "size=${fs#*:}MiB" -o "fsType=${fs%:*}" filled
      expect "$engine, $fs: the content and the owner" \
        "$("$engine" -v filled:/data app sh -c 'touch /data/x; cat /data/seed; stat -c "%u:%g %a" /data' | tr '\n' ' ')" \
        "content 1000:1001 750 "
      expect "$engine, $fs: the files later" "$("$engine" -v filled:/data app ls /data | tr '\n' ' ')" "seed x "
      docker volume rm filled
    done
  done
}

test_docker_and_podman_start_a_database_on_a_new_volume() {
  local engine
  make_task_images
  for engine in in_docker podman_rm; do
    docker volume create -d mooring -o size=64MiB store
    for _ in first second; do
      expect "$engine: the database" "$("$engine" -v store:/store database)" "version 15 as 999, store of 999:999"
    done
    docker volume rm store
  done
}

test_docker_volumes_have_the_owner_that_is_asked_for() {
  docker volume create -d mooring -o size=64MiB -o uid=1000 -o gid=1001 -o mode=0750 -o param.inodeSize=512 owned
  in_docker --user 1000 -v owned:/new base sh -c 'touch /new/x'
  expect "its owner" "$(in_docker -v owned:/new base stat -c '%u:%g %a' /new)" "1000:1001 750"
  expect_match "when it was created" "$(docker volume inspect -f '{{.CreatedAt}}' owned)" "^$(date -u +%Y-%m-%dT)"
  docker volume rm owned
  refused "uid 'postgres': it is a number" docker volume create -d mooring -o uid=postgres owned
  refused "mode '0644': it is an octal number" docker volume create -d mooring -o mode=0644 owned
}

test_docker_shows_errors() {
  refused "'5' has no unit" docker volume create -d mooring -o size=5 db

  refused "unknown option" docker volume create -d mooring -o colour=red db
  refused "is not a size" docker volume create -d mooring -o size=big db
  refused "plugin 'other.csi' is neither registered nor declared" docker volume create -d mooring -o plugin=other.csi db
  expect "the volumes" "$(docker volume ls -q -f driver=mooring)" ''
}

test_docker_shares_a_volume_among_containers_and_keeps_it_while_it_is_used() {
  docker volume create -d mooring -o size=64MiB shared
  docker run -d --name one --network none -v shared:/data base sleep 1000
  docker run -d --name two --network none -v shared:/data base sleep 1000
  expect "the claims" "$(claims_of shared)" 2
  docker exec one sh -c 'echo from one >/data/f'
  expect "what the other reads" "$(docker exec two cat /data/f)" "from one"
  refused "in use" docker volume rm shared
  docker rm -f one
  expect "what the other still reads" "$(docker exec two cat /data/f)" "from one"
  docker rm -f two
  docker volume rm shared
  expect_nothing_of shared
}

test_data_survives_the_manager() {
  local before
  docker volume create -d mooring -o size=64MiB kept
  docker run -d --name user --network none -v kept:/data base sleep 1000
  docker exec user sh -c 'echo before >/data/f'
  before=$(mounts_of kept)
  end manager KILL
  expect "what the container reads without a manager" "$(docker exec user cat /data/f)" before
  docker exec user sh -c 'echo meanwhile >/data/g'
  start_manager
  expect "the mounts after the restart" "$(mounts_of kept)" "$before"
  expect "the claims after the restart" "$(claims_of kept)" 1
  docker rm -f user
  expect "the claims of a container that is gone" "$(claims_of kept)" 0
  expect "what is read later" "$(in_docker -v kept:/data base cat /data/f /data/g | tr '\n' ' ')" "before meanwhile "
  end manager TERM
  start_manager
  expect "what is read after an orderly restart" "$(in_docker -v kept:/data base cat /data/f)" before
  docker volume rm kept
  expect_nothing_of kept
}

has_started() { [ "$(docker exec always grep -c started /data/starts)" = "$1" ]; }

test_data_survives_the_daemon() {
  docker volume create -d mooring -o size=64MiB kept
  docker run -d --name always --restart always --network none -v kept:/data base sh -c 'echo started >>/data/starts; sleep 1000'
  await "the container's first start" docker exec always grep -q started /data/starts
  end dockerd KILL
  start_dockerd
  await "the container's second start" has_started 2
  expect "the claims of the one container" "$(claims_of kept)" 1
  end dockerd TERM
  start_dockerd
  await "the container's third start" has_started 3
  expect "the volumes that Docker knows" "$(docker volume ls -q -f driver=mooring)" kept
  expect "the mounts" "$(mounts_of kept)" 1
  docker rm -f always
  docker volume rm kept
  expect_nothing_of kept
}

# docker cp mounts the volume of a running container again with the id of its mount, and unmounts it.
test_docker_copies_leave_the_volume_of_a_running_container() {
  local mountpoint
  docker volume create -d mooring -o size=64MiB kept
  docker run -d --name user --network none -v kept:/data base sh -c 'echo hello >/data/f; sleep 1000'
  await "the file" docker exec user grep -q hello /data/f
  expect "a copy" "$(docker cp user:/data/f - | tar -xO)" hello
  expect "the mounts after a copy" "$(mounts_of kept)" 1
  end dockerd KILL
  live_restore=true start_dockerd
  expect "a copy out of a container that outlived Docker" "$(docker cp user:/data/f - | tar -xO)" hello
  expect "the mounts after that copy" "$(mounts_of kept)" 1
  expect "the claims after that copy" "$(claims_of kept)" 1
  expect "what the container writes later" "$(docker exec user sh -c 'echo more >>/data/f && cat /data/f' | tr '\n' ' ')" "hello more "
  mountpoint=$(docker volume inspect -f '{{.Mountpoint}}' kept)
  docker rm -f user
  # Docker before 25 has forgotten the mount of the container with that of the copy.
  "$bin/mooring" detach "$mountpoint"
  docker volume rm kept
  expect_nothing_of kept
  end dockerd TERM
  start_dockerd
}

test_docker_read_only_volumes_and_propagation() {
  local mountpoint
  docker volume create -d mooring -o size=64MiB seen
  in_docker -v seen:/data base sh -c 'echo hello >/data/f'
  docker volume create -d mooring -o from-volume=seen -o ro=true copy
  expect "the copy" "$(in_docker -v copy:/data base cat /data/f)" hello
  refused "Read-only file system" in_docker -v copy:/data base sh -c 'echo more >/data/f'
  docker volume create -d mooring -o size=64MiB -o propagation=rshared open
  for volume in seen open; do
    docker run -d --name "$volume" --network none -v "$volume:/data" base sleep 1000
    mountpoint=$(docker volume inspect -f '{{.Mountpoint}}' "$volume")
    mkdir "$mountpoint/below"
    mount -t tmpfs below "$mountpoint/below"
  done
  expect "mounts that come into the private one" "$(docker exec seen grep -c ' /data/below ' /proc/mounts || true)" 0
  expect "mounts that come into the other" "$(docker exec open grep -c ' /data/below ' /proc/mounts)" 1
  for volume in seen open; do
    umount "$(docker volume inspect -f '{{.Mountpoint}}' "$volume")/below"
    docker rm -f "$volume"
  done
  docker volume rm seen copy open
}

test_podman_writes_and_reads_a_volume() {
  podman_do volume create --driver mooring --opt size=64MiB pod
  podman_run --rm -v pod:/data base sh -c 'echo hello >/data/f'
  expect "what was written" "$(podman_run --rm -v pod:/data base cat /data/f)" hello
  expect_match "the mount" "$(podman_run --rm -v pod:/data base grep ' /data ' /proc/mounts)" '^/dev/loop[0-9]+ /data ext4'
  expect "what podman shows" "$(podman_do volume inspect pod | jq -r '.[0].Driver + " " + .[0].Status.Plugin')" "mooring mooring.csi"
  podman_run -d --name user -v pod:/data base sleep 1000
  end manager KILL
  expect "what is read without a manager" "$(podman_do exec user cat /data/f)" hello
  start_manager
  expect "what a second container reads" "$(podman_run --rm -v pod:/data base cat /data/f)" hello
  podman_do rm -f -t 0 user
  expect "what docker reads of it" "$(in_docker -v pod:/data --volume-driver mooring base cat /data/f)" hello
  podman_do volume rm pod
  expect "the mounts" "$(mounts_of pod)" 0
}

# plugin_runs_in_a_container ENGINE [FLAG...]: runs our plugin as a privileged container of docker or podman_do, instead
# of the process. It has its own volumes, elsewhere on the host.
plugin_runs_in_a_container() {
  local engine=$1 name=boxed.csi state=$work/$1-state user=user container
  shift
  mkdir -p "$state"
  "$bin/mooring" plugin run "$name" --image "$plugin_image" --bind "$state:/state" "$@" \
    -- --state-dir /state --driver-name "$name"
  expect_match "its status" "$("$bin/mooring" plugin status "$name")" 'healthy'
  container=$(containers_of "$engine" "$name")
  expect "its containers" "$(wc -w <<<"$container")" 1
  docker volume create -d mooring -o "plugin=$name" -o size=64MiB "$name"
  docker run -d --name "$user" --network none -v "$name:/data" base sleep 1000
  docker exec "$user" sh -c 'echo hello >/data/f'
  end manager KILL
  start_manager
  await "the manager finds it again" is_healthy "$name"
  expect "its containers after a restart of the manager" "$(containers_of "$engine" "$name")" "$container"
  "$engine" kill "$container"
  expect "what is read without the plugin" "$(docker exec "$user" cat /data/f)" hello
  await "another container of the plugin" is_another "$container" "$engine" "$name"
  await "the health of that one" is_healthy "$name"
  docker rm -f "$user"
  expect "the claims of a container that is gone" "$(claims_of "$name")" 0
  expect "what is read later" "$(in_docker -v "$name:/data" base cat /data/f)" hello
  docker volume rm "$name"
  "$bin/mooring" plugin stop "$name"
  expect "its containers when it is stopped" "$("$engine" ps -aq --filter "label=mooring.plugin=$name")" ''
}

containers_of() { "$1" ps -q --filter "label=mooring.plugin=$2"; }
is_another() { [ -n "$(containers_of "$2" "$3")" ] && [ "$(containers_of "$2" "$3")" != "$1" ]; }
is_healthy() { "$bin/mooring" plugin status "$1" --json | jq -e '.plugins[0].nodes.healthy == 1'; }

test_the_plugin_runs_in_a_container_of_docker() {
  build_plugin_image docker
  plugin_runs_in_a_container docker
}

# The API service of podman is the engine.
test_the_plugin_runs_in_a_container_of_podman() {
  build_plugin_image podman
  start podman podman_do system service --time 0 "unix://$work/podman.sock"
  await "podman serves" test -S "$work/podman.sock"
  plugin_runs_in_a_container podman_do --engine "unix://$work/podman.sock"
  end podman TERM
}

# After a reboot /run is empty, so no record of the instance is left. The engine still has its container.
test_containers_from_before_a_reboot_are_removed() {
  local name=rebooted.csi container others state=$work/rebooted-state
  build_plugin_image docker
  mkdir -p "$state"
  "$bin/mooring" plugin run "$name" --image "$plugin_image" --bind "$state:/state" \
    -- --state-dir /state --driver-name "$name"
  container=$(containers_of docker "$name")
  others=$(docker run -d --network none --label mooring.manager=ffff --label "mooring.plugin=$name" \
    --label mooring.instance=rebooted.csi-00000000 base sleep 1000)
  end manager KILL
  rm -rf "$work/plugins/$name"-*
  start_manager
  await "the plugin runs again" is_healthy "$name"
  expect "what is left of the container from before" "$(docker ps -aq --no-trunc | grep -c "^$container" || true)" 0
  expect "another manager's" "$(docker ps -q --no-trunc --filter "id=$others")" "$others"
  "$bin/mooring" plugin stop "$name"
  docker rm -f "$others"
}
