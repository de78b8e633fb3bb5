"""The host of a replay: its mounts, loop devices and containers, as an orchestrator there sees them."""
import contextlib
import dataclasses
import glob
import os
import re
import subprocess
import time

from csi import Plugin, Refused

APPLETS = ("dd", "mkdir", "touch", "umount")  # of busybox, which the image has no links for
PATIENCE = 30  # seconds until something that should happen counts as missing


class Wrong(Exception):
    """A failure that a test found."""


def expect(what, got, wanted):
    if got != wanted:
        raise Wrong(f"{what} is {got!r}, not {wanted!r}")


def expect_true(what, got):
    if not got:
        raise Wrong(f"not so: {what}")


def refused(code, words, action):
    """The plugin answers with that code, and with these words among its own."""
    try:
        action()
    except Refused as error:
        expect(f"the code of {error.method}", error.code, code)
        expect_true(f"{words!r} is said by: {error.words}", words in error.words)
        return
    raise Wrong(f"not refused with {code}: {words}")


def eventually(what, condition, patience=PATIENCE):
    """Waits until `condition` returns something true, and returns that."""
    deadline = time.monotonic() + patience
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise Wrong(f"not after {patience} s: {what}")
        time.sleep(0.02)


def run(*command, check=True, stdin=None):
    """Returns the output."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise Wrong(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def docker(*arguments, check=True):
    return run("docker", *arguments, check=check)


def remove_containers(*names):
    docker("rm", "-f", *names, check=False)


@dataclasses.dataclass(frozen=True)
class Mount:
    target: str
    options: frozenset
    fs_type: str


def _plain(field):
    if "\\" not in field:
        return field
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)


def mounts(below="/", process="self"):
    """At and below a path, in the mount namespace of a process; oldest first."""
    found = []
    with open(f"/proc/{process}/mountinfo", encoding="utf-8") as table:
        for line in table:
            mount, filesystem = (part.split() for part in line.split(" - "))
            target = _plain(mount[4])
            if target == below or target.startswith(below.rstrip("/") + "/"):
                found.append(Mount(target, frozenset(mount[5].split(",")), filesystem[0]))
    return found


def mount_at(path, process="self"):
    """The topmost one, or None."""
    return next((mount for mount in reversed(mounts(path, process)) if mount.target == path), None)


def mounts_in(directory):
    """The mounts in the topmost mount at a directory, oldest first."""
    found = mounts(directory)
    targets = [mount.target for mount in found]
    return found[len(targets) - targets[::-1].index(directory):] if directory in targets else []


def unmount(target):
    """Whether nothing is mounted there any more."""
    done = subprocess.run(["umount", "--internal-only", target], stderr=subprocess.DEVNULL)
    return done.returncode == 0 or not mount_at(target)


def loops():
    """Names of the loop devices over images of the volumes that were made, or over what was stacked on them. The kernel
    tells a file's path as it is in the container that attached it: so they are known by their names."""
    attached = {}
    for file in glob.glob("/sys/block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # gone meanwhile
            attached["/dev/" + file.split("/")[3]] = read(file).strip()
    ours = [name for name, image in attached.items() if os.path.basename(image)[:36] in Plugin.volumes]
    return sorted(ours + [name for name, image in attached.items() if image in ours and not is_hold(name)])


def is_hold(device):
    """Whether it holds a raw device, mounter/loop/raw_device.h."""
    number = int(device.removeprefix("/dev/loop"))
    return number >= 65536 and number % 2 == 1


def detach(device):
    number = int(device.removeprefix("/dev/loop"))
    if number >= 65536:
        run("losetup", "-d", f"/dev/loop{number + 1}", check=False)
    run("losetup", "-d", device, check=False)


def write(path, text="data"):
    """An errno's name where it is refused."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return os.strerror(error.errno)
    return "written"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Container:
    """A running container. It is entered from the host, so that its image needs no shell."""

    def __init__(self, name, image, command=(), flags=()):
        self.name = name
        docker("run", "-d", "--name", name, "--network", "none", *flags, image, *command)
        self.process = docker("inspect", "-f", "{{.State.Pid}}", name)

    def runs(self):
        return docker("inspect", "-f", "{{.State.Running}}", self.name, check=False) == "true"

    def sh(self, script, check=True):
        script = "".join(f'{applet}() {{ busybox {applet} "$@"; }}; ' for applet in APPLETS) + script
        return run("nsenter", "-t", self.process, "-m", f"--root=/proc/{self.process}/root", "--wd=/", "/bin/sh", "-c",
                   script, check=check)

    def run(self, *command):
        """Runs a program of its image, and returns the output."""
        return docker("exec", self.name, *command)

    def can(self, script):
        return self.sh(f"{{ {script}; }} >/dev/null 2>&1 && echo yes || echo no") == "yes"

    def path(self, inside):
        return f"/proc/{self.process}/root{inside}"

    def log(self):
        done = subprocess.run(["docker", "logs", self.name], capture_output=True, text=True)
        return done.stdout + done.stderr

    def kill(self, signal="KILL"):
        docker("kill", "-s", signal, self.name)
        docker("wait", self.name)

    def remove(self):
        remove_containers(self.name)


def bind(source, target, propagation="rprivate", read_only=False):
    """The flags of a container's bind mount."""
    return ["--mount", f"type=bind,src={source},dst={target},bind-propagation={propagation}"
            + (",readonly" if read_only else "")]


@contextlib.contextmanager
def user_of(directory):
    """A process that has its working directory there, so that it cannot be unmounted."""
    with subprocess.Popen(["sleep", "1000"], cwd=directory) as process:
        try:
            eventually("the process is in it", lambda: os.readlink(f"/proc/{process.pid}/cwd") == directory)
            yield
        finally:
            process.kill()


def run_tests(tests, set_up, check_clean, wanted):
    """Runs the tests whose name matches, and returns how many failed. Each gets what `set_up` gives and leaves nothing behind."""
    passed = failed = 0
    for test in tests:
        if not re.search(wanted, test.__name__):
            continue
        started = time.monotonic()
        world = set_up()
        try:
            test(world)
            check_clean(world)
        except Exception as error:  # any failure is this test's result
            failed += 1
            print(f"FAILED  {test.__name__}\n        {type(error).__name__}: {error}", flush=True)
            world.give_up()
        else:
            passed += 1
            print(f"ok      {test.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    return failed or not passed
