"""Points 1 to 7: sockets, binds, paths, the start, what is tried how often, and what is never sent."""
import contextlib
import fcntl
import json
import os
import stat
import subprocess
import time

from host import Wrong, eventually, expect, expect_true, mount_at, refused, run, write
from nomad import PluginTask, Usage
from world import ALONE, BIN, BLOCK, IMAGE, MANY, NODE


def N1_each_allocation_of_the_plugin_has_a_socket_directory_of_its_own(w):
    volume = w.server.create("shop")
    user = w.allocate(volume)
    old = w.plugin
    new = w.start_plugin(environment=["CSI_ENDPOINT=unix://csi/csi.sock"])  # as some jobs have it
    expect_true("both serve, side by side", old.plugin.ready() and new.plugin.ready())
    w.use(new)
    old.lose("TERM")
    expect_true("the old one's socket is gone", not os.path.exists(old.plugin.socket))
    expect_true("the new one serves", new.plugin.ready())
    user.sh("echo kept >/srv/f")
    user.stop()
    w.server.delete(volume)


def N1_the_endpoint_may_have_two_or_three_slashes(w):
    for endpoint in ("unix:///csi/csi.sock", "unix://csi/csi.sock"):
        task = w.start_plugin(environment=[f"CSI_ENDPOINT={endpoint}"])
        expect(f"the name that answers at {endpoint}", task.fingerprint().name, "mooring.csi")
        task.lose("TERM")


# /dev is bound with private propagation. New nodes are visible because it is the same devtmpfs.
def N2_a_loop_device_that_is_made_later_is_there_in_the_container(w):
    with open("/dev/loop-control", "rb") as control:
        number = add_loop_device(control)
        try:
            node = w.plugin.container.path(f"/dev/loop{number}")
            eventually("the node is seen in the container", lambda: os.path.exists(node))
            expect_true("it is a block device", stat.S_ISBLK(os.stat(node).st_mode))
        finally:
            fcntl.ioctl(control, 0x4C81, number)  # LOOP_CTL_REMOVE


def add_loop_device(control):
    """The number of a new one."""
    for number in range(201, 1000):
        with contextlib.suppress(FileExistsError):
            return fcntl.ioctl(control, 0x4C80, number)  # LOOP_CTL_ADD
    raise Wrong("the loop devices 201 to 999 are all there already")


def N2_mounts_come_out_to_the_host(w):
    volume = w.server.create("out")
    user = w.allocate(volume)
    expect("the filesystem that the host sees", mount_at(user.target).fs_type, "ext4")
    expect("what is written on the host", write(f"{user.target}/f", "from the host"), "written")
    expect("what the task reads", user.sh("cat /srv/f"), "from the host")
    expect_true("it is mounted from a loop device", user.can("grep -q '^/dev/loop[0-9]* /srv ext4 rw' /proc/1/mounts"))
    user.stop()
    w.server.delete(volume)


def use_under_raw_exec(w, task):
    eventually("it is ready", task.plugin.ready)
    w.use(task)
    volume = w.server.create("raw")
    user = w.allocate(volume)
    user.sh("echo hello >/srv/f")
    user.stop()
    task.csi = w.job["csi_plugin"][0]
    refused("FAILED_PRECONDITION", "/local/csi", lambda: w.allocate(volume))
    w.server.unpublish(volume)  # the claim of the allocation that failed
    w.server.delete(volume)


