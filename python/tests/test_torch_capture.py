"""rota.torch.capture: a training step as one plan, against the step as it is."""

import importlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch_zoo as zoo
from torch import nn

import rota.torch
from rota.torch import adam

X = torch.randn(5, 7)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    rota.torch.reset_ops()
    torch.manual_seed(1)
    yield


def groups(parameters: Any) -> list[dict[str, Any]]:
    """Every other parameter has a rate of its own, and no decay."""
    given = list(parameters)
    return [{"params": given[::2]}, {"params": given[1::2], "lr": 2e-3, "weight_decay": 0.0}]


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1),
    "AdamW groups": lambda parameters: torch.optim.AdamW(groups(parameters), lr=1e-3, weight_decay=0.1),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, weight_decay=0.1),
    "Adam amsgrad": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, amsgrad=True),
    "AdamW maximize": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, maximize=True),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9, nesterov=True),
    "SGD plain": lambda parameters: torch.optim.SGD(parameters, lr=0.02, weight_decay=0.01),
}


def run_steps(name: str, optimizer_of: Callable[[Any], Any], captured: bool, steps: int) -> tuple[list[float], Any]:
    """Losses of some steps, with clipping and a rate that changes; and what the state is in the end."""
    model, batch = zoo.make(name)
    optimizer = optimizer_of(model.parameters())
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss, _ = model(*batch)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return {"loss": loss, "norm": norm, "steps": 1}

    called = rota.torch.capture(step) if captured else step
    losses = []
    for _ in range(steps):
        result = called(*batch)
        schedule.step()
        assert result["steps"] == 1 and result["norm"] > 0
        losses.append(float(result["loss"].detach()))
    if captured:
        assert isinstance(called, rota.torch.Captured) and len(called.plans) == 1
        assert all(made.segment is not None for made in called.plans.values())
    return losses, model.state_dict()


@pytest.mark.parametrize("name", zoo.MODELS)
def test_capture_model(name: str) -> None:
    expected, state = run_steps(name, OPTIMIZERS["AdamW"], False, 6)
    got, other = run_steps(name, OPTIMIZERS["AdamW"], True, 6)
    assert got == pytest.approx(expected, abs=1e-3) and got[-1] < got[0]
    for key, value in state.items():
        torch.testing.assert_close(other[key], value, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_capture_optimizer(name: str) -> None:
    expected, state = run_steps("lstm", OPTIMIZERS[name], False, 6)
    got, other = run_steps("lstm", OPTIMIZERS[name], True, 6)
    assert got == pytest.approx(expected, abs=1e-5)
    for key, value in state.items():
        torch.testing.assert_close(other[key], value, rtol=1e-4, atol=1e-5)
    assert (str(adam.ADAMW) in rota.torch.ops()["rota"]) == (name in ("AdamW", "AdamW groups", "Adam"))


def test_the_ops_where_no_plan_is() -> None:
    """What PyTorch's optimizers do, of a gradient of 16 bits, too."""
    for kind, coupled in ((torch.optim.AdamW, False), (torch.optim.Adam, True)):
        p = nn.Parameter(torch.randn(7))
        values = [p.detach().clone(), torch.zeros(7), torch.zeros(7)]
        optimizer = kind([p], lr=0.01, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1)
        for step in range(1, 4):
            grad = torch.randn(7).to(torch.bfloat16)
            p.grad = grad.float()
            optimizer.step()
            rates = adam.RATES([torch.tensor(float(step))], torch.tensor(0.01), torch.tensor(1.0))
            adam.ADAMW(values[0], grad, *values[1:], rates[0], 0.8, 0.9, 1e-6, 0.1, coupled)
            torch.testing.assert_close(values[0], p.detach())


class Small:
    """A step on a model with dropout and batch norm, to be captured or not."""

    def __init__(self) -> None:
        torch.manual_seed(5)
        self.model = nn.Sequential(nn.Linear(7, 9), nn.BatchNorm1d(9), nn.Dropout(0.4), nn.Linear(9, 7))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x: Any, scale: float = 1.0, exponent: int = 2) -> Any:
        self.optimizer.zero_grad()
        loss = ((self.model(x) - x).abs() ** exponent).mean() * scale
        loss.backward()
        self.optimizer.step()
        return loss

    def captured(self) -> rota.torch.Captured:
        return rota.torch.capture(self.step, modules=[self.model], optimizers=[self.optimizer])


