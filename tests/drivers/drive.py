#!/usr/bin/python3
"""Plays a scenario with a driver. For tests/drivers/run, which makes the namespaces.

drive.py --rows REGEX: prints the rows, "driver.scenario", that match, the longest first.
drive.py PROGRAMS DIRECTORY ROW: plays that row, and prints its result.
"""
import os
import re
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../replay"))

import foreign  # noqa: E402
import scenarios  # noqa: E402
import scenarios_trouble  # noqa: E402
from drivers import DRIVERS  # noqa: E402
from world import World  # noqa: E402


def rows(wanted):
    """The rows that match: (name, driver, scenario)."""
    drivers = foreign.DRIVERS if foreign.DIRECTORY else DRIVERS
    found = [(f"{driver.name}.{scenario.__name__}", driver, scenario)
             for driver in drivers for scenario in scenarios.ALL if scenarios.applies(scenario, driver)]
    return [row for row in found if re.search(wanted, row[0])]


def is_short(row):
    _, driver, scenario = row
    if scenario is scenarios_trouble.a_hung_driver_delays_calls_for_a_limited_time:
        return False
    return driver.name not in ("strict-slow", "strict-gone")


def is_there(driver):
    return not driver.tool or os.path.exists(driver.tool)


def play(world, scenario):
    """Returns the problem, or None."""
    try:
        world.begin()
        scenario(world)
        world.check_clean()
    except Exception as error:  # any failure is the row's result
        return f"{type(error).__name__}: {error}"
    return None


def main():
    if sys.argv[1] == "--rows":
        print("\n".join(name for name, *_ in sorted(rows(sys.argv[2]), key=is_short)))
        return
    programs, directory, wanted = sys.argv[1:4]
    [(name, driver, scenario)] = rows(f"^{re.escape(wanted)}$")
    if not is_there(driver):
        report(directory, "skipped", f"{name}: {driver.tool} could not be fetched")
        return
    started = time.monotonic()
    world = World(programs, f"{directory}/world", driver)
    wrong = play(world, scenario)
    if wrong is None:
        report(directory, "ok", f"{name} ({time.monotonic() - started:.1f} s)")
    else:
        report(directory, "FAILED", f"{name}\n        {wrong}")
        world.give_up()


def report(directory, result, text):
    """For tests/drivers/run. Other rows print at the same time, so the text is written at once."""
    with open(f"{directory}/result", "w", encoding="ascii") as file:
        file.write(f"{result}\n")
    os.write(sys.stdout.fileno(), f"{result:7} {text}\n".encode())


if __name__ == "__main__":
    main()
