#!/usr/bin/env bash
# Models of rota's protocols in Promela, explored to the end by SPIN. Each is to hold, and each of its planted errors to
# be found. What is run stands in the models' first comments:
#
#    run MODE NAME: DEFINITIONS          holds, and is explored completely
#    full MODE NAME: DEFINITIONS         the same, larger, which --full runs instead
#    plant N MODE: DEFINITIONS | WHAT    with PLANT=N an error is found
#    costly N MODE: DEFINITIONS | WHAT   the same, looked for with --full
#
# MODE safe: assertions and deadlocks. live: the formula `live` under weak fairness. With -DREVERSE among the
# definitions the last process comes first, which finds some errors sooner.
#
# run.sh [--full] [MODEL...]   77 where there is no SPIN.
set -euo pipefail
cd "$(dirname "$0")"
full= planted=plant
models=()
for argument in "$@"; do
  case $argument in
  --full) full=full planted=costly ;;
  *) models+=("$argument") ;;
  esac
done
[ ${#models[@]} -gt 0 ] || models=(*.pml)
for tool in spin cc; do
  command -v $tool >/dev/null && continue
  echo "skipped: there is no $tool"
  exit 77
done
here=$PWD work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failures=0

# explore MODEL MODE DEFINITION...: what pan says goes to `out`.
explore() {
  local model=$1 mode=$2 flags=(-O0 -DNOCLAIM -DSAFETY) options=(-m50000)
  shift 2
  if [ "$mode" = live ]; then
    flags=(-O0 -DNFAIR=3)
    options=(-m2000000 -a -f -N live)
  fi
  local compiler=(cc)
  if [ "$full" ]; then # takes longer to compile than a small model takes to run
    flags+=(-O2)
  elif [ "$(command -v tcc)" ]; then # compiles in 0.03 s what cc -O0 takes 0.7 s for; what it makes is as fast
    compiler=(tcc)
  fi
  if [[ " $* " == *" -DREVERSE "* ]]; then flags+=(-DREVERSE); fi
  rm -f pan* ./*.trail
  spin -a "$@" "$here/$model" >spin.out 2>&1 &&
    "${compiler[@]}" -w -DVECTORSZ=2048 -DMEMLIM=3000 "${flags[@]}" -o pan pan.c 2>cc.out ||
    { cat spin.out cc.out; return 1; }
  ./pan -w22 "${options[@]}" >out 2>&1 || { cat out; return 1; }
}

report() {
  local states seconds
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out)
  seconds=$(sed -n 's/^pan: elapsed time \([0-9.e+-]*\) seconds.*/\1/p' out)
  printf '%-10s %-32s %10.0f states %6.1f s  %s\n' "${1%.pml}" "$2" "${states:-0}" "${seconds:-0}" "$3"
}

verify() { # MODEL MODE NAME DEFINITION...
  local model=$1 mode=$2 name=$3 verdict=holds
  shift 3
  explore "$model" "$mode" "$@"
  if ! grep -q 'errors: 0' out || grep -qE 'Search not completed|depth too small|out of memory|aborted' out; then
    verdict="FAILED: $(grep -m1 -E '^pan|errors:' out || true)"
    failures=$((failures + 1))
  fi
  report "$model" "$name ($mode)" "$verdict"
}

plant() { # MODEL MODE NUMBER WHAT DEFINITION...
  local model=$1 mode=$2 number=$3 what=$4 verdict=found
  shift 4
  explore "$model" "$mode" "-DPLANT=$number" "$@"
  if ! grep -qE 'errors: [1-9]' out; then
    verdict='NOT FOUND'
    failures=$((failures + 1))
  fi
  report "$model" "plant $number ($mode)" "$verdict: $what"
}

for model in "${models[@]}"; do
  model=$(basename "$model" .pml).pml
  while read -r word rest; do
    head=${rest%%:*} tail=${rest#*:}
    case $word in
    run | full)
      [ "$word" = "${full:-run}" ] || continue
      # shellcheck disable=SC2086
      verify "$model" $head $tail
      ;;
    plant | costly)
      [ "$word" = "$planted" ] || continue
      # shellcheck disable=SC2086
      plant "$model" "${head#* }" "${head%% *}" "${tail#*| }" ${tail%%|*}
      ;;
    esac
  done < <(sed -n '1,/\*\//s/^ \* \(run\|full\|plant\|costly\) /\1 /p' "$here/$model")
done
[ $failures -eq 0 ] || { echo "$failures of the models' runs went wrong"; exit 1; }
