"""A CSI client for replays: any call of csi.proto by its name, its request as a dictionary.

Fields are sent as they stand, so that a request can have what an orchestrator's has: a message that is empty and there,
`{"mount": {}}`. The Python messages are made from csi.proto by protoc.
"""
import contextlib
import importlib
import os
import subprocess
import sys
import tempfile

import grpc
from google.protobuf import json_format

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _messages():
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(["protoc", f"-I{ROOT}/csi-spec", f"--python_out={made}", "csi.proto"], check=True)
        sys.path.insert(0, made)
        sys.dont_write_bytecode = True
        try:
            return importlib.import_module("csi_pb2")
        finally:
            sys.path.remove(made)


_csi = _messages()
_methods = {method.name: method for service in _csi.DESCRIPTOR.services_by_name.values() for method in service.methods}


class Refused(Exception):
    """A call ended with an error: its code in the words of gRPC, and the plugin's."""

    def __init__(self, method, code, words):
        super().__init__(f"{method}: {code}: {words}")
        self.method, self.code, self.words = method, code, words


class Plugin:
    """The server at a socket. Each call is made on a connection of its own, if the connection is not kept, and noted in
    `calls`."""

    volumes = set()  # the ids of all that were made, by whichever plugin

    def __init__(self, socket, keeps_connection=False):
        self.socket = socket
        self.calls = []
        self.channel = self._connect() if keeps_connection else None

    def _connect(self):
        return grpc.insecure_channel(f"unix:{self.socket}", options=[("grpc.use_local_subchannel_pool", 1)])

    def connect_again(self):
        """At once, to a server that was started again."""
        self.channel.close()
        self.channel = self._connect()

    def call(self, method, request=None, timeout=None):
        """The answer as a message; Refused. Without a time-out as long as it takes."""
        known = _methods[method]
        message = json_format.ParseDict(request or {}, getattr(_csi, known.input_type.name)())
        self.calls.append((method, request or {}))
        with contextlib.nullcontext(self.channel) if self.channel else self._connect() as channel:
            invoke = channel.unary_unary(f"/{known.containing_service.full_name}/{method}",
                                         request_serializer=known.input_type._concrete_class.SerializeToString,
                                         response_deserializer=known.output_type._concrete_class.FromString)
            try:
                answer = invoke(message, timeout=timeout)
                if method == "CreateVolume":
                    self.volumes.add(answer.volume.volume_id)
                return answer
            except grpc.RpcError as error:
                raise Refused(method, error.code().name, error.details()) from None

    def ready(self):
        """Whether Probe says so; not while nobody serves."""
        try:
            answer = self.call("Probe", timeout=1)
        except Refused as refused:
            if refused.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
                return False
            raise
        return answer.ready.value or not answer.HasField("ready")
