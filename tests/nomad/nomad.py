"""The calls of Nomad to a CSI plugin: their paths and their order, and the calls that Nomad skips.

                   a server                       a client's agent, on each node
   volume create ─▶ CreateVolume        ┌──────▶ NodeStageVolume, NodePublishVolume ─▶ the task's container
   job run ──────▶ ControllerPublish ───┘
   job stop ─────▶ ControllerUnpublish ◀──────── NodeUnpublishVolume, NodeUnstageVolume
"""
import dataclasses
import os
import time
import uuid

from csi import Plugin, Refused
from host import Container, bind, docker, eventually, expect, expect_true, mount_at, remove_containers

PROPAGATION = {"private": "rprivate", "host-to-task": "rslave", "bidirectional": "rshared"}
IGNORED_ON_THE_WAY_DOWN = "NOT_FOUND"
NAMESPACE = "default"


def bytes_of(text):
    units = {"MiB": 1 << 20, "GiB": 1 << 30}
    return int(text[:-3]) * units[text[-3:]]


@dataclasses.dataclass(frozen=True)
class Usage:
    """How a group uses a volume: its `volume` block."""
    access: str = "single-node-writer"
    attachment: str = "file-system"
    read_only: bool = False
    fs_type: str = ""
    mount_flags: tuple = ()

    def __str__(self):
        return f"{'ro' if self.read_only else 'rw'}-{self.attachment}-{self.access}"

    def capability(self, volumes_own=None):
        """`volumes_own`: the mount_options of the volume. The options of the group follow."""
        mode = {"access_mode": {"mode": self.access.replace("-", "_").upper()}}
        if self.attachment == "block-device":
            return {**mode, "block": {}}
        mount = dict(volumes_own or {})
        if self.fs_type:
            mount["fs_type"] = self.fs_type
        if self.mount_flags:
            mount["mount_flags"] = list(self.mount_flags)
        return {**mode, "mount": mount}


@dataclasses.dataclass
class Volume:
    """A volume as Nomad has registered it."""
    id: str
    external_id: str
    context: dict
    secrets: dict
    mount_options: dict = dataclasses.field(default_factory=dict)


class PluginTask:
    """The task of a csi_plugin job in one allocation, as a container."""

    def __init__(self, root, job, state, image, environment=()):
        """`job`: the task's block in the job file."""
        self.job, self.state, self.image, self.environment = job, state, image, list(environment)
        self.csi = job["csi_plugin"][0]
        self.alloc = str(uuid.uuid4())
        self.mounts = os.path.join(root, self.csi["type"], self.csi["id"])
        self.socket_dir = os.path.join(root, "plugins", self.alloc)
        self.plugin = Plugin(os.path.join(self.socket_dir, "csi.sock"))
        self.container = None

    def start(self):
        for made in (self.mounts, self.socket_dir):
            os.makedirs(made, 0o700, exist_ok=True)
        config = self.job["config"][0]
        expect_true("the job binds a state directory", config["volumes"])
        flags = ["--privileged"] if config.get("privileged") else []
        flags += bind(self.socket_dir, self.csi["mount_dir"], "rshared")
        flags += bind(self.mounts, self.csi["stage_publish_base_dir"], "rshared")
        flags += bind("/dev", "/dev") + sum((self._bind_state(wanted) for wanted in config["volumes"]), [])
        for variable in self.environment or [f"CSI_ENDPOINT=unix://{self.csi['mount_dir']}/csi.sock"]:
            flags += ["-e", variable]
        self.container = Container(f"plugin-{self.alloc}-{time.monotonic_ns()}", self.image, config["args"], flags)
        return self

    def _bind_state(self, wanted):
        """`wanted`: host:container, whose host path is replaced, or host:container:mode, which is used unchanged."""
        return ["-v", wanted] if wanted.count(":") == 2 else bind(self.state, wanted.split(":")[1])

    def wait(self):
        eventually("the plugin is ready", self._is_ready)
        return self

    def _is_ready(self):
        expect_true(f"the plugin's container runs: {self.container.log() if not self.container.runs() else ''}",
                    self.container.runs())
        return self.plugin.ready()

    def lose(self, signal="KILL"):
        """Ends the task. `start` starts it again with the same directories, as Nomad does."""
        self.container.kill(signal)
        self.container.remove()

    def call(self, method, request=None, timeout=None):
        return self.plugin.call(method, request, timeout)

    def fingerprint(self):
        """The calls to an instance when it has started, and every 30 s from then on."""
        expect_true("Probe says ready", self.plugin.ready())
        info = self.call("GetPluginInfo", timeout=1)
        capabilities = self.call("GetPluginCapabilities", timeout=1)
        serves = {capability.service.type for capability in capabilities.capabilities}
        if self.csi["type"] != "controller":
            expect_true("the node's id is not empty", self.call("NodeGetInfo", timeout=1).node_id)
            self.call("NodeGetCapabilities", timeout=1)
        if self.csi["type"] != "node":
            expect_true("it says that it serves a controller", 1 in serves)
            self.call("ControllerGetCapabilities", timeout=1)
        return info


