#!/usr/bin/python3
"""Replays Docker Swarm against Mooring as a managed plugin: what swarmkit asks for, with its paths and its order.

Started by tests/swarm/run, inside the namespaces, with a dockerd of its own: replay.py WORK REGEX.
"""
import json
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/replay"))

from csi import Plugin  # noqa: E402
from host import (Container, bind, detach, docker, eventually, expect, expect_true, loops, mount_at,  # noqa: E402
                  mounts, refused, run, run_tests, write)

NAME = "mooring:latest"
SOCKETS = "/run/docker/plugins"  # Docker 20.10's, whatever its --exec-root
TIMEOUT = 15  # of each call that swarmkit makes
MODES = {("single", "none"): "SINGLE_NODE_WRITER", ("single", "readonly"): "SINGLE_NODE_READER_ONLY",
         ("single", "onewriter"): "SINGLE_NODE_WRITER", ("single", "all"): "SINGLE_NODE_WRITER",
         ("multi", "readonly"): "MULTI_NODE_READER_ONLY", ("multi", "onewriter"): "MULTI_NODE_SINGLE_WRITER",
         ("multi", "all"): "MULTI_NODE_MULTI_WRITER"}


def inspect():
    return json.loads(docker("plugin", "inspect", NAME))[0]


class Volume:
    """A cluster volume on this node. Swarm's id of it is in its paths, not the plugin's."""

    def __init__(self, swarm, name, scope="single", sharing="none", access=None):
        self.swarm, self.name = swarm, name
        self.id = f"{name}0f9wq7wvz41wxw81u4gfsiy"[:25]
        self.staging = f"/data/staged/{self.id}"
        self.access = {"mount": {}} if access is None else access
        self.mode = {"access_mode": {"mode": MODES[scope, sharing]}}
        made = swarm.call("CreateVolume", {"name": name, "volume_capabilities": [self.capability()],
                                           "capacity_range": {"required_bytes": 16 << 20}}).volume
        self.csi_id, self.context = made.volume_id, dict(made.volume_context)
        self.published_context = {}

    def capability(self):
        return {**self.mode, **self.access}

    @property
    def host_path(self):
        """Where a service's task is given it from."""
        return os.path.join(self.swarm.published, self.id)

    def attach(self):
        """The manager's part: of a volume for block access, too, as a filesystem."""
        answer = self.swarm.call("ControllerPublishVolume", {
            "volume_id": self.csi_id, "node_id": self.swarm.node, "volume_context": self.context,
            "volume_capability": {**self.mode, "mount": {}}})
        self.published_context = dict(answer.publish_context)

    def use(self):
        """The agent's part: both calls, each time it begins to use it and each time it tries again."""
        both = {"volume_id": self.csi_id, "staging_target_path": self.staging, "volume_context": self.context,
                "volume_capability": self.capability(), "publish_context": self.published_context}
        self.swarm.call("NodeStageVolume", both)
        self.swarm.call("NodePublishVolume", {**both, "target_path": f"/data/published/{self.id}"})
        return self.host_path

    def leave(self):
        """No NodeUnstageVolume comes, but of an agent that was restarted since."""
        self.swarm.call("NodeUnpublishVolume", {"volume_id": self.csi_id, "target_path": f"/data/published/{self.id}"})

    def unstage(self):
        self.swarm.call("NodeUnstageVolume", {"volume_id": self.csi_id, "staging_target_path": self.staging})

    def detach(self):
        self.swarm.call("ControllerUnpublishVolume", {"volume_id": self.csi_id, "node_id": self.swarm.node})

    def delete(self):
        self.swarm.call("DeleteVolume", {"volume_id": self.csi_id})


class Swarm:
    """A node of a swarm, with the plugin enabled."""

    current = None

    def __init__(self, work):
        self.state = os.path.join(work, "state")
        os.makedirs(self.state)
        run(os.path.join(ROOT, "packaging/docker-plugin/create"), "--image", os.environ["MOORING_PLUGIN_IMAGE"])
        docker("plugin", "set", NAME, f"state.source={self.state}", "MOORING_NODE_ID=s1")
        self.enable()
        # Docker's ScopedPath of /data/published.
        self.published = os.path.join(work, "docker/data/plugins", self.id, "propagated-mount")

    def enable(self):
        docker("plugin", "enable", NAME)
        self.id = inspect()["Id"]
        self.plugin = Plugin(os.path.join(SOCKETS, self.id, "mooring.sock"))
        eventually("the plugin is ready", self.plugin.ready)
        self.node = self.call("NodeGetInfo").node_id

    def call(self, method, request=None):
        return self.plugin.call(method, request, TIMEOUT)

    def check_clean(self):
        expect("the mounts that are left", [mount.target for mount in mounts(self.published)[1:]], [])
        eventually("no loop device is left", lambda: not loops())
        expect("the volumes that are left", os.listdir(os.path.join(self.state, "volumes")), [])

    def give_up(self):
        for mount in reversed(mounts(self.published)[1:]):
            run("umount", mount.target, check=False)
        docker("plugin", "disable", "-f", NAME, check=False)
        docker("plugin", "rm", "-f", NAME, check=False)
        for device in loops():
            detach(device)
        shutil.rmtree(self.state, ignore_errors=True)
        Swarm.current = None

    @classmethod
    def there(cls, work):
        if cls.current is None:
            cls.current = Swarm(work)
        return cls.current


