"""A pool of whole disks. Here loop devices are the disks."""
import dataclasses
import os

from generator import WEIGHTS, Generator
from host import Wrong, run
from model import EXISTS, MIB, OK, RANGE, Model
from world import World

SIZES = {"disk-0": 16 * MIB, "disk-1": 20 * MIB}


@dataclasses.dataclass
class Disk:
    size: int
    taken: bool = False
    fs: str = None  # a stage has formatted it
    content: dict = dataclasses.field(default_factory=dict)  # the same as its volume's. It stays when that is deleted

    def is_empty(self):
        return not self.fs and not self.content


class DevicesModel(Model):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.disks = {name: Disk(size) for name, size in SIZES.items()}
        self.disk_of = {}  # of each volume

    def disk_for(self, step):
        """Its name: the one that the step asks for, or the smallest that is empty."""
        fitting = [name for name, disk in self.disks.items() if not disk.taken and step["size"] <= disk.size
                   and (name == step["device"] if step["device"] else disk.is_empty())]
        return min(fitting, key=SIZES.get, default=None)

    def may_create(self, step, volume):
        if step["pool"] != "disks":
            return super().may_create(step, volume)
        if volume:
            is_other = step["device"] and step["device"] != self.disk_of.get(step["volume"])
            return {EXISTS} if is_other else super().may_create(step, volume)
        return {OK} if self.disk_for(step) else {"RESOURCE_EXHAUSTED", RANGE}

    def done_create(self, step, volume):
        name = None if volume or step["pool"] != "disks" else self.disk_for(step)
        super().done_create(step, volume)
        if name:
            disk, new = self.disks[name], self.volumes[step["volume"]]
            self.disk_of[new.name], disk.taken = name, True
            new.size, new.content = disk.size, disk.content

    def done_delete(self, step, volume):
        super().done_delete(step, volume)
        if volume and volume.pool == "disks":
            self.disks[self.disk_of.pop(volume.name)].taken = False

    def done_stage(self, step, volume):
        super().done_stage(step, volume)
        if volume.pool == "disks":
            self.disks[self.disk_of[volume.name]].fs = volume.fs

    def may_wipe(self, *_):
        return {OK}

    def done_wipe(self, step, _):
        self.disks[step["disk"]] = Disk(SIZES[step["disk"]])


class DevicesGenerator(Generator):
    weights = {**WEIGHTS, "wipe": 3}

    def a_create(self):
        step = super().a_create()
        if step["pool"] != "disks":
            return step
        named = self.chance.random() < 0.5
        step = {**step, "size": self.pick((16, 18)) * MIB, "device": self.pick(self.model.disks) if named else None}
        return step if self.has_known_content(step) else None

    def has_known_content(self, step):
        """The blocks of a filesystem are not known, and a device with data is not formatted."""
        disk = self.model.disks.get(step.get("device"))
        return not disk or disk.taken or disk.is_empty() or disk.fs == step["fs"]

    def is_possible(self, step):
        if step["do"] == "wipe":
            return not self.model.disks[step["disk"]].taken
        return super().is_possible(step) and (step["do"] != "create" or self.has_known_content(step)) and not (
            step["do"] == "attack" and self.model.volumes[step["volume"]].pool == "disks")

    def a_attack(self):
        """Not on a disk: it is a loop device only here."""
        step = super().a_attack()
        return step if step and self.model.volumes[step["volume"]].pool != "disks" else None

    def a_wipe(self):
        """A person clears a disk that no volume has."""
        free = [name for name, disk in self.model.disks.items() if not disk.taken]
        return {"disk": self.pick(free)} if free else None


class DevicesWorld(World):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.links, self.held = f"{self.work}/links", {}
        for directory in (self.links, f"{self.work}/disks"):
            os.makedirs(directory)
        for name, size in SIZES.items():
            self.add_disk(name, size)

    def add_disk(self, name, size):
        """A loop device that goes with this process, however that ends: it is detached as soon as nobody has it open."""
        file = f"{self.work}/disks/{name}"
        run("truncate", "-s", str(size), file)
        device = run("losetup", "--find", "--show", file)
        self.held[device] = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
        run("losetup", "-d", device)
        os.symlink(device, f"{self.links}/{name}")

    def pools(self):
        return [*super().pools(), f"name=disks,backend=device,path={self.links},match=disk-*"]

    def do_wipe(self, step):
        run("blkdiscard", "-z", f"{self.links}/{step['disk']}")

    def own_devices(self):
        """Also those over a disk: read-only targets have them."""
        return [name for name in self.devices_over(f"{self.work}/disks") if name not in self.held] + super().own_devices()

    def check_clean(self):
        super().check_clean()
        taken = [name for name in os.listdir(f"{self.state}/devices/disks") if not name.endswith(".released")]
        if taken:
            raise Wrong(f"disks are taken still: {taken}")

    def close(self):
        super().close()
        for held in self.held.values():
            os.close(held)
        self.held.clear()
