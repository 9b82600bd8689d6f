"""Devices that tests run on: the CPU, and a Vulkan (lavapipe) and a CUDA device where they are there."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rota
from stub_driver import Driver, opened

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpt-tool", type=Path, help="the tests' gpt_tool of a build, which has the C trainer's model")
    parser.addoption("--large", action="store_true", help="models of their own sizes, too")
    parser.addoption("--mpi-folder", type=Path, help="the folder of rota's library for MPI")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: wants a CUDA device of PyTorch's or JAX's")


def usable() -> list[str]:
    there = {str(device["id"]) for device in rota.devices() if device["usable"]}
    return [name for name in ("cpu", "vk:0", "cuda:0") if name in there]


@pytest.fixture(scope="session", params=usable())
def device(request: pytest.FixtureRequest) -> Iterator[rota.Device]:
    with rota.open(request.param) as opened:
        yield opened


@pytest.fixture
def cpu() -> Iterator[rota.Device]:
    with rota.open("cpu", threads=2) as opened:
        yield opened


def gpu_marks() -> list[pytest.MarkDecorator]:
    """Of tests that want a CUDA device of PyTorch's."""
    import torch

    return [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no CUDA device")]


def on_gpu(test: Any) -> Any:
    for mark in gpu_marks():
        test = mark(test)
    return test


def on_stub() -> pytest.MarkDecorator:
    """Of tests over the stand-in for the CUDA driver."""
    missing = opened() is None or "cuda:0" not in usable()
    return pytest.mark.skipif(missing, reason="libcuda.so.1 is no stand-in, or rota has no kernels")


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    library = opened()
    assert library is not None
    made = Driver(library)
    yield made
    assert made.violations() == ""


def doubled(device: rota.Device, n: int = 4, **options: Any) -> rota.Plan:
    """y = k * x, k 2 where it is not given; options: of the input x."""
    with rota.graph(device, name="doubled") as g:
        g.output("y", g.input("x", n, **options) * g.slot("k", default=2))
    return g.compile()


def side_by_side(count: int, work: Callable[[int], object]) -> None:
    """work(0), work(1), ... each on a thread of its own, to their ends; raises what one of them has raised."""
    raised: list[BaseException] = []

    def run(i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for error in raised:
        raise error
    assert not any(thread.is_alive() for thread in threads)
