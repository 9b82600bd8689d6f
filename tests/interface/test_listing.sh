#!/usr/bin/env bash
# The README's first program, axpy from nothing, as it stands there: 20 lines at most, without a macro of its own; it is
# examples/basics/axpy.c, compiles without warnings, gives what it should, leaves nothing behind, and says what went
# wrong.
# test_listing.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1 build_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LINES_MAX=20

# The first block of C of a page.
listing() { sed -n '/^```c$/,/^```$/p' "$1" | sed '/^```$/q' | sed '/^```/d'; }
judge() { # PAGE: prints what is wrong with its listing
  local lines
  listing "$1" >"$work/axpy.c"
  lines=$(wc -l <"$work/axpy.c")
  ((lines > 5)) || echo "there is no listing"
  ((lines <= LINES_MAX)) || echo "$lines lines, at most $LINES_MAX"
  awk 'length > 110 {print "line " NR " has " length " columns"}' "$work/axpy.c"
  ! grep -n '^ *#' "$work/axpy.c" | grep -v '#include <' || true
  tail -n +2 "$source_dir/examples/basics/axpy.c" | cmp -s - "$work/axpy.c" ||
    echo "it is not examples/basics/axpy.c without its comment"
}
for page in README.md docs/guide.md; do
  said=$(judge "$source_dir/$page")
  [ -z "$said" ] || { echo "$page: $said"; exit 1; }
done
# And it notices: a line more, and a macro.
sed 's/^int main(void) {/#define TRY(x) x\n&/' "$source_dir/README.md" >"$work/planted.md"
said=$(judge "$work/planted.md")
for part in '21 lines' '#define TRY' 'it is not'; do
  [[ $said == *"$part"* ]] || { echo "planted, and '$part' is not in: $said"; exit 1; }
done

listing "$source_dir/README.md" >"$work/axpy.c"
checked=(-fsanitize=address,undefined)
echo 'int main(void) { return 0; }' >"$work/try.c"
cc "${checked[@]}" "$work/try.c" -o "$work/try" 2>/dev/null || checked=()
for standard in c17 gnu11; do
  cc -std=$standard -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror "${checked[@]}" -I "$build_dir/include" \
    "$work/axpy.c" \
    -o "$work/axpy" -L "$build_dir" -lrota -Wl,-rpath,"$build_dir"
  # What drivers leave is theirs.
  said=$(VK_ICD_FILENAMES=/dev/null XDG_CACHE_HOME=$work "$work/axpy" 2>&1) || { echo "axpy: $said"; exit 1; }
  [ "$said" = "12 24 36 48" ] || { echo "axpy says: $said; expected 12 24 36 48"; exit 1; }
done
# With a shape that does not fit it ends, and says why.
sed 's/ROTA_SHAPE(4), y/ROTA_SHAPE(3), y/' "$work/axpy.c" >"$work/wrong.c"
cc -std=c17 "${checked[@]}" -I "$build_dir/include" "$work/wrong.c" -o "$work/wrong" -L "$build_dir" -lrota \
  -Wl,-rpath,"$build_dir"
if said=$(VK_ICD_FILENAMES=/dev/null XDG_CACHE_HOME=$work "$work/wrong" 2>&1) ||
  [[ $said != "op 'add': "*"[4]"*"[3]"* ]]; then
  echo "axpy with 4 elements of x and 3 of y: $said"
  exit 1
fi
echo "$(wc -l <"$work/axpy.c") lines"
