"""rota.torch.capture with several ranks: each does its part of a batch, and all have what one rank has of the whole."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from processes import RANKS, run_ranks
from torch import nn

import rota
import rota.torch
from conftest import on_stub
from rota.torch import adam, batch_norm, pairs, program, ranks, state
from stub_driver import Driver

capture: Any = sys.modules["rota.torch.capture"]  # which the function of that name hides
ROWS, STEPS = 8, 4


class Model(nn.Module):  # type: ignore[misc]
    """Of large and of small parameters, one of which is used twice, and one of which has no optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 1100)
        self.norm = nn.LayerNorm(1100)
        self.second = nn.Linear(1100, 16)
        self.scale = nn.Parameter(torch.ones(()))
        self.unused = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        y = self.second(torch.tanh(self.norm(self.first(x))))
        return self.scale * self.second(torch.tanh(self.first(y))) * self.scale


class Training:
    """A step of a kind: with a clipped norm, several groups, two backward passes, or a scaler."""

    def __init__(self, kind: str) -> None:
        torch.manual_seed(3)
        self.kind, self.model = kind, Model()
        weights = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() < 2]
        groups = [{"params": weights}, {"params": others, "lr": 0.02, "weight_decay": 0.0}]
        self.optimizer: Any = torch.optim.SGD(groups, lr=0.05, momentum=0.9)
        if kind == "adamw":
            # Without an eps it makes as much of a gradient that is nearly 0 as of a large one.
            self.optimizer = torch.optim.AdamW(groups, lr=1e-3, eps=1e-2)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=kind == "scaler")

    def step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        parts = 2 if self.kind == "twice" else 1
        total = torch.zeros(())
        for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True):
            loss = nn.functional.mse_loss(self.model(a), b) / parts
            self.scaler.scale(loss).backward()
            total = total + loss.detach()
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return total, norm


KINDS = ("clipped", "adamw", "twice", "scaler")


