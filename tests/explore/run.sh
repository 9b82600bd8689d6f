#!/usr/bin/env bash
# rota's own functions explored: each of the programs here with the sources that it is about, as they are, and once for
# each of its planted errors, a change of a source's text, which must be found. What is changed stands in NAME.plants:
#
#    change FILE TEXT REPLACEMENT              before `sources`: for the program, too, to make it smaller
#    sources FILE...                           what the program explores
#    plant FILE TEXT REPLACEMENT WHAT [SCENARIO]
#                                              TEXT must be there exactly once; it is looked for in that scenario before
#                                              all
#
# run.sh [--full | --short] [--draw] [NAME...]
# --full: a preemption more each, without the planted errors; --short: one less, and all the planted errors
# --draw: some of the programs, others each day, by ROTA_DRAW where that is set (tests/draw.sh)
# 77 where there is no gcc that can do it.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD root=$(realpath ../..) options=()
names=()
for argument in "$@"; do
  case $argument in
  --full | --short) options=("$argument") ;;
  --draw)
    . ../draw.sh
    groups=("wait turns" cpu lanes loops tickets handover)
    read -ra names <<<"${groups[draw % ${#groups[@]}]}"
    echo "draw $draw (ROTA_DRAW=$draw repeats it): ${names[*]}"
    ;;
  *) names+=("$argument") ;;
  esac
done
[ ${#names[@]} -gt 0 ] || names=(litmus turns wait cpu loops lanes tickets handover)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
compile=(gcc -std=gnu17 -O2 -g -D_GNU_SOURCE -w "-I$here" "-I$root")
# The calls before each plain access are ours (explore_memory.c).
hooked=("${compile[@]}" -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -Dsched_yield=explore_yield \
  -Dmemcpy=explore_memcpy
  -Daligned_alloc=explore_aligned_alloc -Dpthread_mutex_lock=explore_mutex_lock
  -Dpthread_mutex_unlock=explore_mutex_unlock -ffunction-sections -O1)
echo 'int main(void) { return 0; }' >"$work/empty.c"
if ! "${hooked[@]}" -c -o "$work/empty.o" "$work/empty.c" 2>/dev/null; then
  echo "skipped: no gcc whose -fsanitize=thread leaves functions' entries alone"
  exit 77
fi
for part in explore explore_memory; do "${compile[@]}" -c -o "$work/$part.o" $part.c; done

# replace FROM TO TEXT REPLACEMENT
replace() {
  local content rest
  content=$(<"$1")
  rest=${content#*"$3"}
  if [ "$rest" = "$content" ] || [[ $rest == *"$3"* ]]; then
    echo "  ${1#"$root/"} has not exactly once: $3"
    return 1
  fi
  mkdir -p "$(dirname "$2")"
  printf '%s\n' "${content%%"$3"*}$4$rest" >"$2"
}

# As the tree has it, or as it was changed before.
path_of() {
  if [ -e "$work/smaller/$1" ]; then echo "$work/smaller/$1"; else echo "$root/$1"; fi
}

change() {
  replace "$(path_of "$1")" "$work/smaller/$1" "$2" "$3" || failures=$((failures + 1))
}

# build PROGRAM FOLDER: of $name and its sources; those in the folder come before the tree's.
build() {
  local file from objects=()
  for file in "$name.c" "${files[@]}"; do
    from=$(path_of "$file")
    [ "$file" != "$name.c" ] || from=$here/$file
    [ ! -e "$2/$file" ] || from=$2/$file
    # Only what the change is in, or may include.
    if [ ! -e "$2/$file" ] && [[ $2 == */changed && ! $is_header ]]; then
      objects+=("$work/plain.${file//\//_}.o")
      continue
    fi
    objects+=("$2.${file//\//_}.o")
    "${compile[@]:0:1}" "-I$here" "-I$2" "-I$work/smaller" "${hooked[@]:1}" -c -o "$2.${file//\//_}.o" "$from"
  done
  gcc -Wl,--gc-sections -o "$1" "${objects[@]}" "$work/explore.o" "$work/explore_memory.o"
}

# shellcheck disable=SC2120 # the .plants call it
sources() {
  files=("$@") is_header=
  build "$work/$name" "$work/plain"
  echo "$name"
  "$work/$name" "${options[@]}" || { echo "  FAILED"; failures=$((failures + 1)); }
}

plant() {
  local file=$1 what=$4 scenario=${5-}
  [ "${options[*]}" != --full ] || return 0
  is_header=
  [[ $file != *.h ]] || is_header=1
  if ! replace "$(path_of "$file")" "$work/changed/$file" "$2" "$3"; then
    failures=$((failures + 1))
    return
  fi
  build "$work/$name.changed" "$work/changed"
  if { [ "$scenario" ] && "$work/$name.changed" --planted --only "$scenario" >"$work/out" 2>&1; } ||
    "$work/$name.changed" --planted >"$work/out" 2>&1; then
    printf '  found: %s: in "%s": %s\n' "$what" "$(sed -n '$s/^  \(.*[^ ]\) *[0-9] preemptions.*/\1/p' "$work/out")" \
      "$(sed -n '$s/.* s: //p' "$work/out")"
  else
    echo "  NOT FOUND: $what"
    cat "$work/out"
    failures=$((failures + 1))
  fi
  rm -rf "$work/changed"
}

for name in "${names[@]}"; do
  rm -rf "$work/smaller"
  if [ -e "$name.plants" ]; then
    # shellcheck disable=SC1090
    . "./$name.plants"
  else
    # shellcheck disable=SC2119
    sources
  fi
done
[ $failures -eq 0 ] || { echo "$failures explorations went wrong"; exit 1; }
