"""Checks what pages say about the repository: links, headings and paths exist, and the documentation is not too long.

usage: pages.py < FILES      (the names of all files of the project, a line each)
"""
import functools
import os
import re
import sys

MOST_WORDS = 40_000  # of README.md and docs/*.md together: CONTRIBUTING.md, "Language"
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGE = re.compile(r"(?<![\w/.-])(docs/[a-z-]+\.md)(?:#([a-z0-9-]+)(?![a-z0-9:-]))?")  # also in sources
SECTION = re.compile(r"(docs/[a-z-]+\.md), \"([^\"]+)\"")
PATH = re.compile(r"`([a-z][\w.-]*(?:/[\w.-]+)*/?)`")


def slug(heading):
    """The anchor that GitHub gives to a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip())
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", text).lower()).replace(" ", "-")


def prose_lines(text):
    """The lines outside code blocks."""
    code = False
    for line in text.split("\n"):
        if re.match(r"\s*```", line):
            code = not code
        elif not code:
            yield line


@functools.cache
def headings(page):
    with open(page, encoding="utf-8") as file:
        return {slug(line.lstrip("#")) for line in prose_lines(file.read()) if re.match(r"#+ ", line)}


def link_faults(page, text):
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(file):
            yield f"link to {target}, which does not exist"
        elif anchor and file.endswith(".md") and anchor not in headings(file):
            yield f"link to {target}, but the page has no such heading"


def path_faults(page, text, folders):
    """A path in backquotes that begins with a folder of the project has to exist. A word in capitals stands for a name."""
    here = os.path.dirname(page)
    for line in prose_lines(text):
        for path in PATH.findall(line):
            first = path.split("/")[0]
            is_known = first in folders or os.path.isdir(os.path.join(here, first))
            if "/" not in path or not is_known or first == "build" or re.search(r"/[A-Z_]+(?:/|$)", path):
                continue
            if not os.path.exists(path) and not os.path.exists(os.path.join(here, path)):
                yield f"{path} does not exist"


def reference_faults(text):
    for page, anchor in PAGE.findall(text):
        if not os.path.exists(page):
            yield f"{page} does not exist"
        elif anchor and anchor not in headings(page):
            yield f"{page} has no heading #{anchor}"
    for page, title in SECTION.findall(text):
        if os.path.exists(page) and slug(title.rstrip(".,")) not in headings(page):
            yield f"{page} has no section \"{title}\""


def main():
    names = sys.stdin.read().splitlines()
    folders = {name.split("/")[0] for name in names if "/" in name}
    faults, words = [], 0
    for name in names:
        try:
            with open(name, encoding="utf-8") as file:
                text = file.read()
        except UnicodeDecodeError:
            continue
        found = list(reference_faults(text))
        if name.endswith(".md"):
            found += [*link_faults(name, text), *path_faults(name, text, folders)]
        if name == "README.md" or re.fullmatch(r"docs/[^/]+\.md", name):
            words += len(text.split())
        faults += [f"{name}: {fault}" for fault in found]
    if words > MOST_WORDS:
        faults.append(f"README.md and docs/*.md have {words:,} words together, and may have {MOST_WORDS:,}")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


sys.exit(main())
