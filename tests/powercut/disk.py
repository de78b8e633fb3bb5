#!/usr/bin/python3
"""A disk that loses the writes that were not flushed: a file in a FUSE filesystem, for a loop device.

disk.py FILE DIRECTORY SEED [--ignore-flushes]

Serves DIRECTORY/disk with the content of FILE, until stdin ends. Each write lies in memory until a flush (FUSE_FSYNC)
writes it to FILE. It answers a line on stdin with a line on stdout:

    begin N P  "begun". All writes so far are flushed. The disk cuts itself instead of the Nth flush of at least P pages.
    cut        cuts the power now.

A cut prints one line of JSON and ends this process, so all later reads and writes fail. FILE then has, for each 4 KiB
page that was written since the last flush, the old content or that of any of these writes.
"""
import ctypes
import errno
import json
import os
import random
import select
import stat
import struct
import sys
import time

PAGE = 4096
LONGEST_WRITE = 1 << 20
ROOT, DISK = 1, 2  # the two inodes

# linux/fuse.h
IN_HEADER, OUT_HEADER = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
ATTRIBUTES = struct.Struct("<QQQ24x12xIIIIIII")
IN_OUT = struct.Struct("<QQIIQII")  # fuse_read_in and fuse_write_in
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, RELEASE = 1, 2, 3, 4, 14, 15, 16, 18
FSYNC, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 20, 25, 26, 36, 42
DIRECT_IO, NO_FLUSH = 1, 1 << 5  # of an open file: each write reaches this server; a close asks it nothing
MAX_PAGES = 1 << 22  # of INIT: requests of up to LONGEST_WRITE


class Pages:
    """The content of the disk: FILE, and above it the versions of each page that were written since the last flush."""

    def __init__(self, file):
        self.file = os.open(file, os.O_RDWR)
        self.size = os.fstat(self.file).st_size
        self.versions = {}

    def read(self, offset, size):
        content = bytearray(os.pread(self.file, size, offset).ljust(size, b"\0"))
        for page in range(offset // PAGE, (offset + size - 1) // PAGE + 1):
            if page in self.versions:
                start = page * PAGE - offset
                newest = self.versions[page][-1]
                content[max(start, 0):start + PAGE] = newest[max(-start, 0):size - start]
        return bytes(content)

    def write(self, offset, content):
        first, last = offset // PAGE, (offset + len(content) - 1) // PAGE
        before = self.read(first * PAGE, offset - first * PAGE)
        after = self.read(offset + len(content), (last + 1) * PAGE - offset - len(content))
        whole = before + content + after
        for number in range(last - first + 1):
            self.versions.setdefault(first + number, []).append(whole[number * PAGE:(number + 1) * PAGE])

    def flush(self):
        for page, versions in self.versions.items():
            os.pwrite(self.file, versions[-1], page * PAGE)
        self.versions.clear()

    def cut(self, chance):
        """Keeps a random version of each page. Returns the number of pages, and of those that lost a write."""
        keeps_old = chance.choice((0.1, 0.5, 0.9))
        pages, lost = len(self.versions), 0
        for page in sorted(self.versions):
            versions = self.versions[page]
            kept = None if chance.random() < keeps_old else chance.choice(versions)
            lost += kept is not versions[-1]
            if kept is not None:
                os.pwrite(self.file, kept, page * PAGE)
        self.versions.clear()
        return pages, lost


class Disk:
    def __init__(self, file, directory, seed, ignores_flushes):
        self.pages = Pages(file)
        self.chance = random.Random(seed)
        self.ignores_flushes = ignores_flushes
        self.writes = self.flushes = 0
        self.flushes_left, self.fewest_pages = None, 1  # until the power goes, and which of them count
        self.fuse = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
        options = f"fd={self.fuse},rootmode=40000,user_id=0,group_id=0"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"power-cut", directory.encode(), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount FUSE", directory)

    def serve(self):
        while True:
            ready, _, _ = select.select([self.fuse, sys.stdin], [], [])
            if sys.stdin in ready:
                self.obey(os.read(sys.stdin.fileno(), 100).decode().split())
            if self.fuse in ready:
                self.answer_next()

    def obey(self, words):
        if not words:
            sys.exit()  # the test has ended
        if words[0] == "cut":
            self.cut()
        self.pages.flush()
        self.writes = self.flushes = 0
        self.flushes_left, self.fewest_pages = int(words[1]), int(words[2])
        print("begun", flush=True)

    def cut(self):
        now = time.monotonic()
        pages, lost = self.pages.cut(self.chance)
        report = {"at": now, "writes": self.writes, "flushes": self.flushes, "unflushed": pages, "lost": lost}
        print(json.dumps(report), flush=True)
        sys.exit()

    def answer_next(self):
        try:
            request = os.read(self.fuse, LONGEST_WRITE + PAGE)
        except OSError as error:
            if error.errno == errno.ENODEV:  # unmounted
                sys.exit()
            return  # the kernel has taken the request back
        _, opcode, unique, node, *_ = IN_HEADER.unpack_from(request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return  # these have no answer
        try:
            error, content = 0, self.answer(opcode, node, memoryview(request)[IN_HEADER.size:])
        except OSError as refusal:
            error, content = refusal.errno, b""
            if error not in (errno.ENOENT, errno.ENOSYS):  # the host's disk is full: no fault of the programs
                print(f"        the disk fails: {refusal}", file=sys.stderr, flush=True)
        os.write(self.fuse, OUT_HEADER.pack(OUT_HEADER.size + len(content), -error, unique) + content)

    def answer(self, opcode, node, body):
        if opcode == WRITE:
            return self.write(body)
        if opcode == READ:
            _, offset, size, *_ = IN_OUT.unpack_from(body)
            return self.pages.read(offset, min(size, self.pages.size - offset))
        if opcode == FSYNC:
            self.flush()
            return b""
        if opcode == INIT:
            return INIT_OUT.pack(7, 31, LONGEST_WRITE, MAX_PAGES, 0, 0, LONGEST_WRITE, 1, LONGEST_WRITE // PAGE, 0, 0)
        if opcode == LOOKUP:
            if bytes(body) != b"disk\0":
                raise OSError(errno.ENOENT, "no such file")
            return struct.pack("<QQQQII", DISK, 0, 0, 0, 0, 0) + self.attributes(DISK)
        if opcode in (GETATTR, SETATTR):
            return bytes(16) + self.attributes(node)
        if opcode == OPEN:
            return struct.pack("<QII", 0, DIRECT_IO | NO_FLUSH, 0)
        if opcode in (FLUSH, RELEASE):  # a closed file is not flushed
            return b""
        raise OSError(errno.ENOSYS, "not served")

    def attributes(self, node):
        mode, size = (stat.S_IFDIR | 0o755, 0) if node == ROOT else (stat.S_IFREG | 0o600, self.pages.size)
        return ATTRIBUTES.pack(node, size, size // 512, mode, 1, 0, 0, 0, PAGE, 0)

    def write(self, body):
        self.writes += 1
        _, offset, size, *_ = IN_OUT.unpack_from(body)
        self.pages.write(offset, bytes(body[IN_OUT.size:IN_OUT.size + size]))
        return struct.pack("<II", size, 0)

    def flush(self):
        self.flushes += 1
        if self.flushes_left and len(self.pages.versions) >= self.fewest_pages:
            self.flushes_left -= 1
            if not self.flushes_left:
                self.cut()
        if not self.ignores_flushes:
            self.pages.flush()


if __name__ == "__main__":
    Disk(sys.argv[1], sys.argv[2], int(sys.argv[3]), "--ignore-flushes" in sys.argv).serve()