class Server:
    """The calls of the servers to a plugin's controller."""

    def __init__(self, task, node):
        self.task, self.node = task, node

    def create(self, volume_id, usage=Usage(), size=16 << 20, parameters=None, secrets=None, source=None):
        request = {"name": volume_id, "capacity_range": {"required_bytes": size}, "parameters": parameters or {},
                   "volume_capabilities": [usage.capability()], "secrets": secrets or {},
                   "accessibility_requirements": {}}  # empty, and there
        if source:
            request["volume_content_source"] = source
        return self._created(request)

    def create_from(self, specification):
        """The requests in a volume's file."""
        options = specification.get("mount_options", [{}])[0]
        usages = [Usage(wanted["access_mode"], wanted["attachment_mode"]) for wanted in specification["capability"]]
        request = {"name": specification["id"], "parameters": specification.get("parameters", [{}])[0],
                   "volume_capabilities": [usage.capability(options) for usage in usages],
                   "capacity_range": {"required_bytes": bytes_of(specification["capacity_min"])},
                   "accessibility_requirements": {}}
        if "capacity_max" in specification:
            request["capacity_range"]["limit_bytes"] = bytes_of(specification["capacity_max"])
        return self._created(request, options)

    def _created(self, request, options=None):
        made = self.task.call("CreateVolume", request).volume
        return Volume(request["name"], made.volume_id, dict(made.volume_context), request.get("secrets", {}),
                      options or {})

    def delete(self, volume):
        self.task.call("DeleteVolume", {"volume_id": volume.external_id, "secrets": volume.secrets})

    def publish(self, volume, usage):
        """Made once for an allocation. Returns the publish context."""
        answer = self.task.call("ControllerPublishVolume", {
            "volume_id": volume.external_id, "node_id": self.node, "readonly": usage.read_only,
            "volume_capability": usage.capability(volume.mount_options), "secrets": volume.secrets,
            "volume_context": volume.context})
        return dict(answer.publish_context)

    def unpublish(self, volume):
        """Made twice for an allocation: when it stops, and when its claim is reaped."""
        for _ in range(2):
            try:
                self.task.call("ControllerUnpublishVolume", {"volume_id": volume.external_id, "node_id": self.node,
                                                             "secrets": volume.secrets})
            except Refused as refused:
                if refused.code != IGNORED_ON_THE_WAY_DOWN:
                    raise


