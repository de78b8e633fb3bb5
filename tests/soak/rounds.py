"""The load: residents, which live for a whole chapter, and the random steps of tests/model among and around them."""
import collections
import glob
import itertools
import os
import time

from crowd import crowd
from generator import FILE_BLOCKS, FILES, HOW, Generator
from host import mounts
from kinds import BACKENDS
from model import BLOCK, MIB, SMALLEST, Target
from play import History
from world import World

RESIDENT = "resident-"  # the begin of their names
MODE = "SINGLE_NODE_MULTI_WRITER"  # of the residents
LARGEST_DEVICE = 4 * MIB  # each block of it is read after each step
KILLS = ("plugin-killed", "helper-killed")
ENDS = ({"do": "restart"}, {"do": "reboot"}, {"do": "kill", "who": "all"})  # of a round in a storm


class Counting:
    """A part of a World that counts what happens there."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.counts = collections.Counter()
        self.latencies = []  # of publishes, since the last sample
        self.calm_since = time.monotonic()

    def content(self, volume, target):
        content = super().content(volume, target)
        files = [content] if volume.block else content.values()
        self.counts["blocks"] += sum(-(-len(file) // BLOCK) for file in files)
        return content

    def do_kill(self, step):
        super().do_kill(step)
        self.count("kills")

    def do_restart(self, step):
        super().do_restart(step)
        self.count("restarts")

    def do_reboot(self, step):
        super().do_reboot(step)
        self.count("reboots")

    def do_publish(self, step):
        disturbed, started = self.disturbance, time.monotonic()
        super().do_publish(step)
        self.counts["publishes"] += 1
        if not disturbed and step["volume"].startswith(RESIDENT):
            self.latencies.append(time.monotonic() - started)

    def do_unpublish(self, step):
        super().do_unpublish(step)
        self.counts["unpublishes"] += 1

    def count(self, how):
        self.counts[how] += 1
        self.calm_since = time.monotonic()

    def lives(self):
        return {"plugin": [self.plugin.pid], "mounter": self.pids("mooring-mounter") + self.pids("mooring-spawner")}

    def sizes(self):
        """The number or the bytes of everything that the plugin has on this machine."""
        names = ("mooring-manager", "mooring-plugin", "mooring-mounter", "mooring-spawner", "mooring-hold")
        return {"processes": sum(map(self.runs, itertools.chain.from_iterable(map(self.pids, names)))),
                "loop_devices": len(self.devices_over(self.images)), "mounts": len(mounts(f"{self.work}/node")),
                "database_bytes": sum(map(os.path.getsize, glob.glob(f"{self.work}/*/*.db"))),
                "journal_bytes": sum(map(os.path.getsize, glob.glob(f"{self.work}/*/*.db-wal")))}


class CountingWorld(Counting, World):
    def crowd(self, volumes, mode, seconds):
        pairs = crowd(self, volumes, mode, seconds)
        for kind in ("publishes", "unpublishes", "crowded"):
            self.counts[kind] += pairs


class Steps(Generator):
    """As in tests/model, but the residents stay, and nothing is killed while it is calm."""

    calm = False

    def disturbance(self, kind):
        made = super().disturbance(kind)
        return {} if self.calm and made.get("disturbance") in KILLS else made

    def a_delete(self):
        step = super().a_delete()
        return step if step and not (step["volume"] or "").startswith(RESIDENT) else None

    def a_grow(self):
        step = super().a_grow()
        volume = self.model.volumes.get(step["volume"])
        return None if volume and volume.block and step["size"] > LARGEST_DEVICE else step

    def a_kill(self):
        return None if self.calm else super().a_kill()

    def a_restart(self):
        return None if self.calm else super().a_restart()

    def a_upgrade(self):
        """There is one build."""

    def a_reboot(self):
        return None if self.calm else super().a_reboot()


class Rounds(History):
    def __init__(self, options, seed, work):
        super().__init__(options, seed, work)
        self.generator = Steps(self.chance, self.model, [BACKENDS[name] for name in sorted(options.backends)])
        self.steps = collections.deque(maxlen=100)  # the last ones, to show what came before a difference
        self.residents = [RESIDENT + name for name in sorted(options.backends)]

    def make_residents(self, world):
        for name in self.residents:
            pool, fs = BACKENDS[name.removeprefix(RESIDENT)]
            block = pool == "default" and not fs
            size = SMALLEST[fs] if pool == "default" else 16 * MIB
            self.follow(world, {"do": "create", "volume": name, "pool": pool, "block": block, "fs": fs, "source": None, "size": size})

    def round(self, world, seconds):
        """Random steps, then the loop. At its end only the residents are there, each staged and published once."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.follow(world, self.generator.next())
        if not self.generator.calm:
            self.follow(world, self.chance.choice(ENDS))
        self.take_down(world, self.residents)
        for name in self.residents:
            self.put_up(world, name)
            self.publish_again(world, name, 5)
        world.crowd([self.model.volumes[name] for name in self.residents], MODE, seconds)
        world.csi.calls.clear()  # the client's own memory

    def put_up(self, world, name):
        """Leaves it alone if it is as it should be. So it stays staged over many rounds."""
        volume = self.model.volumes[name]
        if volume.mode == MODE and volume.targets == {"a": Target(MODE, False)}:
            return
        self.put_down(world, name)
        self.follow(world, {"do": "stage", "volume": name, "block": volume.block, "mode": MODE})
        self.publish(world, name)

    def publish_again(self, world, name, times):
        """The tight loop. Each publish is followed by a write, and each step by a look at all blocks."""
        for _ in range(times):
            self.follow(world, {"do": "unpublish", "volume": name, "target": "a", **self.disturbance("unpublish")})
            self.publish(world, name)
            self.follow(world, self.a_write(name))

    def disturbance(self, kind):
        return self.generator.disturbance(kind)

    def publish(self, world, name):
        self.follow(world, {"do": "publish", "volume": name, "target": "a", "block": self.model.volumes[name].block, "mode": MODE,
                            "readonly": False, **self.disturbance("publish")})

    def a_write(self, name):
        volume = self.model.volumes[name]
        blocks = min(volume.shown, volume.size) // BLOCK if volume.block else FILE_BLOCKS
        how = self.chance.choice(HOW)
        return {"do": "write", "volume": name, "target": "a", "file": None if volume.block else self.chance.choice(FILES),
                "block": self.chance.randrange(blocks), "number": self.model.new_number(),
                "how": "plain" if how == "direct" and volume.pool == "memory" else how}
