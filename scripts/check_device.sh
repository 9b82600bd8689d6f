#!/usr/bin/env bash
# Runs on a machine with an NVIDIA GPU what a machine without one can't: tests and measurements in stages, from programs
# that are already built, with a table of what came out at the end. Stages are in check_device_stages.sh;
# docs/measurements.md has the results.
#
# check_device.sh --bin DIR --data DIR --out DIR [options] STAGE...
# check_device.sh --list [STAGE...] | --bundle-list
set -uo pipefail
shopt -s inherit_errexit 2>/dev/null
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'END'
check_device.sh --bin DIR --data DIR --out DIR [options] STAGE...
  --bin DIR         a build folder, or one folder with the programs
  --data DIR        tinyshakespeare.txt and ETTh1.csv
  --out DIR         what comes out: STAGE.txt (table and every log), STAGE.tar.gz (JSON, metrics, traces, reports)
  --only REGEX      those commands of the stages whose text matches
  --limit SECONDS   all stages together; what hasn't begun by then is shown as not run (540)
  --width N         programs at once where a stage allows it (two less than there are CPUs, at least 2)
  --scratch DIR     caches and token files, kept from call to call (a folder in /tmp)
  --cudnn DIR       the folder of libcudnn.so.9 (that of python3's package nvidia-cudnn)
  --python PROGRAM  the one that has PyTorch and transformers (python3)
  --sanitizer PROGRAM  compute-sanitizer (from PATH or /usr/local/cuda/bin)
  --cuda ID, --vk ID   the devices (cuda:0, vk:0)
  --tiny            small sizes and counts: whether every command is accepted, on any devices, such as --cuda cpu
  --list            each stage's commands, what each may take and what the stage takes
  --bundle-list     the programs to carry, one a line
Exit codes: 0 all passed, 1 something failed, was skipped, timed out, was missing or not run (--tiny: skipped is good),
2 usage
END
}

# shellcheck disable=SC2034 # the stages use them
bin='' data='' out='' only='' limit=540 width='' scratch='' cudnn='' python=python3 sanitizer='' cuda=cuda:0 vk=vk:0 \
  tiny='' mode=run
stages=()
while [ $# -gt 0 ]; do
  case $1 in
    --bin | --data | --out | --only | --limit | --width | --scratch | --cudnn | --python | --sanitizer | --cuda | --vk)
      [ $# -ge 2 ] || { echo "check_device.sh: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift ;;
    --tiny) tiny=1 ;;
    --list) mode=list ;;
    --bundle-list) mode=bundle ;;
    --help) usage; exit 0 ;;
    -*) echo "check_device.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
    *) stages+=("$1") ;;
  esac
  shift
done

# ---- Jobs: what a stage is made of ----

job_limit=() job_width=() job_wave=() job_command=() job_want=() job_show=() job_env=() job_state=() job_code=() \
  job_ms=()
wave=0 wave_width=1

# The jobs that follow run N at a time, after all before them have ended. alone: one after the other, nothing beside
# them.
together() { wave=$((wave + 1)) wave_width=${1:-$width}; }
alone() { together 1; }

# job [-w PATTERN] [-s PATTERN] [-e NAME=VALUE]... SECONDS COMMAND...: a program of --bin, or a function, and its
# timeout. -w: what a good log has; -s: lines of the log that the table shows too.
job() {
  local want='' show='' environment=()
  while :; do
    case $1 in
      -w) want=$2 ;;
      -s) show=$2 ;;
      -e) environment+=("$2") ;;
      *) break ;;
    esac
    shift 2
  done
  local seconds=$1 quoted
  shift
  if [ -n "$only" ] && ! [[ "$*" =~ $only ]]; then return; fi
  printf -v quoted '%q ' "$@"
  job_limit+=("$seconds") job_width+=("$wave_width") job_wave+=("$wave") job_command+=("$quoted") job_want+=("$want") \
    job_show+=("$show")
  if [ ${#environment[@]} -gt 0 ]; then printf -v quoted '%q ' "${environment[@]}"; else quoted=''; fi
  job_env+=("$quoted")
}

# The path of a program of --bin; its bare name where there is none.
path() {
  local folder
  for folder in "" bench/ tests/ examples/; do
    if [ -x "$bin/$folder$1" ] && [ ! -d "$bin/$folder$1" ]; then
      printf '%s\n' "$bin/$folder$1"
      return
    fi
  done
  printf '%s\n' "$1"
}

# cases PROGRAM: what its --list names, or a word that stands for it where it isn't there to be asked.
cases() {
  local program
  program=$(path "$1")
  if [ "$program" = "$1" ]; then echo "EACH-OF-ITS-CASES"; else "$program" --list; fi
}

# first NAMES NAME...: of the names, those of NAMES (words) before the others.
first() {
  local name early=" $1 "
  shift
  for name; do case $early in *" $name "*) echo "$name" ;; esac; done
  for name; do case $early in *" $name "*) ;; *) echo "$name" ;; esac; done
}

