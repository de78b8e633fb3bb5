"""The directories lie on an export of this machine's own NFS server, which starts again now and then. For tests/vm."""
import contextlib
import os
import time

from csi import Refused
from generator import Generator
from host import mounts, run
from model import Model
from world import PATIENCE, World

EXPORTS = "/etc/exports.d/played.exports"
PLACES = "/run/mooring-nfs"
UNAVAILABLE = "UNAVAILABLE"


class ExportsModel(Model):
    """NFS keeps a removed file that a task has open (`.nfs…`), so its volume cannot go before the task has ended."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.going = set()  # names of volumes whose deletion waits for a task

    def may_delete(self, step, volume):
        codes = super().may_delete(step, volume)
        waits = volume and volume.pool == "plain" and volume.tasks and not volume.used()
        return codes | {UNAVAILABLE} if waits else codes

    def apply(self, step, code):
        super().apply(step, code)
        if step["do"] == "delete":
            self.going = self.going | {step["volume"]} if code == UNAVAILABLE else self.going - {step["volume"]}


class ExportsGenerator(Generator):
    def next(self):
        ends = self.mends()
        return ends[0] if ends else super().next()

    def mends(self):
        """A deletion that waits goes on after its tasks. A task may keep several volumes."""
        going = sorted(self.model.going)
        tasks = {task: None for name in going for task in sorted(self.model.volumes[name].tasks)}
        return [*super().mends(), *({"do": "end_task", "task": task} for task in tasks),
                *({"do": "delete", "volume": name} for name in going)]

    def a_create(self):
        """An export has its own names of volumes."""
        step = super().a_create()
        known = self.model.volumes.get(step["volume"])
        return None if known and known.pool != step["pool"] else step

    def a_kill(self):
        return {"who": "server"} if self.chance.random() < 0.3 else super().a_kill()


class OnExports:
    """A part of World."""

    start_within = 120  # after a reboot the host has another boot id, and waits until the record of the one before is old

    def make_pool(self):
        super().make_pool()
        with open(EXPORTS, "w", encoding="utf-8") as file:  # a start of the server reads it
            file.write(f"{self.plain} 127.0.0.1(rw,no_root_squash,no_subtree_check)\n")
        run("exportfs", "-ra")

    def pools(self):
        return [f"name=plain,backend=nfs,server=127.0.0.1,export={self.plain},options=timeo=50" if "name=plain" in pool else pool
                for pool in super().pools()]

    def is_ready(self):
        return super().is_ready() and self.has_export()

    def has_export(self):
        try:
            self.csi.call("GetCapacity", {"parameters": {"pool": "plain"}}, PATIENCE)
        except Refused as refused:
            if refused.code != "UNAVAILABLE":
                raise
            return False
        return True

    def do_kill(self, step):
        if step["who"] != "server":
            super().do_kill(step)
            return
        self.calm_at = time.monotonic() + PATIENCE
        run("systemctl", "restart", "nfs-server")

    def unmount(self):
        super().unmount()
        for mount in reversed(mounts(PLACES)):
            run("umount", "-l", mount.target)

    def close(self):
        super().close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(EXPORTS)
        run("exportfs", "-ra", check=False)


class ExportsWorld(OnExports, World):
    pass
