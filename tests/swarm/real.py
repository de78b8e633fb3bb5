#!/usr/bin/python3
"""A real swarm of one node, with Mooring as its managed plugin: services use cluster volumes.

Started by tests/swarm/real, inside the namespaces, with a dockerd that has cluster volumes: real.py WORK.
"""
import json
import os
import sys

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/replay"))

from host import docker, eventually, expect, expect_true, mounts, run  # noqa: E402

PLUGIN = "mooring:latest"


def cluster_volume(name):
    return json.loads(docker("volume", "inspect", name))[0]["ClusterVolume"]


def made(volume):
    """The plugin's id of it, once Swarm has had it made."""
    return (cluster_volume(volume).get("Info") or {}).get("VolumeID")


def container_of(service):
    return docker("ps", "-q", "--filter", f"label=com.docker.swarm.service.name={service}")


def start_service(name, volume, *flags):
    docker("service", "create", "--detach", "--no-resolve-image", "--name", name, "--network", "host", *flags, "--mount",
           f"type=cluster,src={volume},dst=/srv", "base", "sleep", "1000")
    return eventually(f"a task of {name} runs", lambda: container_of(name))


def end_service(name):
    docker("service", "rm", name)
    eventually(f"the task of {name} is gone", lambda: not container_of(name))
    # A service that is placed before that never gets the volume.
    eventually("Swarm has taken the volume away", lambda: not cluster_volume("web").get("PublishStatus"))


def images(state):
    return os.listdir(os.path.join(state, "volumes"))


def published(work):
    """The plugin's mounts on the host: a mount for each volume and path."""
    return [mount for mount in mounts(os.path.join(work, "docker/data/plugins"))
            if "/propagated-mount/" in mount.target and mount.fs_type == "ext4"]


def the_plugin_is_enabled(work):
    state = os.path.join(work, "state")
    os.makedirs(state)
    run(os.path.join(ROOT, "packaging/docker-plugin/create"), "--image", os.environ["MOORING_PLUGIN_IMAGE"])
    docker("plugin", "set", PLUGIN, f"state.source={state}", "MOORING_NODE_ID=s1")
    docker("plugin", "enable", PLUGIN)
    docker("swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1")
    return state


def a_service_uses_a_volume_and_the_next_one_finds_its_data(work):
    docker("volume", "create", "--driver", PLUGIN, "--type", "mount", "--scope", "single", "--sharing", "none",
           "--required-bytes", "16MiB", "web")
    eventually("Swarm has the volume made", lambda: made("web"))
    task = start_service("first", "web")
    expect_true("the task has a filesystem", " /srv ext4 rw" in docker("exec", task, "cat", "/proc/mounts"))
    docker("exec", task, "sh", "-c", "echo hello >/srv/f && sync")
    end_service("first")
    expect("what is published then", published(work), [])
    task = start_service("second", "web")
    expect("what the next service reads", docker("exec", task, "cat", "/srv/f"), "hello")
    end_service("second")


def a_volume_is_removed(work, state):
    expect("the images", images(state), [made("web") + ".img"])
    docker("volume", "update", "--availability", "drain", "web")
    eventually("it is published no more", lambda: not published(work))
    docker("volume", "rm", "web")
    eventually("its image is gone", lambda: not images(state))
    eventually("Docker knows of no volume", lambda: not docker("volume", "ls", "-q"))


def the_plugin_is_removed(work):
    docker("swarm", "leave", "--force")
    docker("plugin", "disable", "-f", PLUGIN)
    docker("plugin", "rm", PLUGIN)
    eventually("nothing is mounted", lambda: not mounts(os.path.join(work, "docker/data/plugins")))


def main():
    work = sys.argv[1]
    state = the_plugin_is_enabled(work)
    print("ok      a swarm of one node, the plugin enabled", flush=True)
    a_service_uses_a_volume_and_the_next_one_finds_its_data(work)
    print("ok      a service uses a volume, and the next one finds its data", flush=True)
    a_volume_is_removed(work, state)
    print("ok      a volume is removed, and its image", flush=True)
    the_plugin_is_removed(work)
    print("ok      the plugin is removed, and nothing is left", flush=True)


if __name__ == "__main__":
    main()
