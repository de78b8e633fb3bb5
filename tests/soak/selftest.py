#!/usr/bin/python3
"""Proves the rule of slope.py with made-up series: it finds leaks, and accepts noise, steps and restarts."""
import os
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(1, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "replay"))

from samples import MIB, SERIES, Sample, Samples  # noqa: E402
from slope import FEWEST_POINTS, Bound, judge  # noqa: E402

SECONDS = 600
RSS, COUNT = Bound(4 * MIB, 0.1), Bound(3)


def line(value, seconds=SECONDS, begin=0, step=10):
    return [(begin + second, value(second)) for second in range(0, seconds, step)]


def noise(chance, size):
    return lambda _: 30 * MIB + chance.gauss(0, size)


def made_up(chance):
    """(what it is, the lines, the bound, whether it is flat)"""
    leak = 20 * MIB / SECONDS
    spikes = [(second, 60 * MIB if second % 100 == 0 else 30 * MIB) for second in range(0, SECONDS, 10)]
    lives = [[(begin + second, value) for second, value in line(lambda second: 30 * MIB + 4 * leak * second, 150)]
             for begin in range(0, SECONDS, 150)]
    return [
        ("a constant", [line(lambda _: 7)], COUNT, True),
        ("noise", [line(noise(chance, MIB))], RSS, True),
        ("much noise", [line(noise(chance, 20 * MIB))], RSS, True),
        ("noise around few descriptors", [line(lambda _: 20 + chance.randint(-5, 5))], COUNT, True),
        ("spikes", [spikes], RSS, True),
        ("a slow rise below the bound", [line(lambda second: 30 * MIB + 3 * MIB * second / SECONDS)], RSS, True),
        ("a rise that ends", [line(lambda second: 30 * MIB + min(second, 100) * MIB / 10)], RSS, True),
        ("a fall", [line(lambda second: 90 * MIB - leak * second)], RSS, True),
        ("each restart begins higher", [line(lambda _, life=life: 30 * MIB * (life + 1), 150, 150 * life) for life in range(4)],
         RSS, True),
        ("a leak", [line(lambda second: 30 * MIB + leak * second)], RSS, False),
        ("a leak under noise", [line(lambda second: 30 * MIB + leak * second + chance.gauss(0, 4 * MIB))], RSS, False),
        ("a leak in each of four lives", lives, RSS, False),
        ("a descriptor each minute", [line(lambda second: 20 + second // 60)], COUNT, False),
        ("publishes that become slow", [line(lambda second: 5 + second / 10)], Bound(20, 2), False),
        ("a leak of many points", [line(lambda second: 30 * MIB + leak * second, SECONDS, 0, 1) for _ in range(3)], RSS, False),
    ]


def of_a_run(leaking):
    """Series with the bounds and the warm-up of a real run, where this one grows."""
    samples = Samples()
    for second in range(0, SECONDS, 5):
        life, calm = divmod(second, SECONDS // 2)
        values = {series.name: 10 + (second / 2 if series.name == leaking else 0) for series in SERIES}
        values = {series.name: values[series.name] * (MIB if series.unit == "bytes" else 1) for series in SERIES}
        samples.rows.append(Sample(second, calm, dict.fromkeys(("plugin", "mounter", "manager"), (life,)), values))
    return [series.name for series, verdict in samples.verdicts(SECONDS / 2).items() if not verdict.flat or not verdict.enough]


def main():
    chance = random.Random(1)
    wrong = [f"{what}: {judge(lines, bound)}" for what, lines, bound, flat in made_up(chance) if judge(lines, bound).flat != flat]
    names = [series.name for series in SERIES]
    wrong += [f"a run in which {name} grows: not flat are {of_a_run(name)}" for name in names if of_a_run(name) != [name]]
    wrong += [f"a run in which nothing grows: not flat are {of_a_run(None)}"] if of_a_run(None) else []
    if judge([line(lambda second: second)[:FEWEST_POINTS - 1]], COUNT).enough:
        wrong.append("a few points: judged")
    print("\n".join(wrong) or "the self test of the slope rule passed", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
