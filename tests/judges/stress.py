"""The judge stress-ng: its stressors of filesystems. hdd compares what it reads. The others verify results of calls."""
from programs import Program

# Not copy-file: its smallest file has 128 MiB.
STRESSORS = {
    "hdd": ["--hdd-bytes", "4m", "--hdd-opts", "wr-seq,rd-seq"], "seek": ["--seek-size", "4m"],
    "sync-file": ["--sync-file-bytes", "2m"], "fallocate": ["--fallocate-bytes", "4m"], "iomix": ["--iomix-bytes", "4m"],
    "revio": ["--revio-bytes", "4m"],
    "rename": [], "link": [], "dir": ["--dir-dirs", "64"], "xattr": []}


class Stress:
    def __init__(self, options):
        self.seconds, self.seed = max(2, options.seconds // 2), options.seed

    @staticmethod
    def is_installed():
        return True

    @staticmethod
    def can_judge(volume):
        return not volume.block

    def start(self, volume, number):
        stressors = [word for name, flags in STRESSORS.items() for word in (f"--{name}", "1", *flags)]
        return Program(volume.node, "stress-ng", "--temp-path", volume.path, "--verify", "--seed", str(self.seed + number),
                       "--timeout", f"{self.seconds}s", *stressors)

    def written(self, volume, number):
        """Nothing is left to compare."""

    def verify(self, volume, number):
        """Nothing is left to compare."""
