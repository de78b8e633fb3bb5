"""Prints where the programs and the kernel are, for a cut that fails or takes too long."""
import collections
import contextlib
import faulthandler
import glob
import os
import sys
import threading

from host import mounts, read

FRAMES = 8  # of a stack in the kernel
LINES = 12  # of a log


def explain(machine, answer):
    """Prints all threads, loop devices, mounts and logs. `answer` asks the programs whether they are ready."""
    for title, lines in (("the disk", [in_time(lambda: f"has power: {machine.has_power()}")]),
                         ("the programs say", [in_time(answer)]),
                         ("threads", threads()),
                         ("loop devices", loop_devices()),
                         ("mounts", [f"{one.target} {one.fs_type}" for one in mounts(machine.disk)]),
                         ("memory and load", memory()),
                         ("logs", logs(machine))):
        for line in lines:
            print(f"        {title}: {line}", flush=True)
    faulthandler.dump_traceback(sys.stdout)


def in_time(question, seconds=3):
    """The answer, or the error. The thread of a question that hangs stays."""
    answers = []

    def ask():
        try:
            answers.append(str(question()))
        except Exception as error:  # any failure is an answer
            answers.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else f"no answer in {seconds} s"


def threads():
    """A line for each place where threads of a process wait: its state, the system call, and the stack in the kernel."""
    for process in sorted(glob.glob("/proc/[0-9]*"), key=lambda path: int(path[6:])):
        places = collections.Counter()
        for task in glob.glob(f"{process}/task/*"):
            with contextlib.suppress(OSError, ValueError):  # it has ended
                places[place(task)] += 1
        for where, count in places.items():
            with contextlib.suppress(OSError):
                words = read(f"{process}/cmdline").replace("\0", " ")[:100]
                yield f"{process[6:]} [{words.strip()}] {count} x {where}"


def place(task):
    comm = read(f"{task}/comm").strip()
    state = read(f"{task}/stat").rpartition(")")[2].split()[0]
    call = read(f"{task}/syscall").split()[0]
    stack = [frame.split()[1].split("+")[0] for frame in read(f"{task}/stack").splitlines()[:FRAMES]]
    return f"{comm} {state}, system call {call}, wchan {read(f'{task}/wchan')}: {' < '.join(stack)}"


def loop_devices():
    for device in sorted(glob.glob("/sys/block/loop*/loop")):
        name = device.split("/")[3]
        with contextlib.suppress(OSError):  # detached meanwhile
            file, clears = (read(f"{device}/{attribute}").strip() for attribute in ("backing_file", "autoclear"))
            under_way = " ".join(read(f"/sys/block/{name}/inflight").split())
            types = [fs_type for fs_type in ("ext4", "xfs") if os.path.exists(f"/sys/fs/{fs_type}/{name}")]
            yield f"{name} over {file}, autoclear {clears}, requests under way {under_way}, mounted as {types}"


def memory():
    wanted = ("MemAvailable", "Dirty", "Writeback")
    yield ", ".join(line for line in read("/proc/meminfo").splitlines() if line.split(":")[0] in wanted)
    yield read("/proc/loadavg").strip()


def logs(machine):
    for name in glob.glob(f"{machine.logs}/*") + glob.glob("/run/mooring/plugins/*/log"):
        with contextlib.suppress(OSError), open(name, encoding="utf-8", errors="replace") as log:
            for line in log.readlines()[-LINES:]:
                yield f"{os.path.basename(name)}: {line.rstrip()}"
