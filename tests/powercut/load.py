"""Clients that work until the power goes, and what they know: every answered call, and the call that has no answer."""
import os
import random
import threading

from host import Wrong, expect, expect_true

MIB = 1 << 20
SLOT = 8192  # bytes of a block volume that one write fills


class PowerLost(Exception):
    """The power went before an answer came, or before it was noted."""


class Kind:
    def __init__(self, size, fs_type=None, block=False, pool=None, grows_in_use=False):
        self.size, self.fs_type, self.block, self.grows_in_use = size, fs_type, block, grows_in_use
        self.pool = pool  # None: an image. Only images grow, and are copied


EXT4 = Kind(16 * MIB, "ext4")
XFS = Kind(300 * MIB, "xfs", grows_in_use=True)
BLOCK = Kind(2 * MIB, block=True, grows_in_use=True)
DIRECTORY = Kind(16 * MIB, pool="directories")


class Volume:
    def __init__(self, name, kind, size, parts):
        self.name, self.kind, self.size = name, kind, size
        self.id = None
        self.sizes = {size}  # while an expansion has no answer: both
        self.parts = dict(parts)  # the synced content: files, or slots of a block device
        self.attached = self.staged = self.published = False

    def __str__(self):
        return f"volume {self.name} ({self.id})"

    def can_be_copied(self):
        """A mounted filesystem is frozen for the copy, and a block device cannot be. An xfs that is frozen while its disk dies
        can never be thawed. It would stay in the kernel of the test."""
        return not self.kind.pool and (self.kind is EXT4 or not self.staged)

    def can_grow(self):
        return not self.kind.pool and self.size == self.kind.size and (self.kind.grows_in_use or not self.staged)

    def write(self, path, chance):
        """Writes and syncs a new part, and returns its name and its bytes."""
        number = len(self.parts)
        if self.kind.block:
            part = chance.randbytes(SLOT)
            write_synced(path, os.O_WRONLY, part, number * SLOT)
        else:
            with open(f"{path}/unsynced", "wb") as file:
                file.write(chance.randbytes(chance.choice((1000, 200000))))
            part = chance.randbytes(chance.choice((100, 5000, 60000)))
            write_synced(f"{path}/{number}", os.O_WRONLY | os.O_CREAT, part)
            sync_directory(path)
        return number, part

    def check(self, path):
        for number, part in self.parts.items():
            expect_true(f"{self} has what was synced in part {number}", self.read(path, number, len(part)) == part)
        if self.kind.block:
            with open(path, "rb") as device:
                expect(f"the bytes of {self}", device.seek(0, os.SEEK_END), self.size)
        elif not self.kind.pool:
            room = os.statvfs(path)
            expect_true(f"the filesystem of {self} fills it", room.f_blocks * room.f_frsize > 0.6 * self.size)

    def read(self, path, number, size):
        try:
            with open(path if self.kind.block else f"{path}/{number}", "rb") as file:
                file.seek(number * SLOT if self.kind.block else 0)
                return file.read(size)
        except FileNotFoundError:
            return None


class Snapshot:
    def __init__(self, name, volume):
        self.name, self.kind, self.size, self.parts = name, volume.kind, volume.size, dict(volume.parts)
        self.id = self.group = None

    def __str__(self):
        return f"snapshot {self.name} ({self.id})"


def write_synced(path, flags, part, offset=0):
    file = os.open(path, flags)
    try:
        os.pwrite(file, part, offset)
        os.fsync(file)
    finally:
        os.close(file)


