#!/usr/bin/env bash
# The programs' command lines: exit codes, one clear line for bad input, valid JSON, nothing half-written, checkpoints
# that resume bit-equal.
# test_cli.sh BUILD_DIR
set -euo pipefail
bench=$1/bench/rota-bench
train=$1/examples/train_gpt
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0

. "$here/cli_support.sh"

# ---- rota-bench ----
expect 1 'which command' "$bench"
expect 1 "unknown command 'frobnicate'" "$bench" frobnicate
expect 0 'usage: rota-bench COMMAND' "$bench" --help
for command in devices smoke matmul ops replay run plan loops ranks submit soak; do
  expect 0 '^usage: ' "$bench" "$command" --help
  expect 1 "unknown option '--frobnicate'.*--help" "$bench" "$command" --frobnicate
  one_line
done
expect 1 'chain\|wide\|train\|random' "$bench" plan --graph ring
expect 1 'whole number from 1' "$bench" plan --nodes 0
expect 1 "not 'x'" "$bench" plan --nodes x
expect 1 "not '1e3'" "$bench" plan --nodes 1e3
expect 1 'needs a value' "$bench" plan --nodes
expect 1 'at least 36' "$bench" plan --graph train --nodes 35
expect 1 'fewer --nodes.*at most 16349' "$bench" replay --device cpu --graph wide --nodes 6000 --slots
expect 1 'fewer --nodes.*at most 16349' "$bench" replay --device cpu --graph chain --nodes 17000 --change
expect 1 "this is the K-th; not '3/2'" "$bench" ops --device cpu --part 3/2
expect 1 'auto, cpu, vk:0' "$bench" smoke --device gpu
one_line
expect 3 'vk:99' "$bench" smoke --device vk:99
expect 3 'cuda:99' "$bench" smoke --device cuda:99
expect 1 'auto, cpu, vk:0' "$bench" smoke --device cuda:
expect 1 'MxNxK' "$bench" matmul --shapes 10x10
expect 1 "shapes: .*not '10x10x0'" "$bench" matmul --shapes 10x10x0
expect 1 "check-shape: .*not '1x1'" "$bench" matmul --check-shape 1x1
for wrong in 1x2x3x4x5 8x8x8:n 8x8x8:nx 8x8x8+0 8x8x8:nt+ gpt 8x8x8,; do
  expect 1 "shapes: .*MxNxK.*not '${wrong//+/[+]}'" "$bench" matmul --shapes "$wrong"
done
expect 1 'needs about [0-9]+ bytes, and the host has [0-9]+' "$bench" matmul --device cpu --shapes 65536x65536x65536

expect 0 'default: ' "$bench" devices --out devices.json
fields devices.json timestamp devices default why absent cuda_libraries
expect 0 'passed' "$bench" smoke --device cpu --out smoke.json
fields smoke.json timestamp device passed
for graph in chain wide train random; do
  expect 0 'ns/node' "$bench" plan --graph $graph --nodes 200 --threads 2 --dot plan.dot --out plan.json
  fields plan.json nodes threads record_ns_per_node compile_ns_per_node edges barriers batches bytes_per_node \
    arena_bytes \
    arena_lower_bound_bytes
  grep -q '^digraph' plan.dot || { echo "FAILED: plan.dot is no graph"; failures=$((failures + 1)); }
  for slots in '' --slots; do
    expect 0 'all checked' "$bench" replay --device cpu --graph $graph --nodes 100 --rounds 3 $slots --out replay.json
    fields replay.json submit_ns_p50 submit_ns_p99 done_us device_ns_per_node raw_submit_ns_p50 raw_device_ns_per_node \
      ratio
  done
