"""The drivers of other projects: how each is run, and what it can do. tests/drivers/foreign names their directory."""
import json
import os

from drivers import ALL, Driver

DIRECTORY = os.environ.get("MOORING_FOREIGN_DRIVERS", "")

# csi-driver-host-path
HOST_PATH = ("{tool}", "--statedir", "{disk}/driver", "--endpoint", "{endpoint}", "--nodeid", "node-1")

# rawfile-localpv. Its directory of volumes is a constant, so it is started with another one. It reads Kubernetes'
# configuration, although it calls Kubernetes only to expand a volume.
RAWFILE = ("/usr/bin/env", "KUBECONFIG={disk}/driver/config.yaml", f"{DIRECTORY}/venv/bin/python", "-c", """
import os, runpy, sys
program, data, *arguments = sys.argv[1:]
os.chdir(os.path.dirname(program))
sys.path.insert(0, os.getcwd())
import consts
consts.DATA_DIR = data
sys.argv[:] = [program, *arguments]
runpy.run_path(program, run_name="__main__")
""", "{tool}", "{disk}/driver", "csi-driver", "--endpoint", "{endpoint}", "--nodeid", "node-1", "--disable-metrics")
NO_KUBERNETES = {"clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
                 "contexts": [{"name": "none", "context": {"cluster": "none"}}], "current-context": "none"}

# democratic-csi
DEMOCRATIC_NAME = "org.democratic-csi.local-hostpath"
DEMOCRATIC = ("/usr/bin/env", "CSI_NODE_ID=node-1", "{tool}", "--driver-config-file", "{disk}/driver/config.yaml",
              "--csi-version", "1.9.0", "--csi-name", DEMOCRATIC_NAME, "--csi-mode", "controller", "--csi-mode", "node",
              "--server-socket", "{socket}", "--log-level", "info")
LOCAL_DIRECTORIES = {"driver": "local-hostpath", "local-hostpath": {
    "shareBasePath": "{disk}/driver", "controllerBasePath": "{disk}/driver", "dirPermissionsMode": "0777",
    "dirPermissionsUser": 0, "dirPermissionsGroup": 0}}

# spiffe-csi
SPIFFE = ("{tool}", "-node-id", "node-1", "-csi-socket-path", "{socket}", "-workload-api-socket-dir", "{disk}/driver")


def foreign(name, plugin, tool, command, can, **more):
    return Driver(name=name, plugin=plugin, tool=f"{DIRECTORY}/{tool}", command=command, can=frozenset(can), **more)


def host_path(name, *flags):
    return foreign(name, "hostpath.csi.k8s.io", "hostpathplugin", HOST_PATH + flags, set(ALL) | {"ignores-readonly"},
                   without=("a_block_reader_sees_what_a_writer_wrote", "a_block_volume_is_expanded",
                            "a_block_volume_survives_a_reboot"))


DRIVERS = (
    host_path("host-path"),
    host_path("host-path-attach", "--enable-attach"),
    foreign("rawfile", "rawfile.csi.openebs.io", "rawfile-localpv/rawfile.py", RAWFILE, ("mount", "create", "stage"),
            config=json.dumps(NO_KUBERNETES), shared="single-node-writer",
            places=("--topology", "hostname=node-1", "--preferred-topology", "hostname=node-1"),
            without=("a_reader_is_attached_beside_a_writer", "a_writer_is_attached_beside_a_reader",
                     "many_users_of_one_volume_at_once", "many_volumes_at_once", "a_reboot_attaches_volumes_again",
                     "docker_uses_volumes", "a_volume_is_expanded", "a_snapshot_becomes_a_volume")),
    foreign("democratic", DEMOCRATIC_NAME, "democratic-csi/bin/democratic-csi", DEMOCRATIC,
            ("mount", "create", "stage", "snapshot", "lists-none", "clone"), config=json.dumps(LOCAL_DIRECTORIES)),
    foreign("spiffe", "csi.spiffe.io", "spiffe-csi-driver", SPIFFE, ("mount", "readers-only"),
            context="csi.storage.k8s.io/ephemeral=true",
            only=("a_read_only_attachment_takes_no_writes", "a_reader_survives_a_killed_driver_and_a_reboot")),
)
