"""The disk below the images has no room for a while, or no inodes, and filesystems lie on it.

A filesystem without room below it fails: some of it can be written or read no more. An unstage and a stage mend it, when
there is room again. Then it has all that was synced before it failed.
"""
import contextlib
import copy
import os

from generator import CALLS, WEIGHTS, Generator
from host import run
from losses import LosingModel
from model import OK, PRECONDITION, RANGE
from world import World

INODES = 300
EXHAUSTED, INTERNAL = "RESOURCE_EXHAUSTED", "INTERNAL"
ERRORS = {"ENOSPC", "EIO", "EROFS", "EUCLEAN"}
NEED_NO_ROOM = {"delete", "unpublish", "unsnapshot", "ungroup", "stats", "modify"}
NEED_ROOM = {"create", "grow", "snapshot", "group"}  # and the pool is small
USE = {"write", "remove"}


class FullModel(LosingModel):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.failing = set()  # names of volumes

    def allowed(self, step):
        codes = self.codes_of(step)
        names = {step.get("volume"), *step.get("volumes", ()), *(step.get("source") or ())}
        fails = bool(names & self.failing) or self.full == "bytes" and step["do"] == "stage"
        if step["do"] in USE:
            return codes | ERRORS | self.codes_of_lost(step) if fails else codes
        if OK not in codes or step["do"] not in CALLS or step["do"] in NEED_NO_ROOM:
            return codes
        codes = codes | {EXHAUSTED, RANGE} if self.full or step["do"] in NEED_ROOM else codes
        return codes | {INTERNAL, EXHAUSTED, PRECONDITION} if fails and (self.full or step["do"] != "unstage") else codes

    def apply(self, step, code):
        if code in ERRORS and step["do"] == "write" and step["volume"] in self.failing:
            self.may_be_written(step, self.volumes[step["volume"]].losses)
        else:
            super().apply(step, code)
        if self.full == "bytes":
            self.failing |= {name for name, volume in self.volumes.items() if volume.image() and (volume.used() or volume.tasks)}
        for name in self.failing & self.volumes.keys():
            volume = self.volumes[name]
            if not volume.used() and not volume.tasks:
                volume.losses.happened = True
                self.failing -= set() if self.full else {name}
        self.failing &= self.volumes.keys()

    def grows_now(self, volume):
        """A stage that finds no room may leave the filesystem as small as it was, or as that of its source."""
        exists = volume.shown or volume.source is not None
        return super().grows_now(volume) and not (self.full and exists)

    def may_node_grow(self, step, volume):
        codes = super().may_node_grow(step, volume)
        return {OK, PRECONDITION} if codes == {PRECONDITION} else codes  # the stage may have grown it

    def codes_of_lost(self, step):
        """A file that was not synced may be gone."""
        existed = self.volumes[step["volume"]].losses.existed.get(step["file"], ())
        return {"ENOENT"} if step["do"] == "remove" and False in existed else set()

    @staticmethod
    def may_be_written(step, losses):
        losses.earlier[step["file"]][step["block"]].add(step["number"])
        losses.existed[step["file"]] |= {True, False}

    def done_write(self, step, volume):
        """An fsync tells of a failed write once. A later one says nothing about it, and ext4 may lose even what is
        written to that block and synced then."""
        super().done_write({**step, "how": "plain"} if volume.name in self.failing else step, volume)

    def has_ended(self, volume):
        if volume.name not in self.failing:
            super().has_ended(volume)

    def losses_of_copy(self, source):
        if source and source.name in self.failing:
            losses = copy.deepcopy(source.losses)
            losses.happened = True
            return losses
        return super().losses_of_copy(source)


class FullGenerator(Generator):
    weights = {**WEIGHTS, "fill": 4}

    def a_fill(self):
        return {"on": None if self.model.full else self.pick(("bytes", "inodes"))}

    def a_stage(self):
        """Often the first one of a volume, which formats it."""
        new = [name for name, volume in self.model.volumes.items() if volume.image() and not volume.shown and not volume.mode]
        if self.model.full and new and self.chance.random() < 0.5:
            return {"volume": self.pick(new), "block": False, "mode": "SINGLE_NODE_WRITER"}
        return super().a_stage()

    def lacks_room(self, name):
        return name in self.model.failing

    def a_hold(self):
        step = super().a_hold()
        return step if step and self.is_possible({"do": "hold", **step}) else None

    def is_possible(self, step):
        if step["do"] == "hold" and step["volume"] in self.model.failing:
            return False
        return super().is_possible(step)


class SmallWorld(World):
    """Its pool is small, and has few inodes where their number is fixed."""
    pool_bytes = 1 << 30

    def make_pool(self):
        if self.pool_fs == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", f"size={self.pool_bytes},nr_inodes={INODES}", "none", self.images)
            return
        flags = {"ext4": ("-N", str(INODES), "-m", "0")}.get(self.pool_fs, ())
        self.make_filesystem(*flags)

    def do_fill(self, step):
        self.was_full = self.was_full or step["on"] == "bytes"
        if step["on"] == "inodes":
            with contextlib.suppress(OSError):
                for number in range(INODES if self.pool_fs in ("ext4", "tmpfs") else 0):
                    os.close(os.open(f"{self.images}/.inode-{number}", os.O_CREAT, 0o600))
            return
        if not step["on"]:
            for name in os.listdir(self.images):
                if name.startswith(".inode-"):
                    os.unlink(f"{self.images}/{name}")
        super().do_fill(step)


class FullWorld(SmallWorld):
    """Does not look into a filesystem that fails, before its next stage."""

    def check(self, volume, target):
        if volume.name not in self.model.failing:
            super().check(volume, target)

    def check_read_only(self, volume, target):
        if volume.name not in self.model.failing:
            super().check_read_only(volume, target)
