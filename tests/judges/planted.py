"""Damage on purpose. The session that meets it must fail, with the words of a judge."""
import contextlib
import glob
import mmap
import os
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

    def __init__(self):
        self.old = {}

    def __call__(self, volume, number):
        if number > 1:
            return
        with open(at_rest(volume), "r+b") as file, mmap.mmap(file.fileno(), 0) as content:
            if number == 0:
                self.old = {at: content[at:at + BLOCK] for at in blocks_of_fio(content)}
                return
            written = [at for at in self.old if content[at:at + 2] != MAGIC]
            expect_true("the second round wrote blocks again", written)
            content[written[0]:written[0] + BLOCK] = self.old[written[0]]


def flipped_copy(copy):
    flip(copy.image(), all_blocks=True)


def scribble(volume):
    """Another process writes into the files that the judge has open. stress-ng has removed their names."""
    for pid in volume.node.pids("fsx|stress-ng-hdd") * 20:
        for path in glob.glob(f"/proc/{pid}/fd/*"):
            with contextlib.suppress(OSError):  # it was closed meanwhile
                if os.readlink(path).startswith(volume.path):
                    scribble_in(path)


def scribble_in(path):
    with open(path, "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(size // 2)
        file.write(os.urandom(min(size // 4, 1 << 20)))


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
