"""rota.torch.capture(keep_casts=True): what autocast has of parameters in 16 bits stays from step to step."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch_zoo as zoo
from torch import nn

import rota.torch
from rota.torch import adam

X = torch.randn(6, 7)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    rota.torch.reset_ops()
    torch.manual_seed(1)
    yield


def model_of(seed: int = 5) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 7))


def captured(model: Any, keep_casts: bool, dtype: torch.dtype = torch.bfloat16, optimizer: Any = None) -> Any:
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype):
            loss = (model(x).float() - x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return rota.torch.capture(step, modules=[model], optimizers=[optimizer], keep_casts=keep_casts)


def expect_alike(between: Callable[[Any, Any, int], None], kept: int, steps: int = 5, **options: Any) -> None:
    """A model's steps with and without, to the bit, with something done to each model after a step."""
    one, other = model_of(), model_of()
    plain, called = captured(one, False, **options), captured(other, True, **options)
    for i in range(steps):
        x = X[: 6 - i % 2]
        assert torch.equal(plain(x), called(x)), i
        between(one, plain, i)
        between(other, called, i)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    for step, count in ((plain, 0), (called, kept)):
        made = list(step.plans.values())
        assert made and all(one.segment is not None and len(one.casts) == count for one in made)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_steps_are_the_same_to_the_bit(dtype: torch.dtype) -> None:
    """Of two shapes, whose plans have one copy of a parameter."""
    expect_alike(lambda *_: None, 4, dtype=dtype)


def clamp(model: Any, *_: Any) -> None:
    with torch.no_grad():
        model[0].weight.clamp_(-0.1, 0.1)


def load(model: Any, called: Any, i: int) -> None:
    model.load_state_dict(model_of(i).state_dict())


def put(model: Any, called: Any, i: int) -> None:
    model[3].weight.data = torch.full_like(model[3].weight, 0.01 * i)


def step_alone(model: Any, called: Any, i: int, fused: bool = False) -> None:
    """By the step's optimizer, or another; PyTorch's fused ones don't count what they write."""
    others = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    for optimizer in (*called.optimizers, *others):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 0.1 * i)
        for group in optimizer.param_groups:
            if "fused" in group:
                group["fused"] = fused
        optimizer.step()
        optimizer.zero_grad()


def step_fused(model: Any, called: Any, i: int) -> None:
    for state in called.optimizers[0].state.values():
        state["step"] = state["step"].to(torch.float32)
    step_alone(model, called, i, True)


def step_of_another_that_is_fused(model: Any, called: Any, i: int) -> None:
    """Each time the first call of a captured step, which runs as it is."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    captured(model, False, optimizer=optimizer)(X)


def step_of_another(model: Any, called: Any, i: int) -> None:
    """Two calls, of which the second is a replay where the first was not."""
    key = id(model)
    if key not in OTHERS:
        OTHERS[key] = captured(model, False, optimizer=torch.optim.SGD(model.parameters(), lr=0.05))
    OTHERS[key](X[:3])
    OTHERS[key](X[:3])


OTHERS: dict[int, Any] = {}


@pytest.mark.parametrize(
    "between", [clamp, load, put, step_alone, step_fused, step_of_another, step_of_another_that_is_fused]
)
def test_parameters_that_somebody_else_changes(between: Callable[[Any, Any, int], None]) -> None:
    OTHERS.clear()
    expect_alike(between, 4, 7)


def test_a_parameter_that_is_frozen_for_a_while() -> None:
    """What nobody trains is kept, too."""

    def between(model: Any, called: Any, i: int) -> None:
        model[0].requires_grad_(i not in (1, 2, 3))

    one, other = model_of(), model_of()
    plain, called = captured(one, False), captured(other, True)
    for i in range(7):
        assert torch.equal(plain(X), called(X)), i
        between(one, plain, i)
        between(other, called, i)
    assert sorted(len(made.casts) for made in called.plans.values()) == [4, 4]


def test_who_keeps_nothing() -> None:
    """An optimizer that is no Adam writes parameters in ways that have no second result."""
    model = model_of()
    called = captured(model, True, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        called(X)
    assert [len(made.casts) for made in called.plans.values()] == [0]


def test_a_cast_that_the_step_gives_or_changes() -> None:
    """Is made in each step."""
    found = []
    for keep in (False, True):
        model = model_of()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            given, halved = (model[i].weight.to(torch.bfloat16) for i in (0, 3))
            with torch.no_grad():
                halved.mul_(0.5)
            y = nn.functional.linear(x.to(torch.bfloat16), given)
            loss = nn.functional.linear(model[2](y.float()).to(torch.bfloat16), halved).square().mean()
            loss.backward()
            optimizer.step()
            return loss, given

        called = rota.torch.capture(step, modules=[model], optimizers=[optimizer], keep_casts=keep)
        given = [called(X) for _ in range(4)]
        assert [(made.segment is not None, len(made.casts)) for made in called.plans.values()] == [(True, 0)]
        found.append([*map(float, (loss.detach() for loss, _ in given)), *(one.detach().clone() for _, one in given)])
    for a, b in zip(*found, strict=True):
        assert torch.equal(torch.as_tensor(a), torch.as_tensor(b))


def test_a_table_that_is_a_heads_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """With rows of zeroes after its own, as products on a GPU take it: only those of the table are written."""
    monkeypatch.setattr("rota.torch.pairs.GPU_ALONE", False)
    found = []
    for keep in (False, True):
        model, batch = zoo.make("gpt2")
        model.gives_outputs = False
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(*batch: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(*batch)
            loss.backward()
            optimizer.step()
            return loss

        called = rota.torch.capture(step, modules=[model], optimizers=[optimizer], keep_casts=keep)
        found.append([float(called(*batch).detach()) for _ in range(4)])
        (made,) = called.plans.values()
        assert made.segment is not None
    assert found[0] == found[1]
    padded = [cast for cast in made.casts if len(cast.tensor) > len(cast.parameter)]
    assert padded and all(not cast.tensor[len(cast.parameter) :].any() for cast in padded)
    for cast in made.casts:
        assert torch.equal(cast.tensor[: len(cast.parameter)], cast.parameter.detach().to(torch.bfloat16))


def test_the_op_where_no_plan_is() -> None:
    p, half = torch.randn(7), torch.zeros(7, dtype=torch.bfloat16)
    rates = adam.RATES([torch.tensor(1.0)], torch.tensor(0.01), torch.tensor(1.0))
    adam.ADAMW(p, torch.randn(7), torch.zeros(7), torch.zeros(7), rates[0], 0.8, 0.9, 1e-6, 0.1, False, half)
    assert torch.equal(half, p.to(torch.bfloat16))
