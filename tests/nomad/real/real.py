#!/usr/bin/python3
"""A real Nomad agent runs the job files that Mooring ships, and volumes go through all that Nomad does with them.

Started by tests/nomad/real/run, inside the namespaces, with a dockerd of its own: real.py WORK NOMAD.
"""
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../replay"))

from agent import DATA_DIR, NODE, PATIENCE, PLUGIN, ROOT, Agent  # noqa: E402
from host import docker, eventually, expect, expect_true, mounts, read, run  # noqa: E402

GROUPS = ("private", "host-to-task", "bidirectional", "reader", "block")
BLOCK = 4096


def sh(allocation, script, fails_with=None):
    """In the allocation's task, but not by `nomad alloc exec`: an agent of Nomad 1.6.5 can end by a panic in that."""
    container = docker("ps", "-q", "--filter", f"name=-{allocation}$")
    done = subprocess.run(["docker", "exec", container, "sh", "-c", script], capture_output=True, text=True)
    expect_true(f"{script!r} in {allocation}: status {done.returncode}: {done.stderr}",
                fails_with in done.stderr if fails_with else done.returncode == 0)
    return done.stdout.strip()


class Story:
    """The steps build on each other: a later one uses what an earlier one has made."""

    def __init__(self, work, program):
        self.state = f"{work}/state"
        os.makedirs(self.state, 0o700)
        os.chown(self.state, 65525, 65525)  # as docs/nomad.md says
        self.agent = Agent(work, program)
        self.tasks = {}
        self.snapshot = ""

    def start_consumer(self):
        self.agent.run_job("consumer.nomad.hcl")
        self.tasks = self.agent.started("consumer", GROUPS)

    def stop_consumer(self):
        self.agent.stop_job("consumer")
        self.agent.await_no_claims("web", "shared", "disk")
        eventually("nothing is mounted for tasks", lambda: not self.agent.volume_mounts(), PATIENCE)

    def read(self, group, path="/srv/f"):
        return sh(self.tasks[group], f"cat {path}")

    def first_block(self):
        return sh(self.tasks["block"], f"busybox dd if=/dev/disk bs={BLOCK} count=1 2>/dev/null | busybox md5sum")

    def check_data(self):
        """Each group reads the data of the volumes, as they were written."""
        expect("the volume of one task", self.read("private"), "one")
        for group in ("host-to-task", "bidirectional", "reader"):
            expect(f"the shared volume in {group}", self.read(group), "shared")
        expect("the raw device", self.first_block(), self.block)

    def read_of(self, volume):
        """The content of a volume, as a task of its own reads it."""
        self.agent.run_job(f"{HERE}/reader.nomad.hcl", f"volume={volume}")
        task = self.agent.started("reader", ["reader"])["reader"]
        content = sh(task, "cat /srv/f")
        self.agent.stop_job("reader")
        self.agent.await_no_claims(volume)
        return content

    # The steps

    def the_agent_starts_with_the_shipped_client_configuration(self):
        self.agent.start()

    def the_plugin_is_healthy(self):
        self.agent.run_job("plugin.nomad.hcl", f"node={NODE}", f"state_dir={self.state}")
        self.agent.await_plugin()

    def volumes_are_created(self):
        for name in ("web", "shared", "disk"):
            expect_true("it is created", "Created" in self.agent.create_volume(name))
            expect_true(f"{name} has an external id", self.agent.volume(name)["ExternalID"].startswith("vol-"))
        expect("the volumes on disk", len(os.listdir(f"{self.state}/volumes")), 3)

    def tasks_of_all_groups_use_them(self):
        self.start_consumer()
        sh(self.tasks["private"], "echo one >/srv/f")
        sh(self.tasks["bidirectional"], "echo shared >/srv/f")
        sh(self.tasks["block"], f"busybox dd if=/dev/urandom of=/dev/disk bs={BLOCK} count=1 conv=notrunc")
        self.block = self.first_block()
        self.check_data()
        sh(self.tasks["reader"], "echo x >/srv/f", fails_with="Read-only file system")

    def mounts_pass_as_propagation_mode_says(self):
        target = next(path for path in self.agent.volume_mounts()
                      if f"/per-alloc/{self.tasks['bidirectional']}/" in path)
        sh(self.tasks["bidirectional"], "mkdir -p /srv/below && mount -t tmpfs below /srv/below")
        expect("mounts of the task that the host sees", len(mounts(f"{target}/below")), 1)
        sh(self.tasks["bidirectional"], "umount /srv/below")
        target = next(path for path in self.agent.volume_mounts() if f"/per-alloc/{self.tasks['host-to-task']}/" in path)
        run("mount", "-t", "tmpfs", "below", f"{target}/below")
        expect_true("the task sees a mount of the host", " /srv/below tmpfs" in self.read("host-to-task", "/proc/mounts"))
        run("umount", f"{target}/below")

    def a_volume_in_use_is_not_deleted(self):
        self.agent.nomad("volume", "delete", "web", fails_with="in use")
        expect("the data afterwards", self.read("private"), "one")

    def the_data_are_there_when_the_job_runs_again(self):
        before = dict(self.tasks)
        self.stop_consumer()
        self.start_consumer()
        expect_true("other allocations run", not set(before.values()) & set(self.tasks.values()))
        self.check_data()

    def a_snapshot_and_a_copy_of_a_volume_in_use(self):
        printed = self.agent.nomad("volume", "snapshot", "create", "web", "before")
        self.snapshot = re.search(r"snap-[0-9a-f]+", printed)[0]
        self.agent.create_volume("copy", clone_id=self.agent.volume("web")["ExternalID"])
        sh(self.tasks["private"], "echo later >/srv/f")
        self.agent.create_volume("restored", snapshot_id=self.snapshot)
        expect("the volume of the snapshot", self.read_of("restored"), "one")
        expect("the copy", self.read_of("copy"), "one")
        expect("the volume itself", self.read("private"), "later")
        sh(self.tasks["private"], "echo one >/srv/f")
        expect_true("the snapshot is listed", self.snapshot in self.agent.nomad(
            "volume", "snapshot", "list", "-plugin", PLUGIN, "-verbose"))

    def a_volume_grows(self):
        """While no task uses it: not every machine lets a mounted ext4 grow."""
        self.stop_consumer()
        self.agent.create_volume("web", capacity_min="2GiB")
        expect("its size in Nomad", self.agent.volume("web")["Capacity"], 2 << 30)
        self.start_consumer()
        size = int(sh(self.tasks["private"], "df -k /srv | busybox tail -n 1 | busybox awk '{print $2}'"))
        expect_true(f"the filesystem has grown to nearly 2 GiB, not {size} KiB", size > 1900 << 10)
        self.check_data()

    def the_plugin_is_updated_while_tasks_run(self):
        before = self.agent.volume_mounts()
        self.agent.run_job("plugin.nomad.hcl", f"node={NODE}", f"state_dir={self.state}", "image=mooring:next")
        eventually("the plugin runs from the other image", lambda: docker(
            "ps", "-q", "--filter", "ancestor=mooring:next"), PATIENCE)
        self.agent.await_plugin()
        expect("the mounts", self.agent.volume_mounts(), before)
        self.check_data()

    def the_plugin_is_killed_and_comes_back(self):
        before = self.agent.volume_mounts()
        killed = docker("ps", "-q", "--filter", "ancestor=mooring:next")
        docker("kill", killed)
        eventually("another container of it runs", lambda: docker(
            "ps", "-q", "--filter", "ancestor=mooring:next") not in ("", killed), PATIENCE)
        self.agent.await_plugin()
        expect("the mounts", self.agent.volume_mounts(), before)
        self.check_data()

    def the_agent_is_killed_and_starts_again(self):
        before = self.agent.volume_mounts()
        containers = docker("ps", "-q")
        self.agent.end()
        expect("the mounts without an agent", self.agent.volume_mounts(), before)
        self.agent.start()
        self.agent.await_plugin()
        self.tasks = self.agent.started("consumer", GROUPS)
        expect("the containers", docker("ps", "-q"), containers)
        self.check_data()
        self.stop_consumer()
        self.start_consumer()
        self.check_data()

    def the_node_is_drained(self):
        """The plugin, a system job, stays until the others have ended."""
        self.agent.nomad("node", "drain", "-enable", "-self", "-yes", "-deadline", "2m")
        eventually("no task runs", lambda: not docker("ps", "-q"), PATIENCE)
        eventually("nothing is mounted for tasks", lambda: not self.agent.volume_mounts(), PATIENCE)
        self.agent.nomad("node", "drain", "-disable", "-self", "-yes")
        self.agent.await_plugin()
        self.tasks = self.agent.started("consumer", GROUPS)
        self.check_data()

    def controller_and_node_plugin_run_apart(self):
        """As docs/nomad.md says: first the jobs that use the volumes are stopped."""
        self.stop_consumer()
        self.agent.stop_job(PLUGIN)
        self.agent.run_job("plugin-apart.nomad.hcl", f"node={NODE}", f"state_dir={self.state}")
        self.agent.await_plugin()
        self.start_consumer()
        self.check_data()

    def everything_is_deleted(self):
        self.stop_consumer()
        for name in ("web", "shared", "disk", "restored", "copy"):
            self.agent.nomad("volume", "delete", name)
        self.agent.nomad("volume", "snapshot", "delete", PLUGIN, self.snapshot)
        expect("the volumes on disk", os.listdir(f"{self.state}/volumes"), [])
        expect("the volumes in Nomad", self.agent.asked("volumes?type=csi"), [])
        self.agent.stop_job(PLUGIN)

    def the_plugin_runs_without_a_container(self):
        """With raw_exec, as docs/nomad.md says, and with a volume of memory."""
        self.agent.run_job(f"{HERE}/raw_exec.nomad.hcl", f"program={ROOT}/build/release/bin/mooring-plugin",
                           f"state_dir={self.state}-raw", f"csi_dir={DATA_DIR}/client/csi")
        self.agent.await_plugin()
        self.agent.create_volume("scratch")
        self.agent.run_job(f"{HERE}/reader.nomad.hcl", "volume=scratch")
        task = self.agent.started("reader", ["reader"])["reader"]
        sh(task, "echo memory >/srv/f")
        [target] = [path for path in self.agent.volume_mounts() if f"/per-alloc/{task}/" in path]
        expect("what the host reads", read(f"{target}/f"), "memory\n")
        self.agent.stop_job("reader")
        self.agent.await_no_claims("scratch")
        self.agent.nomad("volume", "delete", "scratch")
        self.agent.stop_job(PLUGIN)

    def nothing_is_left(self):
        self.agent.end()
        expect("the containers", docker("ps", "-q"), "")
        expect("what is mounted for volumes", self.agent.volume_mounts(), [])


STEPS = [step for name, step in vars(Story).items() if name.split("_")[0] in (
    "the", "volumes", "tasks", "mounts", "a", "controller", "everything", "nothing") and callable(step)]


def main():
    story = Story(*sys.argv[1:3])
    for step in STEPS:
        started = time.monotonic()
        try:
            step(story)
        except Exception as error:  # any failure is this step's result, and the later ones need what it makes
            print(f"FAILED  {step.__name__}\n        {type(error).__name__}: {error}", flush=True)
            story.agent.process.kill()  # so that it starts nothing again
            sys.exit(1)
        print(f"ok      {step.__name__} ({time.monotonic() - started:.0f} s)", flush=True)
    print(f"{len(STEPS)} passed, 0 failed", flush=True)


if __name__ == "__main__":
    main()
