#!/usr/bin/python3
"""Each judge works on a volume of each kind, while the volume is copied and grown. For tests/judges/run, which makes the
namespaces."""
import argparse
import collections
import os
import random
import re
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True

from disturbance import Disturbance  # noqa: E402
from fio import Fio, verify_synced, write_synced  # noqa: E402
from fsx import Fsx  # noqa: E402
from node import KINDS, Node, NodeOnExports, Volume, Wrong  # noqa: E402
from host import run_tests  # noqa: E402
from planted import FAULTS, found  # noqa: E402
from stress import Stress  # noqa: E402

JUDGES = {"fio": Fio, "stress": Stress, "fsx": Fsx}
ROUNDS = 2  # at least

totals = collections.Counter()
nodes = []


class Session:
    """A judge on a volume. `damage` is called while the data is at rest, with the volume and the number of the round."""

    def __init__(self, options, node, judge, kind, damage=None, damage_copy=None, scribble=None):
        self.options, self.judge, self.damage = options, JUDGES[judge](options), damage
        self.volume = Volume(node, kind)
        chance = random.Random(f"{options.seed} {judge} {kind}")
        self.disturbance = Disturbance(self.volume, options.seed, chance, damage_copy, scribble)

    def play(self):
        self.volume.begin()
        write_synced(self.volume, self.options.seed)
        deadline, number = time.monotonic() + self.options.seconds, 0
        while number < ROUNDS or time.monotonic() < deadline:
            self.round(number, self.judge.start, self.judge.verify)
            number += 1
        if hasattr(self.judge, "start_stopped"):
            self.round(number, self.judge.start_stopped, self.judge.verify_stopped)
        self.volume.end()
        if self.volume.can_copy and self.volume.fs and not self.disturbance.copies:
            raise Wrong(f"no copy was made: {self.disturbance.refused} were refused")

    def round(self, number, start, verify):
        program = start(self.volume, number)
        self.disturbance.until_ended(program)
        program.verdict()
        self.judge.written(self.volume, number)
        self.volume.away()
        if self.damage:
            self.damage(self.volume, number)
        if self.volume.kind != "memory":
            self.volume.check_filesystem()
        self.volume.back()
        verify_synced(self.volume, self.options.seed)
        verify(self.volume, number)
        totals.update(rounds=1)

    def count(self):
        totals.update(copies=self.disturbance.copies, refused=self.disturbance.refused, growths=self.disturbance.growths)


def set_up(options):
    os.makedirs(f"{options.work}/node")
    node = (NodeOnExports if options.exports else Node)(options, f"{options.work}/node")
    nodes.append(node)
    node.start()
    return node


def clear(node):
    node.close()
    shutil.rmtree(node.work)


def close_all():
    """After a signal. Nodes that were closed have nothing left to close."""
    for node in nodes[-1:]:
        node.close()


def check_clean(node):
    node.check_clean()
    clear(node)


def installed():
    missing = [judge for judge in JUDGES if not JUDGES[judge].is_installed()]
    for judge in missing:
        print(f"skipped: {judge} is not installed", flush=True)
    return [judge for judge in JUDGES if judge not in missing]


def planted_tests(options):
    judges = installed()
    for name, judge, kind, damage in FAULTS:
        if judge in judges and re.search(options.judges[0] if options.judges else "", name):
            yield planted_test(options, name, judge, kind, damage)


def planted_test(options, name, judge, kind, damage):
    def test(node):
        found(Session(options, node, judge, kind, **damage))
    test.__name__ = name
    return test


def tests_of(options):
    for judge in options.judges or installed():
        for kind in options.volumes:
            if JUDGES[judge].can_judge(Volume(Names(), kind)):
                yield test_of(options, judge, kind)


def test_of(options, judge, kind):
    def test(node):
        session = Session(options, node, judge, kind)
        try:
            session.play()
        finally:
            session.count()
    test.__name__ = f"{judge} on {kind}"
    return test


class Names:
    """Stands for a node where only the names of paths matter."""

    @staticmethod
    def target(_):
        return ""


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--volumes", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--images", choices=("tmpfs", "ext4", "xfs", "btrfs"), default="xfs")
    parser.add_argument("--exports", action="store_true", help="directories lie on an NFS export: for tests/vm")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("judges", nargs="*")
    options = parser.parse_args()
    if not options.planted:  # else they are a pattern
        refuse(parser, "unknown", sorted({*options.judges} - {*JUDGES}) + sorted({*options.volumes} - {*KINDS}))
        refuse(parser, "not installed", [judge for judge in options.judges if not JUDGES[judge].is_installed()])
    return options


def refuse(parser, reason, names):
    if names:
        parser.error(f"{reason}: {', '.join(names)}")


def main():
    options = parsed()
    options.kernel = ""
    print(f"seed {options.seed}, images on {options.images}", flush=True)
    tests = list((planted_tests if options.planted else tests_of)(options))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        failed = run_tests(tests, lambda: set_up(options), clear if options.planted else check_clean, "")
    except SystemExit:
        close_all()
        raise
    if totals:
        print(", ".join(f"{count} {what}" for what, count in sorted(totals.items())), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
