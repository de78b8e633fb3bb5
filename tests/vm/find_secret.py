"""find_secret.py {--file FILE | --mapping NAME} [--memory REGEX] PLACE...: finds a secret in the system where it runs.

The secret is the content of FILE without its line end, or the key of a mapping of dm-crypt. So it is in no argument of this
program. Searches the arguments and environments of all processes, the journal, and the files below each PLACE. Also the
memory of the processes whose names match REGEX. Prints a line for each finding.
"""

import argparse
import os
import re
import subprocess
import sys

CHUNK = 1 << 20


def content_of(path):
    """Empty if the process has ended, or the file is gone."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def forms_of(arguments):
    """The forms in which the secret could be written down."""
    if not arguments.mapping:
        return [content_of(arguments.file).rstrip(b"\n")]
    table = subprocess.run(["dmsetup", "table", "--showkeys", arguments.mapping], check=True, stdout=subprocess.PIPE, text=True)
    key = table.stdout.split()[4]  # START LENGTH "crypt" CIPHER KEY
    return [bytes.fromhex(key), key.encode()]


def has(stream, forms):
    """Whether one of the forms is in the stream, also across the end of a chunk."""
    kept = b""
    most = max(len(form) for form in forms) - 1
    while chunk := stream.read(CHUNK):
        kept += chunk
        if any(form in kept for form in forms):
            return True
        kept = kept[-most:]
    return False


class Region:
    """A part of a process's memory, as a stream."""

    def __init__(self, memory, start, end):
        self.memory, self.at, self.end = memory, start, end

    def read(self, size):
        try:
            chunk = os.pread(self.memory, min(size, self.end - self.at), self.at) if self.at < self.end else b""
        except OSError:  # a mapping of a device, or behind the end of a file
            return b""
        self.at += len(chunk)
        return chunk


def regions_of(process):
    for line in content_of(f"/proc/{process}/maps").decode(errors="replace").splitlines():
        span, flags = line.split()[:2]
        if flags.startswith("r") and "[vvar" not in line and "[vsyscall" not in line:
            yield tuple(int(number, 16) for number in span.split("-"))


def is_in_memory(process, forms):
    try:
        memory = os.open(f"/proc/{process}/mem", os.O_RDONLY)
    except OSError:
        return False
    try:
        return any(has(Region(memory, *region), forms) for region in regions_of(process))
    finally:
        os.close(memory)


def findings_of_processes(forms, memory):
    for process in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        if int(process) == os.getpid():
            continue
        name = content_of(f"/proc/{process}/comm").decode(errors="replace").strip()
        for kind in ("cmdline", "environ"):
            if any(form in content_of(f"/proc/{process}/{kind}") for form in forms):
                yield f"{kind} of {name}"
        if memory and re.search(memory, name) and is_in_memory(process, forms):
            yield f"memory of {name}"


def is_in_file(path, forms):
    try:
        with open(path, "rb") as file:
            return has(file, forms)
    except FileNotFoundError:  # removed meanwhile
        return False


def findings_of_files(forms, places):
    for place in places:
        for folder, _, names in os.walk(place):
            for path in (os.path.join(folder, name) for name in names):
                if os.path.isfile(path) and not os.path.islink(path) and is_in_file(path, forms):
                    yield path


def findings_of_journal(forms):
    with subprocess.Popen(["journalctl", "--no-pager", "--all", "--output=export"], stdout=subprocess.PIPE) as journal:
        if has(journal.stdout, forms):
            yield "journal"
            journal.kill()


def main():
    parser = argparse.ArgumentParser()
    secret = parser.add_mutually_exclusive_group(required=True)
    secret.add_argument("--file", metavar="FILE")
    secret.add_argument("--mapping", metavar="NAME")
    parser.add_argument("--memory", metavar="REGEX")
    parser.add_argument("places", metavar="PLACE", nargs="*")
    arguments = parser.parse_args()
    forms = forms_of(arguments)
    if any(len(form) < 16 for form in forms):
        sys.exit("the secret is too short, or there is none")
    for findings in (findings_of_processes(forms, arguments.memory), findings_of_files(forms, arguments.places),
                     findings_of_journal(forms)):
        for finding in findings:
            print(finding)


main()
