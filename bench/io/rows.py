"""The rows of the table: a run of fio each."""
import dataclasses

DIRECT = ("--ioengine=libaio", "--direct=1")
JOURNAL = ("--ioengine=psync", "--fdatasync=1")  # as a database writes it
BUFFERED = ("--ioengine=psync", "--fsync=256")
KIB, MIB = 1 << 10, 1 << 20


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    pattern: str  # fio's --rw
    block: int  # bytes
    depth: int = 1
    jobs: int = 1
    engine: tuple = DIRECT

    def arguments(self, path, size):
        """For eight jobs each has an eighth of the file, which has `size` bytes."""
        share = size // self.jobs
        return [*fio(self.jobs), f"--filename={path}", f"--rw={self.pattern}", f"--bs={self.block}", f"--iodepth={self.depth}",
                f"--size={share}", f"--offset_increment={share}", "--allow_file_create=0", "--norandommap", *self.engine]


def fio(jobs):
    return ["fio", "--name=row", "--output-format=json", "--group_reporting", "--time_based", f"--numjobs={jobs}"]


def idle(jobs):
    """Hardly any work: its processor time is what fio takes for itself."""
    return [*fio(jobs), "--ioengine=null", "--rw=read", "--size=1M", "--rate_iops=5"]


ROWS = [
    *(Row(f"random {operation}, 4 KiB, depth {depth}, jobs {jobs}", f"rand{operation}", 4 * KIB, depth, jobs)
      for operation in ("read", "write") for depth in (1, 32) for jobs in (1, 8)),
    *(Row(f"random {operation}, 1 MiB, depth {depth}, jobs 1", f"rand{operation}", MIB, depth)
      for operation in ("read", "write") for depth in (1, 32)),
    *(Row(f"sequential {operation}, {name}, depth {depth}, jobs 1", operation, block, depth)
      for operation in ("read", "write") for name, block in (("4 KiB", 4 * KIB), ("1 MiB", MIB)) for depth in (1, 32)),
    *(Row(f"sequential {operation}, 1 MiB, depth 1, jobs 8", operation, MIB, 1, 8) for operation in ("read", "write")),
    *(Row(f"journal, 8 KiB and fdatasync, jobs {jobs}", "write", 8 * KIB, 1, jobs, JOURNAL) for jobs in (1, 8)),
    *(Row(f"buffered {name}, 4 KiB", pattern, 4 * KIB, 1, 1, BUFFERED)
      for name, pattern in (("sequential read", "read"), ("random read", "randread"),
                            ("sequential write", "write"), ("random write", "randwrite"))),
]
