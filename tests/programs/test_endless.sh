#!/usr/bin/env bash
# Programs whose device meets a kernel that never ends (endless_layer.c): each is over within its deadline, at most 30
# s, and 5 s more (SECONDS in all; on a busy machine a program takes some before its deadline begins), with a code that
# is not 0, though the driver's exit handlers would wait for ever.
# test_endless.sh [--full] FOLDER_OF_PROGRAMS LAYER.so [DEVICE [SECONDS]]
# --full: the programs, too, that wait for the default deadline, 30 s, which keep all cores busy by then.
set -euo pipefail
full=
if [ "$1" = --full ]; then full=yes && shift; fi
bin=$(readlink -f "$1") layer=$(readlink -f "$2") device=${3:-vk:0} most=${4:-300}
[ -e "$layer" ] || { echo "there is no layer '$layer'"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >endless.json <<END
{"file_format_version": "1.1.2", "layer": {"name": "VK_LAYER_ROTA_endless", "type": "GLOBAL", "library_path": "$layer",
 "api_version": "1.3.0", "implementation_version": "1", "description": "kernels that never end"}}
END
# What a software device's driver has compiled is not what is judged here.
export MESA_SHADER_CACHE_DIR=${MESA_SHADER_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}}
export VK_LAYER_PATH=$work VK_INSTANCE_LAYERS=VK_LAYER_ROTA_endless XDG_CACHE_HOME=$work
head -c 20000 /dev/zero | tr '\0' 'a' >text
find_program() { find "$bin" -maxdepth 2 -name "$1" -type f -perm -u+x | head -n 1; }

touch passed
# look MODULES_BEFORE PATTERN CODES PROGRAM ARGUMENTS...: in the background; a line of its output in `passed` when all
# is as it should be.
number=0
look() {
  number=$((number + 1))
  {
    local id=$BASHPID before=$1 pattern=$2 codes=$3 name=$4 program code=0 begin=$SECONDS
    program=$(find_program "$4")
    shift 4
    ROTA_TEST_ENDLESS=$before timeout -s KILL $((most + 20)) nice -n 19 "$program" "$@" >"$id.output" 2>&1 || code=$?
    local seconds=$((SECONDS - begin))
    echo "$name $before: code $code after $seconds s: $(grep -aE "$pattern" "$id.output" | head -n 1)"
    if ! [[ $code =~ ^($codes)$ ]] || [ $seconds -gt "$most" ] || ! grep -qaE "$pattern" "$id.output"; then
      echo "FAILED: $name: code $code, expected $codes; $seconds s, at most $most; '$pattern' in:"
      cat "$id.output"
    else
      echo "$name" >>passed
    fi
  } &
}

if [ $full ]; then
  # With the first module: the device is refused.
  look 0 'REFUSED.*smoke' 3 rota-bench smoke --device "$device"
  # With one of the program's own. What close says, and that the exit handlers are left out.
  look 2 'deadline passed' 1 quickstart "$device"
fi
look 4 "did not come to an end" 4 train_gpt --timeout 5 --data text --device "$device" --tokenizer char --iters 5 \
  --batch 1 --dim 16 --heads 2 \
  --layers 1 --block 16 --eval-iters 0
# A device that was asked for and is refused is no reason to skip its tests.
look 0 'FAILED, every case: .*REFUSED' 1 conformance --device "$device" --patience 5
wait
[ "$(wc -l <passed)" -eq "$number" ] || exit 1
echo "all good"
