"""Device memory from an allocator of Python's, over the stand-in for the CUDA driver; PyTorch's pool on a GPU is
test_allocator_gpu.py's."""

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rota
from conftest import on_stub, side_by_side
from stub_driver import Driver, Gate, opened

COUNT = 4096
pytestmark = on_stub()


class Pool:
    """The driver's memory, and what is known of it."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.mutex = driver, threading.Lock()
        self.live: dict[int, int] = {}
        self.asked: set[tuple[int, int]] = set()  # device and stream
        self.given = 0
        self.refuse: Callable[[int], Any] | None = None
        self.takes = 0.0  # seconds, in which others have the interpreter's lock
        self.shift = 0  # of what is given from now on

    def allocate(self, size_bytes: int, device: int, stream: int) -> int:
        if self.refuse:
            got: int = self.refuse(size_bytes)
            return got
        time.sleep(self.takes)
        memory = self.driver.new("cuMemAlloc", size_bytes + self.shift) + self.shift
        with self.mutex:
            self.live[memory] = size_bytes
            self.asked.add((device, stream))
            self.given += 1
        return memory

    def free(self, memory: int, size_bytes: int, device: int, stream: int) -> None:
        with self.mutex:
            assert self.live.pop(memory) == size_bytes
            self.asked.add((device, stream))
        assert self.driver.call("cuMemFree", memory - memory % 256) == 0


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    assert condition()


def stepped(device: rota.Device, x: rota.Tensor) -> rota.Plan:
    with rota.graph(device) as g:
        rota.affine(x, 1.0, 1.0, out=x)
    return g.compile(fuse=False)


def test_memory_comes_from_the_pool_and_goes_back(driver: Driver) -> None:
    pool = Pool(driver)
    with rota.open("cuda:1", allocator=pool) as device:
        assert device.id == "cuda:app0"
        x = device.tensor(np.zeros(COUNT, np.float32))
        assert x.__dlpack_device__() == (2, 1)
        assert 4 * COUNT in pool.live.values()
        plan = stepped(device, x)
        for _ in range(10):
            plan()
        np.testing.assert_array_equal(x.numpy(), np.full(COUNT, 10, np.float32))
        del x, plan
        until(lambda: 4 * COUNT not in pool.live.values())
    assert not pool.live and pool.given > 1
    assert len(pool.asked) == 1 and pool.asked.pop()[0] == 1  # one device, and one stream
    held = weakref.ref(pool)
    del pool, device
    gc.collect()
    assert held() is None


def test_nothing_is_freed_that_something_uses(driver: Driver) -> None:
    pool = Pool(driver)
    with rota.open("cuda:0", allocator=pool) as device:
        stream, gate = driver.stream(), Gate(driver)
        gate.hold(stream)
        x = device.zeros(COUNT)
        plan = stepped(device, x)
        ticket = plan(after=[stream])
        del x, plan
        gc.collect()
        time.sleep(0.05)
        assert not ticket.done() and 4 * COUNT in pool.live.values()
        gate.open()
        ticket.wait()
        until(lambda: 4 * COUNT not in pool.live.values())
        driver.end(stream)
    assert not pool.live


def test_an_allocator_that_fails(driver: Driver) -> None:
    pool = Pool(driver)
    device = rota.open("cuda:0", allocator=pool)

    def raises(size_bytes: int) -> int:
        raise ValueError(f"no {size_bytes} today")

    refusals: list[tuple[Callable[[int], Any], str]] = [
        (raises, f"asks for {4 * COUNT} bytes, .* does not give; rota holds .*: Pool.allocate raised ValueError: no "),
        (lambda _: None, "Pool.allocate gave None, expected an address"),
        (lambda _: 0, "Pool.allocate gave 0, expected an address"),
        (lambda _: "here", "Pool.allocate gave 'here', expected an address"),
        (lambda _: -1, "Pool.allocate gave -1, expected an address"),
    ]
    for pool.refuse, sentence in refusals:
        with pytest.raises(rota.errors.OutOfMemory, match=sentence):
            device.empty(COUNT).write(np.zeros(COUNT, np.float32))
    pool.refuse = None
    assert device.zeros(COUNT).numpy().sum() == 0  # and it goes on
    pool.refuse = raises
    with pytest.raises(rota.errors.Refused, match="ValueError: no "):
        rota.open("cuda:0", allocator=pool)
    pool.refuse = None
    pool.shift = 16
    with pytest.raises(rota.errors.Misaligned, match="expected a multiple of 256"):
        device.empty(COUNT).write(np.zeros(COUNT, np.float32))
    device.close()
    assert not pool.live


def test_a_free_that_raises(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, said = Pool(driver), []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: said.append(str(unraisable.exc_value)))

    class Forgetful(Pool):
        def free(self, memory: int, size_bytes: int, device: int, stream: int) -> None:
            super().free(memory, size_bytes, device, stream)
            raise KeyError("forgotten")

    pool = Forgetful(driver)
    with rota.open("cuda:0", allocator=pool) as device:
        assert device.zeros(COUNT).numpy().sum() == 0
    assert not pool.live and said and set(said) == {"'forgotten'"}


def test_refused_by_name() -> None:
    class Half:
        def allocate(self, size_bytes: int, device: int, stream: int) -> int:
            return 0

    for given in ("cpu", "vk:0", None, "cuda", "cuda:", "cuda:x"):
        with pytest.raises(rota.errors.InvalidArgument, match="an allocator is for a CUDA device, by its id"):
            rota.open(given, allocator=Half())  # type: ignore[arg-type]
    with pytest.raises(rota.errors.InvalidArgument, match="Half has no free"):
        rota.open("cuda:0", allocator=Half())  # type: ignore[arg-type]
    with pytest.raises(rota.errors.NotFound):
        rota.open("cuda:99", allocator=Pool(Driver(opened())))  # type: ignore[arg-type]


def test_many_threads(driver: Driver) -> None:
    """Allocators take their time, in which others have the interpreter's lock: nobody waits for one with it."""
    pool = Pool(driver)
    with rota.open("cuda:0", allocator=pool) as device:
        with rota.graph(device) as g:
            slot = g.buffer_slot("x", COUNT)
            rota.copy(g.input("y", COUNT), out=slot)
        plan = g.compile(fuse=False)
        tensors = [device.empty(COUNT) for _ in range(40)]
        y = np.ones(COUNT, np.float32)
        pool.takes = 0.002

        def work(thread: int) -> None:
            for i in range(len(tensors)):
                plan(x=tensors[i], y=y)
                if i % 4 == thread:
                    device.zeros(COUNT).numpy()
                    gc.collect()

        side_by_side(4, work)
        for tensor in tensors:
            np.testing.assert_array_equal(tensor.numpy(), y)
        del tensors, tensor
    assert not pool.live