# limited COMMAND...: under the job's timeout. 127, with a line, where the program is not there.
limited() {
  local program
  program=$(path "$1")
  if ! command -v "$program" >/dev/null; then
    echo "missing: $1"
    return 127
  fi
  shift
  timeout -k 10 "$job_seconds" "$program" "$@"
}

# shellcheck source=check_device_stages.sh
. "$here/check_device_stages.sh"

list() {
  local stage i environment previous=0
  echo "Programs to be built (release): cmake --build build --target ${programs[*]##*/}"
  echo "and carried with scripts/, tests/conformance/conformance_processes.sh, tests/compute_sanitizer.xml and" \
    "bench/gpt2_against_torch.py of the tree."
  for stage in "${stages[@]}"; do
    job_limit=() job_width=() job_wave=() job_command=() job_want=() job_show=() job_env=()
    "stage_$stage"
    printf '\n%s: about %s s. %s\n' "$stage" "${expected[$stage]}" "${purpose[$stage]}"
    for ((i = 0; i < ${#job_command[@]}; i++)); do
      if [ "${job_wave[i]}" != "$previous" ]; then
        previous=${job_wave[i]}
        if [ "${job_width[i]}" = 1 ]; then echo "  one after the other:"; else echo "  ${job_width[i]} at a time:"; fi
      fi
      environment=$(told "${job_env[i]}")
      printf '    %4s s at most  %s%s\n' "${job_limit[i]}" "${environment:+$environment }" "$(told "${job_command[i]}")"
    done
  done
}

# A quoted command as people read it: programs and files without their folders.
told() {
  local words=() word text=''
  eval "words=($1)"
  for word in ${words[@]+"${words[@]}"}; do
    case $word in
      LD_LIBRARY_PATH=*) word='[cuDNN]' ;;
      /*) word=${word##*/} ;;
    esac
    text+="${text:+ }$word"
  done
  printf '%s' "$text"
}

# ---- Running ----

# One job, in a subshell of its own: its log in $work/N.log, its exit code and milliseconds in $work/N.end.
run_job() {
  local n=$1 begin left code=0 words=() environment=()
  begin=${EPOCHREALTIME//[.,]/}
  left=$((deadline - SECONDS))
  if [ "$left" -lt 5 ]; then return; fi
  job_seconds=$((job_limit[n] < left ? job_limit[n] : left))
  eval "words=(${job_command[n]})"
  eval "environment=(${job_env[n]})"
  (
    if [ ${#environment[@]} -gt 0 ]; then export "${environment[@]?}"; fi
    if [[ ${LD_LIBRARY_PATH:-} == /missing-* && -z $tiny ]]; then
      echo "missing: libcudnn.so.9 (--cudnn DIR)"
      exit 127
    elif declare -F "${words[0]}" >/dev/null; then "${words[@]}"; else limited "${words[@]}"; fi
  ) >"$work/$n.log" 2>&1 </dev/null || code=$?
  echo "$code $(((${EPOCHREALTIME//[.,]/} - begin) / 1000))" >"$work/$n.end"
}

# All jobs of one stage, wave after wave. Each tells of its end through a pipe of its own: `wait -n` also returns for
# what ended earlier.
run_jobs() {
  local i running=0 previous=0 ended
  mkfifo "$work/ended"
  exec {ended}<>"$work/ended"
  for ((i = 0; i < ${#job_command[@]}; i++)); do
    while [ "$running" -gt 0 ] && { [ "${job_wave[i]}" != "$previous" ] || [ "$running" -ge "${job_width[i]}" ]; }; do
      read -r -n 1 -u "$ended"
      running=$((running - 1))
    done
    previous=${job_wave[i]}
    {
      run_job "$i"
      printf . >&"$ended"
    } &
    running=$((running + 1))
  done
  wait
  exec {ended}>&-
}

# What became of each: job_state, job_code, job_ms.
judge() {
  local i log code ms state skipped
  job_state=() job_code=() job_ms=()
  for ((i = 0; i < ${#job_command[@]}; i++)); do
    log=$work/$i.log code=- ms=0
    if [ ! -e "$work/$i.end" ]; then
      if [ -e "$log" ]; then state=CUT; else state='NOT RUN'; fi
    else
      read -r code ms <"$work/$i.end"
      case $code in
        0) state=ok ;;
        77) state=skipped ;;
        124 | 137) state='TIMED OUT' ;;
        127) state=MISSING ;;
        *) state=FAILED ;;
      esac
      if [ "$state" = ok ] && [ -n "${job_want[i]}" ] && ! grep -qE -- "${job_want[i]}" "$log"; then
        state=FAILED code="0, no '${job_want[i]}'"
      fi
      skipped=$(grep -oE '^\[  SKIPPED \] [a-z_]+$' "$log" | sort -u | wc -l)
      if [ "$skipped" -eq 0 ]; then skipped=$(grep -cE '^skipped( on [a-z0-9:]+)?[:,]' "$log"); fi
      if [ "$state" = ok ] && [ "$skipped" -gt 0 ]; then state="$skipped skipped"; fi
    fi
    job_state+=("$state") job_code+=("$code") job_ms+=("$ms")
    case $state in
      ok) ;;
      *skipped) if [ -z "$tiny" ]; then bad=$((bad + 1)); fi ;;
      *) bad=$((bad + 1)) ;;
    esac
  done
}

# The line of a log that says most: of a failure the first that tells of one, else the last that isn't a frame's.
meaning() {
  local line=''
  case $1 in
    ok | *skipped) ;;
    *) line=$(grep -m 1 -E 'FAILED|wrong:|ERROR SUMMARY: [1-9]|[Ee]rror|needed|unknown|accepted|missing' "$2") ;;
  esac
  if [ -z "$line" ]; then
    line=$(tr '\r' '\n' <"$2" | grep -vE '^[[:space:]]*$|^\[=+\]|^=+ *$|SKIPPED TEST' | tail -n 1)
  fi
  printf '%s' "$line"
}

