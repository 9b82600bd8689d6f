#!/usr/bin/env bash
# What comes from the programs' tables of options: --help, errors that name what was meant, sizes with units, manual
# pages, and the completions of bash, zsh and fish. What is not installed here is named as skipped.
# test_options.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1 build=$2
bench=$build/bench/rota-bench
examples=$build/examples
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0
. "$here/cli_support.sh"
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
has() { command -v "$1" >/dev/null || { echo "skipped: no $1"; false; }; }

programs=("$build"/bench/{rota-bench,rota-run}
  "$examples"/{train_gpt,train_patchtst,cg,bfs,axpy,quickstart,custom_kernel,custom_op,concurrent,early_exit})
mapfile -t commands < <("$bench" --help | sed -n '/^Commands/,/^$/s/^  \([a-z]\+\) .*/\1/p')
[ "${#commands[@]}" -ge 10 ] || fail "only ${#commands[@]} commands: ${commands[*]}"

# The options that the sources have, rows that macros stand for included.
options_of() {
  grep -ohE '"--[a-z0-9-]+", OPTION_|OPTION_ROW_(DEVICE|OUT|DOT|TRACE|SAVE|CAPTURE)\(' "$@" |
    sed -E 's/"(--[a-z0-9-]+)".*/\1/; s/OPTION_ROW_(.*)\(/--\L\1/' | sort -u
}
source_of() { # NAME of a command or program
  case $1 in
    train_gpt) echo "$source_dir/examples/gpt/train_gpt.c" ;;
    train_patchtst) echo "$source_dir/examples/patchtst/train_patchtst.c" ;;
    cg) echo "$source_dir/examples/cg/cg.c" ;;
    bfs) echo "$source_dir/examples/bfs/bfs.c" ;;
    rota-run) echo "$source_dir/bench/rota_run.c" ;;
    smoke) sed -n '/^int bench_smoke/,$p' "$source_dir/bench/devices.c" >smoke.c && echo smoke.c ;;
    devices) sed '/^int bench_smoke/,$d' "$source_dir/bench/devices.c" >devices.c && echo devices.c ;;
    *) echo "$source_dir/bench/$1.c" ;;
  esac
}

narrow() { # COMMAND...: its help fits a terminal of 100 columns
  local columns
  columns=$("$@" --help | LC_ALL=C.UTF-8 wc -L)
  [ "$columns" -gt 10 ] && [ "$columns" -le 100 ] || fail "$*: --help is $columns columns wide"
}

check_help() { # NAME COMMAND...
  local name=$1 option
  shift
  expect 0 '^Examples:' "$@" --help
  cp output help.txt
  grep -q '^usage: ' help.txt || fail "$*: --help says no usage"
  while read -r option; do
    grep -qE -- "^  $option( |$)" help.txt || fail "$*: --help has no $option"
    for format in man bash zsh fish; do
      "$@" --print $format >"page.$format"
      case $format in
        man) grep -qF -- "fB${option//-/\\-}\\fP" page.man ;;
        fish) grep -qE -- " -l ${option#--} " page.fish ;;
        *) grep -qE -- "['[:space:]]${option}[[ ]" "page.$format" ;;
      esac || fail "$*: --print $format has no $option"
    done
  done < <(options_of "$(source_of "$name")")
  # --help goes before whatever else is wrong.
  expect 0 '^usage: ' "$@" --frobnicate --help
  expect 1 "unknown option '--frobnicate'; .* --help says more" "$@" --frobnicate
  one_line
  expect 0 ' [0-9]+\.[0-9]+\.[0-9]+$' "$@" --version
}
for command in "${commands[@]}"; do
  [ "$command" = devices ] || check_help "$command" "$bench" "$command"
  expect 0 '^usage: ' "$bench" "$command" --help
done
check_help train_gpt "$examples/train_gpt"
check_help train_patchtst "$examples/train_patchtst"
check_help cg "$examples/cg"
check_help bfs "$examples/bfs"
check_help rota-run "$build/bench/rota-run"
for program in axpy quickstart custom_kernel custom_op concurrent early_exit; do
  expect 0 "^$program: " "$examples/$program" --help
  expect 0 "^usage: $program" "$examples/$program" --help
  expect 1 "unknown option '--frobnicate'" "$examples/$program" --frobnicate
  expect 1 "what is '[0-9a-z]+'\? It takes no such argument; $program --help" "$examples/$program" cpu 1 1 1
done
for program in "${programs[@]}"; do narrow "$program"; done
for command in "${commands[@]}"; do narrow "$bench" "$command"; done

