"""The default pool is encrypted, or a thin pool of LVM: its volumes are devices of the device mapper. For tests/vm."""
import os

from generator import Generator
from host import Wrong, eventually, run
from model import BLOCK, INVALID, MIB, OK, PRECONDITION, Model
from world import World

EXTENT = 4 * MIB
GROUP = "played"


class MappedModel(Model):
    def may_modify(self, step, volume):
        refused = volume and volume.image() and "readAhead" in step["parameters"]  # these devices are not tuned
        return {INVALID} if refused else super().may_modify(step, volume)


class LogicalModel(MappedModel):
    @staticmethod
    def rounded(step):
        return {**step, "size": (step["size"] + EXTENT - 1) // EXTENT * EXTENT}

    def done_create(self, step, volume):
        super().done_create(self.rounded(step) if step["pool"] == "default" else step, volume)
        new = self.volumes[step["volume"]]
        if new.image():
            new.size = self.rounded({"size": new.size})["size"]

    def done_grow(self, step, volume):
        super().done_grow(self.rounded(step), volume)

    def may_group(self, step, volume):
        codes = super().may_group(step, volume)
        used = [name for name in step["volumes"] if name in self.volumes and (self.volumes[name].used() or self.volumes[name].tasks)]
        return codes | {PRECONDITION} if OK in codes and step["group"] not in self.groups and len(used) > 1 else codes


class MappedGenerator(Generator):
    def a_attack(self):
        """The devices are no loop devices."""
        return None


class EncryptedWorld(World):
    def make_pool(self):
        super().make_pool()
        os.makedirs(f"{self.work}/keys", mode=0o700)
        with open(f"{self.work}/keys/pool.key", "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write("a passphrase for tests\n")

    def pools(self):
        return [f"name=default,backend=luks,path={self.images},keyfile={self.work}/keys/pool.key", *super().pools()[1:]]

    def content(self, volume, target):
        """A block of a device that was never written may read as random bytes, but not as what somebody wrote."""
        got = super().content(volume, target)
        if volume.block:
            for at in range(0, len(got), BLOCK):
                if at // BLOCK not in volume.content and got[at:at + 8] != got[at + 8:at + 16]:
                    got[at:at + BLOCK] = bytes(len(got[at:at + BLOCK]))
        return got

    @staticmethod
    def mappings():
        return [line.split()[0] for line in run("dmsetup", "ls").splitlines() if line.startswith("mooring-")]

    def remove_mappings(self):
        """True: none is left. The kernel removes those of filesystems itself, with their last mount."""
        for name in self.mappings():
            run("dmsetup", "remove", name, check=False)
        return not self.mappings()

    def unmount(self):
        super().unmount()  # a loop device goes with its mapping
        eventually("no mapping is left", self.remove_mappings, 10)
        eventually("no loop device is left", lambda: not self.own_devices(), 10)

    def check_clean(self):
        eventually("no mapping is left", lambda: not self.mappings(), 10)
        super().check_clean()


class LogicalWorld(World):
    """The group lies on a loop device of this machine."""

    def make_pool(self):
        run("truncate", "-s", str(self.pool_bytes), f"{self.work}/group.img")
        self.device = run("losetup", "--find", "--show", f"{self.work}/group.img").strip()
        run("vgcreate", "-q", GROUP, self.device)
        run("lvcreate", "-q", "-y", "--type", "thin-pool", "-L", "5G", "-n", "thin", GROUP)

    def pools(self):
        return [f"name=default,backend=lvm,vg={GROUP},thinpool=thin", *super().pools()[1:]]

    def unmount(self):
        super().unmount()
        run("vgchange", "-an", "-q", GROUP, check=False)

    def check_clean(self):
        super().check_clean()
        left = [name for name in run("lvs", "--noheadings", "-o", "lv_name", GROUP).split() if name != "thin"]
        if left:
            raise Wrong(f"left over: {left}")

    def close(self):
        super().close()
        run("vgremove", "-f", "-q", GROUP, check=False)
        run("losetup", "-d", self.device, check=False)
