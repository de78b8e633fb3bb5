"""The kinds of histories: what a node has, and what happens to it."""
import dataclasses

from devices import DevicesGenerator, DevicesModel, DevicesWorld
from exports import ExportsGenerator, ExportsModel, ExportsWorld
from full import FullGenerator, FullModel, FullWorld, SmallWorld
from generator import FullDisk, Generator
from losses import LosingModel
from mapped import EncryptedWorld, LogicalModel, LogicalWorld, MappedGenerator, MappedModel
from model import Model
from shared import Nodes, SharedGenerator, SharedModel
from subvolumes import SubvolumesModel, SubvolumesWorld
from volatile import VolatileGenerator, VolatileWorld
from world import World

BACKENDS = {"ext4": ("default", "ext4"), "xfs": ("default", "xfs"), "btrfs": ("default", "btrfs"), "block": ("default", None),
            "directory": ("plain", None), "memory": ("memory", None), "disk-ext4": ("disks", "ext4"), "disk-block": ("disks", None),
            "subvolume": ("default", "subvolume")}


@dataclasses.dataclass(frozen=True)
class Kind:
    weight: float  # how often it is played
    backends: tuple
    always: tuple = ()  # of the backends
    model: type = Model
    generator: type = Generator
    world: type = World

    def some_backends(self, chance, wanted):
        """At most three."""
        always = [name for name in self.always if name in wanted]
        others = [name for name in self.backends if name in wanted and name not in always]
        return [BACKENDS[name] for name in (*always, *chance.sample(others, min(3 - len(always), len(others))))]


KINDS = {
    "images": Kind(0.6, ("ext4", "xfs", "btrfs", "block", "directory", "memory")),
    "full-device": Kind(0.1, ("block",), ("block",), generator=FullDisk, world=SmallWorld),
    "full": Kind(0.1, ("ext4", "xfs", "btrfs", "directory"), ("ext4",), FullModel, FullGenerator, FullWorld),
    "devices": Kind(0.1, ("disk-ext4", "disk-block", "ext4", "block", "memory"), ("disk-ext4", "disk-block"),
                    DevicesModel, DevicesGenerator, DevicesWorld),
    "power-cuts": Kind(0.1, ("ext4", "block", "directory", "memory"), ("ext4", "block"), LosingModel, VolatileGenerator, VolatileWorld),
    "subvolumes": Kind(0.1, ("subvolume", "directory"), ("subvolume",), SubvolumesModel, world=SubvolumesWorld),
    "shared": Kind(0.1, ("ext4", "xfs", "btrfs", "block"), ("block",), SharedModel, SharedGenerator, Nodes),
    "exports": Kind(0.1, ("ext4", "directory"), ("directory",), ExportsModel, ExportsGenerator, ExportsWorld),
    "encrypted": Kind(0.1, ("ext4", "xfs", "btrfs", "block"), ("block",), MappedModel, MappedGenerator, EncryptedWorld),
    "logical": Kind(0.1, ("ext4", "xfs", "btrfs", "block"), ("block",), LogicalModel, MappedGenerator, LogicalWorld),
}
NEED_A_MACHINE = ("exports", "encrypted", "logical")  # of their own, with an NFS server and the device mapper: tests/vm
