#!/usr/bin/env bash
# train_gpt as several ranks, threads of its own and processes under MPI: they learn what one rank learns of their
# batches together, write everything once, stop at one step, and leave checkpoints that any number of ranks goes on
# from.
# test_train_ranks.sh BUILD_DIR
set -euo pipefail
build=$(realpath "$1")
train=$build/examples/train_gpt run=$build/bench/rota-run
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
export XDG_CACHE_HOME=$work/cache OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export LD_LIBRARY_PATH=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} # of a sanitizer's build, too
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # MPI's own
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK SLURM_STEP_NUM_TASKS TORCHELASTIC_RUN_ID
launch=("$run" --oversubscribe -n)
mpi=
if ! [ -x "$run" ] || ! command -v mpirun >/dev/null || ! [ -e "$build/librota_mpi.so.1" ]; then
  echo "without MPI: ranks are threads only"
else
  mpi=1
fi

for _ in $(seq 200); do
  echo "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs"
done >text
small=(--data text --device cpu --layers 2 --heads 2 --dim 32 --block 32 --warmup 2 --eval-iters 3 --eval-interval 6)

# alike BOUND FILE FILE...: losses of the same steps, apart by less than the bound; BOUND 0: to the bit, and all else
# but times.
alike() {
  python3 - "$@" <<'PY' || failures=$((failures + 1))
import json, sys
bound, first, *others = float(sys.argv[1]), *sys.argv[2:]
read = lambda name: [{k: v for k, v in json.loads(line).items() if k not in ("ms", "tok_s")} for line in open(name)]
for name in others:
    a, b = read(first), read(name)
    assert a and [x["step"] for x in a] == [x["step"] for x in b], f"FAILED: the steps of {first} and {name} differ"
    if bound == 0:
        assert a == b, f"FAILED: {first} and {name} differ"
    for key in ("loss", "val_loss", "grad_norm"):
        apart = [abs(x[key] - y[key]) for x, y in zip(a, b) if x[key] is not None or y[key] is not None]
        assert apart and max(apart) <= bound * (5 if key == "grad_norm" else 1), f"FAILED: {name}: {key} {max(apart)}"
PY
}

# The same to the bit but for the norm, which of parts is added up in another order.
but_for_norm() {
  python3 - "$@" <<'PY' || failures=$((failures + 1))
import json, sys
read = lambda name: [{k: v for k, v in json.loads(line).items() if k not in ("ms", "tok_s")} for line in open(name)]
a, b = map(read, sys.argv[1:])
norms = [[x.pop("grad_norm") for x in all] for all in (a, b)]
assert a and a == b, f"FAILED: {sys.argv[1]} and {sys.argv[2]} differ"
assert all(abs(x - y) <= 1e-6 * x for x, y in zip(*norms)), f"FAILED: norms: {norms}"
PY
}

# ---- First values ----
# Drawn by as many threads as there are processors, they are the same; large enough to be cut.
first=(--data text --device cpu --layers 1 --heads 4 --dim 260 --block 32 --iters 1 --lr 0 --min-lr 0 --eval-iters 0)
processors=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:3], sep=",")')
for on in "${processors%%,*}" "$processors"; do
  expect 0 'step 1/1' taskset -c "$on" "$train" "${first[@]}" --save-weights "first-$on.safetensors"
  cmp "first-${processors%%,*}.safetensors" "first-$on.safetensors" || fail "first values on processors $on"
done

# ---- One rank's losses ----
# Batches of 8 windows, by one rank, two and four: f32 sums in another order; 16 bits, of which gradients are rounded
# before they are added up; micro-batches, whose 16-bit gradients are added up in f32, here and among ranks.
for how in "f32 1 1e-3" "bf16 1 0.02" "bf16 2 0.02" "f32 2 1e-3" "f16 1 0.02"; do
  read -r dtype accumulate bound <<<"$how"
  more=(--dtype "$dtype" --accumulate "$accumulate" --iters 14)
  name=$dtype-$accumulate
  expect 0 'validation loss' "$train" "${small[@]}" "${more[@]}" --batch 8 --log "$name-1.jsonl"
  for ranks in 2 4; do
    expect 0 "^$ranks ranks, threads of this process: a step's batch is $ranks times" "$train" "${small[@]}" \
      "${more[@]}" --batch $((8 / ranks)) --ranks $ranks --log "$name-$ranks.jsonl"
    [ "$(grep -c '  validation loss' output)" -eq 3 ] || fail "$ranks ranks: the validation loss is not said once"
    [ "$(grep -c '^device cpu' output)" -eq 1 ] || fail "$ranks ranks: the device is not said once"
    expect 0 'and as little of the weights$' "$train" "${small[@]}" "${more[@]}" --batch $((8 / ranks)) --ranks $ranks \
      --shard-parameters --log "$name-$ranks-full.jsonl"
  done
  alike "$bound" "$name-1.jsonl" "$name-2.jsonl" "$name-4.jsonl" "$name-2-full.jsonl" "$name-4-full.jsonl"
