#!/usr/bin/env bash
# Builds the Python package over a release build's library, in a virtual environment of its own, and runs its tests and
# the type checker there. run.sh BUILD [--torch | --jax | --free]
# --free: the tests alone, by a Python without an interpreter's lock.
# Exits with 77, which is skipped, where the Python registry does not answer, and with --free where there is no such
# Python.
set -euo pipefail
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
with=${2:-}
# JAX and numba have an environment of their own, in which the tests are those that need them.
name=python
tests=(.)
packages=(-r "$here/requirements.txt")
large=()
if [ "$with" = --torch ]; then # which check.sh has with --full alone
  packages+=(-r "$here/requirements-torch.txt")
  large=(--large)
fi
if [ "$with" = --jax ]; then
  name=python-jax
  tests=(test_jax.py test_jax_arrays.py test_jax_gpu.py test_numba.py test_pages.py)
  packages+=(-r "$here/requirements-jax.txt")
fi
. "$here/../../scripts/pip_install.sh"
if [ "$with" = --free ]; then
  name=python-free
  python=$(rota_find_python 3.14t || rota_find_python 3.13t) || {
    echo "skipped: there is no free-threaded Python (python3.14t, python3.13t)"
    exit 77
  }
  # What no type is checked by: some of mypy is not built for such Pythons.
  mapfile -t packages < <(grep -vE '^(#|mypy)' "$here/requirements.txt")
  export PYTHON_GIL=0 # whatever an extension module says
fi
venv=$build/$name-venv
[ -z "${python:-}" ] || [ -x "$venv/bin/pip" ] || "$python" -m venv "$venv"
rota_pip_install "$venv" "${packages[@]}"
rota_pip_install_package "$venv" "$build" "$name-build"
cd "$here"
gpt_tool=()
if [ -x "$build/tests/gpt_tool" ]; then gpt_tool=(--gpt-tool "$build/tests/gpt_tool"); fi
mpi=()
if [ -e "$build/librota_mpi.so.1" ]; then mpi=(--mpi-folder "$build"); fi
"$venv/bin/pytest" -q -rs -p no:cacheprovider "${gpt_tool[@]}" "${mpi[@]}" "${large[@]}" "${tests[@]}"
# With the stand-in for the CUDA driver, which PyTorch does not take for one.
if { [ -z "$with" ] || [ "$with" = --free ]; } && [ -f "$build/tests/stub_driver/libcuda.so.1" ]; then
  LD_LIBRARY_PATH=$build/tests/stub_driver "$venv/bin/pytest" -q -rs -p no:cacheprovider \
    test_streams.py test_allocator.py
fi
if [ "$with" = --torch ] && [ -f "$build/tests/stub_driver/libcuda.so.1" ]; then
  LD_LIBRARY_PATH=$build/tests/stub_driver "$venv/bin/pytest" -q -rs -p no:cacheprovider \
    test_torch_ranks.py -k memory
fi
[ "$with" != --free ] || exit 0
"$venv/bin/mypy" --config-file ../pyproject.toml --cache-dir "$build/$name-mypy" . ../examples
"$venv/bin/mypy" --config-file ../pyproject.toml --cache-dir "$build/$name-mypy" -p rota
