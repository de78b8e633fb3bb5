"""mooring-plugin on a machine, and the calls of orchestrators to it."""
import os
import time

from checks import Load
from csi import Plugin, Refused
from host import PATIENCE, Wrong, expect, expect_true
from load import DIRECTORY, Client, Snapshot

SOCKET = "/run/csi.sock"
NODE = "node-1"


def capability(kind):
    access = {"block": {}} if kind.block else {"mount": {"fs_type": kind.fs_type} if kind.fs_type else {}}
    return {**access, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}


class PluginClient(Client):
    kinds = (*Client.kinds, DIRECTORY)

    def __init__(self, machine, number, seed):
        super().__init__(machine, number, seed)
        self.plugin = Plugin(SOCKET)

    def call(self, method, request):
        """Calls again after ABORTED, as an orchestrator does."""
        for _ in range(100):
            try:
                return self.plugin.call(method, request, PATIENCE)
            except Refused as refused:
                if refused.code != "ABORTED":
                    raise Wrong(str(refused)) from None
            time.sleep(0.02)
        raise Wrong(f"{method}: ABORTED for 2 s")

    def staging(self, volume):
        return f"{self.machine.disk}/node/{volume.name}/staging"

    def place(self, volume):
        return f"{self.machine.disk}/node/{volume.name}/target"

    # The controller

    def make(self, volume, source):
        request = {"name": volume.name, "volume_capabilities": [capability(volume.kind)],
                   "parameters": {"pool": volume.kind.pool} if volume.kind.pool else {},
                   "capacity_range": {"required_bytes": volume.size}}
        if isinstance(source, Snapshot):
            request["volume_content_source"] = {"snapshot": {"snapshot_id": source.id}}
        elif source:
            request["volume_content_source"] = {"volume": {"volume_id": source.id}}
        made = self.call("CreateVolume", request).volume
        volume.id = made.volume_id
        return made.capacity_bytes

    def delete_volume(self, volume):
        self.call("DeleteVolume", {"volume_id": volume.id})

    def grow(self, volume, size):
        return self.call("ControllerExpandVolume",
                         {"volume_id": volume.id, "capacity_range": {"required_bytes": size}}).capacity_bytes

    def expand(self, volume):
        super().expand(volume)
        if volume.published:
            request = {"volume_id": volume.id, "volume_path": self.place(volume), "staging_target_path": self.staging(volume)}
            self.step(lambda: self.call("NodeExpandVolume", request), repeats=False)

    def take(self, snapshot, volume):
        made = self.call("CreateSnapshot", {"name": snapshot.name, "source_volume_id": volume.id}).snapshot
        snapshot.id = made.snapshot_id
        expect_true(f"{snapshot} is ready", made.ready_to_use)

    def delete_snapshot(self, snapshot):
        self.call("DeleteSnapshot", {"snapshot_id": snapshot.id})

    # Groups of snapshots

    def actions_of_snapshots(self):
        return [self.snapshot, self.snapshot_group]

    def snapshot_group(self, _):
        """Takes a snapshot of each volume that can be copied, as a group."""
        name = self.new_name("group")
        members = {volume.id: Snapshot(name, volume) for volume in self.volumes if volume.can_be_copied()}
        self.coming = len(members)
        request = {"name": name, "source_volume_ids": list(members)}

        def note(answer):
            expect("the snapshots of the group", {one.source_volume_id for one in answer.group_snapshot.snapshots}, set(members))
            for one in answer.group_snapshot.snapshots:
                members[one.source_volume_id].id = one.snapshot_id
                members[one.source_volume_id].group = answer.group_snapshot.group_snapshot_id
            self.note_snapshots(list(members.values()))

        self.step(lambda: self.call("CreateVolumeGroupSnapshot", request), note)

    def remove_snapshot(self, snapshot):
        if not snapshot.group:
            super().remove_snapshot(snapshot)
            return
        members = [one for one in self.snapshots if one.group == snapshot.group]
        request = {"group_snapshot_id": snapshot.group, "snapshot_ids": [one.id for one in members]}
        self.remove(members, self.snapshots, lambda: self.call("DeleteVolumeGroupSnapshot", request))

    # The node. After a boot, a stage or publish without an answer is not repeated

    def put_up(self, volume):
        os.makedirs(self.staging(volume), exist_ok=True)
        request = {"volume_id": volume.id, "volume_capability": capability(volume.kind)}
        self.step(lambda: self.call("ControllerPublishVolume", {**request, "node_id": NODE}))
        volume.attached = True
        request["staging_target_path"] = self.staging(volume)
        self.step(lambda: self.call("NodeStageVolume", request), repeats=False)
        volume.staged = True
        self.step(lambda: self.call("NodePublishVolume", {**request, "target_path": self.place(volume)}), repeats=False)
        volume.published = True

    def take_down(self, volume):
        request = {"volume_id": volume.id}
        self.step(lambda: self.call("NodeUnpublishVolume", {**request, "target_path": self.place(volume)}))
        volume.published = False
        self.step(lambda: self.call("NodeUnstageVolume", {**request, "staging_target_path": self.staging(volume)}))
        volume.staged = False
        volume.attached = False  # from now on it may be detached
        self.step(lambda: self.call("ControllerUnpublishVolume", {**request, "node_id": NODE}))


class PluginLoad(Load):
    def __init__(self, machine, seed):
        super().__init__(machine, [PluginClient(machine, number, seed) for number in range(3)])
        self.plugin = self.clients[0].plugin
        self.directories = f"{machine.disk}/directories"

    def start(self):
        """The mounts of the boot before are gone."""
        for client in self.clients:
            for volume in client.volumes:
                volume.staged = volume.published = False
        os.makedirs(f"{self.machine.disk}/node", exist_ok=True)
        self.process = self.machine.start(
            "mooring-plugin", "--endpoint", SOCKET, "--state-dir", self.state, "--mount-root", f"{self.machine.disk}/node",
            "--node-id", NODE, "--pool", f"name=directories,backend=directory,path={self.directories}")

    def is_ready(self):
        return self.plugin.ready()

    def answer(self):
        return self.plugin.call("Probe", timeout=2)

    def listed(self):
        """The sizes of the volumes, and the ids of the snapshots."""
        volumes = {}
        for entry in self.plugin.call("ListVolumes").entries:
            volumes[entry.volume.volume_id] = entry.volume.capacity_bytes
        snapshots = [entry.snapshot for entry in self.plugin.call("ListSnapshots").entries]
        expect("the snapshots that are not ready", [one for one in snapshots if not one.ready_to_use], [])
        return volumes, {one.snapshot_id for one in snapshots}

    def check_records(self):
        super().check_records()
        attached = {volume.id for client in self.clients for volume in client.volumes if volume.attached}
        listed = self.plugin.call("ListVolumes").entries
        lost = attached - {entry.volume.volume_id for entry in listed if list(entry.status.published_node_ids) == [NODE]}
        expect("the volumes that are not attached any more", lost, set())

    def check_files(self):
        super().check_files()
        known = {volume.id for client in self.clients for volume in client.volumes if volume.kind.pool}
        expect("the directories", set(os.listdir(self.directories)), known)
