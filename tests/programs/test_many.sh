#!/usr/bin/env bash
# The commands of docs/many.md, as they stand and one after the other, and what the page says of their results.
# test_many.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
page=$(realpath "$1")/docs/many.md build=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export PATH=$build/examples:$build/bench:$PATH XDG_CACHE_HOME=$work/cache
export LD_LIBRARY_PATH=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK SLURM_STEP_NUM_TASKS TORCHELASTIC_RUN_ID
for _ in $(seq 200); do
  echo "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs"
done >book.txt
mpi=1
command -v mpirun >/dev/null && [ -x "$build/bench/rota-run" ] && [ -e "$build/librota_mpi.so.1" ] || mpi=
# A block is a file; those that need MPI are left out without it.
python3 - "$page" <<'PY'
import re, sys
blocks = re.findall(r"^```sh\n(.*?)^```$", open(sys.argv[1], encoding="utf-8").read(), re.M | re.S)
assert len(blocks) >= 5, f"{len(blocks)} blocks of commands"
for i, block in enumerate(blocks):
    open(f"block-{i}.sh", "w").write(block)
PY
ran=0
for block in block-?.sh; do
  if [ -z "$mpi" ] && grep -q rota-run "$block"; then continue; fi
  if ! bash -euo pipefail "$block" >"$block.txt" 2>&1; then
    echo "FAILED: what docs/many.md has:"
    cat "$block" "$block.txt"
    exit 1
  fi
  ran=$((ran + 1))
done
python3 - "$mpi" <<'PY'
import glob, json, re, sys
read = lambda name: [{k: v for k, v in json.loads(line).items() if k not in ("ms", "tok_s")} for line in open(name)]
one, four = read("one.jsonl"), read("four.jsonl")
assert len(one) == len(four) == 60
apart = max(abs(a[key] - b[key]) for a, b in zip(one, four) for key in ("loss", "val_loss") if a[key] is not None)
assert apart <= 1e-3, f"FAILED: one rank and four are {apart} apart"
def far(x, y, bound, what):
    assert len(x) == len(y) == 60
    pairs = [(a[key], b[key]) for a, b in zip(x, y) for key in ("loss", "val_loss") if a[key] is not None]
    apart = max(abs(a - b) for a, b in pairs)
    assert apart <= bound, f"FAILED: {what} are {apart} apart"
far(four, read("shards.jsonl"), 1e-5, "four ranks with and without shards")
far(one, read("full.jsonl"), 1e-3, "one rank and shards of all")
far(one, read("together.jsonl"), 1e-3, "one rank and two that have its model")
far(one, read("twice.jsonl"), 1e-3, "one rank and twice two that have its model")
assert not sys.argv[1] or read("processes.jsonl") == four, "FAILED: processes and threads differ"
said = {name: open(name).read() for name in glob.glob("block-*.txt")}
*_, on, parts = (said[name] for name in sorted(said))
assert "resumed after step 60" in on and "resumed after step 80" in on, f"FAILED: {on}"
assert "resumed after step 100" in parts and "resumed after step 110" in parts, f"FAILED: {parts}"
line = (r"^(?:\[0\] )?rank \d: [\d.]+ ms a step; in the last one [\d.]+ ms of computation, "
        r"[\d.]+ ms of communication, \d+ % of it hidden$")
lines = sum(len(re.findall(line, text, re.M)) for text in said.values())
assert lines == (4 + 4 + 4 + 2 + 4 + 2 + 4 + (4 + 2 if sys.argv[1] else 0)), f"FAILED: {lines} ranks say what they did"
PY
[ -n "$mpi" ] || echo "without MPI: none of rota-run's"
echo "$ran blocks of commands"
