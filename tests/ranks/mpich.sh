#!/usr/bin/env bash
# mpich.sh SOURCE FOLDER: ranks by MPICH where the build has another MPI: rota's library for MPI is built with MPICH's
# header, and the tests' programs, which open whichever is found, are run by its mpiexec. FOLDER has those. MPICH is
# Debian's (mpich, libmpich-dev), which stands beside Open MPI, or of a folder that $ROTA_TEST_MPICH names, into which
# its packages were unpacked. 77: it is not there.
set -euo pipefail
source=$1 folder=$2
here=$(dirname "$(readlink -f "$0")")
root=${ROTA_TEST_MPICH:-}
header=$(find "$root"/usr/lib/*/mpich/include "$root"/usr/include -name mpi.h 2>/dev/null |
  xargs -r grep -l MPICH_VERSION | head -1 || true)
library=$(find "$root"/usr/lib/ -name libmpich.so.12 2>/dev/null | head -1 || true)
mpiexec=$root/usr/bin/mpiexec.mpich
if [ -z "$header" ] || [ -z "$library" ] || ! [ -x "$mpiexec" ]; then
  echo "skipped: there is no MPICH (mpich, libmpich-dev)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -shared -fPIC -I "$source" -I "$(dirname "$header")" \
  "$source/exec/comm/mpi/shim.c" "$library" -o "$work/librota_mpi.so.1"
export LD_LIBRARY_PATH=$(dirname "$library")
# run RANKS PROGRAM ARGUMENT...
run() {
  local ranks=$1 program=$2 code=0
  shift 2
  "$here/mpirun.sh" "$mpiexec" "$ranks" "$work" "$folder/$program" "$@" >"$work/said" 2>&1 || code=$?
  if [ $code != 0 ] || grep -q 'WARN\|^skipped' "$work/said"; then
    echo "$program $* on $ranks ranks: exit code $code"
    head -50 "$work/said"
    exit 1
  fi
}
run 2 mpi_transport
run 4 mpi_transport
run 2 mpi_ranks
run 4 mpi_ranks
run 4 mpi_faults stopped
run 4 rota-fuzz-ranks --mpi --count 40 --seed 980001
# A program that is linked with Open MPI is told so.
if ldd "$folder/mpi_given" 2>/dev/null | grep -q 'libmpi\.so'; then
  "$here/mpirun.sh" "$mpiexec" 1 "$work" "$folder/mpi_given" >"$work/said" 2>&1 || true
  grep -q 'the process has another MPI than' "$work/said" || { cat "$work/said" && exit 1; }
fi
echo "MPICH: all good"
