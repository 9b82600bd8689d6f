#!/usr/bin/env python3
"""docs/glossary.md and the sources agree: its words stand in order, once each, with a meaning; identifiers that are
gone are in no source that their row names; what is still to be renamed is still there, or its row is to move to what is
gone; and no two files of a folder have names that differ by a letter, but those that the page excepts.
test_glossary.py ROOT"""
import fnmatch
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../kit"))
import report  # noqa: E402

ROOMS = ["base", "graph", "sched", "exec", "ops", "file", "bench", "examples", "tests", "python", "scripts", "docs"]
C_TEXT = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"'
PYTHON_TEXT = r'"""(?:\\.|[^\\])*?"""|#[^\n]*|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'"
SECTIONS = ["Words", "Identifiers that are gone", "What is renamed", "Files that differ by a letter"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sources(root):
    """{path: its identifiers}: comments and strings left out, and functions of C++ and Python: views have an at()."""
    found = {}
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(root, room)):
            for name in names:
                if name.endswith((".c", ".h", ".def", ".cu", ".cuh", ".cpp", ".hpp", ".py")):
                    path = os.path.join(folder, name)
                    code = re.sub(PYTHON_TEXT if name.endswith(".py") else C_TEXT, " ", read(path), flags=re.S)
                    identifier = r"[A-Za-z_]\w*\b" + ("" if name.endswith((".c", ".h", ".def")) else r"(?!\()")
                    found[os.path.relpath(path, root)] = set(re.findall(identifier, code))
    return found


def sections(page):
    """{heading: its rows, each a list of cells}, without the tables' heads."""
    rows, heading = {}, None
    for line in page.splitlines():
        if line.startswith("## "):
            heading = line[3:].strip()
            rows[heading] = []
        elif heading and line.startswith("|") and not re.fullmatch(r"[|\s:-]+", line):
            rows[heading].append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return {heading: table[1:] for heading, table in rows.items()}


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def differ_by_a_letter(a, b):
    if len(a) == len(b):
        return sum(x != y for x, y in zip(a, b)) == 1
    short, long = sorted((a, b), key=len)
    return len(long) == len(short) + 1 and any(long[:i] + long[i + 1:] == short for i in range(len(long)))


def judge_words(rows):
    words = [row[0] for row in rows]
    keys = [word.split(" (")[0].lower() for word in words]
    faults = [f"'{b}' stands behind '{a}'" for a, b in zip(keys, keys[1:]) if b <= a]
    return faults + [f"'{row[0]}' has no meaning" for row in rows if len(row) < 2 or not row[1]]


def judge_gone(rows, code):
    faults = []
    for row in rows:
        folders = quoted(row[1])
        for pattern in quoted(row[0]):
            for path, identifiers in sorted(code.items()):
                if not any(path.startswith(folder.rstrip("/") + "/") or path == folder for folder in folders):
                    continue
                faults += [f"{path}: {name} is gone, by docs/glossary.md: {row[2]}"
                           for name in sorted(identifiers) if fnmatch.fnmatchcase(name, pattern)]
            if not folders:
                faults.append(f"the row of {row[0]} names no folder")
    return faults


def judge_plan(rows, code):
    known = set().union(*code.values())
    return [f"{name}: no identifier has that in it any more; its row belongs to what is gone"
            for row in rows for name in quoted(row[1]) if not any(name in identifier for identifier in known)]


def judge_files(rows, code):
    excepted = {pattern for row in rows for pattern in quoted(row[0])}
    faults, stems = [], {}
    for path in code:
        folder, name = os.path.split(path)
        stems.setdefault(folder, set()).add(name.split(".")[0])
    for folder, names in sorted(stems.items()):
        names = sorted(names)
        for i, a in enumerate(names):
            for b in names[i + 1:]:
                paths = (f"{folder}/{a}", f"{folder}/{b}")
                known = all(any(fnmatch.fnmatchcase(path, pattern) for pattern in excepted) for path in paths)
                if differ_by_a_letter(a, b) and not known:
                    faults.append(f"{paths[0]} and {paths[1]} differ by a letter")
    return faults


def judge(root):
    found, code = sections(read(os.path.join(root, "docs/glossary.md"))), sources(root)
    missing = [heading for heading in SECTIONS if not found.get(heading)]
    if missing:
        return [f"docs/glossary.md has no table under {missing}"], 0
    words, gone, plan, files = (found[heading] for heading in SECTIONS)
    return judge_words(words) + judge_gone(gone, code) + judge_plan(plan, code) + judge_files(files, code), len(code)


def plant():
    """A tree with one fault of each kind: each is found, and nothing else."""
    page = ("## Words\n| word | means |\n|---|---|\n| b | two |\n| a | one |\n| c | |\n"
            "## Identifiers that are gone\n| was | where | is |\n|---|---|---|\n| `old_*` | `base` | new |\n"
            "## What is renamed\n| today | where | becomes |\n|---|---|---|\n| x | `still` `no_more` | y |\n"
            "## Files that differ by a letter\n| files | why |\n|---|---|\n| `base/op*` | both |\n")
    with tempfile.TemporaryDirectory() as root:
        for name, text in {"docs/glossary.md": page, "base/ops.c": "int old_name;", "graph/edges.c": "",
                           "graph/edge.c": "int old_elsewhere;",
                           "base/op.c": 'int still_here; /* old_comment */ char *s = "old_text";',
                           "base/kernel.cu": "int old_index = array.old_call(1);",
                           "base/script.py": "old_value = a.old_call('old_text')  # old_comment\n\"\"\"old_doc\"\"\"",
                           }.items():
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        faults, _ = judge(root)
    expected = ["'a' stands behind 'b'", "'c' has no meaning", "base/ops.c: old_name", "base/kernel.cu: old_index",
                "base/script.py: old_value", "no_more: no identifier", "graph/edge and graph/edges"]
    report.want_planted(expected, faults)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    plant()
    faults, seen = judge(sys.argv[1])
    if seen < 200:
        faults.append(f"only {seen} sources were looked at: the tree has moved")
    report.end(faults, f"{seen} sources use the glossary's words")


main()
