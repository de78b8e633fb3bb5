#!/usr/bin/python3
"""A CSI plugin for the manager's tests that shares no code with Mooring: each volume is a tmpfs.

A volume's tmpfs is mounted below --data from CreateVolume to DeleteVolume, so its files last as long as on real storage.
Staging and publishing bind it. Sizes are enforced. The records lie beside it as JSON: the plugin may be killed and
started again at any time. The messages are made from csi.proto by protoc when it starts.

It is strict where a manager may be careless. With --controller-publish a node call needs the publish context of this
node. With --token each call that can have secrets needs it. Paths have to be there as the specification says.

With --calls, each call is a line of JSON there: method, request, the code it ended with; never a secret. With --faults, a
file DIR/<Method> injects a fault. "sleep SECONDS" delays the call, and "hang" holds it until the file goes. "CODE words"
is an error instead of the call. "lost CODE words" makes the call and loses its answer.
"""
import argparse
import concurrent.futures
import ctypes
import hashlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import grpc
from google.protobuf import json_format

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_NOATIME = 1, 2, 4, 8, 32, 1024
MS_BIND, MS_PRIVATE, UMOUNT_NOFOLLOW = 4096, 1 << 18, 8
MOUNT_FLAGS = {"ro": MS_RDONLY, "rw": 0, "nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC,
               "noatime": MS_NOATIME}
DEFAULT_SIZE = 16 << 20
ENDS = (signal.SIGTERM, signal.SIGINT)

libc = ctypes.CDLL(None, use_errno=True)


class Refusal(Exception):
    def __init__(self, code, words):
        super().__init__(words)
        self.code = code


def refuse(code, words):
    raise Refusal(getattr(grpc.StatusCode, code), words)


def check(result, what):
    if result != 0:
        refuse("INTERNAL", f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, fs_type, flags, data=""):
    check(libc.mount(source.encode(), target.encode(), fs_type.encode(), ctypes.c_ulong(flags), data.encode()),
          f"mount {target}")


def unmount(target):
    check(libc.umount2(target.encode(), UMOUNT_NOFOLLOW), f"unmount {target}")


def unescape(text):
    return re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), text.encode()).decode(errors="surrogateescape")


