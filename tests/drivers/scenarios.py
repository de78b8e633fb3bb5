"""The normal work of a manager, with any driver. Each scenario gets a World and leaves nothing."""
import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor

from host import PATIENCE, eventually, expect, expect_true, mount_at, mounts, read, write

ALL = []


def scenario(*needs, orders=False):
    """A scenario that needs these abilities of a driver. `orders`: the test orders faults. Such a driver is not run by the
    manager, because the manager waits longer each time before it starts a driver again."""
    def add(function):
        function.needs, function.orders = frozenset(needs or ("mount",)), orders
        ALL.append(function)
        return function
    return add


def applies(function, driver):
    if function.__name__ in driver.without or (driver.only and function.__name__ not in driver.only):
        return False
    if function is a_driver_that_mounts_nothing_is_reported:
        return "mount" not in driver.can
    return function.needs <= driver.can and (not function.orders or (driver.is_strict and driver.registered))


@scenario()
def attach_and_detach(world):
    world.make_volume("db")
    path = world.attach("db")
    expect("what is written", write(f"{path}/f", "kept"), "written")
    world.refused("web-1", "attach", "db", world.place("second"), "--for", "web-2")
    world.refused("web-1", "volume", "delete", "db")
    world.detach(path)
    expect("the path afterwards", os.path.exists(f"{path}/f"), False)
    world.attach("db", "elsewhere", user="web-2")
    expect("what is there", read(f"{world.place('elsewhere')}/f"), "kept")
    world.detach(world.place("elsewhere"))
    world.remove_volume("db")
    world.refused("db", "volume", "status", "db")


@scenario()
def a_driver_that_mounts_nothing_is_reported(world):
    """The driver answers OK and mounts nothing. The manager must not hand out a bare directory."""
    world.mooring("volume", "create", "db", "--plugin", world.driver.plugin, "--access", "single-node-writer")
    world.refused("nothing is mounted", "attach", "db", world.place("db"), "--for", "web-1")
    eventually("the attachment is undone", lambda: not world.attachments() and not world.claims())
    world.refused("", "volume", "snapshot", "create", "nothing", "monday")


@scenario()
def a_read_only_attachment_takes_no_writes(world):
    world.make_volume("db")
    path = world.attach("db", None, "--read-only")
    expect("a write", write(f"{path}/f"), "Read-only file system")
    expect("a write on the host", write(f"{world.target_of(path)}/f"), "Read-only file system")


@scenario("ignores-readonly")
def a_device_that_stays_writable_is_refused(world):
    """A read-only bind of a device node stops no write, so the manager cannot make it read-only."""
    world.make_volume("raw", block=True)
    world.refused("writable, although", "attach", "raw", world.place("raw"), "--for", "web-1", "--read-only")
    eventually("the attachment is undone", lambda: not world.attachments() and not world.claims())
    world.detach(world.attach("raw"))


@scenario()
def a_reader_is_attached_beside_a_writer(world):
    world.make_volume("db", "--access", world.driver.shared)
    writer = world.attach("db", "writer")
    reader = world.attach("db", "reader", "--read-only", user="web-2")
    check_both(writer, reader)
    world.detach(writer)
    expect("what the reader reads alone", read(f"{reader}/f"), "new")
    writer = world.attach("db", "writer")
    check_both(writer, reader)
    world.detach(reader)
    expect("a write when the reader is gone", write(f"{writer}/f", "last"), "written")
    world.detach(writer)


@scenario()
def a_writer_is_attached_beside_a_reader(world):
    world.make_volume("db", "--access", world.driver.shared)
    reader = world.attach("db", "reader", "--read-only")
    writer = world.attach("db", "writer", user="web-2")
    check_both(writer, reader)
    world.kill_manager()
    world.start_manager()
    check_both(writer, reader)
    world.detach(reader)
    expect("a write when the reader is gone", write(f"{writer}/f", "last"), "written")


@scenario("stage")
def a_reader_of_another_mode_or_with_a_flag_shares_the_stage(world):
    if world.driver.shared.startswith("single"):
        return
    world.make_volume("db", "--access", "multi-node-single-writer", "--access", "multi-node-reader-only", "--mount-flag",
                      "noatime")
    writer = world.attach("db", "writer", "--access", "multi-node-single-writer")
    for flags in (("--access", "multi-node-reader-only", "--read-only"), ("--read-only", "--mount-flag", "ro")):
        reader = world.attach("db", "reader", *flags, user="web-2")
        check_both(writer, reader)
        world.detach(reader)
    world.detach(writer)


@scenario("block")
def a_block_reader_sees_what_a_writer_wrote(world):
    """Mooring's own driver refuses a reader beside a writer: the kernel has a cache for each of them."""
    world.make_volume("raw", "--access", world.driver.shared, block=True)
    writer = world.attach("raw", "writer")
    with open(writer, "r+b", buffering=0) as device:
        device.write(b"x" * 4096)
        os.fsync(device.fileno())
    if world.driver.name == "mooring":
        world.refused("would see old data", "attach", "raw", world.place("reader"), "--for", "web-2", "--read-only")
        world.detach(writer)
    reader = world.attach("raw", "reader", "--read-only", user="web-2")
    with open(reader, "rb") as device:
        expect("what the reader reads", device.read(4096), b"x" * 4096)
    if world.driver.name != "mooring":
        world.detach(writer)
    world.detach(reader)


