#!/usr/bin/env python3
"""Which source files of the library call one another in a circle, and which rooms call upwards: from the symbols of the
object files, so that calls and data count, and includes do not. circles.py OBJECTS, a file with an object file a
line."""
import collections
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kit"))
import report  # noqa: E402

CIRCLE_MAX = 3
# Folders from the ground up: what stands in one may use what stands in it or in a lower line.
STOREYS = [["base"], ["graph"], ["exec", "sched/plan"], ["sched/runtime/shared"], ["sched/runtime/memory"],
           ["sched/runtime/plans"], ["sched/runtime/order"], ["sched/runtime/kinds"],
           ["sched/runtime/submitter"], ["sched/runtime/sequencer"],
           ["sched/runtime/reclaimer", "sched/runtime/completer", "sched/runtime/caller"], ["sched/runtime/life"],
           ["sched/trials"], ["sched/opening"], ["sched/ranks"], ["ops"], ["file"]]


def read_symbols(objects):
    """Of each source file: the symbols that it defines, and those that it uses."""
    source_of = {path: re.sub(r"^.*\.dir/(\./)?", "", path)[: -len(".o")] for path in objects}
    defined, used = collections.defaultdict(set), collections.defaultdict(set)
    listing = subprocess.run(["nm", "-A", *objects], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        path, rest = line.split(":", 1)
        kind, name = rest.split()[-2:]
        if kind in "TDBRVWC":
            defined[source_of[path]].add(name)
        elif kind in "Uvw":
            used[source_of[path]].add(name)
    return defined, used


def find_circles(arrows):
    """Tarjan's strongly connected components, without recursion."""
    index, low, stack, on_stack, circles = {}, {}, [], set(), []
    for start in arrows:
        if start in index:
            continue
        path = [(start, iter(arrows[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while path:
            node, others = path[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    path.append((other, iter(arrows[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = []
                    while not circle or circle[-1] != node:
                        circle.append(stack.pop())
                        on_stack.discard(circle[-1])
                    circles.append(sorted(circle))
    return circles


def storey_of(source):
    """Its number and the folder that stands there; None: it belongs to no storey."""
    found = None
    for number, folders in enumerate(STOREYS):
        for folder in folders:
            if source.startswith(folder + "/") and (not found or len(folder) > len(found[1])):
                found = (number, folder)
    return found


def main():
    objects = [line for line in pathlib.Path(sys.argv[1]).read_text().split() if re.search(r"\.c\.o$", line)]
    defined, used = read_symbols(objects)
    owner = {name: source for source, names in defined.items() for name in names}
    arrows = collections.defaultdict(lambda: collections.defaultdict(set))
    for source, names in used.items():
        for name in names:
            if owner.get(name, source) != source:
                arrows[source][owner[name]].add(name)
    faults = []
    for room in ("base", "graph", "exec", "sched", "ops", "file"):
        files = [source for source in defined if source.startswith(room + "/")]
        inside = {source: [other for other in arrows[source] if other in files] for source in files}
        largest = max(find_circles(inside), key=len, default=[])
        print(f"{room}: {len(files)} files, the largest circle has {len(largest)}")
        if not files:
            faults.append(f"{room}: there are no files")
        if len(largest) > CIRCLE_MAX:
            faults.append(f"a circle of {len(largest)} files, at most {CIRCLE_MAX}: {' '.join(largest)}")
    for source in sorted(arrows):
        for other, names in sorted(arrows[source].items()):
            here, there = storey_of(source), storey_of(other)
            if here and there and here != there and there[0] >= here[0]:
                faults.append(f"{source} uses {' '.join(sorted(names))} of {other}, which stands above it")
    report.end(faults, f"calls of {len(arrows)} files point down")


main()