done
# With dropout, too, of which each rank has its part of one's; and each run is the same to the bit.
expect 0 'validation loss' "$train" "${small[@]}" --iters 8 --dropout 0.2 --batch 8 --log drops-1.jsonl
dropping=("${small[@]}" --iters 8 --dropout 0.2 --batch 4 --ranks 2)
expect 0 'validation loss' "$train" "${dropping[@]}" --log drops.jsonl
expect 0 'validation loss' "$train" "${dropping[@]}" --log again.jsonl
alike 0 drops.jsonl again.jsonl
alike 1e-3 drops-1.jsonl drops.jsonl
# Without this a run could be right by having all ranks do the same: half of the batch is another run.
expect 0 'validation loss' "$train" "${small[@]}" --iters 14 --batch 4 --log half.jsonl
python3 - <<'PY' || failures=$((failures + 1))
import json
a, b = ([json.loads(line)["loss"] for line in open(name)] for name in ("f32-1-2.jsonl", "half.jsonl"))
assert abs(a[0] - b[0]) > 1e-6, "FAILED: two ranks of 4 windows have the loss of one of 4"
PY

# ---- Checkpoints are of no number of ranks, and are written once, as all is ----
expect 0 'validation loss' "$train" "${small[@]}" --iters 14 --batch 2 --ranks 4 --checkpoint whole --log whole.jsonl \
  --tensorboard board --report run.html --save-weights weights.safetensors --sample 20 --temperature 0
alike 0 f32-1-4.jsonl whole.jsonl
tail -n 2 output >sampled
[ "$(ls board | wc -l)" -eq 1 ] || fail "not one file for TensorBoard"
grep -q '8 windows, in 1 part' run.html || fail "the report does not say that a step has 8 windows"
expect 0 'stopped after step|validation loss' "$train" "${small[@]}" --iters 6 --lr 1e-3 --batch 2 --ranks 4 \
  --schedule constant --checkpoint part
for ranks in 4 2 1; do
  expect 0 'resumed after step 6' "$train" "${small[@]}" --iters 14 --schedule constant --batch $((8 / ranks)) \
    --ranks $ranks --resume part --log on-$ranks.jsonl --checkpoint on-$ranks
done
alike 1e-3 on-1.jsonl on-2.jsonl on-4.jsonl
# What was gone on from by four is what four do without a stop.
expect 0 'validation loss' "$train" "${small[@]}" --iters 14 --schedule constant --batch 2 --ranks 4 \
  --checkpoint straight
cmp straight/checkpoint.safetensors on-4/checkpoint.safetensors || fail "gone on from a checkpoint it is another run"
expect 0 'resumed after step 14' "$train" --device cpu --resume whole --iters 14 --sample 20 --temperature 0
tail -n 2 output | cmp - sampled || fail "one rank writes otherwise with four ranks' weights"
expect 0 '^the quick' "$train" --device cpu --ranks 2 --resume whole --generate 'the quick' --sample 5
[ "$(grep -c '^the quick' output)" -eq 1 ] || fail "two ranks wrote"

# ---- A part of the optimizer's state each: the same numbers, and memory by the number of ranks ----
for how in "f32 2 4 1" "f32 4 2 1" "f32 2 2 2" "bf16 2 2 3" "bf16 4 2 1" "f16 4 2 1"; do
  read -r dtype ranks batch accumulate <<<"$how"
  for shards in whole parts; do
    option=
    [ $shards = whole ] || option=--shard-optimizer
    expect 0 'validation loss' "$train" "${small[@]}" --iters 9 --dtype "$dtype" --batch "$batch" \
      --accumulate "$accumulate" --ranks "$ranks" $option --checkpoint $shards --log $shards.jsonl
    cp output $shards.txt
  done
  but_for_norm whole.jsonl parts.jsonl
  cmp whole/checkpoint.safetensors parts/checkpoint.safetensors || fail "$how: shards leave another checkpoint"
  python3 - "$ranks" <<'PY' || failures=$((failures + 1))
import re, sys
said = [open(f"{name}.txt").read() for name in ("whole", "parts")]
all, part = (float(re.search(r"each has ([\d.]+) MiB of", text)[1]) for text in said)
ranks = int(sys.argv[1])
assert all > 0.2 and abs(all / part - ranks) < 0.3, f"FAILED: {all} MiB by {ranks} ranks are {part}"
PY
done
# Whoever goes on, sharded or not, has all of it.
for how in "1 8" "2 4 --shard-optimizer" "4 2 --shard-optimizer" "4 2" "2 4 --shard-parameters"; do
  read -r ranks batch option <<<"$how"
  expect 0 'resumed after step 9' "$train" "${small[@]}" --iters 14 --dtype f16 --batch "$batch" \
    --ranks "$ranks" $option --resume parts --log "by-$ranks$option.jsonl"
