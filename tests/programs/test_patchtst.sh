#!/usr/bin/env bash
# train_patchtst from the command line: it learns, resumes bit-equal, agrees between executors and processes, and says
# what is wrong with its input in one line.
# test_patchtst.sh TRAIN_PATCHTST
set -euo pipefail
train=$1
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"

python3 - <<'PY'
import math, random
rng = random.Random(1)
rows = [f"2016-07-01 {i},{math.sin(i / 6) + 0.1 * rng.gauss(0, 1):.6f},{2 * math.cos(i / 9) + 0.01 * i:.6f},7,"
        f"{rng.gauss(3, 1):.6f}" for i in range(600)]
table = ["date,waves,drift,still,noise"] + rows
def write(name, lines):
    with open(name, "w") as file:
        file.write("\n".join(lines) + "\n")
write("good.csv", table)
open("dos.csv", "w").write("\r\n".join(table) + "\r\n\r\n")
write("ragged.csv", table[:101] + [table[101] + ",1"] + table[102:])
write("short.csv", table[:58] + [table[58].rsplit(",", 1)[0]] + table[59:])
field = lambda line, text: ",".join(line.split(",")[:2] + [text] + line.split(",")[3:])
for name, text in (("nan", "nan"), ("inf", "-inf"), ("empty", ""), ("word", "12x"), ("huge", "1e99")):
    write(name + ".csv", table[:33] + [field(table[33], text)] + table[34:])
write("hole.csv", table[:40] + [""] + table[40:])
write("head.csv", table[:1])
write("times.csv", ["date"] + ["2016"] * 600)
open("zero.csv", "wb").write("\n".join(table).encode().replace(b"0.", b"\0.", 1))
open("nothing.csv", "w")
PY
split=(--train-rows 400 --val-rows 100 --test-rows 100)
model=(--look-back 32 --horizon 8 --patch 8 --stride 4 --layers 2 --heads 2 --dim 8 --wide 16 --batch 16 --lr 1e-3)
small=("${split[@]}" "${model[@]}")

# same FILE FILE [TOLERANCE]: two runs' metrics agree, times apart.
same() {
  python3 - "$@" <<'PY' || failures=$((failures + 1))
import json, sys
a, b = ([{k: v for k, v in json.loads(line).items() if k != "ms"} for line in open(name)] for name in sys.argv[1:3])
apart = max((abs(x[k] - y[k]) / max(abs(x[k]), 1e-9) for x, y in zip(a, b) for k in x), default=9)
most = float(sys.argv[3] if len(sys.argv) > 3 else 0)
assert len(a) == len(b) and apart <= most, f"FAILED: {sys.argv[1:]}: {apart} apart"
PY
}

expect 0 'test MSE 0\.[0-9]+, MAE 0\.[0-9]+ over 93 windows' "$train" --data good.csv "${small[@]}" --device cpu \
  --epochs 6 --log straight.jsonl
python3 - <<'PY' || failures=$((failures + 1))
import json
lines = [json.loads(line) for line in open("straight.jsonl")]
epochs, test = lines[:-1], lines[-1]
assert len(epochs) == 6 and epochs[-1]["step"] == 6 * 22 and test["windows"] == 93, lines
for what in ("loss", "val_loss"):
    assert epochs[-1][what] < 0.7 * epochs[0][what], "FAILED: it didn't learn"
assert min(epochs, key=lambda e: e["val_loss"])["epoch"] == test["best_epoch"], lines
for e in epochs:
    assert abs(e["lr"] - 1e-3 * 0.9 ** max(0, e["epoch"] - 3)) < 1e-9, e
PY
# The next batch was on its way while the step that is shown ran: unless another program had this one's core in between,
# so in one of three runs.
overlaps() {
  python3 - "$@" <<'PY'
import json, re, sys
data = json.loads(re.search(r'id="data">\n(.*?)</script>', open(sys.argv[1]).read(), re.S).group(1))
sys.exit(not any(data["replay"][0] < u[2] < data["replay"][3] for u in data["uploads"]))
PY
}
for run in 1 2 3; do
  expect 0 'the report is in run.html' "$train" --data good.csv "${small[@]}" --device cpu --epochs 2 --report run.html
  ! overlaps run.html || break
  [ "$run" -lt 3 ] || { echo "FAILED: no batch was sent while the step in the report ran"; failures=$((failures + 1)); }