# table FULL: FULL cuts nothing.
table() {
  local i command line
  printf '%-10s %4s %8s  %s\n' state exit seconds 'command | the last line that says something'
  for ((i = 0; i < ${#job_command[@]}; i++)); do
    command=$(told "${job_env[i]}")
    command=${command:+$command }$(told "${job_command[i]}")
    line=
    if [ -e "$work/$i.log" ]; then line=$(meaning "${job_state[i]}" "$work/$i.log"); fi
    if [ -z "$1" ]; then
      command=${command//--device /}
      if [ ${#command} -gt 78 ]; then command="${command:0:58}...${command: -17}"; fi
      if [ "${job_state[i]}" = ok ] && [ -z "${job_show[i]}" ]; then line=${line:0:100}; else line=${line:0:220}; fi
    fi
    printf '%-10s %4s %8s  %s | %s\n' "${job_state[i]}" "${job_code[i]}" \
      "$((job_ms[i] / 1000)).$((job_ms[i] % 1000 / 100))" "$command" "$line"
    if [ -n "${job_show[i]}" ] && [ -e "$work/$i.log" ]; then
      tr '\r' '\n' <"$work/$i.log" | grep -E -- "${job_show[i]}" | grep -vxF -- "$line" | head -n 12 | cut -c 1-230 |
        sed 's/^ */                /'
    fi
  done
}

# One stage's part of --out; prints nothing.
keep() {
  local stage=$1 i
  {
    printf '%s on %s, %s\n\n' "$stage" "$(uname -n)" "$(date -u '+%F %T UTC')"
    table full
    for ((i = 0; i < ${#job_command[@]}; i++)); do
      printf '\n######## %s: %s\n' "${job_state[i]}" "${job_env[i]}${job_command[i]}"
      if [ -e "$work/$i.log" ]; then
        head -c 100000 "$work/$i.log"
        if [ "$(stat -c %s "$work/$i.log")" -gt 100000 ]; then
          printf '\n[...]\n'
          tail -c 100000 "$work/$i.log"
        fi
      fi
    done
  } >"$out/$stage.txt"
  if [ -n "$(ls -A "$made")" ]; then tar -C "$made" -czf "$out/$stage.tar.gz" .; fi
}

# A process and what it started, as far as the kernel lists that.
end_tree() {
  local child
  local children
  read -r -a children <"/proc/$1/task/$1/children" || true
  for child in ${children[@]+"${children[@]}"}; do end_tree "$child"; done
  kill -TERM "$1"
}

# When it is ended from outside: nothing of its own runs on, and what there is is kept.
# shellcheck disable=SC2317,SC2329 # called by trap
cut_short() {
  local process
  for process in $(jobs -p); do end_tree "$process" 2>/dev/null; done
  finish_stage
  report
  exit 1
}

tables=()
finish_stage() {
  judge
  keep "$stage"
  tables+=("$(printf '\n== %s: %s s (about %s expected)\n' "$stage" "$((SECONDS - stage_began))" "${expected[$stage]}"
    table '')")
}

report() {
  printf '%s\n' ${tables[@]+"${tables[@]}"}
  echo
  if [ "$bad" -eq 0 ]; then
    echo "all good, $SECONDS s; logs: $out"
  else
    echo "$bad NOT PASSED, $SECONDS s; logs: $out"
  fi
}

if [ $mode = bundle ]; then
  for program in "${programs[@]}"; do printf '%s\n' "${bin:+$bin/}$program"; done
  exit 0
fi
if [ -z "$width" ]; then
  width=$(($(nproc) - 2))
  if [ "$width" -lt 2 ]; then width=2; fi
fi
if [ $mode = list ] && [ ${#stages[@]} -eq 0 ]; then stages=("${order[@]}"); fi
for stage in ${stages[@]+"${stages[@]}"}; do
  if [ -z "${expected[$stage]:-}" ]; then
    echo "check_device.sh: there is no stage '$stage'; there are ${order[*]}" >&2
    exit 2
  fi
done
absolute() { (cd "$1" 2>/dev/null && pwd) || { echo "check_device.sh: there is no folder '$1'" >&2; return 1; }; }
scratch=${scratch:-${TMPDIR:-/tmp}/rota-check-device-$(id -u)}
if [ $mode = list ]; then
  made=OUT
  list
  exit 0
fi
if [ -z "$bin" ] || [ -z "$data" ] || [ -z "$out" ] || [ ${#stages[@]} -eq 0 ]; then
  usage >&2
  exit 2
fi
mkdir -p "$out" "$scratch" || exit 2
bin=$(absolute "$bin") && data=$(absolute "$data") && out=$(absolute "$out") && scratch=$(absolute "$scratch") || exit 2
for tool in timeout awk sort sed grep tar od; do
  command -v $tool >/dev/null || { echo "check_device.sh: $tool is not installed" >&2; exit 2; }
done
if [ -z "$cudnn" ]; then
  cudnn=$("$python" -c 'import nvidia.cudnn as m; print(list(m.__path__)[0] + "/lib")' 2>/dev/null)
fi
if [ ! -e "$cudnn/libcudnn.so.9" ]; then cudnn=/missing-libcudnn.so.9; fi
if [ -z "$sanitizer" ]; then
  sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer || echo compute-sanitizer)
fi

deadline=$((SECONDS + limit)) bad=0
parent=$(mktemp -d)
trap 'rm -rf "$parent"' EXIT
trap cut_short TERM INT
for stage in "${stages[@]}"; do
  job_limit=() job_width=() job_wave=() job_command=() job_want=() job_show=() job_env=()
  work=$parent/$stage made=$parent/$stage.made stage_began=$SECONDS
  mkdir -p "$work" "$made"
  "stage_$stage"
  echo "$stage: ${#job_command[@]} commands, about ${expected[$stage]} s"
  cd "$work" || exit 2
  run_jobs
  finish_stage
done
report
[ "$bad" -eq 0 ]
