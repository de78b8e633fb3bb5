"""The users of volumes: tasks that write, hold, remove and attack. Part of a World."""
import fcntl
import mmap
import os
import subprocess
import sys

from host import Wrong
from looks import bytes_of
from model import BLOCK

LOOP_CLR_FD, LOOP_SET_STATUS64, LOOP_GET_STATUS64 = 0x4C01, 0x4C04, 0x4C05
SIZE_OF_LOOP_INFO64, LABEL_AT = 232, 56
HERE = os.path.dirname(os.path.abspath(__file__))


class Users:
    """With the paths of World."""

    def do_write(self, step):
        path, how = self.file(step, "file" not in step or step["file"] is None), step["how"]
        flags = os.O_RDWR | (0 if step["file"] is None else os.O_CREAT) | (os.O_DIRECT if how == "direct" else 0)
        file = os.open(path, flags, 0o644)
        try:
            at, data = step["block"] * BLOCK, bytes_of(step["number"])
            if how.startswith("mmap"):
                if step["file"] is not None and os.fstat(file).st_size < at + BLOCK:
                    os.ftruncate(file, at + BLOCK)
                with mmap.mmap(file, BLOCK, offset=at) as memory:
                    memory[:] = data
                    if how == "mmap-sync":
                        memory.flush()
            elif how == "direct":
                with mmap.mmap(-1, BLOCK) as memory:  # aligned
                    memory[:] = data
                    os.pwritev(file, [memory], at)
            else:
                os.pwrite(file, data, at)
                if how == "synced":
                    os.fsync(file)
        finally:
            os.close(file)

    def do_overrun(self, step):
        file = os.open(self.target(step), os.O_WRONLY)
        try:
            size = os.lseek(file, 0, os.SEEK_END)
            os.pwrite(file, bytes_of(1), size)
        finally:
            os.close(file)

    def do_attack(self, step):
        """By ioctls of loop(4). The label names the volume of another task."""
        device = os.open(self.target(step), os.O_RDONLY)
        try:
            if step["how"] == "detach":
                fcntl.ioctl(device, LOOP_CLR_FD, 0)
                return
            status = bytearray(SIZE_OF_LOOP_INFO64)
            fcntl.ioctl(device, LOOP_GET_STATUS64, status)
            label = f"mooring:{self.id(step['other'])}".encode()
            status[LABEL_AT:LABEL_AT + 64] = label.ljust(64, b"\0")[:64]
            fcntl.ioctl(device, LOOP_SET_STATUS64, bytes(status))
        finally:
            os.close(device)

    def do_remove(self, step):
        os.unlink(self.file(step, False))

    def do_hold(self, step):
        """A task in a mount namespace of its own writes and keeps its descriptor, and for `mmap` its memory."""
        self.do_end_task(step)  # one of that name, whose volume was deleted
        task = subprocess.Popen(  # pylint: disable=consider-using-with
            ["unshare", "--mount", "--propagation", "private", sys.executable, f"{HERE}/task.py", self.mounts_of_others, self.target(step),
             self.file(step, step["file"] is None), step["how"], str(step["block"] * BLOCK), str(step["number"])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tasks[step["task"]] = task
        answer = task.stdout.readline().strip()
        if answer != "ready":
            raise Wrong(f"the task says {answer!r}")

    def do_end_task(self, step):
        task = self.tasks.pop(step["task"], None)
        if task:
            task.kill()
            task.communicate()
