"""The records of the strict driver: volumes and snapshots for ever, stages and publishes until the next boot."""
import json
import os
import shutil

import kernel


class Store:
    def __init__(self, directory):
        self.directory = os.path.abspath(directory)
        self.file = os.path.join(self.directory, "state.json")
        for name in ("volumes", "snapshots"):
            os.makedirs(os.path.join(self.directory, name), exist_ok=True)
        state = {}
        if os.path.exists(self.file):
            with open(self.file, encoding="utf-8") as file:
                state = json.load(file)
        same_boot = state.get("boot") == kernel.boot_id()
        self.volumes = state.get("volumes", {})
        self.snapshots = state.get("snapshots", {})
        self.staged = state.get("staged", {}) if same_boot else {}  # volume id: path, capability
        self.published = state.get("published", {}) if same_boot else {}  # target: volume, capability, readonly
        self.lives = state.get("lives", 0) + 1
        self.save()

    def save(self):
        state = {"boot": kernel.boot_id(), "volumes": self.volumes, "snapshots": self.snapshots,
                 "staged": self.staged, "published": self.published, "lives": self.lives}
        with open(self.file + ".new", "w", encoding="utf-8") as file:
            json.dump(state, file)
        os.rename(self.file + ".new", self.file)

    def data_of(self, volume):
        """A directory, or an image for a block device."""
        return os.path.join(self.directory, "volumes", volume["data"])

    def snapshot_data(self, snapshot):
        return os.path.join(self.directory, "snapshots", snapshot["data"])

    def targets_of(self, volume_id):
        return [target for target, entry in self.published.items() if entry["volume"] == volume_id]

    def stage_of(self, volume_id):
        return self.staged.get(volume_id)


def copy(source, target):
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        copy_file(source, target)


def copy_file(source, target):
    with open(source, "rb") as from_file, open(target, "r+b" if os.path.exists(target) else "wb") as to_file:
        while chunk := from_file.read(1 << 20):
            if chunk.strip(b"\0"):
                to_file.write(chunk)
            else:
                to_file.seek(len(chunk), os.SEEK_CUR)
        to_file.truncate(max(os.path.getsize(source), os.fstat(to_file.fileno()).st_size))


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)
