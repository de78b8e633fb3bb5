"""The kinds of volumes that are measured, and what each is measured beside."""
import contextlib
import json
import os
import subprocess
import time

GIB = 1 << 30


def run(*command):
    """The output of a command that must succeed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


class Plugin:
    """A plugin with the pools of the kinds. Without a pool of a kind, it has no argument for it."""

    def __init__(self, programs, work, pools):
        self.programs, self.socket = programs, f"{work}/csi.sock"
        self.log = f"{work}/plugin.log"
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

    def publish(self, name, pool, path, how):
        """A volume at `path`."""
        made = json.loads(self.csi("--json", "create", name, "--size", str(2 * GIB), "--param", f"pool={pool}", *how))
        volume = made["volume"]["volume_id"]
        os.mkdir(f"{path}.staging")
        self.csi("stage", volume, "--staging-path", f"{path}.staging", *how)
        self.csi("publish", volume, "--staging-path", f"{path}.staging", "--target-path", path, *how)

    def end(self):
        self.process.terminate()
        self.process.wait()


class Bench:
    """Makes each kind below `work`, and takes all away at the end."""

    def __init__(self, programs, work):
        self.programs, self.work = programs, work
        self.clean = contextlib.ExitStack()

    def loop(self, name, size):
        """A loop device with direct I/O over a new file, made by hand."""
        path = f"{self.work}/{name}.file"
        run("truncate", "-s", str(size), path)
        device = run("losetup", "--find", "--show", "--direct-io=on", path)
        self.clean.callback(run, "losetup", "-d", device)
        return device

    def mount(self, device, name, *options):
        path = f"{self.work}/{name}"
        os.mkdir(path)
        run("mount", *options, device, path)
        self.clean.callback(run, "umount", path)
        return path

    def filesystem(self, name, mkfs, *options):
        """A filesystem on a loop device of its own, or None if this kernel does not mount it so."""
        device = self.loop(name, 5 * GIB)
        run(*mkfs, device)
        path = f"{self.work}/{name}"
        os.mkdir(path)
        if subprocess.run(["mount", *options, device, path], check=False, capture_output=True).returncode != 0:
            return None
        self.clean.callback(run, "umount", path)
        return path

    def make(self, kinds):
        """{kind: (the path for fio, the plain file that it is beside)}; a file that does not exist yet is made by fio."""
        plain, pools, wanted, found = f"{self.work}/plain", [], {}, {}
        for kind in kinds:
            if kind in ("image", "block"):
                wanted[kind] = ("images", ["--block"] if kind == "block" else ["--fs-type", "ext4"], plain)
            elif kind == "directory":
                pools.append(f"name=plain,backend=directory,path={self.work}/directories")
                wanted[kind] = ("plain", [], plain)
            elif kind == "loop":
                device = self.loop("bare", 2 * GIB)
                run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
                found[kind] = (f"{self.mount(device, 'bare')}/file", plain)
            elif kind == "subvolume":
                ground = self.filesystem("btrfs", ("mkfs.btrfs", "-q"))
                pools.append(f"name=btrfs,backend=btrfs,path={ground},quota=advisory")
                wanted[kind] = ("btrfs", [], f"{ground}/plain/file")
            elif kind == "sized":
                ground = self.filesystem("xfs", ("mkfs.xfs", "-q"), "-o", "prjquota")
                if ground is None:
                    print("no sized directories: this kernel mounts no xfs with prjquota", flush=True)
                    continue
                pools.append(f"name=sized,backend=directory,path={ground}/pool,quota=enforced")
                wanted[kind] = ("sized", [], f"{ground}/file")
        os.mkdir(f"{self.work}/images", 0o700)
        plugin = Plugin(self.programs, self.work, [f"name=images,backend=image,path={self.work}/images", *pools])
        self.clean.callback(plugin.end)
        plugin.wait()
        for kind, (pool, how, beside) in wanted.items():
            os.makedirs(os.path.dirname(beside), exist_ok=True)  # a pool of subvolumes does not start beside it
            target = f"{self.work}/{kind}"
            plugin.publish(kind, pool, target, how)
            found[kind] = (target if kind == "block" else f"{target}/file", beside)
        return {kind: found[kind] for kind in kinds if kind in found}