def check_both(writer, reader):
    expect("a write of the writer", write(f"{writer}/f", "new"), "written")
    expect("what the reader reads", read(f"{reader}/f"), "new")
    expect("a write of the reader", write(f"{reader}/f"), "Read-only file system")


@scenario()
def mounts_propagate_as_asked(world):
    world.make_volume("db")
    for word, comes_in, goes_out in (("private", False, False), ("rslave", True, False), ("rshared", True, True)):
        path = world.attach("db", None, "--propagation", word)
        target = world.target_of(path)
        for name in ("in", "out"):
            os.makedirs(f"{path}/{name}", exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "below", f"{target}/in"], check=True)
        expect(f"{word}: a mount below the target is seen", mount_at(f"{path}/in") is not None, comes_in)
        subprocess.run(["umount", f"{target}/in"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "below", f"{path}/out"], check=True)
        expect(f"{word}: a mount of the user's gets out", mount_at(f"{target}/out") is not None, goes_out)
        subprocess.run(["umount", f"{path}/out"], check=True)
        world.detach(path)
    world.refused("write access", "attach", "db", world.place("db"), "--for", "web-1", "--read-only", "--propagation",
                  "rshared")


@scenario("create")
def a_volume_is_expanded(world):
    if not world.driver.can & {"expand"}:
        world.make_volume("db")
        world.refused("cannot expand volumes", "volume", "expand", "db", "--size", "64MiB")
        return
    world.make_volume("db")
    path = world.attach("db")
    if "expand-in-use" not in world.driver.can:
        world.refused("detach", "volume", "expand", "db", "--size", "64MiB")
        world.detach(path)
    elif world.driver.is_strict or can_grow_mounted():
        world.mooring("volume", "expand", "db", "--size", "64MiB")
        expect("a write afterwards", write(f"{path}/f"), "written")
        world.driver.check_node_size(world, 64 << 20)
        world.detach(path)
    else:
        world.detach(path)
    world.mooring("volume", "expand", "db", "--size", "96MiB")
    expect("the size", int(world.asked("volume", "status", "db")["volume"]["capacity_bytes"]), 96 << 20)
    world.detach(world.attach("db"))
    world.driver.check_node_size(world, 96 << 20)


def can_grow_mounted():
    """Growing a mounted ext4 needs CAP_SYS_RESOURCE, which some machines withhold."""
    with open("/proc/self/status", encoding="ascii") as file:
        bounding = next(line for line in file if line.startswith("CapEff"))
    return bool(int(bounding.split()[1], 16) >> 24 & 1)


@scenario()
def a_snapshot_becomes_a_volume(world):
    world.make_volume("db")
    if "snapshot" not in world.driver.can:
        world.refused("no ", "volume", "snapshot", "create", "db", "monday")
        world.refused("no ", "volume", "snapshot", "list", "--plugin", world.driver.plugin)
        return
    path = world.attach("db")
    write(f"{path}/f", "before")
    taken = [world.asked("volume", "snapshot", "create", "db", name)["snapshot"]["id"] for name in ("monday", "tuesday")]
    listed = world.asked("volume", "snapshot", "list", "--plugin", world.driver.plugin)["snapshots"]
    expect("the snapshots, of several pages", {entry["id"] for entry in listed}, set(taken))
    write(f"{path}/f", "after")
    world.make_volume("two", "--from-snapshot", taken[0])
    expect("what the copy has", read(f"{world.attach('two')}/f"), "before")
    expect("what the volume has", read(f"{path}/f"), "after")
    for snapshot in taken:
        world.mooring("volume", "snapshot", "delete", "--plugin", world.driver.plugin, snapshot,
                      *world.driver.secrets(world))


@scenario()
def a_volume_is_cloned(world):
    world.make_volume("db")
    path = world.attach("db")
    write(f"{path}/f", "first")
    world.detach(path)
    if "clone" not in world.driver.can:
        world.refused("cannot ", "volume", "clone", "db", "two", *world.driver.secrets(world))
        return
    world.mooring("volume", "clone", "db", "two", *world.driver.secrets(world))
    copy = world.attach("two")
    expect("what the clone has", read(f"{copy}/f"), "first")
    write(f"{copy}/f", "second")
    expect("what the volume has", read(f"{world.attach('db')}/f"), "first")


