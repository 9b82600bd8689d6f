#!/usr/bin/env bash
# The hooks of tests are in the tests' library and in no other: what sched/testing.h declares, barriers left out and
# touch mode. test_hooks.sh ROOT TEST-LIBRARY LIBRARY...
set -euo pipefail
root=$1 with=$2
shift 2
hooks=$(sed -n 's/^[a-z][^(]*\b\(rota_[a-z_]*\)(.*/\1/p' "$root/sched/testing.h")
hooks+=$'\nrota_vk_skip_barrier\nrota_vk_barriers_recorded\nrota_vk_touch_open\nrota_vk_touch_record'
if [ "$(wc -l <<<"$hooks")" -lt 10 ]; then
  echo "sched/testing.h declares fewer hooks than there are: $hooks"
  exit 1
fi
faults=0
names() { nm "$1" 2>/dev/null | awk 'NF == 3 && $2 ~ /[TtRrDdBb]/ { print $3 }' | sort -u; }
there=$(names "$with")
for hook in $hooks; do
  grep -qx "$hook" <<<"$there" || { echo "the tests' library lacks $hook" && faults=1; }
done
for library in "$@"; do
  there=$(names "$library")
  grep -qx rota_submit <<<"$there" || { echo "$library has no names" && faults=1; }
  for hook in $hooks; do
    if grep -qx "$hook" <<<"$there"; then echo "$library has $hook" && faults=1; fi
  done
done
[ $faults = 0 ] && echo "$(wc -l <<<"$hooks") hooks, none of them in $*"
