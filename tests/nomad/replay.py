#!/usr/bin/python3
"""Replays Nomad against the plugin in its container, as packaging/nomad would have it started.

Each test is named after the point of Nomad's behaviour that it covers: tests/nomad/README.md lists them. Started by
tests/nomad/run, inside the namespaces, with a dockerd of its own: replay.py WORK REGEX. The points that hang on the
engine are tried in rootful podman, too: MOORING_PODMAN is its command, MOORING_PODMAN_RUN the flags of its `run`.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "replay"))

import points_lost  # noqa: E402
import points_start  # noqa: E402
import points_use  # noqa: E402
from host import DOCKER, Engine, eventually, expect, loops, mounts, run, run_tests, use_engine  # noqa: E402
from nomad import remove_all_containers  # noqa: E402
from world import DATA_DIR, World  # noqa: E402

# Volumes of another process are published, staged and unmounted. The order is Nomad's. The plugin is lost.
IN_PODMAN = ("N4_", "N11_", "N12_")


def tests_in(module):
    """In the order in which they are written: functions whose names begin with a capital letter."""
    return [test for name, test in vars(module).items() if name[0].isupper() and getattr(test, "__module__", "") ==
            module.__name__ and "_" in name]


def podman():
    # By default `podman rm -f` waits 10 s for an orderly end.
    return Engine(tuple(os.environ["MOORING_PODMAN"].split()), tuple(os.environ["MOORING_PODMAN_RUN"].split()), ("-t", "0"))


def replay(engine, tests, work):
    use_engine(engine)
    failed = run_tests(tests, lambda: World.there(work), World.check_clean, "")
    check_ended()
    World.current = None
    return failed


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
    known = tests_in(points_start) + tests_in(points_use) + tests_in(points_lost)
    tests = [test for test in known if re.search(wanted, test.__name__)]
    failed = replay(DOCKER, tests, work)
    few = [test for test in tests if test.__name__.startswith(IN_PODMAN)]
    if few:
        print("in podman:", flush=True)
        failed = replay(podman(), few, work) or failed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
