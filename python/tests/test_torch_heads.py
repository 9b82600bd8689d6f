"""Attention of queries, keys and values that lie side by side (rota/torch/heads.py): what it gives, and what is left
alone."""

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional as F

import rota.torch
from rota.torch import heads, pairs, program


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    rota.torch.reset_ops()
    torch.manual_seed(3)
    monkeypatch.setattr(pairs, "GPU_ALONE", False)
    monkeypatch.setattr(program, "FIXED", {"cpu"})


class Attention(nn.Module):
    """Four heads of eight, of 11 tokens."""

    def __init__(self, causal: bool = True, order: tuple[int, int, int] = (0, 1, 2), **options: Any) -> None:
        super().__init__()
        self.causal, self.order, self.options = causal, order, options
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        thirds = self.qkv(x).chunk(3, -1)
        q, k, v = (thirds[i].unflatten(-1, (4, 8)).transpose(1, 2) for i in self.order)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, **self.options)
        return self.out(y.transpose(1, 2).flatten(2)).float().square().mean()


def values(model: nn.Module, called: Any, bf16: bool) -> list[Any]:
    model.zero_grad()
    torch.manual_seed(5)
    x = torch.randn(2, 11, 32, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        loss = called(x)
    loss.backward()
    return [loss.detach(), x.grad, *(parameter.grad for parameter in model.parameters())]


def counts_of(model: nn.Module, bf16: bool = True) -> dict[str, int]:
    """The ops of rota's that ran where eager's values came out."""
    expected, got = values(model, model, bf16), values(model, torch.compile(model, backend="rota"), bf16)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.002 if bf16 else 1e-6)
    return rota.torch.ops()["rota"]


@pytest.mark.parametrize("options", [{"causal": True}, {"causal": False}, {"scale": 0.3}])
def test_attention_is_rotas(options: dict[str, Any]) -> None:
    counts = counts_of(Attention(**options))
    assert counts[str(heads.ATTENTION)] == counts[str(heads.ATTENTION_BACKWARD)] == 1
    assert not [op for kind in rota.torch.ops().values() for op in kind if "scaled_dot" in op or "aten.cat" in op]


def test_in_a_captured_step() -> None:
    def losses(is_captured: bool) -> list[float]:
        torch.manual_seed(2)
        model, x = Attention(), torch.randn(2, 11, 32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(x)
            loss.backward()
            optimizer.step()
            return loss

        called = rota.torch.capture(step) if is_captured else step
        return [float(called(x).detach()) for _ in range(8)]

    assert losses(True) == pytest.approx(losses(False), rel=0.02)
    assert rota.torch.ops()["rota"][str(heads.ATTENTION_BACKWARD)] == 1


MASK = torch.zeros(11, 11).masked_fill(torch.ones(11, 11).triu(2) > 0, float("-inf"))


@pytest.mark.parametrize(
    ("model", "bf16"),
    [
        (Attention(), False),  # f32
        (Attention(order=(1, 0, 2)), True),
        (Attention(order=(0, 1, 1)), True),
        (Attention(causal=False, attn_mask=MASK), True),
    ],
)
def test_others_are_left_alone(model: nn.Module, bf16: bool) -> None:
    assert str(heads.ATTENTION) not in counts_of(model, bf16)


def test_the_ops_where_no_plan_is() -> None:
    """What the calling thread would run."""
    qkv = torch.randn(2, 7, 48, requires_grad=True)
    q, k, v = heads.parts_of(qkv, 2)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.4).transpose(1, 2).flatten(2)
    y, sums = heads.ATTENTION(qkv.detach(), 2, True, 0.4)
    torch.testing.assert_close(y, expected)
    dy = torch.randn_like(y)
    expected.backward(dy)
    grad = heads.ATTENTION_BACKWARD(dy, qkv.detach(), y, sums, 2, True, 0.4)
    torch.testing.assert_close(grad, qkv.grad)
