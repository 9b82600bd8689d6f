#!/usr/bin/env bash
# Byte-pair encoding against Hugging Face's tokenizers, which this installs into a virtual environment of its own, and
# against a slow obvious one: the merges learned are the same, and so are the tokens of texts with all that is awkward.
# test_gpt_bpe.sh GPT_TOOL [plain]    plain: only against the obvious one
set -euo pipefail
tool=$1
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 "$here/gpt_bpe_check.py" plain "$tool"
[ "${2:-}" != plain ] || exit 0
if ! { python3 -m venv env && env/bin/pip install -q --disable-pip-version-check tokenizers; } >install.txt 2>&1; then
  echo "skipped, comparison with Hugging Face's tokenizers: they can't be installed ($(tail -n 1 install.txt))"
  exit 0
fi
env/bin/python "$here/gpt_bpe_check.py" tokenizers "$tool"
echo "all good"
