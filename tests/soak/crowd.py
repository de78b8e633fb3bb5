"""Many clients at once. Each publishes a resident again and again at a target of its own, reads there, and unpublishes."""
import os
import random
import threading
import time

from csi import Refused
from host import Wrong
from looks import bytes_of, describe
from model import BLOCK
from world import PATIENCE

CLIENTS = 2  # of each volume


class Client(threading.Thread):
    def __init__(self, world, volume, mode, number, end):
        super().__init__(daemon=True)
        self.world, self.volume, self.end = world, volume, end
        self.chance = random.Random(number)
        self.step = {"volume": volume.name, "target": f"crowd-{number}", "block": volume.block, "mode": mode}
        self.path = world.target(self.step)
        self.pairs, self.wrong = 0, None

    def run(self):
        try:
            while time.monotonic() < self.end:
                readonly = not self.volume.block and self.chance.random() < 0.5  # of a device, all targets are writable
                self.publish(readonly)
                self.look(readonly)
                self.world.csi.call("NodeUnpublishVolume", self.world.to_unpublish(self.step), PATIENCE)
                if os.path.lexists(self.path):
                    raise Wrong("it is there after its unpublish")
                self.pairs += 1
        except (Refused, Wrong, OSError) as error:
            self.wrong = f"{self.path}, after {self.pairs} pairs: {error}"

    def publish(self, readonly):
        self.world.csi.call("NodePublishVolume", self.world.to_publish(self.step | {"readonly": readonly}), PATIENCE)

    def look(self, readonly):
        """At one block that was written. Nobody writes meanwhile."""
        if readonly and not os.statvfs(self.path).f_flag & os.ST_RDONLY:
            raise Wrong("the mount is writable")
        files = {None: self.volume.content} if self.volume.block else self.volume.content
        written = [(file, block) for file, blocks in files.items() for block in blocks]
        if not written:
            return
        file, block = self.chance.choice(written)
        place = os.open(self.path if file is None else f"{self.path}/{file}", os.O_RDONLY)
        try:
            got = os.pread(place, BLOCK, block * BLOCK)
        finally:
            os.close(place)
        if got != bytes_of(files[file][block]):
            raise Wrong(f"block {block} of {file or 'the device'} has {describe(got)}, not the number {files[file][block]}")


def crowd(world, volumes, mode, seconds):
    """The volumes are staged with this mode. Returns the number of pairs. Raises Wrong."""
    end = time.monotonic() + seconds
    clients = [Client(world, volume, mode, number, end) for number, volume in enumerate(volumes * CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for client in clients:
        if client.wrong:
            raise Wrong(client.wrong)
    return sum(client.pairs for client in clients)
