"""A host with mooring-manager and one CSI driver: real programs, real mounts, and a reboot that keeps only the disk.

Everything is in mount and process namespaces of its own (tests/drivers/run makes them), with a /run of its own.
"""
import contextlib
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid

from host import PATIENCE, Wrong, eventually, expect, expect_true, mounts, mounts_in, read, unmount

MANAGER_SOCKET = "/run/mooring/manager.sock"
DOCKER_SOCKET = "/run/docker/plugins/mooring.sock"
DRIVER_SOCKET = "/run/driver.sock"
AWAY = ("ABORTED", "UNAVAILABLE")  # what the manager answers while it cannot reach the driver
BOOT_ID = "/proc/sys/kernel/random/boot_id"
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}


def write_file(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read_lines(path):
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
    return []


class World:
    def __init__(self, programs, work, driver):
        self.programs = programs
        self.driver = driver
        self.work = work
        self.disk = f"{work}/disk"  # survives a reboot
        self.control = f"{work}/control"
        os.makedirs(self.control)
        for name in ("driver", "srv"):
            os.makedirs(f"{self.disk}/{name}")
        self.manager = None
        self.allowed = set()  # rules that this test makes the manager break

    # The host

    def begin(self):
        self.driver.write_files(self)
        self.boot()
        self.run_driver()

    def boot(self):
        """A host that comes up: an empty /run, a new boot id, and the manager, as systemd starts it."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "run", "/run"], check=True)
        write_file("/run/boot_id", f"{uuid.uuid4()}\n")
        subprocess.run(["mount", "--bind", "/run/boot_id", BOOT_ID], check=True)
        os.makedirs("/run/docker/plugins")
        self.start_manager()

    def start_manager(self):
        with open(f"{self.work}/manager.log", "a", encoding="utf-8") as log:
            self.manager = subprocess.Popen(
                [f"{self.programs}/mooring-manager", "--state-dir", f"{self.disk}/state", "--host", "host-1",
                 "--docker-socket", DOCKER_SOCKET, "--docker-plugin", self.driver.plugin, "--log-level", "debug"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True)
        eventually("the manager serves", self._serves)

    def _serves(self):
        if self.manager.poll() is not None:
            raise Wrong(f"the manager ended with status {self.manager.returncode}: {self.last_words()}")
        return self.try_mooring("manager").returncode == 0

    def last_words(self):
        return "\n".join(read(f"{self.work}/manager.log").splitlines()[-3:])

    def kill_manager(self, number=signal.SIGKILL):
        self.manager.send_signal(number)
        self.manager.wait(PATIENCE)

    def halt(self):
        """Ends all processes, mounts and loop devices, as a power failure does. The files on the disk stay."""
        kill_all_others()
        if self.manager:
            self.manager.wait(PATIENCE)
        # Below /run is the scratch of the manager. A killed process is busy for a moment.
        for mount in reversed(mounts(self.disk) + mounts_in("/run")):
            eventually(f"{mount.target} is unmounted", lambda target=mount.target: unmount(target))
        eventually("/run is unmounted", lambda: unmount("/run"))
        for device in loops_below(self.disk):
            subprocess.run(["losetup", "--detach", device], check=True)
        subprocess.run(["umount", "--internal-only", BOOT_ID], check=True)

    def reboot(self):
        self.halt()
        self.boot()
        if self.driver.registered:
            self.start_driver()

    # The driver

    def run_driver(self):
        """Starts the driver: by the manager, or in a loop of the test's own."""
        if self.driver.registered:
            self.start_driver()
            self.mooring("plugin", "register", self.driver.plugin, "--endpoint", f"unix://{DRIVER_SOCKET}")
        else:
            self.mooring("plugin", "run", self.driver.plugin, *self.driver.run_flags(self))
        expect_true("the driver is healthy as soon as it is run or registered", self.is_healthy())

    def start_driver(self):
        words = self.driver.words(self, DRIVER_SOCKET)
        subprocess.Popen(["/bin/sh", "-c", 'while :; do "$@"; sleep 0.05; done', "sh", *words], cwd="/",
                         start_new_session=True, **QUIET, stderr=subprocess.DEVNULL)
        eventually("the driver has its socket", lambda: os.path.exists(DRIVER_SOCKET))

    def status(self):
        """The status by `mooring plugin status`, whose exit status is 1 if the driver is not healthy."""
        done = self.try_mooring("plugin", "status", self.driver.plugin, "--json")
        expect_true(f"the status is told: {done.stderr.strip()} {done.returncode}", done.stdout)
        return json.loads(done.stdout)["plugins"][0]

    def is_healthy(self):
        """Whether its node instance and its controller instance are healthy."""
        kinds = ["nodes"] + (["controllers"] if "create" in self.driver.can else [])
        status = self.status()
        return all(int(status.get(kind, {}).get("healthy", 0)) == 1 for kind in kinds)

    def driver_processes(self):
        """The processes whose command line has the driver's data directory, or its configuration in it."""
        found, signs = [], {f"{self.disk}/driver".encode(), f"{self.disk}/driver/config.yaml".encode()}
        for file in glob.glob("/proc/[0-9]*/cmdline"):
            with contextlib.suppress(OSError), open(file, "rb") as command:
                words = command.read().split(b"\0")
                if words[0] != b"/bin/sh" and signs & set(words):
                    found.append(int(file.split("/")[2]))
        return found

    def signal_driver(self, number):
        processes = []  # one that comes and goes may be between two lives
        eventually("the driver runs", lambda: processes or processes.extend(self.driver_processes()) or processes)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):  # it has ended with another one of them
                os.kill(process, number)
        return processes

    def stop_driver(self):
        """Stops its processes by SIGSTOP, and returns them. A busy machine delays the stop of their threads."""
        processes = self.signal_driver(signal.SIGSTOP)
        eventually("all threads of the driver have stopped", lambda: all(map(is_stopped, processes)))
        return processes

    def order(self, method, words):
        write_file(f"{self.control}/{method}", words)

    def end_order(self, method):
        os.unlink(f"{self.control}/{method}")

    def violations(self):
        return [entry for entry in read_lines(f"{self.work}/violations") if entry["rule"] not in self.allowed]

    # The command line

    def try_mooring(self, *words, timeout=PATIENCE):
        return subprocess.run([f"{self.programs}/mooring", *words], capture_output=True, text=True, cwd="/",
                              stdin=subprocess.DEVNULL,
                              env={"PATH": os.environ["PATH"], "LC_ALL": "C", "MOORING_TIMEOUT": str(timeout)})

    def mooring(self, *words, timeout=PATIENCE):
        done = self.try_mooring(*words, timeout=timeout)
        if done.returncode != 0:
            raise Wrong(f"mooring {' '.join(words)}: status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def persist(self, *words, timeout=PATIENCE):
        """As `mooring`, for a command that calls the driver. If that comes and goes, an error asks to repeat it."""
        end = time.monotonic() + timeout
        while True:
            try:
                return self.mooring(*words, timeout=timeout)
            except Wrong as wrong:
                waits = any(reason in str(wrong) for reason in (*AWAY, "not released by its controller yet"))
                if not self.driver.comes_and_goes or not waits or time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def asked(self, *words):
        return json.loads(self.mooring(*words, "--json"))

    def refused(self, said, *words, timeout=PATIENCE):
        """The command must fail with these words. It is repeated while the driver is away."""
        end = time.monotonic() + PATIENCE
        done = self.try_mooring(*words, timeout=timeout)
        while self.driver.comes_and_goes and said not in done.stderr and time.monotonic() < end:
            if not any(code in done.stderr for code in AWAY):
                break
            time.sleep(0.2)
            done = self.try_mooring(*words, timeout=timeout)
        expect_true(f"refused: mooring {' '.join(words)}", done.returncode == 1)
        expect_true(f"{said!r} is in: {done.stderr.strip()}", said in done.stderr)

    def make_volume(self, name, *flags, block=False):
        """Creates the volume, or registers it if the driver cannot create volumes."""
        words = [name, "--plugin", self.driver.plugin, *self.driver.secrets(self), *flags] + ["--block"] * block
        if not any(flag.startswith("--access") for flag in flags):
            words += ["--access", "single-node-writer"]
        if "create" in self.driver.can:
            return self.persist("volume", "create", *words, *self.driver.size, *self.driver.places)
        return self.mooring("volume", "register", *words, "--external-id", name, "--context",
                            self.driver.context or f"serial=of {name}")

    def remove_volume(self, name):
        verb = "delete" if "create" in self.driver.can else "deregister"
        self.await_release(name)
        self.persist("volume", verb, name)

    def await_release(self, name):
        """A driver that comes and goes is called later."""
        if self.driver.comes_and_goes:
            eventually("it is released", lambda: not [claim for claim in self.claims()
                                                      if claim["volume"]["id"] == name], 2 * PATIENCE)

    def place(self, name):
        return f"{self.disk}/srv/{name}"

    def attach(self, volume, place=None, *flags, user="web-1", timeout=PATIENCE):
        path = self.place(place or volume)
        self.persist("attach", volume, path, "--for", user, *flags, timeout=timeout)
        return path

    def detach(self, path, timeout=PATIENCE):
        self.mooring("detach", path, timeout=timeout)

    def attachments(self):
        return self.asked("attachments").get("attachments", [])

    def claims(self):
        return self.asked("claims").get("claims", [])

    def target_of(self, path):
        return next(entry["target_path"] for entry in self.attachments() if entry.get("attach_path") == path)

    def docker(self, call, **request):
        """The answer of Docker's volume protocol."""
        connection = http.client.HTTPConnection("docker", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE)
        connection.sock.connect(DOCKER_SOCKET)
        with contextlib.closing(connection):
            connection.request("POST", f"/{call}", body=json.dumps(request))
            return json.loads(connection.getresponse().read())

    def remove_by_docker(self, name):
        """Removes the volume. It is asked again while its claim waits for a driver that is away."""
        end = time.monotonic() + PATIENCE
        error = self.docker("VolumeDriver.Remove", Name=name)["Err"]
        while self.driver.comes_and_goes and "not released by its controller yet" in error and time.monotonic() < end:
            time.sleep(0.2)
            error = self.docker("VolumeDriver.Remove", Name=name)["Err"]
        expect("remove", error, "")

    # The end

    def take_back(self):
        eventually("the driver is healthy", self.is_healthy, 2 * PATIENCE)
        for entry in self.attachments():
            name = entry.get("request") or entry["volume"]["id"]
            self.mooring("detach", name, "--for", entry["allocation"], "--if-exists")
        for volume in self.asked("volume", "list").get("volumes", []):
            self.remove_volume(volume["key"]["id"])

    def check_clean(self):
        """Nothing is left of what the test did, and the driver saw no rule broken."""
        self.take_back()
        expect("the claims", self.claims(), [])
        expect("the mounts of volumes", [mount.target for mount in mounts(self.disk) if mount.target != self.root()], [])
        broken = [f"{entry['rule']} in {entry['method']}: {entry['words']}" for entry in self.violations()]
        expect("the rules that the manager broke", broken, [])
        if self.driver.token:
            expect_true("no secret is logged", self.driver.token not in read(f"{self.work}/manager.log"))
        self.driver.check_empty(self)
        self.mooring("plugin", "stop", self.driver.plugin)
        self.halt()
        shutil.rmtree(self.work)

    def root(self):
        return f"{self.disk}/state/mounts"

    def give_up(self):
        self.halt()
        print(f"        the manager's last words: {self.last_words()}", flush=True)
        for entry in self.violations()[:4]:
            print(f"        broken rule: {json.dumps(entry)}", flush=True)
        shutil.rmtree(self.work)


def kill_all_others():
    """Ends the processes of this namespace, except process 1 and this one."""
    stay = {1, os.getpid(), os.getppid()}
    deadline = time.monotonic() + PATIENCE
    while left := [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in stay
                   and not is_zombie(name)]:
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        expect_true("all processes end", time.monotonic() < deadline)
        time.sleep(0.02)


def state_in(stat):
    """The state in the text of a stat file: proc_pid_stat(5)."""
    return stat.rpartition(")")[2].split()[0]


def is_stopped(process):
    """Also true if it has ended."""
    with contextlib.suppress(OSError):  # a thread has ended meanwhile
        return all(state_in(read(file)) == "T" for file in glob.glob(f"/proc/{process}/task/*/stat"))
    return False


def is_zombie(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return state_in(file.read()) == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return True


def loops_below(directory):
    found = []
    for file in glob.glob("/sys/block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError), open(file, encoding="utf-8") as name:
            if name.read().startswith(directory + "/"):
                found += holds_of(file.split("/")[3]) + ["/dev/" + file.split("/")[3]]
    return found


def holds_of(name):
    """The loop device that holds a raw device, mounter/loop/raw_device.h: it has the next number."""
    hold = f"loop{int(name[4:]) + 1}"
    is_hold = int(name[4:]) >= 65536 and os.path.exists(f"/sys/block/{hold}/loop")
    return [f"/dev/{hold}"] if is_hold else []
