"""GPT-2 from a file of its published layout: the logits of the C trainer's model, writing, and further training."""

import subprocess
from pathlib import Path
from typing import Any

import gpt
import gpt2
import numpy as np
import pytest

import rota

VOCABULARY, BLOCK, LAYERS, HEADS, DIM = 61, 12, 2, 3, 48
TOKENS = [5, 60, 0, 17, 17, 3, 42]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small one, whose numbers are large enough to matter."""
    rng = np.random.default_rng(9)
    arrays: dict[str, Any] = {}
    for name, array in gpt.initial(VOCABULARY, BLOCK, LAYERS, DIM).items():
        arrays["transformer." + name] = (array + 0.3 * rng.standard_normal(array.shape)).astype(np.float32)
    arrays["transformer.h.0.attn.bias"] = np.ones((1, 1, BLOCK, BLOCK), np.float32)  # as in the published file
    gpt2.save(tmp_path / "model.safetensors", arrays)
    return tmp_path / "model.safetensors"


def test_names_of_the_file(file: Path) -> None:
    arrays = gpt2.weights(file)
    assert set(arrays) == set(gpt.initial(VOCABULARY, BLOCK, LAYERS, DIM))
    again = file.with_name("bf16.safetensors")
    gpt2.save(again, {name: (array.view(np.uint32) >> 16).astype(np.uint16) for name, array in arrays.items()})
    np.testing.assert_allclose(gpt2.weights(again)["wte.weight"], arrays["wte.weight"], rtol=2**-7)


def test_logits_are_the_c_trainers(device: rota.Device, file: Path, pytestconfig: pytest.Config) -> None:
    tool = pytestconfig.getoption("--gpt-tool")
    if tool is None:
        pytest.skip("no --gpt-tool, which has the C trainer's model")
    numbers = [VOCABULARY, BLOCK, LAYERS, HEADS, DIM, *TOKENS]
    command = [str(tool), "logits", device.id, str(file), "gpt2", *map(str, numbers)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    expected = np.array([[float(number) for number in line.split()] for line in text.splitlines()])[: len(TOKENS)]
    plan = gpt2.forward(device, gpt2.weights(file), HEADS, len(TOKENS))
    logits = plan(tokens=np.array([TOKENS], np.int32)).result()["logits"]
    assert logits.shape == expected.shape == (len(TOKENS), VOCABULARY)
    assert np.abs(logits - expected).max() < 1e-5 * np.abs(expected).max()


def test_writes_and_trains(cpu: rota.Device, file: Path) -> None:
    arrays = gpt2.weights(file)
    plan = gpt2.forward(cpu, arrays, HEADS, BLOCK)
    text = gpt2.write(plan, TOKENS, 8, BLOCK)
    assert text[: len(TOKENS)] == TOKENS and len(text) == len(TOKENS) + 8
    data = np.tile(np.arange(20, dtype=np.uint16), 30)
    step, losses = gpt2.train(cpu, arrays, data, heads=HEADS, steps=40, batch=4, block=8, lr=3e-3)
    assert losses[-1] < losses[0] / 3
    tuned = {name: tensor.numpy() for name, tensor in step.params.items()}
    assert gpt2.write(gpt2.forward(cpu, tuned, HEADS, BLOCK), [3, 4, 5, 6, 7], 3, BLOCK)[-3:] == [8, 9, 10]
