#!/usr/bin/env bash
# Programs that were built with 0.2.0 run with this library: nothing that they were compiled with has changed
# (tests/interface/abi), and a program runs that was compiled with earlier headers, with later ones, and with these.
# test_abi.sh SOURCE_DIR BUILD_DIR
# test_abi.sh --write SOURCE_DIR: describes 0.2.0 anew, which is right only until it is released.
set -euo pipefail
write=
if [ "$1" = --write ]; then write=1; shift; fi
source_dir=$1 build_dir=${2-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stored=$source_dir/tests/interface/abi/0.2.0
# A library of the headers alone, for those who read types where the linker left them.
"$source_dir/scripts/abi.py" --stubs "$work/stubs.c"
cc -g -shared -fPIC -fvisibility=hidden -I "$source_dir" "$work/stubs.c" -o "$work/librota.so.1"
describe() { abidw --no-show-locs --no-corpus-path --no-comp-dir-path "$work/librota.so.1"; }
if [ -n "$write" ]; then
  "$source_dir/scripts/abi.py" --write "$stored.txt"
  describe >"$stored.abi"
  exit
fi
"$source_dir/scripts/abi.py" --check "$stored.txt"

# And it notices. Trees of the public headers with one change each.
headers=$(sed -n '/^set(ROTA_PUBLIC_HEADERS/,/)/p' "$source_dir/cmake/install.cmake" |
  sed 's/^set(ROTA_PUBLIC_HEADERS//' | tr -d ')')
tree() {
  mkdir -p "$work/$1/rota"
  (cd "$source_dir" && cp --parents $headers "$work/$1/rota")
}
change() { # NAME, HEADER, what stands there, what stands there then
  tree "$1"
  python3 - "$work/$1/rota/$2" "$3" "$4" <<'PYTHON'
import sys
path, old, new = sys.argv[1:]
text = open(path).read()
assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
open(path, "w").write(text.replace(old, new))
PYTHON
}
noticed() { # NAME, what is said of it
  if "$source_dir/scripts/abi.py" --check "$stored.txt" --root "$work/$1/rota" >"$work/said" ||
    ! grep -q "$2" "$work/said"; then
    echo "$1 went unnoticed; expected '$2' in:"
    cat "$work/said"
    exit 1
  fi
}
change appended sched/runtime.h '} rota_runtime_options;' 'uint64_t later; } rota_runtime_options;'
"$source_dir/scripts/abi.py" --check "$stored.txt" --root "$work/appended/rota" >/dev/null
change middle sched/runtime.h $'    uint64_t timeout_ns;\n' $'    uint64_t later; uint64_t timeout_ns;\n'
noticed middle "member rota_runtime_options.timeout_ns was "
change padding ops/ops_linear.h '} rota_linear;' 'bool later; } rota_linear;'
noticed padding "member rota_linear.later is new at "
change inside graph/kernel.h '    uint32_t prepared_bytes;' '    uint32_t prepared_bytes, later;'
noticed inside "member rota_kernel.cuda.later is new at "
change value ops/tensor.h '} rota_tensor;' 'uint64_t later; } rota_tensor;'
noticed value "struct rota_tensor was of "
change enumerator sched/plan.h '    ROTA_PLAN_COPY,' '    ROTA_PLAN_LATER, ROTA_PLAN_COPY,'
noticed enumerator "enumerator rota_plan_command_kind ROTA_PLAN_COPY was 1, and is 2"
change prototype base/clock.h 'rota_deadline_after(uint64_t timeout_ns)' 'rota_deadline_after(uint32_t timeout_ns)'
noticed prototype "function rota_deadline_after was "

# One program, three sets of headers, one library.
grown=$(grep -oh 'ROTA_SIZED(rota_[a-z_]*' -r "$source_dir"/{graph,exec,sched,ops}/*.h | sed 's/.*(//' | sort -u)
[ "$(wc -w <<<"$grown")" -ge 22 ] || { echo "only these structs may grow: $grown"; exit 1; }
for edition in now earlier later; do
  tree "$edition"
  python3 - "$work/$edition/rota" "$edition" $grown <<'PYTHON'
import pathlib, re, sys
root, edition, names = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
for path in root.glob("*/*.h"):
    text = path.read_text()
    for name in names:
        match = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", text, re.S)
        if not match or edition == "now":
            continue
        body = re.sub(r"/\*.*?\*/", "", match.group(1), flags=re.S)
        if edition == "later":
            body += "uint64_t later;"
        else: # less its last member, or the last that one line declares
            before, _, last = body.rstrip().rstrip(";").rpartition(";")
            is_several = "," in re.sub(r"\([^()]*\)", "", last) # not the parameters of a function
            body = before + ";" + (last.rpartition(",")[0] + ";" if is_several else "")
        text = text[:match.start(1)] + body + text[match.end(1):]
    path.write_text(text)
PYTHON
  cc -std=c17 -Wall -Wextra -Werror ${edition:+"-D${edition^^}"} -I "$work/$edition" \
    "$source_dir/tests/interface/abi/client.c" -o "$work/client_$edition" \
    -L "$build_dir" -lrota -Wl,-rpath,"$build_dir"
  said=$(XDG_CACHE_HOME=$work "$work/client_$edition")
  echo "$edition: $said"
done
sizes=$(for edition in earlier now later; do XDG_CACHE_HOME=$work "$work/client_$edition" | sed 's/.* of //'; done |
  sort -nu | wc -l)
[ "$sizes" = 3 ] || { echo "the three clients were compiled with $sizes sizes of options"; exit 1; }

if command -v abidiff >/dev/null; then
  describe >"$work/now.abi"
  status=0
  abidiff "$stored.abi" "$work/now.abi" >"$work/said" || status=$?
  # it failed, was misused, or found what can't be compatible; 4, alone: what scripts/abi.py judges
  if ((status & 11)); then
    cat "$work/said"
    exit 1
  fi
  echo "abidiff: $status"
else
  echo "abidiff is not installed"
fi
