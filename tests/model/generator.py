"""Random steps. Most are right in the present state, and the rest is what an orchestrator in trouble sends."""
from model import MIB, READER_MODES, SHARED, SINGLE, SMALLEST

VOLUMES = [f"v{number}" for number in range(6)]
SNAPSHOTS = [f"s{number}" for number in range(4)]
GROUPS = ["g0", "g1"]
TARGETS = ["a", "b", "c"]
FILES = ["f0", "f1", "f2", "f3"]
TASKS = [f"t{number}" for number in range(3)]
FILE_BLOCKS = 16
HOW = ("plain", "plain", "synced", "mmap", "mmap-sync", "direct")

WEIGHTS = {
    "create": 8, "delete": 4, "grow": 3, "snapshot": 3, "unsnapshot": 2, "group": 1, "ungroup": 1, "modify": 1,
    "stage": 10, "unstage": 6, "publish": 16, "unpublish": 10, "node_grow": 3, "stats": 2,
    "write": 40, "overrun": 1, "remove": 2, "hold": 2, "end_task": 1, "attack": 1, "list": 1, "kill": 1, "restart": 0.4, "upgrade": 0.8, "reboot": 0.2,
}
CALLS = ("create", "delete", "grow", "snapshot", "unsnapshot", "group", "ungroup", "modify", "stage", "unstage", "publish",
         "unpublish", "node_grow", "stats", "attach", "detach")
USERS = ("write", "overrun", "remove", "hold", "attack")


