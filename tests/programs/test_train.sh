#!/usr/bin/env bash
# train_gpt's tokenizers, token files, weights, sampling and training options, from the command line.
# test_train.sh BUILD_DIR [--large]
# --large: a large text and vocabulary alone.
set -euo pipefail
train=$1/examples/train_gpt
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"
# What a software device's driver has compiled is not what is judged here.
export MESA_SHADER_CACHE_DIR=${MESA_SHADER_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}}
export XDG_CACHE_HOME=$work/cache

for _ in $(seq 200); do
  echo "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs"
done >text
model=(--device cpu --layers 1 --heads 2 --dim 16 --block 16 --batch 4 --warmup 2 --eval-iters 2)
small=(--data text "${model[@]}")

# losses FILE FILE: two runs' metrics agree bit for bit, times apart.
losses() {
  python3 - "$@" <<'PY' || failures=$((failures + 1))
import json, sys
a, b = ([{k: v for k, v in json.loads(line).items() if k not in ("ms", "tok_s")} for line in open(name)]
        for name in sys.argv[1:])
assert a and a == b, f"FAILED: the metrics of {sys.argv[1]} and {sys.argv[2]} differ"
PY
}

if [ "${2:-}" = --large ]; then
  # SCENARIOS.md S1: 33 MB, a device that was opened long before it is used, 64 000 byte pairs.
  python3 - <<'PY'
import random
rng = random.Random(1)
syllables = [c + v + e for c in "bcdfghjklmnprstvwz" for v in "aeiou" for e in ("", "n", "r", "s", "t")]
words = ["".join(rng.choice(syllables) for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))) for _ in range(150000)]
weights = [1 / (i + 20) for i in range(len(words))]
with open("big", "w") as file:
    left = 33_000_000
    while left > 0:
        line = " ".join(rng.choices(words, weights, k=20000)) + ".\n"
        file.write(line)
        left -= len(line)
PY
  expect 0 'of 64000 kinds' "$train" --data big --device cpu --tokenizer bpe --vocab 64000 --iters 5 --batch 1 \
    --dim 64 --heads 2 \
    --layers 2 --block 64 --eval-iters 0 --log s1.jsonl
  python3 - s1.jsonl <<'PY' || failures=$((failures + 1))
import json, math, sys
losses = [json.loads(line)["loss"] for line in open(sys.argv[1])]
assert len(losses) == 5 and all(map(math.isfinite, losses)), losses
assert abs(losses[0] - math.log(64000)) < 0.05 * math.log(64000), losses
PY
  rm -f big
  exit "$((failures > 0))"
fi

# ---- Byte pairs and token files ----
bpe=("${small[@]}" --tokenizer bpe --vocab 300 --iters 12)
expect 0 'of 300 kinds' "$train" "${bpe[@]}" --log learned.jsonl --sample 10
merges=$(echo cache/rota/bpe-*-300.txt)
[ -f "$merges" ] || { echo "FAILED: the merges were not kept"; failures=$((failures + 1)); }
touch -d '2000-01-01' "$merges"
expect 0 'of 300 kinds' "$train" "${bpe[@]}" --log kept.jsonl
losses learned.jsonl kept.jsonl
[ "$(stat -c %Y "$merges")" -lt 1000000000 ] ||
  { echo "FAILED: the merges were learned again"; failures=$((failures + 1)); }
# Fused nodes compute the same bits.
expect 0 'of 300 kinds' "$train" "${bpe[@]}" --dropout 0.1 --log fused.jsonl
expect 0 'of 300 kinds' "$train" "${bpe[@]}" --dropout 0.1 --no-fuse --log separate.jsonl
losses fused.jsonl separate.jsonl
# However the memory between nodes is packed.
for packing in tight concurrent; do
  expect 0 'of 300 kinds' "$train" "${bpe[@]}" --dropout 0.1 --packing $packing --log $packing.jsonl
  losses fused.jsonl $packing.jsonl
