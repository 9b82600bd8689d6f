#!/usr/bin/env bash
# The demo's training: a character-level GPT that learns this project's own text, as one process, or as so many ranks
# under mpirun, which share a step's windows.
# demo_gpt.sh BUILD_DIR RANKS FOLDER [more of train_gpt's options, which count in the stead of these]
set -euo pipefail
tree=$(dirname "$(dirname "$(readlink -f "$0")")")
build=$(realpath "$1") ranks=$2 folder=$(realpath "$3")
shift 3
windows=12
if [ $((windows % ranks)) -ne 0 ]; then
  echo "demo_gpt.sh: $ranks ranks don't divide $windows windows" >&2
  exit 1
fi
launch=()
if [ "$ranks" -gt 1 ]; then
  if ! command -v mpirun >/dev/null || ! [ -e "$build/librota_mpi.so.1" ]; then
    echo "demo_gpt.sh: several ranks need mpirun, and a build that found MPI (Debian: libopenmpi-dev openmpi-bin)" >&2
    exit 1
  fi
  launch=(mpirun -n "$ranks")
  # Others than Open MPI let root start them, and any number on few processors.
  case $(mpirun --version) in
    *"Open MPI"* | *OpenRTE*) launch+=(--allow-run-as-root --oversubscribe) ;;
  esac
  export LD_LIBRARY_PATH=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
(cd "$tree" && find . -path './build*' -prune -o -path ./.git -prune -o -type f \
  \( -name '*.md' -o -name '*.c' -o -name '*.h' -o -name '*.comp' -o -name '*.glsl' \) ! -name '*.spv.h' -print0 |
  LC_ALL=C sort -z | xargs -0 cat) >"$folder/text.txt"
"${launch[@]}" "$build/examples/train_gpt" --data "$folder/text.txt" --tokenizer char --iters 500 \
  --batch $((windows / ranks)) --block 64 --layers 4 --heads 4 --dim 128 --lr 1e-3 --min-lr 1e-4 --warmup 50 \
  --beta2 0.99 --weight-decay 0.1 --grad-clip 1 --eval-interval 250 --eval-iters 10 --checkpoint "$folder/checkpoint" \
  --log "$folder/log.jsonl" --sample 400 "$@"
