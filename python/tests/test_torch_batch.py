"""Batch norm taken apart (rota/torch/batch_norm.py), as it is on GPUs, and inputs that a graph changes."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import test_torch
import torch
from conftest import gpu_marks
from torch import nn

import rota.torch
from rota.torch import batch_norm, program


@pytest.fixture(autouse=True, params=["shared", "fixed"])
def fresh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken apart on the CPU, too, in plans of both kinds."""
    monkeypatch.setattr(batch_norm, "GPU_ALONE", False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # whose rounding is larger than what is compared
    if request.param == "fixed":
        monkeypatch.setattr(program, "FIXED", {"cpu", "cuda"})
    torch._dynamo.reset()
    rota.torch.reset_ops()
    torch.manual_seed(3)


KIND = pytest.mark.parametrize("kind", ["cpu", pytest.param("cuda", marks=gpu_marks())])


def images() -> nn.Module:
    layers = [nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 5, 3, bias=False), nn.BatchNorm2d(5, affine=False)]
    return nn.Sequential(*layers)


def rows() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 7), nn.BatchNorm1d(7, momentum=0.3, eps=1e-3), nn.ReLU())


def run(model: nn.Module, called: Callable[..., Any], x: Any) -> list[Any]:
    """Of some steps: results, gradients, and the statistics after them."""
    found = []
    for i in range(3):
        model.zero_grad()
        given = (x + i).requires_grad_()
        y = called(given)
        (y * torch.linspace(-1, 2, y.numel(), device=y.device).reshape(y.shape)).sum().backward()
        found += [y.detach(), given.grad, *(p.grad for p in model.parameters())]
    return [*found, *(buffer.clone() for buffer in model.buffers())]


@KIND
@pytest.mark.parametrize("channels_last", [False, True])
def test_batch_norm_of_images(kind: str, channels_last: bool) -> None:
    model, x = images().to(kind), 3 * torch.randn(4, 6, 9, 8, device=kind)
    x = x.to(memory_format=torch.channels_last) if channels_last else x
    check(model, x)


@KIND
def test_batch_norm_of_rows(kind: str) -> None:
    check(rows().to(kind), torch.randn(11, 6, device=kind))


def check(model: nn.Module, x: Any) -> None:
    other = copy.deepcopy(model)
    expected, got = run(model, model, x), run(other, torch.compile(other, backend="rota"), x)
    for one, wanted in zip(got, expected, strict=True):
        assert one.dtype == wanted.dtype
        torch.testing.assert_close(one, wanted, rtol=1e-4, atol=1e-4)
    counts = rota.torch.ops()
    assert str(batch_norm.STATS) in counts["rota"] and str(batch_norm.SUMS) in counts["rota"]
    assert not [op for op in counts["torch"] if "batch_norm" in op]
    test_torch.no_host()


def test_batch_norm_without_training() -> None:
    """The running ones are read, and stay."""
    model = images()
    model(torch.randn(4, 6, 9, 8))
    model.eval()
    before = [buffer.clone() for buffer in model.buffers()]
    x = torch.randn(2, 6, 9, 8)
    torch.testing.assert_close(torch.compile(model, backend="rota")(x), model(x), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(one, other) for one, other in zip(before, model.buffers(), strict=True))


def test_batch_norm_in_a_captured_step() -> None:
    found = []
    for is_captured in (False, True):
        torch.manual_seed(5)
        model, x = images(), torch.randn(4, 6, 9, 8)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean() + model(x).abs().mean()
            loss.backward()
            optimizer.step()
            return loss

        called: Any = step
        if is_captured:
            called = rota.torch.capture(step, modules=[model], optimizers=[optimizer])
        losses = torch.tensor([float(called(x + i).detach()) for i in range(4)])
        found.append([losses, *(one.detach() for one in (*model.parameters(), *model.buffers()))])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_inputs_that_change_do_so_at_the_end() -> None:
    """What the graph reads of them is what was there, and what shares their memory sees the new."""

    class Counter(nn.Module):
        seen: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.arange(4.0))

        def forward(self, x: Any) -> Any:
            before = self.seen * 2
            self.seen.add_(x.sum())
            return before + self.seen + x

    model = Counter()
    other, view = copy.deepcopy(model), model.seen[1:]
    called = torch.compile(model, backend="rota")
    for i in range(3):
        x = torch.randn(4) + i
        torch.testing.assert_close(called(x), other(x))
        torch.testing.assert_close(model.seen, other.seen)
        torch.testing.assert_close(view, other.seen[1:])
    test_torch.no_host()