done
# Kept merges that are damaged are said to be, and learned again.
head -c 100 "$merges" >cut && cp cut "$merges"
expect 0 'truncated|no merge' "$train" "${bpe[@]}" --log again.jsonl
losses learned.jsonl again.jsonl
cp "$merges" merges.txt
expect 0 'of 300 kinds' "$train" "${small[@]}" --tokenizer bpe --merges merges.txt --iters 12 --log given.jsonl
losses learned.jsonl given.jsonl
expect 0 'tokens of 300 kinds are in tokens.bin' "$train" "${bpe[@]}" --write-tokens tokens.bin
expect 0 'of 300 kinds' "$train" --data tokens.bin --tokenizer bin --vocab 300 "${model[@]}" --iters 12 --log bin.jsonl
losses learned.jsonl bin.jsonl
expect 0 '<[0-9]+>' "$train" --data tokens.bin --tokenizer bin --vocab 300 "${model[@]}" --iters 2 --sample 5
# A text of fewer pairs than were asked for, and a checkpoint that is gone on with.
printf 'the quick brown fox jumps\n%.0s' {1..400} >few.txt
expect 0 'of 2[0-9][0-9] kinds' "$train" --data few.txt --tokenizer bpe --vocab 60000 "${model[@]}" --iters 2 \
  --checkpoint few
expect 0 '^the' "$train" --device cpu --resume few --generate the --sample 5
expect 0 'of 2[0-9][0-9] kinds' "$train" --device cpu --resume few --iters 3
expect 0 'of 300 kinds' "$train" --data tokens.bin --val-data tokens.bin --tokenizer bin --merges merges.txt \
  "${model[@]}" --iters 2
# The header that llm.c's readers look for.
python3 - tokens.bin <<'PY' || failures=$((failures + 1))
import struct, sys
data = open(sys.argv[1], "rb").read()
magic, version, count = struct.unpack("<3i", data[:12])
assert (magic, version) == (20240520, 1) and len(data) == 1024 + 2 * count and not any(data[12:1024])
tokens = list(struct.unpack(f"<{count}H", data[1024:]))
tokens[77] = 4242
open("wild.bin", "wb").write(data[:1024] + struct.pack(f"<{count}H", *tokens))
PY
expect 1 "'wild.bin': token 77 is 4242, but the vocabulary has 300" "$train" --data wild.bin --tokenizer bin \
  --vocab 300 "${model[@]}"
expect 1 "token 77 is 4242" "$train" --data tokens.bin --val-data wild.bin --tokenizer bin --vocab 300 "${model[@]}"
head -c 2000 tokens.bin >short.bin
expect 1 "'short.bin' is truncated: it has 488 tokens of [0-9]+" "$train" --data short.bin --tokenizer bin "${model[@]}"
one_line
expect 1 'is no token file' "$train" --data text --tokenizer bin "${model[@]}"
one_line
head -n 20 merges.txt >fewer.txt
expect 1 "'fewer.txt' is truncated: it has 19 merges of 43" "$train" "${small[@]}" --tokenizer bpe --merges fewer.txt
echo 'a b c' >foreign.txt
expect 1 "'foreign.txt' line 1 is no merge" "$train" "${small[@]}" --tokenizer bpe --merges foreign.txt
expect 1 '--merges goes with' "$train" "${small[@]}" --merges merges.txt
expect 1 'at least 257' "$train" "${small[@]}" --tokenizer bpe --vocab 100
# A checkpoint knows what its tokens stood for.
expect 0 'validation loss' "$train" "${bpe[@]}" --checkpoint pairs
sed '5{h;d};6{G}' merges.txt | sed 's/^#.*/#version: 0.2/' >swapped.txt
expect 1 'was trained with other tokens' "$train" "${small[@]}" --tokenizer bpe --merges swapped.txt --iters 20 \
  --resume pairs
expect 1 "--tokenizer char contradicts 'pairs/checkpoint.safetensors', which was made with --tokenizer bpe" \
  "$train" "${small[@]}" --tokenizer char --iters 20 --resume pairs
# Weights of another model: the first five names that differ, and how many more; tokens of another number are one of
# them.
expect 0 'validation loss' "$train" "${small[@]}" --iters 2 --save-weights shallow.safetensors
of_another="'shallow.safetensors' has the weights of another model: "
expect 1 "$of_another('transformer.h.[12].[a-z_0-9.]+' is missing; ){5}and 7 more" \
  "$train" --data text --device cpu --layers 3 --heads 2 --dim 16 --block 16 --batch 4 --iters 2 \
  --init-from shallow.safetensors
expect 1 "'transformer.wte.weight' is [0-9]+x16 there, 256x16 here" "$train" "${small[@]}" --tokenizer byte --iters 2 \
  --init-from shallow.safetensors

