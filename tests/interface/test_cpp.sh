#!/usr/bin/env bash
# The public headers in C++17, by one compiler with all its warnings as errors: each alone, their macros (in C and C++20
# too), and rota.hpp with the programs that show it; the guide's listing of it is the example's own text.
# test_cpp.sh SOURCE_DIR BUILD_DIR COMPILER
set -euo pipefail
source_dir=$1 build_dir=$2 compiler=$3
command -v "$compiler" >/dev/null || { echo "skipped: there is no $compiler"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strict=(-std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I "$build_dir/include")
link=(-L "$build_dir" -lrota -Wl,-rpath,"$build_dir")

headers=$(sed -n '/^set(ROTA_PUBLIC_HEADERS/,/)/p' "$source_dir/cmake/install.cmake" |
  sed 's/^set(ROTA_PUBLIC_HEADERS//' | tr -d ')')
count=0
for header in $headers; do
  # Also where somebody wraps what he takes for C; and twice.
  printf '#include <rota/%s>\n#include <rota/%s>\n' "$header" "$header" >"$work/alone.cpp"
  "$compiler" "${strict[@]}" -fsyntax-only "$work/alone.cpp" ||
    { echo "rota/$header alone is no C++17 for $compiler"; exit 1; }
  count=$((count + 1))
done
grep -qw rota.hpp <<<"$headers" || { echo "rota.hpp is not installed"; exit 1; }
# Where somebody takes all of it for C.
printf '#include <cstddef>\n#include <cstdint>\nextern "C" {\n#include <rota/rota.h>\n}\n' >"$work/wrapped.cpp"
"$compiler" "${strict[@]}" -fsyntax-only "$work/wrapped.cpp"

case $compiler in clang*) c=clang ;; *) c=gcc ;; esac
"$c" "${strict[@]/c++17/c17}" "$source_dir/tests/interface/cpp/macros.c" -o "$work/macros_c" "${link[@]}"
"$compiler" "${strict[@]}" -x c++ "$source_dir/tests/interface/cpp/macros.c" -x none -o "$work/macros_cpp" "${link[@]}"
# g++ takes members that designated initializers leave out for forgotten.
"$compiler" "${strict[@]/c++17/c++20}" -Wno-missing-field-initializers -x c++ \
  "$source_dir/tests/interface/cpp/macros.c" -x none -o "$work/macros_cpp20" "${link[@]}"
for program in macros_c macros_cpp macros_cpp20; do "$work/$program"; done

# With the leak checker where it is installed.
checked=(-g -fsanitize=address,undefined -fno-sanitize-recover=all)
echo 'int main() {}' >"$work/try.cpp"
"$compiler" "${checked[@]}" "$work/try.cpp" -o "$work/try" 2>/dev/null || checked=()
"$compiler" "${strict[@]}" "${checked[@]}" "$source_dir/tests/interface/cpp/objects.cpp" -o "$work/objects" "${link[@]}"
"$work/objects"
"$compiler" "${strict[@]}" "$source_dir/examples/basics/quickstart.cpp" -o "$work/quickstart" "${link[@]}"
said=$("$work/quickstart" cpu)
[[ $said == *": 1 + 1 + 2 + 3 = 7" ]] || { echo "quickstart.cpp says: $said"; exit 1; }
if said=$("$work/quickstart" none:7 2>&1) || [[ $said != "NOT_FOUND: "*none:7* ]]; then
  echo "quickstart.cpp on a device that is not there: $said"
  exit 1
fi

python3 - "$source_dir" <<'PYTHON'
import pathlib, re, sys, textwrap
root = pathlib.Path(sys.argv[1])
program = (root / "examples/basics/quickstart.cpp").read_text()
example = textwrap.dedent("\n".join(line.strip() for line in program.splitlines()))
blocks = re.findall(r"^```c\+\+\n(.*?)^```$", (root / "docs/guide.md").read_text(), re.M | re.S)
listings = [block for block in blocks if "rota::" in block]
if not listings:
    sys.exit("the guide lists nothing of rota.hpp")
for block in listings:
    if "\n".join(line.strip() for line in block.strip().splitlines()) not in example:
        sys.exit(f"the guide lists what examples/basics/quickstart.cpp does not have:\n{block}")
PYTHON
echo "$count headers and what uses them, by $compiler"
