"""The checks after a power cut. They share no code with the product."""
import contextlib
import glob
import os
import shutil
import sqlite3
import tempfile

from host import eventually, expect, expect_true, mounts, run
from world import loops_below

CHECKS = {"ext4": ("e2fsck", "-fn"), "xfs": ("xfs_repair", "-n")}


class Load:
    """The programs on a machine, and their clients. A subclass has:

    start(): starts the programs, and sets `process`. is_ready(), answer(): what they say about that
    listed(): the sizes of the volumes by their id, and the ids of the snapshots
    """

    def __init__(self, machine, clients):
        self.machine = machine
        self.clients = clients
        self.state = f"{machine.disk}/plugin"
        self.own_mounts = []  # of the programs

    def check_before_start(self):
        for database in glob.glob(f"{self.machine.disk}/*/*.db"):
            with tempfile.TemporaryDirectory() as copies:
                for file in glob.glob(f"{database}*"):
                    shutil.copy(file, copies)
                copy = os.path.join(copies, os.path.basename(database))
                with contextlib.closing(sqlite3.connect(copy)) as records:
                    found = records.execute("PRAGMA integrity_check").fetchall()
                expect(f"the integrity of {database}", found, [("ok",)])

    def check(self):
        self.check_records()
        for client in self.clients:
            client.finish()
        self.check_records()
        self.check_files()
        for client in self.clients:
            for volume in list(client.volumes):
                self.check_volume(client, volume)
            for snapshot in client.snapshots:
                client.create(snapshot)
                self.check_volume(client, client.volumes[-1])
                client.remove_volume(client.volumes[-1])

    def check_records(self):
        """Everything that was acknowledged is listed, and nothing else than that and what a call without an answer made."""
        volumes, snapshots = self.listed()
        for client in self.clients:
            for volume in client.volumes:
                size = volumes.pop(volume.id, None)
                expect_true(f"{volume} is listed with one of {volume.sizes} bytes, not {size}", size in volume.sizes)
            for snapshot in client.snapshots:
                expect_true(f"{snapshot} is listed", snapshot.id in snapshots)
                snapshots.remove(snapshot.id)
            left = [one.id in volumes or one.id in snapshots for one in client.going]
            expect_true("a group is deleted as a whole", all(left) or not any(left))
        extra = {*volumes, *snapshots} - {one.id for client in self.clients for one in client.going}
        coming = sum(client.coming for client in self.clients)
        expect_true(f"{extra} come from the calls without an answer, which make {coming}", len(extra) <= coming)

    def images(self):
        """An undo file stays until its image is staged."""
        return [name for name in os.listdir(f"{self.state}/volumes") if not name.endswith(".undo")]

    def check_files(self):
        """Each record has its image, and each image its record."""
        count = len([one for client in self.clients for one in client.volumes + client.snapshots if not one.kind.pool])
        eventually(f"there are {count} images: {self.images()}", lambda: len(self.images()) == count)
        expect("the files that are no image", [name for name in self.images() if not name.endswith(".img")], [])

    def check_volume(self, client, volume):
        if not volume.published:
            client.put_up(volume)
        volume.check(client.place(volume))
        client.take_down(volume)
        if volume.kind.fs_type:
            run(*CHECKS[volume.kind.fs_type], f"{self.state}/volumes/{volume.id}.img")

    def check_end(self):
        """Deletes everything, and looks for leftovers."""
        for client in self.clients:
            while client.snapshots:
                client.remove_snapshot(client.snapshots[0])
            while client.volumes:
                client.remove_volume(client.volumes[0])
        self.check_records()
        self.check_files()
        expect("the files of volumes at the end", os.listdir(f"{self.state}/volumes"), [])
        left = {mount.target for mount in mounts(self.machine.disk)} - {self.machine.disk, *self.own_mounts}
        expect("the mounts at the end", left, set())
        eventually("no loop device is left", lambda: not loops_below(self.machine.disk))
