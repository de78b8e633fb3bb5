"""Faults that a test orders: a driver that is slow, that hangs, that dies, that refuses.

--delay MS: each call takes that long.
--gone-every N: each process of the driver kills itself at its N-th call. Every second process acts before it does so.
--control DIR: a file DIR/<Method> holds the fault of that call. It is "hang" until the file is removed. "die before" and
"die after" end the driver once, before or after it acts. With "fail CODE WORDS" the driver refuses. With "lost CODE WORDS"
it acts, and answers with that error.
"""
import os
import signal
import threading
import time

from call import refuse


class Faults:
    def __init__(self, options, life, one_at_a_time):
        self.options = options
        self.dies_after = life % 2 == 0
        self.calls = 0
        self.lock = threading.Lock()
        self.one_at_a_time = one_at_a_time

    def before(self, call):
        """The fault after the driver has acted: nothing, or die, or refuse."""
        time.sleep(self.options.delay / 1000)
        word, rest = self._ordered(call.method)
        while word == "hang":
            time.sleep(0.02)
            word, rest = self._ordered(call.method)
        if word == "fail":
            refuse(*rest.split(" ", 1))
        if word == "die":
            os.unlink(os.path.join(self.options.control, call.method))
        with self.lock:
            self.calls += 1
            is_last = self.options.gone_every and self.calls >= self.options.gone_every
        dies_after = rest == "after" or (is_last and self.dies_after)
        if (word == "die" or is_last) and not dies_after:
            self.die()
        if word == "lost":
            return lambda: refuse(*rest.split(" ", 1))
        return self.die if dies_after else lambda: None

    def die(self):
        """Not during another call, so that its work on the kernel is also in the state."""
        with self.one_at_a_time:
            os.kill(os.getpid(), signal.SIGKILL)

    def _ordered(self, method):
        try:
            with open(os.path.join(self.options.control or "/nonexistent", method), encoding="utf-8") as file:
                word, _, rest = file.read().strip().partition(" ")
                return word, rest
        except FileNotFoundError:
            return "", ""
