#!/usr/bin/env bash
# What the programs read and write: nobody's links are followed, what is damaged or foreign is said in one line.
# test_inputs.sh BUILD_DIR
set -euo pipefail
train=$1/examples/train_gpt
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"
export XDG_CACHE_HOME=$work/cache
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

for _ in $(seq 40); do
  echo "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs"
done >text
model=(--device cpu --layers 1 --heads 2 --dim 16 --block 16 --batch 4 --warmup 2 --eval-iters 2 --iters 2)

# ---- Links at names that can be guessed ----
echo precious >victim
ln -s victim tokens.bin.tmp
expect 0 'tokens of .* are in tokens.bin' "$train" --data text --block 16 --write-tokens tokens.bin
[ -f tokens.bin ] && [ ! -L tokens.bin ] || fail "tokens.bin is no file of its own"
mkdir kept
ln -s ../victim kept/checkpoint.safetensors.tmp
# The name of the report's temporary file had the process number, which exec keeps.
expect 0 'the report is in run.html' bash -c 'ln -s victim run.html.$$.tmp; exec "$@"' - \
  "$train" --data text "${model[@]}" --checkpoint kept --report run.html
[ "$(cat victim)" = precious ] || fail "a link was followed: $(head -c 100 victim)"
absent .rota-*.tmp kept/.rota-*.tmp

# ---- Weights that are none ----
weights() { expect 1 "$1" "$train" --data text "${model[@]}" --init-from "$2"; }
weights "'text' is not a safetensors file" text
echo hello >short
weights "'short' is truncated, or not a safetensors file: it has 6 bytes" short
python3 - <<'PY'
import json, struct
def put(name, length, header, data=b""):
    open(name, "wb").write(struct.pack("<Q", length) + header + data)
put("endless", 2**64 - 1, b"{}")
put("beyond", 100, b"{}")
put("wide", 9 << 20, b"{" + b" " * ((9 << 20) - 2) + b"}")
put("words", 2, b"{]")
# The model's first name, described by numbers that no tensor can have: it must not be taken for one of some shape.
name = "transformer.wte.weight"
for i, (shape, offsets) in enumerate((([0, 1e30], [0, 0]), ([1e30], [0, 64]), ([16], [-64, 0]),
                                          ([16], [0.5, 64.5]), ([2.5], [0, 10]),
                                      ([2**53, 2**11], [0, 0]), ([16], [1e300, 64]))):
    header = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
    put(f"absurd{i}", len(header), header, bytes(64))
PY
weights "'endless' has a header of 18446744073709551615 bytes, more than the 8388608" endless
weights "'beyond' is truncated: its header has 100 bytes, of which 2 are there" beyond
weights "'wide' has a header of 9437184 bytes, more than the 8388608" wide
weights "'words' is not a safetensors file: its header is not JSON" words
for file in absurd*; do weights "'$file' has the weights of another model: 'transformer.wpe.weight' is missing" \
  "$file"; done
# Names that collide under a hash that anybody can compute: 24 s for these, if they do.
python3 - <<'PY'
import random, struct
ones = (1 << 64) - 1
bad, seen, out, r = {0, 0x22, 0x5C}, set(), [], random.Random(1)
while len(out) < 80000:
    word = r.getrandbits(64)
    a = struct.pack("<Q", word)
    if bad & set(a): continue
    h = ((16 * 0x9E3779B97F4A7C15 & ones) ^ word) * 0xBF58476D1CE4E5B9 & ones
    h ^= h >> 32
    b = struct.pack("<Q", h ^ 0x4142434445464748)
    if bad & set(b) or word in seen: continue
    seen.add(word)
    out.append(b'"' + a + b + b'":0')
header = b"{" + b",".join(out) + b"}"
open("collide", "wb").write(struct.pack("<Q", len(header)) + header)
PY
# In time of the processor: the machine may be busy.
expect 1 "'collide' has the weights of another model" bash -c 'ulimit -t 8; exec "$@"' - "$train" --data text \
  "${model[@]}" --init-from collide

