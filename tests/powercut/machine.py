"""A machine whose disk loses power: the disk of disk.py, a filesystem on it, and programs that work there.

tests/powercut/run makes mount and process namespaces for it. A cut ends all processes, mounts and loop devices. The next
boot has the disk's content, an empty /run and a new boot id.
"""
import contextlib
import glob
import json
import os
import random
import select
import signal
import subprocess
import threading
import time
import uuid

from checks import CHECKS
from host import PATIENCE, Wrong, eventually, expect, expect_true, mounts, mounts_in, run, unmount
from world import BOOT_ID, loops_below, write_file

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE = 4 << 30  # most of it stays a hole
LINGERS = 5  # seconds until a loop device without a mount is detached
NEW_DISK = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-N", "4096", "-J", "size=8",
             "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
}


class Machine:
    def __init__(self, programs, work, fs_type, ignores_flushes):
        self.programs = programs
        self.fs_type = fs_type
        self.ignores_flushes = ignores_flushes
        self.file = f"{work}/disk.img"
        self.fuse = f"{work}/fuse"
        self.disk = f"{work}/disk"  # where the filesystem is mounted
        self.logs = f"{work}/log"
        self.scratch = f"{work}/scratch"  # a mount point
        self.server = self.probe = self.loop = None
        self.given_up = False
        self.children, self.mounted = [], []
        for directory in (self.fuse, self.disk, self.logs, self.scratch):
            os.makedirs(directory)
        with open(self.file, "wb") as file:
            file.truncate(SIZE)
        run(*NEW_DISK[fs_type], self.file)

    # Power

    def boot(self, seed, *cut):
        """Mounts the disk, and clears what a boot clears. `cut`: see begin."""
        flags = ["--ignore-flushes"] * self.ignores_flushes
        self.mounted = [self.fuse]
        # In a session of its own: Ctrl-C must not end the disk before the filesystems on it.
        self.server = subprocess.Popen([f"{HERE}/disk.py", self.file, self.fuse, str(seed), *flags], text=True,
                                       start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        eventually("the disk is served", lambda: os.path.exists(f"{self.fuse}/disk"))
        self.probe = os.open(f"{self.fuse}/disk", os.O_RDONLY)
        self.loop = run("losetup", "--find", "--show", "--direct-io=on", f"{self.fuse}/disk")
        try:
            self.mount("-t", self.fs_type, self.loop, self.disk)
        finally:
            run("losetup", "--detach", self.loop)  # as soon as it is unmounted, also if the test is killed
        self.mount("-t", "tmpfs", "-o", "mode=0755", "run", "/run")
        write_file("/run/boot_id", f"{uuid.uuid4()}\n")
        self.mount("--bind", "/run/boot_id", BOOT_ID)
        if cut:
            self.begin(*cut)

    def mount(self, *words):
        self.mounted.append(words[-1])  # first: a signal may come right after the mount
        run("mount", *words)

    def begin(self, flushes, pages):
        """The disk flushes everything. Then it cuts itself instead of that flush among those of at least so many pages."""
        self.tell(f"begin {flushes} {pages}")
        expect("the disk's answer", self.server.stdout.readline(), "begun\n")

    def tell(self, order):
        self.server.stdin.write(f"{order}\n")
        self.server.stdin.flush()

    def has_power(self):
        """Asks the disk itself. If it answers, the cut comes later than everything that happened before this call."""
        if self.given_up or self.probe is None:
            return False
        try:
            os.pread(self.probe, 1, 0)
        except OSError:
            return False
        return True

    def wait_for_cut(self, seconds, ended):
        """Waits until the disk cuts itself, and cuts it if `seconds` pass or `ended` is true. Returns the disk's report."""
        for _ in range(int(seconds * 20)):
            if select.select([self.server.stdout], [], [], 0.05)[0] or ended():
                break
        if self.has_power():
            try:
                self.tell("cut")
            except BrokenPipeError:
                pass  # the disk was quicker
        return json.loads(self.server.stdout.readline())

    def power_off(self, threads=()):
        """Ends everything above the disk, whether it was cut or not."""
        if self.has_power():
            self.stop_children()
        else:
            self.kill_programs()
        self.take_apart(threads)

    def give_up(self, threads):
        """Ends everything after a failure. The disk serves until the filesystems on it are unmounted, because over a dead disk
        an unmount or a thaw may hang. A disk that does not answer is ended first."""
        self.given_up = True
        end_disk = threading.Timer(PATIENCE, self.server.kill if self.server else lambda: None)
        end_disk.start()
        try:
            self.kill_programs()
            self.take_apart(threads)
        except Exception as error:  # once more, over a dead disk
            print(f"        the machine is not cleared while its disk serves: {error}", flush=True)
            end_disk.function()
            self.kill_programs()
            self.take_apart(threads)
        finally:
            end_disk.cancel()

    def take_apart(self, threads):
        for thread in threads:
            if thread.is_alive():
                thread.join(PATIENCE)
            expect_true("the client ends", not thread.is_alive())
        self.children.clear()
        # A killed program leaves mounts of volumes in its scratch below /run.
        for mount in reversed(mounts_in(self.disk) + mounts_in("/run")):
            eventually(f"{mount.target} is unmounted", lambda target=mount.target: unmount(target))
        for loop in loops_below(self.disk) + loops_below(self.fuse):
            run("losetup", "--detach", loop, check=False)  # it may detach itself meanwhile
        try:
            eventually("the loop devices are detached", self.has_detached_all, LINGERS)
        except Wrong:
            self.thaw_hidden()
            eventually("the loop devices are detached", self.has_detached_all)
        if self.probe is not None:
            with contextlib.suppress(OSError):  # a close is a request, too
                os.close(self.probe)
            self.probe = None
        while self.mounted:  # the disk is busy until its loop device has detached itself
            eventually(f"{self.mounted[-1]} is unmounted", lambda: unmount(self.mounted[-1]))
            self.mounted.pop()
        if self.server:
            self.server.stdin.close()
            self.server.stdout.close()
            self.server.wait(PATIENCE)
            self.server = None

    def kill_programs(self):
        """Kills all processes but the disk, and waits for their end. Some threads end only after a thaw, or after the kernel
        has given their last write up."""
        eventually("all processes end", self.has_killed_all)

    def has_killed_all(self):
        left = processes() - {os.getpid(), self.server.pid if self.server else 1}
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.thaw_mounted()
        self.end_retries()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return not left

    def has_detached_all(self):
        self.end_retries()
        return not loops_below(self.disk)

    def thaw_mounted(self):
        """Thaws the filesystems on and above the disk. A killed copy may leave one frozen."""
        for mount in mounts(self.disk):
            if mount.fs_type in NEW_DISK:
                run("fsfreeze", "--unfreeze", mount.target, check=False)

    def thaw_hidden(self):
        """Thaws those that are frozen and have no mount any more. They stay in the kernel, and another mount finds them. Not
        before their loop devices have had time to go: the device of another test may have the same number then."""
        for loop in loops_below(self.disk):
            for fs_type in NEW_DISK:
                if os.path.exists(f"/sys/fs/{fs_type}/{os.path.basename(loop)}"):
                    self.thaw(loop, fs_type)

    def thaw(self, loop, fs_type):
        for mode in ("rw", "ro"):
            with contextlib.suppress(Wrong):  # it has the other mode
                run("mount", "--internal-only", "-t", fs_type, "-o", mode, loop, self.scratch)
                run("fsfreeze", "--unfreeze", self.scratch, check=False)
                run("umount", "--internal-only", self.scratch)
                return

    def end_retries(self):
        """An xfs writes again for ever after an error. Tells those above the disk to stop."""
        for loop in [*loops_below(self.disk), self.loop]:
            for file in glob.glob(f"/sys/fs/xfs/{os.path.basename(loop or '')}/error/metadata/*/max_retries"):
                with contextlib.suppress(FileNotFoundError):  # unmounted meanwhile
                    write_file(file, "0")

    def stop_children(self):
        for child in self.children:
            child.terminate()
            expect(f"the status of {child.args[0]} after SIGTERM", child.wait(PATIENCE), 0)

    def check_filesystem(self):
        run(*CHECKS[self.fs_type], self.file)

    # Programs

    def start(self, program, *flags):
        with open(f"{self.logs}/{program}", "a", encoding="utf-8") as log:
            child = subprocess.Popen([f"{self.programs}/{program}", *flags], cwd="/", start_new_session=True,
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.children.append(child)
        return child


def processes():
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


class Writeback(threading.Thread):
    """Starts to write random files to the disk, as the kernel does when it needs memory. It does not flush."""

    def __init__(self, machine, seed):
        super().__init__(daemon=True)
        self.machine = machine
        self.chance = random.Random(seed)

    def run(self):
        while self.machine.has_power():
            with contextlib.suppress(OSError):  # the file is gone, or the power
                depth = self.chance.choice(("*/*", "*/*/*"))  # not deeper: a file open in a volume keeps it mounted
                write_back(self.chance.choice(glob.glob(f"{self.machine.disk}/{depth}") or [self.machine.disk]))
            time.sleep(self.chance.random() / 50)


def write_back(path):
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