def mounts():
    """Gives (target, source, read-only) of each mounted tmpfs; the last mount at a target counts."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            of_mount, of_filesystem = (part.split() for part in line.rstrip("\n").split(" - ", 1))
            if of_filesystem[0] == "tmpfs":
                found.append((unescape(of_mount[4]), unescape(of_filesystem[1]), "ro" in of_mount[5].split(",")))
    return found


def mounted_at(target):
    return next((entry for entry in reversed(mounts()) if entry[0] == target), None)


def load_csi(proto):
    with tempfile.TemporaryDirectory(prefix="tmpfs-plugin-") as made:
        subprocess.run(["protoc", f"--python_out={made}", "-I", os.path.dirname(proto), "-I", "/usr/include", proto],
                       check=True)
        sys.path.insert(0, made)
        sys.dont_write_bytecode = True
        try:
            return importlib.import_module(os.path.basename(proto).replace(".proto", "_pb2"))
        finally:
            sys.path.remove(made)


class Catalog:
    """The volumes. Each has a record and a mounted tmpfs."""

    def __init__(self, directory):
        self.directory = os.path.abspath(directory)
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        self.volumes = {}
        for name in os.listdir(self.directory):
            if name.endswith(".json"):
                with open(os.path.join(self.directory, name), encoding="utf-8") as file:
                    volume = json.load(file)
                self.volumes[volume["id"]] = volume

    def path(self, volume):
        return os.path.join(self.directory, volume["id"])

    def store(self, volume):
        path = self.path(volume) + ".json"
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(volume, file)
        os.rename(path + ".new", path)
        self.volumes[volume["id"]] = volume

    def create(self, name, least, most):
        volume_id = "tmpfs-" + hashlib.sha256(name.encode()).hexdigest()[:16]
        known = self.volumes.get(volume_id)
        if known:
            if known["size"] < least or (most and known["size"] > most):
                refuse("ALREADY_EXISTS", f"volume {name!r} is there with {known['size']} bytes")
            return known
        size = least or min(DEFAULT_SIZE, most or DEFAULT_SIZE)
        volume = {"id": volume_id, "name": name, "size": size, "nodes": {}}
        self.store(volume)
        self.ensure(volume)
        return volume

    def ensure(self, volume):
        """Mounts the tmpfs of a volume with the recorded size; after a reboot it is empty."""
        path = self.path(volume)
        os.makedirs(path, exist_ok=True)
        if mounted_at(path):
            mount(volume["id"], path, "tmpfs", MS_REMOUNT, f"size={volume['size']}")
            return path
        mount(volume["id"], path, "tmpfs", 0, f"size={volume['size']},mode=0755")
        mount("", path, "", MS_PRIVATE)
        return path

    def get(self, volume_id):
        if not volume_id:
            refuse("INVALID_ARGUMENT", "volume_id is missing")
        if volume_id not in self.volumes:
            refuse("NOT_FOUND", f"there is no volume {volume_id!r}")
        return self.volumes[volume_id]

    def delete(self, volume_id):
        volume = self.volumes.get(volume_id)
        if not volume:
            return
        used = [target for target, source, _ in mounts() if source == volume_id and target != self.path(volume)]
        if used or volume["nodes"]:
            refuse("FAILED_PRECONDITION", f"volume {volume_id!r} is in use: {used or list(volume['nodes'])}")
        if mounted_at(self.path(volume)):
            unmount(self.path(volume))
        os.rmdir(self.path(volume))
        os.unlink(self.path(volume) + ".json")
        del self.volumes[volume_id]


class Plugin:
    """Has a method for each call. `csi` is the module with the messages."""

    def __init__(self, csi, options):
        self.csi = csi
        self.options = options
        self.catalog = Catalog(options.data)
        self.started = time.monotonic()

    # Identity

    def GetPluginInfo(self, _):
        return self.csi.GetPluginInfoResponse(name=self.options.name, vendor_version=self.options.version)

    def GetPluginCapabilities(self, _):
        answer = self.csi.GetPluginCapabilitiesResponse()
        kinds = self.csi.PluginCapability
        if not self.options.without_controller:
            answer.capabilities.add().service.type = kinds.Service.CONTROLLER_SERVICE
            answer.capabilities.add().volume_expansion.type = kinds.VolumeExpansion.ONLINE
        return answer

    def Probe(self, _):
        answer = self.csi.ProbeResponse()
        answer.ready.value = time.monotonic() - self.started >= self.options.ready_after
        return answer

    # Controller

    def ControllerGetCapabilities(self, _):
        kinds = self.csi.ControllerServiceCapability.RPC
        types = [kinds.CREATE_DELETE_VOLUME, kinds.LIST_VOLUMES, kinds.EXPAND_VOLUME]
        if self.options.controller_publish:
            types.append(kinds.PUBLISH_UNPUBLISH_VOLUME)
        answer = self.csi.ControllerGetCapabilitiesResponse()
        for kind in types:
            answer.capabilities.add().rpc.type = kind
        return answer

    def CreateVolume(self, request):
        if not request.name or not request.volume_capabilities:
            refuse("INVALID_ARGUMENT", "name and volume_capabilities are needed")
        for capability in request.volume_capabilities:
            self.check_capability(capability)
        if request.HasField("volume_content_source"):
            refuse("INVALID_ARGUMENT", "volumes are never made from others here")
        volume = self.catalog.create(request.name, request.capacity_range.required_bytes,
                                     request.capacity_range.limit_bytes)
        return self.csi.CreateVolumeResponse(volume=self.describe(volume))

    def DeleteVolume(self, request):
        self.catalog.delete(request.volume_id)
        return self.csi.DeleteVolumeResponse()

    def ListVolumes(self, request):
        volumes = sorted(self.catalog.volumes.values(), key=lambda volume: volume["id"])
        try:
            first = int(request.starting_token or 0)
        except ValueError:
            refuse("ABORTED", "starting_token is none of ours")
        page = volumes[first:first + request.max_entries] if request.max_entries else volumes[first:]
        answer = self.csi.ListVolumesResponse()
        for volume in page:
            answer.entries.add().volume.CopyFrom(self.describe(volume))
        if first + len(page) < len(volumes):
            answer.next_token = str(first + len(page))
        return answer

    def ValidateVolumeCapabilities(self, request):
        self.catalog.get(request.volume_id)
        answer = self.csi.ValidateVolumeCapabilitiesResponse()
        try:
            for capability in request.volume_capabilities:
                self.check_capability(capability)
        except Refusal as refusal:
            answer.message = str(refusal)
            return answer
        answer.confirmed.volume_capabilities.extend(request.volume_capabilities)
        return answer

    def ControllerPublishVolume(self, request):
        volume = self.catalog.get(request.volume_id)
        self.check_capability(request.volume_capability)
        if request.node_id != self.options.node_id:
            refuse("NOT_FOUND", f"there is no node {request.node_id!r}")
        volume["nodes"].setdefault(request.node_id, os.urandom(8).hex())
        self.catalog.store(volume)
        return self.csi.ControllerPublishVolumeResponse(publish_context={"ticket": volume["nodes"][request.node_id]})

    def ControllerUnpublishVolume(self, request):
        volume = self.catalog.volumes.get(request.volume_id)
        if volume:
            used = [target for target, source, _ in mounts()
                    if source == request.volume_id and target != self.catalog.path(volume)]
            if used:
                refuse("FAILED_PRECONDITION", f"volume {request.volume_id!r} is still mounted at {used}")
            if request.node_id:
                volume["nodes"].pop(request.node_id, None)
            else:
                volume["nodes"].clear()
            self.catalog.store(volume)
        return self.csi.ControllerUnpublishVolumeResponse()

    def ControllerExpandVolume(self, request):
        volume = self.catalog.get(request.volume_id)
        volume["size"] = max(volume["size"], request.capacity_range.required_bytes)
        self.catalog.store(volume)
        return self.csi.ControllerExpandVolumeResponse(capacity_bytes=volume["size"], node_expansion_required=True)

    # Node

    def NodeGetInfo(self, _):
        return self.csi.NodeGetInfoResponse(node_id=self.options.node_id)

    def NodeGetCapabilities(self, _):
        kinds = self.csi.NodeServiceCapability.RPC
        types = [kinds.EXPAND_VOLUME, kinds.GET_VOLUME_STATS]
        if not self.options.without_stage:
            types.append(kinds.STAGE_UNSTAGE_VOLUME)
        answer = self.csi.NodeGetCapabilitiesResponse()
        for kind in types:
            answer.capabilities.add().rpc.type = kind
        return answer

    def NodeStageVolume(self, request):
        volume = self.check_node_call(request)
        path = self.need_path(request, "staging_target_path")
        if not os.path.isdir(path):
            refuse("FAILED_PRECONDITION", f"the staging directory {path} has to be made first")
        self.bind(volume, self.catalog.ensure(volume), path, self.flags(request.volume_capability))
        return self.csi.NodeStageVolumeResponse()

    def NodeUnstageVolume(self, request):
        self.take_down(self.need_path(request, "staging_target_path"), request.volume_id)
        return self.csi.NodeUnstageVolumeResponse()

    def NodePublishVolume(self, request):
        volume = self.check_node_call(request)
        target = self.need_path(request, "target_path")
        source = self.catalog.path(volume)
        if self.options.without_stage:
            self.catalog.ensure(volume)
        else:
            source = self.need_path(request, "staging_target_path")
            if (mounted_at(source) or ("", "", ""))[1] != volume["id"]:
                refuse("FAILED_PRECONDITION", f"volume {volume['id']!r} is not staged at {source}")
        flags = self.flags(request.volume_capability) | (MS_RDONLY if request.readonly else 0)
        if not os.path.isdir(target):
            os.mkdir(target)
        self.bind(volume, source, target, flags)
        return self.csi.NodePublishVolumeResponse()

    def NodeUnpublishVolume(self, request):
        target = self.need_path(request, "target_path")
        self.take_down(target, request.volume_id)
        if os.path.isdir(target):
            os.rmdir(target)
        return self.csi.NodeUnpublishVolumeResponse()

    def NodeExpandVolume(self, request):
        volume = self.catalog.get(request.volume_id)
        self.need_path(request, "volume_path")
        self.catalog.ensure(volume)
        return self.csi.NodeExpandVolumeResponse(capacity_bytes=volume["size"])

    def NodeGetVolumeStats(self, request):
        self.catalog.get(request.volume_id)
        path = self.need_path(request, "volume_path")
        if (mounted_at(path) or ("", "", ""))[1] != request.volume_id:
            refuse("NOT_FOUND", f"volume {request.volume_id!r} is not mounted at {path}")
        space = os.statvfs(path)
        answer = self.csi.NodeGetVolumeStatsResponse()
        answer.usage.add(unit=self.csi.VolumeUsage.BYTES, total=space.f_blocks * space.f_frsize,
                         available=space.f_bavail * space.f_frsize,
                         used=(space.f_blocks - space.f_bfree) * space.f_frsize)
        return answer

    # Helpers

    def describe(self, volume):
        return self.csi.Volume(volume_id=volume["id"], capacity_bytes=volume["size"],
                               volume_context={"name": volume["name"]})

    def check_capability(self, capability):
        if capability.WhichOneof("access_type") != "mount":
            refuse("INVALID_ARGUMENT", "a tmpfs has no block device: use the file-system attachment mode")
        if not capability.access_mode.mode:
            refuse("INVALID_ARGUMENT", "access_mode is missing")
        if capability.mount.fs_type not in ("", "tmpfs"):
            refuse("INVALID_ARGUMENT", f"fs_type {capability.mount.fs_type!r}: it is always tmpfs here")
        self.flags(capability)

    def check_node_call(self, request):
        volume = self.catalog.get(request.volume_id)
        self.check_capability(request.volume_capability)
        if request.volume_context and request.volume_context.get("name") != volume["name"]:
            refuse("INVALID_ARGUMENT", "volume_context is not the one that CreateVolume gave")
        if self.options.controller_publish:
            ticket = volume["nodes"].get(self.options.node_id)
            if not ticket or request.publish_context.get("ticket") != ticket:
                refuse("FAILED_PRECONDITION", f"volume {volume['id']!r} is not published here with this context")
        return volume

    @staticmethod
    def need_path(request, field):
        path = getattr(request, field)
        if not path.startswith("/"):
            refuse("INVALID_ARGUMENT", f"{field} {path!r} is no absolute path")
        return path

    @staticmethod
    def flags(capability):
        unknown = [flag for flag in capability.mount.mount_flags if flag not in MOUNT_FLAGS]
        if unknown:
            refuse("INVALID_ARGUMENT", f"{len(unknown)} of the mount flags are unknown here")
        return sum({MOUNT_FLAGS[flag] for flag in capability.mount.mount_flags})

    @staticmethod
    def bind(volume, source, target, flags):
        there = mounted_at(target)
        if there and there[1] != volume["id"]:
            refuse("INTERNAL", f"something else is mounted at {target}")
        if there:
            if there[2] != bool(flags & MS_RDONLY):
                refuse("ALREADY_EXISTS", f"it is mounted at {target} {'read-only' if there[2] else 'writable'}")
            return
        mount(source, target, "", MS_BIND)
        if flags:
            mount("", target, "", MS_REMOUNT | MS_BIND | flags)

    @staticmethod
    def take_down(target, volume_id):
        if not volume_id:
            refuse("INVALID_ARGUMENT", "volume_id is missing")
        there = mounted_at(target)
        if there and there[1] != volume_id:
            refuse("INTERNAL", f"{target} is a mount of {there[1]!r}, not of {volume_id!r}")
        if there:
            unmount(target)


class Front:
    """Wraps each call: the token, injected faults, one call at a time, the log."""

    def __init__(self, plugin, options):
        self.plugin = plugin
        self.options = options
        self.one_at_a_time = threading.Lock()
        self.log_lock = threading.Lock()

    def handler(self, method, request_type, response_type):
        def call(request, context):
            code, words, answer = "OK", "", None
            try:
                answer = self.call(method, request)
            except Refusal as refusal:
                code, words = refusal.code.name, str(refusal)
            except OSError as error:
                code, words = "INTERNAL", f"{method}: {error}"
            self.log(method, request, code)
            if answer is None:
                context.abort(getattr(grpc.StatusCode, code), words)
            return answer

        return grpc.unary_unary_rpc_method_handler(call, request_deserializer=request_type.FromString,
                                                   response_serializer=response_type.SerializeToString)

    def call(self, method, request):
        fault = self.fault(method)
        if hasattr(request, "secrets") and self.options.token and request.secrets.get("token") != self.options.token:
            refuse("UNAUTHENTICATED", f"{method}: the secret 'token' is missing or wrong")
        if not hasattr(self.plugin, method):
            refuse("UNIMPLEMENTED", f"{method} is not there")
        if method in ("GetPluginInfo", "Probe"):
            return getattr(self.plugin, method)(request)
        with self.one_at_a_time:
            answer = getattr(self.plugin, method)(request)
        if fault:
            refuse(*fault)
        return answer

    def fault(self, method):
        """Waits or fails as the file says. Gives the error to answer with after the call, or None."""
        path = self.options.faults and os.path.join(self.options.faults, method)
        while path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                word, _, rest = file.read().strip().partition(" ")
            if word == "lost":
                return tuple(rest.split(" ", 1))
            if word == "sleep":
                time.sleep(float(rest))
                return None
            if word != "hang":
                refuse(word, rest)
            time.sleep(0.02)
        return None

    def log(self, method, request, code):
        if not self.options.calls:
            return
        told = json_format.MessageToDict(request, preserving_proto_field_name=True)
        told.pop("secrets", None)
        line = json.dumps({"method": method, "code": code, "pid": os.getpid(), "request": told})
        with self.log_lock, open(self.options.calls, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def services(csi, front, options):
    names = ["Identity"]
    if options.mode != "controller":
        names.append("Node")
    if options.mode != "node" and not options.without_controller:
        names.append("Controller")
    for name in names:
        methods = csi.DESCRIPTOR.services_by_name[name].methods
        handlers = {method.name: front.handler(method.name, getattr(csi, method.input_type.name),
                                               getattr(csi, method.output_type.name)) for method in methods}
        yield grpc.method_handlers_generic_handler("csi.v1." + name, handlers)


def parse_options():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description="A CSI plugin whose volumes are tmpfs, for tests.")
    parser.add_argument("--endpoint", default=os.environ.get("CSI_ENDPOINT"), help="default: CSI_ENDPOINT")
    parser.add_argument("--data", required=True, help="directory of its volumes and records")
    parser.add_argument("--proto", default=os.path.join(here, "../../../csi-spec/csi.proto"))
    parser.add_argument("--name", default="tmpfs.example.org")
    parser.add_argument("--version", default="1")
    parser.add_argument("--node-id", default="tmpfs-node")
    parser.add_argument("--mode", choices=["monolith", "node", "controller"], default="monolith")
    parser.add_argument("--controller-publish", action="store_true", help="volumes have to be published to the node")
    parser.add_argument("--without-stage", action="store_true")
    parser.add_argument("--without-controller", action="store_true")
    parser.add_argument("--ready-after", type=float, default=0, metavar="SECONDS", help="Probe is not ready until then")
    parser.add_argument("--token", help="each call that can have secrets needs this one as 'token'")
    parser.add_argument("--calls", metavar="FILE", help="log of calls")
    parser.add_argument("--faults", metavar="DIR", help="injected faults")
    options = parser.parse_args()
    if not options.endpoint:
        parser.error("give --endpoint or CSI_ENDPOINT")
    return options


def main():
    options = parse_options()
    csi = load_csi(os.path.abspath(options.proto))
    front = Front(Plugin(csi, options), options)
    # In every thread, because a signal that another thread gets would not wake this one.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=64))
    server.add_generic_rpc_handlers(tuple(services(csi, front, options)))
    socket = re.sub(r"^unix:(//)?", "", options.endpoint)
    if server.add_insecure_port("unix:" + socket) == 0:
        sys.exit(f"cannot listen on {socket}")

    server.start()
    print(f"serving {options.name} {options.version} on {socket}", file=sys.stderr, flush=True)
    signal.sigwait(ENDS)
    server.stop(grace=1).wait()


if __name__ == "__main__":
    main()
