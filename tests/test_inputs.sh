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

if [ "$failures" -ne 0 ]; then
  echo "$failures failures"
  exit 1
fi
echo "all good"
