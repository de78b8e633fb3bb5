"""mooring-manager on a machine with mooring-plugin as its plugin, and the command line that uses it."""
import json
import os
import subprocess

from checks import Load
from host import PATIENCE, Wrong, eventually, expect, mount_at
from load import Client, Snapshot

PLUGIN = "mooring.csi"


class ManagerClient(Client):
    def mooring(self, *words):
        done = subprocess.run([f"{self.machine.programs}/mooring", *words], capture_output=True, text=True, cwd="/",
                              stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "MOORING_TIMEOUT": str(PATIENCE)})
        if done.returncode != 0:
            raise Wrong(f"mooring {' '.join(words)}: status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def asked(self, *words):
        return json.loads(self.mooring(*words, "--json"))

    def place(self, volume):
        return f"{self.machine.disk}/srv/{volume.name}"

    def make(self, volume, source):
        if isinstance(source, Snapshot):
            origin = ["--from-snapshot", source.id]
        else:
            origin = ["--from-volume", source.name] if source else []
        kind = ["--block"] if volume.kind.block else ["--fs-type", volume.kind.fs_type]
        made = self.asked("volume", "create", volume.name, "--plugin", PLUGIN, "--size", str(volume.size), *origin, *kind)
        volume.id = made["volume"]["external_id"]
        return int(made["volume"]["capacity_bytes"])

    def delete_volume(self, volume):
        self.mooring("volume", "delete", volume.name, "--if-exists")

    def grow(self, volume, size):
        return int(self.asked("volume", "expand", volume.name, "--size", str(size))["volume"]["capacity_bytes"])

    def take(self, snapshot, volume):
        snapshot.id = self.asked("volume", "snapshot", "create", volume.name, snapshot.name)["snapshot"]["id"]

    def delete_snapshot(self, snapshot):
        self.mooring("volume", "snapshot", "delete", snapshot.id, "--plugin", PLUGIN, "--if-exists")

    def put_up(self, volume):
        self.step(lambda: self.mooring("attach", volume.name, self.place(volume), "--for", self.name))
        volume.staged = volume.published = True

    def take_down(self, volume):
        volume.published = False  # from now on it may be detached
        self.step(lambda: self.detach(self.place(volume)))
        volume.staged = False

    def detach(self, path):
        eventually(f"{path} is detached", lambda: self.is_detached(path))

    def is_detached(self, path):
        """A program that another client starts has this process's files open for a moment, so an unmount may find one."""
        if path not in self.attached():
            return True
        try:
            self.mooring("detach", path, "--if-exists")
        except Wrong as wrong:
            if "resource busy" not in str(wrong):
                raise
            return False
        return True

    def attached(self):
        return {entry["attach_path"] for entry in self.asked("attachments").get("attachments", [])}


class ManagerLoad(Load):
    def __init__(self, machine, seed):
        super().__init__(machine, [ManagerClient(machine, number, seed) for number in range(3)])
        self.client = self.clients[0]
        self.own_mounts = [f"{machine.disk}/manager/mounts"]

    def start(self):
        """After the first boot, the manager starts the plugin by itself."""
        self.process = self.machine.start("mooring-manager", "--state-dir", f"{self.machine.disk}/manager", "--host", "host-1")
        places = f"{self.machine.disk}/srv"
        if not os.path.exists(places):
            os.makedirs(places)
            eventually("the manager serves", lambda: os.path.exists("/run/mooring/manager.sock"))
            self.client.mooring("plugin", "run", PLUGIN, "--exec", f"{self.machine.programs}/mooring-plugin", "--",
                                "--state-dir", self.state, "--node-id", "node-1")

    def is_ready(self):
        try:
            self.client.mooring("plugin", "status", PLUGIN)  # fails if the plugin is not healthy
        except Wrong:
            return False
        return True

    def answer(self):
        return self.client.mooring("plugin", "status", PLUGIN) + self.client.mooring("events")

    def listed(self):
        volumes = {}
        for volume in self.client.asked("volume", "list").get("volumes", []):
            volumes[volume["external_id"] or volume["key"]["id"]] = int(volume["capacity_bytes"])
        # CSI lists snapshots without their names. So until the manager's record has its id, a snapshot is listed twice.
        eventually("the manager has finished the snapshots", lambda: "" not in self.snapshot_ids())
        return volumes, self.snapshot_ids()

    def snapshot_ids(self):
        snapshots = self.client.asked("volume", "snapshot", "list", "--plugin", PLUGIN).get("snapshots", [])
        return {one["id"] for one in snapshots}

    def check_records(self):
        """Everything that was attached is attached again."""
        super().check_records()
        places = {client.place(volume) for client in self.clients for volume in client.volumes if volume.published}
        eventually(f"{places} are attached", lambda: all(mount_at(place) for place in places))
        expect("the attachments that are lost", places - self.client.attached(), set())

    def check_end(self):
        super().check_end()
        expect("the claims", self.client.asked("claims").get("claims", []), [])
        self.client.mooring("plugin", "stop", PLUGIN)
