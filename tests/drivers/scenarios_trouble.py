"""The work of a manager under faults: a killed or hung driver, a killed manager, and a reboot."""
import os
import signal

import scenarios
from host import eventually, expect, expect_true, mounts, read, write
from scenarios import scenario


@scenario()
def a_killed_driver_comes_back_and_mounts_stay(world):
    world.make_volume("db")
    path = world.attach("db")
    write(f"{path}/f", "kept")
    before = mounts(world.disk)
    killed = world.signal_driver(signal.SIGKILL)
    eventually("another process of it runs", lambda: set(world.driver_processes()) - set(killed))
    eventually("it is healthy", world.is_healthy)
    expect("the mounts", mounts(world.disk), before)
    expect("what is there", read(f"{path}/f"), "kept")
    world.detach(path)


@scenario()
def a_hung_driver_delays_calls_for_a_limited_time(world):
    world.make_volume("db")
    stopped = world.stop_driver()
    world.refused("DEADLINE_EXCEEDED", "attach", "db", world.place("db"), "--for", "web-1", timeout=2)
    world.status()
    for process in set(stopped) & set(world.driver_processes()):
        os.kill(process, signal.SIGCONT)
    eventually("the attachment is undone", lambda: not world.attachments() and not world.claims())
    world.allowed.add("overlap")  # its first call goes on, while the second one comes
    expect("a write", write(f"{world.attach('db')}/f"), "written")


@scenario()
def a_killed_manager_finds_all_again(world):
    world.make_volume("db")
    path = world.attach("db")
    write(f"{path}/f", "kept")
    before, drivers = mounts(world.disk), world.driver_processes()
    for number in (signal.SIGKILL, signal.SIGTERM):
        world.kill_manager(number)
        expect("what is read without a manager", read(f"{path}/f"), "kept")
        world.start_manager()
        eventually("the driver is healthy", world.is_healthy)
        expect("the mounts", mounts(world.disk), before)
        if not world.driver.comes_and_goes:
            expect("the driver", world.driver_processes(), drivers)
        expect("the claims", len(world.claims()), 1)
    world.detach(path)


@scenario()
def a_reboot_attaches_volumes_again(world):
    world.make_volume("db", "--access", world.driver.shared)
    writer = world.attach("db", "writer")
    reader = world.attach("db", "reader", "--read-only", user="web-2")
    write(f"{writer}/f", "kept")
    world.reboot()
    eventually("both are attached again", lambda: len([mount for mount in mounts(world.place("")[:-1])]) == 2)
    expect("what is there", read(f"{reader}/f"), "kept")
    scenarios.check_both(writer, reader)
    world.reboot()
    eventually("both are attached again", lambda: len([mount for mount in mounts(world.place("")[:-1])]) == 2)
    eventually("the driver is healthy", world.is_healthy)  # else its controller is owed a call
    world.detach(writer)
    world.detach(reader)


@scenario("readers-only")
def a_reader_survives_a_killed_driver_and_a_reboot(world):
    """For a driver whose volumes nobody writes: its volume is its directory."""
    write(f"{world.disk}/driver/f", "given")
    world.make_volume("db")
    path = world.attach("db", None, "--read-only")
    killed = world.signal_driver(signal.SIGKILL)
    eventually("another process of it runs", lambda: set(world.driver_processes()) - set(killed))
    expect("what is there", read(f"{path}/f"), "given")
    world.reboot()
    eventually("it is attached again", lambda: mounts(path))
    expect("what is there after a reboot", read(f"{path}/f"), "given")
    expect("a write", write(f"{path}/f"), "Read-only file system")
    eventually("the driver is healthy", world.is_healthy)
    world.detach(path)


@scenario("block")
def a_block_volume_survives_a_reboot(world):
    world.make_volume("raw", block=True)
    path = world.attach("raw")
    with open(path, "r+b", buffering=0) as device:
        device.write(b"x" * 4096)
    world.reboot()
    eventually("it is attached again", lambda: mounts(path))
    with open(path, "rb") as device:
        expect("what is there", device.read(4096), b"x" * 4096)


@scenario("create")
def docker_asks_again_after_a_reboot(world):
    options = {"size": world.driver.size[1]}
    if world.driver.token:
        options["secret.token"] = world.driver.token
    expect("create", world.docker("VolumeDriver.Create", Name="db", Opts=options)["Err"], "")
    write(f"{world.docker('VolumeDriver.Mount', Name='db', ID='a' * 64)['Mountpoint']}/f", "kept")
    world.reboot()
    eventually("what was attached is given back", lambda: not world.claims())
    again = world.docker("VolumeDriver.Mount", Name="db", ID="b" * 64)
    expect("mount", again["Err"], "")
    expect("what is there", read(f"{again['Mountpoint']}/f"), "kept")
    expect("unmount", world.docker("VolumeDriver.Unmount", Name="db", ID="b" * 64)["Err"], "")
    world.remove_by_docker("db")


CALLS = ("ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume")
CALLS_BACK = ("NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume")


def calls_of(world, calls):
    left_out = set() if "stage" in world.driver.can else {"ControllerPublishVolume", "NodeStageVolume",
                                                          "NodeUnstageVolume", "ControllerUnpublishVolume"}
    return [call for call in calls if call not in left_out]


@scenario(orders=True)
def a_driver_may_die_in_any_call(world):
    world.make_volume("db")
    for words in ("die before", "die after"):
        for call in calls_of(world, CALLS):
            world.order(call, words)
            path = world.attach("db", timeout=60)
            expect(f"a write after {call}", write(f"{path}/f"), "written")
            eventually("the driver is healthy", world.is_healthy)
            world.detach(path)
        for call in calls_of(world, CALLS_BACK):
            path = world.attach("db", timeout=60)
            world.order(call, words)
            world.try_mooring("detach", path, timeout=60)
            eventually(f"it is detached after {call}", lambda: not world.attachments() and not world.claims())
            eventually("the driver is healthy", world.is_healthy)


@scenario(orders=True)
def refused_calls_are_undone(world):
    world.make_volume("db")
    for call in calls_of(world, CALLS):
        for code in ("FAILED_PRECONDITION", "NOT_FOUND", "INTERNAL", "PERMISSION_DENIED"):
            world.order(call, f"fail {code} the cat sits on it")
            world.refused("the cat sits on it", "attach", "db", world.place("db"), "--for", "web-1", timeout=2)
            world.end_order(call)
            eventually(f"the attachment is undone after {call}", lambda: not world.attachments() and not world.claims())
    expect("a write", write(f"{world.attach('db')}/f"), "written")


@scenario(orders=True)
def not_found_at_the_driver_is_no_error(world):
    world.make_volume("db")
    for call in calls_of(world, CALLS_BACK):
        path = world.attach("db")
        world.order(call, "lost NOT_FOUND there is no such volume or node")
        world.detach(path)
        world.end_order(call)
        eventually("no claim is left", lambda: not world.claims())  # a driver that is gone is called later
        expect("what is mounted", mounts(path), [])


@scenario(orders=True)
def a_manager_killed_in_a_call_undoes_it(world):
    world.make_volume("db")
    world.allowed.add("overlap")  # the call that hung goes on, while the next manager makes one
    for call in calls_of(world, CALLS):
        world.order(call, "hang")
        world.refused("", "attach", "db", world.place("db"), "--for", "web-1", timeout=1)
        world.kill_manager()
        world.start_manager()
        world.end_order(call)
        eventually("the attachment is undone", lambda: not world.attachments() and not world.claims())
        path = world.attach("db")
        expect_true("it is mounted", mounts(path))
        world.detach(path)