def batch(step: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(ROWS, 16, generator=generator), torch.randn(ROWS, 16, generator=generator)


def part_of(x: Any, rank: int, count: int) -> Any:
    """Rows of a rank, so that each of two passes over a half has its part of what one rank has there."""
    halves = x.chunk(2)
    return torch.cat([half.chunk(count)[rank] for half in halves])


def train(training: Training, communicator: rota.Communicator) -> tuple[list[float], list[float]]:
    """Losses and norms of a rank."""
    step = rota.torch.capture(
        training.step,
        modules=[training.model],
        optimizers=[training.optimizer],
        scalers=[training.scaler],
        communicator=communicator,
    )
    losses, norms = [], []
    for i in range(STEPS):
        x, y = (part_of(one, communicator.rank, communicator.size) for one in batch(i))
        loss, norm = step(x, y)
        losses.append(float(loss))
        norms.append(float(norm))
    assert all(made.segment is not None for made in step.plans.values()) and len(step.plans) == 1
    return losses, norms


def of_one(kind: str) -> tuple[list[float], list[float], Any]:
    """What one rank has, without rota."""
    training = Training(kind)
    losses, norms = [], []
    for i in range(STEPS):
        loss, norm = training.step(*batch(i))
        losses.append(float(loss))
        norms.append(float(norm))
    return losses, norms, training.model.state_dict()


def check(kind: str, results: list[tuple[list[float], list[float]]], states: list[Any]) -> None:
    losses, norms, state = of_one(kind)
    mean = [sum(own) / len(own) for own in zip(*(own for own, _ in results), strict=True)]
    assert mean == pytest.approx(losses, rel=1e-5)
    for _, own in results:
        assert own == pytest.approx(norms, rel=1e-5)
    for other in states:
        for key, value in state.items():
            torch.testing.assert_close(other[key], value, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(other[key], states[0][key], rtol=0, atol=0)


# Threads of ranks: they stay, since PyTorch without a GPU forgets no device guard of a thread that traced and is gone.
POOL = ThreadPoolExecutor(4)


def on_each(count: int, function: Callable[[int], Any]) -> list[Any]:
    return [one.result() for one in [POOL.submit(function, rank) for rank in range(count)]]


@pytest.fixture(params=[1, 2, 4])
def worlds(request: pytest.FixtureRequest) -> Iterator[list[rota.Communicator]]:
    devices = [rota.open("cpu", threads=1) for _ in range(request.param)]
    yield rota.Communicator.open_ranks(devices, name="test", timeout=60)
    for device in devices:
        device.close()


two = pytest.mark.parametrize("worlds", [2], indirect=True)


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_have_what_one_has_of_the_whole(worlds: list[rota.Communicator], kind: str) -> None:
    rota.torch.reset_ops()
    trainings = [Training(kind) for _ in worlds]
    results = on_each(len(worlds), lambda rank: train(trainings[rank], worlds[rank]))
    check(kind, results, [training.model.state_dict() for training in trainings])
    ran, on_torch = (rota.torch.ops()[where] for where in ("rota", "torch"))
    for op in map(str, (ranks.ALL_REDUCE, ranks.ALL_REDUCE_TOGETHER)):
        assert ran[op] and op not in on_torch


@two
def test_a_step_that_is_no_plan_is_reduced(worlds: list[rota.Communicator]) -> None:
    trainings = [Training("clipped") for _ in worlds]

    def run(rank: int) -> tuple[list[float], list[float]]:
        of = trainings[rank]

        def step(x: Any, y: Any) -> Any:
            loss, norm = of.step(x, y)
            return float(loss), float(norm)  # which asks for values

        captured = rota.torch.capture(step, modules=[of.model], optimizers=[of.optimizer], communicator=worlds[rank])
        results = [captured(*(part_of(one, rank, 2) for one in batch(i))) for i in range(STEPS)]
        assert [made.segment for made in captured.plans.values()] == [None]
        return [loss for loss, _ in results], [norm for _, norm in results]

    check("clipped", on_each(2, run), [training.model.state_dict() for training in trainings])


@two
def test_what_is_not_finite_on_one_rank_is_skipped_on_all(worlds: list[rota.Communicator]) -> None:
    trainings = [Training("scaler") for _ in worlds]

    def run(rank: int) -> list[float]:
        of = trainings[rank]
        captured = rota.torch.capture(
            of.step,
            modules=[of.model],
            optimizers=[of.optimizer],
            scalers=[of.scaler],
            communicator=worlds[rank],
        )
        scales = []
        for i in range(STEPS):
            x, y = (part_of(one, rank, 2) for one in batch(i))
            captured(x, y * float("inf") if (i, rank) == (2, 1) else y)
            scales.append(of.scaler.get_scale())
        assert all(made.segment is not None for made in captured.plans.values())
        return scales

    assert on_each(2, run) == [[1024.0, 1024.0, 512.0, 512.0]] * 2
    first, second = (training.model.state_dict() for training in trainings)
    for key, value in first.items():
        assert value.isfinite().all()
        torch.testing.assert_close(second[key], value, rtol=0, atol=0)


@two
def test_gradients_that_lie_otherwise_on_a_rank(worlds: list[rota.Communicator]) -> None:
    """What is reduced are elements, not bytes. Such parameters make no plan, and so the others' are none, either."""
    x, y = torch.randn(4, 5, 8, 8), torch.randn(4, 6, 6, 6)

    begun = nn.Conv2d(5, 6, 3).state_dict()  # here: threads would draw from one generator

    def trained(rank: int | None) -> Any:
        model: Any = nn.Conv2d(5, 6, 3)
        model.load_state_dict(begun)
        if rank == 1:
            model.to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return float(loss)

        of = slice(None) if rank is None else slice(2 * rank, 2 * rank + 2)
        called: Any = step
        if rank is not None:
            called = rota.torch.capture(step, modules=[model], optimizers=[optimizer], communicator=worlds[rank])
        for _ in range(3):
            called(x[of], y[of])
        return model.weight.detach()

    expected = trained(None)
    for weight in on_each(2, trained):
        torch.testing.assert_close(weight, expected, rtol=1e-5, atol=1e-5)


def test_what_is_wrong_is_said() -> None:
    with rota.open("cpu", threads=1) as device, rota.Communicator.open(device, transport="alone") as communicator:
        training = Training("clipped")
        captured = rota.torch.capture(
            training.step, modules=[training.model], optimizers=[training.optimizer], communicator=communicator
        )
        with pytest.raises(rota.errors.InvalidArgument, match="parameters are on cuda:1, the communicator is one of"):
            captured._device(torch.device("cuda", 1))
        training.model.double()
        with pytest.raises(rota.errors.InvalidArgument, match="a gradient is torch.float64"):
            captured(*(one.double() for one in batch(0)))


@pytest.fixture
def as_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are put together, and plans made, as those of GPUs are."""
    for one in (adam, batch_norm, pairs):
        monkeypatch.setattr(one, "GPU_ALONE", False)
    for module in (capture, program, state):
        monkeypatch.setattr(module, "FIXED", {"cpu"})


@two
@pytest.mark.usefixtures("as_on_gpus")
@pytest.mark.parametrize("kind", KINDS)
def test_as_on_gpus(worlds: list[rota.Communicator], kind: str) -> None:
    """Of a scaler's, whether a gradient is finite is a number without dimensions, which becomes an f32."""
    trainings = [Training(kind) for _ in worlds]
    results = on_each(2, lambda rank: train(trainings[rank], worlds[rank]))
    check(kind, results, [training.model.state_dict() for training in trainings])


@two
def test_a_step_may_give_a_gradient(worlds: list[rota.Communicator]) -> None:
    """Large, and so by itself: what is given is the mean."""
    trainings = [Training("clipped") for _ in worlds]

    def run(rank: int) -> list[Any]:
        of = trainings[rank]

        def step(x: Any, y: Any) -> Any:
            of.optimizer.zero_grad()
            nn.functional.mse_loss(of.model(x), y).backward()
            of.optimizer.step()
            return of.model.first.weight.grad

        captured = rota.torch.capture(step, modules=[of.model], optimizers=[of.optimizer], communicator=worlds[rank])
        given = [captured(*(part_of(one, rank, 2) for one in batch(i))).clone() for i in range(STEPS)]
        assert all(made.segment is not None for made in captured.plans.values())
        return given

    whole = Training("clipped")
    for i, (first, second) in enumerate(zip(*on_each(2, run), strict=True)):
        whole.optimizer.zero_grad()
        x, y = batch(i)
        nn.functional.mse_loss(whole.model(x), y).backward()
        whole.optimizer.step()
        torch.testing.assert_close(first, second, rtol=0, atol=0)
        torch.testing.assert_close(first, whole.model.first.weight.grad, rtol=1e-5, atol=1e-6)


@on_stub()
@pytest.mark.parametrize("count", [1, 1000])
def test_messages_end_in_a_gpus_own_memory(driver: Driver, count: int) -> None:
    """Where PyTorch reads a gradient that a step as it is has reduced; over the stand-in for the CUDA driver."""
    devices = [rota.open("cuda:0", timeout=60) for _ in range(2)]
    worlds = rota.Communicator.open_ranks(devices, name="test", timeout=60, nccl=False)
    words = [driver.words(count, 1 + 2 * rank) for rank in range(2)]
    on_each(2, lambda rank: ranks.reduce_there(devices[rank].adopt(words[rank]), worlds[rank]))
    assert all((one.array == 2).all() for one in words)
    for device in devices:
        device.close()
    assert driver.violations() == ""


PROCESS = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import rota, test_torch_ranks as ranks
torch.set_num_threads(1)
with rota.open("cpu", threads=1) as device, rota.Communicator.open(device, timeout=60) as communicator:
    training = ranks.Training("clipped")
    results = ranks.train(training, communicator)
    torch.save((results, training.model.state_dict()), f"{sys.argv[2]}/{communicator.rank}")
"""


def test_processes(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    run_ranks(pytestconfig, PROCESS, str(Path(__file__).parent), str(tmp_path))
    found = [torch.load(tmp_path / str(rank)) for rank in range(RANKS)]
    check("clipped", [results for results, _ in found], [state for _, state in found])
