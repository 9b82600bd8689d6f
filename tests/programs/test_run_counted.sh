#!/usr/bin/env bash
# rota-bench run with files that have counted nodes: copies run anywhere, a kernel where there is what the file has of
# it; with another count the results are others, and with one too high the node fails.
# test_run_counted.sh TEST_GRAPH_FILE_COUNTED ROTA_BENCH
set -euo pipefail
write=$1 bench=$2
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"

"$write" --write copies.rota kernel.rota
python3 - <<'PY'
import struct
# The count is the contents of a buffer of 4 bytes: [buffer, 0, 4, bytes].
for name in "copies", "kernel":
    data = open(name + ".rota", "rb").read()
    count = b"\x00\x04\x44" + struct.pack("<I", 0x21)
    assert data.count(count) == 1
    for other, value in ("fewer", 0x20), ("most", 41):
        changed = data.replace(count, count[:3] + struct.pack("<I", value))
        open(f"{name}_{other}.rota", "wb").write(changed)
PY
expect 0 'results' "$bench" run copies.rota --device cpu --save made.rota
expect 0 'results' "$bench" run made.rota --device cpu
expect 2 "buffer 'result'" "$bench" run copies_fewer.rota --device cpu
expect 2 "its count is 41, the most it may be is 40" "$bench" run copies_most.rota --device cpu
if "$bench" smoke --device vk:0 >/dev/null 2>&1; then
  for name in copies kernel; do
    expect 0 'results' "$bench" run $name.rota --device vk:0
    expect 2 "buffer 'result'" "$bench" run ${name}_fewer.rota --device vk:0
    expect 2 "its count is 41, the most it may be is 40" "$bench" run ${name}_most.rota --device vk:0
  done
else
  echo "skipped: no vk:0"
fi

if [ "$failures" -ne 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all good"
