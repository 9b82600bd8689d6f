#!/usr/bin/env bash
# The package's tests on a machine with an NVIDIA GPU that has a python3 with PyTorch, JAX or both, but not what rota
# is built with: in the folder that bundle_device.sh makes, tests/run_device.sh [pytest's options], or, for a program
# of the tests' (torch_zoo.py), tests/run_device.sh --run PROGRAM [arguments]. python3 is of the wheel's version or a
# later one.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
python3 -m pip install -q --disable-pip-version-check --no-index --no-deps --no-compile --target "$site" \
  "$here"/../wheels/*.whl
libraries=$(realpath "$here/../lib")
export PYTHONPATH=$site LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export XLA_PYTHON_CLIENT_PREALLOCATE=false # of JAX, which else takes most of the GPU's memory when it is imported
cd "$here"
if [ "${1:-}" = --run ]; then
  shift
  python3 "$@"
  exit
fi
[ $# -gt 0 ] || set -- -k "cuda or gpu"
python3 -m pytest -q -rs -p no:cacheprovider "$@"
