#!/usr/bin/env bash
# The GPT example's model against one written independently in numpy, in a virtual environment of its own: weights in
# the files of the Hugging Face GPT-2 (f32, f16, bf16), logits all at once and token after token; and what sampling
# draws.
# test_gpt_model.sh GPT_TOOL TRAIN_GPT
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
tool=$1 train=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 "$here/gpt_model_check.py" sampling "$tool" "$train"
if ! { python3 -m venv env && env/bin/pip install -q --disable-pip-version-check numpy safetensors; } >install.txt \
  2>&1; then
  echo "skipped, comparison with numpy's GPT-2: numpy and safetensors can't be installed ($(tail -n 1 install.txt))"
  exit 0
fi
env/bin/python "$here/gpt_model_check.py" logits "$tool" "$train"
echo "all good"
