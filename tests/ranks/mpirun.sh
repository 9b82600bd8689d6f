#!/usr/bin/env bash
# mpirun.sh MPIEXEC RANKS FOLDER PROGRAM...: the program as so many ranks on this machine, also as root and on fewer
# cores, with rota's library for MPI in the folder. Of a program whose last argument is "killed" or "stopped" the last
# rank is: mpirun is to let the others live (which Open MPI can be told, and MPICH where one is only stopped; others
# skip it), and says how one left, whatever the others do; so what they say is looked at.
set -euo pipefail
mpiexec=$1 ranks=$2 folder=$3
shift 3
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# What --allow-run-as-root and --oversubscribe say, by the environment, since other MPIs don't know them.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# MPI's own leaks are none of rota's; threads in one process (test_ranks) are looked at for those.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
if [[ ${*: -1} != killed && ${*: -1} != stopped ]]; then
  exec timeout -k 10 600 "$mpiexec" -n "$ranks" "$@"
fi
version=$("$mpiexec" --version)
lets_live=()
case $version in
  *"Open MPI"* | *OpenRTE*) ;;
  *HYDRA*) lets_live=(-disable-auto-cleanup) ;;& # one that is killed takes its proxy with it all the same
  *)
    if [ "${*: -1}" != stopped ] || [ ${#lets_live[@]} = 0 ]; then
      echo "skipped: this mpirun ends all ranks when one is killed"
      exit 77
    fi
    ;;
esac
said=$(OMPI_MCA_orte_enable_recovery=1 timeout -k 10 600 "$mpiexec" "${lets_live[@]}" -n "$ranks" "$@" 2>&1) || true
if grep '^skipped' <<<"$said"; then
  exit 77
fi
for ((rank = 0; rank < ranks - 1; rank++)); do
  if ! grep -q "^rank $rank closed" <<<"$said"; then
    echo "rank $rank did not come to its end:"
    echo "$said"
    exit 1
  fi
done
grep "'the gradient'" <<<"$said"
