#!/usr/bin/python3
"""Cuts the power of a machine under load, again and again. For tests/powercut/run, which makes the namespaces."""
import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[1:1] = [f"{TESTS}/replay", f"{TESTS}/drivers"]

from explain import explain  # noqa: E402
from host import eventually, expect, mounts  # noqa: E402
from machine import Machine, Writeback  # noqa: E402
from manager_load import ManagerLoad  # noqa: E402
from plugin_load import PluginLoad  # noqa: E402

# Seconds
LONGEST_LOAD = 3
SOON = 10  # until a start takes so long that this has to be explained
LONGEST_CUT = 180  # then it is explained, too, and the disk ends, so that nothing waits for it

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOADS = {"plugin": PluginLoad, "manager": ManagerLoad}


class Cut:
    """A machine and its load up to the checks after the cut. All choices come from the seed."""

    def __init__(self, options, seed):
        self.chance = random.Random(seed)
        self.seed = seed
        self.fs_type = self.chance.choice(("ext4", "ext4", "ext4", "xfs"))
        self.work = f"{options.work}/{seed}"
        self.machine = Machine(options.programs, self.work, self.fs_type, options.ignore_flushes)
        self.load = LOADS[options.load](self.machine, seed)
        self.threads = []
        self.report = []

    def boot(self, *cut):
        self.machine.boot(self.chance.randrange(1 << 30), *cut)

    def start(self):
        self.load.start()
        with after(SOON, lambda: self.explain(f"the start takes {SOON} s")):
            eventually("the programs are ready", self.is_ready)

    def is_ready(self):
        expect("the status of the program that was started", self.load.process.poll(), None)
        return self.load.is_ready()

    def explain(self, why):
        print(f"what the programs and the kernel do ({why}, --seed {self.seed}):", flush=True)
        explain(self.machine, self.load.answer)

    def end_long(self):
        self.explain(f"the cut takes {LONGEST_CUT} s")
        if self.machine.server:
            self.machine.server.kill()

    def play(self):
        self.boot()
        self.start()
        most, pages = self.chance.choice(((1000, 1), (300, 4), (100, 16), (30, 64)))
        self.machine.begin(self.chance.randrange(1, most), pages)
        self.threads = [*self.load.clients, Writeback(self.machine, self.seed)]
        for thread in self.threads:
            thread.start()
        self.end(LONGEST_LOAD, lambda: not any(client.is_alive() for client in self.load.clients))
        for client in self.load.clients:
            if client.wrong:
                raise client.wrong
        if self.chance.random() < 0.3:
            self.cut_the_start()
        self.check()

    def end(self, seconds, ended):
        self.report.append(self.machine.wait_for_cut(seconds, ended))
        self.machine.power_off(self.threads)

    def cut_the_start(self):
        """A second cut, while the programs repair what the first has left."""
        self.boot(self.chance.randrange(1, 12), 1)
        if self.machine.has_power():
            self.load.start()
        self.end(LONGEST_LOAD, lambda: self.load.process.poll() is not None or self.load.is_ready())

    def check(self):
        self.boot()
        self.load.check_before_start()
        self.start()
        self.load.check()
        self.load.check_end()
        self.machine.power_off()
        self.machine.check_filesystem()

    def give_up(self, options):
        """Clears the machine."""
        self.machine.give_up(self.threads)
        if options.keep:
            kept = shutil.copy(self.machine.file, f"{options.keep}/{self.seed}.img")
            print(f"        the disk is kept: {kept}", flush=True)

    def describe(self):
        return "; ".join("after {writes} writes and {flushes} flushes, with {unflushed} pages not flushed, {lost} lost"
                         .format(**one) for one in self.report)


@contextlib.contextmanager
def after(seconds, action):
    """Acts in another thread if the block takes longer."""
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def play(options, seed):
    """Whether nothing was lost."""
    started = time.monotonic()
    cut = Cut(options, seed)
    kept = False
    try:
        with after(LONGEST_CUT, cut.end_long):
            cut.play()
        kept = True
    except Exception as error:  # any failure is the result of this cut
        result = "found" if options.ignore_flushes else "LOST"
        print(f"{result:7} --seed {seed} ({cut.fs_type})  {cut.describe()}\n        {type(error).__name__}: {error}", flush=True)
        if not options.ignore_flushes:
            cut.explain("it has failed")
    finally:  # also of an interrupted cut
        with uninterrupted():
            if not kept:
                cut.give_up(options)
            if not mounts(cut.work):
                shutil.rmtree(cut.work)
    if kept:
        calls = sum(client.calls for client in cut.load.clients)
        seconds = time.monotonic() - started
        print(f"ok      --seed {seed} ({cut.fs_type}, {calls} calls, {seconds:.1f} s)  {cut.describe()}", flush=True)
    return kept


def interrupt(number, _):
    sys.exit(128 + number)


@contextlib.contextmanager
def uninterrupted():
    """Signals act when the block has ended."""
    waiting = []
    for one in SIGNALS:
        signal.signal(one, lambda number, _: waiting.append(number))
    yield
    for one in SIGNALS:
        signal.signal(one, interrupt)
    if waiting:
        interrupt(waiting[0], None)


def main():
    parser = argparse.ArgumentParser()
    for name in ("--programs", "--work", "--load", "--keep"):
        parser.add_argument(name)
    parser.add_argument("--cuts", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--ignore-flushes", action="store_true")
    options = parser.parse_args()
    expect("the number of this process in a namespace of its own", os.getpid(), 1)  # a cut kills all processes that it sees
    for number in SIGNALS:
        signal.signal(number, interrupt)
    seeds = range(options.seed, options.seed + options.cuts)
    if options.ignore_flushes:
        found = any(not play(options, seed) for seed in seeds)
        print(f"{options.load}: with flushes ignored, {'a' if found else 'no'} loss was found", flush=True)
        sys.exit(not found)
    lost = [seed for seed in seeds if not play(options, seed)]
    print(f"{options.load}: {options.cuts} cuts, {len(lost)} with a loss" + (f": {lost}" if lost else ""), flush=True)
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