def test_capture_draws_eagers_numbers() -> None:
    one, other = Small(), Small()
    called = other.captured()
    torch.manual_seed(9)
    expected = [float(one.step(X).detach()) for _ in range(5)]
    torch.manual_seed(9)
    assert [float(called(X).detach()) for _ in range(5)] == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(one.model.state_dict(), other.model.state_dict(), rtol=1e-4, atol=1e-5)


def test_capture_arguments() -> None:
    one, other = Small(), Small()
    called = other.captured()
    for x, scale, exponent in [(X, 1.0, 2), (X, 2.0, 2), (X, 0.5, 2), (X[:3], 0.5, 2), (X, 0.5, 3), (X, 3.0, 2)]:
        torch.manual_seed(1)
        expected = one.step(x, scale, exponent)
        torch.manual_seed(1)
        assert float(called(x, scale, exponent).detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    assert len(called.plans) == 3  # one for each shape and exponent; the scale is an argument


def test_capture_scales_a_loss() -> None:
    """What a GradScaler does, with the scale as an argument that changes from step to step."""

    def losses(captured: bool) -> tuple[list[float], Any]:
        model, batch = zoo.make("lstm")
        optimizer = OPTIMIZERS["AdamW"](model.parameters())

        def step(scale: float, unscale: float, *batch: Any) -> Any:
            optimizer.zero_grad()
            loss, _ = model(*batch)
            (loss * scale).backward()
            for parameter in model.parameters():
                parameter.grad.mul_(unscale)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return loss

        called = rota.torch.capture(step) if captured else step
        got = [float(called(scale, 1 / scale, *batch).detach()) for scale in [1024.0, 2048.0, 4096.0, 512.0, 65536.0]]
        if captured:
            assert isinstance(called, rota.torch.Captured) and len(called.plans) == 1
            assert all(made.segment is not None for made in called.plans.values())
        return got, model.state_dict()

    (expected, state), (got, other) = losses(False), losses(True)
    assert got == pytest.approx(expected, abs=1e-5)
    torch.testing.assert_close(other, state, rtol=1e-4, atol=1e-5)


def test_capture_of_an_lstm() -> None:
    """Whose input needs no gradient, so that PyTorch would take oneDNN's."""

    def losses(captured: bool) -> list[float]:
        torch.manual_seed(1)
        model, x = nn.LSTM(5, 7), torch.randn(6, 3, 5)
        optimizer = OPTIMIZERS["AdamW"](model.parameters())

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (model(x)[0] - 0.1).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        called = rota.torch.capture(step) if captured else step
        got = [float(called(x).detach()) for _ in range(4)]
        if captured:
            assert isinstance(called, rota.torch.Captured)
            assert all(made.segment is not None for made in called.plans.values())
        return got

    assert losses(True) == pytest.approx(losses(False), rel=1e-5)


def test_capture_leaves_tensors_where_they_are() -> None:
    small = Small()
    called = small.captured()
    weight = small.model[0].weight
    called(X)
    called(X)
    address = weight.data_ptr()
    kept = {key: value.clone() for key, value in small.model.state_dict().items()}
    called(X)
    assert small.model[0].weight is weight and weight.data_ptr() == address and weight.grad is None
    assert not weight.eq(kept["0.weight"]).all()
    small.model.load_state_dict(kept)
    small.model.eval()
    first = float(called(X).detach())
    small.model.load_state_dict(kept)
    assert float(called(X).detach()) == first
    assert weight.data_ptr() == address


def test_capture_of_a_parameter_that_gets_another_memory() -> None:
    one, other = Small(), Small()
    called = other.captured()
    for i in range(5):
        if i in (2, 3):
            for small in (one, other):
                small.model[0].weight.data = torch.full_like(small.model[0].weight, 0.1 * i)
        torch.manual_seed(1)
        expected = float(one.step(X).detach())
        torch.manual_seed(1)
        assert float(called(X).detach()) == pytest.approx(expected, rel=1e-4)
    assert len(called.plans) == 1
    torch.testing.assert_close(one.model.state_dict(), other.model.state_dict(), rtol=1e-4, atol=1e-5)


def test_capture_refuses_tensors_that_overlap(caplog: pytest.LogCaptureFixture) -> None:
    """A plan would take each one's bytes for bytes of its own."""

    def step(made: list[Any]) -> Callable[[Any], Any]:
        model = nn.Linear(7, 7)
        model.weight.data.fill_(0.1)
        model.bias.data = model.weight.data[2]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        made.append((model, optimizer))

        def run(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return run

    made: list[Any] = []
    expected, plain = step(made), step(made)
    model, optimizer = made[1]
    expect_alike(rota.torch.capture(plain, modules=[model], optimizers=[optimizer]), expected, 3)
    assert any("memory together" in record.message for record in caplog.records)


def test_capture_of_what_a_step_makes_and_changes() -> None:
    """Tensors that are made of no argument and are written to in place begin anew at each call."""
    one, other = Small(), Small()

    def step(small: Small) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            total, mask, count = torch.zeros(7), torch.ones(7, dtype=torch.bool), torch.zeros(3, dtype=torch.int64)
            total += x.sum(0)
            total[2:4].mul_(3)
            before = torch.where(mask, total, 0.5)
            mask[1:3] = False
            count[1:] += 2
            small.optimizer.zero_grad()
            loss = (small.model(x) * torch.where(mask, total, -before)).mean() * count.sum()
            loss.backward()
            small.optimizer.step()
            return loss, total, mask, count

        return run

    called = rota.torch.capture(step(other), modules=[other.model], optimizers=[other.optimizer])
    for i in range(4):
        torch.manual_seed(1)
        expected = step(one)(X + i)
        torch.manual_seed(1)
        torch.testing.assert_close(called(X + i), expected, rtol=1e-4, atol=1e-5)
    assert all(made.segment is not None for made in called.plans.values())


def expect_alike(called: Callable[[Any], Any], expected: Callable[[Any], Any], times: int) -> None:
    """Each time, with the same random numbers."""
    for _ in range(times):
        torch.manual_seed(1)
        value = expected(X)
        torch.manual_seed(1)
        torch.testing.assert_close(called(X), value)


def test_capture_of_what_is_no_plan_runs_eagerly(caplog: pytest.LogCaptureFixture) -> None:
    one, other = Small(), Small()

    def step(small: Small) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            small.optimizer.zero_grad()
            loss = small.model(x).square().mean()
            if loss.item() > 0:
                loss.backward()
            small.optimizer.step()
            return loss

        return run

    called = rota.torch.capture(step(other), modules=[other.model], optimizers=[other.optimizer])
    expect_alike(called, step(one), 3)
    assert len([record for record in caplog.records if "the step runs eagerly" in record.message]) == 1


def test_capture_refuses_gradients_of_a_step_before(caplog: pytest.LogCaptureFixture) -> None:
    one, other = Small(), Small()

    def add(small: Small) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            loss = small.model(x).square().mean()
            loss.backward()
            small.optimizer.step()
            return loss

        return run

    called = rota.torch.capture(add(other), modules=[other.model], optimizers=[other.optimizer])
    expect_alike(called, add(one), 4)
    assert any("gradients of a step before" in record.message for record in caplog.records)


def test_capture_asks_for_a_model() -> None:
    with pytest.raises(rota.errors.InvalidArgument, match="modules="):
        rota.torch.capture(lambda x: x)


def expect_trained_alike(
    model_of: Callable[[], Any], optimizer_of: Callable[[Any], Any], losses_of: Callable[[Any, Any], list[float]]
) -> None:
    """As it is, and captured. `losses_of` gets the model, and the step, which it calls."""
    found = []
    for is_captured in (False, True):
        torch.manual_seed(0)
        model = model_of()
        optimizer = optimizer_of(model.parameters())

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        called: Any = step
        if is_captured:
            called = rota.torch.capture(step, modules=[model], optimizers=[optimizer])
        found.append((losses_of(model, called), model.state_dict()))
    assert found[1][0] == pytest.approx(found[0][0], abs=1e-5)
    for key, value in found[0][1].items():
        torch.testing.assert_close(found[1][1][key], value, rtol=1e-4, atol=1e-5)


def small_numbers(i: int, *shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(i))


def plans_of(called: Any) -> list[bool]:
    """Whether each is one; nothing of a step that is not captured."""
    if not isinstance(called, rota.torch.Captured):
        return []
    return [made.segment is not None for made in called.plans.values()]


def test_only_the_last_shapes_have_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("rota.torch.capture"), "PLANS_MAX", 2)
    counts: list[int] = []

    def losses_of(model: Any, called: Any) -> list[float]:
        losses = []
        for i, rows in enumerate([4, 6, 4, 5, 9, 4, 4]):
            losses.append(float(called(small_numbers(i, rows, 7)).detach()))
            counts.append(sum(plans_of(called)))
        return losses

    expect_trained_alike(lambda: nn.Linear(7, 3), lambda p: torch.optim.SGD(p, lr=0.1), losses_of)
    assert max(counts) == 2


@pytest.mark.parametrize("rows", [(4, 4, 7, 4), (4, 4, 7, 4, 7, 4)])
def test_a_parameter_that_moves_before_a_new_shape(rows: tuple[int, ...]) -> None:
    """The plans of the shapes before had its old memory."""

    def losses_of(model: Any, called: Any) -> list[float]:
        losses = []
        for i, count in enumerate(rows):
            if count == 7:
                weight = model[0].weight
                weight.data = torch.full_like(weight, 0.01 * (1 + i))
            losses.append(float(called(small_numbers(i, count, 7)).detach()))
        return losses

    expect_trained_alike(
        lambda: nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Linear(9, 7)),
        lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9),
        losses_of,
    )