# Under raw_exec the endpoint is a path of the host. The volumes' paths stay as in a container, unless the job says where
# they are on the host.
def N2_under_raw_exec_the_base_directory_has_to_be_the_hosts(w):
    w.lose_plugin("TERM")
    job = json.loads(json.dumps(w.job))
    task = PluginTask(w.root, job, w.state, IMAGE)
    task.csi = {**task.csi, "stage_publish_base_dir": task.mounts}
    os.makedirs(task.socket_dir, 0o700)
    state = f"{w.state}-raw-exec"  # root's: the other one belongs to the user of the image
    flags = [f"--node-id={NODE}", f"--state-dir={state}", f"--mount-root={task.mounts}"]
    environment = {**os.environ, "CSI_ENDPOINT": f"unix://{task.plugin.socket}"}
    with subprocess.Popen([f"{BIN}/mooring-plugin", *flags], env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            before = w.plugin
            use_under_raw_exec(w, task)
        finally:
            process.terminate()  # else this test would wait for it
        expect("its exit status", process.wait(), 0)
    w.use(before)
    w.start_plugin_again()


def N3_paths_are_as_nomad_has_them(w):
    volume = w.server.create("web[0]")
    user = w.allocate(volume)
    staging = w.agent.staging(volume, ALONE)[0]
    expect_true("its staging path", staging.endswith("/staging/default/web[0]/rw-file-system-single-node-writer"))
    expect_true("its target", user.target.endswith(f"/per-alloc/{user.id}/web[0]/rw-file-system-single-node-writer"))
    expect_true("it is staged there", mount_at(staging))
    user.stop()
    expect_true("the staging path is Nomad's, and stays", os.path.isdir(staging))
    expect("its mode", stat.S_IMODE(os.stat(staging).st_mode), 0o700)
    expect_true("the target went", not os.path.exists(user.target))
    w.server.delete(volume)


def N4_what_is_mounted_already_is_not_asked_for_again(w):
    volume = w.server.create("again", MANY)
    first = w.allocate(volume, MANY)
    before = len(w.plugin.plugin.calls)
    w.agent.mount(volume, first.id, MANY, {})
    expect("the calls for what is there", w.plugin.plugin.calls[before:], [])
    second = w.allocate(volume, MANY)
    called = [method for method, _ in w.plugin.plugin.calls[before:]]
    expect("the calls for a second user", called, ["ControllerPublishVolume", "NodePublishVolume"])
    first.stop()
    second.stop()
    w.server.delete(volume)


# By a plugin that was restarted in between, by one that was killed, and by one in another allocation.
def N4_another_process_publishes_unpublishes_and_unstages_what_it_never_staged(w):
    volume = w.server.create("inherited", MANY)
    first = w.allocate(volume, MANY)
    first.sh("echo first >/srv/f")
    w.lose_plugin("KILL")
    w.start_plugin_again()
    second = w.allocate(volume, MANY)
    expect("what the second reads", second.sh("cat /srv/f"), "first")
    w.lose_plugin("TERM")
    w.start_plugin_again()
    first.stop()
    old = w.plugin
    w.use(w.start_plugin())
    old.lose("TERM")
    second.sh("echo second >/srv/f")
    second.stop()
    w.server.delete(volume)


def N5_the_start_is_within_nomads_limits(w):
    started = time.monotonic()
    task = w.start_plugin()
    took = time.monotonic() - started
    expect_true(f"ready in less than the 5 s of one interval ({took:.2f} s)", took < 5)
    for _ in range(3):  # the first pass, and those every 30 s
        info = task.fingerprint()
    expect("its name", info.name, "mooring.csi")
    expect("its node", task.call("NodeGetInfo", timeout=1).node_id, NODE)
    task.lose("TERM")


def N6_a_mount_that_fails_is_tried_once_and_leaves_nothing(w):
    volume = w.server.create("wrong")
    refused("FAILED_PRECONDITION", "xfs", lambda: w.allocate(volume, Usage(fs_type="xfs")))
    w.check_host()
    user = w.allocate(volume)
    user.stop()
    w.server.delete(volume)


# Every access mode that Nomad has; and a volume that grows while it is used, without a secret on NodeExpand.
def N7_what_nomad_never_sends_is_not_needed(w):
    for access in ("single-node-reader-only", "single-node-writer", "multi-node-reader-only",
                   "multi-node-single-writer", "multi-node-multi-writer"):
        usage = Usage(access=access, read_only=access.endswith("reader-only"))
        volume = w.server.create(access, usage)
        user = w.allocate(volume, usage)
        expect(f"{access}: the task can write", user.can("touch /srv/f"), not usage.read_only)
        user.stop()
        w.server.delete(volume)
    volume = w.server.create("grows", BLOCK)
    user = w.allocate(volume, BLOCK)
    grown = {"volume_id": volume.external_id, "capacity_range": {"required_bytes": 32 << 20},
             "volume_capability": BLOCK.capability()}
    w.plugin.call("ControllerExpandVolume", grown)
    w.plugin.call("NodeExpandVolume", {**grown, "volume_path": w.agent.target(volume, user.id, BLOCK)[1],
                                       "staging_target_path": w.agent.staging(volume, BLOCK)[1]})
    expect("its size in the task", run("blockdev", "--getsize64", user.target), str(32 << 20))
    user.stop()
    w.server.delete(volume)