# ---- Training options ----
# Four micro-batches of one window are a batch of four: the same windows, the same mean, summed otherwise.
expect 0 'validation loss' "$train" "${small[@]}" --iters 15 --log once.jsonl
expect 0 'validation loss' "$train" "${small[@]/#4/1}" --accumulate 4 --iters 15 --log parts.jsonl
# ---- 16 bits ----
# f32 weights and moments, 16-bit copies, activations and gradients. This model's logits stay below 1/2, so the last
# rounding of one is at most 2^-10 of bf16, and what was rounded before it (weights, norms, the stream, each once a
# layer) adds as much again: losses differ by less than 2e-3, with f16's 3 further bits by an eighth of it.
for dtype in bf16 f16; do
  expect 0 'validation loss' "$train" "${small[@]}" --iters 15 --dtype $dtype --find-nan --log $dtype.jsonl
  expect 0 'validation loss' "$train" "${small[@]/#4/1}" --accumulate 4 --iters 15 --dtype $dtype \
    --log $dtype-parts.jsonl
done
python3 - <<'PY' || failures=$((failures + 1))
import json
read = lambda name: [json.loads(line)["loss"] for line in open(name + ".jsonl")]
for name, bound in (("bf16", 2e-3), ("f16", 2.5e-4)):
    for run in (name, name + "-parts"):
        apart = [abs(a - b) for a, b in zip(read("once"), read(run))]
        assert len(apart) == 15 and 0 < max(apart) < bound, (run, apart)
PY
# Another process with one thread, to the bit.
for run in "once f32" "bf16 bf16"; do
  read -r name dtype <<<"$run"
  expect 0 'validation loss' taskset -c 0 "$train" "${small[@]}" --iters 15 --dtype "$dtype" --log $name-alone.jsonl
  losses $name.jsonl $name-alone.jsonl
done
# The same on Vulkan, where there is a Vulkan device; what it rounds to 16 bits differs by a unit here and there.
cp once.jsonl f32.jsonl
for dtype in f32 bf16 f16; do
  code=0
  "$train" "${small[@]/#cpu/vk:0}" --iters 15 --dtype $dtype --log vk-$dtype.jsonl >vk.txt 2>&1 || code=$?
  if [ "$code" -eq 3 ]; then
    echo "skipped, $dtype on Vulkan: $(tail -n 1 vk.txt)"
    continue
  fi
  [ "$code" -eq 0 ] || cat vk.txt
  python3 - $dtype.jsonl vk-$dtype.jsonl "$([ $dtype = bf16 ] && echo 2e-3 || echo 2.5e-4)" <<'PY' \
    || failures=$((failures + 1))