done
python3 - <<'PY' || failures=$((failures + 1))
import json, re
data = json.loads(re.search(r'id="data">\n(.*?)</script>', open("run.html").read(), re.S).group(1))
epochs = [json.loads(line) for line in open("straight.jsonl")][:2]
assert data["unit"] == "epoch" and [s[0] for s in data["steps"]] == [1, 2]
assert data["replay"] and data["plan"]["commands"]
assert all(abs(s[2] - e["val_loss"]) < 1e-6 for s, e in zip(data["steps"], epochs)), (data["steps"], epochs)
PY
# Another process with one thread, Windows' line ends, another executor, another seed.
expect 0 'test MSE' taskset -c 0 "$train" --data dos.csv "${small[@]}" --device cpu --epochs 6 --log again.jsonl
same straight.jsonl again.jsonl
expect 0 'test MSE' "$train" --data good.csv "${small[@]}" --device cpu --epochs 1 --log once.jsonl
# Fused, on the CPU to the bit; and a trace of a step.
expect 0 'test MSE' "$train" --data good.csv "${small[@]}" --device cpu --epochs 1 --fuse --trace trace.json \
  --log fused.jsonl
same once.jsonl fused.jsonl
"$here/trace_check.py" trace.json || failures=$((failures + 1))
few=("${model[@]}" --train-rows 110 --val-rows 20 --test-rows 20)
expect 0 'test MSE' "$train" --data good.csv "${few[@]}" --device cpu --epochs 1 --log cpu.jsonl
if timeout 60 "$train" --data good.csv "${few[@]}" --device vk:0 --epochs 1 --log vk.jsonl >output 2>&1; then
  same cpu.jsonl vk.jsonl 1e-4
  # To the bit: another process, whose driver has one thread, with a report of it.
  LP_NUM_THREADS=1 expect 0 'the report is in' "$train" --data good.csv "${few[@]}" --device vk:0 --epochs 1 \
    --log vk-alone.jsonl --report vk.html
  same vk.jsonl vk-alone.jsonl
else
  grep -q 'NOT_FOUND' output && echo "skipped, training on Vulkan: there is no device vk:0" ||
    { cat output; failures=$((failures + 1)); }
fi
expect 0 'test MSE' "$train" --data good.csv "${small[@]}" --device cpu --epochs 1 --seed 7 --log other.jsonl
cmp -s once.jsonl other.jsonl && { echo "FAILED: another seed trained the same"; failures=$((failures + 1)); }

# Stopped inside an epoch, and gone on with: the same to the bit.
many=("${small[@]}" --device cpu --epochs 40)
expect 0 'test MSE' "$train" --data good.csv "${many[@]}" --checkpoint whole --log whole.jsonl
interrupt_after 3 parts.jsonl "$train" --data good.csv "${many[@]}" --checkpoint parts --log parts.jsonl ||
  { echo "FAILED: Ctrl-C"; cat stopped.txt; failures=$((failures + 1)); }
grep -q 'stopped after step [0-9]*, saved in parts' stopped.txt || { cat stopped.txt; failures=$((failures + 1)); }
expect 0 'resumed after step' "$train" --data good.csv "${many[@]}" --checkpoint parts --resume parts --log parts.jsonl
same whole.jsonl parts.jsonl
cmp whole/checkpoint.safetensors parts/checkpoint.safetensors || failures=$((failures + 1))
# Resumed at its end it only tests, with the best weights.
expect 0 'test MSE' "$train" --data good.csv "${many[@]}" --resume whole --log tested.jsonl
tail -n 1 whole.jsonl | cmp - tested.jsonl || failures=$((failures + 1))

# wrong TEXT OPTION...: exit code 1 and one line.
wrong() {
  local text=$1
  shift
  expect 1 "$text" "$train" --device cpu --log wrong.jsonl "$@"
  if [ "$(grep -cv -e '^device cpu' -e '^600 rows' -e '^[0-9]* patches' output)" -ne 1 ]; then
    echo "FAILED: not one line:"; cat output; failures=$((failures + 1))
  fi
  absent wrong.jsonl
}
wrong "'ragged.csv' line 102 has 6 columns, and the first line has 5" --data ragged.csv "${small[@]}"
wrong "'short.csv' line 59 has 4 columns, and the first line has 5" --data short.csv "${small[@]}"
wrong "'hole.csv' line 41 has 1 columns" --data hole.csv "${small[@]}"
for bad in nan inf empty word huge; do
  wrong "'$bad.csv' row 33 \(line 34\), column 'drift': '.*' is no finite number" --data $bad.csv "${small[@]}"
