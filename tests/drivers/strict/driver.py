#!/usr/bin/python3
"""A CSI driver that applies CSI 1.12 strictly, for tests of programs that call drivers.

It knows its socket by --endpoint alone. Volumes are directories that are bound, and loop devices where they are block
volumes; all of it is below --data and survives a reboot. If its caller breaks a MUST of the specification, the call is refused, if the specification has a code for it. The violation is a line in --violations. A test asserts that there is none. Each call is a line in --calls, without its secrets.
"""
import argparse
import concurrent.futures
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import grpc
from google.protobuf import json_format

sys.dont_write_bytecode = True

from call import Call, Refusal, refuse  # noqa: E402
from controller import Controller  # noqa: E402
from faults import Faults  # noqa: E402
from node import Node  # noqa: E402
from rules import check_request  # noqa: E402
from store import Store  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ENDS = (signal.SIGTERM, signal.SIGINT)
ALL = ("controller", "create", "attach", "readonly-attach", "list", "capacity", "snapshot", "list-snapshots",
       "get-snapshot", "clone", "expand", "get", "modify", "condition", "finer-modes", "topology", "stage", "stats",
       "node-expand", "mount-group")
PROFILES = {"none": (), "plain": ("controller", "create"), "all": ALL}


def load_csi(proto, place):
    """A driver that is killed meanwhile leaves files in `place`, which its test removes."""
    with tempfile.TemporaryDirectory(prefix="strict-driver-", dir=place) as made:
        subprocess.run(["protoc", f"--python_out={made}", "-I", os.path.dirname(proto), proto], check=True)
        sys.path.insert(0, made)
        try:
            return importlib.import_module("csi_pb2")
        finally:
            sys.path.remove(made)


class Identity:
    def __init__(self, csi, options):
        self.csi = csi
        self.options = options
        self.started = time.monotonic()

    def GetPluginInfo(self, _):
        return self.csi.GetPluginInfoResponse(name=self.options.name, vendor_version=self.options.version)

    def GetPluginCapabilities(self, _):
        kinds = self.csi.PluginCapability
        answer = self.csi.GetPluginCapabilitiesResponse()
        if "controller" in self.options.capabilities:
            answer.capabilities.add().service.type = kinds.Service.CONTROLLER_SERVICE
        if "topology" in self.options.capabilities:
            answer.capabilities.add().service.type = kinds.Service.VOLUME_ACCESSIBILITY_CONSTRAINTS
        if "expand" in self.options.capabilities:
            answer.capabilities.add().volume_expansion.type = kinds.VolumeExpansion.Type.Value(
                self.options.expand.upper())
        return answer

    def Probe(self, _):
        answer = self.csi.ProbeResponse()
        answer.ready.value = time.monotonic() - self.started >= self.options.ready_after
        return answer


class Front:
    """Around each call: its rules, the order of calls to one volume, ordered faults, the log."""

    def __init__(self, services, store, options):
        self.services = services
        self.options = options
        self.one_at_a_time = threading.Lock()
        self.faults = Faults(options, store.lives, self.one_at_a_time)
        self.log_lock = threading.RLock()
        self.busy = set()

    def handler(self, method, request_type, response_type):
        def answer(request, context):
            call = Call(method, request, self.note)
            code, words, result = "OK", "", None
            try:
                result = self.make(call)
            except Refusal as refusal:
                code, words = refusal.code, str(refusal)
            except OSError as error:
                code, words = "INTERNAL", f"{method}: {error}"
            except Exception as error:  # a fault of the driver itself: the scenario must fail
                code, words = "INTERNAL", f"{method}: {type(error).__name__}: {error}"
                call.breach("driver-bug", words)
            self.log(call, code, words)
            if result is None:
                context.abort(getattr(grpc.StatusCode, code), words)
            return result

        return grpc.unary_unary_rpc_method_handler(answer, request_deserializer=request_type.FromString,
                                                   response_serializer=response_type.SerializeToString)

    def make(self, call):
        service = next((service for service in self.services if hasattr(service, call.method)), None)
        if service is None:
            call.refuse_breach("UNIMPLEMENTED", "not-advertised", f"{call.method} is not there")
        if isinstance(service, Identity):
            return getattr(service, call.method)(call)
        subject = next((value for field in ("volume_id", "source_volume_id", "name")
                        if (value := getattr(call.request, field, ""))), None)
        kind = "node" if call.method.startswith("Node") else "controller"
        self.enter(call, kind, subject)
        try:
            check_request(call, self.options.capabilities, self.options.token)
            afterwards = self.faults.before(call)
            with self.one_at_a_time:
                answer = getattr(service, call.method)(call)
            afterwards()
            return answer
        finally:
            self.leave(kind, subject)

    def enter(self, call, kind, subject):
        """Allows a single call for a volume at a time. Its caller must see to that for each service.

        Calls of a node and of a controller on another host can meet. Then the caller must try again.
        """
        with self.log_lock:
            under_way = {other for other, busy in self.busy if busy == subject and subject}
            if not under_way:
                self.busy.add((kind, subject))
                return
        words = f"another call for {subject!r} is under way"
        if kind in under_way:
            call.breach("overlap", words)
        refuse("ABORTED", words)

    def leave(self, kind, subject):
        with self.log_lock:
            self.busy.discard((kind, subject))

    def log(self, call, code, words):
        self.append(self.options.calls, call,
                    {"method": call.method, "code": code, "words": words, "pid": os.getpid()})

    def note(self, call, violation):
        """Written at once, because the driver may die in this call."""
        self.append(self.options.violations, call, violation)

    def append(self, path, call, record):
        if not path:
            return
        told = json_format.MessageToDict(call.request, preserving_proto_field_name=True)
        told.pop("secrets", None)
        with self.log_lock, open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({**record, "request": told}) + "\n")


