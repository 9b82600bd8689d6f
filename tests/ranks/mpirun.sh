#!/usr/bin/env bash
# mpirun.sh MPIEXEC RANKS FOLDER PROGRAM...: the program as so many ranks on this machine, also as root and on fewer
# cores, with rota's library for MPI in the folder.
set -euo pipefail
mpiexec=$1 ranks=$2 folder=$3
shift 3
export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# What --allow-run-as-root and --oversubscribe say, by the environment, since other MPIs don't know them.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
exec timeout -k 10 600 "$mpiexec" -n "$ranks" "$@"
