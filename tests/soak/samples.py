"""Looks at the programs and the kernel from outside, and keeps what it saw."""
import dataclasses
import os
import statistics
import time

from slope import Bound, judge

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
WARM_UP = 0.25  # of a calm stretch for the lines of processes, and of the whole run for the others


@dataclasses.dataclass(frozen=True)
class Series:
    name: str
    unit: str
    bound: Bound
    process: str = ""  # its line ends with the process

    def show(self, value):
        return f"{value / MIB:.2f} MiB" if self.unit == "bytes" else f"{value:.1f} {self.unit}".strip()


SERIES = (
    Series("plugin_rss", "bytes", Bound(4 * MIB, 0.1), "plugin"),
    Series("plugin_descriptors", "", Bound(3), "plugin"),
    Series("plugin_threads", "", Bound(3), "plugin"),
    Series("mounter_rss", "bytes", Bound(2 * MIB, 0.1), "mounter"),
    Series("mounter_descriptors", "", Bound(3), "mounter"),
    Series("mounter_threads", "", Bound(3), "mounter"),
    Series("manager_rss", "bytes", Bound(4 * MIB, 0.1), "manager"),
    Series("manager_descriptors", "", Bound(3), "manager"),
    Series("manager_threads", "", Bound(3), "manager"),
    Series("processes", "", Bound(2)),
    Series("loop_devices", "", Bound(2)),
    Series("mounts", "", Bound(2)),
    Series("database_bytes", "bytes", Bound(MIB / 4, 0.2)),
    Series("journal_bytes", "bytes", Bound(4 * MIB)),  # of SQLite. It begins anew after 4 MiB
    Series("publish_ms", "ms", Bound(20, 2)),
)


@dataclasses.dataclass
class Sample:
    second: float
    calm: float  # seconds since the last kill or restart; 0 in a storm
    lives: dict  # {process: the ids of its processes}
    values: dict  # {series: value}; without those of a process that does not run


def of_process(name, pids):
    """The sums over these processes. Empty if none runs."""
    rss = descriptors = threads = 0
    try:
        for pid in pids:
            with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
                rss += int(file.read().split()[1]) * PAGE
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
            threads += len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return {}  # it ends just now
    return {f"{name}_rss": rss, f"{name}_descriptors": descriptors, f"{name}_threads": threads} if pids else {}


class Samples:
    """The rows of a run, and the lines that the rule judges."""

    def __init__(self):
        self.began = time.monotonic()
        self.rows = []

    def take(self, lives, counts, latencies, calm_since):
        """`latencies`: of the publishes since the last sample, in seconds. `calm_since`: None in a storm."""
        now = time.monotonic()
        values = dict(counts)
        for name, pids in lives.items():
            values.update(of_process(name, pids))
        if latencies:
            values["publish_ms"] = statistics.median(latencies) * 1000
        calm = 0 if calm_since is None else now - calm_since
        self.rows.append(Sample(now - self.began, calm, {name: tuple(pids) for name, pids in lives.items()}, values))

    def lines(self, series, calm_seconds):
        """Its points after the warm-up. A process has a line for each of its lives, a series of the machine has one line."""
        lines = {}
        for row in self.rows:
            warm = row.calm if series.process else row.second
            length = calm_seconds if series.process else self.rows[-1].second
            if series.name in row.values and warm > WARM_UP * length:
                lines.setdefault(row.lives[series.process] if series.process else 0, []).append((row.second, row.values[series.name]))
        return list(lines.values())

    def series(self):
        """Without those of a program that does not run here."""
        return [series for series in SERIES if any(series.name in row.values for row in self.rows)]

    def verdicts(self, calm_seconds):
        return {series: judge(self.lines(series, calm_seconds), series.bound) for series in self.series()}
