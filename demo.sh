#!/usr/bin/env bash
# Shows rota at work: the devices and their smoke tests, a matmul graph recorded once and replayed, checked against a
# reference, and a character-level GPT that learns this project's own text, with --ranks by so many processes under
# mpirun. ./demo.sh [--device cpu|vk:0|...] [--ranks N]
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh

usage() { echo "usage: ./demo.sh [--device cpu|vk:N|cuda:N] [--ranks 1|2|3|4|6|12]" >&2; exit 1; }
device=() ranks=1
while [ $# -gt 0 ]; do
  case "$1:${2-}" in
    --device:?*) device=(--device "$2") ;;
    --ranks:[12346] | --ranks:12) ranks=$2 ;;
    *) usage ;;
  esac
  shift 2
done

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
scripts/demo_gpt.sh build "$ranks" "$work" "${device[@]}"
