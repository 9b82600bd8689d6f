#!/usr/bin/env bash
# Shows rota at work: the devices and their smoke tests, a matmul graph recorded once and replayed, checked against a
# reference, and a character-level GPT that learns this project's own text. ./demo.sh [--device cpu|vk:0|...]
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh

usage() { echo "usage: ./demo.sh [--device cpu|vk:N|cuda:N]" >&2; exit 1; }
device=()
case $# in
  0) ;;
  2) [ "$1" = --device ] || usage; device=(--device "$2") ;;
  *) usage ;;
esac

rota_install_missing
echo "Building rota (the first time takes a minute or two)"
rota_build release rota-bench train_gpt rota_shared # the last: so that it can be installed, too
bin=build/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '\n== Devices ==\n'
"$bin/rota-bench" devices --out "$work/devices.json"

printf '\n== Smoke tests ==\n'
# A device that fails is refused and named; the rest of the demo uses one that passes.
for id in $(python3 -c 'import json, sys
for device in json.load(open(sys.argv[1]))["devices"]:
    if device["usable"]: print(device["id"])' "$work/devices.json"); do
  "$bin/rota-bench" smoke --device "$id" || true
done

printf '\n== A matmul graph, recorded once and replayed, checked against a reference ==\n'
"$bin/rota-bench" matmul "${device[@]}" --shapes 512x512x512 --dtype f32 --iters 20 --warmup 2 --repeat 3 \
  --check-shape 384x384x384

printf '\n== A GPT that learns the text of this project ==\n'
find . -path './build*' -prune -o -path ./.git -prune -o -type f \
  \( -name '*.md' -o -name '*.c' -o -name '*.h' -o -name '*.comp' -o -name '*.glsl' \) ! -name '*.spv.h' -print0 |
  LC_ALL=C sort -z | xargs -0 cat >"$work/text.txt"
build/examples/train_gpt --data "$work/text.txt" "${device[@]}" --tokenizer char --iters 500 --batch 12 --block 64 \
  --layers 4 --heads 4 --dim 128 --lr 1e-3 --min-lr 1e-4 --warmup 50 --beta2 0.99 --weight-decay 0.1 --grad-clip 1 \
  --eval-interval 250 --eval-iters 10 --checkpoint "$work/checkpoint" --log "$work/log.jsonl" --sample 400
