"""The drivers that the scenarios are played with: how each is run, and what it can do."""
import dataclasses
import json
import os

from host import expect

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(HERE, "../../build/tools/bin")
BLOCK_VOLUMES = ("raw", "disk")
GIVEN_VOLUMES = ("db", "one", "two") + tuple(f"many-{number}" for number in range(8))
TOKEN = "open-sesame"


@dataclasses.dataclass(frozen=True)
class Driver:
    name: str
    plugin: str
    command: tuple  # {disk}, {work}, {control}, {programs}, {tool}: filled in here; {endpoint}, {socket}: by the manager
    can: frozenset
    size: tuple = ("--size", "16MiB")
    shared: str = "multi-node-multi-writer"  # the access mode for several users on one node
    token: str = ""
    registered: bool = False  # the test runs it, and registers its socket with the manager
    comes_and_goes: bool = False  # it kills itself, so some calls of the manager come later
    is_strict: bool = False
    config: str = ""  # the content of {disk}/driver/config.yaml, if it reads one; {disk} is filled in
    tool: str = ""  # a program of another project, missing if it could not be fetched
    places: tuple = ()  # flags that say where a volume is made
    only: tuple = ()  # the scenarios that show what is special about it; empty: all
    without: tuple = ()  # the scenarios in which it deviates (README.md says how), or that do not suit it
    context: str = ""  # of volumes that it cannot create; empty: what the strict driver wants

    def words(self, world, endpoint=None):
        """Its command line."""
        words = [word.format(disk=world.disk, work=world.work, control=world.control, programs=world.programs, tool=self.tool,
                             endpoint="{endpoint}", socket="{socket}") for word in self.command]
        return [word.replace("{endpoint}", f"unix://{endpoint}") for word in words] if endpoint else words

    def run_flags(self, world):
        program, *words = self.words(world)
        return ["--exec", program, *(["--", *words] if words else [])]

    def write_files(self, world):
        if self.token:
            with open(f"{world.work}/secrets", "w", encoding="utf-8") as file:
                file.write(f"token={self.token}\n")
        if self.config:
            with open(f"{world.disk}/driver/config.yaml", "w", encoding="utf-8") as file:
                file.write(self.config.replace("{disk}", world.disk))

    def secrets(self, world):
        return ["--secrets-file", f"{world.work}/secrets"] if self.token else []

    def state(self, world):
        with open(f"{world.disk}/driver/state.json", encoding="utf-8") as file:
            return json.load(file)

    def check_node_size(self, world, size):
        """The strict driver got NodeExpandVolume for its only volume, if it offers that."""
        if self.is_strict and "--without node-expand" not in " ".join(self.command):
            expect("the sizes that the node knows",
                   [volume.get("node_size") for volume in self.state(world)["volumes"].values()], [size])

    def check_empty(self, world):
        """The strict driver has no volume any more. Other drivers cannot be asked."""
        if not self.is_strict:
            return
        state = self.state(world)
        expect("what is staged", state["staged"], {})
        expect("what is published", state["published"], {})
        expect("the volumes", {key for key in state["volumes"] if key.startswith("strict:")}, set())
        expect("the attached volumes", [key for key, volume in state["volumes"].items() if volume["nodes"]], [])


def strict(name, can, *flags, token="", registered=False, comes_and_goes=False, places=(), only=(), without=()):
    command = (f"{HERE}/strict/driver.py", "--endpoint={endpoint}", "--data", "{disk}/driver", "--calls", "{work}/calls",
               "--violations", "{work}/violations", "--control", "{control}", *flags)
    return Driver(name=name, plugin="strict.example.org", command=command + (("--token", token) if token else ()),
                  can=frozenset(can), token=token, registered=registered, comes_and_goes=comes_and_goes, is_strict=True, places=places, only=only,
                  without=without)


def given():
    words = []
    for volume in GIVEN_VOLUMES:
        words += ["--volume", f"{volume}:16777216"]
    for volume in BLOCK_VOLUMES:
        words += ["--volume", f"{volume}:16777216:block"]
    return words


ALL = ("mount", "create", "stage", "expand", "expand-in-use", "snapshot", "clone", "block")

DRIVERS = (
    strict("strict-none", ("mount", "block"), "--profile", "none", *given()),
    strict("strict-plain", ("mount", "create", "block"), "--profile", "plain", registered=True),
    strict("strict-all", ALL, token=TOKEN),
    strict("strict-offline", set(ALL) - {"expand-in-use"}, "--expand", "offline", "--without", "finer-modes",
           "--without", "readonly-attach", "--without", "node-expand", registered=True),
    strict("strict-slow", ALL, "--delay", "150", "--ready-after", "2"),
    strict("strict-gone", ALL, "--gone-every", "6", registered=True, comes_and_goes=True,
           without=("a_hung_driver_delays_calls_for_a_limited_time",)),  # it may be away when it is to hang
    strict("strict-listed", ALL, "--keep-targets",
           only=("attach_and_detach", "a_reboot_attaches_volumes_again", "a_block_volume_survives_a_reboot",
                 "docker_asks_again_after_a_reboot", "mount_and_umount_work_with_volumes")),
    strict("strict-writable", set(ALL) | {"ignores-readonly"}, "--ignore-readonly",
           only=("a_read_only_attachment_takes_no_writes", "a_reader_is_attached_beside_a_writer",
                 "a_device_that_stays_writable_is_refused")),
    strict("strict-placed", ("mount", "create", "stage", "block"), "--need-topology", "--without", "snapshot", "--without",
           "clone", "--without", "expand", places=("--topology", "strict.example.org/rack=r1"),
           only=("attach_and_detach", "docker_uses_volumes", "docker_asks_again_after_a_reboot")),
    Driver(name="mooring", plugin="mooring.csi", can=frozenset(ALL), size=("--size", "32MiB"),
           shared="single-node-multi-writer",
           command=("{programs}/mooring-plugin", "--state-dir", "{disk}/driver", "--node-id", "node-1")),
    Driver(name="csi-mock", plugin="io.kubernetes.storage.mock", can=frozenset(), command=("{tool}",),
           tool=f"{TOOLS}/csi-mock-driver"),
)
