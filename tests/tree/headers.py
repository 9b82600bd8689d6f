#!/usr/bin/env python3
"""Every .c of the library has a header of its name with what others may use of it: but where all of that is declared in
headers that are installed, or is found through a table. headers.py OBJECTS ROOT; a file with an object file a line."""
import pathlib
import re
import sys

import circles

# Whose files are named by its rows alone: each symbol of theirs is used by the table's object.
TABLES = {
    "exec/drivers.c": r"exec/cuda_absent\.c",
    "ops/op_table.c": r"ops/op_\w+\.c",
    "ops/kernels.c": r"ops/(cpu|vk|cuda)/\w+\.c",
}
# Whose lines name kernels, each of which is an object of some file.
LIST = "ops/kernels.def"
# An interface as those that are installed, of builds with hooks.
TESTING = "sched/testing.h"


def public_names(root):
    """What stands in the headers that are installed, and the kernels' objects."""
    listed = re.search(r"set\(ROTA_PUBLIC_HEADERS(.*?)\)", (root / "cmake/install.cmake").read_text(), re.S)[1].split()
    texts = [(root / header).read_text() for header in [*listed, TESTING] if header.endswith(".h")]
    kernels = re.findall(r"^(?:KERNEL|COMPOSITE)\((\w+)", (root / LIST).read_text(), re.M)
    return set(re.findall(r"\w+", "\n".join(re.sub(r"/\*.*?\*/", "", text, flags=re.S) for text in texts))) | {
        f"rota_kernel_{name}" for name in kernels}


def faults_of(defined, used, has_header, public):
    faults = []
    wanted = set().union(*used.values())
    for source in sorted(defined):
        if has_header(source):
            continue
        by_table = set()
        for table, pattern in TABLES.items():
            if re.fullmatch(pattern, source):
                by_table |= used.get(table, set())
        names = (defined[source] & wanted) - public - by_table
        if names:
            faults.append(f"{source} has no header of its name, and others use {' '.join(sorted(names))}")
    return faults


def check_itself():
    """It notices a function that neither an installed header nor the table has."""
    defined = {"ops/op_planted.c": {"rota_ops_planted", "rota_planted"}, "base/planted.c": {"rota_public"}}
    used = {"ops/op_table.c": {"rota_ops_planted"}, "base/user.c": {"rota_planted", "rota_public"}}
    faults = faults_of(defined, used, lambda source: False, {"rota_public"})
    if len(faults) != 1 or not faults[0].endswith("use rota_planted"):
        return [f"of one planted fault it found: {faults}"]
    if faults_of(defined, used, lambda source: True, set()):
        return ["it found a fault where each file has its header"]
    return []


def main():
    objects = [line for line in pathlib.Path(sys.argv[1]).read_text().split() if re.search(r"\.c\.o$", line)]
    root = pathlib.Path(sys.argv[2])
    defined, used = circles.read_symbols(objects)
    defined = {source: names for source, names in defined.items() if (root / source).exists()}
    faults = faults_of(defined, used, lambda source: (root / source).with_suffix(".h").exists(),
                       public_names(root)) + check_itself()
    if len(defined) < 200:
        faults.append(f"only {len(defined)} files were seen: the tree has moved")
    for fault in faults:
        print(f"FAILED: {fault}")
    print(f"{len(defined)} files")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
