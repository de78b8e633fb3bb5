"""The judge fsx: random reads, writes, mapped writes, truncations, holes and copies in a file or device. It compares each
read with its own memory."""
import hashlib
import shutil

from host import expect
from node import MIB
from programs import Program

OPERATIONS = 500  # a second of --seconds
FILE, DEVICE = MIB, 8 * MIB
WEIGHTS = {"close_open": 1, "invalidate": 1, "truncate": 5, "fsync": 0.2, "fdatasync": 0.2, "punch_hole": 3, "sendfile": 3,
           "posix_fadvise": 2, "copy_file_range": 3}
ONLY_FILES = ("close_open", "truncate", "punch_hole", "copy_file_range")


def settings(volume):
    """The file fsx.toml."""
    lines = [f"flen = {DEVICE if volume.block else FILE}"]
    if volume.block:
        lines += ["blockmode = true", "nosizechecks = true", "[opsize]", "align = 4096"]
    weights = {name: 0 if volume.block and name in ONLY_FILES else weight for name, weight in WEIGHTS.items()}
    return "\n".join([*lines, "[weights]", *(f"{name} = {float(weight)}" for name, weight in weights.items())])


class Fsx:
    def __init__(self, options):
        self.operations, self.seed, self.digest = OPERATIONS * options.seconds, options.seed, None

    @staticmethod
    def is_installed():
        return shutil.which("fsx")

    @staticmethod
    def can_judge(_):
        return True

    @staticmethod
    def path(volume):
        return volume.path if volume.block else f"{volume.path}/judged"

    def start(self, volume, number):
        with open(f"{volume.node.work}/fsx.toml", "w", encoding="utf-8") as file:
            file.write(settings(volume))
        return Program(volume.node, "fsx", "-q", "-f", file.name, "-P", volume.node.work, "-N", str(self.operations),
                       "-S", str(self.seed + number), self.path(volume))

    def written(self, volume, _):
        self.digest = self.digest_of(volume)

    def verify(self, volume, _):
        expect("the digest of fsx's data", self.digest_of(volume), self.digest)

    def digest_of(self, volume):
        with open(self.path(volume), "rb") as file:
            return hashlib.sha256(file.read(max(FILE, DEVICE))).hexdigest()
