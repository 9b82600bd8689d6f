#!/usr/bin/env bash
# How far train_gpt is in each action that takes long: on a terminal a bar with rate and time left, else plain lines.
# test_train_bars.sh BUILD_DIR
# What is over within a second says nothing, so each action has work for some seconds of a fast machine.
set -euo pipefail
train=$1/examples/train_gpt
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"
export XDG_CACHE_HOME=$work/cache

for _ in $(seq 200); do
  echo "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs"
done >small
python3 - <<'PY'
import random
rng = random.Random(3)
words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 9))) for _ in range(3000)]
line = " ".join(rng.choices(words, k=100000))
with open("large", "w") as file:
    for i in range(75):
        file.write(line[i:] + "\n")
PY
model=(--device cpu --layers 1 --heads 2 --dim 16 --block 16 --batch 4 --warmup 2)
left='[0-9]+:[0-9]{2} left'
bar="\[[#.]{24}\] +[0-9]+%"

# shown WHAT PATTERN: the bars of the last command have it, and a terminal's bars are drawn over one another.
shown() {
  tr '\r' '\n' <output >bars
  if ! grep -qE -- "$2" bars; then
    echo "FAILED: no bar of $1, '$2'; there are:"
    grep -aE '\[[#.]+\]|so far|left' bars | cut -c 1-120 | awk 'NR % 10 == 1' | tail -n 20 || true
    failures=$((failures + 1))
  fi
}

# plain: nothing of the last command's is a terminal's.
plain() {
  if grep -qE $'[\033\r]' output || grep -qE '\[[#.]{24,}\]' output; then
    echo "FAILED: a bar in a file"
    failures=$((failures + 1))
  fi
}

# Byte pairs, tokens, steps.
pairs=(--data large "${model[@]}" --tokenizer bpe --vocab 800 --eval-iters 0 --iters 600)
expect 0 'of 800 kinds' "$here/on_terminal.py" "$train" "${pairs[@]}"
shown 'learning byte pairs' "$bar  learning byte pairs  [0-9.]+k? tokens/s  ($left|[0-9]+:[0-9]{2} so far)"
shown tokenising "$bar  tokenising  [0-9.]+[kM] bytes/s  $left"
shown training "\[[#.]{30}\] +[0-9]+%  step [0-9]+/600  loss [0-9.]+  [0-9.]+k tok/s  $left"
expect 0 'step 600/600  loss [0-9.]+  [0-9.]+k tok/s' "$train" "${pairs[@]}"
plain
[ "$(grep -cE "^step [0-9]+/600  loss [0-9.]+  [0-9.]+k tok/s  $left\$" output)" -ge 20 ] ||
  { echo "FAILED: fewer than 20 plain lines of 600 steps"; failures=$((failures + 1)); }

# The validation loss of all that is left of the text.
whole=(--data large "${model[@]}" --iters 2 --eval-iters 20)
expect 0 'validation loss' "$here/on_terminal.py" "$train" "${whole[@]}"
shown evaluating "$bar  evaluating  [0-9.]+[kM] tokens/s  $left"
expect 0 'validation loss' "$train" "${whole[@]}"
plain

# A graph of 240 000 nodes. How long that takes a compile can't say before; it says that it goes on.
nodes=(--data small --device cpu --layers 1000 --heads 1 --dim 8 --block 8 --batch 1 --accumulate 8 --warmup 1
  --iters 2 --eval-iters 0)
expect 0 'compiled in' "$here/on_terminal.py" "$train" "${nodes[@]}"
shown compiling 'compiling  [0-9]+:[0-9]{2} so far'
expect 0 'compiled in' "$train" "${nodes[@]}"
plain

exit "$((failures > 0))"
