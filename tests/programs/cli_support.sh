# Sourced by the tests of the command lines, which count `failures`.

# expect CODE TEXT COMMAND...: the exit code, and TEXT (a grep pattern, may be empty) somewhere in what it prints.
expect() {
  local code=$1 text=$2 got=0
  shift 2
  timeout 120 "$@" >output 2>&1 || got=$?
  if [ "$got" -ne "$code" ] || ! grep -qE -- "$text" output; then
    echo "FAILED: $* : exit code $got, expected $code and '$text'; it printed:"
    sed 's/^/    /' output | tail -n 20
    failures=$((failures + 1))
  fi
}

# The last command's message for people is one line.
one_line() {
  if [ "$(wc -l <output)" -ne 1 ]; then
    echo "FAILED: more than one line for a bad input:"
    sed 's/^/    /' output
    failures=$((failures + 1))
  fi
}

# fields FILE NAME...: FILE is JSON and has the fields.
fields() {
  python3 - "$@" <<'PY' || failures=$((failures + 1))
import json, sys
result = json.load(open(sys.argv[1]))
missing = [name for name in sys.argv[2:] if name not in result]
if missing:
    sys.exit(f"FAILED: {sys.argv[1]} lacks {missing}")
PY
}

absent() {
  for file in "$@"; do
    if [ -e "$file" ]; then
      echo "FAILED: '$file' was left behind"
      failures=$((failures + 1))
    fi
  done
}

# interrupt_after LINES FILE COMMAND...: runs it, presses Ctrl-C once FILE has so many lines, and returns its exit code;
# what it prints is in stopped.txt.
interrupt_after() {
  local lines=$1 file=$2 running
  shift 2
  "$@" >stopped.txt 2>&1 &
  running=$!
  for _ in $(seq 600); do
    if [ "$(cat "$file" 2>/dev/null | wc -l)" -ge "$lines" ]; then break; fi
    sleep 0.02
  done
  kill -INT "$running"
  wait "$running"
}