# ---- Byte pairs ----
# Merges that make "<|endoftext|>" themselves, and one after them that vocab.json lacks.
python3 - <<'PY'
import json
end = "<|endoftext|>"
lines = ["#version: 0.2"] + [end[:i] + " " + end[i] for i in range(1, len(end))] + ["t h"]
open("merges.txt", "w").write("\n".join(lines) + "\n")
prints = [b for b in range(256) if 0x20 < b < 0x7F or (b > 0xA0 and b != 0xAD)]
names = [chr(b) for b in prints] + [chr(0x100 + i) for i in range(256 - len(prints))]
names += [end[:i] for i in range(2, len(end) + 1)]
json.dump({t: i for i, t in enumerate(names)}, open("lacks.json", "w"), ensure_ascii=False)
json.dump({t: i for i, t in enumerate(names + ["th"])}, open("whole.json", "w"), ensure_ascii=False)
json.dump({t: i + (0.5 if t == "th" else 0) for i, t in enumerate(names + ["th"])}, open("half.json", "w"),
          ensure_ascii=False)
PY
pairs=(--data text --block 16 --tokenizer bpe --merges merges.txt)
expect 1 "'lacks.json' has no number for 'th', which the merges make" "$train" "${pairs[@]}" --merges-vocab lacks.json \
  --write-tokens lacks.bin
one_line
expect 1 "'half.json' gives token 'th' no number" "$train" "${pairs[@]}" --merges-vocab half.json \
  --write-tokens half.bin
python3 -c 'print("{" + " " * (9 << 20) + "}")' >wide.json
expect 1 "'wide.json' has 9437187 bytes, more than the 8388608" "$train" "${pairs[@]}" --merges-vocab wide.json \
  --write-tokens wide.bin
expect 0 'of 269 kinds' "$train" "${pairs[@]}" --merges-vocab whole.json --write-tokens whole.bin

# Kept merges are believed only with the first line that says how many they are, and only if they are the user's own.
learn=("$train" --data text --block 16 --tokenizer bpe --vocab 270 --write-tokens)
expect 0 'of 270 kinds' "${learn[@]}" learned.bin
file=$(echo cache/rota/bpe-*-270.txt)
[ "$(stat -c %a "$file")" = 600 ] || fail "the kept merges have mode $(stat -c %a "$file")"
cp "$file" good
again() { # what is said, and then the merges are learned again
  expect 0 "$1" "${learn[@]}" again.bin
  cmp learned.bin again.bin || fail "other tokens"
  cmp good "$file" || fail "the merges were not kept again"
}
: >"$file"
again "is not used: its first line doesn't say how many"
tail -n +2 good >"$file"
again "is not used: its first line doesn't say how many"
sed 1s/13/x/ good >"$file"
again "is not used: its first line doesn't say how many"
head -n 5 good >"$file"
again 'is truncated: it has 4 merges of 13'
chmod g+w "$file"
again 'is not used: others may write it'
mv "$file" moved && ln -s "$work/moved" "$file"
again 'is not used: it is a symbolic link'
[ ! -L "$file" ] || fail "the link stayed"
# More tokens than were asked for: another number's file.
expect 0 'of 280 kinds' "$train" --data text --block 16 --tokenizer bpe --vocab 280 --write-tokens more.bin
cp cache/rota/bpe-*-280.txt "$file"
again 'makes 280 tokens, more than the 270'
# A relative cache folder counts as none.
mkdir home
expect 0 'of 270 kinds' env XDG_CACHE_HOME=relative HOME="$work/home" "${learn[@]}" again.bin
absent relative
[ -f home/.cache/rota/bpe-*-270.txt ] || fail "the home's cache folder was not used"

# ---- A table of many columns and many rows, but not both at once: no memory for their product is asked for ----
python3 -c 'print("," * 100000 + "\n" * 100000 + "1", end="")' >wide.csv
limit='ulimit -v 8000000; exec "$@"'
# sanitizers take terabytes of addresses
if grep -q '^ROTA_SANITIZE:STRING=.' "$1/CMakeCache.txt"; then limit='exec "$@"'; fi
expect 1 "'wide.csv' line 2 has 1 columns, and the first line has 100001" bash -c "$limit" - \
  "$1/examples/train_patchtst" --data wide.csv --device cpu

# ---- Known before a device is opened ----
closed=("$train" --data whole.bin --tokenizer bin --device vk:99 "${model[@]:2}")
expect 1 "'whole.bin': token [0-9]+ is [0-9]+, but the vocabulary has 5" "${closed[@]}" --vocab 5
one_line
expect 1 "vocab 5 is too few: 'merges.txt' makes 269 tokens" "${closed[@]}" --vocab 5 --merges merges.txt
expect 1 "vocab 5 is too few: 'merges.txt' makes 269 tokens" "$train" --generate \
  --init-from kept/checkpoint.safetensors --tokenizer bin --merges merges.txt --vocab 5 \
  --device vk:99
one_line
expect 3 'vk:99' "${closed[@]}"

if [ "$failures" -ne 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all good"
