#!/usr/bin/python3
"""Plays every scenario with every driver. For tests/drivers/run, which makes the namespaces.

drive.py PROGRAMS WORK [REGEX]: those whose "driver.scenario" matches.
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


def rows(wanted):
    for driver in DRIVERS:
        for scenario in scenarios.ALL:
            if scenarios.applies(scenario, driver) and re.search(wanted, f"{driver.name}.{scenario.__name__}"):
                yield driver, scenario


def is_there(driver, programs):
    return not driver.tool or os.path.exists(os.path.join(programs, "../../tools/bin", driver.tool))


def play(world, scenario):
    """What was wrong, or None."""
    try:
        world.begin()
        scenario(world)
        world.check_clean()
    except Exception as error:  # whatever it is, the other rows are played
        return f"{type(error).__name__}: {error}"
    return None


def main():
    programs, work, wanted = sys.argv[1:4]
    passed = failed = 0
    for driver, scenario in rows(wanted):
        if not is_there(driver, programs):
            print(f"skipped {driver.name}.{scenario.__name__}: {driver.tool} could not be fetched", flush=True)
            continue
        started = time.monotonic()
        world = World(programs, tempfile.mkdtemp(dir=work), driver)
        wrong = play(world, scenario)
        name = f"{driver.name}.{scenario.__name__}"
        if wrong is None:
            passed += 1
            print(f"ok      {name} ({time.monotonic() - started:.1f} s)", flush=True)
        else:
            failed += 1
            print(f"FAILED  {name}\n        {wrong}", flush=True)
            world.give_up()
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