class Generator:
    weights = WEIGHTS

    def __init__(self, chance, model, backends):
        self.chance, self.model, self.backends = chance, model, backends

    def next(self):
        while True:
            kind = self.chance.choices(list(self.weights), list(self.weights.values()))[0]
            step = getattr(self, f"a_{kind}")()
            step = step and self.with_node({"do": kind, **step})
            if step:
                return {**step, **self.disturbance(kind)}

    def with_node(self, step):
        """There is one node."""
        return step

    def is_possible(self, step):
        """When a history is shrunk, steps before were left out: a user may have no target, and a file may be missing."""
        volume = self.model.volumes.get(step.get("volume"))
        if step["do"] in USERS and not (volume and step["target"] in volume.targets):
            return False
        if step["do"] == "fill" and bool(step["on"]) == bool(self.model.full):
            return False
        if step["do"] == "stage" and volume and volume.pool in ("default", "disks") and step["block"] and not volume.block:
            return False
        if step["do"] in ("write", "hold") and (step["file"] is None) != volume.block:
            return False
        if step["do"] in ("overrun", "attack") and not volume.block:
            return False
        if step["do"] in ("write", "hold") and volume.block and step["block"] * 4096 >= min(volume.shown, volume.size):
            return False
        return step["do"] != "group" or all(name in self.model.volumes for name in step["volumes"])

    # The end of a history

    def at(self, step):
        """With the node where it succeeds."""
        return step

    def mends(self):
        """The steps after which all calls are possible."""
        return [{"do": "fill", "on": None}] if self.model.full else []

    def frees(self, name):
        """The steps after which a volume can be deleted."""
        targets = [{"do": "unpublish", "volume": name, "target": target} for target in sorted(self.model.volumes[name].targets)]
        return [*targets, {"do": "unstage", "volume": name}]

    # Choices

    def disturbance(self, kind):
        """A call may be sent twice at once, cut off by its deadline, or meet a kill. Then it is sent again."""
        if kind not in CALLS or self.chance.random() > 0.12:
            return {}
        return {"disturbance": self.pick(("twice", "cut", "cut", "plugin-killed", "helper-killed")),
                "after": round(10 ** self.chance.uniform(-3.5, -1.3), 4)}

    def rarely(self):
        return self.chance.random() < 0.1

    def pick(self, of):
        of = list(of)
        return self.chance.choice(of) if of else None

    def volume(self, condition):
        """A volume of which this is true, or rarely any."""
        fitting = [name for name, volume in self.model.volumes.items() if condition(volume)]
        return self.pick(VOLUMES) if self.rarely() or not fitting else self.pick(fitting)

    # The controller

    def a_create(self):
        free = [name for name in VOLUMES if name not in self.model.volumes]
        name = self.pick(VOLUMES) if self.rarely() or not free else self.pick(free)
        known = self.model.volumes.get(name)
        if known and self.chance.random() < 0.7:  # again
            source = next((one for one in self.sources() if self.model.number_of(one) == known.source), None)
            return {"volume": name, "pool": known.pool, "block": known.block, "fs": known.fs, "source": source,
                    "size": known.size}
        source = self.source() if self.chance.random() < 0.3 else None
        if source:
            of = self.model.source_of({"source": source})
            block = bool(of and of.block and not self.rarely())  # the bytes of a filesystem are not known
            fs = of.fs if of else "ext4"
            pool = "plain" if getattr(of, "pool", None) == "plain" and not self.rarely() else "default"
            return {"volume": name, "pool": pool, "block": block, "fs": None if block else fs, "source": source,
                    "size": of.size if of else 16 * MIB}
        pool, fs = self.pick(self.backends)
        block = pool in ("default", "disks") and fs is None
        size = SMALLEST[fs] + self.pick((0, 4096, MIB)) if pool == "default" else 16 * MIB
        return {"volume": name, "pool": pool, "block": block, "fs": fs, "source": None, "size": size}

    def sources(self):
        return [("volume", name) for name in self.model.volumes] + [("snapshot", name) for name in self.model.snapshots]

    def source(self):
        of = self.sources()
        return self.pick([("snapshot", "s0"), ("volume", "v0")] if self.rarely() or not of else of)

    def a_delete(self):
        name = self.volume(lambda volume: not volume.used())
        volume = self.model.volumes.get(name)
        if volume and volume.used() and self.chance.random() < 0.8:
            return None  # the plugin waits half a second for its end
        return {"volume": name}

    def a_grow(self):
        name = self.volume(lambda volume: volume.image() and volume.size < 400 * MIB)
        volume = self.model.volumes.get(name)
        size = volume.size if volume else MIB
        more = MIB // 4 if volume and volume.block else 16 * MIB
        return {"volume": name, "size": self.pick((size // 2 // 4096 * 4096 or 4096, size, size + 4096, size + more))}

    def a_snapshot(self):
        return {"snapshot": self.pick(SNAPSHOTS), "volume": self.volume(lambda volume: volume.image())}

    def a_unsnapshot(self):
        return {"snapshot": self.pick(self.model.snapshots if self.rarely() and self.model.snapshots else SNAPSHOTS)}

    def a_group(self):
        images = [name for name, volume in self.model.volumes.items() if volume.image()]
        if not images:
            return None
        return {"group": self.pick(GROUPS),
                "volumes": sorted(self.chance.sample(images, self.chance.randint(1, min(3, len(images)))))}

    def a_ungroup(self):
        return {"group": self.pick(GROUPS)}

    def a_modify(self):
        values = ({"readAhead": "128KiB"}, {"readAhead": "0"}, {"noatime": "true"}, {"noatime": "false"})
        return {"volume": self.volume(lambda volume: True), "parameters": self.pick(values)}

    # The node

    def a_stage(self):
        name = self.volume(lambda volume: not volume.mode)
        volume = self.model.volumes.get(name)
        block = volume.block if volume else False
        mode = self.pick(READER_MODES) if self.rarely() else self.pick(SINGLE[:2] + SHARED[:2])
        if volume and volume.mode and not self.rarely():
            mode = volume.mode
        if volume and (volume.block or volume.pool in ("plain", "memory")) and self.chance.random() < 0.03:
            block = not block
        return {"volume": name, "block": block, "mode": mode}

    def a_unstage(self):
        return {"volume": self.volume(lambda volume: volume.mode and not volume.targets)}

    def a_publish(self):
        name = self.volume(lambda volume: volume.mode)
        volume = self.model.volumes.get(name)
        mode = volume.mode if volume and volume.mode and not self.rarely() else self.pick(SINGLE + SHARED)
        return {"volume": name, "target": self.pick(TARGETS), "block": volume.block if volume else False, "mode": mode,
                "readonly": self.chance.random() < 0.25}

    def a_unpublish(self):
        return self.at_target(lambda volume: True)

    def a_node_grow(self):
        return self.at_target(lambda volume: volume.shown < volume.size)

    def a_stats(self):
        return self.at_target(lambda volume: True)

    def at_target(self, condition):
        name = self.volume(lambda volume: volume.targets and condition(volume))
        volume = self.model.volumes.get(name)
        known = volume and volume.targets and not self.rarely()
        return {"volume": name, "target": self.pick(volume.targets if known else TARGETS)}

    # Users

    def place(self):
        """A target that exists, and a block there."""
        used = [(name, target) for name, volume in self.model.volumes.items() for target in volume.targets]
        if not used:
            return None
        name, target = self.pick(used)
        volume = self.model.volumes[name]
        blocks = min(volume.shown, volume.size) // 4096 if volume.block else FILE_BLOCKS
        if volume.block and self.chance.random() < 0.1:
            block = blocks - 1
        else:
            block = self.chance.randrange(blocks)
        return {"volume": name, "target": target, "file": None if volume.block else self.pick(FILES), "block": block,
                "number": self.model.new_number()}

    def a_write(self):
        place = self.place()
        if not place:
            return None
        volume = self.model.volumes[place["volume"]]
        how = self.pick(HOW)
        if how == "direct" and volume.pool == "memory":
            how = "plain"  # tmpfs has no direct I/O on older kernels
        if how != "synced" and self.lacks_room(place["volume"]):
            how = "plain"  # in memory it has room
        if not volume.targets[place["target"]].writable():
            how = "plain"
        return {**place, "how": how}

    def lacks_room(self, _):
        return self.model.full

    def device(self):
        return self.pick((name, target) for name, volume in self.model.volumes.items() if volume.block
                         for target in volume.targets)

    def a_overrun(self):
        name, target = self.device() or (None, None)
        return {"volume": name, "target": target} if name and self.model.volumes[name].targets[target].writable() else None

    def a_attack(self):
        name, target = self.device() or (None, None)
        how = self.pick(("label", "label", "detach"))
        return {"volume": name, "target": target, "how": how, "other": self.pick(self.model.volumes)} if name else None

    def a_remove(self):
        used = [(name, target, file) for name, volume in self.model.volumes.items() if not volume.block
                for target in volume.targets for file in volume.content]
        if not used:
            return None
        name, target, file = self.pick(used)
        return {"volume": name, "target": target, "file": file}

    def a_hold(self):
        place = self.place()
        task = self.pick(TASKS)
        busy = {task for volume in self.model.volumes.values() for task in volume.tasks}
        if not place or task in busy or not self.model.volumes[place["volume"]].targets[place["target"]].writable():
            return None
        if self.model.volumes[place["volume"]].pool == "memory":
            return None
        return {**place, "how": self.pick(("plain", "mmap")), "task": task}

    def a_end_task(self):
        busy = [task for volume in self.model.volumes.values() for task in volume.tasks]
        return {"task": self.pick(busy)} if busy else None

    # The machine

    def a_list(self):
        return {}

    def a_kill(self):
        return {"who": self.pick(("plugin", "helper", "holders", "all"))}

    def a_restart(self):
        return {}

    def a_upgrade(self):
        return {"beside": self.chance.random() < 0.5}

    def a_reboot(self):
        return None if self.model.full else {}

    def a_fill(self):
        return {"on": None if self.model.full else "bytes"}


class FullDisk(Generator):
    """The disk below devices is full for a while. It would break a filesystem."""
    weights = {**WEIGHTS, "fill": 2}

    def next(self):
        """Nobody promises data after an fsync that failed: only memory may have it, for a while."""
        step = super().next()
        unsynced = {"synced": "plain", "mmap-sync": "mmap"}
        return {**step, "how": unsynced.get(step["how"], step["how"])} if self.model.full and "how" in step else step
