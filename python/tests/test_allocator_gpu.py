"""rota's device memory from PyTorch's pool, on a GPU."""

import gc
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import rota
from conftest import gpu_marks, side_by_side

torch = pytest.importorskip("torch")
import rota.torch  # noqa: E402

pytestmark = gpu_marks()
MIB = 1 << 20


@pytest.fixture
def device() -> Iterator[rota.Device]:
    with rota.open("cuda:0", allocator=rota.torch.allocator()) as opened:
        yield opened


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    assert condition()


def test_pytorch_counts_rotas_memory() -> None:
    torch.cuda.synchronize()
    gc.collect()
    none = torch.cuda.memory_allocated()
    with rota.open("cuda:0", allocator=rota.torch.allocator()) as device:
        before = torch.cuda.memory_allocated()
        x = device.zeros(16 * MIB)
        assert before + 62 * MIB <= torch.cuda.memory_allocated() <= before + 72 * MIB  # less what opening frees
        with rota.graph(device) as g:
            rota.affine(x, 1.0, 1.0, out=x)
        plan = g.compile()
        for _ in range(5):
            plan()
        assert x.numpy()[-1] == 5
        del x, plan, g
        gc.collect()
        until(lambda: torch.cuda.memory_allocated() < before + 32 * MIB)
    assert torch.cuda.memory_allocated() == none


def test_what_rota_gives_back_pytorch_has(device: rota.Device) -> None:
    """Without one more segment of the driver's: PyTorch empties no cache for it, since the pool has the block, which is
    of rota's stream: it is rota that gets it anew."""
    x = device.zeros(32 * MIB)
    reserved, allocated = torch.cuda.memory_reserved(), torch.cuda.memory_allocated()
    del x
    gc.collect()
    until(lambda: torch.cuda.memory_allocated() < allocated - 100 * MIB)
    again = device.zeros(32 * MIB)
    assert torch.cuda.memory_reserved() == reserved
    del again
    until(lambda: torch.cuda.memory_allocated() < allocated - 100 * MIB)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved - 100 * MIB


def test_results_with_pytorch_beside_it(device: rota.Device) -> None:
    """Plans and PyTorch's streams work and allocate at the same time: neither sees the other's bytes."""
    stop = threading.Event()

    def churn() -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            while not stop.is_set():
                parts = [torch.full((MIB,), float(i), device="cuda") for i in range(8)]
                assert [float(part.sum()) for part in parts[:2]] == [0.0, float(MIB)]

    beside = threading.Thread(target=churn)
    beside.start()
    try:

        def work(thread: int) -> None:
            for i in range(20):
                x = device.tensor(np.full(MIB, thread * 100 + i, np.float32))
                with rota.graph(device) as g:
                    g.output("y", (x * 2)[:4])
                assert g.compile()().result()["y"].tolist() == [2.0 * (thread * 100 + i)] * 4

        side_by_side(3, work)
    finally:
        stop.set()
        beside.join(60)


def test_more_than_pytorch_gives(device: rota.Device) -> None:
    torch.cuda.set_per_process_memory_fraction(0.02)
    try:
        with pytest.raises(rota.errors.OutOfMemory, match="Pool.allocate raised OutOfMemoryError: CUDA out of memory"):
            device.empty(8 << 30 >> 2)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert device.zeros(4).numpy().sum() == 0


def test_streams_and_arrays_go_with_it(device: rota.Device) -> None:
    x = torch.zeros(MIB, device="cuda")
    stream = torch.cuda.Stream()
    with rota.graph(device) as g:
        g.output("y", (device.adopt(x) * 2)[:4])
    plan = g.compile()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        x.fill_(3)
    assert plan(after=[stream]).result()["y"].tolist() == [6] * 4
    y = device.tensor(np.arange(4, dtype=np.float32))
    assert y.__dlpack_device__() == (2, 0)
    assert torch.from_dlpack(y).tolist() == [0, 1, 2, 3]
