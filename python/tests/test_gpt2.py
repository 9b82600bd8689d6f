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


def farthest_logit(
    device: rota.Device, file: Path, sizes: tuple[int, ...], tokens: list[int], tool: Path | None
) -> float:
    """How far a logit is from the C trainer's at most, relative to the largest of those."""
    if tool is None:
        pytest.skip("no --gpt-tool, which has the C trainer's model")
    command = [str(tool), "logits", device.id, str(file), "gpt2", *map(str, [*sizes, *tokens])]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    expected = np.array([[float(number) for number in line.split()] for line in text.splitlines()])[: len(tokens)]
    plan = gpt2.forward(device, gpt2.weights(file), sizes[3], len(tokens))
    logits = plan(tokens=np.array([tokens], np.int32)).result()["logits"]
    assert logits.shape == expected.shape == (len(tokens), sizes[0])
    return float(np.abs(logits - expected).max() / np.abs(expected).max())


def test_logits_are_the_c_trainers(device: rota.Device, file: Path, pytestconfig: pytest.Config) -> None:
    sizes = (VOCABULARY, BLOCK, LAYERS, HEADS, DIM)
    assert farthest_logit(device, file, sizes, TOKENS, pytestconfig.getoption("--gpt-tool")) < 1e-5


def test_logits_at_its_own_size(cpu: rota.Device, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """GPT-2 124M in a file like the published one: of 548 MB, without a prefix, with each layer's mask."""
    if not pytestconfig.getoption("--large"):
        pytest.skip("without --large: a file of 548 MB")
    vocabulary, block, layers, heads, dim = sizes = (50257, 1024, 12, 12, 768)
    rng = np.random.default_rng(9)
    arrays = gpt.initial(vocabulary, block, layers, dim)
    for array in arrays.values():
        array += np.float32(0.02) * rng.standard_normal(array.shape, np.float32)
    assert sum(array.size for array in arrays.values()) == 124_439_808
    for layer in range(layers):
        arrays[f"h.{layer}.attn.bias"] = np.tril(np.ones((1, 1, block, block), np.float32))
    assert len(arrays) == 160
    gpt2.save(tmp_path / "model.safetensors", arrays)
    del arrays
    tokens = [464, 50256, 0, 2068, 7586, 17, 42]
    try:
        tool = pytestconfig.getoption("--gpt-tool")
        assert farthest_logit(cpu, tmp_path / "model.safetensors", sizes, tokens, tool) < 1e-5
    finally:
        (tmp_path / "model.safetensors").unlink()


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
