"""When the optimizer's part of a captured step begins: counts of steps after what a step needs first, updates after the
backward pass; and the learning rates that it reads."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional as F

import rota.torch
from rota.torch import adam, fixed, kernels, program, ranks
from rota.torch.nodes import value_of

WORDS = torch.randint(11, (3, 5))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    rota.torch.reset_ops()
    yield


@pytest.fixture
def stays() -> Iterator[None]:
    """Plans of the CPU are as those of a GPU."""
    program.FIXED.add("cpu")
    yield
    program.FIXED.discard("cpu")


def made(groups: int = 1) -> tuple[Any, Any, rota.torch.Captured]:
    """A small model of words, its optimizer, with so many groups, and a step of theirs, which is captured."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 11))
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": parameters[i::groups]} for i in range(groups)], lr=0.01)

    def step(words: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(words).flatten(0, 1), words.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, rota.torch.capture(step, modules=[model], optimizers=[optimizer])


def run(called: Any, steps: int = 4) -> list[Any]:
    return [called(WORDS).detach() for _ in range(steps)]


def begun() -> int:
    return rota.torch.ops()["torch"].get(str(adam.BEGUN), 0)


def test_updates_wait_for_the_last_gradient_of_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses and parameters are the same to the bit; where a plan is on a CPU nothing waits by itself."""
    model, _, called = made()
    losses = run(called)
    assert begun() == 0
    found: list[tuple[Any, Any]] = []
    last_of = adam.made_last

    def made_last(grads: Any, order: Any, before: int) -> Any:
        found.append((last_of(grads, order, before), grads))
        return found[-1][0]

    monkeypatch.setattr(adam, "GPU_ALONE", False)
    monkeypatch.setattr(adam, "made_last", made_last)
    other, _, waiting = made()
    for one, expected in zip(run(waiting), losses, strict=True):
        assert torch.equal(one, expected)
    for one, expected in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, expected)
    assert begun() == 1
    ((last, grads),) = found
    assert last is grads[3] and len(grads) == 7  # the first linear layer's weight, after an embedding and a norm
    assert grads[0].target is torch.ops.aten.embedding_dense_backward.default
    assert all(value_of(one).dim() == 1 for one in (grads[1], grads[2], grads[4]))


def test_updates_of_more_rates_than_a_node_has_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adam, "GPU_ALONE", False)
    monkeypatch.setattr(adam, "COUNTS", 2)
    expected = run(made()[2])
    assert begun() == 2  # seven parameters: four nodes of rates
    monkeypatch.undo()
    for one, other in zip(run(made()[2]), expected, strict=True):
        assert torch.equal(one, other)


def test_updates_of_gradients_that_ranks_reduce_wait_for_nothing() -> None:
    """Each is reduced as it comes, and updated while others are."""
    graph = torch.fx.Graph()
    given = graph.placeholder("given")
    grad = graph.call_function(torch.ops.aten.neg.default, (given,))
    given.meta["val"] = grad.meta["val"] = torch.zeros(2, 3)
    order = {node: i for i, node in enumerate(graph.nodes)}
    assert adam.made_last([given, grad], order, 9) is grad
    assert adam.made_last([given, grad], order, 1) is None
    reduced = graph.call_function(ranks.ALL_REDUCE, (grad, 1))
    reduced.meta["val"] = grad.meta["val"]
    order = {node: i for i, node in enumerate(graph.nodes)}
    assert adam.made_last([reduced], order, 9) is None


def test_counts_of_steps_come_one_after_the_other(stays: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one after the plan's first call, here that which makes words i32."""
    seen: list[tuple[Any, int | None, int]] = []
    call = fixed.FixedSegment.call

    class Recorded:
        """The graph of a segment, and what it is told of calls."""

        def __init__(self, graph: Any) -> None:
            self.graph = graph

        def __getattr__(self, name: str) -> Any:
            return getattr(self.graph, name)

        def call_memory(self, function: Any, reads: Any, writes: Any, updates: Any, name: str, after: Any) -> int:
            index = int(self.graph.call_memory(function, reads, writes, updates, name, after))
            seen.append((function.target, after, index))
            return index

    def recorded(self: Any, called: kernels.Call, *rest: Any) -> int:
        graph, self.graph = self.graph, Recorded(self.graph)
        try:
            return call(self, called, *rest)
        finally:
            self.graph = graph

    monkeypatch.setattr(fixed.FixedSegment, "call", recorded)
    run(made(3)[2])
    counting = [one for one in seen if one[0] is fixed.COUNTING]
    assert len(counting) == 3 and seen[0][0] is fixed.clamped
    assert [after for _, after, _ in counting] == [seen[0][2], *(index for _, _, index in counting[:-1])]


@pytest.mark.parametrize("kept", [False, True])
def test_rates_that_are_numbers_or_tensors_in_turns(kept: bool) -> None:
    """Written into memory of the step's own, which a tensor that a caller has is not."""
    results = []
    for is_captured in (False, True):
        model, optimizer, called = made()
        step = called if is_captured else called.step
        (group,) = optimizer.param_groups
        rate = torch.tensor(0.02)
        for lr in (0.01, 0.03, rate, 0.01, rate if kept else torch.tensor(0.04), 0.0):
            group["lr"] = lr
            step(WORDS)
            if isinstance(lr, torch.Tensor):
                lr.mul_(1.5)
                step(WORDS)
        if is_captured:
            assert [one.segment is not None for one in called.plans.values()] == [True]
        results.append(([p.detach().clone() for p in model.parameters()], rate))
    (expected, one), (got, other) = results
    assert torch.equal(one, other)
    for p, q in zip(got, expected, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
