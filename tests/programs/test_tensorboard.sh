#!/usr/bin/env bash
# What train_gpt writes for TensorBoard is what its metrics file says: read here, and with --reader by TensorBoard's own
# reader, in a virtual environment. test_tensorboard.sh SOURCE_DIR BUILD_DIR [--reader]
# Exits with 77, which is skipped, only where the Python registry does not answer.
set -euo pipefail
here=$1/tests/programs build=$(realpath "$2") train=$2/examples/train_gpt forecast=$2/examples/train_patchtst \
  reader=${3:-}
train=$(realpath "$train") forecast=$(realpath "$forecast") python=python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$reader" ]; then
  venv=$build/tensorboard-venv python=$build/tensorboard-venv/bin/python
  . "$1/scripts/pip_install.sh"
  rota_pip_install "$venv" tensorboard==2.21.0
fi
cd "$work"
failures=0
. "$here/cli_support.sh"
for _ in $(seq 200); do
  echo "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs"
done >text
small=(--data text --device cpu --layers 1 --heads 2 --dim 16 --block 16 --batch 4 --warmup 2 --eval-iters 2 \
  --eval-interval 8)
names=(loss=loss/train val_loss=loss/validation lr=optimizer/learning_rate grad_norm=optimizer/gradient_norm \
  ms=speed/ms_a_step
  tok_s=speed/tokens_per_second)
check() { "$python" "$here/events_check.py" "$@" ${reader:+"$reader"} || failures=$((failures + 1)); }
expect 0 'validation loss' "$train" "${small[@]}" --iters 20 --checkpoint kept --log run.jsonl --tensorboard run
check run run.jsonl "${names[@]}"
sleep 1 # TensorBoard reads files in the order of the seconds in their names
expect 0 'resumed after step 20' "$train" "${small[@]}" --iters 30 --resume kept --log run.jsonl --tensorboard run
[ "$(find run -type f | wc -l)" -eq 2 ] || { echo "FAILED: an earlier file was written to";
failures=$((failures + 1)); }
check run run.jsonl "${names[@]}"
python3 -c 'import math
print("date,a,b")
for i in range(400): print(f"{i},{math.sin(i / 9):.5f},{math.cos(i / 7):.5f}")' >table.csv
expect 0 'test MSE' "$forecast" --data table.csv --device cpu --epochs 2 --train-rows 240 --val-rows 80 --test-rows 80 \
  --look-back 32 \
  --horizon 8 --layers 1 --batch 16 --log forecast.jsonl --tensorboard forecast
check forecast forecast.jsonl loss=loss/train val_loss=loss/validation_mse val_mae=loss/validation_mae \
  lr=optimizer/learning_rate
expect 1 "'text' can't be written to: Not a directory" "$train" "${small[@]}" --iters 2 --tensorboard text
# A limit on file sizes stands for the full disk: what is there is whole.
expect 1 "tfevents.*can't be written" bash -c 'trap "" XFSZ; ulimit -f 2; exec "$@"' - "$train" "${small[@]}" \
  --iters 60 --tensorboard full
# its first steps are those of the run that met the full disk
"$train" "${small[@]}" --iters 8 --log short.jsonl >/dev/null
"$python" "$here/events_check.py" full short.jsonl ${reader:+"$reader"} ||
  { echo "FAILED: half a record was left"; failures=$((failures + 1)); }
[ "$failures" -eq 0 ] || { echo "$failures failures"; exit 1; }
echo "all good"
