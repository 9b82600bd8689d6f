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

# No test that uses a GPU is forgotten: those named so, and those whose source opens each device, a GPU, or a VkDevice
# of its own. Not: the CPU's, one over the stand-in for CUDA's driver, and one for software devices alone.
elsewhere=' test_exec_cpu_device test_near_device test_vk_dma_buf '
"$check" --list | grep " s at most " >list
"$check" --bundle-list >bundle
opens='op_kit_use_device\(([^"]|"(vk|cuda):0)|op_kit_on_each_device\(|gpu_open\(|application_open\('
mapfile -t used < <({ find "$1/tests" -name 'test_*_device.c'
  find "$1/tests" -name 'test_*.c' -exec grep -lE "$opens" {} +; } | sed 's,.*/,,;s/\.c$//' | sort -u)
[ "${#used[@]}" -ge 30 ] || { echo "only these tests were found to use GPUs: ${used[*]}"; failures=$((failures + 1)); }
for name in "${used[@]}" test_cuda_kernels test_shaders test_ranks_gpus conformance rota-fuzz rota-fuzz-ranks; do
  [[ $elsewhere != *" $name "* ]] || continue
  for in in list bundle; do
    grep -qE "(^|[ /])$name( |\$)" "$in" || { echo "$name is in no stage ($in)"; failures=$((failures + 1)); }
  done
done
for device in cuda vk; do
  for command in "conformance --device $device:0" "rota-fuzz --device $device:0"; do
    grep -q "$command" list || { echo "no stage has: $command"; failures=$((failures + 1)); }
  done
done
# And programs that stages have are those of tests that there are.
for name in $(grep -oE 'tests/test_[a-z0-9_]+' bundle | sed 's,tests/,,' | sort -u); do
  find "$1/tests" -name "$name.c" | grep -q . || { echo "there is no $name"; failures=$((failures + 1)); }
done

[ "$failures" -eq 0 ] || { echo "$failures failed"; exit 1; }
echo "all good"
