"""The node of the model's tests, with more pools, and volumes of each kind as an orchestrator handles them."""
import glob
import os
import shutil
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [f"{os.path.dirname(HERE)}/model", f"{os.path.dirname(HERE)}/replay"]

from exports import OnExports  # noqa: E402
from host import Wrong, expect, expect_true, run  # noqa: E402
from play import grows_ext4  # noqa: E402
from world import World  # noqa: E402

MIB = 1 << 20
SIZES = {"xfs": 320 * MIB, "btrfs": 256 * MIB}
COPY_REFUSED = ("ABORTED", "FAILED_PRECONDITION", "UNAVAILABLE")  # docs/backends.md: the writer makes no pause
KINDS = {  # pool, filesystem
    "ext4": ("default", "ext4"), "xfs": ("default", "xfs"), "btrfs": ("default", "btrfs"), "block": ("default", None),
    "shared": ("shared", "ext4"), "device": ("disks", "ext4"), "device-block": ("disks", None),
    "directory": ("plain", None), "memory": ("memory", None)}


class Node(World):
    """A World whose steps must succeed."""

    def __init__(self, options, work):
        super().__init__(options, work, options.images)
        self.links, self.disk, self.held = f"{work}/links", f"{work}/disk", None
        os.makedirs(f"{self.images}/shared", 0o700)
        os.makedirs(self.links)

    def pools(self):
        default, *others = super().pools()
        return [default.replace(self.images, f"{self.images}/own"), *others,
                f"name=shared,backend=image,path={self.images}/shared,shared=true",
                f"name=disks,backend=device,path={self.links},match=disk-*"]

    def add_disk(self):
        """A loop device that goes with this process, however that ends: it is detached as soon as nobody has it open."""
        run("truncate", "-s", str(128 * MIB), self.disk)
        device = run("losetup", "--find", "--show", self.disk)
        self.held = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
        run("losetup", "-d", device)
        os.symlink(device, f"{self.links}/disk-1")

    def must(self, step):
        code, words = self.do(step)
        if code != "OK":
            raise self.wrong(step, code, words)

    @staticmethod
    def wrong(step, code, words):
        return Wrong(f"{step['do']} of {step.get('volume')}: {code}: {words}")

    def check_clean(self):
        """After all was deleted."""
        left = [path for pool in ("own", "shared") for path in glob.glob(f"{self.images}/{pool}/*")]
        if left:
            raise Wrong(f"left over: {left}")
        super().check_clean()

    def close(self):
        self.kill_all("fio|fsx|stress-ng.*")  # in this process namespace
        super().close()
        if self.held is not None:
            os.close(self.held)
            self.held = None
        for device in self.devices_over(self.work):
            run("losetup", "-d", device, check=False)

    def give_up(self):
        print("\n".join(f"        plugin: {line}" for line in self.log(15).splitlines()), flush=True)
        self.close()
        shutil.rmtree(self.work)


class NodeOnExports(OnExports, Node):
    pass


class Volume:
    def __init__(self, node, kind, name="judged", source=None):
        self.node, self.kind, self.name, self.source = node, kind, name, source
        self.pool, self.fs = KINDS[kind]
        self.block = self.fs is None and self.pool in ("default", "disks")
        self.size = SIZES.get(self.fs, 96 * MIB)
        self.can_copy = self.pool in ("default", "shared")
        self.can_grow = self.can_copy or kind == "memory"
        self.path = node.target({"volume": name, "target": "task"})

    def step(self, name, **more):
        return {"do": name, "volume": self.name, "pool": self.pool, "fs": self.fs, "block": self.block, "size": self.size,
                "source": self.source, "target": "task", "mode": "SINGLE_NODE_WRITER", "readonly": False, **more}

    def must(self, *names):
        for name in names:
            self.node.must(self.step(name))

    def image(self):
        directory = "shared" if self.pool == "shared" else "own"
        return self.node.disk if self.pool == "disks" else f"{self.node.images}/{directory}/{self.node.id(self.name)}.img"

    def begin(self):
        if self.pool == "disks":
            self.node.add_disk()
        self.must("create", "stage", "publish")

    def away(self):
        """As much as the data survives: memory is lost with the last unstage."""
        self.must("unpublish")
        if self.kind != "memory":
            self.must("unstage")

    def back(self):
        if self.kind != "memory":
            self.must("stage")
        self.must("publish")
        self.check_size()

    def grow(self):
        """A mounted ext4 may have to wait for the next stage."""
        self.size += 16 * MIB
        self.must("grow")
        if self.fs != "ext4" or grows_ext4():
            self.must("node_grow")
            self.check_size()

    def check_size(self):
        if self.pool in ("plain", "disks"):
            return
        if self.block:
            with open(self.path, "rb") as device:
                expect("the size of the device", device.seek(0, os.SEEK_END), self.size)
        else:
            room = os.statvfs(self.path)
            expect_true("the filesystem has grown", self.size * 0.5 < room.f_blocks * room.f_frsize <= self.size)

    def check_filesystem(self):
        """While the volume is unstaged."""
        checks = {"ext4": ("e2fsck", "-fn"), "xfs": ("xfs_repair", "-n"), "btrfs": ("btrfs", "check", "--readonly")}
        if self.fs:
            run(*checks[self.fs], self.image())

    def end(self):
        self.must("unpublish", "unstage")
        self.check_filesystem()
        self.must("delete")
