"""The promises of CSI and of our pages about one node: the reference for random histories.

It knows volumes, snapshots, stagings, targets, access modes, sizes and the content of every block. It shares no code with
Mooring. `allowed` says which answers a step may have, and `apply` changes the state after an answer. A reader must see
`Volume.content`.

A block has 4 KiB and holds one number, over and over. 0: it was never written. A filesystem's content is
{file: {block: number}}, a device's is {block: number}.
"""
import copy
import dataclasses

BLOCK = 4096
MIB = 1 << 20
SMALLEST = {"ext4": 16 * MIB, "xfs": 300 * MIB, "btrfs": 109 * MIB, None: MIB}
GROWS_TO = {"btrfs": 256 * MIB}  # a btrfs grows only to so much, or more

SINGLE = ("SINGLE_NODE_WRITER", "SINGLE_NODE_SINGLE_WRITER", "SINGLE_NODE_READER_ONLY")  # one target for each volume
SHARED = ("SINGLE_NODE_MULTI_WRITER", "MULTI_NODE_MULTI_WRITER", "MULTI_NODE_SINGLE_WRITER", "MULTI_NODE_READER_ONLY")
READER_MODES = ("SINGLE_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY")

OK, NOT_FOUND, EXISTS, INVALID = "OK", "NOT_FOUND", "ALREADY_EXISTS", "INVALID_ARGUMENT"
PRECONDITION, RANGE = "FAILED_PRECONDITION", "OUT_OF_RANGE"
NO_ROOM = {"ENOSPC", "EIO"}
EXT4_GROUP = 128 * MIB  # with blocks of 4 KiB


@dataclasses.dataclass
class Target:
    mode: str
    readonly: bool
    stage: str = dataclasses.field(default=None, compare=False)  # the mode of the staging

    def writable(self):
        return not self.readonly and not {self.mode, self.stage} & set(READER_MODES)


@dataclasses.dataclass
class Volume:
    name: str
    pool: str  # "default" (images), "plain" (directories), "memory" or "disks" (devices)
    block: bool
    fs: str  # None: a device, or a pool without filesystems
    size: int
    source: int = None  # the number of the volume or snapshot that it is a copy of
    content: dict = dataclasses.field(default_factory=dict)
    shown: int = 0  # the size that users see; grows with a stage or NodeExpandVolume
    mode: str = None  # of the staging; None: it is not staged
    targets: dict = dataclasses.field(default_factory=dict)
    tasks: set = dataclasses.field(default_factory=set)  # hold it open in mount namespaces of their own
    made: int = 0  # tells it from an earlier volume with its name
    losses: object = None  # what the disk may have instead: losses.py

    def used(self):
        return bool(self.mode or self.targets)

    def image(self):
        return self.pool == "default"

    def write(self, file, block, number):
        (self.content if self.block else self.content.setdefault(file, {}))[block] = number


@dataclasses.dataclass
class Snapshot:
    name: str
    of: int  # Volume.made
    block: bool
    fs: str
    size: int
    content: dict
    group: str = None
    losses: object = None


