#!/usr/bin/env bash
# scripts/check_device.sh where there is no GPU: its commands are accepted, and nothing that did not run counts as
# passed.
# test_check_device.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
check=$1/scripts/check_device.sh build=$2
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"

mkdir data none
cat "$1"/docs/*.md "$1"/*/*.h >data/tinyshakespeare.txt
run=("$check" --bin "$build" --data data --out out --scratch scratch --cuda cpu --vk cpu --tiny)
expect 0 'all good' "${run[@]}" gpt2
expect 0 'nodes in .* ms; nothing ran for' cat out/gpt2.txt
expect 1 'MISSING +127 .*rota-bench smoke' "$check" --bin none --data data --out out --scratch scratch smoke
expect 1 '[0-9] NOT PASSED' "${run[@]}" --limit 1 --only bf16 matmul
expect 0 'NOT RUN' cat out/matmul.txt
expect 2 "there is no stage 'more'; there are smoke" "${run[@]}" more
expect 2 'unknown option' "${run[@]}" --more
expect 0 'rota-fuzz --device cuda:0 --second vk:0 --shared --nodes' "$check" --list tests
expect 0 'build/examples/train_gpt' "$check" --bin build --bundle-list

[ "$failures" -eq 0 ] || { echo "$failures failed"; exit 1; }
echo "all good"
