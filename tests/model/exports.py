"""The directories lie on an export of this machine's own NFS server, which starts again now and then. For tests/vm."""
import time

from csi import Refused
from generator import Generator
from host import mounts, run
from world import PATIENCE, World

PLACES = "/run/mooring-nfs"


class ExportsGenerator(Generator):
    def a_kill(self):
        return {"who": "server"} if self.chance.random() < 0.3 else super().a_kill()


class OnExports:
    """A part of World."""

    start_within = 120  # after a reboot the host has another boot id, and waits until the record of the one before is old

    def make_pool(self):
        super().make_pool()
        run("exportfs", "-o", "rw,no_root_squash,no_subtree_check", f"127.0.0.1:{self.plain}")

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
        run("exportfs", "-u", f"127.0.0.1:{self.plain}", check=False)


class ExportsWorld(OnExports, World):
    pass
