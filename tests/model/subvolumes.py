"""The default pool is a btrfs, and its volumes are subvolumes."""
from host import run
from model import INVALID, SMALLEST, Model
from world import World

FS = "subvolume"
SMALLEST[FS] = 16 << 20  # of those that are asked for here


class SubvolumesModel(Model):
    def may_modify(self, step, volume):
        refused = volume and volume.fs == FS and "readAhead" in step["parameters"]  # there is no device
        return {INVALID} if refused else super().may_modify(step, volume)


class SubvolumesWorld(World):
    def make_pool(self):
        disk = f"{self.work}/disk.img"
        run("truncate", "-s", str(self.pool_bytes), disk)
        run("mkfs.btrfs", "-q", disk)
        run("mount", "-o", "loop", disk, self.images)

    def pools(self):
        return [f"name=default,backend=btrfs,path={self.images}", *super().pools()[1:]]

    def do_create(self, step):
        super().do_create({**step, "fs": None if step["fs"] == FS else step["fs"]})

    @staticmethod
    def check_room(volume, path):
        """It shows the whole btrfs."""
        if volume.fs != FS:
            World.check_room(volume, path)