done
for bad in head times nothing; do wrong "'$bad.csv' is (no table|empty)" --data $bad.csv "${small[@]}"; done
wrong "'zero.csv' is no text" --data zero.csv "${small[@]}"
wrong "'absent.csv' can't be read" --data absent.csv "${small[@]}"
wrong "'good.csv' has 600 rows, too few for training, which ends with row 8640" --data good.csv
wrong "'good.csv' has 600 rows, too few for testing, which ends with row 620" --data good.csv "${small[@]/#400/420}"
wrong "30 rows for training are too few for a window of 32 and 8 rows" --data good.csv "${small[@]/#400/30}"
wrong "7 rows for validation are too few for a window of 32 and 8 rows" --data good.csv --train-rows 400 --val-rows 7 \
  --test-rows 100 "${model[@]}"
wrong "has 361 windows to train on, fewer than --batch 362" --data good.csv "${small[@]/#16/362}"
wrong "heads 3 does not divide --dim 8" --data good.csv "${small[@]/#2/3}"
wrong "patch 40 is longer than --look-back 32" --data good.csv "${split[@]}" --look-back 32 --horizon 8 --patch 40
wrong "stride 33 is longer than --look-back 32" --data good.csv "${split[@]}" --look-back 32 --horizon 8 --patch 8 \
  --stride 33 --batch 16
wrong "the weights would have [0-9]+ elements, more than the 4294967295" --data good.csv "${split[@]}" --look-back 32 \
  --horizon 8 --batch 1 \
  --dim 65536 --wide 16
expect 1 "train_patchtst: .*--epochs" "$train" --data good.csv --epochs 0
expect 1 "device takes auto, cpu, vk:0, cuda:0, ..., not 'gpu'" "$train" --data good.csv "${small[@]}" --device gpu
expect 3 "vk:99" "$train" --data good.csv "${small[@]}" --device vk:99
expect 1 "'good.csv' can't be (made|written to)" "$train" --data good.csv "${small[@]}" --checkpoint good.csv

# More than the device may give: need, budget and the largest tensors.
free="'train' needs [0-9]+ bytes on device 'cpu': [0-9]+ of the memory limit of 30000000 are free"
expect 1 "$free.*computed again.*; the largest tensors: a layer's attention scores [0-9]+, its widened rows" \
  "$train" --data good.csv "${split[@]}" --look-back 32 --horizon 8 --patch 8 --stride 4 --dim 8 --batch 300 \
  --device cpu --memory-limit 30000000

# Checkpoints: cut at any place, of another model, of another program, of another seed.
for keep in 0 7 100 3000 30000; do
  mkdir -p cut
  head -c $keep whole/checkpoint.safetensors >cut/checkpoint.safetensors
  wrong "'cut/checkpoint.safetensors' is (truncated|empty)" --data good.csv "${small[@]}" --resume cut
done
wrong "has dim 8, but this training has 16" --data good.csv "${split[@]}" --look-back 32 --horizon 8 --patch 8 \
  --stride 4 --layers 2 --heads 2 \
  --dim 16 --wide 16 --batch 16 --resume whole
wrong "was made with --seed 2021, not 3" --data good.csv "${small[@]}" --seed 3 --resume whole
wrong "'nowhere/checkpoint.safetensors' can't be read" --data good.csv "${small[@]}" --resume nowhere
# A full disk ends the training with what was whole.
if [ -c /dev/full ]; then
  expect 1 "'/dev/full' can't be written" "$train" --data good.csv "${small[@]}" --device cpu --epochs 1 --log /dev/full
fi
# What overflows where it is validated.
sed '450s/,[^,]*$/,3e38/' good.csv >vast.csv
expect 2 "the validation error of epoch 1 is not finite; nothing was saved" "$train" --data vast.csv "${small[@]}" \
  --device cpu --checkpoint vast
absent vast/checkpoint.safetensors
if [ "$failures" -ne 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all good"
