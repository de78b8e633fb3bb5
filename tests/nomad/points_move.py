"""A volume of plugin-shared.nomad.hcl moves between two clients with its task. The servers ask any plugin for it."""
import copy
import os

from host import eventually, expect, expect_true, mounts, refused, run
from nomad import Agent, Allocation, PluginTask, Server
from world import ALONE, BLOCK, DATA_DIR, IMAGE, job_file, tasks_of, volume_file

ABOVE = os.path.join(DATA_DIR, "shared")  # on a shared mount, as / is where systemd is the first process
POOL = os.path.join(ABOVE, "nfs/volumes")


class Client:
    """A client with its plugin. `asked`: the client whose plugin the servers ask for this one."""

    def __init__(self, w, name):
        self.name, self.world, self.asked = name, w, self
        self.root, self.state = os.path.join(DATA_DIR, name, "csi"), os.path.join(DATA_DIR, name, "state")
        for made in (self.root, self.state):
            os.makedirs(made, 0o700)
        os.chown(self.state, 65525, 65525)
        job = copy.deepcopy(tasks_of(job_file("plugin-shared.nomad.hcl", f"above_pool={ABOVE}"))["monolith"])
        config = job["config"][0]
        config["args"] = [word.replace("${node.unique.name}", name) for word in config["args"]]
        self.plugin = PluginTask(self.root, job, self.state, IMAGE).start().wait()
        w.tasks.append(self.plugin)
        self.agent = Agent(self.plugin)

    @property
    def server(self):
        return Server(self.asked.plugin, self.name)

    def allocate(self, volume, usage=ALONE):
        return Allocation(self, volume, usage)

    def lose_host(self, user):
        """Its power fails: the task ends, and so do mounts and loop devices."""
        user.stop_task()
        for mount in reversed(mounts(self.root)):
            run("umount", mount.target)


def _two_clients(w):
    os.makedirs(POOL, 0o700, exist_ok=True)
    os.chown(POOL, 65525, 65525)
    one, two = Client(w, "client-1"), Client(w, "client-2")
    one.asked, two.asked = two, one
    return one, two


def _end(*clients):
    expect("what is left in the pool", os.listdir(POOL), [".mooring"])
    for client in clients:
        client.plugin.lose("TERM")
        expect("the mounts that are left", mounts(client.root), [])
        run("rm", "-rf", os.path.join(DATA_DIR, client.name))
    run("rm", "-rf", ABOVE)


def _expect_clean(volume):
    run("e2fsck", "-fn", os.path.join(POOL, f"{volume.external_id}.img"))


# A drain, or a job that is placed elsewhere: the first client unmounts, and the servers release its claim.
def Moving_volumes_follow_their_task(w):
    clients = _two_clients(w)
    volume = clients[0].server.create_from(volume_file("moving"))
    for move in range(6):
        here, there = clients[move % 2], clients[1 - move % 2]
        user = here.allocate(volume)
        if move:
            expect("the content", user.sh("cat /srv/f"), f"{move - 1}")
        user.sh(f"echo {move} >/srv/f && sync -f /srv/f")
        refused("FAILED_PRECONDITION", here.name, lambda: there.allocate(volume))  # noqa: B023
        refused("FAILED_PRECONDITION", here.name, lambda: there.agent.stage(volume, ALONE, {}))  # noqa: B023
        user.stop()
        _expect_clean(volume)
    clients[0].server.delete(volume)
    _end(*clients)


def Moving_raw_devices_follow_their_task(w):
    clients = _two_clients(w)
    volume = clients[0].server.create("raw", BLOCK)
    for move in range(4):
        here, there = clients[move % 2], clients[1 - move % 2]
        user = here.allocate(volume, BLOCK)
        if move:
            expect("the content", user.sh("head -c 1 /srv"), f"{move - 1}")
        user.sh(f"echo {move} | dd of=/srv bs=512 conv=sync,fsync 2>/dev/null")
        refused("FAILED_PRECONDITION", here.name, lambda: there.allocate(volume, BLOCK))  # noqa: B023
        user.stop()
    clients[0].server.delete(volume)
    _end(*clients)


# The client does not answer, so the servers release its claim without it. While its host lives, that is refused.
def Moving_away_from_a_lost_client_waits_for_the_end_of_its_host(w):
    one, two = _two_clients(w)
    volume = two.server.create_from(volume_file("moving"))
    user = one.allocate(volume)
    user.sh("echo kept >/srv/f && sync -f /srv/f")
    one.plugin.lose("KILL")
    one.asked = two
    for _ in range(2):
        refused("FAILED_PRECONDITION", "still attached on node 'client-1'", lambda: one.server.unpublish(volume))
        two.asked = two
        refused("FAILED_PRECONDITION", "client-1", lambda: two.allocate(volume))
    expect("the task still writes", user.can("echo later >/srv/later && sync -f /srv/later"), True)

    one.lose_host(user)
    _expect_clean(volume)
    one.server.unpublish(volume)
    again = two.allocate(volume)
    expect("the content", again.sh("cat /srv/f /srv/later"), "kept\nlater")

    one.plugin.start().wait()  # the host comes back
    refused("FAILED_PRECONDITION", "client-2", lambda: one.allocate(volume))
    one.server.unpublish(volume)  # the claim is reaped once more
    expect_true("the second client has it", again.can("echo on >/srv/f && sync -f /srv/f"))
    again.stop()
    eventually("the filesystem is not mounted", lambda: not mounts(two.root))
    _expect_clean(volume)
    two.server.delete(volume)
    _end(one, two)
