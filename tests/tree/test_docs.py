#!/usr/bin/env python3
"""README.md, the pages beside it and those of docs name files that are there: each path in their text, and in that of
the drawings that they show, is a file of the tree or the end of one's path; each link leads to a file, and to a heading
where it names one. No line is over 120 columns, and the citation is of the version that the headers have. The table of
docs/performance.md has for each figure a date and, in the line below, a command of the tree's; figures are those of
docs/measurements.md, and bold is what misses its bar.
test_docs.py ROOT"""
import fnmatch
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../kit"))
import report  # noqa: E402

COLUMNS = 120
AT_THE_TOP = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
# Pages that name files as they are planned to be: only their lines are measured.
PLANS = ["docs/house*.md", "docs/glossary.md"]
# Named in pages, and no files of this tree: of other projects, of users, or as installed.
ELSEWHERE = {"book.txt", "build-packages/out", "llm.c", "merges.txt", "rota/rota.h", "rota/rota.hpp",
             "share/doc/rota/html",
             "share/rota", "stdio.h", "tinyshakespeare.txt"}
ENDINGS = "abi|c|cmake|comp|cpp|cu|cuh|def|glsl|h|hpp|map|md|plants|pml|py|sh|svg|txt|xml"
# A path, or a pattern for some; not a part of a longer word, nor one member of a struct after another.
PATH = re.compile(rf"(?<![\w./*-])(?:\w[\w.*-]*/)*[\w*][\w*-]*(?:\.\d+)*\.(?:{ENDINGS})(?![\w/]|\.\w)")
# A folder says so by the slash at its end, or stands alone in backquotes.
FOLDER = re.compile(r"(?<![\w./*$-])((?:\w[\w-]*/)+)(?![\w.*])|`(\w[\w-]*(?:/\w[\w-]*)+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
NUMBER = re.compile(r"\d+(?: \d{3})*(?:\.\d+)?")
# What commands of docs/performance.md call, if no file of the tree; test_listings knows the options of these.
PROGRAMS = ("rota-bench", "train_gpt", "train_patchtst")
FIGURES_LEAST = 6


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def find_files(root):
    """All files and folders of the tree, by their paths from its root; not what is built."""
    files, folders = set(), set()
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if not name.startswith((".", "build")) and name != "__pycache__"]
        here = os.path.relpath(folder, root)
        folders.update(os.path.normpath(os.path.join(here, name)) for name in below)
        files.update(os.path.normpath(os.path.join(here, name)) for name in names)
    return files, folders


def is_there(path, known):
    """`known` has each path with a slash before it, one a line."""
    pattern = re.escape(path).replace(r"\*", r"[^/\n]*")
    return re.search(f"/{pattern}\n", known) is not None


def headings(text):
    """What links call the headings of a page."""
    return {re.sub(r"[^\w -]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
            for line in text.splitlines() if line.startswith("#")}


def misses(ratio, bar):
    """Whether it misses a bar such as "≤ 1.1", which none does that is another text."""
    asked = re.match(r"([≤≥]) (\d+(?:\.\d+)?)", bar)
    return bool(asked) and (ratio > float(asked[2]) if asked[1] == "≤" else ratio < float(asked[2]))


def judge_command(root, known, text):
    """Whether it is one of rota's: a program, whose options test_listings knows, or a file that has the options."""
    command = re.fullmatch(r"`(\S+)([^`]*)`", text)
    if not command or command[1] in PROGRAMS:
        return bool(command)
    path = os.path.join(root, command[1])
    return is_there(command[1], known) and os.path.isfile(path) and all(
        option in read(path) for option in re.findall(r"--[\w-]+", command[2]))


def judge_performance(root, known):
    """The faults of the one table of current figures, and how many figures it has."""
    faults, seen = [], 0
    measured = read(os.path.join(root, "docs/measurements.md"))
    lines = read(os.path.join(root, "docs/performance.md")).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]
    for cells, below in zip(rows[::2], rows[1::2] + [["", ""]]):
        seen += 1
        where = f"docs/performance.md: '{cells[0]}'"
        if len(cells) != 6 or not re.fullmatch(r"(?:H200|two H200|2 cores), 20\d\d-[01]\d-[0-3]\d", cells[-1]):
            faults.append(f"{where}: six cells are expected, the last of them a machine and a date")
            continue
        if any(below[1:]) or not judge_command(root, known, below[0]):
            faults.append(f"{where}: a command of rota's is expected below it, not {below[0]}")
        faults += [f"{where}: docs/measurements.md has no {number}" for cell in cells[1:3]
                   for number in NUMBER.findall(cell) if number not in measured]
        judged = cells[3] or cells[1]  # what has no ratio is itself under its bar
        bold = [number for part in re.findall(r"\*\*([^*]*)\*\*", judged) for number in NUMBER.findall(part)]
        wrong = [number for number in NUMBER.findall(judged)
                 if misses(float(number.replace(" ", "")), cells[4]) != (number in bold)]
        if wrong:
            faults.append(f"{where}: {', '.join(wrong)} beside the bar {cells[4]}: bold is what misses it")
    return faults, seen


