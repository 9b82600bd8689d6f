#!/usr/bin/env bash
# bfs from the command line: levels against Python's on graphs with loops, double edges and vertices that nothing leads
# to, the while node and the loop on the host alike on any number of threads, and what is wrong said.
# test_bfs.sh BFS
set -euo pipefail
program=$1
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
printf '#!/bin/sh\nexec "%s" --device cpu "$@"\n' "$program" >bfs
chmod +x bfs
bfs=./bfs
. "$here/cli_support.sh"
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# NAME.mtx, and NAME.expected: the levels from vertex 3.
python3 - <<'PY'
import random
from collections import deque
rng = random.Random(3)
def write(name, kind, n, edges):
    with open(name + ".mtx", "w") as file:
        print(f"%%MatrixMarket matrix coordinate {kind}\n{n} {n} {len(edges)}", file=file)
        for edge in edges:
            print(*edge, "1.5" if "real" in kind else "", file=file)
    ways = {v: [] for v in range(1, n + 1)}
    for a, b in edges:
        ways[a].append(b)
        if "symmetric" in kind:
            ways[b].append(a)
    levels, queue = {3: 0}, deque([3])
    while queue:
        v = queue.popleft()
        for other in ways[v]:
            if other not in levels:
                levels[other] = levels[v] + 1
                queue.append(other)
    with open(name + ".expected", "w") as file:
        print(f"%%MatrixMarket matrix array real general\n{n} 1", file=file)
        for v in range(1, n + 1):
            print(levels.get(v, -1), file=file)
edges = [(rng.randrange(1, 3001), rng.randrange(1, 3001)) for _ in range(5000)]
write("directed", "pattern general", 3000, edges + edges[:50])
write("both", "real symmetric", 3000, [(max(e), min(e)) for e in edges[:2500]])
write("line", "integer general".replace("integer", "pattern"), 2000, [(v, v + 1) for v in range(1, 2000)])
write("star", "pattern symmetric", 5000, [(v, 3) for v in range(4, 5001)])
write("alone", "pattern general", 5, [(3, 3), (1, 2)])
write("empty", "pattern general", 4, [])
PY
for graph in directed both line star alone empty; do
  for way in '' --host-loop '--threads 1' '--threads 5 --repeat 3'; do
    [[ $graph != line || $way != --host-loop ]] || continue # 2 000 submissions
    # shellcheck disable=SC2086 # several options
    expect 0 'vertices reached' "$bfs" --graph $graph.mtx --source 3 --levels out.mtx $way
    cmp out.mtx $graph.expected || fail "$graph $way: other levels"
  done
done
# Levels of one vertex and of thousands, one after the other, and again from elsewhere.
expect 0 'a while node: 10000 of 10000 vertices reached, the farthest 198 edges away, a level of at most 100' \
  "$bfs" --grid 100 --repeat 2
expect 0 'a while node: 10000 of 10000 .* farthest 100 edges away' "$bfs" --grid 100 --source 5051
expect 0 'a submission a level: 1 of 1 vertices reached, the farthest 0 edges away' "$bfs" --grid 1 --host-loop
expect 0 ' vertices reached' "$bfs" --rmat 12 --seed 7 --levels one.mtx
expect 0 ' vertices reached' "$bfs" --rmat 12 --seed 7 --levels two.mtx --host-loop --threads 3
cmp one.mtx two.mtx || fail "R-MAT: other levels"

# ---- On a GPU ----
for graph in directed both star alone empty; do
  for way in --host-loop '--repeat 2'; do
    # shellcheck disable=SC2086 # several options
    expect 0 'vertices reached' "$bfs" --device vk:0 --graph $graph.mtx --source 3 --levels out.mtx $way
    cmp out.mtx $graph.expected || fail "$graph on vk:0 $way: other levels"
  done
done
expect 0 ' vertices reached' "$bfs" --rmat 12 --seed 7 --levels two.mtx --device vk:0
cmp one.mtx two.mtx || fail "R-MAT on vk:0: other levels"
expect 0 ' 2000 of 2000 | 1998 of 2000' "$bfs" --device vk:0 --graph line.mtx --source 3

# ---- What is wrong ----
expect 1 'no graph; expected --graph FILE.mtx, --grid N or --rmat S' "$bfs"
expect 1 'more than one graph; expected' "$bfs" --grid 3 --rmat 3
expect 1 '^bfs: --source 10, expected a vertex from 1 to 9' "$bfs" --grid 3 --source 10
expect 1 "'none.mtx'" "$bfs" --graph none.mtx
printf '%%%%MatrixMarket matrix coordinate pattern general\n3 4 1\n1 4\n' >bad.mtx
expect 1 "^'bad.mtx' line 2: 3 rows and 4 columns" "$bfs" --graph bad.mtx
printf '%%%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 4\n' >bad.mtx
expect 1 "^'bad.mtx' line 3: entry \(1, 4\), expected a row and a column from 1 to 3" "$bfs" --graph bad.mtx
[ $failures -eq 0 ] || exit 1
echo "all good"
