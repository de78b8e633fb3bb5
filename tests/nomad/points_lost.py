"""Cases that Nomad leaves to people: a disk that is mounted late, and a volume that Nomad has forgotten."""
import os
import re
import shlex

from csi import Refused
from host import Wrong, eventually, expect, expect_true, mounts, refused, run
from nomad import PluginTask
from world import ALONE, BLOCK, DATA_DIR, IMAGE, NODE, ROOT, job_file, tasks_of

ABOVE = os.path.join(DATA_DIR, "srv")  # on a shared mount, as / is where systemd is the first process


def _is_ready(task):
    try:
        return task.plugin.ready()
    except Refused as refusal:
        expect("the code of Probe", refusal.code, "FAILED_PRECONDITION")
        expect_true(f"Probe says what is missing: {refusal.words}", "is missing" in refusal.words)
        return False


def _plugin_with_a_disk(w, disk):
    variables = (f"node={NODE}", f"above_disk={ABOVE}", f"state_dir={disk}/state")
    job = tasks_of(job_file("plugin.nomad.hcl", *variables))["monolith"]
    task = PluginTask(w.root, job, None, IMAGE).start()
    w.tasks.append(task)
    return task


# Twice, as after a reboot: the second time there is a volume on the disk.
def Disk_that_is_mounted_late_is_waited_for(w):
    before, disk = w.plugin, os.path.join(ABOVE, "disk")
    w.lose_plugin("TERM")
    os.makedirs(disk)
    image = os.path.join(ABOVE, "disk.img")
    run("truncate", "-s", "256M", image)
    run("mkfs.ext4", "-q", image)
    volume = None
    for life in range(2):
        task = _plugin_with_a_disk(w, disk)
        eventually("its socket is there", lambda: os.path.exists(task.plugin.socket))  # noqa: B023
        w.use(task)
        eventually("it waits", lambda: not _is_ready(task))  # noqa: B023
        refused("UNAVAILABLE", "is missing", lambda: w.server.create("other"))
        expect("what is in the mount point", os.listdir(disk), [])
        run("mount", "-o", "loop", image, disk)
        if life == 0:
            run("install", "-d", "-m", "0700", "-o", "65525", "-g", "65525", f"{disk}/state")
        eventually("it goes on by itself", lambda: _is_ready(task))  # noqa: B023
        volume = volume or w.server.create("web")
        user = w.allocate(volume)
        if life == 0:
            user.sh("echo kept >/srv/f && sync -f /srv/f")
        expect("what the task reads", user.sh("cat /srv/f"), "kept")
        expect_true("its image is on the disk", os.path.exists(f"{disk}/state/volumes/{volume.external_id}.img"))
        user.stop()
        if life == 1:
            w.server.delete(volume)
        task.lose("TERM")
        run("umount", disk)
        expect("what is in the mount point then", os.listdir(disk), [])
    os.unlink(image)
    w.use(before)
    w.start_plugin_again()


def _commands_of_the_page(**words):
    """The commands of docs/nomad.md for the plugin's container, in their order, with their placeholders replaced."""
    with open(os.path.join(ROOT, "docs/nomad.md"), encoding="utf-8") as file:
        section = file.read().split("### A volume that Nomad has forgotten")[1].split("\n#")[0]
    commands = re.findall(r"^\$ nomad alloc exec ALLOC (.*)", section, re.MULTILINE)
    return [" ".join(words.get(word, word) for word in command.split()) for command in commands]


def _exec(w, command):
    """As `nomad alloc exec` does it."""
    return w.plugin.container.run(*shlex.split(command))


def _refusal(action):
    """The plugin's error, without the quotes of a shell."""
    try:
        action()
    except Refused as refusal:
        expect("the code", refusal.code, "FAILED_PRECONDITION")
        return refusal.words.replace("'", "")
    raise Wrong("not refused")


# The task stopped while the plugin was away, and the agent was restarted before it was back: no call comes any more.
def Forgotten_volumes_are_freed_by_the_commands_of_the_page(w):
    for usage in (ALONE, BLOCK):
        volume = w.server.create("web", usage)
        user = w.allocate(volume, usage)
        w.lose_plugin("KILL")
        user.stop_task()
        w.agent.restart()
        w.start_plugin_again()
        target, staging = w.agent.target(volume, user.id, usage)[1], w.agent.staging(volume, usage)[1]
        commands = _commands_of_the_page(**{"EXTERNAL-ID": volume.external_id, "TARGET": target, "STAGING": staging,
                                            "n1": NODE})
        doctor, unpublish, unstage, unpublish_from_node = commands
        said = _refusal(lambda: w.allocate(volume, usage))  # noqa: B023
        expect_true(f"the next allocation's error has {unpublish}: {said}", unpublish in said)
        said = _refusal(lambda: w.server.delete(volume))  # noqa: B023
        expect_true(f"the delete's error has {unstage}: {said}", unstage in said)
        told = _exec(w, doctor).replace("'", "")
        expect_true(f"the doctor says {unpublish}: {told}", unpublish in told)
        if usage is ALONE:
            expect_true(f"the doctor says {unstage}: {told}", unstage in told)
        for command in (unpublish, unstage, unpublish_from_node):
            _exec(w, command)
        w.check_host()
        again = w.allocate(volume, usage)
        again.stop()
        w.server.delete(volume)


# Nomad's directory contains the plugin's type, so a plugin of another type does not see the mounts of the earlier one.
def Mounts_of_another_plugin_type_are_freed_by_its_earlier_job(w):
    volume = w.server.create("web")
    user = w.allocate(volume)
    target, staging = w.agent.target(volume, user.id, ALONE)[1], w.agent.staging(volume, ALONE)[1]
    before = w.plugin
    w.lose_plugin("TERM")
    jobs = tasks_of(job_file("plugin-apart.nomad.hcl", f"node={NODE}"))
    node, controller = w.start_plugin(jobs["node"]), w.start_plugin(jobs["controller"])
    w.use(node)
    w.server.task = controller
    user.stop()
    expect_true("the mounts are still there", mounts(before.mounts))
    for task in (node, controller):
        task.lose("TERM")
    w.use(before)
    w.start_plugin_again()
    for command in _commands_of_the_page(**{"EXTERNAL-ID": volume.external_id, "TARGET": target, "STAGING": staging,
                                            "n1": NODE})[1:]:
        _exec(w, command)
    w.check_host()
    w.server.delete(volume)
