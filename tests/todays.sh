#!/usr/bin/env bash
# Runs some of a program's cases, others each day (draw.sh): over PARTS days all of them, the Nth argument behind -- on
# the days that are N modulo PARTS. An argument may be several cases, apart by spaces.
# todays.sh PARTS PROGRAM [ARGUMENT...] -- CASES...
# todays.sh PARTS PROGRAM [ARGUMENT...] -- --part     for a program that takes its part as K/N
set -euo pipefail
. "$(dirname "$0")/draw.sh"
parts=$1
shift
command=()
while [ "$1" != -- ]; do
  command+=("$1")
  shift
done
shift
if [ "$1" = --part ]; then exec "${command[@]}" --part $((draw % parts + 1))/"$parts"; fi
cases=() number=0
for names; do
  if [ $((number % parts)) -eq $((draw % parts)) ]; then read -ra more <<<"$names" && cases+=("${more[@]}"); fi
  number=$((number + 1))
done
echo "draw $draw (ROTA_DRAW=$draw repeats it): ${cases[*]}"
exec "${command[@]}" "${cases[@]}"
