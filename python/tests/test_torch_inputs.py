"""What a call of a compiled function is given, on the CPU: large tensors are slots of the plan, read where they lie;
small ones, and those whose memory can't be a buffer's, are copied."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import test_torch
import torch
from conftest import side_by_side
from torch.nn import functional as F

import rota.torch
from rota.torch import program
from rota.torch.devices import IN_PLACE_MIN

programs = test_torch.programs

COUNT = IN_PLACE_MIN // 4


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(1)


def both(x: Any, y: Any) -> Any:
    return (x.tanh() * 2 + x).sum(), x[-1] + y.sum(), torch.erf(x)


def uploads(programs: list[program.Program]) -> list[int]:
    """Of each plan, how many inputs its replays copy."""
    plans = [segment.plan for one in programs for segment in one.plans]
    return [sum(command["kind"] == "upload" for command in plan.commands()) for plan in plans if plan is not None]


def test_large_inputs_are_read_where_they_lie(programs: list[program.Program]) -> None:
    called = test_torch.compiled(both)
    y = torch.randn(5)
    for _ in range(3):
        x = torch.randn(COUNT)
        got = called(x, y)
        torch.testing.assert_close(got, both(x, y))
        x.zero_()  # whose memory no replay reads any more
        assert got[2].abs().sum() > 0
    assert uploads(programs) == [1]  # of y
    (segment,) = programs[0].plans
    assert segment.shared == [True, False]


def test_what_is_small_is_copied(programs: list[program.Program]) -> None:
    called = test_torch.compiled(both)
    x, y = torch.randn(COUNT - 1), torch.randn(5)
    torch.testing.assert_close(called(x, y), both(x, y))
    assert uploads(programs) == [2]


def test_memory_that_can_be_no_buffer_is_copied(programs: list[program.Program]) -> None:
    """An address that is no multiple of 16, gaps, channels last: by plans of their own."""
    called = test_torch.compiled(lambda x: (torch.erf(x) * 2).exp())
    base = torch.randn(COUNT + 8)
    for x in (base[:COUNT], base[1 : COUNT + 1], base[4 : COUNT + 4], base[:COUNT]):
        torch.testing.assert_close(called(x), (torch.erf(x) * 2).exp())
    assert sorted(uploads(programs)) == [0, 1]
    wide = torch.randn(2, COUNT)
    for x in (wide.T, wide.reshape(2, 4, -1, 16).contiguous(memory_format=torch.channels_last), wide[:, ::2]):
        torch.testing.assert_close(called(x), (torch.erf(x) * 2).exp())


def test_inputs_that_overlap_or_are_the_same() -> None:
    called = test_torch.compiled(lambda x, y: (x * y, x - y.tanh()))
    base = torch.randn(COUNT + 4)
    for x, y in ((base[:COUNT], base[4:]), (base[:COUNT], base[:COUNT])):
        torch.testing.assert_close(called(x, y), (x * y, x - y.tanh()))


def test_gradients_of_large_inputs(programs: list[program.Program]) -> None:
    x, w = torch.randn(64, COUNT // 16, requires_grad=True), torch.nn.Parameter(torch.randn(COUNT // 16, 8) / 100)
    called = test_torch.compiled(lambda x: F.gelu(x @ w).square().mean())
    for _ in range(2):
        found = torch.autograd.grad(called(x), (x, w))
        expected = torch.autograd.grad(F.gelu(x @ w).square().mean(), (x, w))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert uploads(programs)[0] == 0


def test_threads_give_their_own() -> None:
    called = test_torch.compiled(lambda x: torch.erf(x) * 2)
    inputs = [torch.randn(COUNT) for _ in range(4)]
    expected = [torch.erf(x) * 2 for x in inputs]
    called(inputs[0])  # PyTorch compiles in one thread
    wrong: list[int] = []

    def run(i: int) -> None:
        for _ in range(10):
            if not torch.allclose(called(inputs[i]), expected[i], atol=1e-6):
                wrong.append(i)

    side_by_side(4, run)
    assert wrong == []


def test_an_input_is_let_go_of() -> None:
    """When the next call is made, at the latest."""
    called = test_torch.compiled(lambda x: x.tanh() * 2)
    there = []
    for _ in range(6):
        array = np.ones(COUNT, np.float32)
        called(torch.from_numpy(array))
        there.append(weakref.ref(array))
        del array
    gc.collect()
    assert sum(one() is not None for one in there) <= 2


def test_ops_count_as_before() -> None:
    rota.torch.reset_ops()
    called = test_torch.compiled(lambda x: x.tanh() * 2)
    called(torch.randn(COUNT))
    assert rota.torch.ops() == {"rota": {"aten.tanh.default": 1, "aten.mul.Tensor": 1}, "torch": {}, "host": {}}
