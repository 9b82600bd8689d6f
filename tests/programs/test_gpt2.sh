#!/usr/bin/env bash
# rota-bench gpt2: train_gpt's side on the CPU; PyTorch's by a stand-in for python3, which is given the script and its
# options as the real one is.
# test_gpt2.sh BUILD_DIR
set -euo pipefail
bench=$1/bench/rota-bench
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"
export TMPDIR=$work
small=(--device cpu --layers 1 --heads 2 --dim 16 --block 16 --vocab 96 --steps 9)

expect 1 "heads 3 does not divide --dim 16" "$bench" gpt2 "${small[@]}" --heads 3
expect 1 "'4,,2' is no list" "$bench" gpt2 "${small[@]}" --batch 4,,2
expect 1 "'0' is no list" "$bench" gpt2 "${small[@]}" --batch 0
expect 1 "'nowhere' can't be started: --train-gpt" "$bench" gpt2 "${small[@]}" --train-gpt nowhere
expect 1 "ended with 1 at batch 4" "$bench" gpt2 "${small[@]}" --data nowhere.bin
expect 0 '^\| 8 \| rota \| [0-9.]+ \|' "$bench" gpt2 "${small[@]}" --batch 2,8 --out one.json
absent rota-gpt2-*

mkdir bin
cat >bin/python3 <<'PYTHON'
#!/bin/sh
# gpt2_torch_step.py's last lines: the losses of the fastest don't count.
[ -z "$NO_TORCH" ] || exit 77
[ -z "$SLOW_TORCH" ] || exec sleep 100
grep -q "PyTorch's best time for one training step of GPT-2" "$1" || exit 1
while [ $# -gt 0 ]; do
  case $1 in
  --out) out=$2 ;;
  --batch) batch=$2 ;;
  --vocabularies) padded=$2 ;;
  --ranks) ranks=$2 ;;
  esac
  shift
done
row='"vocabulary": '$padded', "attention": "cudnn", "min_ms": 1, "max_ms": 3, "first_loss": 4.6, "last_loss": 4.5'
cat >"$out" <<END
{"ranks": $ranks, "batch": $batch, "rows": [{"mode": "a", $row, "median_ms": 1.5, "checked": false},
 {"mode": "b", $row, "median_ms": 4.0, "checked": true}, {"mode": "c", $row, "median_ms": 2.0, "checked": true}]}
END
[ -z "$NONE_COUNTS" ] || { sed -i 's/true/false/g' "$out" && exit 1; }
[ -z "$ENDED_EARLY" ] || exit 1
PYTHON
chmod +x bin/python3
PATH=$work/bin:$PATH expect 0 'PyTorch c, cudnn, 128 \| 2.000 \|' "$bench" gpt2 "${small[@]}" --batch 2 \
  --against torch --out both.json
NO_TORCH=1 PATH=$work/bin:$PATH expect 0 'nothing to compare with' "$bench" gpt2 "${small[@]}" --batch 2 \
  --against torch
NONE_COUNTS=1 PATH=$work/bin:$PATH expect 2 'ended with 1 and none of its variants counts' "$bench" gpt2 \
  "${small[@]}" --batch 2 --against torch
ENDED_EARLY=1 PATH=$work/bin:$PATH expect 2 'PyTorch c, cudnn, 128 \| 2.000 \|' "$bench" gpt2 "${small[@]}" \
  --batch 2 --against torch

# A folder of any length; one that is too long is said to be.
long=$work/$(printf 'deep/%.0s' $(seq 60))
mkdir -p "$long"
TMPDIR=$long expect 0 '^\| 2 \| rota \|' "$bench" gpt2 "${small[@]}" --batch 2
TMPDIR=$long$(printf '/%.0s' $(seq 5000)) expect 1 'no folder for temporary files.*File name too long' "$bench" gpt2 \
  "${small[@]}" --batch 2
TMPDIR=nowhere expect 1 "no folder for temporary files in 'nowhere': No such file" "$bench" gpt2 "${small[@]}"
# Started by who ignores that children end.
expect 0 '^\| 2 \| rota \|' python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])' "$bench" gpt2 "${small[@]}" --batch 2

# A signal that asks it to end: what was measured is written, its folder goes, and nothing that it has started is left.
for signal in TERM INT; do
  # Bash has those ignore SIGINT that it does not wait for.
  SLOW_TORCH=1 PATH=$work/bin:$PATH env --default-signal=INT "$bench" gpt2 "${small[@]}" --batch 2 --against torch \
    --out ended.json >ended.txt 2>&1 &
  running=$!
  for _ in $(seq 1000); do
    child=$(pgrep -P "$running" -x sleep) && break
    sleep 0.02
  done
  ended=0
  kill "-$signal" "$running" || ended=-1
  wait "$running" || ended=$?
  [ "$ended" -eq $((128 + $(kill -l "$signal"))) ] && grep -q '^| 2 | rota |' ended.txt && [ -s ended.json ] &&
    ! kill -0 "$child" 2>/dev/null || {
    echo "FAILED: $signal: ended with $ended, its child '$child'; it printed:" && cat ended.txt
    failures=$((failures + 1))
  }
  absent rota-gpt2-*
  rm -f ended.json
done
python3 - <<'PY' || failures=$((failures + 1))
import json
one, both = (json.load(open(name))["rows"] for name in ("one.json", "both.json"))
assert [(row["batch"], row["name"]) for row in one] == [(2, "rota"), (8, "rota")], one
for row in one:
    assert row["least_ms"] <= row["median_ms"] <= row["most_ms"] and row["checked"], row
    assert row["last_loss"] < row["first_loss"] < 5, row
assert [(row["batch"], row["name"]) for row in both] == [(2, "rota"), (2, "PyTorch c, cudnn, 128")], both
PY
absent rota-gpt2-*
[ "$failures" -eq 0 ]
