#!/usr/bin/env bash
# Builds the Python package over a release build's library, in a virtual environment of its own, and runs its tests and
# the type checker there. run.sh BUILD [--torch | --jax]
# Exits with 77, which is skipped, only where the Python registry does not answer.
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
venv=$build/$name-venv

. "$here/../../scripts/pip_install.sh"
rota_pip_install "$venv" "${packages[@]}"
rota_pip_install_package "$venv" "$build" "$name-build"
cd "$here"
gpt_tool=()
if [ -x "$build/tests/gpt_tool" ]; then gpt_tool=(--gpt-tool "$build/tests/gpt_tool"); fi
mpi=()
if [ -e "$build/librota_mpi.so.1" ]; then mpi=(--mpi-folder "$build"); fi
"$venv/bin/pytest" -q -rs -p no:cacheprovider "${gpt_tool[@]}" "${mpi[@]}" "${large[@]}" "${tests[@]}"
# With the stand-in for the CUDA driver, which PyTorch does not take for one.
if [ -z "$with" ] && [ -f "$build/tests/stub_driver/libcuda.so.1" ]; then
  LD_LIBRARY_PATH=$build/tests/stub_driver "$venv/bin/pytest" -q -rs -p no:cacheprovider \
    test_streams.py test_allocator.py
fi
"$venv/bin/mypy" --config-file ../pyproject.toml --cache-dir "$build/$name-mypy" . ../examples
"$venv/bin/mypy" --config-file ../pyproject.toml --cache-dir "$build/$name-mypy" -p rota