def judge(root):
    """The faults of the tree's pages, a sentence each, and how many paths and links were looked at."""
    files, folders = find_files(root)
    known = "".join(f"/{path}\n" for path in sorted(files))
    known_folders = "".join(f"/{path}\n" for path in sorted(folders))
    faults, seen = [], 0
    header = read(os.path.join(root, "base/export.h"))
    version = ".".join(re.search(rf"ROTA_VERSION_{part} (\d+)", header).group(1)
                       for part in ("MAJOR", "MINOR", "PATCH"))
    if f"\nversion: {version}\n" not in read(os.path.join(root, "CITATION.cff")):
        faults.append(f"CITATION.cff is not of version {version}, which base/export.h has")
    pages = sorted(path for path in files if path in AT_THE_TOP or fnmatch.fnmatchcase(path, "docs/*.md"))
    for page in pages:
        text = read(os.path.join(root, page))
        faults += [f"{page}:{number}: {len(line)} columns, expected {COLUMNS} at most"
                   for number, line in enumerate(text.splitlines(), 1) if len(line) > COLUMNS]
        named = {page: LINK.sub("]", text)}
        for link in LINK.findall(text):
            seen += 1
            target, _, heading = link.partition("#")
            if "://" in target:
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
            if path not in files:
                faults.append(f"{page}: a link to {link}: there is no {path}")
            elif heading and heading not in headings(read(os.path.join(root, path))):
                faults.append(f"{page}: a link to {link}: {path} has no such heading")
            source = path.removesuffix(".svg") + ".txt"
            if path.endswith(".svg") and source in files:
                named[source] = read(os.path.join(root, source))
        if any(fnmatch.fnmatchcase(page, pattern) for pattern in PLANS):
            continue
        for name, words in named.items():
            for path in sorted(set(PATH.findall(words)) - ELSEWHERE):
                seen += 1
                if not is_there(path, known):
                    faults.append(f"{name} names {path}: no file of the tree has that path or ends in it")
            for path in sorted({a.rstrip("/") or b for a, b in FOLDER.findall(words)} - ELSEWHERE):
                seen += 1
                if not path.startswith("build") and f"/{path}\n" not in known_folders:
                    faults.append(f"{name} names {path}: there is no such folder")
    more, figures = judge_performance(root, known)
    if figures < FIGURES_LEAST:
        more.append(f"docs/performance.md has {figures} figures, expected {FIGURES_LEAST} at least")
    return faults + more, seen


def plant():
    """A tree with one fault of each kind: whether each is found, and nothing else."""
    page = ("![a](../drawings/a.svg) [b](../guide.md#one) `base/there.c` `there.c` `t*.c` base/ `docs/drawings` a.b.c\n"
            "[c](gone.md) [d](../guide.md#two) `base/gone.c` `g*.c` nowhere/ `base/none`\n" + "x" * (COLUMNS + 1))
    figures = [("good", "**7**", "2", "**3.5**", "≤ 1.1", "H200, 2026-11-30", "`rota-bench plan`"),
               ("also good", "2 000", "", "", "≤ 2000", "2 cores, 2026-11-30", "`base/there.c --there`"),
               ("no date", "7", "", "", "", "H200", "`rota-bench plan`"),
               ("no command", "7", "", "", "", "H200, 2026-11-30", "by hand"),
               ("no option", "7", "", "", "", "H200, 2026-11-30", "`base/there.c --gone`"),
               ("invented", "8", "", "", "", "H200, 2026-11-30", "`train_gpt`"),
               ("missed", "7", "2", "**3.5**, 1.2", "≤ 1.1", "H200, 2026-11-30", "`rota-bench plan`"),
               ("not missed", "7", "2", "**3.5**", "≥ 1.1", "H200, 2026-11-30", "`rota-bench plan`")]
    table = "| a |\n| --- |\n" + "".join(f"| {' | '.join(row[:-1])} |\n| {row[-1]} | | | | | |\n" for row in figures)
    with tempfile.TemporaryDirectory() as root:
        for name, text in {"docs/architecture/page.md": page, "docs/guide.md": "# One\n" + "x" * 120,
                           "docs/performance.md": table, "docs/measurements.md": "7, 2 and 2 000",
                           "docs/drawings/a.txt": "box a there.c drawn.c", "docs/drawings/a.svg": "",
                           "base/there.c": "--there", "CITATION.cff": "a: b\nversion: 1.2.4\n",
                           "base/export.h": "".join(f"#define ROTA_VERSION_{part} {number}\n" for part, number in
                                                    (("MAJOR", 1), ("MINOR", 2), ("PATCH", 3)))}.items():
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        faults, _ = judge(root)
    expected = ["gone.md", "guide.md#two", "names base/gone.c", "names g*.c", "names nowhere:", "names base/none:",
                "names drawn.c", "not of version 1.2.3", f"{COLUMNS + 1} columns", "'no date': six cells",
                "'no command': a command", "'no option': a command", "'invented': docs/measurements.md has no 8",
                "'missed': 1.2 beside", "'not missed': 3.5 beside"]
    report.want_planted(expected, faults)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    plant()
    faults, seen = judge(sys.argv[1])
    if seen < 100:
        faults.append(f"only {seen} paths and links were looked at: the pages have moved")
    report.end(faults, f"{seen} paths and links lead to what is there")


main()
