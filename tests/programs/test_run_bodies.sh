#!/usr/bin/env bash
# rota-bench run with a file that has nodes that decide, one within the other: the CPU runs it as it should, with other
# contents it doesn't, and a device that runs none says so.
# test_run_bodies.sh TEST_GRAPH_FILE_BODIES ROTA_BENCH
set -euo pipefail
write=$1 bench=$2
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"

"$write" --write graph.rota
expect 0 'results' "$bench" run graph.rota --device cpu --save made.rota
expect 0 'results' "$bench" run made.rota --device cpu
python3 - <<'PY'
import struct
data = open("graph.rota", "rb").read()
count = struct.pack("<II", 1, 4)  # the flag, and how often the inner body runs
assert data.count(count) == 1
open("other.rota", "wb").write(data.replace(count, struct.pack("<II", 1, 3)))
open("most.rota", "wb").write(data.replace(count, struct.pack("<II", 1, 10)))
PY
expect 2 "buffer 'x'" "$bench" run other.rota --device cpu
expect 2 "for 'for': its count is 10, and it may have 9 iterations" "$bench" run most.rota --device cpu
if "$bench" smoke --device vk:0 >/dev/null 2>&1; then
  expect 0 'results' "$bench" run graph.rota --device vk:0
  expect 2 "for 'for': its count is 10, and it may have 9 iterations" "$bench" run most.rota --device vk:0
else
  echo "skipped: no vk:0"
fi

if [ "$failures" -ne 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all good"