import json, sys
cpu, vk = ([json.loads(line)["loss"] for line in open(name)] for name in sys.argv[1:3])
apart = [abs(a - b) for a, b in zip(cpu, vk)]
assert len(vk) == 15 and max(apart) < float(sys.argv[3]), apart
# A step's time is its own: in pairs that ended together one had all of it and the other none. (Whoever was let run late
# may see two at once, now and then.)
took = sorted(json.loads(line)["ms"] for line in open(sys.argv[2]))
assert sum(ms < took[len(took) // 2] / 50 for ms in took) <= 3, took
PY
  [ $dtype != f16 ] || continue
  # There too, to the bit: another process, whose driver has one thread.
  LP_NUM_THREADS=1 "$train" "${small[@]/#cpu/vk:0}" --iters 15 --dtype $dtype --log vk-alone.jsonl >vk.txt 2>&1 ||
    cat vk.txt
  losses vk-$dtype.jsonl vk-alone.jsonl
done
# Resumed, bit for bit: the copies are the values' rounded, and f16 has its loss scale.
for dtype in bf16 f16; do
  half=("${small[@]::${#small[@]}-2}" --iters 12 --eval-iters 0 --schedule constant --dropout 0.1 --dtype $dtype)
  expect 0 '' "$train" "${half[@]}" --checkpoint $dtype-straight
  expect 0 '' "$train" "${half[@]/#12/6}" --checkpoint $dtype-resumed
  expect 0 'resumed after step 6' "$train" "${half[@]}" --resume $dtype-resumed --checkpoint $dtype-resumed
  cmp $dtype-straight/checkpoint.safetensors $dtype-resumed/checkpoint.safetensors || failures=$((failures + 1))
done
expect 0 'resumed after step 12' "$train" "${small[@]}" --iters 13 --resume f16-straight
# A loss scale far too large: the first steps' gradients overflow f16. They are skipped, and counted, until it is small
# enough.
python3 - f16-resumed/checkpoint.safetensors <<'PY'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
size = struct.unpack("<Q", data[:8])[0]
begin = 8 + size + json.loads(data[8:8 + size])["loss_scale"]["data_offsets"][0]
assert struct.unpack("<2f", data[begin:begin + 8]) == (65536, 12)
data[begin:begin + 8] = struct.pack("<2f", 2 ** 24, 0)
open(sys.argv[1], "wb").write(data)
PY
expect 0 'step 26/26.*[1-9] skipped' "$train" "${half[@]/#12/26}" --resume f16-resumed --log skipped.jsonl
python3 - <<'PY' || failures=$((failures + 1))
import json
lines = [json.loads(line) for line in open("skipped.jsonl")]
skipped = [line["skipped"] for line in lines]
assert len(lines) == 14 and skipped[0] == 1 and 1 <= skipped[-1] < 14 and skipped[-1] == skipped[-2], skipped
for line, before in zip(lines, [0] + skipped):
    assert (line["grad_norm"] is None) == (line["skipped"] == before + 1) and line["loss"] < 5, line
assert not any("skipped" in json.loads(line) for line in open("once.jsonl"))
PY
expect 1 '.--dtype.*f32' "$train" "${small[@]}" --dtype f64

# lr of each schedule: warm-up to the peak, then down to the least at the last step.
for schedule in cosine linear constant; do
  expect 0 'validation loss' "$train" "${small[@]}" --iters 12 --lr 0.01 --min-lr 0.002 --schedule $schedule \
    --log $schedule.jsonl
done
python3 - <<'PY' || failures=$((failures + 1))
import json, math
read = lambda name: [json.loads(line) for line in open(name + ".jsonl")]
apart = [abs(a["loss"] - b["loss"]) for a, b in zip(read("once"), read("parts"))]
assert len(apart) == 15 and max(apart) < 1e-5, apart
for name, part in (("cosine", lambda x: 0.5 * (1 + math.cos(math.pi * x))), ("linear", lambda x: 1 - x),
                   ("constant", lambda x: 1)):
    for line in read(name):
        step = line["step"]
        expected = 0.01 * step / 2 if step <= 2 else 0.002 + 0.008 * part((step - 2) / 10)
        assert abs(line["lr"] - expected) < 1e-7, (name, step, line["lr"], expected)
PY
# Nothing is learned at rate 0, so soon no evaluation is better. Resumed, it stays ended.
still=("${small[@]}" --iters 100 --lr 0 --min-lr 0 --eval-interval 5 --patience 2)
expect 0 'stopped early after step [0-9]+: 2 evaluations' "$train" "${still[@]}" --checkpoint still --log still.jsonl
[ -f still/best.safetensors ] || { echo "FAILED: the best weights were not kept"; failures=$((failures + 1)); }
expect 0 'resumed after step' "$train" "${still[@]}" --resume still --log again2.jsonl
[ ! -s again2.jsonl ] || { echo "FAILED: training went on after it had ended"; failures=$((failures + 1)); }
# Interrupted between evaluations, what counts towards --patience is kept: the rest is bit-equal.
tired=("${small[@]}" --iters 400 --eval-interval 7 --patience 50 --dropout 0.1 --accumulate 2)
expect 0 'validation loss' "$train" "${tired[@]}" --checkpoint straight
interrupt_after 10 stopped.jsonl "$train" "${tired[@]}" --checkpoint stopped --log stopped.jsonl ||
  { echo "FAILED: Ctrl-C"; cat stopped.txt; failures=$((failures + 1)); }
expect 0 'resumed after step' "$train" "${tired[@]}" --resume stopped --checkpoint stopped
cmp straight/checkpoint.safetensors stopped/checkpoint.safetensors || failures=$((failures + 1))
cmp straight/best.safetensors stopped/best.safetensors || failures=$((failures + 1))

# More than the device may give: need, budget and the largest tensors, in one line.
free="'train' needs [0-9]+ bytes on device 'cpu': [0-9]+ of the memory limit of 28000000 are free"
again="its buffers take [0-9]+ bytes, .* with [0-9]+ of [0-9]+ nodes computed again .* most live at node '"
roomy=("$train" --data text --device cpu --layers 1 --heads 2 --dim 16 --block 16 --batch 2000 --iters 2
  --eval-iters 0)
expect 1 "$free.*$again.*the largest tensors: a layer's widened rows 8192000, logits 4096000," \
  "${roomy[@]}" --memory-limit 28000000
[ "$(grep -c 'memory limit' output)" -eq 1 ] ||
  { echo "FAILED: too little memory took several lines"; failures=$((failures + 1)); }
# With room for part of what it would keep, it computes again what it does not, and learns the same to the bit.
expect 0 'arena 4[0-9]\.[0-9] MiB' "${roomy[@]}" --log roomy.jsonl
expect 0 'arena 2[0-9]\.[0-9] MiB' "${roomy[@]}" --memory-limit 48000000 --log tight.jsonl
untimed() { sed 's/, "ms".*//' "$1"; }
cmp <(untimed roomy.jsonl) <(untimed tight.jsonl) ||
  { echo "FAILED: other losses under a memory limit"; failures=$((failures + 1)); }

# ---- Writing ----
without_rate() { sed -i '/ tokens in .* a second, chosen on the /d' output; }
expect 0 'validation loss' "$train" "${bpe[@]}" --checkpoint writer --save-weights writer.safetensors
write=("$train" --generate --device cpu --layers 1 --heads 2 --dim 16 --block 16 --tokenizer bpe --merges merges.txt \
  --prompt 'the quick')
expect 0 '^the quick' "${write[@]}" --resume writer --sample 40 --seed 3
without_rate
cp output first
expect 0 '^the quick' "${write[@]}" --resume writer --sample 40 --seed 3
without_rate
cmp first output || { echo "FAILED: the same seed wrote otherwise"; failures=$((failures + 1)); }
expect 0 '^the quick' "${write[@]}" --init-from writer.safetensors --sample 40 --seed 3
without_rate
cmp first output || { echo "FAILED: saved weights wrote otherwise"; failures=$((failures + 1)); }
expect 0 '^the quick' "${write[@]}" --resume writer --sample 40 --seed 4 --temperature 1.2 --top-k 50 --top-p 0.9
cmp -s first output && { echo "FAILED: another seed wrote the same"; failures=$((failures + 1)); }
expect 0 '^the quick' "${write[@]}" --resume writer --temperature 0 --sample 10 --seed 8
# A model may have more rows than there are merges, where --vocab says so.
expect 0 'validation loss' "$train" --data tokens.bin --tokenizer bin --vocab 320 "${model[@]}" --iters 3 \
  --save-weights padded.safetensors
padded=("$train" --generate --device cpu --layers 1 --heads 2 --dim 16 --block 16 --tokenizer bin --merges merges.txt \
  --prompt 'the quick')
expect 0 '^the quick' "${padded[@]}" --vocab 320 --init-from padded.safetensors --sample 40
expect 1 'is 320x16 there, 300x16 here' "${padded[@]}" --init-from padded.safetensors --sample 40
expect 1 'another model.*is 300x16 there' "$train" "${small[@]}" --init-from writer.safetensors
expect 1 'generate needs a model' "${write[@]}"
expect 1 'both say where the weights come from' "${write[@]}" --resume writer --init-from writer.safetensors
expect 1 "'Q' at byte 1 is not one of" "$train" "${small[@]}" --iters 2 --sample 5 --prompt aQ

# ---- A checkpoint carries what it was made with: nothing else is needed ----
alone() { # CHECKPOINT OPTION...: writes the same with the checkpoint alone as with all that it was made with
  local from=$1
  shift
  expect 0 '^the quick' "$train" --device cpu --sample 40 --seed 3 --generate 'the quick' --resume "$from"
  without_rate
  cp output said
  expect 0 '^the quick' "$train" --device cpu --sample 40 --seed 3 --generate --prompt 'the quick' --resume "$from" "$@"
  without_rate
  cmp said output || { echo "FAILED: $from alone writes otherwise"; failures=$((failures + 1)); }
}
sizes=(--layers 1 --heads 2 --dim 16 --block 16)
python3 - merges.txt <<'PY'
import json, random, sys
prints = [b for b in range(256) if 0x20 < b < 0x7f or (b > 0xa0 and b != 0xad)]
code, hidden = {}, 256
for b in range(256):
    code[b] = chr(b) if b in prints else chr(hidden)
    hidden += b not in prints
names = list(code.values())
for line in open(sys.argv[1], encoding="utf-8").read().splitlines()[1:]:
    left, right = line.split(" ")
    if left + right not in names: names.append(left + right)
names += ["<|endoftext|>", "<|a name with a space \u00ad|>"]
random.Random(1).shuffle(names)
json.dump({name: i for i, name in enumerate(names)}, open("numbers.json", "w"))
PY
for kind in char byte bpe numbers; do
  case $kind in
    numbers) how=(--tokenizer bpe --merges merges.txt --merges-vocab numbers.json) ;;
    *) how=(--tokenizer $kind) ;;
  esac
  [ $kind != bpe ] || how+=(--vocab 300)
  expect 0 'validation loss' "$train" "${small[@]}" "${how[@]}" --iters 3 --checkpoint carries-$kind
  python3 - carries-$kind/checkpoint.safetensors <<'PY' || failures=$((failures + 1))
