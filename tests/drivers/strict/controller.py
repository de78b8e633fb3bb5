"""The Controller service: volumes and snapshots, and which node has a volume."""
import hashlib
import os
import time

import kernel
import store
from call import refuse
from node import as_record, check_context
from rules import mode_of

DEFAULT_SIZE = 16 << 20
RACK = {"strict.example.org/rack": "r1"}


class Controller:
    def __init__(self, csi, store_of_driver, options):
        self.csi = csi
        self.store = store_of_driver
        self.options = options

    def ControllerGetCapabilities(self, _):
        kinds = self.csi.ControllerServiceCapability.RPC
        answer = self.csi.ControllerGetCapabilitiesResponse()
        for name, kind in (("create", kinds.CREATE_DELETE_VOLUME), ("attach", kinds.PUBLISH_UNPUBLISH_VOLUME),
                           ("list", kinds.LIST_VOLUMES), ("capacity", kinds.GET_CAPACITY),
                           ("snapshot", kinds.CREATE_DELETE_SNAPSHOT), ("list-snapshots", kinds.LIST_SNAPSHOTS),
                           ("clone", kinds.CLONE_VOLUME), ("readonly-attach", kinds.PUBLISH_READONLY),
                           ("expand", kinds.EXPAND_VOLUME), ("list", kinds.LIST_VOLUMES_PUBLISHED_NODES),
                           ("condition", kinds.VOLUME_CONDITION), ("get", kinds.GET_VOLUME),
                           ("finer-modes", kinds.SINGLE_NODE_MULTI_WRITER), ("modify", kinds.MODIFY_VOLUME),
                           ("get-snapshot", kinds.GET_SNAPSHOT)):
            if name in self.options.capabilities:
                answer.capabilities.add().rpc.type = kind
        return answer

    def CreateVolume(self, call):
        request = call.request
        blocks = {capability.WhichOneof("access_type") == "block" for capability in request.volume_capabilities}
        if len(blocks) > 1:
            refuse("INVALID_ARGUMENT", "a volume is a directory or a block device, not both")
        self._check_options(call)
        least, most = request.capacity_range.required_bytes, request.capacity_range.limit_bytes
        wanted = {"name": request.name, "block": blocks.pop(), "parameters": dict(request.parameters),
                  "source": self._source_of(call)}
        volume_id = f"strict:{hashlib.sha256(request.name.encode()).hexdigest()[:20]}/v"
        known = self.store.volumes.get(volume_id)
        if known:
            same = all(known[key] == value for key, value in wanted.items())
            if not same or known["size"] < least or (most and known["size"] > most):
                refuse("ALREADY_EXISTS", f"volume {request.name!r} is there and is another")
            return self._answer(known)
        source = wanted["source"] and self._record_of(wanted["source"])
        size = max(least or min(DEFAULT_SIZE, most or DEFAULT_SIZE), source["size"] if source else 0)
        if most and size > most:
            refuse("OUT_OF_RANGE", f"the source has {size} bytes")
        volume = self.new_volume(volume_id, wanted["name"], size, wanted["block"], wanted)
        if source:
            self._fill(volume, wanted["source"])
        self.store.volumes[volume_id] = volume
        self.store.save()
        return self._answer(volume)

    def new_volume(self, volume_id, name, size, block, more=None):
        data = hashlib.sha256(volume_id.encode()).hexdigest()[:16] + (".img" if block else "")
        volume = {"id": volume_id, "name": name, "size": size, "block": block, "data": data, "nodes": {},
                  "parameters": {}, "source": None, "context": {"serial": f"of {name}"}, **(more or {})}
        path = self.store.data_of(volume)
        if block:
            with open(path, "ab") as file:
                file.truncate(size)
        else:
            os.makedirs(path, exist_ok=True)
        return volume

    def _check_options(self, call):
        request = call.request
        if request.mutable_parameters and "modify" not in self.options.capabilities:
            call.breach("not-advertised", "mutable_parameters without MODIFY_VOLUME")
        if request.HasField("accessibility_requirements") and "topology" not in self.options.capabilities:
            call.breach("not-advertised", "accessibility_requirements without VOLUME_ACCESSIBILITY_CONSTRAINTS")
        wanted = request.accessibility_requirements
        if self.options.need_topology and RACK not in [dict(one.segments) for one in wanted.requisite]:
            refuse("INVALID_ARGUMENT", "no topology is asked for that is here")
        unknown = set(request.parameters) - {"colour"}
        if unknown:
            refuse("INVALID_ARGUMENT", f"there are no parameters {sorted(unknown)}")

    def _source_of(self, call):
        request = call.request
        if not request.HasField("volume_content_source"):
            return None
        kind = request.volume_content_source.WhichOneof("type")
        if kind is None:
            call.refuse_breach("INVALID_ARGUMENT", "missing-field", "volume_content_source is empty")
        if ("clone" if kind == "volume" else "snapshot") not in self.options.capabilities:
            call.refuse_breach("INVALID_ARGUMENT", "not-advertised", f"no volumes are made of a {kind} here")
        content = getattr(request.volume_content_source, kind)
        source = [kind, content.volume_id if kind == "volume" else content.snapshot_id]
        self._record_of(source)
        return source

    def _record_of(self, source):
        kind, key = source
        known = self.store.volumes if kind == "volume" else self.store.snapshots
        if key not in known:
            refuse("NOT_FOUND", f"there is no {kind} {key!r}")
        return known[key]

    def _fill(self, volume, source):
        record = self._record_of(source)
        if record["block"] != volume["block"]:
            refuse("INVALID_ARGUMENT", "a block device is not made of a directory, nor the other way round")
        path = self.store.data_of(record) if source[0] == "volume" else self.store.snapshot_data(record)
        store.copy(path, self.store.data_of(volume))

    def _describe(self, volume):
        answer = self.csi.Volume(volume_id=volume["id"], capacity_bytes=volume["size"],
                                 volume_context=volume["context"])
        if volume["source"]:
            kind, key = volume["source"]
            if kind == "volume":
                answer.content_source.volume.volume_id = key
            else:
                answer.content_source.snapshot.snapshot_id = key
        if "topology" in self.options.capabilities:
            answer.accessible_topology.add().segments.update(RACK)
        return answer

    def _answer(self, volume):
        return self.csi.CreateVolumeResponse(volume=self._describe(volume))

    def DeleteVolume(self, call):
        volume = self.store.volumes.get(call.request.volume_id)
        if not volume:
            return self.csi.DeleteVolumeResponse()
        places = [*volume["nodes"], *self._places_of(volume)]
        if places:
            call.refuse_breach("FAILED_PRECONDITION", "delete-in-use", f"it is in use: {places}")
        if any(snapshot["source"] == volume["id"] for snapshot in self.store.snapshots.values()):
            refuse("FAILED_PRECONDITION", "it has snapshots: delete those first")
        store.remove(self.store.data_of(volume))
        del self.store.volumes[volume["id"]]
        self.store.save()
        return self.csi.DeleteVolumeResponse()

    def _places_of(self, volume):
        staged = self.store.stage_of(volume["id"])
        return [path for path in self.store.targets_of(volume["id"]) + ([staged["path"]] if staged else [])
                if volume["block"] or kernel.is_mounted(path)]

    def ValidateVolumeCapabilities(self, call):
        self._need_volume(call.request.volume_id)
        answer = self.csi.ValidateVolumeCapabilitiesResponse()
        answer.confirmed.volume_capabilities.extend(call.request.volume_capabilities)
        return answer

    def ControllerPublishVolume(self, call):
        request = call.request
        volume = self._need_volume(request.volume_id)
        check_context(call, volume)
        if request.node_id != self.options.node_id:
            call.refuse_breach("NOT_FOUND", "node-id", f"there is no node {request.node_id!r}")
        if request.readonly and "readonly-attach" not in self.options.capabilities:
            call.breach("readonly", "readonly without PUBLISH_READONLY advertised")
        capability = as_record(request.volume_capability)
        given = volume["nodes"].get(request.node_id)
        if given and (given["readonly"] != request.readonly or given["capability"] != capability):
            call.refuse_breach("ALREADY_EXISTS", "attached-otherwise",
                               "it is published to this node with another capability or readonly")
        if not given:
            context = {"ticket": os.urandom(8).hex(), "mode": mode_of(request.volume_capability)}
            given = {"context": context, "readonly": request.readonly, "capability": capability}
            volume["nodes"][request.node_id] = given
            self.store.save()
        return self.csi.ControllerPublishVolumeResponse(publish_context=given["context"])

    def ControllerUnpublishVolume(self, call):
        request = call.request
        volume = self._need_volume(request.volume_id)
        if request.node_id and request.node_id != self.options.node_id:
            call.refuse_breach("NOT_FOUND", "node-id", f"there is no node {request.node_id!r}")
        places = self._places_of(volume)
        if places:
            call.refuse_breach("FAILED_PRECONDITION", "detach-in-use", f"it is still at {places}")
        volume["nodes"].clear()
        self.store.save()
        return self.csi.ControllerUnpublishVolumeResponse()

    def ControllerExpandVolume(self, call):
        request = call.request
        volume = self._need_volume(request.volume_id)
        if self.options.expand == "offline" and (volume["nodes"] or self._places_of(volume)):
            call.refuse_breach("FAILED_PRECONDITION", "expand-in-use", "it expands only while nobody uses it")
        least, most = request.capacity_range.required_bytes, request.capacity_range.limit_bytes
        size = max(volume["size"], least)
        if most and size > most:
            refuse("OUT_OF_RANGE", f"it has {size} bytes")
        volume["size"] = size
        if volume["block"]:
            os.truncate(self.store.data_of(volume), size)
        self.store.save()
        return self.csi.ControllerExpandVolumeResponse(capacity_bytes=size,
                                                       node_expansion_required="node-expand" in self.options.capabilities)

    def ControllerGetVolume(self, call):
        volume = self._need_volume(call.request.volume_id)
        answer = self.csi.ControllerGetVolumeResponse(volume=self._describe(volume))
        answer.status.published_node_ids.extend(volume["nodes"])
        answer.status.volume_condition.message = "it is well"
        return answer

    def ControllerModifyVolume(self, call):
        self._need_volume(call.request.volume_id)
        return self.csi.ControllerModifyVolumeResponse()

    def GetCapacity(self, _):
        return self.csi.GetCapacityResponse(available_capacity=1 << 40)

    def ListVolumes(self, call):
        page, token = self._page(call, sorted(self.store.volumes))
        answer = self.csi.ListVolumesResponse(next_token=token)
        for volume_id in page:
            entry = answer.entries.add()
            entry.volume.CopyFrom(self._describe(self.store.volumes[volume_id]))
            entry.status.published_node_ids.extend(self.store.volumes[volume_id]["nodes"])
        return answer

    def _page(self, call, ids):
        """A page has a single entry if the caller sets no limit, so the caller has to follow the tokens."""
        token = call.request.starting_token
        if token and token not in ids:
            refuse("ABORTED", f"starting_token {token!r} is none of ours")
        first = ids.index(token) if token else 0
        last = first + (call.request.max_entries or 1)
        return ids[first:last], ids[last] if last < len(ids) else ""

    def CreateSnapshot(self, call):
        request = call.request
        volume = self._need_volume(request.source_volume_id)
        snapshot_id = "snap/" + hashlib.sha256(request.name.encode()).hexdigest()[:20]
        known = self.store.snapshots.get(snapshot_id)
        if known and known["source"] != volume["id"]:
            refuse("ALREADY_EXISTS", f"snapshot {request.name!r} is another volume's")
        if not known:
            known = {"id": snapshot_id, "source": volume["id"], "size": volume["size"], "block": volume["block"],
                     "data": hashlib.sha256(snapshot_id.encode()).hexdigest()[:16], "made": int(time.time())}
            store.copy(self.store.data_of(volume), self.store.snapshot_data(known))
            self.store.snapshots[snapshot_id] = known
            self.store.save()
        return self.csi.CreateSnapshotResponse(snapshot=self._snapshot(known))

    def _snapshot(self, known):
        answer = self.csi.Snapshot(snapshot_id=known["id"], source_volume_id=known["source"], size_bytes=known["size"],
                                   ready_to_use=True)
        answer.creation_time.seconds = known["made"]
        return answer

    def DeleteSnapshot(self, call):
        known = self.store.snapshots.pop(call.request.snapshot_id, None)
        if known:
            store.remove(self.store.snapshot_data(known))
            self.store.save()
        return self.csi.DeleteSnapshotResponse()

    def GetSnapshot(self, call):
        if call.request.snapshot_id not in self.store.snapshots:
            refuse("NOT_FOUND", f"there is no snapshot {call.request.snapshot_id!r}")
        return self.csi.GetSnapshotResponse(snapshot=self._snapshot(self.store.snapshots[call.request.snapshot_id]))

    def ListSnapshots(self, call):
        wanted = [key for key, known in sorted(self.store.snapshots.items())
                  if call.request.source_volume_id in ("", known["source"])
                  and call.request.snapshot_id in ("", key)]
        page, token = self._page(call, wanted)
        answer = self.csi.ListSnapshotsResponse(next_token=token)
        for key in page:
            answer.entries.add().snapshot.CopyFrom(self._snapshot(self.store.snapshots[key]))
        return answer

    def _need_volume(self, volume_id):
        if volume_id not in self.store.volumes:
            refuse("NOT_FOUND", f"there is no volume {volume_id!r}")
        return self.store.volumes[volume_id]
