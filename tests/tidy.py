#!/usr/bin/env python3
"""tests/tidy.py FOLDER: prepare clang-tidy's input from the release build.

FOLDER/compile_commands.json has one command for each source file. The release build compiles several sources at once, in
files that only include them. Each such command becomes a command for each of those sources. Options that only GCC
understands are left out.
FOLDER/dependencies has "SOURCE<tab>FILE" for each file of ours, or generated, that a source was compiled from.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"


def sources_of(compiled):
    """The sources that the compiled file stands for: itself, or those that it includes."""
    if "/Unity/unity_" not in compiled:
        return [compiled]
    return re.findall(r'^#include "(.+)"$', Path(compiled).read_text(encoding="utf-8"), re.MULTILINE)


def commands():
    for entry in json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8")):
        command = re.sub(r" -include \S*cmake_pch[.]hxx| -W\S+", "", entry["command"]) + " -w"
        for source in sources_of(entry["file"]):
            yield {**entry, "file": source, "command": command.replace(entry["file"], source)}


def dependencies():
    """(source, file) for what the last build read. Ninja lists the compiled file first."""
    listed = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], check=True, stdout=subprocess.PIPE, text=True).stdout
    for block in listed.split("\n\n"):
        files = [str((BUILD / line.strip()).resolve()) for line in block.splitlines()[1:]]
        ours = [file for file in files if file.startswith(f"{ROOT}/") and "cmake_pch" not in file]
        if not ours or not Path(ours[0]).is_file():
            continue
        for source in sources_of(ours[0]):
            yield from ((source, file) for file in ours if not file.endswith(".cc") or file == source)


def main():
    folder = Path(sys.argv[1])
    (folder / "compile_commands.json").write_text(json.dumps(list(commands()), indent=1), encoding="utf-8")
    relative = {tuple(str(Path(path).relative_to(ROOT)) for path in pair) for pair in dependencies()}
    lines = (f"{source}\t{file}\n" for source, file in sorted(relative))
    (folder / "dependencies").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
