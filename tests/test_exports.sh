#!/usr/bin/env bash
# The shared library exports exactly what the public headers declare with ROTA_API.
# test_exports.sh SOURCE_DIR LIBRARY
set -euo pipefail
cd "$1"
library=$2

# The list of installed headers is the one in install.cmake.
headers=$(sed -n '/^set(ROTA_PUBLIC_HEADERS/,/)/p' cmake/install.cmake | sed 's/^set(ROTA_PUBLIC_HEADERS//' | tr -d ')')
includes=()
for header in $headers; do
  [ -f "$header" ] || { echo "public header $header is missing"; exit 1; }
  includes+=(-include "$header")
done

# Preprocessed, since many declarations come from lists; each ends with a semicolon and starts with the attribute.
declared=$(cc -E -P -I. "${includes[@]}" -x c /dev/null | python3 -c '
import re, sys
text = sys.stdin.read()
for declaration in re.findall(r"extern __attribute__\(\(visibility\(\"default\"\)\)\)\s*([^;{]*);", text):
    name = re.match(r"[^()]*?\b(rota_\w+)\s*(?:\(|\[|$)", declaration.strip())
    print(name.group(1) if name else "not understood: " + declaration)
' | LC_ALL=C sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | LC_ALL=C sort -u)
[ "$(echo "$declared" | wc -l)" -ge 100 ] || { echo "only these public names were found: $declared"; exit 1; }

surplus=$(LC_ALL=C comm -13 <(echo "$declared") <(echo "$exported"))
missing=$(LC_ALL=C comm -23 <(echo "$declared") <(echo "$exported"))
if [ -n "$surplus" ]; then
  echo "exported but declared in no public header:"
  echo "$surplus"
fi
if [ -n "$missing" ]; then
  echo "declared in a public header but not exported:"
  echo "$missing"
fi
[ -z "$surplus$missing" ] || exit 1
echo "$(echo "$declared" | wc -l) public names, all exported and nothing else"