import json, os, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
metadata = json.loads(data[8:8 + size].decode("utf-8"))["__metadata__"]
assert all(isinstance(v, str) for v in metadata.values())
assert metadata["data"] == os.path.realpath("text"), metadata["data"]
assert ("merges" in metadata) == (metadata["tokenizer"] == "bpe")
assert ("token_numbers" in metadata) == ("numbers" in sys.argv[1])
PY
done
alone carries-byte "${sizes[@]}" --tokenizer byte
alone carries-numbers "${sizes[@]}" --tokenizer bpe --merges merges.txt --merges-vocab numbers.json
alone carries-char/checkpoint.safetensors # its file
alone carries-bpe
expect 1 "'Q' at byte 0 is not one of the vocabulary's" "$train" --device cpu --generate Quick --resume carries-char
expect 1 '--generate TEXT and --prompt TEXT both' "$train" --generate a --prompt b --resume carries-char
# Training goes on with its data, wherever it is called; other data is taken where it is given.
folder=$PWD
sed 's/fox/jug/' text >big-enough
expect 0 'resumed after step 3' env -C / "$train" --device cpu --resume "$folder/carries-bpe" --iters 5 --eval-iters 0 \
  --batch 2
expect 0 'resumed after step 3' "$train" --device cpu --resume carries-bpe --iters 5 --eval-iters 0 --batch 2 \
  --data big-enough
