#!/usr/bin/env bash
# mpirun.sh MPIEXEC RANKS FOLDER PROGRAM...: the program as so many ranks on this machine, also as root and on fewer
# cores, with rota's library for MPI in the folder.
set -euo pipefail
mpiexec=$1 ranks=$2 folder=$3
shift 3
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
options=()
if "$mpiexec" --version 2>&1 | grep -qi 'open mpi\|open-rte'; then
  options=(--oversubscribe)
  [[ $(id -u) -eq 0 ]] && options+=(--allow-run-as-root)
fi
exec timeout 600 "$mpiexec" "${options[@]}" -n "$ranks" "$@"
