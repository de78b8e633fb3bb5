#!/usr/bin/python3
"""Replays Nomad against the plugin in its container, as packaging/nomad would have it started.

Each test is named after the point of Nomad's behaviour that it covers: tests/nomad/README.md lists them. Started by
tests/nomad/run, inside the namespaces, with a dockerd of its own: replay.py WORK REGEX.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "replay"))

import points_lost  # noqa: E402
import points_move  # noqa: E402
import points_start  # noqa: E402
import points_use  # noqa: E402
from host import eventually, expect, loops, mounts, run, run_tests  # noqa: E402
from nomad import remove_all_containers  # noqa: E402
from world import DATA_DIR, World  # noqa: E402


def tests_in(module):
    """In the order in which they are written: functions whose names begin with a capital letter."""
    return [test for name, test in vars(module).items() if name[0].isupper() and getattr(test, "__module__", "") ==
            module.__name__ and "_" in name]


def check_ended():
    """Nothing is left on the host after the end of the plugin."""
    remove_all_containers()
    expect("the mounts that are left", [mount.target for mount in mounts(DATA_DIR) if mount.target != DATA_DIR], [])
    eventually("no loop device is left", lambda: not loops())


def main():
    work, wanted = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    os.makedirs(DATA_DIR)
    run("mount", "--bind", DATA_DIR, DATA_DIR)
    run("mount", "--make-shared", DATA_DIR)  # as / is where systemd is the first process
    known = tests_in(points_start) + tests_in(points_use) + tests_in(points_lost) + tests_in(points_move)
    failed = run_tests(known, lambda: World.there(work), World.check_clean, wanted)
    check_ended()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
