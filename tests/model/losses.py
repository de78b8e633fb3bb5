"""A disk that has lost writes, by a power cut or because it had no room: all contents that it may have.

The model's content is what readers see. Losses has what the disk may have instead: each earlier value since the last
sync. The first look after a loss must find one of these, for each block on its own. That is the content from then on.
"""
import collections
import copy
import struct

from host import Wrong
from model import BLOCK, OK, Model

PIECE = 1024  # a small ext4 has blocks of this size, and each may be lost on its own


class Losses:
    """A volume or snapshot has one. The file of a device has the name None."""

    def __init__(self):
        self.earlier = collections.defaultdict(lambda: collections.defaultdict(set))  # {file: {block: numbers}}
        self.existed = collections.defaultdict(set)  # {file: whether it did, at the times since its last sync}
        self.removed = collections.defaultdict(lambda: collections.defaultdict(set))  # the same, of files that were removed
        self.happened = False  # and nobody has looked yet

    def __deepcopy__(self, memo):
        twin = Losses()
        for mine, its in ((self.earlier, twin.earlier), (self.removed, twin.removed)):
            for file, blocks in mine.items():
                for block, numbers in blocks.items():
                    its[file][block] |= numbers
        for file, states in self.existed.items():
            twin.existed[file] |= states
        twin.happened = self.happened
        return twin

    def note(self, volume, file, block):
        """Before a write of the block."""
        blocks = volume.content if volume.block else volume.content.get(file, {})
        self.earlier[file][block] |= numbers_of(blocks.get(block, 0))
        self.existed[file].add(volume.block or file in volume.content)

    def note_removal(self, volume, file):
        for block in volume.content[file]:
            self.note(volume, file, block)
        self.existed[file] |= {True, False}
        if volume.fs not in ("ext4", "xfs"):
            self.note_return(file)

    def note_return(self, file):
        """btrfs: a removed file is back if the next one of its name is removed, too, and the disk has not had that. Also if
        the next one was synced: its removal takes its name out of the log, and the last commit has the file before it."""
        for one, other in ((self.removed, self.earlier), (self.earlier, self.removed)):
            for block, numbers in one[file].items():
                other[file][block] |= numbers

    def sync(self, file):
        self.earlier.pop(file, None)
        self.existed.pop(file, None)

    def sync_block(self, file, block):
        self.existed.pop(file, None)
        self.earlier[file].pop(block, None)

    def settle(self, volume, got):
        """Compares what a reader sees, and takes it as the content."""
        if volume.block:
            volume.content = self.seen(volume.name, None, volume.content, got)
        else:
            files = volume.content.keys() | self.earlier.keys() | self.existed.keys()
            for file in files:
                if (file in got) not in {file in volume.content, *self.existed.get(file, ())}:
                    raise Wrong(f"{volume.name}: {file} is {'back' if file in got else 'lost, and it was synced'}")
            if got.keys() - files:
                raise Wrong(f"{volume.name}: the files {sorted(got.keys() - files)} were never there")
            volume.content = {file: self.seen(volume.name, file, volume.content.get(file, {}), got[file]) for file in got}
        self.__init__()

    def seen(self, name, file, blocks, got):
        """The numbers in the blocks of the file or device."""
        earlier, seen = self.earlier.get(file, {}), {}
        length = -(-len(got) // BLOCK)
        for block in sorted({*blocks, *earlier, *range(length)} if file else {*blocks, *earlier}):
            allowed = numbers_of(blocks.get(block, 0)) | earlier.get(block, set())
            numbers = [number_in(got[at:at + PIECE]) for at in range(block * BLOCK, block * BLOCK + BLOCK, PIECE)]
            if not allowed.issuperset(numbers):
                raise Wrong(f"{name}: block {block} of {file or 'the device'} has {numbers} after a loss, and not one of {sorted(allowed)}")
            if any(numbers) or block == length - 1:
                seen[block] = numbers[0] if len(set(numbers)) == 1 else tuple(numbers)
        return seen


def numbers_of(value):
    return set(value) if isinstance(value, tuple) else {value}


def number_in(piece):
    """None if there are several."""
    numbers = {number for number, in struct.iter_unpack("<Q", bytes(piece).ljust(PIECE, b"\0"))}
    return numbers.pop() if len(numbers) == 1 else None


class LosingModel(Model):
    """Each volume and snapshot has `losses`."""

    def lose(self):
        """The power goes."""
        for one in self.volumes.values():
            one.losses.happened = one.pool != "memory"
        self.done_reboot()

    def codes_of(self, step):
        if step.get("disturbance") == "power-cut":
            self.lose()  # an earlier answer does not count
        return super().codes_of(step)

    def may_cut(self, *_):
        return {OK}

    def done_cut(self, *_):
        self.lose()

    def done_create(self, step, volume):
        source = self.source_of(step) if step["source"] else None
        super().done_create(step, volume)
        if not volume:
            self.volumes[step["volume"]].losses = self.losses_of_copy(source)

    def losses_of_copy(self, source):
        """A copy has all that its source has, synced or not. Or else it is one of what a loss has left."""
        return copy.deepcopy(source.losses) if source and source.losses.happened else Losses()

    def take(self, name, volume, group=None):
        super().take(name, volume, group)
        self.snapshots[name].losses = self.losses_of_copy(volume)

    def end_use(self, volume):
        super().end_use(volume)
        if not volume.used() and not volume.tasks:
            self.has_ended(volume)

    def has_ended(self, volume):
        """An unstage has written all of an image to the disk."""
        if not volume.losses.happened and volume.pool != "plain":
            volume.losses = Losses()

    def done_write(self, step, volume):
        file, block = step["file"], step["block"]
        volume.losses.note(volume, file, block)
        super().done_write(step, volume)
        if step.get("how") == "synced":
            volume.losses.sync(file)
        elif step.get("how") == "mmap-sync":
            volume.losses.sync_block(file, block)

    def done_remove(self, step, volume):
        volume.losses.note_removal(volume, step["file"])
        super().done_remove(step, volume)
