"""The kinds of volumes that are measured, and the plain file that each is measured beside."""
import contextlib
import json
import os
import subprocess
import time
import typing

KINDS = ("image", "block", "loop", "directory", "subvolume", "sized")
GIB, MIB = 1 << 30, 1 << 20


class Place(typing.NamedTuple):
    path: str  # of fio's file or device
    plain: str  # the file that it is beside


def run(*command):
    """The output of a command that must succeed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


class Plugin:
    def __init__(self, programs, work, pools):
        self.programs, self.socket, self.log = programs, f"{work}/csi.sock", f"{work}/plugin.log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                [f"{programs}/mooring-plugin", "--endpoint", self.socket, "--state-dir", f"{work}/state", "--mount-root", work,
                 "--node-id", "bench", *(word for pool in pools for word in ("--pool", pool))],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait(self):
        deadline = time.monotonic() + 30
        while subprocess.run([f"{self.programs}/mooring", "csi", "--endpoint", self.socket, "probe"],
                             check=False, capture_output=True).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(self.log, encoding="utf-8") as log:
                    raise SystemExit(f"the plugin does not start:\n{log.readlines()[-1]}")
            time.sleep(0.05)

    def csi(self, *words):
        return run(f"{self.programs}/mooring", "csi", "--endpoint", self.socket, *words)

    def publish(self, name, pool, size, path, capability):
        """Makes a volume, and publishes it at `path`."""
        made = json.loads(self.csi("--json", "create", name, "--size", str(size), "--param", f"pool={pool}", *capability))
        volume, staging = made["volume"]["volume_id"], f"{path}.staging"
        os.mkdir(staging)
        self.csi("stage", volume, "--staging-path", staging, *capability)
        self.csi("publish", volume, "--staging-path", staging, "--target-path", path, *capability)

    def end(self):
        self.process.terminate()
        self.process.wait()


class Bench:
    """Makes each kind below `work`. `clean` takes all away."""

    def __init__(self, programs, work, size):
        self.programs, self.work = programs, work
        self.volume = max(512 * MIB, 2 * size)
        self.disk = max(4 * GIB, 6 * size)  # a btrfs keeps old blocks for a while
        self.clean = contextlib.ExitStack()

    def filesystem(self, name, size, mkfs, *options):
        """A filesystem on a loop device of its own, or None if this kernel does not mount it so."""
        file, path = f"{self.work}/{name}.file", f"{self.work}/{name}"
        run("truncate", "-s", str(size), file)
        device = run("losetup", "--find", "--show", "--direct-io=on", file)
        self.clean.callback(run, "losetup", "-d", device)
        run(*mkfs, device)
        os.mkdir(path)
        mounted = subprocess.run(["mount", *options, device, path], check=False, capture_output=True, text=True)
        if mounted.returncode != 0:
            print(f"{name} is not measured: {mounted.stderr.strip()}", flush=True)
            return None
        self.clean.callback(run, "umount", path)
        return path

    def make(self, kinds):
        """{kind: Place} of the kinds that this kernel has. fio makes the files."""
        pools = {"images": f"backend=image,path={self.work}/images", "plain": f"backend=directory,path={self.work}/directories"}
        plain, places, volumes = f"{self.work}/plain", {}, {}
        os.mkdir(f"{self.work}/images", 0o700)
        for kind in kinds:
            if kind in ("image", "block"):
                volumes[kind] = "images"
                places[kind] = Place(f"{self.work}/{kind}" + "/file" * (kind == "image"), plain)
            elif kind == "directory":
                volumes[kind] = "plain"
                places[kind] = Place(f"{self.work}/directory/file", plain)
            elif kind == "loop":
                mkfs = ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0")
                places[kind] = Place(f"{self.filesystem('bare', self.volume, mkfs)}/file", plain)
            else:
                disk = (self.filesystem("btrfs", self.disk, ("mkfs.btrfs", "-q")) if kind == "subvolume" else
                        self.filesystem("xfs", self.disk, ("mkfs.xfs", "-q"), "-o", "prjquota"))
                if disk is None:
                    continue
                pools[kind] = (f"backend=btrfs,path={disk},quota=advisory" if kind == "subvolume" else
                               f"backend=directory,path={disk}/pool,quota=enforced")
                volumes[kind] = kind
                places[kind] = Place(f"{self.work}/{kind}/file", f"{disk}/plain/file")
        if not places:
            raise SystemExit("this kernel has none of these kinds")
        self.start({name: pool for name, pool in pools.items() if name == "images" or name in volumes.values()}, volumes)
        for place in places.values():
            os.makedirs(os.path.dirname(place.plain), exist_ok=True)  # a btrfs that holds anything else is no pool at the start
        return places

    def start(self, pools, volumes):
        plugin = Plugin(self.programs, self.work, [f"name={name},{pool}" for name, pool in pools.items()])
        self.clean.callback(plugin.end)
        plugin.wait()
        for kind, pool in volumes.items():
            capability = {"image": ["--fs-type", "ext4"], "block": ["--block"]}.get(kind, [])
            plugin.publish(kind, pool, self.volume, f"{self.work}/{kind}", capability)

    def loops(self):
        """{file: whether its loop device has direct I/O}. Without it, memory of the host answers."""
        listed = json.loads(run("losetup", "--list", "--json", "--output", "BACK-FILE,DIO"))["loopdevices"]
        return {os.path.relpath(loop["back-file"], self.work): loop["dio"] in (True, "1") for loop in listed
                if (loop["back-file"] or "").startswith(f"{self.work}/")}
