#!/usr/bin/python3
"""A task that writes a block of a volume and keeps what it opened until it is killed: ROOT TARGET PATH HOW OFFSET NUMBER.
Its mount namespace has no other mount below ROOT than TARGET."""
import mmap
import os
import struct
import subprocess
import sys

BLOCK = 4096

root, target, path, how, offset, number = *sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6])
with open("/proc/self/mountinfo", encoding="utf-8") as table:
    places = [line.split()[4] for line in table]
others = [place for place in places if place.startswith(root + "/") and place != target]
if others:
    subprocess.run(["umount", "-l", *reversed(others)], check=True)
data = struct.pack("<Q", number) * (BLOCK // 8)
file = os.open(path, os.O_RDWR | (0 if os.path.exists(path) else os.O_CREAT), 0o644)
if how == "mmap":
    if os.fstat(file).st_size < offset + BLOCK and os.path.isfile(path):
        os.ftruncate(file, offset + BLOCK)
    memory = mmap.mmap(file, BLOCK, offset=offset)
    memory[:] = data
else:
    os.pwrite(file, data, offset)
print("ready", flush=True)
sys.stdin.read()
