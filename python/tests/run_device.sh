#!/usr/bin/env bash
# The package's tests on a machine with an NVIDIA GPU that has a python3 with PyTorch and pytest, but not what rota is
# built with. run_device.sh WHEEL LIBRARIES [pytest's options]
# WHEEL: built elsewhere, for that python3's version or an earlier one from 3.12 on; LIBRARIES: a folder with the shared
# libraries that it needs and the machine may not have (bundle_device.sh makes both).
set -euo pipefail
wheel=$(realpath "$1") libraries=$(realpath "$2")
shift 2
here=$(dirname "$(realpath "$0")")
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
python3 -m pip install -q --no-index --no-deps --no-compile --target "$site" "$wheel"
export PYTHONPATH=$site LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cd "$here"
[ $# -gt 0 ] || set -- -k "cuda or gpu"
python3 -m pytest -q -rs -p no:cacheprovider "$@"
