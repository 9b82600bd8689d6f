#!/usr/bin/env bash
# What README.md says of Python, as it stands there: its command, in a checkout that nothing was built in and in a new
# virtual environment, then its listing. At most five minutes of this machine's cores. plain.sh
# Exits with 77, which is skipped, only where the Python registry does not answer.
set -euo pipefail
root=$(realpath "$(dirname "$(realpath "$0")")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
MOST_SECONDS=300

command=$(sed -n '/^## Three lines of Python$/,/^```/s/^    \(pip install .*\)$/\1/p' "$root/README.md")
[[ $command == 'pip install '* ]] || fail "README.md has no command: '$command'"
awk '/^```python/ { inside = 1; next } /^```/ && inside { exit } inside' "$root/README.md" >"$work/three_lines.py"
echo 'print("below 0.01:", float(loss) < 0.01)' >>"$work/three_lines.py"

# What a clone of the next commit would have.
mkdir "$work/rota"
git -C "$root" ls-files -z --cached --others --exclude-standard |
  tar -C "$root" --null --ignore-failed-read -T - -c 2>/dev/null | tar -C "$work/rota" -x
python3 -m venv "$work/venv"
# Not with what the caller's build was told: as in a shell of a user's.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_ARGS CFLAGS CXXFLAGS LDFLAGS VIRTUAL_ENV
export PATH=$work/venv/bin:$PATH
load=$(cut -d' ' -f1 /proc/loadavg)
TIMEFORMAT='%0R %0U %0S'
code=0
took=$({ time (cd "$work/rota" && eval "$command" >"$work/said" 2>&1); } 2>&1) || code=$?
if [ $code -ne 0 ]; then
  tail -n 60 "$work/said"
  if grep -qE "NewConnectionError|ConnectTimeout|Could not fetch URL|name resolution|Max retries" "$work/said"; then
    echo "skipped: the Python registry does not answer"
    exit 77
  fi
  fail "$command: exit code $code"
fi
read -r seconds user system <<<"$took"
said=$(cd "$work" && python three_lines.py) || fail "three lines of Python: $said"
[ "$said" = 'below 0.01: True' ] || fail "three lines of Python say $said"
# Others' work beside it makes it longer, but not its own.
of_cores=$(((user + system) / $(nproc)))
echo "$command: $seconds s, of $(nproc) cores $of_cores s, with a load of $load before"
[ $of_cores -le $MOST_SECONDS ] || fail "$of_cores s of $(nproc) cores, expected $MOST_SECONDS at most"
