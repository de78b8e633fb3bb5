"""Starts a judge and reads its verdict."""
import contextlib
import os
import signal
import subprocess
import tempfile

from node import Wrong

PATIENCE = 300


class Program:
    """A running judge. Its output goes to a file, because it can be long."""

    def __init__(self, node, *command):
        self.command = command
        with tempfile.NamedTemporaryFile(dir=node.work, delete=False) as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                command, cwd=node.work, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.log = log.name

    def runs(self):
        return self.process.poll() is None

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def verdict(self):
        """Raises Wrong with the judge's words."""
        status = self.process.wait(PATIENCE)
        if status != 0:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                lines = [line[:200] for line in file.read().strip().splitlines()]
            raise Wrong("\n        ".join([f"{' '.join(self.command)}: status {status}:", *lines[:5], *lines[5:][-5:]]))


def judged(node, *command):
    Program(node, *command).verdict()
