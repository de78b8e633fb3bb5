"""The mounts and loop devices that the strict driver makes."""
import ctypes
import os
import re
import subprocess

MS_RDONLY, MS_REMOUNT, MS_BIND, UMOUNT_NOFOLLOW = 1, 32, 4096, 8
FLAGS = {"ro": MS_RDONLY, "rw": 0, "nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024}

_libc = ctypes.CDLL(None, use_errno=True)


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _checked(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def _mount(source, target, flags):
    _checked(_libc.mount(source.encode(), target.encode(), b"", ctypes.c_ulong(flags), b""), f"mount {target}")


def bind(source, target, flags=0):
    _mount(source, target, MS_BIND)
    if flags:
        _mount("", target, MS_REMOUNT | MS_BIND | flags)


def unmount(target):
    _checked(_libc.umount2(target.encode(), UMOUNT_NOFOLLOW), f"unmount {target}")


def _plain(field):
    return re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), field.encode()).decode(
        errors="surrogateescape")


def is_mounted(target):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return any(_plain(line.split()[4]) == target for line in table)


def _losetup(*arguments):
    done = subprocess.run(["losetup", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(0, f"losetup {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def devices_of(image):
    return [line.split(":")[0] for line in _losetup("--associated", image).splitlines()]


def attach(image, read_only=False):
    return _losetup("--find", "--show", *(["--read-only"] if read_only else []), image)


def detach(image):
    for device in devices_of(image):
        _losetup("--detach", device)


def resize(image):
    for device in devices_of(image):
        _losetup("--set-capacity", device)


def detach_device(image, number):
    """The device of this number."""
    for device in devices_of(image):
        if os.stat(device).st_rdev == number:
            _losetup("--detach", device)