@scenario("block")
def a_block_volume_is_attached(world):
    world.make_volume("raw", block=True)
    path = world.attach("raw")
    expect_true("it is a device", stat.S_ISBLK(os.stat(path).st_mode))
    with open(path, "r+b", buffering=0) as device:
        device.write(b"x" * 4096)
        os.fsync(device.fileno())
    world.detach(path)
    expect("the path afterwards", os.path.exists(path), False)
    path = world.attach("raw", None, *([] if "ignores-readonly" in world.driver.can else ["--read-only"]))
    with open(path, "rb") as device:
        expect("what is there", device.read(4096), b"x" * 4096)
    if "ignores-readonly" not in world.driver.can:
        check_read_only_device(path)
    world.detach(path)


def check_read_only_device(path):
    done = subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=4096", "count=1", "conv=notrunc", "oflag=direct"],
                          capture_output=True, text=True)
    expect_true(f"a write is refused: {done.stderr}", done.returncode != 0)


@scenario("block", "expand")
def a_block_volume_is_expanded(world):
    world.make_volume("raw", block=True)
    if "expand-in-use" in world.driver.can:
        path = world.attach("raw")
        world.mooring("volume", "expand", "raw", "--size", "64MiB")
        expect("the device's size while it is attached", size_of(path), 64 << 20)
        world.detach(path)
    world.mooring("volume", "expand", "raw", "--size", "96MiB")
    expect("the device's size", size_of(world.attach("raw")), 96 << 20)


def size_of(device):
    return int(subprocess.run(["blockdev", "--getsize64", device], capture_output=True, text=True, check=True).stdout)


@scenario("create")
def docker_uses_volumes(world):
    expect("what it is", world.docker("Plugin.Activate"), {"Implements": ["VolumeDriver"]})
    options = {"size": world.driver.size[1], "access": world.driver.shared}
    if world.driver.token:
        options["secret.token"] = world.driver.token
    expect("create", world.docker("VolumeDriver.Create", Name="db", Opts=options)["Err"], "")
    first = world.docker("VolumeDriver.Mount", Name="db", ID="a" * 64)
    expect("mount", first["Err"], "")
    expect("a write", write(f"{first['Mountpoint']}/f", "kept"), "written")
    second = world.docker("VolumeDriver.Mount", Name="db", ID="b" * 64)
    expect("mount for another container", second["Err"], "")
    expect("what that reads", read(f"{second['Mountpoint']}/f"), "kept")
    expect("unmount", world.docker("VolumeDriver.Unmount", Name="db", ID="a" * 64)["Err"], "")
    expect("what the other still reads", read(f"{second['Mountpoint']}/f"), "kept")
    expect_true("it cannot be removed", "in use" in world.docker("VolumeDriver.Remove", Name="db")["Err"])
    expect("unmount the last", world.docker("VolumeDriver.Unmount", Name="db", ID="b" * 64)["Err"], "")
    world.await_release("db")
    world.remove_by_docker("db")
    expect("the volumes", world.docker("VolumeDriver.List")["Volumes"] or [], [])


@scenario()
def mount_and_umount_work_with_volumes(world):
    world.make_volume("db")
    path = world.place("db")
    os.makedirs(path)
    mount_program("mount", "-t", "csi", "csi:db", path, "-o", "propagation=rslave")
    expect("a write", write(f"{path}/f", "kept"), "written")
    mount_program("umount", path)
    world.await_release("db")
    expect("the claims", world.claims(), [])
    mount_program("mount", "-t", "csi", "csi:db", path, "-o", "ro")
    expect("what is there", read(f"{path}/f"), "kept")
    expect("a write through a read-only mount", write(f"{path}/f"), "Read-only file system")
    world.reboot()
    eventually("the driver is healthy", world.is_healthy)
    eventually("the claims are gone, as a reboot ends a mount", lambda: world.claims() == [])
    expect("the mounts after a reboot", [mount for mount in mounts(path) if mount.target == path], [])
    mount_program("mount", "-t", "csi", "csi:db", path, "-o", "ro,wait=30")
    expect("what is there after a reboot", read(f"{path}/f"), "kept")
    expect("the mounts at the place", len([mount for mount in mounts(path) if mount.target == path]), 1)
    mount_program("umount", path)


def mount_program(*command):
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=3 * PATIENCE)
    expect_true(f"{' '.join(command)} succeeds: {done.stderr.strip()}", done.returncode == 0)


@scenario()
def many_volumes_at_once(world):
    names = [f"many-{number}" for number in range(8)]

    def use(name):
        world.make_volume(name)
        for turn in range(2):
            path = world.attach(name, timeout=2 * PATIENCE)
            expect(f"a write to {name}", write(f"{path}/f", f"{name} {turn}"), "written")
            world.detach(path, timeout=2 * PATIENCE)
        world.remove_volume(name)

    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(use, names))


@scenario()
def many_users_of_one_volume_at_once(world):
    world.make_volume("db", "--access", world.driver.shared)

    def use(number):
        flags = ["--read-only"] if number % 2 else []
        path = world.attach("db", f"user-{number}", *flags, user=f"web-{number}", timeout=2 * PATIENCE)
        expect("a write", write(f"{path}/f-{number}"), "Read-only file system" if flags else "written")
        world.detach(path, timeout=2 * PATIENCE)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(use, range(6)))
