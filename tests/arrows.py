"""Checks that each #include of a file of ours follows a link line, and that each source exists: `arrows.py ROOT`.

A header may include the PUBLIC libraries of its own target, and a source the PRIVATE ones, too. The PUBLIC libraries of an
allowed library are allowed as well. Looks at mounter/, plugin/ and manager/.
"""

import collections
import pathlib
import re
import sys

CHECKED = ("mounter", "plugin", "manager")
KINDS = ("SOURCES", "PUBLIC", "PRIVATE", "INTERFACE")


class Targets:
    def __init__(self, root):
        self.public, self.private = collections.defaultdict(set), collections.defaultdict(set)
        self.of_source, self.of_folder = {}, {}
        self.missing = []  # sources of builds that are rarely made, as that of the fuzzers
        for page in sorted(root.rglob("CMakeLists.txt")):
            if root / "build" not in page.parents:
                text = re.sub(r"#.*", "", page.read_text())
                self._read(page.relative_to(root).parent, text)
                self.missing += self._missing(page.relative_to(root), root, text)

    @staticmethod
    def _missing(page, root, text):
        for word in re.findall(r"[^\s()]+\.cc\b", text):
            path = word.replace("${PROJECT_SOURCE_DIR}", str(root.resolve()))
            if "$" not in path and not (root / page.parent / path).is_file():
                yield f"{page}: {word} does not exist"

    def _read(self, folder, text):
        for command, words in re.findall(r"(\w+)\s*\(([^()]*)\)", text):
            name, *words = words.split() or [""]
            if command == "mooring_library":
                name = "mooring_" + name
                self.public[name].add("mooring_base")
            elif command not in ("add_library", "add_executable", "target_link_libraries", "target_sources"):
                continue
            kind = "PUBLIC" if command == "target_link_libraries" else "SOURCES"
            for word in words:
                if word in KINDS:
                    kind = word
                elif word.endswith(".cc"):
                    self.of_source[folder / word] = name
                elif kind != "SOURCES":
                    links = self.private if kind == "PRIVATE" else self.public
                    links[name].add(word.replace("::", "_"))
            if command in ("mooring_library", "add_library") and not self.of_folder.get(folder):
                self.of_folder[folder] = name

    def owner(self, file):
        """The target of a source, and for a header that of its source or of the nearest folder that has a library."""
        source = file.with_suffix(".cc")
        if source in self.of_source:
            return self.of_source[source]
        return next((self.of_folder[folder] for folder in file.parents if folder in self.of_folder), None)

    def allowed(self, file):
        target = self.owner(file)
        found, left = {target}, set(self.public[target])
        if file.suffix == ".cc":
            left |= self.private[target]
        while left:
            library = left.pop()
            found.add(library)
            left |= self.public[library] - found
        return found


def problems(root):
    targets = Targets(root)
    yield from targets.missing
    for file in sorted(file for top in CHECKED for file in (root / top).rglob("*") if file.suffix in (".h", ".cc")):
        name = file.relative_to(root)
        for number, line in enumerate(file.read_text().split("\n"), 1):
            included = re.match(r'#include "([^"]+)"', line)
            if included and (root / included[1]).is_file():
                library = targets.owner(pathlib.Path(included[1]))
                if library not in targets.allowed(name):
                    yield f"{name}:{number}: {targets.owner(name)} does not link {library} for {included[1]}"


found = list(problems(pathlib.Path(sys.argv[1])))
print("\n".join(found))
sys.exit(bool(found))
