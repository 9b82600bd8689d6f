#!/usr/bin/env bash
# Two processes train s3.patchtst to the same losses, bit for bit. conformance_processes.sh CONFORMANCE DEVICE...
set -euo pipefail
conformance=$1
shift
for device in "$@"; do
  code=0
  first=$("$conformance" --device "$device" --case s3.patchtst) || code=$?
  if [ $code -eq 77 ]; then
    echo "skipped, $device: $first"
    continue
  fi
  second=$("$conformance" --device "$device" --case s3.patchtst)
  digest=$(grep -o 'digest [0-9a-f]*' <<<"$first")
  if [ $code -ne 0 ] || [ "$(grep -o 'digest [0-9a-f]*' <<<"$second")" != "$digest" ]; then
    echo "FAILED: $device: two processes, two results:"
    printf '%s\n' "$first" "$second"
    exit 1
  fi
  echo "$device: $digest in both processes"
done
echo "all good"
