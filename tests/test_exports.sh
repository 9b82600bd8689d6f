#!/usr/bin/env bash
# The shared library exports exactly what the public headers declare with ROTA_API.
# test_exports.sh SOURCE_DIR LIBRARY
set -euo pipefail
source_dir=$1 library=$2
cd "$source_dir"

headers=$(sed -n 's/^set(ROTA_PUBLIC_HEADERS \(.*\)/\1/p; /^set(ROTA_PUBLIC_HEADERS/,/)/{/^set/d;p}' cmake/install.cmake | tr -d ')')
present=()
for header in $headers; do
  if [ -f "$header" ]; then present+=("$header"); fi
done
[ ${#present[@]} -ge 12 ] || { echo "only ${#present[@]} public headers found"; exit 1; }

# Declarations may span lines: join each ROTA_API up to its first parenthesis and keep the name before it.
declared=$(cat "${present[@]}" | tr '\n' ' ' | grep -oE 'ROTA_API [^;()]*\(' | grep -oE 'rota_[a-z0-9_]+ *\($' |
  tr -d ' (' | LC_ALL=C sort -u)
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | LC_ALL=C sort -u)

surplus=$(comm -13 <(echo "$declared") <(echo "$exported"))
missing=$(comm -23 <(echo "$declared") <(echo "$exported"))
if [ -n "$surplus" ]; then
  echo "exported but declared in no public header:"
  echo "$surplus"
fi
if [ -n "$missing" ]; then
  echo "declared in a public header but not exported:"
  echo "$missing"
fi
[ -z "$surplus$missing" ]
