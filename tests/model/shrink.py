"""The shortest history that still shows a difference: leaves out steps as long as it does (delta debugging)."""
import time


def shortest(steps, differs, seconds):
    """`differs(steps)` returns the steps that were really played up to the difference, or None."""
    deadline = time.monotonic() + seconds
    steps = differs(steps) or steps
    size = max(len(steps) // 2, 1)
    while time.monotonic() < deadline:
        at, shorter = 0, False
        while at < len(steps) and time.monotonic() < deadline:
            played = differs(steps[:at] + steps[at + size:])
            if played and len(played) < len(steps):
                steps, shorter = played, True
            else:
                at += size
        if size == 1 and not shorter:
            break
        size = max(size // 2, 1)
    return steps
