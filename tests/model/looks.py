"""Compares the paths of a node with the model."""
import functools
import glob
import os
import re
import struct

from host import Wrong, eventually, mounts
from model import BLOCK


@functools.lru_cache(1000)
def bytes_of(number):
    """After a loss a block may have several numbers."""
    numbers = number if isinstance(number, tuple) else (number,)
    return b"".join(struct.pack("<Q", one) * (BLOCK // 8 // len(numbers)) for one in numbers)


def bytes_with(blocks, size):
    content = bytearray(size)
    for block, number in blocks.items():
        content[block * BLOCK:(block + 1) * BLOCK] = bytes_of(number)
    return content


def difference(got, wanted):
    """The first block that differs, in words."""
    for at in range(0, max(len(got), len(wanted)), BLOCK):
        one, other = got[at:at + BLOCK], wanted[at:at + BLOCK]
        if one != other:
            return f"block {at // BLOCK} has {describe(one)}, not {describe(other)}"
    return "nothing"


def describe(block):
    if not block:
        return "no bytes"
    numbers = {number for number, in struct.iter_unpack("<Q", block[:len(block) // 8 * 8])}
    return f"the number {numbers.pop()}" if len(numbers) == 1 else f"{len(numbers)} different numbers"


class Looks:
    """A part of World, with its paths and calls."""

    def content(self, volume, target):
        """As the model has it, but in bytes."""
        path = self.target({"volume": volume.name, "target": target})
        if volume.block:
            with open(path, "rb", buffering=0) as device:
                content = bytearray(device.seek(0, os.SEEK_END))
                device.seek(0)
                device.readinto(content)
                return content
        files = {}
        for name in sorted(os.listdir(path)):
            if name != "lost+found" and not name.startswith(".nfs"):  # on NFS: it was removed, and a task has it open
                with open(f"{path}/{name}", "rb") as file:
                    files[name] = file.read()
        return files

    def check(self, volume, target):
        """Reads the target, and looks at its size."""
        try:
            got = self.content(volume, target)
        except OSError as error:
            raise Wrong(f"{volume.name} at {target}: {error}") from None
        if volume.losses and volume.losses.happened:
            volume.losses.settle(volume, got)
        if volume.block:
            if not volume.shown <= len(got) <= volume.size:
                raise Wrong(f"{volume.name}: the device has {len(got)} bytes, not {volume.shown} to {volume.size}")
            wanted = bytes_with(volume.content, len(got))
            if got != wanted:
                raise Wrong(f"{volume.name} at {target}: {difference(got, wanted)}")
            return
        wanted = {name: bytes_with(blocks, (max(blocks, default=-1) + 1) * BLOCK) for name, blocks in volume.content.items()}
        if sorted(got) != sorted(wanted):
            raise Wrong(f"{volume.name} at {target}: the files are {sorted(got)}, not {sorted(wanted)}")
        for name, content in wanted.items():
            if got[name] != content:
                raise Wrong(f"{volume.name} at {target}: {name}: {difference(got[name], content)}")
        self.check_room(volume, self.target({"volume": volume.name, "target": target}))

    @staticmethod
    def check_room(volume, path):
        if volume.pool == "plain":
            return
        room = os.statvfs(path)
        size = room.f_blocks * room.f_frsize
        if not 0.5 * volume.shown < size <= volume.size:
            raise Wrong(f"{volume.name}: the filesystem shows {size} bytes, and the volume has {volume.shown}")

    def check_read_only(self, volume, target):
        """Nothing can be written, and the mount says so."""
        place = volume.targets[target]
        path = self.target({"volume": volume.name, "target": target})
        if place.writable() or volume.block:
            return
        if not os.statvfs(path).f_flag & os.ST_RDONLY:
            raise Wrong(f"{volume.name} at {target}: the mount is writable")

    def check_lists(self, model):
        ids = {one.volume.volume_id for one in self.call("ListVolumes", {}).entries}
        wanted = {self.id(name) for name in model.volumes}
        if ids != wanted:
            raise Wrong(f"ListVolumes has {sorted(ids)}, not {sorted(wanted)}")
        ids = {one.snapshot.snapshot_id for one in self.call("ListSnapshots", {}).entries}
        wanted = {self.id(name) for name in model.snapshots}
        if ids != wanted:
            raise Wrong(f"ListSnapshots has {sorted(ids)}, not {sorted(wanted)}")

    @staticmethod
    def volumes_here(model):
        return model.volumes.values()

    def check_mounts(self, model):
        """Each target and staging that the model knows is mounted once, and nothing else is."""
        wanted = {f"{self.work}/node/{volume.name}/targets/{target}" for volume in self.volumes_here(model)
                  for target in volume.targets}
        wanted |= {f"{self.work}/node/{volume.name}/staging" for volume in self.volumes_here(model)
                   if volume.mode and not volume.block and volume.pool != "plain"}
        got = [mount.target for mount in mounts(f"{self.work}/node")]
        plain = {f"{self.work}/node/{volume.name}/staging" for volume in model.volumes.values() if volume.pool == "plain"}
        if sorted(path for path in got if path not in plain) != sorted(wanted):
            raise Wrong(f"mounted are {sorted(got)}, not {sorted(wanted)}")

    def check_clean(self):
        """After all was deleted."""
        left = [path for path in glob.glob(f"{self.images}/*") if re.search(r"(vol|snap)-", path)]
        left += glob.glob(f"{self.plain}/*")
        if left:
            raise Wrong(f"left over: {left}")
        eventually("no loop device is left", lambda: not self.own_devices(), 10)
        eventually("no process holds a device", lambda: not any(map(self.runs, self.pids("mooring-hold"))), 10)
