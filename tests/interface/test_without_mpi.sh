#!/usr/bin/env bash
# A build without MPI (-DROTA_MPI=OFF): nothing of it is there or is asked for, one process and ranks that are threads
# or meet by an address train all the same, and ranks of mpirun's are told what is missing.
# test_without_mpi.sh SOURCE_DIR BUILD_DIR: the second folder is for this build; what it has from before is kept
set -euo pipefail
source=$(realpath "$1")
mkdir -p "$2"
build=$(realpath "$2")
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/../programs/cli_support.sh"
export XDG_CACHE_HOME=$work/cache OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK SLURM_STEP_NUM_TASKS TORCHELASTIC_RUN_ID LD_LIBRARY_PATH

# Not optimised: it is soon there, and what it computes is little.
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DROTA_MPI=OFF -DROTA_CUDA=OFF -DROTA_TESTS=OFF \
  "${@:3}" >log 2>&1 && ninja -C "$build" train_gpt rota_shared >>log 2>&1 || {
  echo "FAILED: it does not build:"
  tail -n 30 log
  exit 1
}
[ "$(find "$build" -name 'librota.so*' | wc -l)" -gt 0 ] || {
  echo "FAILED: no library was built"
  exit 1
}
if ninja -C "$build" -t targets all | grep librota_mpi; then
  echo "FAILED: a build without MPI makes rota's library for MPI"
  failures=$((failures + 1))
fi
for file in "$build/examples/train_gpt" "$build"/librota.so; do
  if ldd "$file" | grep -i mpi; then
    echo "FAILED: $file is linked with MPI"
    failures=$((failures + 1))
  fi
done

train=$build/examples/train_gpt
for _ in $(seq 40); do echo "the quick brown fox jumps over the lazy dog"; done >text
small=(--data text --device cpu --layers 1 --heads 2 --dim 16 --block 16 --iters 4 --eval-iters 0)
expect 0 'step 4/4' "$train" "${small[@]}" --batch 4 --log one.jsonl
expect 0 '^2 ranks, threads of this process' "$train" "${small[@]}" --batch 2 --ranks 2 --log threads.jsonl
port=$((10000 + RANDOM % 9000))
RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 120 "$train" "${small[@]}" --batch 2 >other 2>&1 &
expect 0 'step 4/4' env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$train" "${small[@]}" --batch 2 \
  --log met.jsonl
wait $! || {
  echo "FAILED: the rank that met the other one: $(cat other)"
  failures=$((failures + 1))
}
python3 - <<'PY' || failures=$((failures + 1))
import json
losses = [[json.loads(line)["loss"] for line in open(f"{name}.jsonl")] for name in ("one", "threads", "met")]
assert all(len(some) == 4 for some in losses) and losses[1] == losses[2], f"FAILED: {losses}"
assert max(abs(a - b) for a, b in zip(*losses[:2])) < 1e-3, f"FAILED: {losses}"
PY
if command -v mpirun >/dev/null; then
  expect 0 'step 4/4' mpirun -n 1 "$train" "${small[@]}"
  code=0
  OMPI_MCA_rmaps_base_oversubscribe=1 timeout 120 mpirun -n 2 "$train" "${small[@]}" >output 2>&1 || code=$?
  if [ $code -eq 0 ] || [ $code -ge 124 ] || ! grep -q 'librota_mpi.so.1' output; then
    echo "FAILED: ranks of mpirun's in a build without MPI: exit code $code: $(cat output)"
    failures=$((failures + 1))
  fi
fi
[ "$failures" -eq 0 ]