# Errors name the option and what was meant, in one line that a person reads.
expect 1 "unknown option '--node'; did you mean --nodes\?" "$bench" plan --node 5
[ "$(wc -c <output)" -lt 200 ] || fail "the error has $(wc -c <output) letters"
expect 1 'did you mean --layers\?' "$examples/train_gpt" --layer 3
expect 1 'did you mean --dropout\?' "$examples/train_gpt" --dorpout=0.1
expect 1 'did you mean train\?' "$bench" plan --graph trian
expect 1 'did you mean plan\?' "$bench" paln
one_line
expect 1 'unknown command .xyzzy.; rota-bench' "$bench" xyzzy
"$examples/train_gpt" --xyzzy 2>&1 | grep -q 'did you mean' && fail 'something is thought to be like --xyzzy'
expect 1 '^rota-bench plan: --certify takes no value' "$bench" plan --certify=yes
expect 1 '^train_patchtst: --data FILE.csv is needed' "$examples/train_patchtst" --epochs 3
[ "$(wc -c <output)" -lt 200 ] || fail "the error has $(wc -c <output) letters"

# Sizes, the last of what is given twice, and values behind a '='.
nodes() { # EXPECTED ARGUMENT...
  local expected=$1 got
  shift
  expect 0 '' "$bench" plan "$@" --graph chain --out plan.json
  got=$(sed -n 's/.*"nodes":[^0-9]*\([0-9]*\).*/\1/p' plan.json | head -n 1)
  [ "$got" = "$expected" ] || fail "plan $*: $got nodes, not $expected"
}
nodes 2000 --nodes 2K
nodes 2048 --nodes 2Ki
nodes 300 --nodes=300
nodes 400 --nodes 7 --nodes 400
nodes 500 --nodes=7 --nodes 6K --nodes=500
for bad in 2k 2KB K 1.5K 17M 20000000T 99999999999999999999 '2 K' -1; do
  expect 1 "takes a whole number from 1 to 16000000.*not '$bad'" "$bench" plan --nodes "$bad"
done
expect 0 '' "$bench" plan --nodes 100 --memory-limit 1Gi
expect 0 '2 threads, 4000 submissions' "$examples/concurrent" cpu 2 1K

# Manual pages.
for program in "${programs[@]}"; do
  name=$(basename "$program")
  "$program" --print man >"$name.1"
  if has mandoc; then
    mandoc -Tlint "$name.1" >lint || true
    [ ! -s lint ] || { cat lint; fail "mandoc has something to say of $name.1"; }
  fi
  if man --version 2>/dev/null | grep -q man; then
    LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l "$name.1" >page.txt 2>warnings ||
      fail "man can't read $name.1"
    [ ! -s warnings ] || { cat warnings; fail "man warns of $name.1"; }
    grep -A1 '^NAME' page.txt | grep -q "$name" || fail "$name.1 has no name line"
  else
    echo "skipped: no man"
  fi
done

# Completions: whole scripts parse, and give what fits.
completed() { # EXPECTED WORD...: by bash, of the last word
  local expected=$1 got
  shift
  got=$(bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_${1//-/_}"; echo "${COMPREPLY[*]}"' \
    - \
    "$(basename "$1").bash" "$@")
  [ "$got" = "$expected" ] || fail "bash completes $*: '$got', not '$expected'"
}
for program in "${programs[@]}"; do
  name=$(basename "$program")
  for format in bash zsh fish; do "$program" --print $format >"$name.$format"; done
  bash -n "$name.bash" || fail "bash can't read $name.bash"
  if has zsh; then zsh -n "$name.zsh" || fail "zsh can't read $name.zsh"; fi
  if has fish; then fish --no-execute "$name.fish" || fail "fish can't read $name.fish"; fi
done
: >a-file
completed 'plan' rota-bench pl
completed '--nodes' rota-bench plan --no
completed 'chain' rota-bench plan --graph ch
completed 'train' rota-bench plan --graph tr
completed 'a-file' rota-bench plan --out a-f
completed 'a-file' train_gpt --data a-f
completed '--layers' train_gpt --la
completed 'cosine constant' train_gpt --schedule co
completed 'man' train_gpt --print m
completed 'cpu cuda:0' quickstart c
if has fish; then
  got=$(fish -c 'source rota-bench.fish; complete -C "rota-bench plan --graph tr"')
  [[ $got == train$'\t'* ]] || fail "fish completes --graph tr: '$got'"
  fish -c 'source rota-bench.fish; complete -C "rota-bench pl"' | grep -q '^plan' || fail "fish knows no command plan"
fi

[ $failures -eq 0 ] || { echo "$failures failed"; exit 1; }
