#!/usr/bin/env bash
# An #include points down in DESIGN.md's picture or stays in its folder; anything else is listed, and fails.
#   file > ops > sched > exec/cpu, exec/vk, exec/cuda > exec/common > exec > graph > base; tests and bench may know all
#   of it.
# Examples are programs of somebody who has rota installed: of its headers they include those that are, and beside them
# one another, what they share with rota-bench, and what is made of their kernels.
# Executors know neither sched nor ops nor one another; sched knows executors only through exec/*.h; graph knows no
# device. sched/plan knows of sched what everybody may know. sched/trials stands above both and knows what is installed,
# with the smoke test's kernel as data; sched/opening is where the runtime is given its trials, by the headers of what
# opens devices.
# sched/ranks stands above all of them, and knows transports by exec/comm, which knows no device, and exec/nccl, which
# knows the driver's table of exec/cuda.
set -euo pipefail
script=$(realpath "$0")
cd "${1:-$(dirname "$0")/../..}"

outside="sched sched/plan exec graph base" # what each room of the runtime may include
public= # what is installed; in a planted tree nothing is
if [[ -e cmake/install.cmake ]]; then
  public=$(sed -n '/^set(ROTA_PUBLIC_HEADERS/,/)/{s/set(ROTA_PUBLIC_HEADERS//;s/)//;p}' cmake/install.cmake)
fi
in=sched/runtime
shared="$in/shared $outside"
memory="$in/memory $shared"
plans="$in/plans $memory"
order="$in/order $plans"
kinds="$in/kinds $order"
submitter="$in/submitter $in/kinds $order"
declare -A allowed=(
  [base]="base"
  [graph]="graph base"
  [exec]="exec graph base spv cuda"
  [exec/common]="exec/common exec graph base"
  [exec/comm]="exec/comm exec/common exec graph base"
  [exec/nccl]="exec/nccl exec/cuda exec base"
  [exec/cpu]="exec/cpu exec/common exec graph base"
  [exec/vk]="exec/vk exec/common exec graph base spv cuda vulkan"
  [exec/cuda]="exec/cuda exec/common exec graph base cuda"
  [sched]="sched sched/plan exec graph base"
  [sched/plan]="sched/plan sched/placing.h sched/plan.h sched/rewrite.h sched/runtime.h exec graph base"
  [sched/runtime/shared]="$shared"
  [sched/runtime/memory]="$memory"
  [sched/runtime/plans]="$in/plans $memory"
  [sched/runtime/order]="$order"
  [sched/runtime/kinds]="$kinds"
  [sched/runtime/submitter]="$submitter"
  [sched/runtime/sequencer]="$in/sequencer $submitter"
  [sched/runtime/reclaimer]="$in/reclaimer $in/sequencer $in/kinds $order"
  [sched/runtime/completer]="$in/completer $in/submitter $in/kinds $plans"
  [sched/runtime/caller]="$in/caller $in/kinds $order"
  [sched/runtime/life]="$in/life $in/caller $in/completer $in/reclaimer $in/sequencer $submitter"
  [sched/trials]="sched/trials sched/compile_own.h exec/smoke_kernel.h base $public"
  [sched/opening]="sched/opening sched/trials $in/life/device_open.h $in/life/application.h sched/opened.h base $public"
  [sched/ranks]="sched/ranks sched exec/comm exec/nccl exec graph base $public"
  [ops]="ops ops/cpu ops/vk ops/cuda sched exec graph base spv"
  [ops/cpu]="ops ops/cpu exec graph base"
  [ops/cuda]="ops ops/cuda exec graph base cuda"
  [file]="file ops sched exec graph base"
  [ops/vk]="ops ops/vk ops/vk/coopmat exec graph base spv"
)
mapfile -t examples < <(find examples -type d 2>/dev/null)
for folder in ${examples[@]+"${examples[@]}"}; do
  allowed[$folder]="${examples[*]} bench spv cuda run_report_page.h $public"
done
bad=0 seen=0
for folder in "${!allowed[@]}"; do
  shopt -s nullglob
  for file in "$folder"/*.c "$folder"/*.h "$folder"/*.cpp; do
    while IFS= read -r include; do
      # As written beside the file, else from the root of the tree.
      target=$include
      if [[ $include == ../* ]]; then
        target=$(realpath -m --relative-to=. "$folder/$include")
      elif [[ -e $folder/$include ]]; then
        target=$folder/$include
      fi
      to=${target%/*}
      seen=$((seen + 1))
      for good in ${allowed[$folder]}; do [[ $to == "$good" || $target == "$good" ]] && continue 2; done
      echo "$file includes \"$include\": $folder may include only: ${allowed[$folder]}"
      bad=1
    done < <(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$file")
  done
done
if [[ ${2:-} != small ]] && ((seen < 50)); then
  echo "only $seen includes were looked at: the tree has moved"
  exit 1
fi
if ((bad)); then exit 1; fi
# And it notices: trees with one include that points up, or past the door.
if [[ ${2:-} != small ]]; then
  planted=$(mktemp -d)
  trap 'rm -rf "$planted"' EXIT
  for pair in graph:sched/plan.h sched/trials:sched/runtime/plans/make.h \
    sched/opening:sched/runtime/shared/runtime.h examples/gpt:base/utf8.h; do
    rm -rf "${planted:?}"/*
    mkdir -p "$planted/${pair%:*}" "$planted/$(dirname "${pair#*:}")"
    touch "$planted/${pair#*:}"
    echo "#include \"${pair#*:}\"" >"$planted/${pair%:*}/planted.c"
    if "$script" "$planted" small >/dev/null; then
      echo "a planted include from ${pair%:*} of ${pair#*:} went unnoticed"
      exit 1
    fi
  done
fi
echo "$seen includes point down"
