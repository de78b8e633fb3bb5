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
import subprocess
import threading
import time
import uuid

from checks import CHECKS
from host import PATIENCE, eventually, expect, expect_true, mounts, run
from world import BOOT_ID, kill_all_others, loops_below, write_file

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE = 4 << 30  # most of it stays a hole
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
        self.server = self.probe = self.loop = None
        self.children = []
        for directory in (self.fuse, self.disk, self.logs):
            os.makedirs(directory)
        with open(self.file, "wb") as file:
            file.truncate(SIZE)
        run(*NEW_DISK[fs_type], self.file)

    # Power

    def boot(self, seed, *cut):
        """Mounts the disk, and clears what a boot clears. `cut`: see begin."""
        flags = ["--ignore-flushes"] * self.ignores_flushes
        self.server = subprocess.Popen([f"{HERE}/disk.py", self.file, self.fuse, str(seed), *flags], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        eventually("the disk is served", lambda: os.path.exists(f"{self.fuse}/disk"))
        self.mounted = [self.fuse]
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
        run("mount", *words)
        self.mounted.append(words[-1])

    def begin(self, flushes, pages):
        """The disk flushes everything. Then it cuts itself instead of that flush among those of at least so many pages."""
        self.tell(f"begin {flushes} {pages}")
        expect("the disk's answer", self.server.stdout.readline(), "begun\n")

    def tell(self, order):
        self.server.stdin.write(f"{order}\n")
        self.server.stdin.flush()

    def has_power(self):
        """Asks the disk itself. If it answers, the cut comes later than everything that happened before this call."""
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

    def give_up(self, threads):
        """Ends everything after a failure."""
        if self.server:
            self.server.kill()
            self.server.wait(PATIENCE)
            self.power_off(threads)

    def power_off(self, threads=()):
        """Ends everything above the disk, whether it was cut or not."""
        if self.has_power():
            self.stop_children()
        else:
            self.end_retries()
            kill_all_others()
            eventually("all processes end", self.has_reaped_all)
        for thread in threads:
            thread.join(PATIENCE)
            expect_true("the client ends", not thread.is_alive())
        self.children.clear()
        for mount in reversed(mounts(self.disk)):
            if mount.target != self.disk:
                run("fsfreeze", "--unfreeze", mount.target, check=False)  # a copy was cut off
                run("umount", "--internal-only", mount.target)
        for loop in loops_below(self.disk):
            run("losetup", "--detach", loop, check=False)  # it may detach itself meanwhile
        eventually("the loop devices are detached", self.end_retries)
        with contextlib.suppress(OSError):  # a close is a request, too
            os.close(self.probe)
        while self.mounted:
            eventually(f"{self.mounted[-1]} is unmounted", self.unmount_last)
        self.server.stdin.close()
        self.server.stdout.close()
        self.server.wait(PATIENCE)
        self.server = None

    def has_reaped_all(self):
        """A killed process ends as soon as the kernel gives its last write up."""
        self.end_retries()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            return False
        return True

    def end_retries(self):
        """An xfs writes again for ever after an error. Tells those above the disk to stop. Returns whether there is none."""
        loops = loops_below(self.disk)
        for loop in [*loops, self.loop]:
            for file in glob.glob(f"/sys/fs/xfs/{os.path.basename(loop)}/error/metadata/*/max_retries"):
                with contextlib.suppress(FileNotFoundError):  # unmounted meanwhile
                    write_file(file, "0")
        return not loops

    def unmount_last(self):
        """The disk is busy until its loop device has detached itself."""
        done = subprocess.run(["umount", "--internal-only", self.mounted[-1]], stderr=subprocess.DEVNULL)
        return done.returncode == 0 and self.mounted.pop()

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

    def last_words(self):
        words = []
        for name in os.listdir(self.logs):
            with open(f"{self.logs}/{name}", encoding="utf-8", errors="replace") as log:
                words += [f"{name}: {line.rstrip()}" for line in log.readlines()[-8:]]
        return "\n".join(words)


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
