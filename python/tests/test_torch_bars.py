"""torch_bars.py: its table of a model that is right, and what it says of one that is not."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch_bars as bars
import torch_data as data
import torch_zoo as zoo
from torch import nn


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(Path(bars.__file__)), *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=300)


def test_a_model_that_is_right() -> None:
    ran = run("--steps", "3", "lstm")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "6 of 6 within their bars" in ran.stdout
    lines = ran.stdout.splitlines()
    name, *cells = next(line for line in lines if line.startswith("lstm")).split()
    again, rounding = (next(line for line in lines if line.startswith("  " + text)) for text in bars.FLOORS.values())
    assert again.split()[2:] == ["0.0e+00"] * 2  # eager on a CPU is the same each time
    f32, bf16 = (float(cell) for cell in rounding.split()[3:])
    assert 0 <= f32 <= bars.BARS["f32"] and 0 <= bf16 <= bars.BARS["bf16"]
    figures, ops = [float(cell) for cell in cells[:6]], [int(cell) for cell in cells[6:9]]
    assert all(0 <= figure <= most for figure, most in zip(figures, bars.BARS.values(), strict=True))
    assert ops[0] > 0 and ops[2] == 0


def test_each_step_has_a_batch_of_its_own() -> None:
    """The same one each time that it is asked for, with something in it that can be learned."""
    for name in zoo.MODELS:
        batches = zoo.make_batches(name)[1]
        for one, again, other in zip(batches(3), batches(3), batches(4), strict=True):
            assert torch.equal(one, again) and not torch.equal(one, other)
    followers: dict[int, set[int]] = {}
    for step in range(20):
        words, following = (row.flatten().tolist() for row in data.language(50, 4, 64, step))
        for word, next_one in zip(words, following, strict=True):
            followers.setdefault(word, set()).add(next_one)
    assert len(followers) > 25 and all(len(some) <= len(data.FOLLOWERS) for some in followers.values())
    source, begun, target = data.translation(50, 200, 8, 0)
    dictionary = {word: other for word, other in zip(source.flatten().tolist(), target.flatten().tolist(), strict=True)}
    assert torch.equal(source.apply_(dictionary.__getitem__), target) and torch.equal(begun[:, 1:], target[:, :-1])
    images, labels = data.discs(3, 8, 16, 0)
    means = [images.permute(0, 2, 3, 1).flatten(1, 2)[labels == one].mean(0) for one in range(3)]
    assert min(float((a - b).norm()) for a, b in ((means[0], means[1]), (means[1], means[2]))) > 0.5


@pytest.mark.parametrize("name", ["lstm", "gpt2", "translator"])
def test_losses_fall(name: str) -> None:
    losses = zoo.train(name, 50)
    assert sum(losses[40:]) / 10 < 0.96 * sum(losses[:5]) / 5


def test_what_is_a_rounding_off() -> None:
    model = nn.Linear(64, 64)
    before = model.weight.detach().clone()
    bars.round_off(model)
    moved = (model.weight.detach() - before).abs() / before.abs()
    assert 0 < float(moved.min()) and float(moved.max()) <= 2**-23


def test_a_model_of_somebody_elses(tmp_path: Path) -> None:
    """torch_zoo.py and torch_bars.py take a file and a function of it; neither is edited for that."""
    file = tmp_path / "their_models.py"
    file.write_text(
        "import torch\n"
        "def tiny(full, count):\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 10))\n"
        "    return model, [torch.randn(count or 4, 8), torch.randint(10, (count or 4,))]\n"
    )
    ran = run("--steps", "3", f"{file}:tiny")
    assert ran.returncode == 0 and "6 of 6 within their bars" in ran.stdout, ran.stdout + ran.stderr
    program = [sys.executable, str(Path(zoo.__file__)), f"{file}:tiny"]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and "tiny: forward off by" in ran.stdout, ran.stdout + ran.stderr
    for wrong in (f"{file}:none", f"{tmp_path}/nothing.py:tiny"):
        ran = run(wrong)
        assert ran.returncode == 2 and f"model '{wrong}':" in ran.stderr


def test_one_that_does_not_end_in_time() -> None:
    ran = run("--limit", "0.2", "lstm")
    assert ran.returncode == 1 and "FAILED: not done after" in ran.stdout and "0 of 6" in ran.stdout


@pytest.mark.parametrize("given", [["nope"], ["--steps", "0"], ["--here", "lstm", "vit"]])
def test_wrong_arguments(given: list[str]) -> None:
    assert run(*given).returncode == 2


class Wrong(nn.Module):
    """Another function where it is compiled or captured than where it is not."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.linear, self.factor = nn.Linear(8, 10), factor

    def forward(self, x: Any) -> Any:
        return self.linear(x * (self.factor if torch.compiler.is_compiling() else 1.0))


def measured(factor: float, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    def wrong(full: bool, count: int | None) -> Any:
        return Wrong(factor), [torch.randn(4, 8), torch.randint(10, (4,))]

    models: dict[str, Callable[[bool, int | None], Any]] = {"wrong": wrong}
    monkeypatch.setattr(zoo, "MODELS", models)
    return list(bars.measure(bars.Model("wrong", False, "cpu", 4)))


def test_a_model_that_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert bars.show("wrong", measured(1.0, monkeypatch), "", 1)
    assert "MISSED" not in capsys.readouterr().out
    assert not bars.show("wrong", measured(1.1, monkeypatch), "", 1)
    said = capsys.readouterr().out
    for what in ("forward", "gradients", "f32", "bf16"):
        assert f"    {what}: over" in said and "MISSED" in said


def test_near_to_exact() -> None:
    """A figure over its bar is let pass where eager is as far from what is exact; one that is missing, or is no number,
    is not."""
    rows = [{"what": what, "off": 0.0} for what in bars.BARS]

    def shown(**changes: Any) -> bool:
        return bars.show("one", [rows[0] | changes, *rows[1:]], "", 1)

    assert shown() and shown(off=3e-5, exact=3e-5, eager=2e-5)
    assert not shown(off=3e-5, exact=5e-5, eager=2e-5)
    nan = float("nan")
    assert not shown(off=nan, exact=nan, eager=nan)
    assert not bars.show("one", rows[1:], "", 1)
    assert not bars.show("one", rows, "exit status -11", 1)


def test_what_is_no_number_is_far() -> None:
    nan = float("nan")
    assert bars.apart([1.0, nan], [1.0, 1.0]) == float("inf") and bars.apart([1.0, 3.0], [1.5, 3.0]) == 0.5
    assert bars.apart([1.0, 3.0], [1.5, 4.0], relative=True) == 0.5 / 1.5
    expected = {"a": torch.ones(2), "b": torch.ones(2)}
    assert zoo.grads_off(expected, expected) == 0
    assert zoo.grads_off({"a": torch.ones(2), "b": torch.tensor([nan, 1.0])}, expected) == float("inf")