def handlers(csi, front, options):
    names = ["Identity", "Node"] + (["Controller"] if "controller" in options.capabilities else [])
    for name in names:
        methods = csi.DESCRIPTOR.services_by_name[name].methods
        yield grpc.method_handlers_generic_handler(f"csi.v1.{name}", {
            method.name: front.handler(method.name, getattr(csi, method.input_type.name),
                                       getattr(csi, method.output_type.name)) for method in methods})


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endpoint", required=True, help="unix:///path of its socket; no variable is read")
    parser.add_argument("--data", required=True)
    parser.add_argument("--profile", choices=PROFILES, default="all")
    parser.add_argument("--without", action="append", default=[], choices=ALL)
    parser.add_argument("--expand", choices=["online", "offline"], default="online")
    parser.add_argument("--volume", action="append", default=[], metavar="ID:BYTES[:block]", help="is there already")
    parser.add_argument("--name", default="strict.example.org")
    parser.add_argument("--version", default="1.0.0")
    parser.add_argument("--node-id", default="strict-node/1")
    parser.add_argument("--keep-targets", action="store_true",
                        help="list the targets of a volume on disk, also after a reboot, as csi-driver-host-path does")
    parser.add_argument("--ignore-readonly", action="store_true", help="publish writable, whatever is asked for")
    parser.add_argument("--need-topology", action="store_true", help="make no volume without a topology")
    parser.add_argument("--token", help="every call that can have secrets needs this one as 'token'")
    parser.add_argument("--ready-after", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--calls", metavar="FILE")
    parser.add_argument("--violations", metavar="FILE")
    parser.add_argument("--delay", type=int, default=0, metavar="MS")
    parser.add_argument("--gone-every", type=int, default=0, metavar="N")
    parser.add_argument("--control", metavar="DIR")
    parser.add_argument("--proto", default=os.path.join(HERE, "../../../csi-spec/csi.proto"))
    options = parser.parse_args()
    options.capabilities = set(PROFILES[options.profile]) - set(options.without)
    return options


def make_given_volumes(controller, store, options):
    for word in options.volume:
        volume_id, size, *block = word.split(":")
        if volume_id not in store.volumes:
            store.volumes[volume_id] = controller.new_volume(volume_id, volume_id, int(size), block == ["block"])
    store.save()


def main():
    options = parse_options()
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # in every thread, for one that another got would not wake this one
    csi = load_csi(os.path.abspath(options.proto), os.path.dirname(os.path.abspath(options.data)))
    store = Store(options.data)
    controller = Controller(csi, store, options)
    make_given_volumes(controller, store, options)
    services = [Identity(csi, options), Node(csi, store, options)]
    if "controller" in options.capabilities:
        services.append(controller)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=64))
    server.add_generic_rpc_handlers(tuple(handlers(csi, Front(services, store, options), options)))
    socket = options.endpoint.removeprefix("unix://")
    if os.path.lexists(socket):
        os.unlink(socket)
    if server.add_insecure_port("unix:" + socket) == 0:
        sys.exit(f"cannot listen on {socket}")
    server.start()
    signal.sigwait(ENDS)
    server.stop(grace=1).wait()


if __name__ == "__main__":
    main()
