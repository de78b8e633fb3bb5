"""A shared pool: two nodes have one directory of images. A volume is used on one of them at a time.

A step has the `node` whose plugin is called. A node that crashes keeps its locks, as at a file server, until its lease
ends. Then it may boot.
"""
import os
import signal

from generator import CALLS, USERS, WEIGHTS, Generator
from host import Wrong, run
from model import NOT_FOUND, OK, PRECONDITION, Model, Snapshot
from world import World

NODES = (0, 1)
ON_ANOTHER_NODE = {  # the volume is used there
    "stage": {PRECONDITION}, "publish": {PRECONDITION}, "unstage": {OK}, "unpublish": {OK}, "node_grow": {NOT_FOUND, PRECONDITION},
    "stats": {NOT_FOUND}}


class SharedModel(Model):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.host = {}  # the node that uses a volume. Its loop device has locked the image
        self.published = {}  # by ControllerPublishVolume
        self.down = {}  # a node that does not run: whether it has its locks still
        self.called = 0

    def is_elsewhere(self, name):
        return self.host.get(name, self.called) != self.called

    def allowed(self, step):
        self.called = step["node"]
        if step["do"] in ON_ANOTHER_NODE and self.is_elsewhere(step["volume"]):
            codes = ON_ANOTHER_NODE[step["do"]]
            return codes | super().allowed(step) if step["do"] == "stage" and self.takes_over(step) else codes
        return super().allowed(step)

    def takes_over(self, step):
        """Only tasks have the device. Here both nodes have one kernel, so a stage finds that device, and takes it."""
        volume = self.volumes[step["volume"]]
        return volume.block and not volume.used()

    def apply(self, step, code):
        if step["do"] == "stage" and code == OK:
            self.host.pop(step["volume"], None)
        if not (step["do"] in ON_ANOTHER_NODE and self.is_elsewhere(step["volume"])):
            super().apply(step, code)
        for name, volume in self.volumes.items():
            if not volume.used() and not volume.tasks:
                self.host.pop(name, None)
            else:
                self.host.setdefault(name, self.called)

    def may_attach(self, step, volume):
        """ControllerPublishVolume to the node `to`."""
        if not volume:
            return {NOT_FOUND}
        published, host = self.published.get(volume.name), self.host.get(volume.name)
        if published is not None:
            return {OK} if published == step["to"] else {PRECONDITION}
        if host is None or step["to"] == step["node"] == host and volume.used():
            return {OK}
        return {PRECONDITION} if volume.used() else {OK, PRECONDITION}

    def done_attach(self, step, _):
        self.published[step["volume"]] = step["to"]

    def may_detach(self, step, volume):
        if not volume or self.published.get(volume.name, step["to"]) != step["to"] or volume.name not in self.host:
            return {OK}
        return {PRECONDITION} if volume.used() else {OK, PRECONDITION}

    def done_detach(self, step, _):
        if self.published.get(step["volume"]) == step["to"]:
            del self.published[step["volume"]]

    def may_delete(self, step, volume):
        return {PRECONDITION} if step["volume"] in self.published else super().may_delete(step, volume)

    def may_stage(self, step, volume):
        codes = super().may_stage(step, volume)
        return codes - {OK} | {PRECONDITION} if self.published.get(step["volume"], step["node"]) != step["node"] else codes

    def may_copy(self, source):
        """Refused on another node. Here both have one kernel, which can flush the device of either."""
        codes = super().may_copy(source)
        return codes | {PRECONDITION} if not isinstance(source, Snapshot) and self.is_elsewhere(source.name) else codes

    def may_group(self, step, volume):
        codes = super().may_group(step, volume)
        return codes | {PRECONDITION} if OK in codes and any(map(self.is_elsewhere, step["volumes"])) else codes

    # The machines

    def end_on(self, node, mounts):
        for name, volume in self.volumes.items():
            if self.host.get(name) == node:
                volume.tasks.clear()
                if mounts:
                    volume.mode = None
                    volume.targets.clear()

    def may_crash(self, *_):
        return {OK}

    may_lease = may_boot = may_crash

    def done_crash(self, step, _):
        self.down[step["node"]] = True
        self.end_on(step["node"], mounts=False)

    def done_lease(self, step, _):
        self.down[step["node"]] = False
        self.end_on(step["node"], mounts=True)

    def done_boot(self, step, _):
        del self.down[step["node"]]

    def done_reboot(self, step, _):
        self.end_on(step["node"], mounts=True)


