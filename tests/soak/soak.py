#!/usr/bin/python3
"""Uses volumes of the real plugin for hours, compares each block, and looks whether anything grows. For tests/soak/run,
which makes the namespaces."""
import argparse
import json
import os
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[1:1] = [f"{TESTS}/model", f"{TESTS}/replay"]

from host import Wrong  # noqa: E402
from leaks import LEAKS  # noqa: E402
from kinds import KINDS  # noqa: E402
from managed import CountingManagerWorld, ManagerRounds  # noqa: E402
from play import Difference  # noqa: E402
from report import show, write_plot, write_table  # noqa: E402
from rounds import CountingWorld, Rounds  # noqa: E402
from samples import Samples  # noqa: E402

LONGEST_CHAPTER = 3600  # seconds
STORM = 0.15  # of a chapter. In it programs are killed
NODES = {False: (CountingWorld, Rounds), True: (CountingManagerWorld, ManagerRounds)}
LARGEST_LOG = 64 << 20


class Soak:
    """A run: chapters of a storm and a calm stretch. All choices come from the seed."""

    def __init__(self, options):
        self.options = options
        self.new_world, rounds = NODES[options.manager]
        self.rounds = rounds(options, options.seed, f"{options.work}/node")
        self.chapter_seconds = min(LONGEST_CHAPTER, options.seconds / (1 if options.planted else 2))
        self.calm_seconds = (1 - STORM) * self.chapter_seconds
        self.round_seconds = min(10, options.seconds / 150)
        self.samples, self.world = Samples(), None
        self.leak = LEAKS[options.planted](self) if options.planted else None

    def play(self):
        """Raises Difference."""
        os.makedirs(self.rounds.work)
        self.world = self.new_world(self.options, self.rounds.work, self.rounds.pool_fs)
        try:
            self.world.start()
            while time.monotonic() < self.samples.began + self.options.seconds:
                self.chapter()
        except Wrong as wrong:
            raise Difference(self.rounds.steps[-1] if self.rounds.steps else {"do": "start"}, f"{wrong}\n{self.world.log()}") from None
        finally:
            if self.leak:
                self.leak.end()
            self.world.close()
            shutil.rmtree(self.rounds.work, ignore_errors=True)

    def chapter(self):
        began = time.monotonic()
        self.rounds.make_residents(self.world)
        while time.monotonic() < began + self.chapter_seconds:
            self.rounds.generator.calm = time.monotonic() > began + STORM * self.chapter_seconds
            self.rounds.round(self.world, self.round_seconds)
            if self.leak:
                self.leak.grow()
            self.sample()
        self.rounds.generator.calm = False
        if self.leak:
            self.leak.end()  # the end of a chapter finds any device that is left
        self.rounds.take_down(self.world)

    def sample(self):
        world, log = self.world, f"{self.rounds.work}/log"
        self.samples.take(world.lives(), world.sizes(), world.latencies, world.calm_since if self.rounds.generator.calm else None)
        world.latencies = []
        if os.path.getsize(log) > LARGEST_LOG:
            os.truncate(log, 0)  # the plugin appends to it

    def totals(self, differences):
        counts = self.world.counts
        pairs = min(counts["publishes"], counts["unpublishes"])
        print(f"{time.monotonic() - self.samples.began:.0f} s: {pairs} pairs of publish and unpublish, "
              f"{counts['crowded']} of them by many clients at once, {counts['kills']} kills, "
              f"{counts['restarts']} restarts, {counts['reboots']} reboots, {counts['blocks']} blocks compared, "
              f"{differences} differences", flush=True)

    def report(self):
        """Returns the names of the series that are not flat."""
        verdicts = self.samples.verdicts(self.calm_seconds)
        write_table(self.samples, f"{self.options.output}/soak.tsv")
        write_plot(self.samples, verdicts, self.calm_seconds, f"{self.options.output}/soak.png")
        for series, verdict in verdicts.items():
            print(show(series, verdict))
        return [series.name for series, verdict in verdicts.items() if not verdict.flat]


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--pool", default="tmpfs")
    parser.add_argument("--manager", action="store_true")
    parser.add_argument("--planted", choices=LEAKS)
    options = parser.parse_args()
    options.backends, options.kinds = set(KINDS["images"].backends), ["images"]
    options.pools, options.kernel, options.verbose = [options.pool], "", False
    return options


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that it clears its world
    soak = Soak(options)
    try:
        soak.play()
    except Difference as difference:
        print("the last steps:", *map(json.dumps, soak.rounds.steps), sep="\n  ")
        print(f"seed {options.seed}, {json.dumps(difference.step)}:\n{difference}")
        soak.totals(1)
        return 1
    soak.totals(0)
    growing = soak.report()
    if options.planted:
        found = soak.leak.series in growing
        print(f"the planted leak of {options.planted} is {'found' if found else 'NOT found'}", flush=True)
        return int(not found)
    print(f"not flat: {', '.join(growing)}" if growing else "all series are flat", flush=True)
    return int(bool(growing))


if __name__ == "__main__":
    sys.exit(main())
