#!/usr/bin/env bash
# The demo's training as four ranks under mpirun, and as one process: the same losses, and a text at the end, once.
# test_demo_ranks.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$(realpath "$1") build=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # MPI's own
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK SLURM_STEP_NUM_TASKS TORCHELASTIC_RUN_ID
if ! command -v mpirun >/dev/null || ! [ -e "$build/librota_mpi.so.1" ]; then
  echo "skipped: no MPI"
  exit 77
fi
cd "$work"
# All of the text that is kept for it is evaluated in the end: a short one.
head -c 60000 "$source/docs/guide.md" >less.txt
short=(--data less.txt --device cpu --iters 20 --warmup 2 --eval-interval 20 --eval-iters 1 --sample 20)
for ranks in 1 4; do
  mkdir "by-$ranks"
  timeout 600 "$source/scripts/demo_gpt.sh" "$build" "$ranks" "by-$ranks" "${short[@]}" >"by-$ranks.txt" 2>&1 || {
    echo "FAILED: the demo by $ranks ranks ended with $?:"
    cat "by-$ranks.txt"
    exit 1
  }
done
python3 - <<'PY'
import json
said = open("by-4.txt").read()
assert said.count("4 ranks, by MPI") == 1 and said.count("  validation loss") == 1, f"FAILED: {said}"
one, four = ([json.loads(line) for line in open(f"by-{ranks}/log.jsonl")] for ranks in (1, 4))
assert len(one) == len(four) == 20, f"FAILED: {len(one)} and {len(four)} steps"
apart = max(abs(a["loss"] - b["loss"]) for a, b in zip(one, four))
assert apart < 1e-3 and four[-1]["loss"] < four[0]["loss"] - 0.3, f"FAILED: {apart} apart, {four[0]}, {four[-1]}"
PY
[ -s by-4/checkpoint/checkpoint.safetensors ] || {
  echo "FAILED: no checkpoint: $(ls -R by-4)"
  exit 1
}
if "$source/scripts/demo_gpt.sh" "$build" 5 by-4 >refused.txt 2>&1 || ! grep -q "5 ranks don't divide" refused.txt; then
  echo "FAILED: five ranks: $(cat refused.txt)"
  exit 1
fi
