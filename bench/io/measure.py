#!/usr/bin/env python3
"""Lets fio read and write volumes and plain files in turns, and writes a table and a plot."""
import argparse
import json
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True

from kinds import KINDS, Bench, run  # noqa: E402
from report import Report  # noqa: E402
from rows import ROWS, idle  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """Processor time of the whole machine, because the kernel's threads do a part of the work: proc_stat(5)."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, softirq = (int(word) for word in stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / TICK


def fill(path, size):
    """So that the file has data and no holes."""
    run("fio", "--name=fill", f"--filename={path}", "--rw=write", "--bs=1M", f"--size={size}", "--direct=1", "--end_fsync=1")


class Meter:
    def __init__(self, size, seconds):
        self.size, self.seconds = size, seconds
        self.own = {}  # fio's own processor time, by its jobs

    def fio(self, arguments):
        """Operations, operations a second, and seconds of processor time."""
        before = busy_seconds()
        done = subprocess.run([*arguments, f"--runtime={self.seconds * 1000:.0f}ms"], check=False, capture_output=True, text=True,
                              timeout=120 + self.seconds)
        took = busy_seconds() - before
        said = done.stderr.strip() or done.stdout.strip()
        job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0] if done.returncode == 0 else {"error": said}
        if job["error"]:
            raise SystemExit(f"{' '.join(arguments)}: {job['error']}")
        sides = [job["read"], job["write"]]
        return sum(side["total_ios"] for side in sides), sum(side["iops"] for side in sides), took

    def __call__(self, row, path):
        """Operations a second, and microseconds of processor time for each."""
        if row.jobs not in self.own:
            self.own[row.jobs] = self.fio(idle(row.jobs))[2]
        os.sync()  # what the turn before has left
        time.sleep(0.2)
        operations, rate, took = self.fio(row.arguments(path, self.size))
        if operations == 0:
            raise SystemExit(f"{row.name} on {path}: no operation in {self.seconds} s: the disk has stalled")
        return rate, (took - self.own[row.jobs]) * 1e6 / operations


def main():
    parser = argparse.ArgumentParser()
    for name in ("programs", "work", "output"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--size", type=int, default=1 << 30)
    parser.add_argument("--rows", default="")
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    rows = [row for row in ROWS if re.search(options.rows, row.name)]
    if not rows or not set(kinds) <= set(KINDS):
        raise SystemExit(f"the kinds are {', '.join(KINDS)}; the rows are\n" + "\n".join(row.name for row in ROWS))
    bench = Bench(options.programs, options.work, options.size)
    with bench.clean:
        places = bench.make(kinds)
        for path in sorted({path for place in places.values() for path in (place.path, place.plain)}):
            fill(path, options.size)
        report, meter = Report(places, rows, bench.loops()), Meter(options.size, options.seconds)
        for number in range(options.rounds):
            for row in rows:
                for kind, place in places.items():
                    # Side by side, so that both have the noise of the same moment.
                    pair = (place.path, place.plain)
                    measured = {path: meter(row, path) for path in (pair if number % 2 == 0 else pair[::-1])}
                    report.add(row, kind, measured[place.path], measured[place.plain])
            print(f"round {number + 1} of {options.rounds}", flush=True)
        report.write(options.output)
    print(f"{options.output}/io.md and io.svg, {options.rounds} rounds of {options.seconds:g} s each")


if __name__ == "__main__":
    main()
