"""The commands of docs/nomad.md and of the files in packaging/nomad: which there are, and who runs each."""
import re
import shlex

# A command is a program and an argument. A page says `mount` and `mount {}` of blocks in a job, too.
COMMAND = re.compile(r"^((nomad|mooring|mkdir|install|mount|umount|docker|losetup) [^{]|packaging/image$)")
# How many arguments follow a command of Nomad's, by its own usage. None of them: the page only names it.
ARGUMENTS = {"job run": (1, 1), "job eval": (1, 1), "job stop": (1, 1), "plugin status": (0, 1), "node status": (0, 1),
             "volume create": (1, 1), "volume delete": (1, 1), "volume status": (0, 1), "volume detach": (2, 2),
             "volume snapshot create": (2, 2), "alloc logs": (1, 2), "alloc exec": (2, 99)}
FLAGS_WITH_VALUE = {"-var", "-task"}
IN_THE_PLUGIN = re.compile(r"^nomad alloc exec ALLOC ")


def _said(text):
    """The commands between backticks, and behind the prompt of a block."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line[:2] in ("$ ", "# ")]
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return lines + re.findall(r"`([^`\n]+)`", plain)


def _table(page):
    """Command and who runs it, of the table at the end of the page."""
    rest = page.split("## The commands of docs/nomad.md")[1]
    return {command: by for command, by in re.findall(r"^\| `([^`]+)` \| (.*) \|$", rest, re.MULTILINE)}


def commands_of_page(page):
    """A command in the plugin's container stands for itself, whoever starts it there."""
    body = page.split("## The commands of docs/nomad.md")[0]
    names = {command for command in _said(body) if COMMAND.match(command)}
    return {IN_THE_PLUGIN.sub("", command) for command in names}


def commands_to_free(page):
    """The commands of the block under the heading, in its order, for the plugin's allocation."""
    section = page.split("### A volume that Nomad has forgotten")[1].split("\n#")[0]
    block, = re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for line in block.splitlines()]
    assert all(IN_THE_PLUGIN.match(line) for line in lines), lines
    return [IN_THE_PLUGIN.sub("", line) for line in lines]


def commands_of_file(text):
    comments = "\n".join(re.findall(r"#(.*)", text))
    return {command.strip(" .,;:") for command in re.findall(r"nomad (?:job|volume|plugin|alloc|node) [^#`\n,;]*", comments)}


def check_arguments(command):
    """As many as Nomad takes."""
    words = shlex.split(command)[1:]
    name = next((name for name in sorted(ARGUMENTS, key=len, reverse=True) if words[:len(name.split())] == name.split()),
                None)
    assert name, f"{command}: no command of Nomad's that is known here"
    rest, given = words[len(name.split()):], []
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            given.append(word)
        elif word in FLAGS_WITH_VALUE:
            rest.pop(0)
        if name == "alloc exec" and len(given) == 2:
            break  # what follows is the command's
    least, most = ARGUMENTS[name]
    assert not given or least <= len(given) <= most, f"{command}: {len(given)} arguments, not {least} to {most}"


def check(page, files, tests):
    """Each command is in the table, with a test that there is or the words `not run`, and nothing else is in it."""
    table, found = _table(page), commands_of_page(page)
    for command in sorted(found | {command for text in files for command in commands_of_file(text)}):
        if command.startswith("nomad "):
            check_arguments(command)
            assert "nomad …" in table, "the table has no row for commands of Nomad's"
            continue
        assert command in table, f"{command}: not in the table of commands"
        named = re.findall(r"`([A-Z]\w*_[a-z]\w+)`|`(tests/[\w/.]+)`", table[command])
        assert named or table[command].startswith("not run"), f"{command}: neither a test nor `not run`"
        for test, script in named:
            assert script or test in tests, f"{command}: there is no test {test}"
    gone = set(table) - found - {"nomad …"}
    assert not gone, f"in the table and not on the page: {gone}"
