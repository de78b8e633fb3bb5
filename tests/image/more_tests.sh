# shellcheck shell=bash disable=SC2154 # work, bin, here and patience are run's; privilege_tests.sh has what they start with
# Runs only with --all, because it takes half a minute. Tests each capability beyond the smallest set
# (docs/containers.md), csi-sanity with block volumes, and a second build of the image.

# A call for each further capability that fails without it.
stage_for_group() {
  kubelet_provision db 64MiB --mount-group 1234
  kubelet_stage db
}

use_CHOWN() { stage_for_group; }

# A task has changed the owner of the volume's root directory.
use_FOWNER() {
  kubelet_provision db 64MiB
  kubelet_stage db
  chown 4321:1234 "$(staging_of db)"
  kubelet_unstage db
  record db use "--access single-node-multi-writer --mount-group 1234"
  kubelet_stage db
}

use_FSETID() { stage_for_group; }

use_DAC_OVERRIDE() {
  kubelet_provision db 64MiB
  kubelet_stage db
  mkdir -m 0700 "$root/pods/of-another-user"
  chown 4321 "$root/pods/of-another-user"
  csi publish "$(id_of db)" --staging-path "$(staging_of db)" --target-path "$root/pods/of-another-user/target" \
    --access single-node-multi-writer
}

# The container has a /dev of its own, without nodes of loop devices.
use_MKNOD() { use_loop_device; }

# A volume whose ids are mapped.
publish_mapped() {
  csi create db --size 64MiB --param idmap=b:0:100000:65536 --json >"$host/records/db.answer"
  record db id "$(jq -r .volume.volume_id "$host/records/db.answer")"
  record db use "--access single-node-multi-writer"
  kubelet_stage db
  kubelet_publish db pod
  expect "its owner" "$(stat -c %u:%g "$(target_of db pod)")" 100000:100000
}

use_SETUID() { publish_mapped; }
use_SETGID() { publish_mapped; }

# start_for CAPABILITY ADDED...: with the usual flags. For MKNOD, without the bind of /dev.
start_for() {
  local flags=("${flags[@]}") index
  if [ "$1" = MKNOD ]; then
    for index in "${!flags[@]}"; do [ "${flags[index]}" != /dev:/dev ] || flags[index]=$host/records:/records; done
    flags+=(--device /dev/loop-control)
  fi
  start_with "${@:2}"
}

clean_up_db() {
  [ -e "$host/records/db.id" ] || return 0
  if [ -d "$root/pods/of-another-user" ]; then
    chown 0 "$root/pods/of-another-user"
    csi unpublish "$(id_of db)" --target-path "$root/pods/of-another-user/target"
    rmdir "$root/pods/of-another-user"
  fi
  [ ! -e "$(dirname "$(target_of db pod)")" ] || kubelet_unpublish db pod
  kubelet_unstage db
  kubelet_delete db
}

# capability_is_for CAPABILITY WORDS: with only the others the call fails with the WORDS. With all of them it succeeds.
capability_is_for() {
  local others
  engine=docker
  use_host "capability-$1"
  mapfile -t others < <(printf '%s\n' "${more[@]}" | grep -vx "$1")
  start_for "$1" "${others[@]}"
  refused "$2" serves "$1"
  clean_up_db
  stop_plugin docker plugin
  start_for "$1" "${more[@]}"
  await_plugin "$socket"
  "use_$1"
  clean_up_db
  stop_plugin docker plugin
  leave_host
}

test_CHOWN_is_for_the_group_of_a_volume() { capability_is_for CHOWN "give the volume's root directory to group 1234"; }
test_FOWNER_is_for_the_group_of_a_volume_of_somebody() {
  capability_is_for FOWNER "give the volume's root directory to group 1234"
}
test_FSETID_is_for_the_group_of_a_volumes_files() { capability_is_for FSETID 'the plugin needs CAP_FSETID'; }
test_DAC_OVERRIDE_is_for_targets_in_folders_of_others() { capability_is_for DAC_OVERRIDE 'Permission denied'; }
test_MKNOD_is_for_a_dev_of_its_own() { capability_is_for MKNOD "'/dev/loop"; }

test_SETUID_is_for_mapped_ids() { capability_is_for SETUID 'it needs CAP_SETUID and CAP_SETGID'; }
test_SETGID_is_for_mapped_ids() { capability_is_for SETGID 'it needs CAP_SETUID and CAP_SETGID'; }

test_csi_sanity_with_block_volumes() { csi_sanity_passes block; }

# Both engines give the same bytes. They differ only in metadata: the time, and the container of the build.
test_the_same_programs_give_the_same_files() {
  local engine first
  for engine in docker podman; do
    first=$(engine "$engine" image inspect -f '{{.RootFS.Layers}}' "$plugin_image")
    build_plugin_image "$engine" localhost/mooring:again
    expect "the files of $engine's second image" \
      "$(engine "$engine" image inspect -f '{{.RootFS.Layers}}' localhost/mooring:again)" "$first"
  done
}
