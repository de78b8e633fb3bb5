"""The same node with mooring-manager, which runs the plugin. The command line makes and attaches its volumes."""
import json
import os
import signal
import subprocess
import threading
import time

from host import Wrong, eventually, mounts, run
from model import MIB
from rounds import Counting, Rounds
from world import PATIENCE, World

PLUGIN = "mooring.csi"
KILLED = ("manager", "plugin", "helper", "holders")


class ManagerWorld(World):
    """Sends the steps to the manager. It stages a volume by itself, so the steps for that have no call here."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        for directory in ("manager", "srv"):
            os.makedirs(f"{self.work}/{directory}", exist_ok=True)

    def start(self):
        """`self.plugin` is the program that the test starts: the manager."""
        first = not os.listdir(f"{self.work}/manager")
        with open(f"{self.work}/log", "ab") as log:
            self.plugin = subprocess.Popen(
                [f"{self.options.programs}/mooring-manager", "--socket", f"{self.work}/run/manager.sock", "--host", "host-1",
                 "--state-dir", f"{self.work}/manager", "--root", f"{self.work}/node", "--runtime-dir", f"{self.work}/run/plugins"],
                stdout=log, stderr=log, start_new_session=True, cwd="/")
        if first:
            eventually("the manager serves", lambda: self.asks("manager"))
            self.mooring("plugin", "run", PLUGIN, "--exec", f"{self.options.programs}/mooring-plugin", "--", "--state-dir", self.state,
                         "--node-id", self.node_id, "--pool", f"name=default,backend=image,path={self.images}",
                         "--pool", f"name=plain,backend=directory,path={self.plain}",
                         "--pool", "name=memory,backend=tmpfs,size=1GiB")
        eventually("the plugin is ready", self.is_ready, PATIENCE)

    def is_ready(self):
        if self.plugin.poll() is not None:
            raise Wrong(f"the manager ended with status {self.plugin.returncode}")
        return self.asks("plugin", "status", PLUGIN)  # fails if the plugin is not healthy

    def asks(self, *words):
        try:
            return bool(self.mooring(*words))
        except Wrong:
            return False

    def mooring(self, *words):
        done = subprocess.run([f"{self.options.programs}/mooring", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={"PATH": os.environ["PATH"], "MOORING_MANAGER_SOCKET": f"{self.work}/run/manager.sock",
                                   "MOORING_TIMEOUT": str(PATIENCE)})
        if done.returncode != 0:
            raise Wrong(f"mooring {' '.join(words)}: status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def command(self, *words):
        """In the disturbance of the step. After a kill it is repeated until it succeeds, as a person would."""
        disturbance, self.disturbance = self.disturbance, None
        if not disturbance:
            return self.mooring(*words)
        killer = threading.Timer(self.after, lambda: self.do_kill({"who": disturbance}))
        killer.start()
        try:
            self.asks(*words)
        finally:
            killer.join()
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.mooring(*words)
            except Wrong:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def target(self, step):
        return f"{self.work}/srv/{step['volume']}-{step['target']}"

    # Steps

    def do_create(self, step):
        words = ["--block"] if step["block"] else ["--fs-type", step["fs"]] if step["fs"] else []
        words += ["--from-snapshot", self.id(step["source"][1])] if step["source"] else []
        made = json.loads(self.command("volume", "create", step["volume"], "--plugin", PLUGIN, "--size", str(step["size"]),
                                       "--param", f"pool={step['pool']}", *words, "--json"))["volume"]
        self.bytes = int(made["capacity_bytes"])
        self.note_id(step["volume"], made["external_id"])

    def do_delete(self, step):
        self.command("volume", "delete", step["volume"], "--if-exists")

    def do_grow(self, step):
        grown = json.loads(self.command("volume", "expand", step["volume"], "--size", str(step["size"]), "--json"))
        self.bytes = int(grown["volume"]["capacity_bytes"])

    def do_snapshot(self, step):
        made = json.loads(self.command("volume", "snapshot", "create", step["volume"], step["snapshot"], "--json"))
        self.note_id(step["snapshot"], made["snapshot"]["id"])

    def do_unsnapshot(self, step):
        self.command("volume", "snapshot", "delete", self.id(step["snapshot"]), "--plugin", PLUGIN, "--if-exists")

    def do_stage(self, _):
        pass

    def do_unstage(self, _):
        pass

    def do_publish(self, step):
        self.command("attach", step["volume"], self.target(step), "--for", "soak")

    def do_unpublish(self, step):
        self.command("detach", self.target(step), "--if-exists")

    def do_kill(self, step):
        if step["who"] == "manager":
            self.end(signal.SIGKILL)
            self.start()
            return
        self.kill_all({"plugin": "mooring-plugin", "helper": "mooring-mounter", "holders": "mooring-hold"}[step["who"]])
        eventually("the plugin is ready again", self.is_ready, PATIENCE)

    def stop(self):
        self.end(signal.SIGKILL)
        self.kill_all("mooring-plugin")
        super().stop()
        for mount in reversed(mounts(f"{self.work}/srv")):
            run("umount", "-l", mount.target, check=False)

    # Looks

    def check_lists(self, model):
        listed = json.loads(self.mooring("volume", "list", "--json")).get("volumes", [])
        ids, wanted = {one["external_id"] for one in listed}, {self.id(name) for name in model.volumes}
        if ids != wanted:
            raise Wrong(f"the manager has {sorted(ids)}, not {sorted(wanted)}")

    def check_mounts(self, model):
        wanted = [self.target({"volume": volume.name, "target": target}) for volume in model.volumes.values() for target in volume.targets]
        got = [mount.target for mount in mounts(f"{self.work}/srv")]
        if sorted(got) != sorted(wanted):
            raise Wrong(f"mounted are {sorted(got)}, not {sorted(wanted)}")


class CountingManagerWorld(Counting, ManagerWorld):
    def lives(self):
        return {**super().lives(), "plugin": self.pids("mooring-plugin"), "manager": [self.plugin.pid]}


class ManagerRounds(Rounds):
    """The manager has other rules for wrong calls than the model, so all steps here are right ones."""

    def round(self, world, seconds):
        end = time.monotonic() + seconds
        for name in self.residents:
            self.put_up(world, name)
            self.publish_again(world, name, 2)
        while time.monotonic() < end:
            self.change(world, self.chance.choice([name for name in self.residents if self.model.volumes[name].image()]))
            self.kill(world)

    def change(self, world, name):
        """A snapshot, and a volume of it that has the same blocks. Then the volume may grow."""
        volume = self.model.volumes[name]
        self.follow(world, {"do": "snapshot", "snapshot": "s0", "volume": name, **self.disturbance(None)})
        self.follow(world, {"do": "create", "volume": "copy", "pool": volume.pool, "block": volume.block, "fs": volume.fs,
                            "source": ("snapshot", "s0"), "size": volume.size, **self.disturbance(None)})
        self.put_up(world, "copy")
        self.put_down(world, "copy")
        self.follow(world, {"do": "delete", "volume": "copy", **self.disturbance(None)})
        self.follow(world, {"do": "unsnapshot", "snapshot": "s0", **self.disturbance(None)})
        if volume.size < 400 * MIB and volume.fs != "btrfs" and not volume.block and self.chance.random() < 0.1:
            self.put_down(world, name)
            self.follow(world, {"do": "grow", "volume": name, "size": volume.size + 16 * MIB})
            self.put_up(world, name)

    def kill(self, world):
        if not self.generator.calm and self.chance.random() < 0.3:
            self.follow(world, self.chance.choice(({"do": "restart"}, *({"do": "kill", "who": who} for who in KILLED))))

    def disturbance(self, kind):
        if self.generator.calm or self.chance.random() > 0.15:
            return {}
        return {"disturbance": self.chance.choice(KILLED[:3]), "after": round(self.chance.uniform(0, 0.05), 4)}

    def publish_again(self, world, name, times):
        """The manager unstages after the last user. So each attach is also a stage."""
        for _ in range(times):
            self.put_down(world, name)
            self.put_up(world, name)
            self.follow(world, self.a_write(name))