done
# Files of graphs: what one command saves runs by another, and what is wrong with one is said.
graph_files() {
  expect 1 "can't read 'nothing.rota'" "$bench" run nothing.rota --device cpu
  for graph in chain wide train random; do
    for how in '' --slots --change; do
      expect 0 'all checked' "$bench" replay --device cpu --graph $graph --nodes 100 --rounds 3 $how --save $graph.rota
      expect 0 'results are as they should be' "$bench" run $graph.rota --device cpu --rounds 3 --certify --out run.json
      fields run.json file graph writer nodes checked edges barriers compile_us done_us done_us_min done_us_max
    done
  done
  expect 0 'load +[0-9.]+ ns/node' "$bench" plan --graph chain --nodes 200 --save plan.rota --out plan.json
  fields plan.json save_ns_per_node load_ns_per_node file_bytes_per_node
  expect 0 'nothing was checked, and nothing is timed' "$bench" run plan.rota --device cpu
  python3 - chain.rota <<'PY'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
open("cut.rota", "wb").write(data[:len(data) // 2])
data[-6] ^= 1  # the last byte of the last result, which its tolerance stands behind
open("wrong.rota", "wb").write(data)
PY
  expect 2 'byte 3 of buffer .* is 0x.., expected 0x..' "$bench" run wrong.rota --device cpu
  # A program's graphs, captured; what one device makes of them is what another must make.
  expect 0 ' 0 of ' "$bench" matmul --device cpu --shapes 64x48x32 --iters 2 --warmup 1 --repeat 1 --capture captured
  captured=(captured/matmul-*-1.rota)
  expect 0 'nothing was checked' "$bench" run "${captured[0]}" --device cpu --save checked.rota --tolerance 1e-5
  expect 0 'results are as they should be' "$bench" run checked.rota --device cpu --rounds 3
  expect 0 'results are as they should be' "$bench" run checked.rota --device cpu --rounds 3 --save again.rota
  expect 1 '--tolerance goes with --save' "$bench" run checked.rota --device cpu --tolerance 1e-5
  expect 1 "graph file 'cut.rota', byte [0-9]+ \(.*expected" "$bench" run cut.rota --device cpu
}
expect 1 'FILE is needed' "$bench" run
if [[ $("$bench" run nothing.rota --device cpu 2>&1) == *'built without libcbor'* ]]; then
  echo "skipped: graph files, as rota is built without libcbor"
else
  graph_files
fi
# Pictures: XML, with a box for each node, or for each layer's forward and backward part and what follows them.
expect 0 'ns/node' "$bench" plan --graph train --nodes 370 --svg plan.svg --dot plan.dot
expect 0 'ns/node' "$bench" plan --graph train --nodes 370 --svg small.svg --dot small.dot --collapse
# Also of a graph that Graphviz does not end with; seconds are for a busy machine.
expect 0 'ns/node' timeout 60 "$bench" plan --graph random --nodes 50K --svg random.svg
expect 0 'ns/node' timeout 60 "$bench" plan --graph wide --nodes 50K --svg wide.svg
python3 - <<'PY' || failures=$((failures + 1))
import re
import xml.etree.ElementTree as tree
def boxes(path):
    svg = tree.parse(path).getroot()
    assert svg.tag == "{http://www.w3.org/2000/svg}svg", svg.tag
    width, found = float(svg.get("width")), svg.findall(".//{*}g/{*}rect")
    for box in found:
        assert 0 <= float(box.get("x")) and float(box.get("x")) + float(box.get("width")) <= width, box.attrib
    corners = [(box.get("x"), box.get("y")) for box in found]
    assert len(set(corners)) == len(corners), f"{path}: boxes lie on one another"
    return len(found)
assert boxes("plan.svg") == 370, boxes("plan.svg")
assert boxes("small.svg") == 10 + 10 - 1 + 1, boxes("small.svg")  # the last layer goes on backward at once
assert boxes("random.svg") == boxes("wide.svg") == 50000
dot = open("small.dot").read()
assert re.search(r's0 \[.*label="layer 0\\n12 operations', dot) and "s0 -> s1 [" in dot, dot[:2000]
assert open("plan.dot").read().count("subgraph cluster_") == 20, "clusters"
PY
# How far it is, on a terminal, and no bar elsewhere.
expect 0 'building  [0-9.]+ builds/s  [0-9]+:[0-9]+ left' "$here/on_terminal.py" "$bench" plan --nodes 300K \
  --builds 25
expect 0 'ns/node' "$bench" plan --nodes 300K
if grep -q $'\033' output; then echo "FAILED: a bar in a file"; failures=$((failures + 1)); fi
expect 0 '4 examples, 0 wrong elements' "$bench" ops --device cpu --shapes large --check-only --op sum_squares
# PyTorch that is there and then takes no operands, or runs nothing: it is said. By a stand-in for python3.
mkdir answers
for answer in "took operands" "run product"; do
  printf '#!/bin/sh\necho ready 9\nread line\n%s\nread line\necho no\n' \
    "$([ "$answer" = "run product" ] && echo 'echo set' || echo 'echo no')" >answers/python3
  chmod +x answers/python3
  PATH=$PWD/answers:$PATH expect 0 "PyTorch did not (take|run) the ${answer#* }" "$bench" matmul --device cpu \
    --shapes 64x48x32 --iters 2 --warmup 1 --repeat 1 --compare torch
done
expect 0 ' 0 of ' "$bench" matmul --device cpu --shapes 64x48x80,33x17x129 --iters 5 --warmup 1 --repeat 2 \
  --check-shape 65x67x69 --trace matmul.trace --out matmul.json
fields matmul.json timestamp iters warmup repeat dtype shapes device check rows
"$here/trace_check.py" matmul.trace || failures=$((failures + 1))
for graph in chain wide train; do
  expect 0 'all checked' "$bench" replay --device cpu --graph $graph --nodes 100 --rounds 3 --trace replay.trace
  "$here/trace_check.py" replay.trace $graph || failures=$((failures + 1))
done
expect 0 ' 0 of ' "$bench" matmul --device cpu --iters 3 --warmup 0 --repeat 1 --check-shape 2x65x67x69:tn+5 \
  --shapes 64x48x80:nt,33x17x129:tn+3,3x20x30x40:tt+1,4x5x6x7 --out matmul.json
grep -q '"3x20x30x40:tt+1"' matmul.json || { echo "FAILED: no row of a product turned"; failures=$((failures + 1)); }
expect 2 'wrong' "$bench" matmul --device cpu --shapes 64x64x64 --iters 1 --repeat 1 --check-atol 0 --check-rtol 0
expect 0 'submissions' "$bench" submit --device cpu --threads 2 --seconds 0.2 --out submit.json
fields submit.json threads submissions_per_s caller_ns_p50 caller_ns_p99 caller_ns_p999 mutex_submissions_per_s \
  mutex_caller_ns_p99
# A while beside what it stands for; Vulkan has no loop of its own to stand beside it.
for device in cpu vk:0; do
  expect 0 '^0 wrong of' "$bench" loops --device $device --iterations 20 --body 1 --repeat 2 --out loops.json
  fields loops.json device iterations steps wrong while submitted ratio_submitted
done
# Collectives, and what a model makes of their times: of a step that is long, nothing to be seen.
for kind in all_reduce reduce_scatter all_gather barrier; do
  expect 0 '^0 wrong of' "$bench" ranks --ranks 3 --kind $kind --to 64Ki --out ranks.json
  fields ranks.json device ranks kind sizes wrong
done
expect 0 '^ *2 .* 100.0 %' "$bench" ranks --to 64Ki --model 2,1024 --latency 1 --bandwidth 1000 --step 100000 \
  --backward 100 --gradients 64Ki --bucket 4Ki --out ranks.json
fields ranks.json model
expect 1 '^rota-bench ranks: --model takes up to 64 numbers of ranks' "$bench" ranks --model 2,x
expect 1 '^rota-bench ranks: --model is of' "$bench" ranks --kind all_gather --model 2
expect 1 '^rota-bench ranks: --to is below --from' "$bench" ranks --from 1Mi --to 1Ki

# Five threads, each of another kind: what they did is checked, and nothing is left over.
expect 0 '^0 differences' "$bench" soak --device cpu --minutes 0.05 --threads 5 --out soak.json
fields soak.json devices minutes differences submissions runtimes_reopened memory_refusals rss_slope_mib_per_hour left
python3 - soak.json <<'PY' || failures=$((failures + 1))
import json, sys
soak = json.load(open(sys.argv[1]))
left = soak["left"]
assert all(left[name] == 0 for name in ("buffers", "plans", "submissions", "reclaim_pending", "threads", "files")), left
row = soak["minutes"][-1]
assert row["submissions"] > 100 and row["submissions_failed_as_asked"] > 0 and row["rss_bytes"] > 0, row
assert soak["memory_refusals"] > 0 and soak["runtimes_reopened"] > 0 and not soak["rss_slope_judged"], soak
PY
expect 1 'twice' "$bench" soak --device cpu,cpu
expect 3 'vk:99' "$bench" soak --device cpu,vk:99
expect 1 'auto, cpu, vk:0' "$bench" soak --device gpu

expect 1 "'/dev/full' can't be written" "$bench" plan --nodes 100 --out /dev/full
expect 1 "'nowhere/plan.json' can't be written" "$bench" plan --nodes 100 --out nowhere/plan.json
# Before the work, not after it: so many nodes would take minutes.
expect 1 "--out: 'nowhere/plan.json' can't be written" timeout 5 "$bench" plan --nodes 16000000 --builds 9 \
  --out nowhere/plan.json
expect 1 "can't write '/dev/full'" "$bench" plan --nodes 100 --dot /dev/full
expect 1 "can't write '/dev/full'" "$bench" plan --nodes 100 --svg /dev/full
expect 1 '--collapse goes with --dot or --svg' "$bench" plan --nodes 100 --collapse
expect 1 "--dot: '\.' can't be written" "$bench" plan --nodes 100 --dot .
expect 1 "'\.' can't be written" "$bench" plan --nodes 100 --out .
for words in "$bench plan --nodes 100" \
  "$train --data $here/test_cli.sh --iters 2 --eval-iters 0 --batch 2 --block 8 --layers 1 --heads 1 --dim 8 \
    --device cpu"; do
  expect 1 "standard output can't be written" sh -c "$words >/dev/full"
done
[ -c /dev/full ] || { echo "FAILED: /dev/full was replaced"; failures=$((failures + 1)); }

# ---- train_gpt: bad input ----
for _ in $(seq 200); do
  echo "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs"
done >text
small=(--data text --device cpu --layers 1 --heads 2 --dim 16 --block 16 --batch 4 --warmup 2 --eval-iters 2)
: >empty
echo short >short
expect 1 '^train_gpt: --data FILE is needed' "$train"
expect 1 "'missing' can't be read" "$train" --data missing
one_line
expect 1 "'\.' can't be read" "$train" --data .
one_line
expect 1 'a device, not a file' "$train" --data /dev/zero
one_line
expect 1 "'empty' is empty" "$train" --data empty
one_line
expect 1 'too few for a block of 64' "$train" --data short
one_line
expect 1 'heads 3 does not divide --dim 16' "$train" "${small[@]:0:6}" --heads 3 --dim 16
one_line
expect 1 'char\|byte\|bpe\|bin' "$train" --data text --tokenizer words
expect 1 'auto, cpu, vk:0' "$train" --data text --device gpu:0
expect 3 'vk:99' "$train" --data text --device vk:99
expect 1 '[0-9]+.*[0-9]+' "$train" --data text --device cpu --dim 1048576 --heads 1
expect 1 'bytes.*has [0-9]+' "$train" --data text --device cpu --dim 16384 --heads 16 --layers 1024
expect 1 'checkpoint.safetensors.*can.t be read' "$train" "${small[@]}" --resume nowhere

expect 1 "'text' can't be written to: Not a directory" "$train" "${small[@]}" --iters 3 --checkpoint text
one_line
expect 1 "'/proc/nothing' can't be made" "$train" "${small[@]}" --iters 3 --checkpoint /proc/nothing
one_line

# ---- train_gpt: training, metrics, checkpoints ----
expect 0 'validation loss' "$train" "${small[@]}" --iters 60 --eval-interval 20 --checkpoint whole --log whole.jsonl \
  --sample 20
python3 - whole.jsonl 60 <<'PY' || failures=$((failures + 1))
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
names = {"step", "loss", "val_loss", "lr", "grad_norm", "ms", "tok_s"}
assert [line["step"] for line in lines] == list(range(1, int(sys.argv[2]) + 1)), "steps"
assert all(names <= set(line) for line in lines), "fields"
assert lines[-1]["val_loss"] is not None and lines[19]["val_loss"] is not None and lines[0]["val_loss"] is None
assert lines[-1]["loss"] < lines[0]["loss"] - 0.1, (lines[0]["loss"], lines[-1]["loss"])
PY
absent whole/.rota-*.tmp

expect 0 'nothing is left to train' "$train" "${small[@]}" --iters 60 --resume whole

# Stopped by Ctrl-C at whatever step, then resumed: the same bytes as without the stop.
long=("${small[@]}" --iters 600 --dropout 0.1 --eval-interval 0)
expect 0 'validation loss' "$train" "${long[@]}" --checkpoint straight --log straight.jsonl
code=0
interrupt_after 5 stopped.jsonl "$train" "${long[@]}" --checkpoint stopped --log stopped.jsonl || code=$?
done_steps=$(wc -l <stopped.jsonl)
if [ "$code" -ne 0 ] || ! grep -q 'stopped after step' stopped.txt || [ "$done_steps" -ge 600 ]; then
  echo "FAILED: Ctrl-C: exit code $code after $done_steps of 600 steps"
  cat stopped.txt
  failures=$((failures + 1))
fi
expect 0 "resumed after step $done_steps" "$train" "${long[@]}" --resume stopped --checkpoint stopped \
  --log stopped.jsonl
cmp straight/checkpoint.safetensors stopped/checkpoint.safetensors || failures=$((failures + 1))
python3 - straight.jsonl stopped.jsonl <<'PY' || failures=$((failures + 1))
import json, sys
a, b = ([{k: v for k, v in json.loads(line).items() if k not in ("ms", "tok_s")} for line in open(name)]
        for name in sys.argv[1:])
assert a == b, "the resumed run's metrics differ"
PY

# The same losses on Vulkan as on the CPU, where there is a Vulkan device.
"$train" "${small[@]}" --iters 20 --log cpu.jsonl >cpu.txt 2>&1 || { cat cpu.txt; failures=$((failures + 1)); }
code=0
"$train" "${small[@]/#cpu/vk:0}" --iters 20 --log vk.jsonl >vk.txt 2>&1 || code=$?
if [ "$code" -eq 3 ]; then
  echo "skipped, losses on Vulkan: $(tail -n 1 vk.txt)"
elif [ "$code" -ne 0 ]; then
  cat vk.txt
  failures=$((failures + 1))
else
  python3 - cpu.jsonl vk.jsonl <<'PY' || failures=$((failures + 1))
import json, sys
cpu, vk = ([json.loads(line) for line in open(name)] for name in sys.argv[1:])
assert len(cpu) == len(vk) == 20, (len(cpu), len(vk))
apart = [abs(a["loss"] - b["loss"]) for a, b in zip(cpu, vk)]
assert max(apart) < 1e-2, apart
assert abs(cpu[-1]["val_loss"] - vk[-1]["val_loss"]) < 1e-2
PY
fi

# Damaged and foreign checkpoints, and disks that are full.
mkdir cut
size=$(stat -c %s whole/checkpoint.safetensors)
for keep in 0 4 100 $((size / 2)) $((size - 1)); do
  head -c "$keep" whole/checkpoint.safetensors >cut/checkpoint.safetensors
  expect 1 'truncated|not a safetensors' "$train" "${small[@]}" --iters 70 --resume cut
  [ "$(stat -c %s cut/checkpoint.safetensors)" -eq "$keep" ] ||
    { echo "FAILED: a bad checkpoint was changed"; failures=$((failures + 1)); }
done
expect 1 "--dim 32 contradicts 'whole/checkpoint.safetensors', which was made with --dim 16" "$train" \
  "${small[@]:0:8}" --dim 32 --block 16 --resume whole
cp whole/checkpoint.safetensors before
# A limit on file sizes stands for the full disk: writes fail in the middle.
expect 1 "checkpoint.safetensors' can't be written" bash -c 'trap "" XFSZ; ulimit -f 4; exec "$@"' - \
  "$train" "${small[@]}" --iters 70 --resume whole --checkpoint whole
cmp before whole/checkpoint.safetensors || failures=$((failures + 1))
absent whole/.rota-*.tmp
expect 1 "'/dev/full' can't be written" "$train" "${small[@]}" --iters 3 --log /dev/full

# ---- The small examples ----
expect 0 '1 \+ 1 \+ 2 \+ 3 = 7' "$1/examples/quickstart" cpu
expect 0 'largest difference' "$1/examples/custom_kernel" cpu
expect 0 'all exact' "$1/examples/concurrent" cpu 4 200
expect 0 'early exit: .*% left early' "$1/examples/early_exit" cpu

if [ "$failures" -ne 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all good"
