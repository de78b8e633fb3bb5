"""Points 8 to 18: what happens to volumes while they are used, and the requests themselves."""
import copy

from csi import Refused
from host import eventually, expect, expect_true, loops, mount_at, mounts, refused, user_of, write
from nomad import Usage
from world import ALONE, BLOCK, MANY, NODE, READER, job_file, tasks_of, volume_file


def N8_delete_is_refused_while_the_volume_is_staged_or_published(w):
    for usage in (ALONE, BLOCK):
        volume = w.server.create("used", usage)
        user = w.allocate(volume, usage)
        refused("FAILED_PRECONDITION", "in use", lambda: w.server.delete(volume))
        w.lose_plugin("KILL")
        w.start_plugin_again()
        refused("FAILED_PRECONDITION", "in use", lambda: w.server.delete(volume))
        user.stop_task()
        w.agent.unmount(volume, user.id, usage)
        w.server.unpublish(volume)
        w.server.delete(volume)


# The plugin never answers NOT_FOUND while something is mounted, because Nomad would treat that as success.
def N9_unpublish_and_unstage_act_on_the_path_known_volume_or_not(w):
    for usage in (ALONE, BLOCK):
        volume = w.server.create("forgotten", usage)
        user = w.allocate(volume, usage)
        user.stop_task()
        expect_true("it is mounted", mount_at(user.target))
        known, volume.external_id = volume.external_id, "vol-00000000000000000000000000000000"
        w.agent.unmount(volume, user.id, usage)
        w.check_host()
        volume.external_id = known
        w.server.unpublish(volume)
        w.server.delete(volume)


def N9_after_a_failed_stage_its_unpublish_and_unstage_are_ok(w):
    volume = w.server.create("failed")
    wrong = Usage(mount_flags=("bind",))
    refused("INVALID_ARGUMENT", "bind", lambda: w.agent.mount(volume, "alloc", wrong, {}))
    w.plugin.call("NodeUnpublishVolume", {"volume_id": volume.external_id,
                                          "target_path": w.agent.target(volume, "alloc", wrong)[1]})
    w.plugin.call("NodeUnstageVolume", {"volume_id": volume.external_id,
                                        "staging_target_path": w.agent.staging(volume, wrong)[1]})
    w.server.delete(volume)


# Nomad has freed the claim and starts the next allocation, while the old one's mount stands.
def N10_a_failed_unmount_holds_the_volume(w):
    volume = w.server.create("held")
    user = w.allocate(volume)
    user.stop_task()
    with user_of(user.target):
        refused("FAILED_PRECONDITION", "fuser", lambda: w.agent.unmount(volume, user.id, ALONE))
        refused("FAILED_PRECONDITION", user.id, lambda: w.allocate(volume))
        refused("FAILED_PRECONDITION", "in use", lambda: w.server.delete(volume))
    w.agent.unmount(volume, user.id, ALONE)
    w.allocate(volume).stop()
    w.server.delete(volume)


def N10_unpublish_comes_again_where_only_unstage_had_failed(w):
    volume = w.server.create("half")
    user = w.allocate(volume)
    user.stop_task()
    with user_of(w.agent.staging(volume, ALONE)[0]):
        for _ in range(2):
            refused("FAILED_PRECONDITION", "fuser", lambda: w.agent.unmount(volume, user.id, ALONE))
            expect("what is at the target", mount_at(user.target), None)
    expect("the tries from then on", w.agent.unmount_until_done(volume, user.id, ALONE), 1)
    w.server.unpublish(volume)
    w.server.delete(volume)


# The restarted agent takes the first user that stops for the last.
def N11_after_a_client_restart_unstage_comes_while_another_task_still_runs(w):
    for usage, use in ((MANY, "echo data >/srv/f"), (Usage("multi-node-multi-writer", "block-device"),
                                                      "dd if=/dev/zero of=/srv bs=4096 count=1")):
        volume = w.server.create("two", usage)
        first, second = w.allocate(volume, usage), w.allocate(volume, usage)
        devices = loops()
        expect("its devices", len(devices), 1)
        w.agent.restart()
        first.stop()
        called = [method for method, _ in w.plugin.plugin.calls[-4:]]
        expect_true("NodeUnstageVolume came", "NodeUnstageVolume" in called)
        second.sh(use)
        third = w.allocate(volume, usage)
        expect("a stage that comes meanwhile takes the device that is there", loops(), devices)
        second.stop()
        third.sh(use)
        third.stop()
        w.server.delete(volume)


