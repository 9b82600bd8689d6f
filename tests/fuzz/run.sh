#!/usr/bin/env bash
# Runs one harness of bytes: no crash, no report of a sanitizer, no input that takes 10 s or memory beyond what its size
# allows. An input that does stays in FUZZ_BUILD/found-NAME; what is new is kept in FUZZ_BUILD/corpus-NAME, from which
# the next run goes on.
# run.sh FUZZ_BUILD NAME SECONDS
set -euo pipefail
build=$1 name=$2 seconds=$3
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$build/corpus-$name" "$build/found-$name"
code=0
# The readers say on stderr what is wrong with each input; reports still come through.
"$build/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=32 -max_len=4096 \
  -close_fd_mask=3 \
  -print_final_stats=1 -artifact_prefix="$build/found-$name/" "$build/corpus-$name" "$here/corpus/$name" \
  >"$build/$name.log" 2>&1 || code=$?
grep -aE '^stat::number_of_executed_units|^stat::peak_rss_mb' "$build/$name.log" || true
if [ "$code" -ne 0 ]; then
  tail -n 60 "$build/$name.log"
  echo "FAILED: $name ended with $code; what it was given is in $build/found-$name"
  exit 1
fi