done
but_for_norm by-4.jsonl by-4--shard-optimizer.jsonl
alike 0.02 by-1.jsonl by-2--shard-optimizer.jsonl by-4.jsonl by-2--shard-parameters.jsonl

# ---- A part of everything each ----
# What is written of it is what one rank's would be, but for the order of sums: each value, moment and weight.
expect 0 'validation loss' "$train" "${small[@]}" --iters 14 --batch 8 --checkpoint all-1
expect 0 'validation loss' "$train" "${small[@]}" --iters 14 --batch 2 --ranks 4 --shard-parameters \
  --checkpoint all-4 --save-weights all-4.safetensors
python3 - <<'PY' || failures=$((failures + 1))
import json, struct
def read(name):
    data = open(name, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__")
    return {k: struct.unpack(f"<{(b - a) // 4}f", data[8 + size + a:8 + size + b])
            for k, (a, b) in ((k, v["data_offsets"]) for k, v in header.items())}
one, full = (read(f"all-{n}/checkpoint.safetensors") for n in "14")
assert one.keys() == full.keys() and len(one) > 40, f"FAILED: {len(full)} tensors"
for name in one:
    apart = max(abs(a - b) for a, b in zip(one[name], full[name]))
    assert len(one[name]) == len(full[name]) and apart <= 1e-3, f"FAILED: '{name}' is {apart} apart"
    assert any(full[name]), f"FAILED: '{name}' is all zeros"
saved = read("all-4.safetensors")
assert len(saved) == len(one) // 3 and all(saved[k] == full[k] for k in saved), "FAILED: other weights were saved"
PY
for how in "1 8" "4 2 --shard-parameters" "2 4 --shard-optimizer"; do
  read -r ranks batch option <<<"$how"
  expect 0 'resumed after step 14' "$train" "${small[@]}" --iters 20 --batch "$batch" --ranks "$ranks" $option \
    --resume all-4 --log "all-by-$ranks.jsonl"
done
alike 1e-3 all-by-1.jsonl all-by-4.jsonl all-by-2.jsonl
# Memory in which one rank does not have room for all trains so, and learns what it is to learn.
large=(--data text --device cpu --layers 8 --heads 4 --dim 192 --block 32 --warmup 2 --eval-iters 2 --eval-interval 6
  --iters 6)
expect 0 'validation loss' "$train" "${large[@]}" --batch 4 --log large-1.jsonl
for option in "" --shard-optimizer; do
  expect 1 'of the memory limit of 41943040 are free' "$train" "${large[@]}" --batch 1 --ranks 4 --memory-limit 40Mi \
    $option
done
expect 0 'validation loss' "$train" "${large[@]}" --batch 1 --ranks 4 --memory-limit 40Mi --shard-parameters \
  --log large-4.jsonl
alike 1e-3 large-1.jsonl large-4.jsonl
# To write, the first rank gets all weights in the end.
for option in --shard-optimizer --shard-parameters; do
  expect 0 'validation loss' "$train" "${small[@]}" --iters 6 --batch 2 --ranks 3 $option --checkpoint wrote \
    --sample 20 --temperature 0
  tail -n 2 output >sampled
  expect 0 'resumed after step 6' "$train" --device cpu --resume wrote --iters 6 --sample 20 --temperature 0
  tail -n 2 output | cmp - sampled || fail "$option: another text is written"
done

# ---- A checkpoint of which each rank writes a file ----
expect 1 'checkpoint-shards goes with --checkpoint' "$train" "${small[@]}" --checkpoint-shards --ranks 2
one_line
# same ONE MANY FILES: the tensors of a checkpoint of one file, to the bit, in so many files as the index has them.
same() {
  python3 - "$@" <<'PY' || failures=$((failures + 1))
import glob, json, os, struct, sys
def read(name):
    data = open(name, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return header.pop("__metadata__"), {
        k: (v["shape"], data[8 + size + v["data_offsets"][0]:8 + size + v["data_offsets"][1]])
        for k, v in header.items()}
one, many, count = sys.argv[1:]
metadata, tensors = read(one + "/checkpoint.safetensors")
index = json.load(open(many + "/checkpoint.safetensors.index.json"))
files = {name: read(f"{many}/{name}") for name in set(index["weight_map"].values())}
assert len(files) == int(count) == int(index["metadata"]["files"]), f"FAILED: {many}: {index['metadata']}"
assert sorted(os.listdir(many)) == sorted([*files, "checkpoint.safetensors.index.json"]), f"FAILED: {os.listdir(many)}"
assert index["weight_map"].keys() == tensors.keys() and sum(len(t) for _, t in files.values()) == len(tensors)
for name, file in index["weight_map"].items():
    assert files[file][1][name] == tensors[name], f"FAILED: '{name}' of {many} is another"
assert all(said == metadata for said, _ in files.values()), f"FAILED: {many} says something else than {one}"
sizes = [sum(len(data) for _, data in t.values()) for _, t in files.values()]
assert index["metadata"]["total_size"] == sum(sizes) and max(sizes) < 2 * sum(sizes) / len(sizes), f"FAILED: {sizes}"
PY
}
for how in "4 2" "4 2 --shard-optimizer" "4 2 --shard-parameters" "2 8 --tensor-parallel 2" "3 4 --shard-parameters"; do
  read -r ranks batch option <<<"$how"
  rm -rf shard one shard-1.jsonl
  for form in one shard; do
    expect 0 'validation loss' "$train" "${small[@]}" --iters 6 --schedule constant --dtype f16 --batch "$batch" \
      --ranks "$ranks" $option --checkpoint $form $([ $form = one ] || echo --checkpoint-shards)
  done
  same one shard "$ranks"
  # Any number of ranks goes on from it, to what it goes on to from one file; the files before go.
  expect 0 'resumed after step 6' "$train" "${small[@]}" --iters 10 --schedule constant --dtype f16 --batch 8 \
    --resume shard --checkpoint shard-1 --log shard-1.jsonl
  expect 0 'resumed after step 6' "$train" "${small[@]}" --iters 10 --schedule constant --dtype f16 --batch 8 \
    --resume one --checkpoint one-1
  cmp one-1/checkpoint.safetensors shard-1/checkpoint.safetensors || fail "$how: another training goes on"
  for by in "2 4" "4 2 --shard-optimizer" "2 4 --shard-parameters"; do
    read -r fewer windows other <<<"$by"
    rm -f shard-by.jsonl
    expect 0 'resumed after step 6' "$train" "${small[@]}" --iters 10 --schedule constant --dtype f16 \
      --batch "$windows" --ranks "$fewer" $other --resume shard/checkpoint.safetensors.index.json --log shard-by.jsonl
    alike 0.02 shard-1.jsonl shard-by.jsonl
  done
done
# Four ranks, then two, then one, in one folder, which has the last one's alone.
expect 0 'resumed after step 6' "$train" "${small[@]}" --iters 8 --schedule constant --dtype f16 --batch 4 --ranks 2 \
  --resume shard --checkpoint shard --checkpoint-shards
expect 0 'resumed after step 6' "$train" "${small[@]}" --iters 8 --schedule constant --dtype f16 --batch 4 --ranks 2 \
  --resume one --checkpoint one
same one shard 2
expect 0 'resumed after step 8' "$train" "${small[@]}" --iters 9 --schedule constant --dtype f16 --batch 8 \
  --resume shard --checkpoint shard
[ "$(ls shard)" = checkpoint.safetensors ] || fail "files of an earlier checkpoint: $(ls shard)"
expect 0 'resumed after step 9' "$train" "${small[@]}" --iters 10 --schedule constant --dtype f16 --batch 2 --ranks 4 \
  --resume shard --checkpoint shard --checkpoint-shards
expect 0 '^the quick' "$train" --device cpu --resume shard --generate 'the quick' --sample 5
# Where one rank can't write, none does, and the checkpoint before stays.
mkdir shard/checkpoint-2-00003-of-00004.safetensors
expect 1 "'shard/checkpoint-2-00003-of-00004.safetensors' can't be written" "$train" "${small[@]}" --iters 12 \
  --schedule constant --dtype f16 --batch 2 --ranks 4 --resume shard --checkpoint shard --checkpoint-shards
[ "$(grep -c "can't\|train_gpt:" output)" -eq 1 ] || fail "several ranks say it: $(cat output)"
rmdir shard/checkpoint-2-00003-of-00004.safetensors
[ "$(ls shard | grep -c '^checkpoint-1-')" -eq 4 ] && ! ls shard | grep '^checkpoint-2-' || fail "left: $(ls shard)"
# One that is cut off, one that is another's, and one that is not there are named.
expect 0 'resumed after step 10' "$train" "${small[@]}" --iters 11 --schedule constant --dtype f16 --batch 8 \
  --resume shard
cp -r shard broken
truncate -s -8 broken/checkpoint-1-00002-of-00004.safetensors
expect 1 "broken/checkpoint-1-00002-of-00004.safetensors' is truncated" "$train" "${small[@]}" --resume broken
rm broken/checkpoint-1-00002-of-00004.safetensors
expect 1 "broken/checkpoint-1-00002-of-00004.safetensors' can't be read" "$train" "${small[@]}" --resume broken
echo '{}' >broken/checkpoint.safetensors.index.json
expect 1 'it does not say of how many files' "$train" "${small[@]}" --resume broken
# A rank that is killed as it writes, into a pipe that nobody reads: what was there stays, and fewer go on from it.
mkfifo shard/checkpoint-2-00002-of-00003.safetensors
processes=() port=$((10000 + RANDOM % 9000))
for rank in 0 1 2; do
  RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$train" "${small[@]}" --iters 12 --dtype f16 \
    --schedule constant --batch 2 --timeout 60 --resume shard --checkpoint shard --checkpoint-shards \
    --shard-parameters --log killed.jsonl >"killed-$rank" 2>&1 &
  processes+=($!)
done
for _ in $(seq 1200); do
  [ -e shard/checkpoint-2-00001-of-00003.safetensors ] || [ "$(cat killed.jsonl 2>/dev/null | wc -l)" -ge 2 ] && break
  sleep 0.05
done
sleep 0.5
kill -KILL "${processes[1]}" || fail "no rank to be killed: $(cat killed-1)"
for rank in 0 2; do
  code=0
  wait "${processes[rank]}" || code=$?
  [ $code = 2 ] && grep -q "communicator 'training': rank [0-2] is gone" "killed-$rank" ||
    fail "rank $rank, of which another is killed: exit code $code: $(cat "killed-$rank")"
done
rm shard/checkpoint-2-00002-of-00003.safetensors
for how in "2 4" "1 8"; do
  read -r ranks batch <<<"$how"
  expect 0 'resumed after step 10$' "$train" "${small[@]}" --iters 12 --schedule constant --dtype f16 --batch "$batch" \
    --ranks "$ranks" --resume shard
done
expect 0 'resumed after step 10$' "$train" "${small[@]}" --iters 12 --schedule constant --dtype f16 --batch 4 \
  --ranks 2 --resume shard --checkpoint shard --checkpoint-shards
[ "$(ls shard | wc -l)" -eq 3 ] || fail "what the killed one's ranks had written is left: $(ls shard)"

# ---- One model of several ranks ----
# By heads, columns and kinds of tokens, of which there are 29: parts differ.
heads=(--data text --device cpu --layers 2 --heads 6 --dim 48 --block 32 --warmup 2 --eval-iters 3 --eval-interval 6
  --arch gpt2)
for how in "f32 1 1e-3" "bf16 2 0.02" "f16 1 0.02" "f32 2 1e-3 --dropout 0.2"; do
  read -r dtype accumulate bound more <<<"$how"
  same=("${heads[@]}" --iters 10 --dtype "$dtype" --accumulate "$accumulate" $more)
  expect 0 'validation loss' "$train" "${same[@]}" --batch 8 --log "cut-1.jsonl"
  some="2 3 $([ "$how" != "f32 1 1e-3" ] || echo 6)"
  for together in $some; do
    expect 0 "^$together ranks, threads of this process, $together to a model: a step's batch is 1 times" "$train" \
      "${same[@]}" --batch 8 --tensor-parallel $together --log "cut-$together.jsonl"
  done
  expect 0 "^4 ranks, threads of this process, 2 to a model: a step's batch is 2 times" "$train" "${same[@]}" \
    --batch 4 --ranks 4 --tensor-parallel 2 --log cut-22.jsonl
  alike "$bound" cut-1.jsonl $(printf 'cut-%s.jsonl ' $some) cut-22.jsonl
done
# What is written is whole, whoever reads it.
six=("${heads[@]}" --iters 6 --schedule constant --sample 20 --temperature 0)
expect 0 'validation loss' "$train" "${six[@]}" --batch 8 --checkpoint cut-one
tail -n 2 output >sampled
for ranks in 3 6; do
  expect 0 'validation loss' "$train" "${six[@]}" --batch $((24 / ranks)) --ranks $ranks --tensor-parallel 3 \
    --checkpoint cut-$ranks --save-weights cut-$ranks.safetensors
  tail -n 2 output | cmp - sampled || fail "ranks that have a model together write another text"
done
python3 - <<'PY' || failures=$((failures + 1))
import json, struct
def read(name):
    data = open(name, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__")
    return {k: (v["shape"], struct.unpack(f"<{(b - a) // 4}f", data[8 + size + a:8 + size + b]))
            for k, (v, (a, b)) in ((k, (v, v["data_offsets"])) for k, v in header.items())}
one, cut = (read(f"cut-{name}/checkpoint.safetensors") for name in ("one", "3"))
assert one.keys() == cut.keys() and len(one) > 80, f"FAILED: {len(cut)} tensors"
for name in one:
    apart = max(abs(a - b) for a, b in zip(one[name][1], cut[name][1]))
    assert one[name][0] == cut[name][0] and apart <= 1e-3, f"FAILED: '{name}' is {apart} apart"
saved = read("cut-3.safetensors")
assert len(saved) == len(one) // 3 and all(saved[k] == cut[k] for k in saved), "FAILED: other weights were saved"
PY
for how in "1 8" "2 4" "2 8 --tensor-parallel 2" "4 4 --tensor-parallel 2"; do
  read -r ranks batch option <<<"$how"
  expect 0 'resumed after step 6' "$train" --data text --device cpu --iters 10 --schedule constant --warmup 2 \
    --eval-iters 3 --eval-interval 6 --batch "$batch" --ranks "$ranks" $option --resume cut-3 \
    --log "cut-by-$ranks$option.jsonl"
done
alike 1e-3 cut-by-1.jsonl cut-by-2.jsonl "cut-by-2--tensor-parallel 2.jsonl" "cut-by-4--tensor-parallel 2.jsonl"
# Memory in which one rank has no room for the model.
expect 1 'of the memory limit of 41943040 are free' "$train" "${large[@]}" --batch 4 --memory-limit 40Mi
expect 0 'validation loss' "$train" "${large[@]}" --batch 4 --tensor-parallel 4 --memory-limit 40Mi \
  --log large-cut.jsonl
alike 1e-3 large-1.jsonl large-cut.jsonl
for wrong in "--tensor-parallel 4;does not divide --heads 6" "--tensor-parallel 2 --ranks 3;does not divide --ranks 3" \
  "--tensor-parallel 2 --shard-optimizer;does not go with --shard-optimizer"; do
  expect 1 "${wrong#*;}" "$train" "${heads[@]}" ${wrong%;*}
  one_line
done
expect 1 'has 29 kinds of tokens' "$train" "${heads[@]}" --tensor-parallel 40 --heads 40 --dim 40
[ "$(grep -c 'train_gpt:' output)" -eq 1 ] || fail "several ranks say it: $(cat output)"

# ---- What is said of each rank ----
# The definition, against moments that are looked at one by one.
python3 - "$build/tests/gpt_tool" <<'PY' || failures=$((failures + 1))
import random, subprocess, sys
rng = random.Random(5)
for round in range(20):
    lists = [[(b, b + rng.randrange(12)) for b in (rng.randrange(100) for _ in range(rng.randrange(12)))] for _ in "cm"]
    c, m = ({t for begin, end in spans for t in range(begin, end)} for spans in lists)
    numbers = [len(lists[0])] + [x for spans in lists for span in spans for x in span]
    command = [sys.argv[1], "overlap", *map(str, numbers)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert list(map(int, said.split())) == [len(c), len(m), len(c & m)], f"FAILED: {lists}: {said}"
PY
each='[0-9.]+ ms a step; in the last one [0-9.]+ ms of computation, [0-9.]+ ms of communication, '
each+='[0-9]+ % of it hidden'
expect 0 "^rank 1: $each" "$train" --data text --device cpu --layers 4 --dim 128 --block 32 --batch 4 --iters 10 \
  --eval-iters 0 --ranks 2 --report run.html
[ "$(grep -cE "^rank [01]: $each" output)" -eq 2 ] || fail "not a line for each rank: $(cat output)"
[ "$(grep -o 'Rank [01]' run.html | sort -u | wc -l)" -eq 2 ] || fail "the report does not have each rank's times"
python3 - <<'PY' || failures=$((failures + 1))
import re
numbers = r"^rank \d: ([\d.]+) .*? ([\d.]+) ms of comp.*? ([\d.]+) .*? (\d+) %"
said = re.findall(numbers, open("output").read(), re.M)
assert len(said) == 2, said
for step, work, talk, hidden in said:
    assert float(step) > 0 and float(work) > 0 and float(talk) > 0 and int(hidden) <= 100, said
PY

# ---- Ctrl-C: all stop after the same step, which is what is saved ----
endless=("${small[@]}" --iters 100000 --eval-interval 0 --schedule constant --batch 4)
stopped_well() { # NAME
  python3 - "$1" <<'PY' || failures=$((failures + 1))
import json, re, struct, sys
name = sys.argv[1]
said = re.findall(r"stopped after step (\d+), saved in " + name, open("stopped.txt").read())
assert len(said) == 1, f"FAILED: {name}: {open('stopped.txt').read()}"
data = open(name + "/checkpoint.safetensors", "rb").read()
step = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])["__metadata__"]["step"]
last = [json.loads(line)["step"] for line in open(name + ".jsonl")]
assert last == list(range(1, len(last) + 1)) and int(said[0]) == int(step) == last[-1], (said, step, last[-1])
PY
}
interrupt_after 10 threads.jsonl "$train" "${endless[@]}" --ranks 2 --checkpoint threads --log threads.jsonl ||
  fail "Ctrl-C with threads: $(cat stopped.txt)"
stopped_well threads
expect 0 'resumed after step' "$train" "${endless[@]}" --resume threads --iters 20 --batch 8
interrupt_after 10 shards.jsonl "$train" "${endless[@]}" --ranks 2 --shard-parameters --checkpoint shards \
  --log shards.jsonl || fail "Ctrl-C with shards: $(cat stopped.txt)"
stopped_well shards
interrupt_after 10 cuts.jsonl "$train" "${endless[@]}" --tensor-parallel 2 --checkpoint cuts --log cuts.jsonl ||
  fail "Ctrl-C with a model of two ranks: $(cat stopped.txt)"
stopped_well cuts
# ---- What goes wrong is said once ----
expect 2 'the loss of step [0-9]+ is not finite' "$train" "${small[@]}" --iters 400 --batch 4 --ranks 4 --lr 1000 \
  --warmup 0 --grad-clip 0 --eval-iters 0 --schedule constant
[ "$(grep -c train_gpt: output)" -eq 1 ] || fail "several ranks say it: $(cat output)"
expect 1 "'nowhere/checkpoint.safetensors'" "$train" "${small[@]}" --ranks 2 --resume nowhere
one_line
expect 1 'write-tokens is what one rank does' "$train" "${small[@]}" --ranks 2 --write-tokens x.bin
one_line
# A full disk is met by one rank; the others are told.
expect 1 "'/dev/full' can't be written" "$train" "${small[@]}" --iters 50 --ranks 2 --log /dev/full
[ "$(grep -c "can't\|train_gpt:" output)" -eq 1 ] || fail "several ranks say it: $(cat output)"

expect 1 "'/dev/full'" "$train" "${small[@]}" --iters 3 --eval-iters 0 --ranks 2 --save-weights /dev/full
[ "$(grep -c "/dev/full\|train_gpt:" output)" -eq 1 ] || fail "several ranks write the weights: $(cat output)"

# ---- A rank that is killed: the others save what they kept, and fewer go on ----
expect 1 'keep-every goes with --checkpoint' "$train" "${small[@]}" --keep-every 1 --ranks 2 --checkpoint x
one_line
expect 1 'keep-every is for ranks of which each has all' "$train" "${small[@]}" --keep-every 1 --checkpoint x \
  --shard-optimizer
one_line
lasting=("${small[@]}" --iters 100000 --batch 2 --eval-iters 0 --schedule constant --eval-interval 0)
# lose RANK NAME KEEP: three ranks that meet by an address, of which one is killed after some steps.
lose() {
  local killed=$1 name=$2 keep=$3 rank code processes=() port=$((10000 + RANDOM % 9000))
  for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$train" "${lasting[@]}" --timeout 20 \
      --checkpoint "$name" --keep-every "$keep" --log "$name.jsonl" >"$name-$rank" 2>&1 &
    processes+=($!)
  done
  for _ in $(seq 1200); do
    [ "$(cat "$name.jsonl" 2>/dev/null | wc -l)" -ge 20 ] && break
    sleep 0.05
  done
  if [ "$(cat "$name.jsonl" 2>/dev/null | wc -l)" -lt 20 ]; then
    kill -KILL "${processes[@]}"
    fail "$name does not begin: $(head -20 "$name"-?)"
    return
  fi
  kill -KILL "${processes[killed]}"
  for rank in 0 1 2; do
    code=0
    wait "${processes[rank]}" || code=$?
    [ $rank = "$killed" ] || [ $code = 2 ] || fail "rank $rank of $name: exit code $code: $(cat "$name-$rank")"
    [ $rank = "$killed" ] && continue
    grep -q "communicator 'training': rank [0-2] is gone" "$name-$rank" ||
      fail "$name: who is gone: $(cat "$name-$rank")"
    grep -q "train_gpt: rank $rank saved the training as after step [0-9]* in $name" "$name-$rank" ||
      fail "$name: rank $rank did not save: $(cat "$name-$rank")"
  done
  # What is there is what ranks have that only ever did so many steps.
  at=$(python3 -c 'import json,sys,struct
f = open(sys.argv[1] + "/checkpoint.safetensors", "rb")
print(json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))["__metadata__"]["step"])' "$name")
  [ $((at % keep)) = 0 ] && [ "$at" -gt 0 ] || fail "$name: kept after step $at"
  expect 0 "step $at/" "$train" "${lasting[@]}" --iters "$at" --ranks 3 --checkpoint "$name-straight"
  cmp "$name/checkpoint.safetensors" "$name-straight/checkpoint.safetensors" || fail "$name: what was saved is another"
  # And two go on from there.
  expect 0 "resumed after step $at\$" "$train" "${lasting[@]}" --iters $((at + 3)) --batch 3 --ranks 2 --resume "$name"
}
lose 2 lost-last 1
lose 0 lost-first 4

# What is kept may be older than what was saved, by the ranks together in files of each or by the first one: that stays.
# overtaken NAME OPTION...: a rank is killed after the checkpoint of step 1100, with what was kept of step 1000.
overtaken() {
  local name=$1 rank code processes=() port=$((10000 + RANDOM % 9000))
  shift
  for rank in 0 1 2; do
    RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$train" "${lasting[@]}" --timeout 20 \
      --checkpoint "$name" --keep-every 1000 --eval-interval 1100 "$@" --log "$name.jsonl" >"$name-$rank" 2>&1 &
    processes+=($!)
  done
  for _ in $(seq 3000); do
    [ "$(cat "$name.jsonl" 2>/dev/null | wc -l)" -ge 1101 ] && break
    sleep 0.02
  done
  kill -KILL "${processes[2]}"
  for rank in 0 1; do
    code=0
    wait "${processes[rank]}" || code=$?
    [ $code = 2 ] || fail "rank $rank of $name: exit code $code: $(cat "$name-$rank")"
    grep -q "kept the training as after step 1000; the checkpoint in $name, of step 1100, is no older" "$name-$rank" ||
      fail "$name: what rank $rank did with what it kept: $(cat "$name-$rank")"
  done
  wait "${processes[2]}" || true
  expect 0 "resumed after step 1100\$" "$train" "${lasting[@]}" --iters 1103 --batch 3 --ranks 2 --resume "$name"
}
overtaken newer-shards --checkpoint-shards
overtaken newer-whole

if [ -z "$mpi" ]; then
  [ $failures = 0 ] || exit 1
  echo "all good, without MPI"
  exit 0
fi

# ---- Processes ----
expect 0 '^\[0\] 2 ranks, by MPI' "${launch[@]}" 2 "$train" "${small[@]}" --iters 14 --batch 4 \
  --log mpi-2.jsonl --checkpoint mpi-2
grep -q '^\[1\]' output && fail "rank 1 says something: $(cat output)"
alike 0 f32-1-2.jsonl mpi-2.jsonl
for form in threads processes; do
  started=("${launch[@]}" 4)
  [ $form = processes ] || started=()
  expect 0 'validation loss' "${started[@]}" "$train" "${small[@]}" --iters 6 --batch 2 --shard-parameters \
    --checkpoint "parts-$form" --checkpoint-shards $([ $form = processes ] || echo --ranks 4)
done
diff -r parts-threads parts-processes || fail "MPI's ranks write other files than threads"
mkdir shared
expect 0 'resumed after step 6' "${launch[@]}" 4 "$train" "${small[@]}" --iters 14 --schedule constant --batch 2 \
  --resume part --checkpoint shared/on
cmp straight/checkpoint.safetensors shared/on/checkpoint.safetensors || fail "MPI's ranks are another run than threads"
expect 0 '^\[0\] 4 ranks, by MPI, 2 to a model' "${launch[@]}" 4 "$train" "${heads[@]}" --iters 10 --batch 4 \
  --tensor-parallel 2 --dtype f16 --log mpi-cut.jsonl
expect 0 'validation loss' "$train" "${heads[@]}" --iters 10 --batch 4 --ranks 4 --tensor-parallel 2 --dtype f16 \
  --log threads-cut.jsonl
alike 0 threads-cut.jsonl mpi-cut.jsonl
expect 1 'tensor-parallel 2, but 3 were started' "${launch[@]}" 3 "$train" "${heads[@]}" --batch 4 --tensor-parallel 2
# One of them is asked to end: all do, after the same step.
cat >one.sh <<'S'
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && echo $$ >process
exec "$@"
S
"$run" -n 2 --oversubscribe sh one.sh "$train" "${endless[@]}" --checkpoint asked --log asked.jsonl >stopped.txt 2>&1 &
started=$!
for _ in $(seq 600); do
  [ "$(cat asked.jsonl 2>/dev/null | wc -l)" -ge 10 ] && break
  sleep 0.02
done
kill -TERM "$(cat process)"
wait "$started" || fail "one rank that was asked to end: $(cat stopped.txt)"
stopped_well asked
interrupt_after 10 keys.jsonl "$run" -n 2 --oversubscribe "$train" "${endless[@]}" --checkpoint keys --log keys.jsonl ||
  fail "Ctrl-C of rota-run: $(cat stopped.txt)"
stopped_well keys
# One that stands still is named by the others, within --timeout, and ends the training.
rm process
"$run" -n 2 --oversubscribe sh one.sh "$train" "${endless[@]}" --timeout 2 --log still.jsonl >stopped.txt 2>&1 &
started=$!
for _ in $(seq 600); do
  [ "$(cat still.jsonl 2>/dev/null | wc -l)" -ge 10 ] && break
  sleep 0.02
done
kill -STOP "$(cat process)"
code=0
wait "$started" || code=$?
[ "$code" -eq 2 ] && grep -q "communicator 'training': rank 0 waited 2.0 s at .* for rank 1" stopped.txt ||
  fail "a rank that stands still: exit code $code, $(cat stopped.txt)"
# Another text on one of them, which are as long.
tr a-z b-za <text >other
cat >differ.sh <<'S'
text=text
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && text=other
exec "$@" --data $text
S
expect 1 'the text of rank 1 is another than rank 0' "${launch[@]}" 2 sh differ.sh "$train" "${small[@]:2}" --iters 3
expect 1 'ranks 3, but 2 were started' "${launch[@]}" 2 "$train" "${small[@]}" --ranks 3
# One rank has nothing to do with MPI, however it is started.
for alone in "" "mpirun -n 1"; do
  expect 0 'validation loss' env LD_DEBUG=files $alone "$train" "${small[@]}" --iters 2
  ! grep -q 'librota_mpi' output || fail "one rank opens MPI ($alone)"
done
expect 0 'validation loss' env LD_DEBUG=files mpirun -n 2 --oversubscribe "$train" "${small[@]}" --iters 2
grep -q 'librota_mpi' output || fail "the test does not see that MPI is opened"

if [ "$failures" -ne 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all good"