def N12_the_plugin_is_away_while_a_task_stops(w):
    volume = w.server.create("away")
    user = w.allocate(volume)
    user.sh("echo kept >/srv/f")
    w.lose_plugin("KILL")
    expect("what the task reads without a plugin", user.sh("cat /srv/f"), "kept")
    user.stop_task()
    refused("UNAVAILABLE", "", lambda: w.agent.unmount(volume, user.id, ALONE))
    expect_true("it is mounted still", mount_at(user.target))
    w.start_plugin_again()
    w.agent.unmount_until_done(volume, user.id, ALONE)
    w.check_host()
    # ControllerUnpublish never comes: to this node it may be published again,
    again = w.allocate(volume)
    expect("what was written before", again.sh("cat /srv/f"), "kept")
    again.stop_task()
    w.agent.unmount(volume, again.id, ALONE)
    # and it is deleted once somebody has unpublished it by hand, as the error says.
    refused("FAILED_PRECONDITION", f"mooring csi controller-unpublish {volume.external_id} --node {NODE}",
            lambda: w.server.delete(volume))
    w.unpublish_by_hand(volume)
    w.server.delete(volume)


def N13_two_groups_of_one_volume_one_read_only_use_two_staging_paths(w):
    volume = w.server.create("groups", MANY)
    reader = w.allocate(volume, READER)
    writer = w.allocate(volume, MANY)
    expect("its devices", len(loops()), 1)
    for usage, flag in ((READER, "ro"), (MANY, "rw")):
        expect_true(f"{usage} is staged {flag}", flag in mount_at(w.agent.staging(volume, usage)[0]).options)
    writer.sh("echo hello >/srv/f")
    expect("what the reader reads", reader.sh("cat /srv/f"), "hello")
    expect("the reader can write", reader.can("echo no >/srv/f"), False)
    writer.stop()
    expect("what the reader reads then", reader.sh("cat /srv/f"), "hello")
    reader.stop()
    w.server.delete(volume)


def N14_the_flags_are_on_the_target_itself_as_the_host_sees_it(w):
    usage = Usage("multi-node-reader-only", read_only=True, mount_flags=("noatime", "nosuid", "nodev"))
    volume = w.server.create("flags", usage)
    user = w.allocate(volume, usage)
    options = mount_at(user.target).options
    for flag in ("ro", "noatime", "nosuid", "nodev"):
        expect_true(f"{flag} is among {sorted(options)}", flag in options)
    expect("a write by the host", write(f"{user.target}/f"), "Read-only file system")
    user.stop()
    w.server.delete(volume)


def N15_mounts_that_a_bidirectional_task_left_are_taken_down(w):
    volume = w.server.create("left", MANY)
    user = w.allocate(volume, MANY, "bidirectional")
    user.sh("mkdir /srv/below && mount -t tmpfs below /srv/below && mkdir /srv/below/deeper && "
            "mount -t tmpfs deeper /srv/below/deeper")
    user.stop_task()
    expect("what the task has left on the host", len(mounts(user.target)), 3)
    with user_of(f"{user.target}/below"):
        refused("FAILED_PRECONDITION", "/below", lambda: w.agent.unmount(volume, user.id, MANY))
    w.agent.unmount(volume, user.id, MANY)
    w.server.unpublish(volume)
    w.server.delete(volume)


def N16_controller_calls_come_twice_or_not_at_all_and_the_context_is_empty(w):
    volume = w.server.create("skipped")
    target = w.agent.mount(volume, "alloc-1", ALONE, {})  # around a client restart
    expect("what is written", write(f"{target}/f"), "written")
    w.agent.unmount(volume, "alloc-1", ALONE)
    w.server.unpublish(volume)
    w.server.publish(volume, ALONE)
    w.server.publish(volume, ALONE)
    w.server.unpublish(volume)
    w.server.unpublish(volume)
    w.server.delete(volume)
    w.server.unpublish(volume)


# `mount {}` without fs_type, accessibility_requirements that are there and empty: so are all requests here. Secrets:
def N17_secrets_are_taken_and_not_told(w):
    secret = "do-not-tell-this"
    before = len(w.plugin.plugin.calls)
    volume = w.server.create("secret", secrets={"key": secret})
    user = w.allocate(volume)
    calls = w.plugin.plugin.calls[before:]
    sent = {method for method, request in calls if request.get("secrets")}
    expect("the calls that had secrets", sent, {"CreateVolume", "ControllerPublishVolume", "NodeStageVolume",
                                                "NodePublishVolume"})
    created = dict(calls)["CreateVolume"]
    expect("the requirements in CreateVolume", created["accessibility_requirements"], {})
    expect("the access type", created["volume_capabilities"][0]["mount"], {})
    user.stop()
    w.server.delete(volume)
    expect("the log tells the secret", secret in w.plugin.container.log(), False)


def N17_calls_go_to_the_same_socket_as_soon_as_it_is_there(w):
    volume = w.server.create("soon")
    for signal in ("KILL", "TERM"):
        w.lose_plugin(signal)
        w.plugin.start()  # and nobody waits for it to be ready
        eventually("a call is answered", lambda: succeeds(lambda: w.agent.mount(volume, "alloc", ALONE, {})))
        w.agent.unmount_until_done(volume, "alloc", ALONE)
    w.server.delete(volume)


def succeeds(action):
    try:
        action()
    except Refused as refused:
        expect(f"the code of {refused}", refused.code, "UNAVAILABLE")
        return False
    return True


