"""Ops that no plan has: the thread that calls a compiled function runs them between two plans, and no thread of rota's.
What PyTorch has for a thread (modes, the current stream) is then the caller's, and nothing of rota's waits for them."""

import contextvars
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import test_torch
import torch
from conftest import on_gpu, side_by_side

import rota.torch

OF_CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("of_caller", default="nobody's")

# What each run of the op saw, and what it waits for.
seen: list[dict[str, Any]] = []
waits: dict[str, threading.Event] = {}


@torch.library.custom_op("rota_test::look", mutates_args=())
def look(x: torch.Tensor) -> torch.Tensor:
    stream = torch.cuda.current_stream().cuda_stream if x.is_cuda else None
    modes = torch.is_inference_mode_enabled(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    one = {"thread": threading.get_native_id(), "caller": OF_CALLER.get(), "stream": stream, "modes": modes}
    seen.append(one)
    if OF_CALLER.get() in waits:
        waits["is_there"].set()
        one["waited"] = waits[OF_CALLER.get()].wait(60)
    return x * 2


@look.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def apart(x: Any) -> Any:
    """Two plans, and between them what is no plan's."""
    return look(x + 1).exp() - 1


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    rota.torch.reset_ops()
    seen.clear()
    waits.clear()
    yield


def tasks() -> set[int]:
    """All threads of the process, of Python's and not."""
    return {int(one.name) for one in Path(f"/proc/{os.getpid()}/task").iterdir()}


def test_each_caller_runs_its_own() -> None:
    called = test_torch.compiled(apart)
    x = torch.randn(5, 7)
    called(x)
    assert rota.torch.ops()["host"] == {"rota_test.look.default": 1}
    assert set(rota.torch.ops()["rota"]) >= {"aten.add.Tensor", "aten.exp.default"}
    seen.clear()
    callers: dict[str, int] = {}

    def run(i: int) -> None:
        OF_CALLER.set(f"thread {i}")
        callers[f"thread {i}"] = threading.get_native_id()
        for _ in range(5):
            torch.testing.assert_close(called(x), ((x + 1) * 2).exp() - 1)

    side_by_side(4, run)
    assert len(seen) == 20 and {one["caller"] for one in seen} == set(callers)
    assert all(one["thread"] == callers[one["caller"]] for one in seen)
    # Threads of rota's that there are, submit threads among them: all that are none of Python's.
    of_rota = tasks() - {thread.native_id for thread in threading.enumerate()} - set(callers.values())
    assert of_rota and not of_rota & {one["thread"] for one in seen}


def test_modes_are_the_callers() -> None:
    called = test_torch.compiled(apart)
    x = torch.randn(5, 7)
    threads = torch.get_num_threads()
    called(x)
    with torch.inference_mode():
        called(x)
    torch.use_deterministic_algorithms(True)
    try:
        called(x)
    finally:
        torch.use_deterministic_algorithms(False)
    assert [one["modes"] for one in seen][-1] == (False, True, threads)
    assert seen[1]["modes"][0] and not seen[0]["modes"][0]


def test_nothing_of_rotas_waits_for_it() -> None:
    """While one thread's op takes its time, other plans of the same device run to their ends."""
    called, other = test_torch.compiled(apart), test_torch.compiled(lambda x: x.tanh() * 3)
    x = torch.randn(5, 7)
    called(x), other(x)
    waits.update({"the one": threading.Event(), "is_there": threading.Event()})

    def run() -> None:
        OF_CALLER.set("the one")
        called(x)

    thread = threading.Thread(target=run)
    thread.start()
    assert waits["is_there"].wait(60)
    for _ in range(20):
        torch.testing.assert_close(other(x), x.tanh() * 3)
    assert "waited" not in seen[-1]
    waits["the one"].set()
    thread.join(60)
    assert seen[-1]["waited"]


@on_gpu
def test_the_stream_is_the_callers() -> None:
    called = test_torch.compiled(apart)
    x = torch.randn(5, 7, device="cuda")
    stream = torch.cuda.Stream()
    called(x)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        got = called(x)
    stream.synchronize()
    torch.testing.assert_close(got, ((x + 1) * 2).exp() - 1)
    assert seen[-1]["stream"] == stream.cuda_stream != seen[0]["stream"]
