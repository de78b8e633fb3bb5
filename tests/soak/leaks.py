"""Real leaks that a run plants, to prove that it finds them. Each grows a little after each round."""
from csi import Plugin
from host import run


class Descriptors:
    """The plugin has a descriptor for each connection, and these clients never close theirs."""
    series = "plugin_descriptors"

    def __init__(self, soak):
        self.soak, self.clients = soak, []

    def grow(self):
        client = Plugin(self.soak.world.csi.socket, keeps_connection=True)
        client.ready()
        self.clients.append(client)

    def end(self):
        for client in self.clients:
            client.channel.close()
        self.clients.clear()


class LoopDevices:
    """A loop device of the pool that no unstage detaches."""
    series = "loop_devices"

    def __init__(self, soak):
        self.soak, self.files = soak, []

    def grow(self):
        file = f"{self.soak.world.images}/.planted-{len(self.files)}"
        run("truncate", "-s", "1M", file)
        run("losetup", "--find", file)
        self.files.append(file)

    def end(self):
        """Asks for the devices anew: after a reboot the number of an old one may be another program's."""
        for file in self.files:
            for device in run("losetup", "--noheadings", "--output", "NAME", "--associated", file).split():
                run("losetup", "--detach", device)
        self.files.clear()


LEAKS = {"descriptors": Descriptors, "loop-devices": LoopDevices}
