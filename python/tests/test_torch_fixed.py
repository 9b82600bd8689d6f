"""Plans whose memory stays where it is (rota/torch/fixed.py): on a GPU, where all plans are such, and on the CPU, where
they are made so for these tests."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import test_torch
import torch
import torch_zoo as zoo
from conftest import gpu_marks, on_gpu, side_by_side
from torch import nn
from torch.nn import functional as F

import rota.torch
from rota.torch import fixed, kernels, program

@pytest.fixture(params=["cpu", pytest.param("cuda", marks=gpu_marks())])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """Kind of the device. Convolutions are f32's, whose rounding does not depend on the algorithm that is chosen."""
    added = request.param not in program.FIXED
    program.FIXED.add(request.param)
    torch._dynamo.reset()
    rota.torch.reset_ops()
    torch.manual_seed(1)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield str(request.param)
    if added:
        program.FIXED.discard(request.param)


def moved(values: Any, kind: str) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.to(kind), values)


# ---- Ops ----


@pytest.mark.parametrize("name", test_torch.ON_ROTA)
def test_op_on_rota(kind: str, name: str) -> None:
    function, inputs = moved(test_torch.ON_ROTA[name], kind)
    test_torch.same(function, *inputs)
    if kind == "cuda" and name in ("cat", "stack"):  # parts that lie between one another are PyTorch's kernel's there
        assert rota.torch.ops()["torch"] == {"aten.cat.default": 1}
        return
    # On the CPU alone there is a kernel of rota's that converts what rota has no tensors of.
    assert rota.torch.ops()["torch"] == {} and rota.torch.ops()["rota"] != {}


@pytest.mark.parametrize("name", test_torch.ON_TORCH)
def test_op_on_torchs_kernel(kind: str, name: str) -> None:
    function, inputs = moved(test_torch.ON_TORCH[name], kind)
    got = [test_torch.compiled(function)(*inputs) for _ in range(3)]
    for one in got:
        torch.testing.assert_close(one, function(*inputs))
    assert rota.torch.ops()["torch"] != {}


# ---- Models ----