def sync_directory(path):
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class Client(threading.Thread):
    """Makes random calls until the power goes. A subclass sends them:

    make(volume, source), grow(volume, size): return the size. make sets the id
    take(snapshot, volume): sets the id
    delete_volume(volume), delete_snapshot(snapshot)
    put_up(volume), take_down(volume): make it usable at place(volume), and end that. They use step themselves
    """
    kinds = (EXT4, EXT4, EXT4, XFS, BLOCK, BLOCK)
    most = 3  # volumes, and snapshots

    def __init__(self, machine, number, seed):
        super().__init__(daemon=True)
        self.machine = machine
        self.name = f"client-{number}"
        self.chance = random.Random(f"{seed} {number}")
        self.volumes, self.snapshots = [], []
        self.pending = None  # the step without an answer, and its effect
        self.going = []  # volumes and snapshots whose deletion has no answer
        self.coming = 0  # the number of those whose creation has no answer
        self.names = self.calls = 0
        self.wrong = None

    def run(self):
        try:
            while True:
                self.chance.choice(self.actions())()
        except PowerLost:
            pass
        except Exception as error:  # any failure is the client's result
            if self.machine.has_power() or not isinstance(error, OSError):  # of a directory that it makes between two calls
                self.wrong = error

    def step(self, action, effect=lambda answer: None, repeats=True):
        """Acts, and notes the effect if the disk has power after the answer. `repeats`: finish() acts again if it had none."""
        self.pending = (action, effect) if repeats else None
        try:
            answer = action()
        except (Wrong, OSError, ValueError) as error:  # ValueError: half an answer of a killed program
            if self.machine.has_power():
                raise
            raise PowerLost() from error
        if not self.machine.has_power():
            raise PowerLost()
        self.pending = None
        self.calls += 1
        effect(answer)

    def finish(self):
        """Repeats the call that has no answer, as an orchestrator does after the boot."""
        if self.pending:
            self.step(*self.pending)

    def new_name(self, what):
        self.names += 1
        return f"{self.name}-{what}-{self.names}"

    # The choice

    def actions(self):
        found = [lambda one=one: self.remove_snapshot(one) for one in self.snapshots]
        if len(self.volumes) < self.most:
            sources = self.snapshots + [volume for volume in self.volumes if volume.can_be_copied()]
            found += [self.create] + [lambda one=one: self.create(one) for one in sources]
        for volume in self.volumes:
            found += [lambda action=action, one=volume: action(one) for action in self.actions_on(volume)]
        return found

    def actions_on(self, volume):
        if volume.published:
            found = [self.write] * 6 + [self.take_down]
        else:
            found = [self.put_up] * 3 + [self.remove_volume]
        if volume.can_be_copied() and len(self.snapshots) < self.most:
            found += self.actions_of_snapshots()
        return found + [self.expand] * volume.can_grow()

    def actions_of_snapshots(self):
        return [self.snapshot]

    # The actions

    def create(self, source=None):
        kind = source.kind if source else self.chance.choice(self.kinds)
        volume = Volume(self.new_name("volume"), kind, source.size if source else kind.size, source.parts if source else {})

        def note(size):
            expect(f"the size of {volume}", size, volume.size)
            self.volumes.append(volume)
            self.coming = 0

        self.coming = 1
        self.step(lambda: self.make(volume, source), note)

    def expand(self, volume):
        wanted = 2 * volume.size
        volume.sizes = {volume.size, wanted}

        def note(size):
            expect(f"the size of {volume}", size, wanted)
            volume.size, volume.sizes = size, {size}

        self.step(lambda: self.grow(volume, wanted), note)

    def snapshot(self, volume):
        snapshot = Snapshot(self.new_name("snapshot"), volume)
        self.coming = 1
        self.step(lambda: self.take(snapshot, volume), lambda answer: self.note_snapshots([snapshot]))

    def note_snapshots(self, snapshots):
        self.snapshots += snapshots
        self.coming = 0

    def remove_volume(self, volume):
        self.remove([volume], self.volumes, lambda: self.delete_volume(volume))

    def remove_snapshot(self, snapshot):
        self.remove([snapshot], self.snapshots, lambda: self.delete_snapshot(snapshot))

    def remove(self, going, place, action):
        """They are on no list while they are deleted."""
        self.going = going
        place[:] = [one for one in place if one not in going]
        self.step(action, lambda answer: going.clear())

    def write(self, volume):
        self.step(lambda: volume.write(self.place(volume), self.chance),
                  lambda part: volume.parts.update([part]), repeats=False)