def The_plugin_has_the_interfaces_and_settings_of_its_configuration(s):
    found = inspect()
    config = found["Config"]
    expect("its interfaces", sorted(config["Interface"]["Types"]), ["docker.csicontroller/1.0", "docker.csinode/1.0"])
    expect("its socket", config["Interface"]["Socket"], "mooring.sock")
    expect("its propagated mount", config["PropagatedMount"], "/data/published")
    expect("whether it is enabled", found["Enabled"], True)
    expect("the node's id that was set", s.node, "s1")


def Start_of_node_and_controller(s):
    expect_true("Probe says ready", s.plugin.ready())
    steps = {capability.rpc.type for capability in s.call("NodeGetCapabilities").capabilities}
    expect_true("it stages", 1 in steps)
    expect("the node's id", s.call("NodeGetInfo").node_id, "s1")
    services = {capability.service.type for capability in s.call("GetPluginCapabilities").capabilities}
    expect_true("it is a controller", 1 in services)
    calls = {capability.rpc.type for capability in s.call("ControllerGetCapabilities").capabilities}
    expect_true("it publishes", 2 in calls)


def A_volume_lives_through_swarms_order(s):
    volume = Volume(s, "web")
    volume.attach()
    path = volume.use()
    expect("the filesystem that the host sees", mount_at(path).fs_type, "ext4")
    task = Container("task", "base", ["sleep", "1000"], bind(path, "/srv", "rslave"))
    task.sh("echo hello >/srv/f")
    volume.use()  # tried again, whatever came of it
    task.remove()
    volume.leave()
    volume.detach()
    expect("what is mounted then", mount_at(path), None)
    volume.attach()
    task = Container("task", "base", ["sleep", "1000"], bind(volume.use(), "/srv", "rslave"))
    expect("what the next task reads", task.sh("cat /srv/f"), "hello")
    task.remove()
    volume.leave()
    volume.detach()
    volume.delete()


def Delete_needs_no_unstage_and_is_refused_before(s):
    volume = Volume(s, "gone")
    volume.attach()
    volume.use()
    refused("FAILED_PRECONDITION", "in use", volume.delete)
    volume.leave()
    volume.detach()
    volume.delete()


# A restarted agent has no record of staged volumes, and unstages them.
def An_unstage_that_comes_is_ok(s):
    volume = Volume(s, "restarted")
    volume.attach()
    volume.use()
    volume.leave()
    volume.unstage()
    volume.detach()
    volume.delete()


def Each_scope_and_sharing_can_be_had(s):
    for (scope, sharing), mode in MODES.items():
        volume = Volume(s, f"{scope}{sharing}", scope, sharing)
        volume.attach()
        wanted = "Read-only file system" if mode.endswith("READER_ONLY") else "written"
        expect(f"a write, {scope} {sharing}", write(os.path.join(volume.use(), "f")), wanted)
        volume.leave()
        volume.detach()
        volume.delete()


def A_block_volume_is_a_device_node_on_the_host(s):
    volume = Volume(s, "disk", access={"block": {}})
    volume.attach()
    expect("its size", run("blockdev", "--getsize64", volume.use()), str(16 << 20))
    volume.leave()
    volume.detach()
    volume.delete()


# Docker unmounts the published volumes when the plugin is disabled. Swarm stages and publishes them again.
def A_plugin_that_was_disabled_and_enabled_has_its_volumes(s):
    volume = Volume(s, "kept")
    volume.attach()
    write(os.path.join(volume.use(), "f"), "kept")
    docker("plugin", "disable", "-f", NAME)
    eventually("Docker has taken the propagated mount away", lambda: not mounts(s.published))  # after it has answered
    s.enable()
    path = volume.use()
    with open(os.path.join(path, "f"), encoding="utf-8") as file:
        expect("what is in it", file.read(), "kept")
    volume.leave()
    volume.detach()
    volume.delete()


# create does not change an existing plugin, and says how to replace it.
def A_plugin_that_is_there_is_not_made_again(s):
    before = inspect()["Id"]
    done = subprocess.run([os.path.join(ROOT, "packaging/docker-plugin/create"), "--image", os.environ["MOORING_PLUGIN_IMAGE"]],
                          capture_output=True, text=True, check=False)
    expect("its exit status", done.returncode, 1)
    for words in ("has a plugin mooring already, enabled", "docker plugin disable mooring", "docker plugin rm mooring",
                  "plugin set", "--name mooring-new"):
        expect_true(f"{words!r} is said by: {done.stderr}", words in done.stderr)
    expect("the plugin then", inspect()["Id"], before)
    expect_true("it serves as before", s.plugin.ready())


def check_ended(work):
    """Removed, it leaves nothing on the host but the state directory."""
    docker("plugin", "disable", "-f", NAME)
    docker("plugin", "rm", NAME)
    expect("the plugins that are left", docker("plugin", "ls", "-q"), "")
    expect("what is mounted still", [mount.target for mount in mounts(os.path.join(work, "docker/data/plugins"))], [])
    eventually("no loop device is left", lambda: not loops())


def main():
    work, wanted = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    tests = [test for name, test in globals().items() if name[0].isupper() and "_" in name and callable(test)]
    failed = run_tests(tests, lambda: Swarm.there(work), Swarm.check_clean, wanted)
    if not failed:
        check_ended(work)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