# What contradicts it is named, with both values.
for pair in block:8:16 layers:2:1 heads:4:2 dim:32:16 arch:gpt2:plain tokenizer:byte:char seed:5:1337; do
  IFS=: read -r name given there <<<"$pair"
  expect 1 "--$name $given contradicts 'carries-char/checkpoint.safetensors', which was made with --$name $there" \
    "$train" --resume carries-char --$name "$given"
  one_line
done
expect 1 "--vocab 310 contradicts 'carries-bpe/checkpoint.safetensors', which was made with --vocab 300" \
  "$train" --resume carries-bpe --vocab 310
expect 0 'resumed after step 3' "$train" --device cpu --resume carries-char --iters 4 --eval-iters 0 --batch 2 \
  --dim 16 --heads 2
# Older checkpoints say their sizes only, and one may be damaged.
python3 - <<'PY'
import json, os, struct
data = open("carries-byte/checkpoint.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
def write(folder, header):
    os.mkdir(folder)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(folder + "/checkpoint.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
header = json.loads(data[8:8 + size])
for name in ("tokenizer", "data"): del header["__metadata__"][name]
header["__metadata__"]["format"] = "rota train_gpt 2"
write("older", header)
header["__metadata__"].update(tokenizer="char", characters="10 32 31")
write("damaged", header)
header["__metadata__"].update(tokenizer="bpe")
write("damaged2", header)
for name, value in ("heads", "0"), ("arch", "7"), ("dim", "99999999999"):
    header["__metadata__"][name], good = value, header["__metadata__"][name]
    write("damaged-" + name, header)
    header["__metadata__"][name] = good
PY
expect 1 'what tokens stand for must be known' "$train" --device cpu --generate --resume older
expect 0 '^the quick' "$train" --device cpu --generate 'the quick' --tokenizer byte --resume older
expect 0 'resumed after step 3' "$train" --device cpu --resume older --tokenizer byte --data text --iters 4 \
  --eval-iters 0 --batch 2
expect 1 'its 256 characters make no sense from the 2th on' "$train" --device cpu --generate --resume damaged
for name in heads arch dim; do
  expect 1 "is damaged: it says $name [079]" "$train" --device cpu --generate --resume damaged-$name
done
expect 1 'is damaged: it has no merges' "$train" --device cpu --generate --resume damaged2

if [ "$failures" -ne 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all good"
