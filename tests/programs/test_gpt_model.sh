#!/usr/bin/env bash
# The GPT example's model against one written independently in numpy, in the virtual environment of the Python package's
# tests: weights in the files of the Hugging Face GPT-2 (f32, f16, bf16), logits all at once and token after token; and
# what sampling draws.
# test_gpt_model.sh GPT_TOOL TRAIN_GPT BUILD
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
tool=$1 train=$2 venv=$3/python-venv
. "$here/../../scripts/pip_install.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 "$here/gpt_model_check.py" sampling "$tool" "$train"
code=0
(rota_pip_install "$venv" -c "$here/../../python/tests/requirements.txt" numpy safetensors) >install.txt 2>&1 || code=$?
if [ $code -eq 77 ]; then
  echo "skipped, comparison with numpy's GPT-2: $(tail -n 1 install.txt)"
  exit 0
elif [ $code -ne 0 ]; then
  cat install.txt
  exit 1
fi
"$venv/bin/python" "$here/gpt_model_check.py" logits "$tool" "$train"
echo "all good"
