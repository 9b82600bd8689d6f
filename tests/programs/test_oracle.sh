#!/usr/bin/env bash
# The training steps of train_gpt and train_patchtst against an independent autodiff, JAX on the CPU: identical weights
# and data, loss and every gradient. JAX is installed into a virtual environment in the user's cache folder, once.
# test_oracle.sh ORACLE_TOOL
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
tool=$1
env=${XDG_CACHE_HOME:-$HOME/.cache}/rota-tests/jax
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python=$env/bin/python
if ! "$python" -c 'import jax, safetensors' 2>/dev/null; then
  mkdir -p "$(dirname "$env")"
  # Made elsewhere and moved, since two runs may come here at once; the modules don't mind where they are.
  if ! { python3 -m venv "$env.$$" && "$env.$$/bin/pip" install -q --disable-pip-version-check jax safetensors; } \
    >install.txt 2>&1; then
    rm -rf "$env.$$"
    echo "skipped, comparison with JAX: jax and safetensors can't be installed ($(tail -n 1 install.txt))"
    exit 0
  fi
  rm -rf "$env"
  mv -T "$env.$$" "$env" 2>/dev/null || rm -rf "$env.$$"
fi
# What is run once need not be compiled well.
export JAX_PLATFORMS=cpu XLA_FLAGS="--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"$python" "$here/oracle_check.py" "$tool"
echo "all good"
