#!/usr/bin/python3
"""Plays random histories against the real plugin, and compares each answer and each block with the model's. For
tests/model/run, which makes the namespaces."""
import argparse
import collections
import json
import os
import random
import re
import shutil
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, f"{os.path.dirname(HERE)}/replay")

from generator import USERS  # noqa: E402
from kinds import BACKENDS, KINDS, NEED_A_MACHINE  # noqa: E402
from model import PRECONDITION  # noqa: E402
from script import script_of  # noqa: E402
from shrink import shortest  # noqa: E402
from host import Wrong  # noqa: E402

ALL_SEE = ("kill", "restart", "upgrade", "reboot", "attack")  # after these, all volumes are read
CAP_SYS_RESOURCE = 24


def grows_ext4():
    with open("/proc/self/status", encoding="utf-8") as status:
        return bool(int(next(line for line in status if line.startswith("CapEff")).split()[1], 16) >> CAP_SYS_RESOURCE & 1)


# The kernel writes data to the disk when it is 30 s old (vm.dirty_expire_centisecs). Where the disk below a device is
# full, that data is lost, and nobody promises otherwise.
WRITTEN_BACK_AFTER = 25
TOO_SLOW = "would stand still for more than"  # a copy in use, on a machine with other work


class NotJudged(Exception):
    """The kernel tried, or may have tried, to write data to a full disk. Or a copy was too slow. The history ends."""


class Difference(Exception):
    """The real node does not do what the model promises, at this step."""

    def __init__(self, step, what):
        super().__init__(what)
        self.step = step


class History:
    """The steps of one seed on one node. All choices come from the seed."""

    def __init__(self, options, seed, work):
        self.options, self.work = options, work
        self.chance = random.Random(seed)
        kinds = [KINDS[name] for name in options.kinds if not options.backends.isdisjoint(KINDS[name].backends)]
        self.kind = self.chance.choices(kinds, [kind.weight for kind in kinds])[0]
        self.model = self.kind.model(grows_ext4())
        self.pool_fs = self.chance.choice(options.pools)
        self.generator = self.kind.generator(self.chance, self.model, self.kind.some_backends(self.chance, options.backends))
        self.steps = []
        self.codes, self.seconds = collections.Counter(), collections.Counter()
        self.late = 0  # set by play

    def play(self, steps=None, length=0):
        """Random steps, or these. Raises Difference."""
        os.makedirs(self.work)
        world = self.kind.world(self.options, self.work, self.pool_fs)
        try:
            world.model, started = self.model, time.monotonic()
            self.late = started + WRITTEN_BACK_AFTER
            world.start()
            self.seconds["(begin)"] += time.monotonic() - started
            for number in range(length if steps is None else len(steps)):
                step = self.generator.next() if steps is None else steps[number]
                if steps is None or self.generator.is_possible(step):
                    self.steps.append(step)
                    self.one(world, step)
            self.take_down(world)
        except Wrong as wrong:
            raise Difference(self.steps[-1] if self.steps else {"do": "start"}, f"{wrong}\n{world.log()}") from None
        finally:
            started = time.monotonic()
            world.close()
            shutil.rmtree(self.work, ignore_errors=True)
            self.seconds["(end)"] += time.monotonic() - started

    def one(self, world, step):
        if self.options.verbose:
            print(json.dumps(step), flush=True)
        allowed = self.model.allowed(step)
        started = time.monotonic()
        world.model = self.model
        code, words = world.do(step)
        self.seconds[step["do"]] += time.monotonic() - started
        volume = self.model.volumes.get(step.get("volume"))
        ends_use = step["do"] in ("unpublish", "unstage") and volume and volume.block
        if self.model.full and (ends_use and code == "INTERNAL" or time.monotonic() > self.late):
            raise NotJudged  # the call has done a half: its flush failed
        if code == PRECONDITION and TOO_SLOW in words:
            raise NotJudged
        self.codes[f"{step['do']} {code}"] += 1
        for other in world.others:
            self.codes[f"{step['do']} {other}, {step['disturbance']}"] += 1
            if other not in allowed:
                raise Difference(step, f"an answer before the last is {other}, and not {' or '.join(sorted(allowed))}\n{world.log()}")
        if code not in allowed:
            raise Difference(step, f"the answer is {code} ({words}), and not {' or '.join(sorted(allowed))}\n{world.log()}")
        self.model.apply(step, code)
        volume = self.model.volumes.get(step.get("volume"))
        if code == "OK" and volume and world.bytes not in (None, volume.size):
            raise Wrong(f"{step['volume']} has {volume.size} bytes, and the answer says {world.bytes}")
        started = time.monotonic()
        self.check(world, step)
        self.seconds["(check)"] += time.monotonic() - started

    def check(self, world, step):
        names = self.model.volumes if step["do"] in ALL_SEE else [step.get("volume")]
        for name in names:
            volume = self.model.volumes.get(name)
            for target in volume.targets if volume else ():
                world.check(volume, target)
                world.check_read_only(volume, target)
        if step["do"] not in USERS:
            world.check_mounts(self.model)
        if step["do"] in ("list", "kill", "restart", "upgrade", "reboot", "cut"):
            world.check_lists(self.model)

    def take_down(self, world, keep=()):
        """Looks at each volume and snapshot once more through a new stage, then deletes all but the volumes to keep."""
        for step in self.generator.mends():
            self.follow(world, step)
        tasks = sorted(task for volume in self.model.volumes.values() for task in volume.tasks)
        for task in tasks:
            self.follow(world, {"do": "end_task", "task": task})
        for name in sorted(self.model.volumes.keys() - set(keep)):
            self.put_down(world, name)
        for name in sorted(self.model.snapshots):
            snapshot = self.model.snapshots[name]
            self.follow(world, {"do": "create", "volume": f"of-{name}", "pool": "default", "block": snapshot.block,
                                "fs": snapshot.fs, "source": ("snapshot", name), "size": snapshot.size})
        for name in sorted(self.model.volumes.keys() - set(keep)):
            self.look_and_delete(world, name)
        for group in sorted(self.model.groups):
            self.follow(world, {"do": "ungroup", "group": group})
        for name in sorted(self.model.snapshots):
            self.follow(world, {"do": "unsnapshot", "snapshot": name})
        self.follow(world, {"do": "list"})
        if not keep:
            world.check_clean()

    def put_down(self, world, name):
        for step in self.generator.frees(name):
            self.follow(world, step)

    def look_and_delete(self, world, name):
        mode = {"volume": name, "block": self.model.volumes[name].block, "mode": "SINGLE_NODE_WRITER"}
        self.follow(world, {"do": "stage", **mode})
        self.follow(world, {"do": "publish", "target": "last", "readonly": False, **mode})
        self.follow(world, {"do": "unpublish", "volume": name, "target": "last"})
        self.follow(world, {"do": "unstage", "volume": name})
        self.follow(world, {"do": "delete", "volume": name})

    def follow(self, world, step):
        step = self.generator.at(step)
        self.steps.append(step)
        self.one(world, step)


