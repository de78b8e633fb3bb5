"""The real node: mooring-plugin, its mount helper, and users of its volumes. It carries out the steps of a history."""
import contextlib
import errno
import glob
import os
import signal
import subprocess
import threading
import time
import uuid

from csi import Plugin, Refused
from host import Wrong, eventually, expect, mounts, run
from looks import Looks
from model import BLOCK
from users import Users

PATIENCE = 60
NO_ANSWER = ("ABORTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
POOL_BYTES = 6 << 30
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class World(Looks, Users):
    pool_bytes = POOL_BYTES
    no_answer = ("ABORTED", "UNAVAILABLE")
    start_within = 30

    def __init__(self, options, work, pool_fs):
        self.options, self.work, self.pool_fs, self.was_full = options, work, pool_fs, False
        self.programs, self.node_id = options.programs, "node-1"
        self.ids, self.plugin, self.tasks = {}, None, {}
        self.model = None  # as it is before the step
        self.disturbance, self.after, self.others = None, 0, []
        self.calm_at = 0  # until then a call may meet another one, or a mount helper that starts
        self.bytes = None  # the capacity in the last answer
        for directory in ("node", "run"):
            os.makedirs(f"{work}/{directory}")
        self.mounts_of_others = f"{work}/node"  # no task sees any mount there but its own
        self.disk = self.make_disk()
        self.state, self.images, self.plain = (f"{self.disk}/{name}" for name in ("state", "images", "plain"))
        for directory in (self.state, self.images, self.plain):
            os.makedirs(directory)
        self.make_pool()
        self.sockets = [f"{work}/run/{name}.sock" for name in ("csi", "csi-2")]
        self.csi = Plugin(self.sockets[0], keeps_connection=True)

    def make_disk(self):
        """The directory of state and pools."""
        return self.work

    def make_pool(self):
        """A filesystem for the images."""
        if self.pool_fs == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", f"size={self.pool_bytes}", "none", self.images)
            return
        self.make_filesystem()

    def make_filesystem(self, *flags):
        disk = f"{self.work}/disk.img"
        run("truncate", "-s", str(self.pool_bytes), disk)
        run(f"mkfs.{self.pool_fs}", "-q", *flags, disk)
        run("mount", "-o", "loop", disk, self.images)

    def pools(self):
        return [f"name=default,backend=image,path={self.images}", f"name=plain,backend=directory,path={self.plain}",
                "name=memory,backend=tmpfs,size=1GiB"]

    # Programs

    def start(self):
        log = open(f"{self.work}/log", "ab")  # pylint: disable=consider-using-with
        before = [f"{self.options.programs}/without", self.options.kernel, "--"] if self.options.kernel else []
        self.plugin = subprocess.Popen(
            [*before, f"{self.programs}/mooring-plugin", "--endpoint", self.csi.socket, "--state-dir", self.state,
             "--mount-root", f"{self.work}/node", "--node-id", self.node_id, *(word for pool in self.pools() for word in ("--pool", pool))],
            stdout=log, stderr=log, start_new_session=True)
        log.close()
        eventually("the plugin listens", lambda: self.plugin.poll() is not None or os.path.exists(self.csi.socket))
        eventually("the plugin is ready", self.is_ready, self.start_within)

    def is_ready(self):
        if self.plugin.poll() is not None:
            raise Wrong(f"the plugin ended with status {self.plugin.returncode}")
        self.csi.connect_again()
        return self.csi.ready()

    def end(self, sig):
        if self.plugin:  # not yet, if a signal ends the player at its start
            self.plugin.send_signal(sig)
            self.plugin.wait(PATIENCE)

    def pids(self, name):
        """The processes of that name in this process namespace."""
        return [int(pid) for pid in run("pgrep", "-x", name, check=False).split()]

    def kill_all(self, name):
        killed = self.pids(name)
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(f"{name} has ended", lambda: not any(map(self.runs, killed)))

    @staticmethod
    def runs(pid):
        with contextlib.suppress(OSError):
            return open(f"/proc/{pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()[0] != "Z"
        return False

    # Paths

    def staging(self, step):
        return f"{self.work}/node/{step['volume']}/staging"

    def target(self, step):
        return f"{self.work}/node/{step['volume']}/targets/{step['target']}"

    def file(self, step, block):
        return self.target(step) if block else f"{self.target(step)}/{step['file']}"

    # Steps. Each returns a code of gRPC, or the name of an errno

    def do(self, step):
        self.disturbance, self.after, self.others = step.get("disturbance"), step.get("after"), []
        self.bytes = None
        try:
            getattr(self, f"do_{step['do']}")(step)
        except Refused as refused:
            return refused.code, refused.words
        except OSError as error:
            return errno.errorcode[error.errno], str(error)
        finally:
            if self.model.full == "bytes" and step["do"] != "fill":
                self.fill()
        return "OK", ""

    def call(self, method, request):
        """In the disturbance of the step. The last call has the answer, and `others` the codes of those before."""
        disturbance, self.disturbance = self.disturbance, None
        if not disturbance:
            return self.call_until_answered(method, request)
        self.calm_at = time.monotonic() + PATIENCE
        with self.disturbed(disturbance, method, request):
            return self.call_until_answered(method, request)

    @contextlib.contextmanager
    def disturbed(self, how, method, request):
        """The call was sent in the disturbance. It may be under way still."""
        if how == "cut":
            self.note(method, request, self.after)
            yield
            return
        other = threading.Thread(target=self.note, args=(method, request, PATIENCE))
        other.start()
        try:
            if how != "twice":
                time.sleep(self.after)
                self.do_kill({"who": how.split("-", maxsplit=1)[0]})
            yield
        finally:
            other.join()

    def note(self, method, request, patience):
        try:
            self.csi.call(method, request, patience)
            self.others.append("OK")
        except Refused as refused:
            if refused.code not in NO_ANSWER and not self.tells_of_a_full_disk(refused):
                self.others.append(refused.code)
        except ValueError:
            pass  # the connection was made anew, after the plugin was killed

    def call_until_answered(self, method, request):
        """Calls again while the answer is none: the mount helper was killed, or another call is at work."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.csi.call(method, request, PATIENCE)
            except Refused as refused:
                is_none = refused.code in self.no_answer and time.monotonic() <= min(deadline, self.calm_at)
                if not is_none and not self.tells_of_a_full_disk(refused):
                    raise
            time.sleep(0.02)

    def tells_of_a_full_disk(self, refused):
        """The next call goes on. The data is compared all the same: this machine has memory for it."""
        return self.was_full and refused.code == "INTERNAL" and "some may be lost" in str(refused)

    @staticmethod
    def capability(step):
        access = {"block": {}} if step["block"] else {"mount": {}}
        return {**access, "access_mode": {"mode": step.get("mode") or "SINGLE_NODE_WRITER"}}

    def id(self, name):
        return self.ids.get(name, f"unknown-{name}")

    def note_id(self, name, new):
        """A volume or snapshot that exists has the same id in each answer."""
        known = (*self.model.volumes, *self.model.snapshots) if self.model else ()
        if name in known and self.ids.get(name) != new:
            raise Wrong(f"{name} was {self.ids.get(name)}, and is {new}")
        self.ids[name] = new

    def do_create(self, step):
        request = {"name": step["volume"], "volume_capabilities": [self.capability(step)], "parameters": {"pool": step["pool"]},
                   "capacity_range": {"required_bytes": step["size"]}}
        if step["fs"] and step["pool"] in ("default", "disks") and not step["source"]:
            request["parameters"]["fsType"] = step["fs"]
        if step.get("device"):
            request["parameters"]["device"] = step["device"]
        if step["source"]:
            kind, name = step["source"]
            request["volume_content_source"] = {kind: {f"{kind}_id": self.id(name)}}
        made = self.call("CreateVolume", request).volume
        self.bytes = made.capacity_bytes
        self.note_id(step["volume"], made.volume_id)

    def do_delete(self, step):
        self.call("DeleteVolume", {"volume_id": self.id(step["volume"])})
        for path in glob.glob(f"{self.work}/node/{step['volume']}/targets/*"):  # a reboot left them. The name is used again
            if not os.path.ismount(path):
                (os.rmdir if os.path.isdir(path) else os.unlink)(path)

    def do_grow(self, step):
        grown = self.call("ControllerExpandVolume", {"volume_id": self.id(step["volume"]),
                                                     "capacity_range": {"required_bytes": step["size"]}})
        self.bytes = grown.capacity_bytes

    def do_snapshot(self, step):
        made = self.call("CreateSnapshot", {"name": step["snapshot"], "source_volume_id": self.id(step["volume"])})
        self.note_id(step["snapshot"], made.snapshot.snapshot_id)
        if not made.snapshot.ready_to_use:
            raise Wrong("the snapshot is not ready")

    def do_unsnapshot(self, step):
        self.call("DeleteSnapshot", {"snapshot_id": self.id(step["snapshot"])})

    def do_group(self, step):
        volumes = {self.id(name): name for name in step["volumes"]}
        made = self.call("CreateVolumeGroupSnapshot", {"name": step["group"], "source_volume_ids": list(volumes)}).group_snapshot
        for name in [name for name in self.ids if name.startswith(f"{step['group']}/")]:
            del self.ids[name]
        self.ids[step["group"]] = made.group_snapshot_id
        for one in made.snapshots:
            self.ids[f"{step['group']}/{volumes[one.source_volume_id]}"] = one.snapshot_id

    def do_ungroup(self, step):
        members = [one for name, one in self.ids.items() if name.startswith(f"{step['group']}/")]
        self.call("DeleteVolumeGroupSnapshot", {"group_snapshot_id": self.id(step["group"]), "snapshot_ids": members})

    def do_modify(self, step):
        self.call("ControllerModifyVolume", {"volume_id": self.id(step["volume"]), "mutable_parameters": step["parameters"]})

    def do_stage(self, step):
        with contextlib.suppress(FileExistsError):  # a filesystem that has failed is there, and cannot be read
            os.makedirs(self.staging(step), exist_ok=True)
        self.call("NodeStageVolume", {"volume_id": self.id(step["volume"]), "staging_target_path": self.staging(step),
                                      "volume_capability": self.capability(step)})

    def do_unstage(self, step):
        self.call("NodeUnstageVolume", {"volume_id": self.id(step["volume"]), "staging_target_path": self.staging(step)})

    def do_publish(self, step):
        os.makedirs(os.path.dirname(self.target(step)), exist_ok=True)
        self.call("NodePublishVolume", self.to_publish(step))

    def to_publish(self, step):
        return {"volume_id": self.id(step["volume"]), "staging_target_path": self.staging(step), "target_path": self.target(step),
                "volume_capability": self.capability(step), "readonly": step["readonly"]}

    def do_unpublish(self, step):
        self.call("NodeUnpublishVolume", self.to_unpublish(step))

    def to_unpublish(self, step):
        return {"volume_id": self.id(step["volume"]), "target_path": self.target(step)}

    def do_node_grow(self, step):
        self.call("NodeExpandVolume", {"volume_id": self.id(step["volume"]), "volume_path": self.target(step)})

    def do_stats(self, step):
        self.call("NodeGetVolumeStats", {"volume_id": self.id(step["volume"]), "volume_path": self.target(step)})

    def do_list(self, _):
        pass  # `check_lists` looks after each of these steps

    # The machine

    def do_kill(self, step):
        self.calm_at = time.monotonic() + PATIENCE
        plugin, name = step["who"] in ("plugin", "all"), {"helper": "mooring-mounter", "holders": "mooring-hold"}
        if plugin:
            self.end(signal.SIGKILL)
        for who in ("helper", "holders"):
            if step["who"] in (who, "all"):
                self.kill_all(name[who])
        if plugin:
            self.start()

    def do_fill(self, step):
        """The disk below the images has no room any more, or again."""
        self.was_full = True
        if step["on"]:
            self.fill()
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.images}/.filler")
        run("sync", "-f", self.images)  # before, btrfs says that the room is still in use
        if self.pool_fs == "tmpfs":
            run("mount", "-o", f"remount,size={self.pool_bytes}", self.images)

    def fill(self):
        """No block is free. Linux 6.18 takes a write of several blocks to a loop device for done if the file has room
        for the first of them."""
        with open(f"{self.images}/.filler", "ab") as file:
            if self.pool_fs == "tmpfs":
                os.posix_fallocate(file.fileno(), 0, BLOCK)
                space = os.statvfs(self.images)
                run("mount", "-o", f"remount,size={(space.f_blocks - space.f_bfree) * space.f_bsize}", self.images)
                return
            size = os.statvfs(self.images).f_bavail * os.statvfs(self.images).f_frsize
            while size >= BLOCK:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def do_restart(self, _):
        self.end(signal.SIGTERM)
        self.start()

    def do_upgrade(self, step):
        """To another build, at another place."""
        self.programs = self.options.other if self.programs == self.options.programs else self.options.programs
        if not step["beside"]:
            self.do_restart(step)
            return
        before = self.plugin
        self.csi.socket = next(socket for socket in self.sockets if socket != self.csi.socket)
        self.start()
        before.terminate()
        expect("the status of the build before", before.wait(PATIENCE), 0)

    def do_reboot(self, _):
        self.stop()
        self.change_boot_id()
        self.start()

    def change_boot_id(self):
        """Records of the boot before are void."""
        with open(f"{self.work}/boot_id", "w", encoding="utf-8") as file:
            file.write(f"{uuid.uuid4()}\n")
        if not mounts(BOOT_ID):
            run("mount", "--bind", f"{self.work}/boot_id", BOOT_ID)

    def stop(self):
        """Nothing of the node runs or is mounted any more. Its disk stays."""
        for name in list(self.tasks):
            self.do_end_task({"task": name})
        self.end(signal.SIGKILL)
        self.kill_all("mooring-mounter")
        self.unmount()

    def unmount(self):
        self.kill_all("mooring-hold")
        for mount in reversed(mounts(f"{self.work}/node")):
            run("umount", "-l", mount.target, check=False)
        self.detach(self.own_devices())

    def own_devices(self):
        return self.devices_over(self.images)

    @staticmethod
    def devices_over(directory, but=()):
        """The loop devices over files there, after those that lie over them."""
        over = {}
        for path in glob.glob("/sys/block/loop*/loop/backing_file"):
            with contextlib.suppress(OSError):
                over["/dev/" + path.split("/")[3]] = open(path, encoding="utf-8").read().strip()
        images = [name for name, file in over.items() if file.startswith(directory + "/") and file not in but]
        upper = {name for name, file in over.items() if file in images or over.get(file) in images}
        return sorted(upper, key=lambda name: over[name] in images) + images

    @staticmethod
    def detach(devices):
        """Flushes them first, as a shutdown does."""
        for name in devices:
            run("blockdev", "--flushbufs", name, check=False)
            run("losetup", "-d", name, check=False)

    def close(self):
        self.stop()
        run("umount", "-d", self.images, check=False)
        run("umount", BOOT_ID, check=False)

    def log(self, lines=30):
        with open(f"{self.work}/log", encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-lines:])
