"""A node whose disk loses at a power cut what was not flushed, or hangs for a while: the disk of tests/powercut."""
import contextlib
import os
import random
import signal
import subprocess
import threading
import time

from csi import Refused
from generator import CALLS, WEIGHTS, Generator
from host import Wrong, eventually, mounts, run
from world import PATIENCE, World

DISK = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}/powercut/disk.py"
AFTER = {"power-cut": (0, 0.05), "hang": (0.1, 0.5)}  # seconds
BYTES = 2 << 30  # most of it stays a hole


class Disk:
    """A file served by disk.py, and an ext4 in it."""

    def __init__(self, work):
        self.file, self.served, self.mounted = f"{work}/volatile.img", f"{work}/served", f"{work}/disk"
        self.server = None
        for directory in (self.served, self.mounted):
            os.makedirs(directory)
        run("truncate", "-s", str(BYTES), self.file)
        run("mkfs.ext4", "-q", "-F", "-N", "4096", "-J", "size=8", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", self.file)

    def begin(self, seed):
        self.server = subprocess.Popen(  # pylint: disable=consider-using-with
            [DISK, self.file, self.served, str(seed)], text=True, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        eventually("the disk is served", lambda: os.path.exists(f"{self.served}/disk"))
        device = run("losetup", "--find", "--show", "--direct-io=on", f"{self.served}/disk")
        try:
            run("mount", "-t", "ext4", device, self.mounted)
        finally:
            run("losetup", "--detach", device)  # as soon as it is unmounted

    def cut(self):
        self.server.stdin.write("cut\n")
        self.server.stdin.flush()
        self.server.stdout.readline()

    def hang(self, on):
        self.server.send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def end(self):
        if not self.server:
            return
        for place in (self.mounted, self.served):
            eventually(f"{place} is unmounted", lambda place=place: is_unmounted(place))
        self.server.stdin.close()
        self.server.stdout.close()
        self.server.wait(PATIENCE)
        self.server = None


def is_unmounted(place):
    run("umount", place, check=False)
    return not mounts(place)


class VolatileWorld(World):
    no_answer = (*World.no_answer, "DEADLINE_EXCEEDED")  # at once, while an earlier call hangs there

    def make_disk(self):
        self.chance = random.Random(self.work)
        self.volatile = Disk(self.work)
        self.volatile.begin(self.chance.randrange(1 << 30))
        return self.volatile.mounted

    def make_pool(self):
        """The images lie on the ext4 of the disk."""

    def do_cut(self, _):
        if self.chance.random() < 0.5:
            self.write_back()
        self.volatile.cut()
        self.stop()
        eventually("no device is left on the disk", lambda: not self.devices_over(self.volatile.mounted))
        self.volatile.end()
        self.change_boot_id()
        self.volatile.begin(self.chance.randrange(1 << 30))
        self.start()

    def write_back(self):
        """The kernel writes what it wants to the disk, as it does when it needs memory. It flushes nothing."""
        for directory, _, files in os.walk(self.volatile.mounted):
            for name in files:
                with contextlib.suppress(OSError):
                    file = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(file)
        time.sleep(self.chance.random() / 50)

    def disturbed(self, how, method, request):
        meet = {"power-cut": self.cut_during, "hang": self.hang_during}.get(how)
        if not meet:
            return super().disturbed(how, method, request)
        meet(method, request)
        return contextlib.nullcontext()

    def cut_during(self, method, request):
        """The answer of this call does not count. It is repeated after the boot."""
        others = self.others
        self.others = []
        call = threading.Thread(target=self.note, args=(method, request, PATIENCE))
        call.start()
        time.sleep(self.after)
        self.do_cut({})
        call.join()
        self.others = others

    def probe(self):
        """A mount helper that was killed a moment ago is away until another one runs."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.csi.call("Probe", {}, PATIENCE)
            except Refused as refused:
                if "another one is being started" not in str(refused) or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)

    def hang_during(self, method, request):
        """The plugin says that it is there, and how much room there is as soon as the disk answers again."""
        self.volatile.hang(True)
        try:
            self.note(method, request, self.after)
            self.probe()
            self.knows_room()
        except Refused as refused:
            raise Wrong(f"while the disk hangs: {refused}") from None
        finally:
            self.volatile.hang(False)
        eventually("GetCapacity has an answer", self.knows_room)

    def knows_room(self):
        try:
            return self.csi.call("GetCapacity", {"parameters": {"pool": "default"}}, PATIENCE)
        except Refused as refused:
            if refused.code != "UNAVAILABLE":
                raise
            return None

    def unmount(self):
        """A copy that was killed may have left a frozen filesystem."""
        for mount in mounts(f"{self.work}/node"):
            if mount.fs_type == "ext4":
                run("fsfreeze", "--unfreeze", mount.target, check=False)
        super().unmount()

    def close(self):
        self.volatile.hang(False)
        super().close()
        self.volatile.end()


class VolatileGenerator(Generator):
    weights = {**WEIGHTS, "cut": 2}

    def a_cut(self):
        return {}

    def disturbance(self, kind):
        if kind in CALLS and self.chance.random() < 0.04:
            how = self.pick(("power-cut", "power-cut", "hang"))
            return {"disturbance": how, "after": round(self.chance.uniform(*AFTER[how]), 4)}
        return super().disturbance(kind)
