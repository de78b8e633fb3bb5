"""The real node: mooring-plugin, its mount helper, and users of its volumes. It carries out the steps of a history."""
import contextlib
import errno
import fcntl
import glob
import mmap
import os
import signal
import subprocess
import sys
import threading
import time

from csi import Plugin, Refused
from host import Wrong, eventually, mounts, run
from looks import Looks, bytes_of
from model import BLOCK

NODE = "node-1"
PATIENCE = 60
NO_ANSWER = ("ABORTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
POOL_BYTES = 6 << 30
LOOP_CLR_FD, LOOP_SET_STATUS64, LOOP_GET_STATUS64 = 0x4C01, 0x4C04, 0x4C05
SIZE_OF_LOOP_INFO64, LABEL_AT = 232, 56
HERE = os.path.dirname(os.path.abspath(__file__))


class World(Looks):
    def __init__(self, options, work, pool_fs):
        self.options, self.work, self.pool_fs, self.was_full = options, work, pool_fs, False
        self.ids, self.plugin, self.tasks = {}, None, {}
        self.existing = ()  # the names of volumes and snapshots before the step
        self.disturbance, self.after, self.others = None, 0, []
        self.calm_at = 0  # until then a call may meet another one, or a mount helper that starts
        self.bytes = None  # the capacity in the last answer
        self.state, self.images = f"{work}/state", f"{work}/images"
        for directory in ("state", "images", "plain", "node", "run"):
            os.makedirs(f"{work}/{directory}", exist_ok=True)
        self.make_pool()
        self.csi = Plugin(f"{work}/run/csi.sock", keeps_connection=True)

    def make_pool(self):
        """A filesystem for the images."""
        if self.pool_fs == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", "size=6G", "none", self.images)
            return
        disk = f"{self.work}/disk.img"
        run("truncate", "-s", str(POOL_BYTES), disk)
        run(f"mkfs.{self.pool_fs}", "-q", disk)
        run("mount", "-o", "loop", disk, self.images)

    def pools(self):
        return [f"name=default,backend=image,path={self.images}", f"name=plain,backend=directory,path={self.work}/plain",
                "name=memory,backend=tmpfs,size=1GiB"]

    # Programs

    def start(self):
        log = open(f"{self.work}/log", "ab")  # pylint: disable=consider-using-with
        before = [f"{self.options.programs}/without", self.options.kernel, "--"] if self.options.kernel else []
        self.plugin = subprocess.Popen(
            [*before, f"{self.options.programs}/mooring-plugin", "--endpoint", f"{self.work}/run/csi.sock", "--state-dir", self.state,
             "--mount-root", f"{self.work}/node", "--node-id", NODE, *(word for pool in self.pools() for word in ("--pool", pool))],
            stdout=log, stderr=log, start_new_session=True)
        log.close()
        eventually("the plugin listens", lambda: self.plugin.poll() is not None or os.path.exists(f"{self.work}/run/csi.sock"))
        eventually("the plugin is ready", self.is_ready)

    def is_ready(self):
        if self.plugin.poll() is not None:
            raise Wrong(f"the plugin ended with status {self.plugin.returncode}")
        self.csi.connect_again()
        return self.csi.ready()

    def end(self, sig):
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
        return "OK", ""

    def call(self, method, request):
        """In the disturbance of the step. The last call has the answer, and `others` the codes of those before."""
        disturbance, self.disturbance = self.disturbance, None
        if disturbance:
            self.calm_at = time.monotonic() + PATIENCE
        if disturbance == "cut":
            self.note(method, request, self.after)
        elif disturbance:
            other = threading.Thread(target=self.note, args=(method, request, PATIENCE))
            other.start()
            if disturbance != "twice":
                time.sleep(self.after)
                self.do_kill({"who": disturbance.split("-", maxsplit=1)[0]})
            try:
                return self.call_until_answered(method, request)
            finally:
                other.join()
        return self.call_until_answered(method, request)

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
                is_none = refused.code in ("ABORTED", "UNAVAILABLE") and time.monotonic() <= min(deadline, self.calm_at)
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
        if name in self.existing and self.ids.get(name) != new:
            raise Wrong(f"{name} was {self.ids.get(name)}, and is {new}")
        self.ids[name] = new

    def do_create(self, step):
        request = {"name": step["volume"], "volume_capabilities": [self.capability(step)], "parameters": {"pool": step["pool"]},
                   "capacity_range": {"required_bytes": step["size"]}}
        if step["fs"] and step["pool"] == "default" and not step["source"]:
            request["parameters"]["fsType"] = step["fs"]
        if step["source"]:
            kind, name = step["source"]
            request["volume_content_source"] = {kind: {f"{kind}_id": self.id(name)}}
        made = self.call("CreateVolume", request).volume
        self.bytes = made.capacity_bytes
        self.note_id(step["volume"], made.volume_id)

    def do_delete(self, step):
        self.call("DeleteVolume", {"volume_id": self.id(step["volume"])})

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
        self.ids = {name: one for name, one in self.ids.items() if not name.startswith(f"{step['group']}/")}
        self.ids[step["group"]] = made.group_snapshot_id
        for one in made.snapshots:
            self.ids[f"{step['group']}/{volumes[one.source_volume_id]}"] = one.snapshot_id

    def do_ungroup(self, step):
        members = [one for name, one in self.ids.items() if name.startswith(f"{step['group']}/")]
        self.call("DeleteVolumeGroupSnapshot", {"group_snapshot_id": self.id(step["group"]), "snapshot_ids": members})

    def do_modify(self, step):
        self.call("ControllerModifyVolume", {"volume_id": self.id(step["volume"]), "mutable_parameters": step["parameters"]})

    def do_stage(self, step):
        os.makedirs(self.staging(step), exist_ok=True)
        self.call("NodeStageVolume", {"volume_id": self.id(step["volume"]), "staging_target_path": self.staging(step),
                                      "volume_capability": self.capability(step)})

    def do_unstage(self, step):
        self.call("NodeUnstageVolume", {"volume_id": self.id(step["volume"]), "staging_target_path": self.staging(step)})

    def do_publish(self, step):
        os.makedirs(os.path.dirname(self.target(step)), exist_ok=True)
        self.call("NodePublishVolume", {
            "volume_id": self.id(step["volume"]), "staging_target_path": self.staging(step), "target_path": self.target(step),
            "volume_capability": self.capability(step), "readonly": step["readonly"]})

    def do_unpublish(self, step):
        self.call("NodeUnpublishVolume", {"volume_id": self.id(step["volume"]), "target_path": self.target(step)})

    def do_node_grow(self, step):
        self.call("NodeExpandVolume", {"volume_id": self.id(step["volume"]), "volume_path": self.target(step)})

    def do_stats(self, step):
        self.call("NodeGetVolumeStats", {"volume_id": self.id(step["volume"]), "volume_path": self.target(step)})

    def do_list(self, _):
        pass  # `check_lists` looks after each of these steps

    # Users

    def do_write(self, step):
        path, how = self.file(step, "file" not in step or step["file"] is None), step["how"]
        flags = os.O_RDWR | (0 if step["file"] is None else os.O_CREAT) | (os.O_DIRECT if how == "direct" else 0)
        file = os.open(path, flags, 0o644)
        try:
            at, data = step["block"] * BLOCK, bytes_of(step["number"])
            if how.startswith("mmap"):
                if step["file"] is not None and os.fstat(file).st_size < at + BLOCK:
                    os.ftruncate(file, at + BLOCK)
                with mmap.mmap(file, BLOCK, offset=at) as memory:
                    memory[:] = data
                    if how == "mmap-sync":
                        memory.flush()
            elif how == "direct":
                with mmap.mmap(-1, BLOCK) as memory:  # aligned
                    memory[:] = data
                    os.pwritev(file, [memory], at)
            else:
                os.pwrite(file, data, at)
                if how == "synced":
                    os.fsync(file)
        finally:
            os.close(file)

    def do_overrun(self, step):
        file = os.open(self.target(step), os.O_WRONLY)
        try:
            size = os.lseek(file, 0, os.SEEK_END)
            os.pwrite(file, bytes_of(1), size)
        finally:
            os.close(file)

    def do_attack(self, step):
        """By ioctls of loop(4). The label names the volume of another task."""
        device = os.open(self.target(step), os.O_RDONLY)
        try:
            if step["how"] == "detach":
                fcntl.ioctl(device, LOOP_CLR_FD, 0)
                return
            status = bytearray(SIZE_OF_LOOP_INFO64)
            fcntl.ioctl(device, LOOP_GET_STATUS64, status)
            label = f"mooring:{self.id(step['other'])}".encode()
            status[LABEL_AT:LABEL_AT + 64] = label.ljust(64, b"\0")[:64]
            fcntl.ioctl(device, LOOP_SET_STATUS64, bytes(status))
        finally:
            os.close(device)

    def do_remove(self, step):
        os.unlink(self.file(step, False))

    def do_hold(self, step):
        """A task in a mount namespace of its own writes and keeps its descriptor, and for `mmap` its memory."""
        task = subprocess.Popen(  # pylint: disable=consider-using-with
            ["unshare", "--mount", "--propagation", "private", sys.executable, f"{HERE}/task.py", f"{self.work}/node", self.target(step),
             self.file(step, step["file"] is None), step["how"], str(step["block"] * BLOCK), str(step["number"])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tasks[step["task"]] = task
        answer = task.stdout.readline().strip()
        if answer != "ready":
            raise Wrong(f"the task says {answer!r}")

    def do_end_task(self, step):
        task = self.tasks.pop(step["task"], None)
        if task:
            task.kill()
            task.communicate()

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
        filler = f"{self.images}/.filler"
        self.was_full = True
        if not step["on"]:
            os.unlink(filler)
            subprocess.run(["sync", "-f", self.images], check=True)  # before, btrfs says that the room is still in use
            return
        with open(filler, "wb") as file:
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

    def do_reboot(self, _):
        self.stop()
        self.start()

    def stop(self):
        """Nothing of the node runs or is mounted any more. Its disk stays."""
        for name in list(self.tasks):
            self.do_end_task({"task": name})
        self.end(signal.SIGKILL)
        for name in ("mooring-mounter", "mooring-hold"):
            self.kill_all(name)
        for mount in reversed(mounts(f"{self.work}/node")):
            run("umount", "-l", mount.target, check=False)
        self.detach(self.images)

    @staticmethod
    def devices_over(directory):
        """The loop devices over files there, after those that lie over them."""
        over = {}
        for path in glob.glob("/sys/block/loop*/loop/backing_file"):
            with contextlib.suppress(OSError):
                over["/dev/" + path.split("/")[3]] = open(path, encoding="utf-8").read().strip()
        images = [name for name, file in over.items() if file.startswith(directory + "/")]
        upper = {name for name, file in over.items() if file in images or over.get(file) in images}
        return sorted(upper, key=lambda name: over[name] in images) + images

    @staticmethod
    def detach(directory):
        """All loop devices over files there. Flushes them first, as a shutdown does."""
        for name in World.devices_over(directory):
            run("blockdev", "--flushbufs", name, check=False)
            run("losetup", "-d", name, check=False)

    def close(self):
        self.stop()
        run("umount", "-d", self.images, check=False)

    def log(self, lines=30):
        with open(f"{self.work}/log", encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-lines:])