class SharedGenerator(Generator):
    weights = {**WEIGHTS, "attach": 8, "detach": 8, "crash": 0.4, "lease": 1, "boot": 1}

    def with_node(self, step):
        """Mostly on the node that uses the volume, or that it is published to."""
        name, down = step.get("volume"), self.model.down
        if step["do"] in ("lease", "boot"):
            return step
        node = self.model.host.get(name, self.model.published.get(name))
        if step["do"] not in USERS and (node is None or node in down or self.rarely()):
            node = self.pick(node for node in NODES if node not in down)
        return {"node": node, **step} if self.is_possible({**step, "node": node}) else None

    def is_possible(self, step):
        if step["do"] in ("lease", "boot"):
            return self.model.down.get(step["node"]) == (step["do"] == "lease")
        if step["node"] in self.model.down or step["do"] == "crash" and self.model.down:
            return False
        if step["do"] in USERS and self.model.host.get(step["volume"]) != step["node"]:
            return False
        return super().is_possible(step)

    def at(self, step):
        node = self.model.host.get(step.get("volume"), self.model.published.get(step.get("volume"), 0))
        return {"node": node, **step}

    def mends(self):
        return [{"do": do, "node": node} for node, locks in self.model.down.items() for do in ("lease", "boot")[not locks:]]

    def frees(self, name):
        published = self.model.published.get(name)
        return super().frees(name) + ([] if published is None else [{"do": "detach", "volume": name, "to": published}])

    def a_attach(self):
        return {"volume": self.volume(lambda volume: volume.name not in self.model.published), "to": self.pick(NODES)}

    def a_detach(self):
        name = self.volume(lambda volume: volume.name in self.model.published and volume.name not in self.model.host)
        to = self.model.published.get(name)
        return {"volume": name, "to": self.pick(NODES) if to is None or self.rarely() else to}

    def a_crash(self):
        return {}

    def a_lease(self):
        return self.a_down(True)

    def a_boot(self):
        return self.a_down(False)

    def a_down(self, has_locks):
        return next(({"node": node} for node, locks in self.model.down.items() if locks == has_locks), None)


class SharedWorld(World):
    """A node of the two. The first has the filesystem for the images."""

    def __init__(self, options, work, pool_fs, number, first=None):
        self.number, self.first = number, first
        super().__init__(options, work, pool_fs)
        self.node_id, self.mounts_of_others = f"node-{number}", os.path.dirname(work)
        if first:
            self.images, self.ids = first.images, first.ids

    def make_pool(self):
        if not self.first:
            super().make_pool()
            os.chmod(self.images, 0o700)

    def pools(self):
        return [f"name=default,backend=image,path={self.images},shared=true"]

    def pids(self, name):
        """The helper of this node alone."""
        found = super().pids(name)
        return [pid for pid in found if self.is_of_this_node(pid)] if name == "mooring-mounter" else found

    def is_of_this_node(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as words:
                return f"{self.work}/" in words.read()
        except OSError:
            return False

    def own_devices(self):
        """Leaves those out that the other node uses."""
        others = {f"{self.images}/{self.id(name)}.img" for name, host in self.model.host.items() if host != self.number}
        return self.devices_over(self.images, others)

    def volumes_here(self, model):
        return [volume for name, volume in model.volumes.items() if model.host.get(name) == self.number]

    def do_attach(self, step):
        mode = {"block": bool(step["volume"] in self.model.volumes and self.model.volumes[step["volume"]].block)}
        self.call("ControllerPublishVolume", {"volume_id": self.id(step["volume"]), "node_id": f"node-{step['to']}",
                                              "volume_capability": self.capability(mode)})

    def do_detach(self, step):
        self.call("ControllerUnpublishVolume", {"volume_id": self.id(step["volume"]), "node_id": f"node-{step['to']}"})

    def do_crash(self, _):
        """Its mounts and loop devices stay, as its locks stay at a file server."""
        for name in list(self.tasks):
            self.do_end_task({"task": name})
        self.end(signal.SIGKILL)
        self.kill_all("mooring-mounter")

    def do_lease(self, _):
        self.unmount()

    def do_boot(self, _):
        self.start()

    def change_boot_id(self):
        """The two nodes have one kernel."""

    def check_lists(self, model):
        super().check_lists(model)
        got = {one.volume.volume_id: list(one.status.published_node_ids) for one in self.call("ListVolumes", {}).entries}
        for name in model.volumes:
            wanted = [f"node-{model.published[name]}"] if name in model.published else []
            if got[self.id(name)] != wanted:
                raise Wrong(f"ListVolumes says that {name} is published to {got[self.id(name)]}, not {wanted}")

    def close(self):
        self.stop()
        if not self.first:
            run("umount", "-d", self.images, check=False)


class Nodes:
    """Both worlds as one. Each step is for one of them."""

    def __init__(self, options, work, pool_fs):
        first = SharedWorld(options, f"{work}/0", pool_fs, 0)
        self.now, self.all = first, [first, SharedWorld(options, f"{work}/1", pool_fs, 1, first)]

    def __getattr__(self, name):
        return getattr(self.now, name)

    def start(self):
        for world in self.all:
            world.start()

    def do(self, step):
        self.now = next((world for world in self.all if step.get("task") in world.tasks), self.all[step["node"]])
        self.now.model = self.model
        return self.now.do(step)

    def host_of(self, volume):
        """None while it is down."""
        host = self.model.host[volume.name]
        return None if host in self.model.down else self.all[host]

    def check(self, volume, target):
        if self.host_of(volume):
            self.host_of(volume).check(volume, target)

    def check_read_only(self, volume, target):
        if self.host_of(volume):
            self.host_of(volume).check_read_only(volume, target)

    def check_mounts(self, model):
        for world in self.all:
            world.check_mounts(model)

    def close(self):
        for world in reversed(self.all):
            world.model = self.model
            world.close()