# Nomad shows "snapshot source is not compatible" for every such error. Only the plugin's words help the user.
def N18_invalid_argument_says_what_is_wrong(w):
    refused("INVALID_ARGUMENT", "'type'", lambda: w.server.create("v", parameters={"type": "ssd"}))
    refused("INVALID_ARGUMENT", "'zfs' is not one of ext4", lambda: w.server.create("v", Usage(fs_type="zfs")))
    refused("INVALID_ARGUMENT", "allowed are: ro", lambda: w.server.create("v", Usage(mount_flags=("bind",))))


# The volumes in packaging/nomad/volumes, used by the groups of consumer.nomad.hcl, all at a time.
def Volumes_of_the_files_are_used_by_the_groups_of_the_consumer(w):
    made = {name: w.server.create_from(volume_file(name)) for name in ("web", "shared", "disk")}
    users = {}
    for group in job_file("consumer.nomad.hcl")["group"]:
        asked, mount = group["volume"][0], group["task"][0]["volume_mount"][0]
        usage = Usage(asked["access_mode"], asked["attachment_mode"], asked.get("read_only", False))
        users[group["labels"][0]] = w.allocate(made[asked["source"]], usage, mount.get("propagation_mode", "private"))
    expect_true("web is noatime", "noatime" in mount_at(users["private"].target).options)
    users["bidirectional"].sh("echo hello >/srv/f")
    expect("what the reader reads", users["reader"].sh("cat /srv/f"), "hello")
    expect("the reader can write", users["reader"].can("echo no >/srv/f"), False)
    expect_true("its mount on the host is read-only", "ro" in mount_at(users["reader"].target).options)
    expect_true("the block volume is a device", users["block"].can("test -b /srv"))
    for user in users.values():
        user.stop()
    for volume in made.values():
        w.server.delete(volume)


# scratch.volume.hcl needs a pool in the plugin's job.
def Volumes_of_memory_need_a_pool_in_the_job(w):
    specification = volume_file("scratch")
    refused("INVALID_ARGUMENT", "memory", lambda: w.server.create_from(specification))
    before = w.plugin
    w.lose_plugin("TERM")
    job = copy.deepcopy(w.job)
    job["config"][0]["args"].append("--pool=name=memory,backend=tmpfs,size=2147483648")
    w.use(w.start_plugin(job))
    volume = w.server.create_from(specification)
    user = w.allocate(volume)
    expect("its filesystem", mount_at(user.target).fs_type, "tmpfs")
    user.stop()
    w.server.delete(volume)
    w.lose_plugin("TERM")
    w.use(before)
    w.start_plugin_again()


# Snapshot, restore and clone of a volume in use, as packaging/nomad/volumes/ has them.
def Volumes_snapshots_and_copies_of_a_volume_in_use(w):
    volume = w.server.create("source")
    user = w.allocate(volume)
    user.sh("echo before >/srv/f && sync -f /srv/f")
    snapshot = w.plugin.call("CreateSnapshot", {"source_volume_id": volume.external_id, "name": "s"}).snapshot
    user.sh("echo after >/srv/f && sync -f /srv/f")
    restored = w.server.create("restored", source={"snapshot": {"snapshot_id": snapshot.snapshot_id}}, size=32 << 20)
    copy = w.server.create("copy", source={"volume": {"volume_id": volume.external_id}})
    for made, wanted in ((restored, "before"), (copy, "after")):
        other = w.allocate(made)
        expect(f"what is in {made.id}", other.sh("cat /srv/f"), wanted)
        other.stop()
        w.server.delete(made)
    user.stop()
    w.plugin.call("DeleteSnapshot", {"snapshot_id": snapshot.snapshot_id})
    w.server.delete(volume)


# plugin-apart.nomad.hcl: controller and node plugin share only the state directory.
def Apart_a_controller_and_a_node_plugin_share_one_state_directory(w):
    before = w.plugin
    w.lose_plugin("TERM")
    jobs = tasks_of(job_file("plugin-apart.nomad.hcl", f"node={NODE}"))
    node, controller = w.start_plugin(jobs["node"]), w.start_plugin(jobs["controller"])
    node.fingerprint()
    controller.fingerprint()
    w.use(node)
    w.server.task = controller
    volume = w.server.create("apart")
    user = w.allocate(volume)
    user.sh("echo hello >/srv/f && sync -f /srv/f")
    refused("FAILED_PRECONDITION", "in use", lambda: w.server.delete(volume))
    snapshot = controller.call("CreateSnapshot", {"source_volume_id": volume.external_id, "name": "s"}).snapshot
    restored = w.server.create("restored", source={"snapshot": {"snapshot_id": snapshot.snapshot_id}})
    other = w.allocate(restored)
    expect("what is in the copy", other.sh("cat /srv/f"), "hello")
    other.stop()
    user.stop()
    for made in (volume, restored):
        w.server.delete(made)
    controller.call("DeleteSnapshot", {"snapshot_id": snapshot.snapshot_id})
    for task in (node, controller):
        task.lose("TERM")
    w.use(before)
    w.start_plugin_again()
