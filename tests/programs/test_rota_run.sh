#!/usr/bin/env bash
# rota-run: ranks and their output, signals, whose fault it was, and what is refused before anything starts.
# test_rota_run.sh ROTA_RUN
set -euo pipefail
run=$(realpath "$1")
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

# ---- What is refused ----
expect 1 "^rota-run: -n N is needed" "$run" true
expect 1 "^rota-run: PROGRAM is needed" "$run" -n 2
expect 1 "did you mean --hosts\?" "$run" -n 2 --host file true
expect 1 "^rota-run: --ranks takes .*, not '0'" "$run" --ranks 0 true
expect 1 "^rota-run: 'no-mpirun' is not there: it is MPI's" "$run" -n 2 --mpirun no-mpirun true
expect 0 '^usage: rota-run' "$run" --help
# Whatever stands behind the program is the program's.
if ! command -v mpirun >/dev/null; then
  [ $failures = 0 ] || exit 1
  echo "skipped: no mpirun"
  exit 77
fi
expect 1 "^rota-run: the program 'no-such' is not there" "$run" -n 2 no-such
one_line
expect 1 "^rota-run: 60000 ranks on the [0-9]+ processors of this host: --oversubscribe" "$run" -n 60000 true
one_line
expect 1 "^rota-run: --hosts 'nowhere.txt' can't be read" "$run" -n 2 --hosts nowhere.txt true
one_line
expect 0 '^\[0\] --help$' "$run" -n 1 -- sh -c 'echo "$1"' sh --help

# ---- Output by rank ----
cat >say.sh <<'S'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$PMIX_RANK}}
echo "out of $rank"
echo "error of $rank" >&2
printf 'no newline'
S
"$run" -n 3 --oversubscribe sh say.sh >out.txt 2>err.txt || fail "three ranks that print: exit code $?"
sort out.txt >sorted.txt
printf '[%d] %s\n' 0 'no newline' 0 'out of 0' 1 'no newline' 1 'out of 1' 2 'no newline' 2 'out of 2' | sort |
  diff - sorted.txt || fail "standard output differs"
printf '[%d] error of %d\n' 0 0 1 1 2 2 | diff - <(sort err.txt) || fail "standard error differs"
# A thousand lines of each stay whole, and in their order.
"$run" -n 2 --oversubscribe seq 1000 >out.txt || fail "many lines: exit code $?"
for rank in 0 1; do
  sed -n "s/^\[$rank\] //p" out.txt | diff -q - <(seq 1000) >/dev/null || fail "lines of rank $rank"
done
printf 'localhost slots=4\n' >hosts.txt
if mpirun --version | grep -q 'Open MPI'; then
  expect 0 '^\[3\] here$' "$run" -n 4 --hosts hosts.txt echo here
  expect 1 'slots' "$run" -n 40 --hosts hosts.txt true
  expect 127 "rank [01] .* exit status 127" "$run" -n 2 --hosts hosts.txt no-such
  grep -q "\] rota-run: 'no-such' can't be run: No such file" output || fail "a program that other hosts lack"
fi

# ---- Ends ----
cat >end.sh <<'S'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$PMIX_RANK}}
if [ "$rank" = 1 ]; then
  case $1 in
    status) exit 7 ;;
    *) kill -s "$1" $$ ;;
  esac
fi
sleep 100
echo "nobody waits for this"
S
expect 7 '^rota-run: rank 1 \(process [0-9]+ on .*\) ended with exit status 7, as the first; the others were ended$' \
  "$run" -n 3 --oversubscribe sh end.sh status
! grep -q 'nobody\|mpirun' output || fail "what else was printed: $(cat output)"
expect 137 '^rota-run: rank 1 .* was ended by signal 9 \(Killed\), as the first' \
  "$run" -n 3 --oversubscribe sh end.sh KILL
expect 139 '^rota-run: rank 1 .* was ended by signal 11' "$run" -n 2 --oversubscribe sh end.sh SEGV

# begin NAME COMMAND...: in the background, what it prints in NAME; started is its process.
begin() {
  local name=$1
  shift
  "$@" >"$name" 2>&1 &
  started=$!
}
# await PATTERN FILE [COUNT]: until the file has so many such lines.
await() {
  for _ in $(seq 400); do
    [ -f "$2" ] && [ "$(grep -cE -- "$1" "$2")" -ge "${3:-1}" ] && return 0
    sleep 0.05
  done
  fail "no '$1' in $2: $(cat "$2")"
}
gone() { # PROCESS: it has ended, at most two seconds after mpirun
  for _ in $(seq 40); do
    case $(ps -o stat= -p "$1") in '' | Z*) return 0 ;; esac
    sleep 0.05
  done
  fail "process $1 is left"
}
ended() { # CODE
  local code=0
  wait "$started" || code=$?
  [ "$code" = "$1" ] || fail "exit code $code, expected $1: $(cat stopped.txt 2>/dev/null)"
}

# A rank that is stopped is named at once, and when it goes on; when another one fails then, both are.
cat >wait.sh <<'S'
trap 'echo asked; exit 0' TERM
trap 'echo poked' USR2
echo "process $$"
end=$((SECONDS + 60))
while [ $SECONDS -lt $end ]; do sleep 0.05; done
S
begin stopped.txt "$run" -n 2 --oversubscribe bash wait.sh
await 'process' stopped.txt 2
process=$(sed -n 's/^\[1\] process //p' stopped.txt)
kill -STOP "$process"
await '^rota-run: rank 1 .* stands still, by signal' stopped.txt
kill -CONT "$process"
await '^rota-run: rank 1 goes on$' stopped.txt
kill -STOP "$process"
await 'stands still' stopped.txt 2
kill -KILL "$(sed -n 's/^\[0\] process //p' stopped.txt)"
ended 137
grep -q '^rota-run: rank 0 .* was ended by signal 9' stopped.txt || fail "the rank that failed: $(cat stopped.txt)"
grep -q '^rota-run: rank 1 .* stood still, by signal' stopped.txt || fail "the rank that stood still"
gone "$process"

# Signals: each rank is asked once, and ends in its own time; USR2 is passed as it is.
begin stopped.txt "$run" -n 2 --oversubscribe bash wait.sh
await 'process' stopped.txt 2
kill -USR2 "$started"
await 'poked' stopped.txt 2
kill -INT "$started"
await '^\[[01]\] asked$' stopped.txt 2
ended 0
# Two that come at once, while rota-run stands still, are both passed.
sed 's/exit 0/end=$((SECONDS + 2))/' wait.sh >wait_on.sh
begin stopped.txt "$run" -n 2 --oversubscribe bash wait_on.sh
await 'process' stopped.txt 2
kill -STOP "$started"
kill -USR2 "$started"
kill -INT "$started"
kill -CONT "$started"
await '^\[[01]\] poked$' stopped.txt 2
await '^\[[01]\] asked$' stopped.txt 2
ended 0
# One that does not listen is ended by the second signal.
begin stopped.txt "$run" -n 2 --oversubscribe sh -c 'trap "" TERM; echo "process $$"; sleep 100 & wait; sleep 100'
await 'process' stopped.txt 2
kill -TERM "$started"
sleep 0.5
kill -0 "$started" || fail "the first signal ended it"
kill -TERM "$started"
code=0
wait "$started" || code=$?
[ "$code" -gt 0 ] || fail "ranks that were ended: exit code 0"
for process in $(sed -n 's/^\[[01]\] process //p' stopped.txt); do
  gone "$process"
done

[ $failures = 0 ] || exit 1
echo "rota-run: all good"
