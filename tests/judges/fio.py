"""The judge fio, and the data that is synced before all other judges begin."""
from node import MIB
from programs import Program, judged

SYNCED, SYNCED_AT = 4 * MIB, 32 * MIB  # on a device
SIZE = 16 * MIB
# With direct I/O or not. fio syncs before it verifies, so it verifies only in direct rounds. The data of the others is still in
# memory when the volume is unstaged.
ENGINES = (("psync", 0), ("libaio", 1), ("mmap", 0))
TMPFS = ("plain", "memory")  # older kernels have no direct I/O there


def place(volume, name, begin, size):
    where = [f"--filename={volume.path}", f"--offset={begin}"] if volume.block else [f"--filename={volume.path}/{name}"]
    return ["fio", f"--name={name}", *where, f"--size={size}", "--bs=4k", "--invalidate=0", "--eta=never", "--output-format=terse",
            "--thread", "--verify_fatal=1", f"--aux-path={volume.node.work}"]


def synced(volume, seed):
    return place(volume, "synced", SYNCED_AT, SYNCED) + ["--rw=write", "--verify=crc32c", "--verify_state_save=0", f"--randseed={seed}"]


def write_synced(volume, seed):
    judged(volume.node, *synced(volume, seed), "--do_verify=0", "--end_fsync=1", "--ioengine=psync")


def verify_synced(volume, seed):
    judged(volume.node, *synced(volume, seed), "--verify_only", "--ioengine=psync")


class Fio:
    """Each round writes the same blocks again, and nothing is synced. A checksum cannot tell an old block. So a round has
    checksums, and the next a pattern with its number: a block of the round before is wrong."""

    def __init__(self, options):
        self.seed = options.seed

    @staticmethod
    def is_installed():
        return True

    @staticmethod
    def can_judge(_):
        return True

    def data(self, volume, number):
        seed = self.seed + number
        verify = ["--verify=crc32c"] if number % 2 == 0 else ["--verify=pattern", f"--verify_pattern=0x{seed % (1 << 32):08x}%o"]
        return place(volume, "judged", 0, SIZE) + ["--rw=randwrite", f"--randseed={seed}", *verify]

    def start(self, volume, number):
        engine, direct = ENGINES[number % len(ENGINES)]
        how = ["--direct=1", "--verify_backlog=512"] if direct and volume.pool not in TMPFS else ["--do_verify=0"]
        return Program(volume.node, *self.data(volume, number), f"--ioengine={engine}", "--iodepth=8", "--rate=,8m",
                       "--verify_state_save=0", *how)

    def written(self, volume, number):
        """After a round: fio itself knows what it wrote."""

    def verify(self, volume, number):
        judged(volume.node, *self.data(volume, number), "--verify_only", "--ioengine=psync", "--verify_state_save=0")

    def start_stopped(self, volume, number):
        """A round that ends in its middle. Its state is saved."""
        return Program(volume.node, *self.data(volume, number), "--ioengine=psync", "--do_verify=0", "--rate=,8m",
                       "--trigger-timeout=1", "--trigger=/bin/true")

    def verify_stopped(self, volume, number):
        judged(volume.node, *self.data(volume, number), "--verify_only", "--ioengine=psync", "--verify_state_load=1")
