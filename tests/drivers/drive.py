#!/usr/bin/python3
"""Plays every scenario with every driver. For tests/drivers/run, which makes the namespaces.

drive.py PROGRAMS WORK DRIVER REGEX: the rows of one driver whose "driver.scenario" matches; WORK/totals is how many passed,
failed and were skipped. drive.py --drivers: their names.
"""
import os
import re
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../replay"))

import scenarios  # noqa: E402
import scenarios_trouble  # noqa: E402, F401: adds its own
from drivers import DRIVERS  # noqa: E402
from world import World  # noqa: E402


def rows(driver, wanted):
    return [scenario for scenario in scenarios.ALL
            if scenarios.applies(scenario, driver) and re.search(wanted, f"{driver.name}.{scenario.__name__}")]


def is_there(driver, programs):
    return not driver.tool or os.path.exists(os.path.join(programs, "../../tools/bin", driver.tool))


def play(world, scenario):
    """Returns the problem, or None."""
    try:
        world.begin()
        scenario(world)
        world.check_clean()
    except Exception as error:  # whatever it is, the other rows are played
        return f"{type(error).__name__}: {error}"
    return None


def main():
    if sys.argv[1] == "--drivers":
        print("\n".join(driver.name for driver in DRIVERS))
        return
    programs, work, name, wanted = sys.argv[1:5]
    driver = next(driver for driver in DRIVERS if driver.name == name)
    totals = {"ok": 0, "FAILED": 0, "skipped": 0}
    for scenario in rows(driver, wanted):
        totals[play_row(programs, work, driver, scenario)] += 1
    with open(f"{work}/totals", "w", encoding="ascii") as file:
        file.write(" ".join(map(str, totals.values())) + "\n")


def play_row(programs, work, driver, scenario):
    name = f"{driver.name}.{scenario.__name__}"
    if not is_there(driver, programs):
        print(f"skipped {name}: {driver.tool} could not be fetched", flush=True)
        return "skipped"
    started = time.monotonic()
    world = World(programs, tempfile.mkdtemp(dir=work), driver)
    wrong = play(world, scenario)
    if wrong is None:
        print(f"ok      {name} ({time.monotonic() - started:.1f} s)", flush=True)
        return "ok"
    print(f"FAILED  {name}\n        {wrong}", flush=True)
    world.give_up()
    return "FAILED"


if __name__ == "__main__":
    main()
