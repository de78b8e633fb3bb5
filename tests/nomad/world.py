"""A Nomad client on a host, with a plugin of the job files. Each test begins and ends with it."""
import json
import os
import shutil

from host import detach, docker, eventually, expect, loops, mounts, run
from nomad import Agent, Allocation, PluginTask, Server, Usage, remove_all_containers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(ROOT, "build/release/bin")
IMAGE = os.environ["MOORING_PLUGIN_IMAGE"]
NODE = "n1"
DATA_DIR = "/run/nomad"  # a socket's path may have 107 bytes

ALONE = Usage()
MANY = Usage(access="multi-node-multi-writer")
READER = Usage(access="multi-node-reader-only", read_only=True)
BLOCK = Usage(attachment="block-device")


def _file(kind, name, *variables):
    path = os.path.join(ROOT, "packaging/nomad", name)
    return json.loads(run(os.path.join(ROOT, "build/tools/bin/nomad-hcl"), kind, path, *variables))


def job_file(name, *variables):
    """The job after Nomad's own parser."""
    return _file("job", name, *variables)["job"][0]


def volume_file(name):
    """The volume specification after Nomad's own parser."""
    return _file("volume", f"volumes/{name}.volume.hcl")


def tasks_of(job):
    """By their csi_plugin's type."""
    found = (task for group in job["group"] for task in group["task"])
    return {task["csi_plugin"][0]["type"]: task for task in found}


class World:
    """A Nomad client on a host, with one plugin."""

    def __init__(self, work):
        self.root = os.path.join(DATA_DIR, "client/csi")
        self.state = os.path.join(work, "state")
        os.makedirs(self.root, 0o700, exist_ok=True)
        os.makedirs(self.state, 0o700, exist_ok=True)
        os.chown(self.state, 65525, 65525)  # the image's user mooring, as in docs/nomad.md
        self.tasks = []
        self.job = tasks_of(job_file("plugin.nomad.hcl", f"node={NODE}"))["monolith"]
        self.plugin = self.start_plugin()
        self.server, self.agent = Server(self.plugin, NODE), Agent(self.plugin)

    def start_plugin(self, job=None, environment=()):
        task = PluginTask(self.root, job or self.job, self.state, IMAGE, environment).start().wait()
        self.tasks.append(task)
        return task

    def use(self, plugin):
        """Makes all further calls to this instance."""
        self.plugin = self.server.task = self.agent.task = plugin

    def lose_plugin(self, signal="KILL"):
        self.plugin.lose(signal)

    def start_plugin_again(self):
        self.plugin.start().wait()

    def unpublish_by_hand(self, volume):
        """As docs/nomad.md says: nomad alloc exec ALLOC mooring csi controller-unpublish VOLUME --node NODE."""
        docker("exec", self.plugin.container.name,
               "mooring", "csi", "controller-unpublish", volume.external_id, "--node", NODE)

    def allocate(self, volume, usage=ALONE, propagation="private"):
        return Allocation(self, volume, usage, propagation)

    def images(self):
        return os.listdir(os.path.join(self.state, "volumes"))

    def check_clean(self):
        """No mount, no loop device, no volume and no task: after each test."""
        self.check_host()
        expect("the volumes that are left", self.images(), [])
        names = docker("ps", "-a", "--format", "{{.Names}}").split()
        expect("the tasks that are left", [name for name in names if name.startswith("task-")], [])

    def check_host(self):
        expect("the mounts that are left", [mount.target for mount in mounts(self.root)], [])
        eventually("no loop device is left", lambda: not loops())

    def give_up(self):
        """After a failure, so that the next test begins with nothing."""
        for task in self.tasks:
            if task.container and task.container.runs():
                print("        " + "\n        ".join(task.container.log().splitlines()[-15:]), flush=True)
        remove_all_containers()
        for mount in reversed(mounts(self.root)):
            run("umount", mount.target, check=False)
        for device in loops():
            detach(device)
        shutil.rmtree(self.state, ignore_errors=True)
        World.current = None

    current = None

    @classmethod
    def there(cls, work):
        """The plugin of the test before goes on, but for one that failed."""
        if cls.current is None:
            cls.current = World(work)
        return cls.current
