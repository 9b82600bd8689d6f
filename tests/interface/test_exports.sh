#!/usr/bin/env bash
# The shared library exports exactly what the public headers declare with ROTA_API, which is what its version script
# lists: functions, no data. Its SONAME changes with the interface and not with the version.
# test_exports.sh SOURCE_DIR LIBRARY
set -euo pipefail
cd "$1"
library=$2
scripts/exports.py
declared=$(scripts/exports.py --list | LC_ALL=C sort)
symbols=$(nm -D --defined-only "$library" | awk '$2 != "A"')
exported=$(awk '{print $3}' <<<"$symbols" | sed 's/@.*//' | LC_ALL=C sort -u)
differ=$(LC_ALL=C comm -3 <(echo "$declared") <(echo "$exported"))
if [ -n "$differ" ]; then
  echo "declared in a public header but not exported, or (to the right) the other way round:"
  echo "$differ"
  exit 1
fi
if awk '$2 != "T"' <<<"$symbols" | grep .; then
  echo "these are no functions: who reads data of a shared library's depends on their size and layout"
  exit 1
fi
if grep -v '@@ROTA_0\.[0-9]*$' <<<"$symbols"; then
  echo "these have no version"
  exit 1
fi
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = librota.so.1 ] || { echo "the SONAME is $soname; from 0.2 on it is librota.so.1"; exit 1; }
echo "$(wc -l <<<"$exported") exported functions of $soname"
