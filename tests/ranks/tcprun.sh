#!/usr/bin/env bash
# tcprun.sh RANKS PROGRAM...: the program as so many ranks on this machine that meet by what torchrun says to each. Of a
# program whose last argument is "killed" the last rank is.
set -euo pipefail
ranks=$1
shift
export WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + RANDOM % 9000))
work=$(mktemp -d)
processes=()
trap '[ ${#processes[@]} = 0 ] || kill -TERM "${processes[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
for ((rank = 0; rank < ranks; rank++)); do
  RANK=$rank LOCAL_RANK=$rank timeout -k 10 600 "$@" >"$work/$rank" 2>&1 &
  processes+=($!)
done
failed=
for ((rank = 0; rank < ranks; rank++)); do
  code=0
  wait "${processes[rank]}" || code=$?
  [ "${*: -1}" = killed ] && [ $rank = $((ranks - 1)) ] && [ $code = 137 ] && continue
  [ $code = 0 ] || failed="rank $rank ended with $code"
done
cat "$work"/*
grep -q '^skipped' "$work"/0 && exit 0
[ -z "$failed" ] || { echo "$failed" && exit 1; }
