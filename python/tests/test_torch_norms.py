"""Norms of bf16 under torch.compile(backend="rota"): their statistics are f32, as eager's, where a parameter is."""

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch_zoo as zoo
from conftest import on_gpu
from test_torch import compiled, no_host
from torch import nn

import rota.torch
from rota.torch import segment

NORMS: dict[str, tuple[Any, Any]] = {
    "batch": (lambda affine: nn.BatchNorm1d(9, affine=affine), ()),
    "layer": (lambda affine: nn.LayerNorm(9, elementwise_affine=affine), ()),
    "layer of two axes": (lambda affine: nn.LayerNorm((4, 9), elementwise_affine=affine), (4,)),
    "group": (lambda affine: nn.GroupNorm(3, 9, affine=affine), ()),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("name", NORMS)
def test_norm_in_bf16(name: str, affine: bool, training: bool) -> None:
    torch._dynamo.reset()
    rota.torch.reset_ops()
    torch.manual_seed(1)
    make, axes = NORMS[name]
    model = nn.Sequential(nn.Linear(7, 9), make(affine), nn.Tanh()).train(training)
    x = torch.randn(33, *axes, 7)
    state = {key: value.clone() for key, value in model.state_dict().items()}

    def values(called: Any, bf16: bool = True) -> tuple[Any, Any]:
        model.load_state_dict(state)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            y = called(x)
        return y.detach(), torch.autograd.grad(y.float().square().sum(), list(model.parameters()))

    (_, grads), (expected, others), (got, got_grads) = values(model, False), values(model), values(compiled(model))
    assert got.dtype == expected.dtype and zoo.off(got, expected) <= 0.02
    # From those of f32 eager's are as far as 9 %, where no parameter makes the statistics f32.
    largest = max(float(grad.abs().max()) for grad in grads)
    for one, other, grad in zip(got_grads, others, grads, strict=True):
        assert float((one - grad).abs().max()) <= 1.5 * float((other - grad).abs().max()) + 0.01 * largest
    no_host()


OPS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "layer": (torch.ops.aten.native_layer_norm.default, ([9],)),
    "group": (torch.ops.aten.native_group_norm.default, ()),
}


@pytest.mark.parametrize("of_parameters", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", OPS)
def test_statistics_are_eagers(name: str, of_parameters: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dtypes, and, where they are f32, values that bf16 does not have."""
    op, before = OPS[name]
    x = torch.randn(5, 9).to(torch.bfloat16)
    weight, bias = torch.rand(9).to(of_parameters) + 0.5, torch.randn(9).to(of_parameters)
    behind = (5, 9, 1, 3, 1e-5) if name == "group" else (1e-5,)

    def run(x: Any) -> Any:
        return op(x, *before, weight, bias, *behind)

    expected = run(x)
    made: list[Any] = []
    ran = segment.Segment.run

    def run_and_keep(*given: Any) -> Any:
        made.append(ran(*given))
        return made[-1]

    monkeypatch.setattr(segment.Segment, "run", run_and_keep)
    got = compiled(run)(x)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=1e-2, atol=1e-2)
    flat = [one for one in torch.utils._pytree.tree_leaves(made[-1]) if isinstance(one, torch.Tensor)]
    assert [one.dtype for one in flat] == [one.dtype for one in expected]
    if of_parameters is torch.float32:
        for one, other in zip(flat[1:], expected[1:], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


class Stream(nn.Module):
    """A residual stream of f32 through two layers, as autocast has it: norms of f32 between products of bf16."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.out = nn.Linear(width, 5)

    def forward(self, x: Any) -> Any:
        for norm, layer in zip(self.norms, self.layers, strict=False):
            x = x + layer(norm(x))
        return self.out(self.norms[2](x)).float().square().mean()


@on_gpu
@pytest.mark.parametrize("width", [24, 256, 520, 768, 1024, 1032])
def test_norms_of_a_residual_stream_on_a_gpu(width: int) -> None:
    """Captured, they are one kernel with what stands around them, up to rows of 1024; parameters after a step are as
    near to those of f32 as eager's under autocast are."""
    torch.manual_seed(4)
    start = Stream(width).cuda()
    for norm in start.norms:
        nn.init.normal_(norm.weight, 1, 0.2)
        nn.init.normal_(norm.bias, 0, 0.2)
    x = torch.randn(37, 9, width, device="cuda")

    def steps(is_captured: bool, bf16: bool) -> list[Any]:
        model = Stream(width).cuda()
        model.load_state_dict(start.state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
                loss = model(x)
            loss.backward()
            optimizer.step()
            return loss

        called = rota.torch.capture(step) if is_captured else step
        for _ in range(3):
            called(x)
        return [p.detach().clone() for p in model.parameters()]

    exact, eager, got = steps(False, False), steps(False, True), steps(True, True)
    for one, other, wanted in zip(got, eager, exact, strict=True):
        scale = float(wanted.abs().max())
        assert float((one - wanted).abs().max()) <= 2 * float((other - wanted).abs().max()) + 1e-3 * scale
