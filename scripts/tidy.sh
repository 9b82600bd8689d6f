#!/usr/bin/env bash
# clang-tidy, as .clang-tidy says, over the sources that a build folder compiles: lists what it finds, and fails if that
# is anything. Skipped where there is no clang-tidy of version 16 or later. tidy.sh BUILD_DIR [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
tidy=
for name in clang-tidy clang-tidy-{22,21,20,19,18,17,16}; do
  command -v "$name" >/dev/null || continue
  version=$("$name" --version | sed -n 's/.*version \([0-9]*\)\..*/\1/p')
  if [ "${version:-0}" -ge 16 ]; then
    tidy=$name
    break
  fi
done
[ -n "$tidy" ] || { echo "skipped: there is no clang-tidy of version 16 or later"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Each file once: most are compiled for the library and once more for its tests.
python3 - "$build/compile_commands.json" "$work" "$@" <<'PYTHON'
import json, os, sys
database, work, wanted = sys.argv[1], sys.argv[2], {os.path.realpath(file) for file in sys.argv[3:]}
rooms = tuple(os.path.realpath(room) + "/" for room in "base graph sched exec ops file bench examples".split())
commands = {}
for command in json.load(open(database)):
    file = os.path.realpath(os.path.join(command["directory"], command["file"]))
    if file in wanted or (not wanted and file.startswith(rooms)):
        commands.setdefault(file, command)
json.dump(list(commands.values()), open(os.path.join(work, "compile_commands.json"), "w"))
open(os.path.join(work, "files"), "w").write("".join(os.path.relpath(file) + "\n" for file in sorted(commands)))
PYTHON
one() { # WORK TIDY FILE...: a process that fails leaves what it says as well
  "$2" -p "$1" --quiet "${@:3}" >"$1/said.$$" 2>"$1/errors.$$" || grep -v warnings "$1/errors.$$" >"$1/failed.$$"
}
export -f one
xargs -P "$(nproc)" -n 4 bash -c 'one "$@"' one "$work" "$tidy" <"$work/files"
cat "$work"/said.* 2>/dev/null | grep -E '^/.*: (warning|error): ' |
  grep -v 'no header providing .* \[misc-include-cleaner\]$' |
  sed "s@^$PWD/@@" | sort -u >"$work/findings" || true
cat "$work/findings" "$work"/failed.* 2>/dev/null || true
findings=$(wc -l <"$work/findings") files=$(wc -l <"$work/files")
echo "$tidy $version: $findings findings in $files files"
[ "$files" -gt 0 ] && [ "$findings" -eq 0 ] && ! compgen -G "$work/failed.*" >/dev/null
