"""Reports sentences that are hard to read. The names of the files come from standard input.

Looks at the comments of C++, proto, Python, shell and CMake files, and at Markdown pages. A sentence is reported when it has
more than 25 words, or begins with a word of BEGINNINGS and is no question.
"""

import io
import os
import re
import sys
import tokenize

MOST_WORDS = 25
BEGINNINGS = ("What", "Who", "Whoever", "One", "Those", "Of")
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf)\.(?=\s)")
FOREIGN = ("csi-spec/csi.proto", "proto/pluginregistration.proto")  # texts of other projects

C_TOKENS = re.compile(
    r'R"(?P<raw>[^(]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    r"|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)",
    re.DOTALL,
)
SHELL_COMMENT = re.compile(r"""^(?P<code>(?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|[^\\"'#]|(?<=[^\s])#)*)(?P<comment>#.*)$""")


def comment_lines_of_c(text):
    """Yields (line number, text before the comment, comment) of each line of a comment."""
    for token in C_TOKENS.finditer(text):
        comment = token.group("line") or token.group("block")
        if comment is None:
            continue
        number = text.count("\n", 0, token.start()) + 1
        before = text[text.rfind("\n", 0, token.start()) + 1 : token.start()]
        for offset, line in enumerate(comment.split("\n")):
            yield number + offset, " " * len(before) if offset else before, re.sub(r"^(//+|/\*+|\s*\*)|\*+/$", "", line)


def comment_lines_of_shell(text):
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r"^(?P<code>\s*)(?P<comment>#.*)$", line) or SHELL_COMMENT.match(line)
        if found and not re.match(r"#!|# shellcheck ", found["comment"]):
            yield number, found["code"], found["comment"][1:]


def comment_lines_of_python(text):
    begins_statement = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            yield token.start[0], token.line[: token.start[1]], token.string[1:]
        elif token.type == tokenize.STRING and begins_statement:  # the description of a module, class or function
            for offset, line in enumerate(token.string.strip("\"'rb").split("\n")):
                yield token.start[0] + offset, "", " " + line.strip()
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins_statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def paragraphs_of_comments(lines):
    """Joins the lines of a comment. A blank or indented line, and an item of a list, begin a paragraph of their own."""
    paragraph, last = [], None
    for number, before, text in lines:
        follows = last == (number - 1, len(before)) and not before.strip()
        if not follows or not text.strip() or re.match(r"\s*([-*]|\d+\.)\s|\s{3}", text):
            yield paragraph
            paragraph = []
        if text.strip():
            paragraph.append((number, text))
        last = (number, len(before))
    yield paragraph


def paragraphs_of_page(text):
    """Leaves out code blocks and headings. A table's cell and an item of a list are paragraphs of their own."""
    paragraph, in_code = [], False
    for number, line in enumerate(text.split("\n"), 1):
        fence = re.match(r"\s*(```|~~~)", line)
        in_code ^= bool(fence)
        ends = fence or in_code or not line.strip() or re.match(r"\s*(#|\||<)", line)
        if ends or re.match(r"\s*([-*+]|\d+\.)\s", line):
            yield paragraph
            paragraph = []
        if re.match(r"\s*\|", line) and not in_code:
            for cell in re.split(r"(?<!\\)\|", without_code(line)):
                yield [(number, cell)]
        elif not ends:
            paragraph.append((number, re.sub(r"^\s*>", "", line)))
    yield paragraph


def without_code(text):
    return re.sub(r"(`+)[^`].*?\1", "CODE", text)


def sentences(paragraph):
    """Yields (line number, sentence). Quoted code and the address of a link are a word or none."""
    text, starts = "", []
    for number, line in paragraph:
        starts.append((len(text), number))
        text += re.sub(r"^\s*([-*+]|\d+\.)\s+", "", line).strip() + "\n"
    end = 0
    for stop in re.finditer(r"[.!?][\"')\]*_]*(?=\s)|\Z", ABBREVIATIONS.sub(lambda word: word[0].replace(".", "_"), text)):
        begin = end + len(text[end:]) - len(text[end:].lstrip())
        sentence = re.sub(r"\]\([^)]*\)", "]", without_code(" ".join(text[end : stop.end()].split())))
        if sentence:
            yield max(number for start, number in starts if start <= begin), sentence.replace("**", "")
        end = stop.end()


def problem_of(sentence):
    words = [word for word in sentence.split() if re.search(r"\w", word)]
    if len(words) > MOST_WORDS:
        return f"{len(words)} words"
    first = re.match(r"\W*(\w+)", sentence)
    if first and first[1] in BEGINNINGS and not re.search(r"\?\W*$", sentence):
        return f"begins with '{first[1]}'"
    return None


def paragraphs_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if path.endswith(".md"):
        return paragraphs_of_page(text)
    if path.endswith((".cc", ".h", ".proto")):
        return paragraphs_of_comments(comment_lines_of_c(text))
    if path.endswith(".py") or re.match(r"#!.*python", text):
        return paragraphs_of_comments(comment_lines_of_python(text))
    if path.endswith((".sh", ".cmake", "CMakeLists.txt")) or re.match(r"#!.*\b(ba)?sh\b|# shellcheck shell=", text):
        return paragraphs_of_comments(comment_lines_of_shell(text))
    return ()


def problems_of(path):
    for paragraph in paragraphs_of(path):
        for number, sentence in sentences(paragraph):
            problem = problem_of(sentence)
            if problem:
                yield f"{path}:{number}: {problem}: {sentence}"


def main():
    files = {name for name in sys.stdin.read().split("\n") if name and name not in FOREIGN and not os.path.islink(name)}
    reports = [line for name in sorted(files) for line in problems_of(name)]
    print("\n".join(reports))
    sys.exit(bool(reports))


main()