class Model:
    def __init__(self, grows_ext4):
        self.grows_ext4 = grows_ext4  # a mounted one: needs CAP_SYS_RESOURCE
        self.volumes, self.snapshots, self.groups = {}, {}, {}
        self.full = None  # what the disk below the images lacks: "bytes" or "inodes"
        self.numbers = 0
        self.latest = {}  # of each name, also of one that was deleted: the number of the volume or snapshot

    def new_number(self, name=None):
        self.numbers += 1
        self.latest[name] = self.numbers
        return self.numbers

    def number_of(self, source):
        return self.latest.get(source[1], 0) if source else None

    def allowed(self, step):
        """The codes that the step may end with."""
        codes = self.codes_of(step)
        if self.full and OK in codes and step["do"] != "fill":
            return codes | {"RESOURCE_EXHAUSTED", RANGE, "INTERNAL"}  # the I/O error of a device does not tell why
        if self.full and step["do"] == "publish" and PRECONDITION in codes and self.volumes[step["volume"]].tasks:
            return codes | {"INTERNAL"}  # the device that tasks still have is looked at first
        return codes

    def codes_of(self, step):
        """While the disk has room."""
        return getattr(self, f"may_{step['do']}")(step, self.volumes.get(step.get("volume")))

    def apply(self, step, code):
        """The effect of the step, which ended with this code."""
        change = getattr(self, f"done_{step['do']}", None)
        if change and (code == OK or step.get("how") == "synced" and code in NO_ROOM):
            change(step, self.volumes.get(step.get("volume")))  # the data is in memory, although its fsync failed

    # The controller

    def source_of(self, step):
        kind, name = step["source"]
        return (self.volumes if kind == "volume" else self.snapshots).get(name)

    def may_create(self, step, volume):
        if volume:
            same = (step["pool"], self.number_of(step["source"])) == (volume.pool, volume.source)
            if not same or step["size"] > volume.size:
                return {EXISTS}
            if step["block"] and not volume.block and volume.pool in ("default", "disks"):
                return {OK, EXISTS}  # a volume for mount access has block access, too
            same_fs = step["source"] or step["fs"] == volume.fs  # a copy names none
            return {OK} if step["block"] == volume.block and same_fs else {EXISTS}
        if step["block"] and step["pool"] in ("plain", "memory"):
            return {INVALID}
        if not step["source"]:
            return {OK}
        source = self.source_of(step)
        if not source:
            return {NOT_FOUND}
        if step["pool"] == "plain" and isinstance(source, Volume) and source.pool == "plain":
            return {PRECONDITION} if source.used() else {OK}
        if step["pool"] != "default" or not (isinstance(source, Snapshot) or source.image()):
            return {PRECONDITION, INVALID}
        if source.block and not step["block"]:
            return {INVALID}  # a tenant would have its bytes mounted
        return self.may_copy(source)

    def may_copy(self, source):
        held_elsewhere = isinstance(source, Volume) and source.tasks and not source.used()
        return {OK, PRECONDITION} if held_elsewhere else {OK}

    def done_create(self, step, volume):
        if volume:
            return
        size = max(step["size"], SMALLEST[step["fs"]]) if step["pool"] == "default" else step["size"]
        content = {}
        if step["source"]:
            source = self.source_of(step)
            size, content = max(size, source.size), copy.deepcopy(source.content)
        source = self.number_of(step["source"])
        self.volumes[step["volume"]] = Volume(step["volume"], step["pool"], step["block"], step["fs"], size, source, content,
                                              made=self.new_number(step["volume"]))

    def may_delete(self, _, volume):
        if not volume:
            return {OK}
        if volume.used():
            return {PRECONDITION}
        return {OK, PRECONDITION} if volume.tasks else {OK}

    def done_delete(self, step, volume):
        if volume:
            del self.volumes[step["volume"]]

    def may_grow(self, step, volume):
        if not volume:
            return {NOT_FOUND}
        if step["size"] <= volume.size:
            return {OK}
        return {RANGE} if volume.pool in ("plain", "disks") or step["size"] < GROWS_TO.get(volume.fs, 0) else {OK}

    def done_grow(self, step, volume):
        volume.size = max(volume.size, step["size"])

    def may_snapshot(self, step, volume):
        known = self.snapshots.get(step["snapshot"])
        if known:
            return {OK} if known.of == self.latest.get(step["volume"]) else {EXISTS} if volume else {EXISTS, NOT_FOUND}
        if not volume:
            return {NOT_FOUND}
        return self.may_copy(volume) if volume.image() else {PRECONDITION}

    def done_snapshot(self, step, volume):
        if step["snapshot"] not in self.snapshots:
            self.take(step["snapshot"], volume)

    def take(self, name, volume, group=None):
        self.new_number(name)
        self.snapshots[name] = Snapshot(name, volume.made, volume.block, volume.fs, volume.size,
                                        copy.deepcopy(volume.content), group)

    def may_unsnapshot(self, step, _):
        known = self.snapshots.get(step["snapshot"])
        return {INVALID} if known and known.group else {OK}

    def done_unsnapshot(self, step, _):
        self.snapshots.pop(step["snapshot"], None)

    def may_group(self, step, _):
        if step["group"] in self.groups:
            return {OK} if self.groups[step["group"]] == self.members(step) else {EXISTS}
        members = [self.volumes.get(name) for name in step["volumes"]]
        if not all(members):
            return {NOT_FOUND}
        if not all(volume.image() for volume in members):
            return {PRECONDITION}
        return {OK, PRECONDITION} if any(volume.tasks and not volume.used() for volume in members) else {OK}

    def done_group(self, step, _):
        if step["group"] in self.groups:
            return
        self.groups[step["group"]] = self.members(step)
        for name in step["volumes"]:
            self.take(f"{step['group']}/{name}", self.volumes[name], step["group"])

    def members(self, step):
        return sorted(self.latest.get(name, 0) for name in step["volumes"])

    def may_ungroup(self, *_):
        return {OK}

    def done_ungroup(self, step, _):
        self.groups.pop(step["group"], None)
        self.snapshots = {name: one for name, one in self.snapshots.items() if one.group != step["group"]}

    def may_modify(self, step, volume):
        if not volume:
            return {NOT_FOUND}
        return {OK} if volume.image() or "readAhead" not in step["parameters"] else {INVALID}

    # The node

    def may_stage(self, step, volume):
        if not volume:
            return {NOT_FOUND}
        if step["block"] != volume.block:  # an image for mount access could be staged as a device: that is not played
            return {INVALID} if step["block"] else {PRECONDITION} | ({EXISTS} if volume.mode else set())
        if volume.mode:
            return {OK} if step["mode"] == volume.mode else {EXISTS}
        return {OK} if not volume.targets else {OK, PRECONDITION}

    def done_stage(self, step, volume):
        if not volume.used() and self.grows_now(volume):
            volume.shown = volume.size
        volume.mode = step["mode"]

    def grows_now(self, volume):
        """An ext4 that a task has mounted is not grown by a stage."""
        return not volume.shown or volume.fs != "ext4" or not volume.tasks

    def may_unstage(self, _, volume):
        return {OK, PRECONDITION} if volume and volume.targets else {OK}

    def done_unstage(self, _, volume):
        if volume:
            volume.mode = None
            self.end_use(volume)

    def end_use(self, volume):
        if not volume.used() and volume.pool == "memory":
            volume.content = {}

    def may_publish(self, step, volume):
        if not volume:
            return {NOT_FOUND}
        there, new = volume.targets.get(step["target"]), Target(step["mode"], step["readonly"], volume.mode)
        if there and there == new:
            return {OK} if volume.mode else {OK, EXISTS, PRECONDITION}
        if there:
            return {EXISTS, PRECONDITION}
        if not volume.mode and not (volume.block and volume.targets):
            return {PRECONDITION}
        modes = [new.mode, *(target.mode for target in volume.targets.values())]
        if volume.targets and any(mode in SINGLE for mode in modes):
            return {PRECONDITION}
        if volume.block and any(target.writable() != new.writable() for target in volume.targets.values()):
            return {PRECONDITION}  # they would not share a page cache
        if step["mode"] != volume.mode:  # or it is not staged any more
            return {OK, PRECONDITION}
        return {OK}

    def done_publish(self, step, volume):
        if step["target"] not in volume.targets:
            volume.targets[step["target"]] = Target(step["mode"], step["readonly"], volume.mode)

    def may_unpublish(self, *_):
        return {OK}

    def done_unpublish(self, step, volume):
        if volume:
            volume.targets.pop(step["target"], None)
            self.end_use(volume)

    def may_node_grow(self, step, volume):
        if not volume:
            return {NOT_FOUND}
        if step["target"] not in volume.targets:
            return {NOT_FOUND, PRECONDITION}
        if volume.pool == "plain":
            return {OK, RANGE}
        stuck = volume.fs == "ext4" and not self.grows_ext4 and volume.shown < volume.size
        # A new group of blocks has a smallest size: with less room behind full groups there is nothing to grow.
        too_little = volume.shown % EXT4_GROUP == 0 and volume.size - volume.shown < MIB
        return ({PRECONDITION, OK} if too_little else {PRECONDITION}) if stuck else {OK}

    def done_node_grow(self, _, volume):
        volume.shown = volume.size

    def may_stats(self, step, volume):
        return {OK} if volume and step["target"] in volume.targets else {NOT_FOUND}

    # Users

    def may_write(self, step, volume):
        """The steps of users are made only where there is a target."""
        if not volume.targets[step["target"]].writable():
            return {"EROFS", "EPERM", "EACCES"}
        return {OK} | (NO_ROOM if self.full and step["how"] == "synced" else set())

    def done_write(self, step, volume):
        volume.write(step["file"], step["block"], step["number"])

    def may_hold(self, step, volume):
        return self.may_write(step, volume)

    def done_hold(self, step, volume):
        self.done_write(step, volume)
        volume.tasks.add(step["task"])

    def may_remove(self, step, volume):
        if not volume.targets[step["target"]].writable():
            return {"EROFS"}
        return {OK} if step["file"] in volume.content else {"ENOENT"}

    def done_remove(self, step, volume):
        del volume.content[step["file"]]

    def may_read(self, *_):
        return {OK}

    def may_overrun(self, *_):
        """A write behind the end of a device."""
        return {"ENOSPC", "EPERM"}

    def may_attack(self, *_):
        """A task may do with its own device what it likes: nobody else sees anything of it."""
        return {OK, "EPERM", "EINVAL", "EBUSY"}

    def may_end_task(self, *_):
        return {OK}

    def done_end_task(self, step, _):
        for volume in self.volumes.values():
            volume.tasks.discard(step["task"])

    # The machine

    def may_list(self, *_):
        return {OK}

    may_kill = may_restart = may_upgrade = may_reboot = may_fill = may_list

    def done_fill(self, step, _):
        self.full = step["on"]

    def done_reboot(self, *_):
        for volume in self.volumes.values():
            volume.mode = None
            volume.targets.clear()
            volume.tasks.clear()
            self.end_use(volume)
