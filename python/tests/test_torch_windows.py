"""Convolutions and pooling of PyTorch's by rota's ops, with their gradients, beside eager PyTorch."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import test_torch
import torch
from conftest import gpu_marks
from torch import nn
from torch.nn import functional as F

import rota.torch

torch.manual_seed(3)
PLANE, LINE = torch.randn(2, 6, 9, 11), torch.randn(3, 6, 13)


def of(*shape: int) -> Any:
    return torch.randn(*shape)


CONVOLUTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "conv2d": (F.conv2d, (PLANE, of(5, 6, 3, 3))),
    "conv2d with a bias": (F.conv2d, (PLANE, of(5, 6, 3, 2), of(5))),
    "conv2d strided, padded": (lambda x, w: F.conv2d(x, w, None, (2, 3), (1, 2)), (PLANE, of(4, 6, 3, 4))),
    "conv2d dilated": (lambda x, w: F.conv2d(x, w, None, 1, 2, (2, 3)), (PLANE, of(4, 6, 3, 2))),
    "conv2d in groups": (lambda x, w, b: F.conv2d(x, w, b, groups=3), (PLANE, of(9, 2, 3, 3), of(9))),
    "conv2d of each channel": (lambda x, w: F.conv2d(x, w, None, 2, 1, groups=6), (PLANE, of(6, 1, 3, 3))),
    "conv2d whose last windows end early": (lambda x, w: F.conv2d(x, w, None, 4), (PLANE, of(5, 6, 2, 2))),
    "conv2d of what is transposed": (lambda x, w: F.conv2d(x.transpose(2, 3), w), (PLANE, of(5, 6, 3, 3))),
    "conv1d": (F.conv1d, (LINE, of(5, 6, 3), of(5))),
    "conv1d strided": (lambda x, w: F.conv1d(x, w, None, 2, 1, 2, 2), (LINE, of(4, 3, 3))),
    "conv_transpose2d": (F.conv_transpose2d, (PLANE, of(6, 5, 3, 3), of(5))),
    "conv_transpose2d strided": (
        lambda x, w: F.conv_transpose2d(x, w, None, (2, 3), 1, (1, 2), 2),
        (PLANE, of(6, 4, 3, 4)),
    ),
    "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, None, 2), (LINE, of(6, 5, 2))),
    "conv2d of bf16": (lambda x, w: F.conv2d(x.bfloat16(), w.bfloat16()).float(), (PLANE, of(5, 6, 3, 3))),
}
# On a GPU what lies in another order than by channels first or last is PyTorch's kernels'.
IN_OTHER_ORDERS = {"conv2d of what is transposed"}
POOLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (PLANE,)),
    "max_pool2d overlapping": (lambda x: F.max_pool2d(x, (3, 2), 2, 1, ceil_mode=True), (PLANE,)),
    "max_pool2d dilated": (lambda x: F.max_pool2d(x, 3, (1, 2), 1, 2), (PLANE,)),
    "max_pool2d and where": (lambda x: F.max_pool2d_with_indices(x, 3, 2), (PLANE,)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2), (LINE,)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (PLANE,)),
    "avg_pool2d padded": (lambda x: F.avg_pool2d(x, (3, 4), 2, 1, ceil_mode=True), (PLANE,)),
    "avg_pool2d of x alone": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (PLANE,)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 1)), (PLANE,)),
}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=gpu_marks())])
def home(request: pytest.FixtureRequest) -> Iterator[str]:
    torch._dynamo.reset()
    rota.torch.reset_ops()
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield str(request.param)


def values(
    function: Callable[..., Any], inputs: tuple[Any, ...], home: str, last: bool = False
) -> tuple[list[Any], tuple[Any, ...]]:
    """Results, and the gradients of a sum of them; of images by channels last or not."""
    given = [x.to(home) for x in inputs]
    given = [x.to(memory_format=torch.channels_last) if last and x.dim() == 4 else x for x in given]
    given = [x.detach().requires_grad_() for x in given]
    made = function(*given)
    results = list(made) if isinstance(made, tuple) else [made]
    loss = sum((result * torch.arange(1, result.shape[-1] + 1, device=home)).sum() for result in results[:1])
    return [result.detach() for result in results], torch.autograd.grad(loss, given)


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *POOLS])
def test_window(home: str, name: str) -> None:
    function, inputs = (CONVOLUTIONS | POOLS)[name]
    expected, gradients = values(function, inputs, home)
    got, got_gradients = values(test_torch.compiled(function), inputs, home)
    for one, other in zip([*got, *got_gradients], [*expected, *gradients], strict=True):
        assert one.dtype == other.dtype
        near = {"rtol": 1e-4, "atol": 1e-4} if one.is_floating_point() else {"rtol": 0.0, "atol": 0.0}
        if "bf16" in name:  # a rounding of the largest, as of what is added up in eager on some processors
            near = {"rtol": 0.0, "atol": float(other.abs().max()) * 2**-7}
        torch.testing.assert_close(one, other, **near)
    on_torch = [op for op in rota.torch.ops()["torch"] if "conv" in op or "pool" in op]
    on_rota = [op for op in rota.torch.ops()["rota"] if "conv" in op or "pool" in op]
    assert rota.torch.ops()["host"] == {}
    if home != "cpu" and name in IN_OTHER_ORDERS:
        on_torch, on_rota = on_rota, on_torch
    assert on_torch == [] and len(on_rota) >= 2


OF_PLANES = [name for name, (_, inputs) in (CONVOLUTIONS | POOLS).items() if inputs[0] is PLANE]


@pytest.mark.parametrize("name", [name for name in OF_PLANES if name not in IN_OTHER_ORDERS])
def test_window_by_channels_last(home: str, name: str) -> None:
    """What lies so is read and given so, by rota's ops; on a GPU convolutions in 16 bits alone, TF32 being off."""
    function, inputs = (CONVOLUTIONS | POOLS)[name]
    # Beside the CPU's: PyTorch 2.11's gradient of avg_pool2d is wrong on a GPU where windows overlap, by channels last.
    expected, gradients = values(function, inputs, "cpu", True)
    got, got_gradients = values(test_torch.compiled(function), inputs, home, True)
    for result, other in zip([*got, *got_gradients], [*expected, *gradients], strict=True):
        one = result.cpu()
        assert one.dtype == other.dtype
        near = 2**-7 * float(other.abs().max()) if "bf16" in name else 1e-4
        torch.testing.assert_close(one, other, rtol=0.0 if "bf16" in name else 1e-4, atol=near)
    copied = [op for op in rota.torch.ops()["rota"] if "clone" in op]
    on_torch = [op for op in rota.torch.ops()["torch"] if "conv" in op or "pool" in op]
    if home == "cpu" or "bf16" in name or "conv" not in name:
        assert on_torch == [] and copied == []


@pytest.mark.parametrize(
    "layer", [nn.Conv3d(2, 3, 2), nn.AdaptiveAvgPool2d((4, 5)), nn.AvgPool2d(2, divisor_override=3)], ids=str
)
def test_left_to_pytorch(layer: Any) -> None:
    x = of(2, 2, 6, 7, 4) if isinstance(layer, nn.Conv3d) else PLANE
    torch.testing.assert_close(test_torch.compiled(layer)(x), layer(x))
    assert any("conv" in op or "pool" in op for op in rota.torch.ops()["torch"])


def test_a_captured_step_keeps_where_its_maxima_are() -> None:
    """In one plan nothing is converted to i64 and back."""
    rota.torch.reset_ops()
    model = nn.Sequential(nn.Conv2d(6, 4, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    captured = rota.torch.capture(step)
    losses = [float(captured(PLANE).detach()) for _ in range(3)]
    assert losses[2] < losses[0]
    assert [op for op in rota.torch.ops()["torch"] if "pool" in op or "conv" in op] == []
