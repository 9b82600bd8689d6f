#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests: the release build's, then those of the address and
# undefined-behaviour sanitizers and of the thread sanitizer, in one ctest whose summary is the last thing printed.
# ./check.sh [--quick | --full] [--profile] [ctest options], such as -R submit
# Every test once in the release build, of some a part each day, and the sanitizers' runs of what matters, a third of
# the long ones each day (tests/levels.cmake): 15 minutes from nothing on two cores.
# --quick: without sanitizers and what takes long, in a build of its own that is soon there (build-quick): four minutes.
# --full: all parts and halves, more of everything, of which every day has another eighth (tests/draw.sh), and every
# other day clang's sanitizers. Without it nothing is built that only its tests need. Where no driver could run CUDA
# images they are only compiled, with --full for one architecture, another each day (build-usual, build-full).
# --profile: says at the end how long each build took, and the ten slowest tests.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/packages.sh
level=usual profile=
while :; do
  case ${1-} in
    --quick | --full) level=${1#--} ;;
    --profile) profile=yes ;;
    *) break ;;
  esac
  shift
done
if [ $level = full ]; then rota_packages+=(clang libclang-rt-dev abigail-tools man-db mandoc mmdebstrap zsh fish \
  lintian); fi
rota_install_missing

started=$SECONDS builds=()
. tests/draw.sh
export ROTA_DRAW=$draw # the same for all, also where a day begins meanwhile
echo "draw $draw (ROTA_DRAW=$draw repeats it)"
presets=(usual asan tsan)
labels=(-LE "full|third_[^$((draw % 3))]")
if [[ " $* " == *' -R '* ]]; then labels=(-LE full); fi # who names a test has it on any day
rota_options=(-DROTA_USUAL=ON -DROTA_CUDA_ONLY_COMPILES=ON)
case $level in
  quick)
    presets=(quick)
    labels=(-LE 'full|long')
    ;;
  full) # and, on odd days, what is short by clang's sanitizers
    presets=(full asan tsan)
    if [ $((draw % 2)) -eq 1 ]; then presets+=(clang); fi
    rota_options=(-DROTA_USUAL=OFF -DROTA_CUDA_ONLY_COMPILES=OFF "-DROTA_CUDA_DRAW=$draw")
    labels=(-LE "clang_long|eighth_[^$((draw % 8))]")
    ;;
esac
for preset in "${presets[@]}"; do
  echo "building $preset"
  began=$SECONDS
  case $preset in
    full | usual | quick) rota_build "$preset" ;;
    *) rota_build "$preset" rota_tests ;;
  esac
  builds+=("$((SECONDS - began)) s  building $preset")
done
echo "built in $((SECONDS - started)) s"

# One ctest over the build folders; the sanitizer folders prefix their tests' names.
mkdir -p build-check
printf "subdirs(\"$PWD/build-%s\")\n" "${presets[@]}" >build-check/CTestTestfile.cmake
# The thread sanitizer's memory layout does not fit every kernel's address randomisation.
fixed_addresses=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed_addresses=(setarch "$(uname -m)" -R); fi
# Five tests for two cores: they wait for their own threads and devices more than they compute (of fuzz_cpu's 79 s the
# processor has work for 19, of fuzz_adversary's 75 for 29, of fuzz_cuda_stub's 63 for 22).
tests=("${fixed_addresses[@]}" ctest --test-dir build-check --output-on-failure
  --parallel $((($(nproc) * 5 + 1) / 2)) "${labels[@]}" "$@")
[ -n "$profile" ] || exec "${tests[@]}"
failed=0
"${tests[@]}" --output-junit "$PWD/build-check/profile.xml" || failed=$?
printf '%s\n' "" "${builds[@]}" "The ten slowest tests, with others beside them:"
sed -n 's/.*<testcase name="\([^"]*\)".* time="\([0-9.]*\)".*/\2 \1/p' build-check/profile.xml | sort -rn |
  awk 'NR <= 10 { printf "%.0f s  %s\n", $1, $2 }'
exit "$failed"
