"""rota.torch.capture with a GPU for each of two ranks, in one process and in two: each does its part of a batch, and
both have what one rank has of the whole (test_torch_ranks.py on the CPU)."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import test_torch_ranks as cpu
import torch

import rota
import rota.torch
from rota.torch import ranks

RANKS = 2

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < RANKS, reason="PyTorch has fewer than two CUDA devices"),
]


def training_on(kind: str, rank: int) -> cpu.Training:
    made = cpu.Training(kind)
    made.model.to(f"cuda:{rank}")
    made.scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, enabled=kind == "scaler")
    return made


def part_of(step: int, rank: int, count: int) -> list[Any]:
    return [cpu.part_of(one, rank, count).to(f"cuda:{rank}") for one in cpu.batch(step)]


def train(training: cpu.Training, communicator: rota.Communicator) -> tuple[list[float], list[float]]:
    """Losses and norms of a rank, on its GPU."""
    with torch.cuda.device(communicator.rank):
        step = rota.torch.capture(
            training.step,
            modules=[training.model],
            optimizers=[training.optimizer],
            scalers=[training.scaler],
            communicator=communicator,
        )
        found = [step(*part_of(i, communicator.rank, communicator.size)) for i in range(cpu.STEPS)]
        assert all(made.segment is not None for made in step.plans.values()) and len(step.plans) == 1
        return [float(loss) for loss, _ in found], [float(norm) for _, norm in found]


def check(kind: str, results: list[tuple[list[float], list[float]]], states: list[Any]) -> None:
    """Against one rank of the whole batch, on one GPU, without rota; ranks' parameters are alike to the bit."""
    whole = training_on(kind, 0)
    found = [whole.step(*part_of(i, 0, 1)) for i in range(cpu.STEPS)]
    mean = [sum(own) / len(own) for own in zip(*(losses for losses, _ in results), strict=True)]
    assert mean == pytest.approx([float(loss) for loss, _ in found], rel=1e-4)
    for _, norms in results:
        assert norms == pytest.approx([float(norm) for _, norm in found], rel=1e-4)
    for key, value in whole.model.state_dict().items():
        for state in states:
            torch.testing.assert_close(state[key].cpu(), value.cpu(), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(state[key].cpu(), states[0][key].cpu(), rtol=0, atol=0)


@pytest.fixture(params=[None, False], ids=["nccl", "messages"])
def worlds(request: pytest.FixtureRequest) -> Iterator[list[rota.Communicator]]:
    """Ranks in one process, by NCCL where it is there, and by the host."""
    devices = [rota.open(f"cuda:{rank}") for rank in range(RANKS)]
    yield rota.Communicator.open_ranks(devices, name="test", timeout=60, nccl=request.param)
    for device in devices:
        device.close()


@pytest.mark.parametrize("kind", cpu.KINDS)
def test_ranks_have_what_one_has_of_the_whole(worlds: list[rota.Communicator], kind: str) -> None:
    rota.torch.reset_ops()
    trainings = [training_on(kind, rank) for rank in range(RANKS)]
    results = cpu.on_each(RANKS, lambda rank: train(trainings[rank], worlds[rank]))
    check(kind, results, [training.model.state_dict() for training in trainings])
    ran, on_torch = (rota.torch.ops()[where] for where in ("rota", "torch"))
    for op in map(str, (ranks.ALL_REDUCE, ranks.ALL_REDUCE_TOGETHER)):
        assert ran[op] and op not in on_torch


PROCESS = """
import os, sys, torch
sys.path.insert(0, sys.argv[1])
import rota, test_torch_ranks_gpu as gpu
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
with rota.open(f"cuda:{rank}") as device, rota.Communicator.open(device, timeout=60) as communicator:
    assert (communicator.rank, communicator.size) == (rank, 2)
    training = gpu.training_on(sys.argv[3], rank)
    results = gpu.train(training, communicator)
    state = {key: value.cpu() for key, value in training.model.state_dict().items()}
    torch.save((results, state), f"{sys.argv[2]}/{rank}")
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize("kind", ["clipped", "adamw"])
def test_processes(tmp_path: Path, kind: str) -> None:
    """As torchrun starts them, each with a GPU."""
    shared = {"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1"}
    shared["MASTER_PORT"] = str(free_port())
    command = [sys.executable, "-c", PROCESS, str(Path(__file__).parent), str(tmp_path), kind]
    started = [
        subprocess.Popen(
            command,
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    try:
        said = [one.communicate(timeout=150)[1] for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0] * RANKS, "\n".join(said)
    found = [torch.load(tmp_path / str(rank)) for rank in range(RANKS)]
    check(kind, [results for results, _ in found], [state for _, state in found])
