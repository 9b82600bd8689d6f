#!/usr/bin/env bash
# rota's own functions explored: each of the programs here with the sources that it is about, as they are, and once for each of
# its planted errors, a change of a source's text, which must be found. What is changed stands in NAME.plants:
#
#    sources FILE...                           what the program explores
#    plant FILE TEXT REPLACEMENT WHAT          TEXT must be there exactly once
#
# run.sh [--full] [NAME...]   77 where there is no gcc that can do it.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD root=$(realpath ../..) full=()
names=()
for argument in "$@"; do
  case $argument in
  --full) full=(--full) ;;
  *) names+=("$argument") ;;
  esac
done
[ ${#names[@]} -gt 0 ] || names=(litmus turns wait)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
compile=(gcc -std=gnu17 -O2 -g -D_GNU_SOURCE -w "-I$here" "-I$root")
# The calls before each plain access are ours (explore.c).
hooked=("${compile[@]}" -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -Dsched_yield=explore_yield -Dmemcpy=explore_memcpy)
echo 'int main(void) { return 0; }' >"$work/empty.c"
if ! "${hooked[@]}" -c -o "$work/empty.o" "$work/empty.c" 2>/dev/null; then
  echo "skipped: no gcc whose -fsanitize=thread leaves functions' entries alone"
  exit 77
fi
"${compile[@]}" -c -o "$work/explore.o" explore.c

# object FILE: compiles what stands at a path of the tree, or its changed copy.
object() { echo "$work/${1//\//_}.o"; }

sources() {
  files=("$@")
  for file in "${files[@]}"; do "${hooked[@]}" -c -o "$(object "$file")" "$root/$file"; done
  objects=()
  for file in "${files[@]}"; do objects+=("$(object "$file")"); done
  gcc -o "$work/$name" "$work/$name.o" "${objects[@]}" "$work/explore.o"
  echo "$name"
  "$work/$name" "${full[@]}" || { echo "  FAILED"; failures=$((failures + 1)); }
}

plant() {
  local file=$1 text=$2 replacement=$3 what=$4 content rest changed=()
  content=$(<"$root/$file")
  rest=${content#*"$text"}
  if [ "$rest" = "$content" ] || [[ $rest == *"$text"* ]]; then
    echo "  $file has not exactly once: $text"
    failures=$((failures + 1))
    return
  fi
  mkdir -p "$work/changed/$(dirname "$file")"
  printf '%s\n' "${content%%"$text"*}$replacement$rest" >"$work/changed/$file"
  # A header's change comes before the tree's.
  local to_compile=("$file")
  [[ $file != *.h ]] || to_compile=("${files[@]}")
  for part in "${files[@]}"; do
    if [[ " ${to_compile[*]} " == *" $part "* ]]; then
      local from=$root/$part
      [ "$part" != "$file" ] || from=$work/changed/$part
      "${hooked[@]}" "-I$here" "-I$work/changed" "-I$root" -c -o "$work/changed.${part//\//_}.o" "$from"
      changed+=("$work/changed.${part//\//_}.o")
    else
      changed+=("$(object "$part")")
    fi
  done
  gcc -o "$work/$name.changed" "$work/$name.o" "${changed[@]}" "$work/explore.o"
  if "$work/$name.changed" --planted >"$work/out" 2>&1; then
    printf '  found: %s (%s)\n' "$what" "$(sed -n '$s/.* s: //p' "$work/out")"
  else
    echo "  NOT FOUND: $what"
    cat "$work/out"
    failures=$((failures + 1))
  fi
  rm -rf "$work/changed"
}

for name in "${names[@]}"; do
  "${hooked[@]}" -c -o "$work/$name.o" "$name.c"
  if [ -e "$name.plants" ]; then
    . "./$name.plants"
  else
    sources
  fi
done
[ $failures -eq 0 ] || { echo "$failures explorations went wrong"; exit 1; }
