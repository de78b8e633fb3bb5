"""The Node service: bind mounts of directories and loop devices."""
import os
import stat

import kernel
from call import refuse
from google.protobuf import json_format
from rules import mode_of

ONE_TARGET = ("SINGLE_NODE_WRITER", "SINGLE_NODE_READER_ONLY", "SINGLE_NODE_SINGLE_WRITER")


def as_record(capability):
    return json_format.MessageToDict(capability, preserving_proto_field_name=True)


class Node:
    def __init__(self, csi, store, options):
        self.csi = csi
        self.store = store
        self.options = options

    def NodeGetInfo(self, _):
        answer = self.csi.NodeGetInfoResponse(node_id=self.options.node_id)
        if "topology" in self.options.capabilities:
            answer.accessible_topology.segments["strict.example.org/rack"] = "r1"
        return answer

    def NodeGetCapabilities(self, _):
        kinds = self.csi.NodeServiceCapability.RPC
        answer = self.csi.NodeGetCapabilitiesResponse()
        for name, kind in (("stage", kinds.STAGE_UNSTAGE_VOLUME), ("stats", kinds.GET_VOLUME_STATS),
                           ("node-expand", kinds.EXPAND_VOLUME), ("condition", kinds.VOLUME_CONDITION),
                           ("finer-modes", kinds.SINGLE_NODE_MULTI_WRITER), ("mount-group", kinds.VOLUME_MOUNT_GROUP)):
            if name in self.options.capabilities:
                answer.capabilities.add().rpc.type = kind
        return answer

    def NodeStageVolume(self, call):
        request = call.request
        volume = self._volume_in_use(call)
        path, capability = request.staging_target_path, as_record(request.volume_capability)
        self._forget_what_is_gone(call)
        staged = self.store.stage_of(request.volume_id)
        if staged and staged["path"] != path:
            call.refuse_breach("FAILED_PRECONDITION", "one-staging-path",
                               f"volume {request.volume_id!r} is already staged at {staged['path']}")
        if staged and staged["capability"] != capability:
            call.refuse_breach("ALREADY_EXISTS", "staged-otherwise",
                               f"volume {request.volume_id!r} is staged there with another capability")
        if staged:
            return self.csi.NodeStageVolumeResponse()
        if not os.path.isdir(path) or os.path.islink(path):
            call.refuse_breach("FAILED_PRECONDITION", "staging-directory", f"{path} is no directory")
        if os.listdir(path) or kernel.is_mounted(path):
            call.refuse_breach("FAILED_PRECONDITION", "staging-directory", f"{path} is not empty")
        self._stage(volume, path, request.volume_capability)
        self.store.staged[request.volume_id] = {"path": path, "capability": capability}
        self.store.save()
        return self.csi.NodeStageVolumeResponse()

    def _stage(self, volume, path, capability):
        data = self.store.data_of(volume)
        if volume["block"]:
            if not kernel.devices_of(data):
                kernel.attach(data)
        else:
            kernel.bind(data, path, self._flags(capability))

    def NodeUnstageVolume(self, call):
        request = call.request
        self._need_volume(request.volume_id)
        self._forget_what_is_gone(call)
        targets = self.store.targets_of(request.volume_id)
        if targets:
            call.refuse_breach("FAILED_PRECONDITION", "unstage-published", f"it is still published at {targets}")
        listed = self.store.volumes[request.volume_id].get("targets", [])
        if listed:
            refuse("FAILED_PRECONDITION", f"it has the targets {listed} on record")
        staged = self.store.stage_of(request.volume_id)
        if not staged:
            return self.csi.NodeUnstageVolumeResponse()
        if staged["path"] != request.staging_target_path:
            call.refuse_breach("FAILED_PRECONDITION", "one-staging-path", f"it is staged at {staged['path']}")
        volume = self.store.volumes[request.volume_id]
        if volume["block"]:
            kernel.detach(self.store.data_of(volume))
        else:
            kernel.unmount(staged["path"])
        del self.store.staged[request.volume_id]
        self.store.save()
        return self.csi.NodeUnstageVolumeResponse()

    def NodePublishVolume(self, call):
        request = call.request
        volume = self._volume_in_use(call)
        target = request.target_path
        self._forget_what_is_gone(call)
        self._check_staged(call)
        wanted = {"volume": request.volume_id, "capability": as_record(request.volume_capability),
                  "readonly": request.readonly}
        there = self.store.published.get(target)
        if there and there != wanted:
            call.refuse_breach("ALREADY_EXISTS", "published-otherwise", f"{target} is published with other arguments")
        if there:
            return self.csi.NodePublishVolumeResponse()
        self._check_other_targets(call)
        if not os.path.isdir(os.path.dirname(target)):
            call.refuse_breach("FAILED_PRECONDITION", "target-parent", f"there is no {os.path.dirname(target)}")
        if os.path.lexists(target):
            call.breach("target-exists", f"{target} is there already, and it is the driver that makes it")
        self._publish(volume, target, request)
        self.store.published[target] = wanted
        if self.options.keep_targets:
            volume.setdefault("targets", []).append(target)
        self.store.save()
        return self.csi.NodePublishVolumeResponse()

    def _check_staged(self, call):
        path = call.request.staging_target_path
        if "stage" not in self.options.capabilities:
            if path:
                call.breach("staging-path", "staging_target_path is set, and the driver does not stage")
            return
        staged = self.store.stage_of(call.request.volume_id)
        if not path:
            call.refuse_breach("FAILED_PRECONDITION", "staging-path", "staging_target_path is missing")
        if not staged or staged["path"] != path:
            call.refuse_breach("FAILED_PRECONDITION", "publish-unstaged", f"it is not staged at {path}")
        if staged["capability"] != as_record(call.request.volume_capability):
            call.refuse_breach("FAILED_PRECONDITION", "staged-otherwise", "it is staged with another capability")

    def _check_other_targets(self, call):
        others = self.store.targets_of(call.request.volume_id)
        mode = mode_of(call.request.volume_capability)
        if others and mode in ONE_TARGET:
            call.refuse_breach("FAILED_PRECONDITION", "second-target", f"{mode}: it is published at {others} already")

    def _publish(self, volume, target, request):
        readonly = request.readonly and not self.options.ignore_readonly
        flags = self._flags(request.volume_capability) | (kernel.MS_RDONLY if readonly else 0)
        data = self.store.data_of(volume)
        if not volume["block"]:
            os.makedirs(target, exist_ok=True)
            staged = self.store.stage_of(request.volume_id)
            kernel.bind(staged["path"] if staged else data, target, flags)
            return
        with open(target, "a", encoding="ascii"):
            pass
        # A read-only bind does not keep anybody from writing to the device: the device itself is read-only.
        devices = [] if readonly else kernel.devices_of(data)
        kernel.bind(devices[0] if devices else kernel.attach(data, readonly), target)

    def NodeUnpublishVolume(self, call):
        request = call.request
        self._need_volume(request.volume_id)
        self._forget_what_is_gone(call)
        there = self.store.published.get(request.target_path)
        if there and there["volume"] != request.volume_id:
            call.refuse_breach("INVALID_ARGUMENT", "other-volume", f"{request.target_path} is {there['volume']!r}'s")
        listed = self.store.volumes[request.volume_id].get("targets", [])
        if request.target_path in listed:
            listed.remove(request.target_path)
        if there:
            self._unpublish(request.target_path)
            del self.store.published[request.target_path]
        self.store.save()
        if os.path.isdir(request.target_path):
            os.rmdir(request.target_path)
        elif os.path.lexists(request.target_path):
            os.unlink(request.target_path)
        return self.csi.NodeUnpublishVolumeResponse()

    def _unpublish(self, target):
        device = os.stat(target).st_rdev if stat.S_ISBLK(os.stat(target).st_mode) else None
        kernel.unmount(target)
        volume = self.store.volumes[self.store.published[target]["volume"]]
        last = not [path for path in self.store.targets_of(self.store.published[target]["volume"]) if path != target]
        of_publish_alone = device and "stage" not in self.options.capabilities and last
        is_readonly = self.store.published[target]["readonly"] and not self.options.ignore_readonly
        if of_publish_alone or (device and is_readonly):
            kernel.detach_device(self.store.data_of(volume), device)

    def NodeGetVolumeStats(self, call):
        volume = self._need_volume(call.request.volume_id)
        self._need_path_of_volume(call)
        answer = self.csi.NodeGetVolumeStatsResponse()
        answer.usage.add(unit=self.csi.VolumeUsage.BYTES, total=volume["size"], available=volume["size"])
        if "condition" in self.options.capabilities:
            answer.volume_condition.message = "it is well"
        return answer

    def NodeExpandVolume(self, call):
        request = call.request
        volume = self._need_volume(request.volume_id)
        self._need_path_of_volume(call)
        staged = self.store.stage_of(request.volume_id)
        if staged and request.staging_target_path != staged["path"]:
            call.breach("staging-path", f"it is staged at {staged['path']}, not at {request.staging_target_path!r}")
        least = request.capacity_range.required_bytes
        if "expand" in self.options.capabilities and least > volume["size"]:
            call.refuse_breach("OUT_OF_RANGE", "expand-order", "ControllerExpandVolume has to be called before")
        volume["size"] = max(volume["size"], least)
        volume["node_size"] = volume["size"]
        if volume["block"]:
            kernel.resize(self.store.data_of(volume))
        self.store.save()
        return self.csi.NodeExpandVolumeResponse(capacity_bytes=volume["size"])

    def _need_path_of_volume(self, call):
        self._forget_what_is_gone(call)
        staged = self.store.stage_of(call.request.volume_id)
        paths = self.store.targets_of(call.request.volume_id) + ([staged["path"]] if staged else [])
        if call.request.volume_path not in paths:
            refuse("NOT_FOUND", f"volume {call.request.volume_id!r} is not at {call.request.volume_path}")

    def _need_volume(self, volume_id):
        if volume_id not in self.store.volumes:
            refuse("NOT_FOUND", f"there is no volume {volume_id!r}")
        return self.store.volumes[volume_id]

    def _volume_in_use(self, call):
        """The contexts must be unchanged."""
        volume = self._need_volume(call.request.volume_id)
        check_context(call, volume)
        if volume["block"] != (call.request.volume_capability.WhichOneof("access_type") == "block"):
            refuse("FAILED_PRECONDITION", f"it is a {'block' if volume['block'] else 'mount'} volume")
        if "attach" not in self.options.capabilities:
            if call.request.publish_context:
                call.breach("publish-context", "a publish_context without ControllerPublishVolume")
            return volume
        given = volume["nodes"].get(self.options.node_id)
        if not given:
            call.refuse_breach("FAILED_PRECONDITION", "not-attached", "it is not controller-published to this node")
        if dict(call.request.publish_context) != given["context"]:
            call.refuse_breach("INVALID_ARGUMENT", "publish-context", "publish_context is not what was answered")
        if given["readonly"] and call.method == "NodePublishVolume" and not call.request.readonly:
            call.breach("readonly", "controller-published read-only and published writable")
        return volume

    def _forget_what_is_gone(self, call):
        """Only the driver may unmount a mount of this boot."""
        for volume_id, staged in list(self.store.staged.items()):
            volume = self.store.volumes[volume_id]
            if not (kernel.devices_of(self.store.data_of(volume)) if volume["block"]
                    else kernel.is_mounted(staged["path"])):
                call.breach("foreign-unmount", f"{staged['path']} was staged, and nothing is there any more")
                del self.store.staged[volume_id]
        for target in [target for target in self.store.published if not kernel.is_mounted(target)]:
            call.breach("foreign-unmount", f"{target} was published, and nothing is there any more")
            del self.store.published[target]

    @staticmethod
    def _flags(capability):
        unknown = [flag for flag in capability.mount.mount_flags if flag not in kernel.FLAGS]
        if unknown:
            refuse("INVALID_ARGUMENT", f"{len(unknown)} mount flags are unknown")
        return sum({kernel.FLAGS[flag] for flag in capability.mount.mount_flags})


def check_context(call, volume):
    if dict(call.request.volume_context) != volume["context"]:
        call.refuse_breach("INVALID_ARGUMENT", "volume-context", "volume_context is not what CreateVolume answered")
