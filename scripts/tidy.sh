#!/usr/bin/env bash
# clang-tidy, as .clang-tidy says, over the sources that a build folder compiles: lists what it finds, and fails if that
# is anything. Skipped where there is no clang-tidy of version 16 or later. tidy.sh BUILD_DIR [--parts N | FILE...]
# --parts N: one of N parts of the sources, another each day (tests/draw.sh), and those that the last commit or what is
# not committed changes.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 parts=1
shift
if [ "${1-}" = --parts ]; then
  parts=$2
  shift 2
fi
. tests/draw.sh
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
{ git diff --name-only HEAD~1 || git ls-files; } >"$work/changed" 2>/dev/null || true # no repository, or its first
python3 - "$build/compile_commands.json" "$work" "$parts" "$draw" "$@" <<'PYTHON'
import json, os, sys
database, work, parts, draw = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
wanted = {os.path.realpath(file) for file in sys.argv[5:]}
changed = {os.path.realpath(line.strip()) for line in open(os.path.join(work, "changed"))}
rooms = tuple(os.path.realpath(room) + "/" for room in "base graph sched exec ops file bench examples".split())
commands = {}
for command in json.load(open(database)):
    file = os.path.realpath(os.path.join(command["directory"], command["file"]))
    if file in wanted or (not wanted and file.startswith(rooms)):
        commands.setdefault(file, command)
chosen = {file for i, file in enumerate(sorted(commands)) if i % parts == draw % parts or file in changed}
commands = {file: commands[file] for file in chosen}
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
