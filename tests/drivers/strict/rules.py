"""The rules of CSI 1.12 for each single request: presence, sizes, paths, capabilities."""
import os

from call import refuse

# CSI 1.12, "Size Limits".
MAX_STRING, MAX_NODE_ID, MAX_MAP, MAX_FLAGS, MAX_PATH = 128, 256, 4096, 4096, 4095

REQUIRED = {
    "CreateVolume": ("name", "volume_capabilities"),
    "DeleteVolume": ("volume_id",),
    "ControllerPublishVolume": ("volume_id", "node_id", "volume_capability"),
    "ControllerUnpublishVolume": ("volume_id",),
    "ValidateVolumeCapabilities": ("volume_id", "volume_capabilities"),
    "ControllerExpandVolume": ("volume_id", "capacity_range"),
    "ControllerGetVolume": ("volume_id",),
    "ControllerModifyVolume": ("volume_id", "mutable_parameters"),
    "CreateSnapshot": ("source_volume_id", "name"),
    "DeleteSnapshot": ("snapshot_id",),
    "GetSnapshot": ("snapshot_id",),
    "NodeStageVolume": ("volume_id", "staging_target_path", "volume_capability"),
    "NodeUnstageVolume": ("volume_id", "staging_target_path"),
    "NodePublishVolume": ("volume_id", "target_path", "volume_capability"),
    "NodeUnpublishVolume": ("volume_id", "target_path"),
    "NodeGetVolumeStats": ("volume_id", "volume_path"),
    "NodeExpandVolume": ("volume_id", "volume_path"),
}

# The capability without which a caller may not make the call.
NEEDS = {
    "CreateVolume": "create", "DeleteVolume": "create", "ControllerPublishVolume": "attach",
    "ControllerUnpublishVolume": "attach", "ListVolumes": "list", "GetCapacity": "capacity",
    "ControllerExpandVolume": "expand", "ControllerGetVolume": "get", "ControllerModifyVolume": "modify",
    "CreateSnapshot": "snapshot", "DeleteSnapshot": "snapshot", "ListSnapshots": "list-snapshots",
    "GetSnapshot": "get-snapshot", "NodeStageVolume": "stage", "NodeUnstageVolume": "stage",
    "NodeGetVolumeStats": "stats", "NodeExpandVolume": "node-expand",
}

# Mooring's `snapshot list` takes no secrets, and the specification makes them optional there.
WITHOUT_SECRETS = ("ListSnapshots",)


def check_request(call, capabilities, token):
    needed = NEEDS.get(call.method)
    if needed and needed not in capabilities:
        call.refuse_breach("UNIMPLEMENTED", "not-advertised", f"{call.method}: {needed!r} is not advertised")
    for field in REQUIRED.get(call.method, ()):
        if not _is_there(call.request, field):
            call.refuse_breach("INVALID_ARGUMENT", "missing-field", f"{field} is missing")
    _check_sizes(call, call.request)
    for capability in _capabilities_of(call.request):
        _check_capability(call, capability, capabilities)
    for field in ("staging_target_path", "target_path", "volume_path"):
        path = getattr(call.request, field, "")
        if path and (not path.startswith("/") or os.path.normpath(path) != path):
            call.refuse_breach("INVALID_ARGUMENT", "path", f"{field} {path!r} is not a plain absolute path")
    _check_range(call)
    if token and hasattr(call.request, "secrets") and call.method not in WITHOUT_SECRETS:
        if call.request.secrets.get("token") != token:
            call.refuse_breach("UNAUTHENTICATED", "secret", f"{call.method}: the secret 'token' is missing or wrong")


def _is_there(request, field):
    descriptor = request.DESCRIPTOR.fields_by_name[field]
    if descriptor.label == descriptor.LABEL_REPEATED or descriptor.message_type is None:
        return bool(getattr(request, field))
    return request.HasField(field)


def _is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _check_sizes(call, message):
    for field, value in message.ListFields():
        if _is_map(field):
            size = sum(len(key.encode()) + len(str(entry).encode()) for key, entry in value.items())
            _check_size(call, field, size, MAX_MAP)
        elif field.message_type is not None:
            for part in value if field.label == field.LABEL_REPEATED else [value]:
                _check_sizes(call, part)
        elif field.name == "mount_flags":
            _check_size(call, field, sum(len(flag.encode()) for flag in value), MAX_FLAGS)
        elif field.type == field.TYPE_STRING:
            most = MAX_PATH if field.name.endswith("_path") else MAX_NODE_ID if field.name == "node_id" else MAX_STRING
            for text in value if field.label == field.LABEL_REPEATED else [value]:
                _check_size(call, field, len(text.encode()), most)


def _check_size(call, field, size, most):
    if size > most:
        call.refuse_breach("INVALID_ARGUMENT", "size", f"{field.name} has {size} bytes, {most} are allowed")


def _capabilities_of(request):
    if hasattr(request, "volume_capabilities"):
        return list(request.volume_capabilities)
    if hasattr(request, "volume_capability") and request.HasField("volume_capability"):
        return [request.volume_capability]
    return []


def _check_capability(call, capability, advertised):
    if capability.WhichOneof("access_type") is None:
        call.refuse_breach("INVALID_ARGUMENT", "capability", "volume_capability has neither mount nor block")
    mode = mode_of(capability)
    if mode == "UNKNOWN":
        call.refuse_breach("INVALID_ARGUMENT", "capability", "access_mode is missing")
    if mode in ("SINGLE_NODE_SINGLE_WRITER", "SINGLE_NODE_MULTI_WRITER") and "finer-modes" not in advertised:
        call.refuse_breach("INVALID_ARGUMENT", "capability", f"{mode} without SINGLE_NODE_MULTI_WRITER advertised")
    if capability.mount.volume_mount_group and "mount-group" not in advertised:
        call.breach("capability", "volume_mount_group without VOLUME_MOUNT_GROUP advertised")
    if capability.mount.fs_type not in ("", "dir"):
        refuse("INVALID_ARGUMENT", f"fs_type {capability.mount.fs_type!r}: volumes are directories here")


def mode_of(capability):
    return capability.access_mode.Mode.Name(capability.access_mode.mode)


def _check_range(call):
    if not hasattr(call.request, "capacity_range") or not call.request.HasField("capacity_range"):
        return
    least, most = call.request.capacity_range.required_bytes, call.request.capacity_range.limit_bytes
    if least < 0 or most < 0 or (least == 0 and most == 0):
        call.refuse_breach("INVALID_ARGUMENT", "capacity", "capacity_range says nothing, or a negative size")
    if most and least > most:
        call.refuse_breach("INVALID_ARGUMENT", "capacity", f"required_bytes {least} are more than limit_bytes {most}")
