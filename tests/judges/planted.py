"""Damage on purpose. The session that meets it must fail, with the words of a judge."""
import mmap
import os
import random
import re

from host import expect_true
from node import Wrong

BLOCK = 4096
MAGIC = 0xacca.to_bytes(2, "little")  # the begin of a block of fio with a checksum


def at_rest(volume):
    """The file with the data of an unstaged volume."""
    return f"{volume.node.work}/plain/{volume.node.id(volume.name)}/judged" if volume.kind == "directory" else volume.image()


def blocks_of_fio(content):
    return [at for at in range(0, len(content), BLOCK) if content[at:at + 2] == MAGIC]


def flip(path, all_blocks=False):
    """Flips a bit in the last block of fio, or in each of them: btrfs keeps old ones beside those that count."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        blocks = blocks_of_fio(content)
        expect_true("fio's blocks are found", blocks)
        for at in blocks if all_blocks else blocks[-1:]:
            content[at + 2000] ^= 1


def flipped(volume, number):
    if number == 0:
        flip(at_rest(volume), volume.fs == "btrfs")


class OldBlock:
    """A write that was lost: a block of the first round is there again after the second."""

    def __call__(self, volume, number):
        with open(at_rest(volume), "r+b") as file, mmap.mmap(file.fileno(), 0) as content:
            if number == 0:
                self.at = blocks_of_fio(content)[-1]
                self.block = content[self.at:self.at + BLOCK]
            else:
                expect_true("the second round wrote the block", content[self.at:self.at + 2] != MAGIC)
                content[self.at:self.at + BLOCK] = self.block


def flipped_copy(copy):
    flip(copy.image(), all_blocks=True)


def scribble(volume):
    """Another process writes into the files of the judge while it works."""
    files = [f"{directory}/{name}" for directory, _, names in os.walk(volume.path) for name in names if name != "synced"]
    for path in files:
        try:
            with open(path, "r+b") as file:
                file.seek(random.randrange(max(1, os.path.getsize(path))))
                file.write(b"scribble")
        except OSError:
            pass  # the judge removed it meanwhile


FAULTS = [  # name, judge, kind of volume, arguments of Session
    *((f"flipped-{kind}", "fio", kind, {"damage": flipped}) for kind in ("ext4", "xfs", "btrfs", "block", "directory")),
    *((f"old-block-{kind}", "fio", kind, {"damage": OldBlock()}) for kind in ("ext4", "block")),
    *((f"flipped-copy-{kind}", "fio", kind, {"damage_copy": flipped_copy}) for kind in ("ext4", "block")),
    *((f"scribble-{judge}", judge, "ext4", {"scribble": scribble}) for judge in ("stress", "fsx")),
]


def found(session):
    """Raises Wrong if no judge finds the damage. An error of another step does not count."""
    try:
        session.play()
    except Wrong as wrong:
        expect_true(f"a judge finds it: {wrong}", str(wrong).startswith(("fio ", "stress-ng ", "fsx ")))
        print(f"        {says(wrong)}", flush=True)
        return
    raise Wrong("the damage was not found")


def says(wrong):
    lines = [line.strip() for line in str(wrong).splitlines()]
    return next((line for line in lines[1:] if re.search("verify|fail|error|mismatch", line)), lines[-1])[:150]
