#!/usr/bin/env bash
# The commands of docs/tasks.md run as they stand, one block after the other, and do what the page says: over a text and
# a table that are made here, the trainers with smaller models and fewer steps behind their other options, the last of
# which count.
# test_tasks.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
page=$1/docs/tasks.md build=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAILED: $*"; exit 1; }
export XDG_CACHE_HOME=$work/cache

mkdir bin
ln -s "$build/bench/rota-bench" bin/rota-bench
small() { # PROGRAM OPTION...: called with --data it has these options, too
  local program=$1
  shift
  printf '#!/bin/sh\ncase " $* " in *" --data "*) set -- "$@" %s ;; esac\nexec %s/examples/%s "$@"\n' "$*" "$build" \
    "$program" >"bin/$program"
  chmod +x "bin/$program"
}
small train_gpt --iters 6 --layers 1 --heads 2 --dim 16 --block 16 --batch 4 --eval-iters 1 --sample 20
small train_patchtst --epochs 1 --train-rows 240 --val-rows 80 --test-rows 80 --look-back 32 --horizon 8 --layers 1 \
  --batch 16
export PATH=$work/bin:$PATH
for _ in $(seq 60); do echo "Once upon a time the quick brown fox jumped over the lazy dog."; done >book.txt
python3 -c 'import math
print("date,a,b")
for i in range(400): print(f"{i},{math.sin(i / 9):.5f},{math.cos(i / 7):.5f}")' >ETTh1.csv

rota-bench devices >known
ran=0 skipped=0
while IFS= read -r command; do
  if [[ $command == *vk:0* ]] && ! grep -q '^vk:0' known; then
    skipped=$((skipped + 1))
    continue
  fi
  # shellcheck disable=SC2086 # patterns for files are the shell's to read
  timeout 120 bash -c "$command" >said 2>&1 || { cat said; fail "$command: exit code $?"; }
  [ -s said ] || fail "$command says nothing"
  cat said >>all
  ran=$((ran + 1))
done < <(sed -n '/^```sh$/,/^```$/p' "$page" | grep -v '^```')
[ $ran -ge 12 ] || fail "only $ran commands"

# What the page says of them.
for file in plan.dot trace.json graph.rota checked.rota run.html; do [ -s $file ] || fail "there is no $file"; done
for pattern in '^default: ' '^Once upon a time' 'test MSE' 'runs: ' 'why: ' 'results are as they should be'; do
  grep -qE -- "$pattern" all || fail "nothing says '$pattern'"
done
"$(dirname "$(realpath "${BASH_SOURCE[0]}")")/trace_check.py" trace.json
echo "$ran commands, $skipped skipped for want of a Vulkan device"
