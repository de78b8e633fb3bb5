"""An orchestrator's calls for a volume while a judge uses it."""
import os
import time

from fio import verify_synced
from node import COPY_REFUSED, Volume

GROWTHS = 2


class Disturbance:
    def __init__(self, volume, seed, chance, damage_copy=None, scribble=None):
        self.volume, self.node, self.seed, self.chance = volume, volume.node, seed, chance
        self.damage_copy, self.scribble = damage_copy, scribble
        self.growths = self.copies = self.refused = self.names = 0

    def until_ended(self, program):
        try:
            while program.runs():
                if self.scribble:
                    self.scribble(self.volume)
                else:
                    self.one()
                time.sleep(0.1)
        finally:
            program.end()

    def one(self):
        steps = [self.look]
        if self.volume.can_copy:
            steps += [self.copy_of_snapshot, self.copy_of_volume]
        if self.volume.can_grow and self.growths < GROWTHS:
            steps.append(self.grow)
        self.chance.choice(steps)()

    def look(self):
        self.volume.must("stats", "list")

    def grow(self):
        self.growths += 1
        self.volume.grow()

    def copy_of_snapshot(self):
        name = self.new_name("snapshot")
        if not self.copied(self.volume.step("snapshot", snapshot=name)):
            return
        self.check_copy(("snapshot", name))
        self.node.must({"do": "unsnapshot", "snapshot": name})

    def copy_of_volume(self):
        self.check_copy(("volume", self.volume.name))

    def check_copy(self, source):
        """The copy has what was synced before, each of its files can be read, and its filesystem is without errors."""
        copy = Volume(self.node, self.volume.kind, self.new_name("copy"), source)
        copy.size = self.volume.size
        if not self.copied(copy.step("create")):
            return
        if self.damage_copy:
            self.damage_copy(copy)
        copy.must("stage", "publish")
        verify_synced(copy, self.seed)
        read_all(copy)
        copy.end()
        self.copies += 1

    def copied(self, step):
        code, words = self.node.do(step)
        if code in COPY_REFUSED:
            self.refused += 1
        elif code != "OK":
            raise self.node.wrong(step, code, words)
        return code == "OK"

    def new_name(self, kind):
        self.names += 1
        return f"{kind}-{self.names}"


def read_all(volume):
    paths = [volume.path]
    if not volume.block:
        paths = [f"{directory}/{name}" for directory, _, names in os.walk(volume.path) for name in names]
    for path in paths:
        if os.path.isfile(path) or volume.block:
            with open(path, "rb") as file:
                while file.read(1 << 20):
                    pass
