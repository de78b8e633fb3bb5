#!/usr/bin/env python3
"""Lets fio read and write volumes and plain files in turns, and writes a table and a plot."""
import argparse
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True

from kinds import Bench, run  # noqa: E402
from report import Report  # noqa: E402
from rows import ROWS  # noqa: E402

KINDS = ["image", "block", "loop", "directory", "subvolume", "sized"]
TICK = os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """Processor time of the whole machine, because the kernel's threads do a part of the work: proc_stat(5)."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, softirq = (int(word) for word in stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / TICK


def fill(path, size):
    """So that the file has data and no holes."""
    run("fio", "--name=fill", f"--filename={path}", "--rw=write", "--bs=1M", f"--size={size}", "--direct=1", "--end_fsync=1")


def measure(row, path, size, seconds):
    """Operations a second, and microseconds of processor time for each."""
    before = busy_seconds()
    done = subprocess.run([*row.arguments(path, size), f"--runtime={seconds * 1000:.0f}ms"], check=False, timeout=60 + seconds,
                          capture_output=True, text=True)
    took = busy_seconds() - before
    if done.returncode != 0:
        raise SystemExit(f"fio fails on {path}, {row.name}: {done.stderr.strip() or done.stdout.strip()}")
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    if job["error"] != 0:
        raise SystemExit(f"fio fails on {path}, {row.name}: error {job['error']}")
    sides = [job["read"], job["write"]]
    return sum(side["iops"] for side in sides), took * 1e6 / max(1, sum(side["total_ios"] for side in sides))


def main():
    parser = argparse.ArgumentParser()
    for name in ("programs", "work", "output"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=1 << 30)
    parser.add_argument("--rows", default="")
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    if options.rows == "list":
        print("\n".join(row.name for row in ROWS))
        return
    kinds = options.kinds.split(",")
    rows = [row for row in ROWS if re.search(options.rows, row.name)]
    if not rows or not set(kinds) <= set(KINDS):
        raise SystemExit(f"the kinds are {', '.join(KINDS)}, and --rows list shows the rows")
    bench = Bench(options.programs, options.work)
    with bench.clean:
        kinds = bench.make(kinds)
        paths = sorted({path for pair in kinds.values() for path in pair})
        for path in paths:
            fill(path, options.size)
        report = Report(kinds, rows, options)
        for number in range(options.rounds):
            for row in rows:
                for path in paths if number % 2 == 0 else reversed(paths):
                    report.add(row, path, *measure(row, path, options.size, options.seconds))
            print(f"round {number + 1} of {options.rounds}", flush=True)
        report.write(options.output)


if __name__ == "__main__":
    main()