class Agent:
    """A client: mounts volumes for allocations. It knows the users of volumes until it is restarted."""

    def __init__(self, task):
        self.task = task
        self.users = set()

    def restart(self):
        self.users.clear()

    def _paths(self, *below):
        """A path on the host, and in the plugin's container."""
        return (os.path.join(self.task.mounts, *below), os.path.join(self.task.csi["stage_publish_base_dir"], *below))

    def staging(self, volume, usage):
        return self._paths("staging", NAMESPACE, volume.id, str(usage))

    def target(self, volume, alloc, usage):
        return self._paths("per-alloc", alloc, volume.id, str(usage))

    def mount(self, volume, alloc, usage, context):
        """A single attempt, without a deadline. Returns the target on the host."""
        self.stage(volume, usage, context)
        target = self.publish(volume, alloc, usage, context)
        self.users.add((alloc, volume.id, usage))
        return target

    def stage(self, volume, usage, context):
        staging, inside = self.staging(volume, usage)
        os.makedirs(staging, 0o700, exist_ok=True)
        if mount_at(staging):
            return
        self.task.call("NodeStageVolume", {
            "volume_id": volume.external_id, "publish_context": context, "staging_target_path": inside,
            "volume_capability": usage.capability(volume.mount_options), "secrets": volume.secrets,
            "volume_context": volume.context})

    def publish(self, volume, alloc, usage, context):
        target, inside = self.target(volume, alloc, usage)
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        if mount_at(target):
            return target
        self.task.call("NodePublishVolume", {
            "volume_id": volume.external_id, "publish_context": context, "target_path": inside,
            "staging_target_path": self.staging(volume, usage)[1], "readonly": usage.read_only,
            "volume_capability": usage.capability(volume.mount_options), "secrets": volume.secrets,
            "volume_context": volume.context})
        return target

    def unmount(self, volume, alloc, usage):
        """A single attempt, which may raise Refused. Unstages the volume if it has no other known user."""
        target, inside = self.target(volume, alloc, usage)
        self._ask("NodeUnpublishVolume", {"volume_id": volume.external_id, "target_path": inside})
        if os.path.exists(target):
            os.rmdir(target)
        self.users.discard((alloc, volume.id, usage))
        if not any(user[1:] == (volume.id, usage) for user in self.users):
            self._ask("NodeUnstageVolume", {"volume_id": volume.external_id,
                                            "staging_target_path": self.staging(volume, usage)[1]})

    def unmount_until_done(self, volume, alloc, usage):
        """Tries at once, then after 1, 2, 4 … 60 s. Returns the number of tries."""
        delay, tries = 1, 1
        while True:
            try:
                self.unmount(volume, alloc, usage)
                return tries
            except Refused:
                expect_true("it succeeds within ten tries", tries < 10)
            time.sleep(delay)
            delay, tries = min(2 * delay, 60), tries + 1

    def _ask(self, method, request):
        try:
            self.task.call(method, request)
        except Refused as refused:
            if refused.code != IGNORED_ON_THE_WAY_DOWN:
                raise


class Allocation:
    """An allocation of a group that uses a volume; its task is a container."""

    def __init__(self, world, volume, usage=Usage(), propagation="private", image="base"):
        self.world, self.volume, self.usage = world, volume, usage
        self.id = str(uuid.uuid4())
        self.task = None
        context = world.server.publish(volume, usage)
        self.target = world.agent.mount(volume, self.id, usage, context)
        self._start_task(propagation, image)

    def _start_task(self, propagation, image):
        flags = ["--privileged"] if propagation == "bidirectional" or self.usage.attachment == "block-device" else []
        flags += bind(self.target, "/srv", PROPAGATION[propagation], self.usage.read_only)
        self.task = Container(f"task-{self.id}", image, ["sleep", "1000"], flags)

    def sh(self, script):
        return self.task.sh(script)

    def can(self, script):
        return self.task.can(script)

    def stop_task(self):
        self.task.remove()

    def stop(self):
        self.stop_task()
        self.world.agent.unmount(self.volume, self.id, self.usage)
        self.world.server.unpublish(self.volume)


def remove_all_containers():
    names = docker("ps", "-aq").split()
    if names:
        remove_containers(*names)
    expect("the containers that are left", docker("ps", "-aq"), "")