def test_parameters_that_are_frozen_and_thawed() -> None:
    """A plan for each set of those that are trained."""

    def losses_of(model: Any, called: Any) -> list[float]:
        losses = []
        for frozen in ((), (), (), (0, 2), (0, 2), (2,), (), (4,)):
            for i in (0, 2, 4):
                model[i].requires_grad_(i not in frozen)
            losses.append(float(called(X).detach()))
        assert plans_of(called) in ([], [True] * 4)
        return losses

    expect_trained_alike(
        lambda: nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Linear(9, 9), nn.GELU(), nn.Linear(9, 7)),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.02, eps=1e-3),
        losses_of,
    )


def images() -> Any:
    model: Any = nn.Sequential(nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 4, (3, 2)))
    return model.to(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", ("AdamW", "SGD"))
def test_a_model_by_channels_last(name: str) -> None:
    """What lies in another order of its axes is state as it is; sizes that are no whole words are moved."""

    def losses_of(model: Any, called: Any) -> list[float]:
        given = [small_numbers(i, 2, 3, 9, 8).contiguous(memory_format=torch.channels_last) for i in range(5)]
        losses = [float(called(x).detach()) for x in given]
        assert plans_of(called) in ([], [True])
        assert model[0].weight.stride() == (27, 1, 9, 3)
        return losses

    expect_trained_alike(images, OPTIMIZERS[name], losses_of)


PROCESS = """
import torch, rota.torch
model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(60)))
optimizer = torch.optim.AdamW(model.parameters())

def step(x):
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    return loss

captured = rota.torch.capture(step)
for _ in range(3):
    captured(torch.ones(2, 4))
"""


def test_a_process_that_ends_with_a_captured_step() -> None:
    """What plans held of the interpreter's is let go of by threads of the library's while that ends."""
    done = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_other_thread_is_traced() -> None:
    """What optimizers compute goes by that, and another rank's may run as it is meanwhile."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    told: list[bool] = []

    def step(x: Any) -> Any:
        if torch.compiler.is_compiling():
            other = threading.Thread(target=lambda: told.append(bool(torch.compiler.is_compiling())))
            other.start()
            other.join()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    captured = rota.torch.capture(step)
    for _ in range(3):
        captured(torch.ones(2, 4))
    assert told == [False]
    assert not torch.compiler.is_compiling()
    assert all(made.segment is not None for made in captured.plans.values())
