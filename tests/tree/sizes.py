#!/usr/bin/env python3
"""No struct of the library has more than 25 members, no header more than 250 lines (but what is made of shaders), no
file more than 600, no function more than 60. Members of structs and unions that are declared inside count where they
stand, with a name or without; a member of a type that is declared elsewhere is one. sizes.py ROOT"""
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kit"))
import report  # noqa: E402

MEMBERS_MAX, HEADER_MAX, FILE_MAX, FUNCTION_MAX, COLUMNS_MAX = 25, 250, 600, 60, 120
FOLDERS = ["base", "graph", "sched", "exec", "ops", "file"]
# What people write, by how its name ends; and what of that programs write, or is data.
WRITTEN = (".c", ".h", ".hpp", ".cpp", ".def", ".cu", ".cuh", ".comp", ".glsl", ".py", ".sh", ".cmake", ".in", ".md",
           ".pml", ".plants", ".toml", ".rs", ".go", ".html", ".supp", ".clang-tidy", ".clang-format", "CMakeLists.txt")
MADE = re.compile(r"\.spv\.h$|^tests/fuzz/corpus/|^build[^/]*/|/build[^/]*/|^\.git/|__pycache__|\.egg-info")


def blank(text):
    """The text without comments, strings and directives; lines stay where they are."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', lambda m: '"' + " " * (len(m[0]) - 2) + '"', text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.M)


def closing(text, begin):
    """Where the brace at `begin` is closed; None: nowhere, as where directives leave one half."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.start()
    return None


def count_members(body):
    count, start = 0, 0
    while start < len(body):
        end = body.find(";", start)
        brace = body.find("{", start)
        if end < 0:
            break
        if 0 <= brace < end:  # a struct or union inside; of an enum only what is declared with it
            close = closing(body, brace)
            end = body.find(";", close) if close is not None else -1
            is_group = re.search(r"\b(struct|union)\b", body[start:brace])
            if close is None or end < 0:
                break
            names = body[close + 1:end]
            count += count_members(body[brace + 1:close]) if is_group else names.count(",") + 1
        else:
            declaration = body[start:end]
            while re.search(r"\([^()]*\)", declaration):  # a function's parameters are no members
                declaration = re.sub(r"\([^()]*\)", "", declaration)
            if declaration.strip() and "_Static_assert" not in body[start:end]:
                count += declaration.count(",") + 1
        start = end + 1
    return count


def structs_of(text):
    for found in re.finditer(r"\b(?:struct|union)\s*(\w*)\s*\{", text):
        close = closing(text, found.end() - 1)
        if close is None:
            continue
        name = found[1] or (re.match(r"\s*(\w*)", text[close + 1:])[1])
        yield name or "a struct without a name", text.count("\n", 0, found.start()) + 1, count_members(
            text[found.end():close])


def functions_of(text):
    """Name, first line and lines of each function: what begins in the first column and has ) { before any ;."""
    for found in re.finditer(r"^[a-zA-Z_][^;{}]*\{", text, re.M):
        head = found[0][:-1].rstrip()
        close = closing(text, found.end() - 1)
        if close is None or not head.endswith(")") or "=" in head:
            continue
        name = re.search(r"(\w+)\s*\(", head)
        first = text.count("\n", 0, found.start()) + 1
        yield name[1] if name else head, first, text.count("\n", 0, close) + 2 - first


def long_lines_of(root):
    """Of each text of the tree, and of the drawings' sources: what has more columns than may be."""
    faults, seen = [], 0
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if not name.startswith((".", "build"))]
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            if not (path.endswith(WRITTEN) or path.startswith("docs/drawings/") and path.endswith(".txt")):
                continue
            if MADE.search(path):
                continue
            seen += 1
            with open(os.path.join(root, path), encoding="utf-8") as file:
                faults += [f"{path}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"
                           for number, line in enumerate(file.read().splitlines(), 1) if len(line) > COLUMNS_MAX]
    return faults, seen


def faults_of(root):
    faults, seen = [], [0, 0, 0]
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            raw = path.read_text(encoding="utf-8")
            text, name, lines = blank(raw), path.relative_to(root), raw.count("\n")
            most = HEADER_MAX if path.suffix == ".h" else FILE_MAX
            seen[0] += 1
            if lines > most and not name.match("*.spv.h"):
                faults.append(f"{name} has {lines} lines, at most {most}")
            for struct, line, members in structs_of(text):
                seen[1] += 1
                if members > MEMBERS_MAX:
                    faults.append(f"{name}:{line}: {struct} has {members} members, at most {MEMBERS_MAX}")
            for function, line, length in functions_of(text):
                seen[2] += 1
                if length > FUNCTION_MAX:
                    faults.append(f"{name}:{line}: {function} has {length} lines, at most {FUNCTION_MAX}")
    return faults, seen


PLANTED = """struct %s {
    int a, b[2], *c;
    void (*call)(int x, int y, int z);
    union { struct tagged { int d; struct { int e; } deep[2]; } both; int f; } u, *v;
    enum { ONE, TWO } g;
    named many;
    %s
};
int %s(void) {
%s}
"""


def check_itself():
    """It notices one member, line, column and function too many, and no fault where there are as many as may be."""
    for more in (0, 1):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "base").mkdir()
            # a b c call, d e f, g, many: nine
            members = "\n    ".join(f"int m{i};" for i in range(MEMBERS_MAX - 9 + more))
            text = PLANTED % ("planted", members, "planted_call", "    planted();\n" * (FUNCTION_MAX - 2 + more))
            (root / "base/planted.c").write_text(text, encoding="utf-8")
            (root / "base/planted.h").write_text("\n" * (HEADER_MAX + more), encoding="utf-8")
            (root / "base/long.c").write_text("\n" * (FILE_MAX + more), encoding="utf-8")
            (root / "base/build_wide.sh").write_text("x" * (COLUMNS_MAX + more) + "\n", encoding="utf-8")
            (root / "base/wide.spv.h").write_text("x" * (COLUMNS_MAX + 1) + "\n", encoding="utf-8")
            faults = faults_of(root)[0] + long_lines_of(root)[0]
            if len(faults) != 5 * more:
                return [f"of {5 * more} planted faults it found: {faults}"]
    return []


def main():
    root = pathlib.Path(sys.argv[1])
    faults, seen = faults_of(root)
    wide, texts = long_lines_of(root)
    faults += wide + check_itself()
    if seen[0] < 200 or seen[1] < 200 or seen[2] < 2000:
        faults.append(f"only {seen[0]} files, {seen[1]} structs and {seen[2]} functions were seen: the tree has moved")
    if texts < 900:
        faults.append(f"only {texts} texts were seen: the tree has moved")
    report.end(faults, f"{seen[0]} files, {seen[1]} structs, {seen[2]} functions; lines of {texts} texts")


main()
