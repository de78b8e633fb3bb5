"""A Nomad agent, and what a user asks of it: its command line, and its API for the answers."""
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request

from host import eventually, expect_true, mounts, run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FILES = os.path.join(ROOT, "packaging/nomad")
ADDRESS = "http://127.0.0.1:4646"
NODE = "n1"
PLUGIN = f"mooring-{NODE}"
DATA_DIR = "/run/nomad"  # a socket's path may have 107 bytes
PATIENCE = 180  # Nomad asks a plugin every 30 s, and repeats what fails after up to a minute

CONFIGURATION = """
name       = "{node}"
data_dir   = "{data}"
bind_addr  = "127.0.0.1"
advertise {{
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}}
server {{
  enabled          = true
  bootstrap_expect = 1
}}
client {{
  enabled           = true
  servers           = ["127.0.0.1"]
  network_interface = "lo"
  cgroup_parent     = "{cgroup}"
  options = {{
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean"
  }}
}}
plugin "raw_exec" {{
  config {{
    enabled = true
  }}
}}
"""


class Agent:
    def __init__(self, work, program):
        self.work, self.program = work, program
        self.process = None
        os.makedirs(DATA_DIR)
        run("mount", "--bind", DATA_DIR, DATA_DIR)
        run("mount", "--make-shared", DATA_DIR)  # as / is where systemd is the first process
        with open(f"{work}/agent.hcl", "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(node=NODE, data=DATA_DIR, cgroup=f"/{os.path.basename(work)}/nomad"))

    def start(self):
        """With the client's configuration that Mooring ships."""
        with open(f"{self.work}/agent.log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [self.program, "agent", "-config", f"{self.work}/agent.hcl", "-config", f"{FILES}/client.hcl"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True)
        eventually("the node is ready", self._is_ready, PATIENCE)

    def _is_ready(self):
        expect_true("the agent runs", self.process.poll() is None)
        nodes = self.asked("nodes") or []
        return [node for node in nodes if node["Status"] == "ready" and "docker" in node["Drivers"]
                and node["Drivers"]["docker"]["Healthy"]]

    def end(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def nomad(self, *words, fails_with=None):
        """Returns what the command prints. `fails_with`: it must fail, and say this."""
        done = subprocess.run([self.program, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=FILES,
                              env={**os.environ, "NOMAD_ADDR": ADDRESS})
        expect_true(f"nomad {' '.join(words)}: status {done.returncode}: {done.stderr.strip()} {done.stdout.strip()}",
                    (done.returncode != 0) == bool(fails_with))
        if fails_with:
            expect_true(f"{fails_with!r} is in: {done.stderr.strip()}", fails_with in done.stderr)
        return done.stdout

    def asked(self, path):
        """The answer of the API, or None while there is none."""
        try:
            with urllib.request.urlopen(f"{ADDRESS}/v1/{path}", timeout=60) as answer:
                return json.loads(answer.read())
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    # Jobs

    def run_job(self, file, *variables):
        words = [word for variable in variables for word in ("-var", variable)]
        self.nomad("job", "run", "-detach", *words, file)

    def stop_job(self, job):
        self.nomad("job", "stop", "-purge", "-detach", job)
        eventually(f"the tasks of {job} have ended", lambda: not self.running(job), PATIENCE)

    def running(self, job):
        """Its allocations that have not ended."""
        return [entry["ID"] for entry in self.asked(f"job/{job}/allocations") or []
                if entry["ClientStatus"] in ("pending", "running")]

    def started(self, job, groups):
        """Waits until a task of each group runs, and returns the allocations by their group."""
        def all_run():
            entries = [entry for entry in self.asked(f"job/{job}/allocations") or []
                       if entry["ClientStatus"] == "running" and entry["DesiredStatus"] == "run"]
            return {entry["TaskGroup"]: entry["ID"] for entry in entries} if {
                entry["TaskGroup"] for entry in entries} >= set(groups) else None
        return eventually(f"the groups {', '.join(groups)} of {job} run", all_run, PATIENCE)

    # Plugin and volumes

    def await_plugin(self, healthy=1):
        def is_healthy():
            plugin = self.asked(f"plugin/csi/{PLUGIN}") or {}
            return plugin.get("ControllersHealthy", 0) == plugin.get("NodesHealthy", 0) == healthy
        eventually(f"nomad plugin status {PLUGIN} counts {healthy} healthy", is_healthy, PATIENCE)

    def volume(self, name):
        return self.asked(f"volume/csi/{name}")

    def create_volume(self, file, **replaced):
        """`replaced`: attributes that this file leaves to the user, or that the test changes."""
        with open(f"{FILES}/volumes/{file}.volume.hcl", encoding="utf-8") as specification:
            lines = specification.read().splitlines()
        for name, value in replaced.items():
            [index] = [at for at, line in enumerate(lines) if line.split("=")[0].strip() == name]
            lines[index] = f'{name} = "{value}"'
        path = f"{self.work}/{file}.volume.hcl"
        with open(path, "w", encoding="utf-8") as specification:
            specification.write("\n".join(lines) + "\n")
        return self.nomad("volume", "create", path)

    def await_no_claims(self, *names):
        def claimed():
            volumes = [self.volume(name) for name in names]
            return [volume["ID"] for volume in volumes if volume["ReadAllocs"] or volume["WriteAllocs"]]
        eventually("Nomad has released the claims", lambda: not claimed(), PATIENCE)

    def volume_mounts(self):
        """Where volumes are mounted for tasks, and where they are staged."""
        return [mount.target for mount in mounts(f"{DATA_DIR}/client/csi")
                if "/per-alloc/" in mount.target or "/staging/" in mount.target]