def play(options, seed, work):
    """Returns the number of steps, or prints the shortest history that shows the difference and raises it."""
    history = History(options, seed, f"{work}/{seed}")
    try:
        history.play(length=options.length)
    except NotJudged:
        print(f"seed {seed}: not judged any more after {len(history.steps)} steps", flush=True)
    except Difference as difference:
        print(f"seed {seed}, step {len(history.steps)} {json.dumps(difference.step)}:\n{difference}", flush=True)
        if options.shrink:
            shrink(options, seed, work, history, difference)
        raise
    return history


def kind_of(difference):
    return difference.step["do"], re.sub(r"[0-9].*", "", str(difference), flags=re.DOTALL)


def shrink(options, seed, work, history, first):
    tries = iter(range(1, 1 << 30))

    def differs(steps):
        again = History(options, seed, f"{work}/{seed}-{next(tries)}")
        again.pool_fs = history.pool_fs
        try:
            again.play(steps)
        except Difference as difference:
            return again.steps if kind_of(difference) == kind_of(first) else None
        except NotJudged:
            pass
        return None

    steps = shortest(history.steps, differs, options.shrink)
    print(f"\nthe shortest history, {len(steps)} steps:", flush=True)
    for step in steps:
        print(f"  {json.dumps(step)}")
    print(f"\nby hand:\n{script_of(steps, history.pool_fs)}", flush=True)


def copy_of(programs, copy):
    os.makedirs(copy, exist_ok=True)
    for name in ("mooring-plugin", "mooring-mounter", "without"):
        if os.path.exists(f"{programs}/{name}"):  # a build with a planted fault lacks the last one
            shutil.copy(f"{programs}/{name}", copy)
    return copy


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--histories", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--length", type=int, default=300)
    parser.add_argument("--backends", type=lambda text: set(text.split(",")), default=set(BACKENDS))
    parser.add_argument("--pools", type=lambda text: text.split(","), default=["tmpfs", "tmpfs", "ext4", "xfs", "btrfs"])
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=[name for name in KINDS if name not in NEED_A_MACHINE])
    parser.add_argument("--kernel", default="")
    parser.add_argument("--other", help="the programs of the build to upgrade to (default: a copy of the same)")
    parser.add_argument("--shrink", type=int, default=120, help="seconds; 0: not")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--codes", action="store_true")
    options = parser.parse_args()
    options.other = options.other or copy_of(options.programs, f"{options.work}/other")
    options.programs = copy_of(options.programs, f"{options.work}/programs")  # a build may replace them during the run
    started, steps, seed = time.monotonic(), 0, options.seed
    codes, seconds = collections.Counter(), collections.Counter()
    try:
        while (not options.histories or seed < options.seed + options.histories) and (
                not options.seconds or time.monotonic() < started + options.seconds):
            history = play(options, seed, options.work)
            steps += len(history.steps)
            codes.update(history.codes)
            seconds.update(history.seconds)
            seed += 1
    except Difference:
        print(f"{steps} steps without a difference before, {time.monotonic() - started:.0f} s", flush=True)
        return 1
    except KeyboardInterrupt:
        print(f"{steps} steps without a difference, {time.monotonic() - started:.0f} s; then interrupted", flush=True)
        return 130
    if options.codes:
        print("\n".join(f"  {count:7} {code}" for code, count in sorted(codes.items())))
        print("\n".join(f"  {spent:7.2f} s {kind}" for kind, spent in seconds.most_common()))
    print(f"seeds {options.seed} to {seed - 1}: {steps} steps, 0 differences, {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