@pytest.mark.parametrize("name", zoo.MODELS)
def test_model(kind: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    forward, backward = zoo.compare(name, device=kind)
    assert forward <= zoo.FORWARD_MAX and backward <= zoo.GRADIENTS_MAX
    assert sum(rota.torch.ops()["rota"].values()) > 0
    test_torch.no_host()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("name", zoo.MODELS)
def test_training(kind: str, name: str, bf16: bool) -> None:
    steps = 50 if bf16 else 6
    expected = zoo.train(name, steps, bf16=bf16, device=kind)
    torch._dynamo.reset()
    got = zoo.train(name, steps, backend="rota", bf16=bf16, device=kind)
    assert got == pytest.approx(expected, rel=0, abs=0.02 if bf16 else 1e-3)
    assert got[-1] < got[0]


def captured_losses(kind: str, name: str, captured: bool, bf16: bool) -> tuple[list[float], Any]:
    model, batch = zoo.make(name, device=kind)
    rate = zoo.LEARNING_RATES.get(name, zoo.LEARNING_RATE) if bf16 else zoo.LEARNING_RATE
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast(kind, torch.bfloat16, enabled=bf16):
            loss, _ = model(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    called = rota.torch.capture(step) if captured else step
    losses = []
    for _ in range(6):
        losses.append(float(called(*batch).detach()))
        schedule.step()
    if captured:
        assert isinstance(called, rota.torch.Captured) and len(called.plans) == 1
        assert all(made.segment is not None for made in called.plans.values())
    return losses, model.state_dict()


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("name", zoo.MODELS)
def test_capture(kind: str, name: str, bf16: bool) -> None:
    expected, state = captured_losses(kind, name, False, bf16)
    got, other = captured_losses(kind, name, True, bf16)
    assert got == pytest.approx(expected, abs=0.02 if bf16 else 1e-3) and got[-1] < got[0]
    for key, value in state.items():
        torch.testing.assert_close(other[key], value, rtol=1e-3, atol=0.02 if bf16 else 1e-3)


# ---- What is shared ----


def test_parameters_are_where_they_were(kind: str) -> None:
    """What PyTorch writes to one is what the next call reads, and a parameter that gets another memory is found."""
    model = nn.Linear(7, 9).to(kind)
    x = torch.randn(5, 7, device=kind)
    called = test_torch.compiled(model)
    for change in (lambda: model.weight.data.mul_(2), lambda: setattr(model.weight, "data", model.weight.data + 1)):
        address = model.weight.data_ptr()
        torch.testing.assert_close(called(x), model(x), rtol=1e-5, atol=1e-5)
        assert model.weight.data_ptr() == address
        with torch.no_grad():
            change()
    torch.testing.assert_close(called(x), model(x), rtol=1e-5, atol=1e-5)


def test_results_are_the_callers(kind: str) -> None:
    """A later call writes to none, though its plan's memory is the same."""
    called = test_torch.compiled(lambda x: (torch.erf(x), x.exp()))
    x = torch.randn(5, 7, device=kind)
    first = called(x)
    kept = [one.clone() for one in first]
    called(x + 1)
    for one, other in zip(first, kept, strict=True):
        assert one.equal(other)


def test_inputs_with_gaps(kind: str) -> None:
    base = torch.randn(6, 8, device=kind)
    for x in (base[:, ::2], base.T, base[1:, 3:], base[:1].expand(5, 8), base[0, 0].expand(3, 4)):
        test_torch.same(lambda a: torch.erf(a) * 2 + a, x)


def test_dropout_draws_eagers_numbers(kind: str) -> None:
    model = nn.Sequential(nn.Linear(7, 9), nn.Dropout(0.4), nn.Linear(9, 7)).to(kind)
    x = torch.randn(5, 7, device=kind)

    def values(called: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(3)
        return [called(x).detach() for _ in range(3)]

    for one, other in zip(values(torch.compile(model, backend="rota")), values(model), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_threads_call_one_plan(kind: str) -> None:
    called = test_torch.compiled(lambda x: (torch.erf(x) @ x.T).softmax(-1))
    inputs = [torch.randn(16, 8, device=kind) for _ in range(4)]
    expected = [called(x) for x in inputs]
    wrong: list[int] = []

    def run(i: int) -> None:
        for _ in range(20):
            if not called(inputs[i]).equal(expected[i]):
                wrong.append(i)

    side_by_side(4, run)
    assert wrong == []


def test_a_mask_of_the_hosts_is_no_cut(kind: str) -> None:
    """Numbers that nothing but the graph says are constants, whatever device PyTorch makes them on."""

    def run(x: Any) -> Any:
        scores = x @ x.T
        mask = torch.ones(len(x), len(x), dtype=torch.bool, device=x.device).tril()
        return torch.where(mask, scores, torch.tensor(float("-inf"))).softmax(-1)

    test_torch.same(run, torch.randn(5, 7, device=kind))


def test_an_embedding_of_i64(kind: str) -> None:
    table, index = torch.randn(11, 5, device=kind), torch.tensor([[0, 10], [3, 3]], device=kind)
    test_torch.same(lambda t, i: F.embedding(i, t).sum(1), table, index)


# ---- On a GPU alone ----


def slow(x: Any) -> Any:
    """What takes PyTorch's stream some milliseconds, then gives x."""
    torch.cuda._sleep(20_000_000)
    return x + 0


def test_dynamic_shapes_have_a_plan_each(
    kind: str, programs: list[program.Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    test_torch.expect_a_plan_each(kind, programs, monkeypatch)


@on_gpu
def test_calls_come_after_pytorchs_stream_and_before_it() -> None:
    torch._dynamo.reset()
    called = test_torch.compiled(lambda x: x * 2)
    x = torch.zeros(1 << 20, device="cuda")
    for i in range(5):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            got = called(slow(torch.full_like(x, i)))
            total = slow(got).sum()
        stream.synchronize()
        assert float(total) == 2 * i * x.numel()


@on_gpu
def test_no_call_waits_on_the_host() -> None:
    """All are with the driver while the stream is still at what was put there before the first."""
    torch._dynamo.reset()
    called = test_torch.compiled(lambda x: x * 2 + 1)
    x = torch.ones(1 << 16, device="cuda")
    for _ in range(3):
        called(x)
    torch.cuda.synchronize()
    begun = torch.cuda.Event()
    torch.cuda._sleep(2_000_000_000)
    begun.record()
    got = x
    for _ in range(5):
        got = called(got + 0)
    assert not begun.query()
    assert float(got.sum()) == 63 * x.numel()


@on_gpu
def test_adopt_and_dlpack_on_a_gpu() -> None:
    with rota.open("cuda:0") as device:
        x = torch.zeros(64, 32, device="cuda")
        x = slow(x + 3)
        tensor = device.adopt(x)
        assert tensor.numpy().max() == tensor.numpy().min() == 3
        with rota.graph(device) as g:
            rota.copy(tensor * 2, out=tensor)
        plan = g.compile()
        plan().result()
        assert x.eq(6).all()
        shared, copied = torch.from_dlpack(tensor, copy=False), torch.from_dlpack(tensor)
        assert shared.data_ptr() == x.data_ptr() and copied.data_ptr() != x.data_ptr()
        assert shared.device == copied.device == x.device and copied.eq(6).all()
        taken = device.from_dlpack(slow(x + 1))
        plan().result()
        assert shared.eq(12).all() and copied.eq(6).all() and taken.numpy().max() == 7
        own = device.tensor(torch.arange(8.0))  # of the host's
        assert torch.from_dlpack(own).tolist() == list(range(8))
        assert torch.from_dlpack(own, device="cpu").tolist() == list(range(8))
        with pytest.raises(rota.errors.InvalidArgument, match="in the host's"):
            device.adopt(torch.zeros(4))
        with pytest.raises(rota.errors.InvalidArgument, match="gaps"):
            device.adopt(x.T)
        del shared, copied, tensor, taken, own, plan, g


@on_gpu
def test_what_cannot_be_captured_cuts_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found when a plan is made; the calling thread runs it from then on."""
    torch._dynamo.reset()
    rota.torch.reset_ops()
    call = kernels.Call.__call__

    def waits(self: Any, addresses: Any) -> None:
        call(self, addresses)
        if self.target is torch.ops.aten.erf.default:
            torch.cuda.current_stream().synchronize()

    monkeypatch.setattr(kernels.Call, "__call__", waits)
    called = test_torch.compiled(lambda x: torch.erf(x * 2).exp() + 1)
    try:
        for _ in range(3):
            x = torch.randn(5, 7, device="cuda")
            torch.testing.assert_close(called(x), torch.erf(x * 2).exp() + 1, rtol=1e-5, atol=1e-5)
        assert rota.torch.ops()["host"] == {"aten.erf.default": 3}
    finally:
        fixed.not_capturable.clear()


@on_gpu
def test_a_graph_on_two_devices_is_cut() -> None:
    torch._dynamo.reset()
    rota.torch.reset_ops()
    called = torch.compile(lambda x, y: (x * 2).cpu() + y, backend="rota")
    x, y = torch.randn(5, device="cuda"), torch.randn(5)
    torch.testing.assert_close(called(x, y), (x * 2).cpu() + y)
    assert rota.torch.ops()["host"] != {}


# ---- What is lent ----


programs = test_torch.programs


def small(kind: str) -> tuple[nn.Module, Any]:
    model = nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Linear(9, 7), nn.Tanh()).to(kind)
    return model, torch.compile(model, backend="rota")


def grads_of(model: nn.Module) -> list[Any]:
    return [parameter.grad.clone() for parameter in model.parameters()]


def test_steps_one_after_the_other_have_one_plan_each_way(kind: str, programs: list[program.Program]) -> None:
    """What the backward pass reads of the forward one, and gradients, are where the plans have them."""
    model, called = small(kind)
    addresses = set()
    for i in range(4):
        model.zero_grad()
        x = torch.randn(5, 7, device=kind)
        called(x).square().sum().backward()
        got = grads_of(model)
        addresses.add(tuple(parameter.grad.data_ptr() for parameter in model.parameters()))
        model.zero_grad()
        model(x).square().sum().backward()
        for one, other in zip(got, grads_of(model), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert len(addresses) == 1
    assert [len(one.plans) for one in programs] == [1, 1]
    segments = [segment for one in programs for segment in one.plans]
    assert all(isinstance(one, fixed.FixedSegment) and one.lent for one in segments)


def test_what_is_lent_is_not_written_while_somebody_has_it(kind: str, programs: list[program.Program]) -> None:
    """Several forward passes before the first backward one; gradients kept across, and added to."""
    model, called = small(kind)
    inputs = [torch.randn(5, 7, device=kind) for _ in range(4)]
    losses = [called(x).square().sum() for x in inputs]
    kept = []
    for x, loss in zip(inputs, losses, strict=True):
        model.zero_grad()
        loss.backward()
        kept.append(([parameter.grad for parameter in model.parameters()], x))
    for grads, x in kept:
        model.zero_grad()
        model(x).square().sum().backward()
        for one, other in zip(grads, grads_of(model), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    model.zero_grad()
    for x in inputs:
        called(x).square().sum().backward()
    got = grads_of(model)
    model.zero_grad()
    sum(model(x).square().sum() for x in inputs).backward()
    for one, other in zip(got, grads_of(model), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert max(len(one.plans) for one in programs) <= 4


def test_parts_of_what_is_lent_are_not_copied(kind: str, programs: list[program.Program]) -> None:
    """The backward pass reads two halves of one product, of which one begins in the middle of it."""

    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.both = nn.Linear(7, 18)

        def forward(self, x: Any) -> Any:
            a, b = self.both(x).chunk(2, -1)
            return a * b

    def run(called: Any) -> list[Any]:
        model.zero_grad()
        y = called(x)
        y.square().sum().backward()
        return [y.detach(), *grads_of(model)]

    model, x = Gate().to(kind), torch.randn(5, 7, device=kind)
    expected, called = run(model), torch.compile(model, backend="rota")
    for got in (run(called), run(called)):
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    segments = {one.name: segment for one in programs for segment in one.plans}
    backward = segments["backward"]
    assert isinstance(backward, fixed.FixedSegment)
    copied = [backward.fixed["input", index].numel() for index in backward.inputs]
    assert sorted(copied) == [5 * 7 * 4, 5 * 9 * 4]  # x, and the result's gradient


def test_a_backward_pass_twice(kind: str) -> None:
    model, called = small(kind)
    x = torch.randn(5, 7, device=kind)
    loss = called(x).square().sum()
    loss.backward(retain_graph=True)
    once = grads_of(model)
    loss.backward()
    for one, other in zip(once, grads_of(model), strict=True):
        torch.testing.assert_close(2 * one, other)


@on_gpu
def test_what_is_lent_is_read_to_the_end_on_another_stream() -> None:
    torch._dynamo.reset()
    model, called = small("cuda")
    x = torch.randn(5, 7, device="cuda")
    called(x).square().sum().backward()
    expected = grads_of(model)
    stream = torch.cuda.Stream()
    for _ in range(3):
        model.zero_grad()
        with torch.cuda.stream(stream):
            called(x).square().sum().backward()
            late = slow(model[0].weight.grad).clone()
        model.zero_grad()
        called(x + 1).square().sum().backward()  # on this thread's stream, while the other one still reads
        stream.synchronize()
        assert late.equal(expected[0])
