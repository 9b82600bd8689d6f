"""Tensors: views of them, arrays of other libraries, memory that is shared or adopted, and what outlives its device."""

import gc
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest
from conftest import doubled

import rota


def test_tensors_outlive_their_device() -> None:
    device = rota.open("cpu", threads=1)
    x = device.tensor(np.ones(3, np.float32))
    plan = doubled(device)
    ticket = plan(x=np.ones(4, np.float32))
    device.close()
    device.close()
    with pytest.raises(rota.errors.WrongState, match="device 'cpu' is closed"):
        x.numpy()
    with pytest.raises(rota.errors.WrongState, match="is closed"):
        plan(x=np.ones(4, np.float32))
    with pytest.raises(rota.errors.WrongState, match="is closed"):
        ticket.result()
    assert "closed" in repr(device) and "closed" in repr(ticket)


def test_views_and_operators(device: rota.Device) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = device.tensor(array)
    np.testing.assert_array_equal(x[1].numpy(), array[1])
    np.testing.assert_array_equal(x[:, 1:, ...].numpy(), array[:, 1:])
    np.testing.assert_array_equal(x[..., -1].numpy(), array[..., -1])
    np.testing.assert_array_equal(x.T.numpy(), array.swapaxes(1, 2))
    np.testing.assert_array_equal(x.permute(2, 0, 1).numpy(), array.transpose(2, 0, 1))
    np.testing.assert_array_equal(x.reshape(-1, 4).numpy(), array.reshape(6, 4))
    np.testing.assert_array_equal(x[1, 2:, :].broadcast_to((2, 2, 4)).numpy(), np.broadcast_to(array[1, 2:], (2, 2, 4)))
    assert x.shape == (2, 3, 4) and x.ndim == 3 and x.size == 24 and len(x) == 2 and x.dtype == "f32"
    with rota.graph(device) as g:
        k = g.slot("k")
        y = (2 - x * 3) / 4 + x**2 - (1 / (x + 1)) + k * x - (-x) + (x < k * x) + (x + k)
        g.output("y", y)
    expected = (2 - array * 3) / 4 + array**2 - 1 / (array + 1) + 2 * array + array + (array < 2 * array) + array + 2
    np.testing.assert_allclose(g.compile()(k=2).result()["y"], expected, rtol=1e-6)


def test_arrays_with_gaps_are_copied_to_a_device(cpu: rota.Device) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for part in (array[:, ::2, 1:], array.T, array[::-1], np.broadcast_to(array[0], (2, 3, 4))):
        np.testing.assert_array_equal(cpu.tensor(part).numpy(), part)


def test_dlpack(device: rota.Device) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = device.from_dlpack(array)
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), array)
    np.testing.assert_array_equal(np.asarray(x), array)
    x.write(array + 1)
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), array + 1)
    assert x.__dlpack_device__() == ((2, 0) if device.id == "cuda:0" else (1, 0))
    with pytest.raises(BufferError, match="contiguous tensors of the CPU and CUDA devices alone"):
        x[:, :1].__dlpack__(copy=False)
    half = device.tensor(np.full(3, 0x3F80, np.uint16))
    assert half.dtype == "bf16" and half.numpy().tolist() == [0x3F80] * 3


def test_torch(device: rota.Device) -> None:
    torch = pytest.importorskip("torch")
    plan = doubled(device)
    y = torch.zeros(4)
    plan(x=torch.ones(4), out={"y": y}).wait()
    assert y.tolist() == [2, 2, 2, 2]
    x = device.tensor(torch.arange(4, dtype=torch.bfloat16))
    assert x.dtype == "bf16" and torch.from_dlpack(x).tolist() == [0, 1, 2, 3]
    if device.id == "cpu":
        shared = torch.from_dlpack(x, copy=False)
        shared.add_(1)
        assert x.numpy().tolist() == [0x3F80, 0x4000, 0x4040, 0x4080]


def test_torch_by_its_functions_in_c(cpu: rota.Device) -> None:
    """An array whose type has __dlpack_c_exchange_api__ is taken so, and where that does not do, by __dlpack__."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no functions in C for DLPack")
    called: list[str] = []

    class Watched(torch.Tensor):  # type: ignore[misc, name-defined]
        def __dlpack__(self, **options: Any) -> Any:
            called.append("__dlpack__")
            return torch.Tensor.__dlpack__(self, **options)

    class Older(Watched):
        __dlpack_c_exchange_api__ = None

    plan = doubled(cpu)
    for kind, calls in ((Watched, 0), (Older, 2)):
        y = torch.zeros(4).as_subclass(kind)
        plan(x=torch.arange(6.0)[1:5].as_subclass(kind), out={"y": y}).wait()
        assert y.tolist() == [2, 4, 6, 8] and len(called) == calls
    with pytest.raises(rota.errors.InvalidArgument, match="gaps"):
        plan(x=torch.zeros(8)[::2])
    with pytest.raises(rota.errors.InvalidArgument, match="the array is float64"):
        plan(x=torch.zeros(4, dtype=torch.float64))
    with pytest.raises(rota.errors.InvalidArgument, match="an array is expected"):
        plan(x=torch.zeros(4).to_sparse())
    held = torch.ones(1 << 16)
    with rota.graph(cpu) as g:
        g.output("sum", rota.sum(g.input("x", 1 << 16), 0))
    ticket = g.compile()(x=held)
    del held  # the submission keeps it
    assert float(ticket.result()["sum"]) == 1 << 16


def test_memory_that_is_shared(device: rota.Device) -> None:
    """Without a copy an array is the tensor's memory: plans write it, and read what is written to it."""
    x = device.tensor(np.arange(6, dtype=np.float32), name="x")
    if device.id == "vk:0":
        with pytest.raises(BufferError, match="CPU and CUDA devices alone"):
            x.__dlpack__(copy=False)
    if device.id != "cpu":
        return  # numpy has no arrays in a GPU's memory; test_torch_fixed.py has PyTorch's
    with rota.graph(device) as g:
        rota.scale(x, 2, out=x)
    plan = g.compile()
    plan()
    shared, part = np.from_dlpack(x, copy=False), np.from_dlpack(x[2:4], copy=False)
    assert shared.tolist() == [0, 2, 4, 6, 8, 10] and part.tolist() == [4, 6]
    plan().wait()
    assert shared.tolist() == [0, 4, 8, 12, 16, 20]
    if part.flags.writeable:
        part[:] = 1
        plan().wait()
        assert x.numpy().tolist() == [0, 8, 2, 2, 32, 40] == shared.tolist()
    with pytest.raises(rota.errors.UndefinedData):
        np.from_dlpack(device.empty(3), copy=False)


def aligned(count: int, offset: int = 0) -> Any:
    """An array whose memory begins so many bytes behind a multiple of 64."""
    memory = np.zeros(count * 4 + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    return memory[begin : begin + count * 4].view(np.float32)


def test_memory_that_is_adopted(cpu: rota.Device) -> None:
    """An array is a tensor's memory, which plans read and write, until nothing of rota's is over it."""
    count = 1 << 20
    array = aligned(count)
    array[:] = np.arange(count) % 7
    before = cpu.stats["memory_bytes"]
    x = cpu.adopt(array.reshape(1024, 1024), name="mine")
    assert (x.shape, x.dtype, x.name, x.kind) == ((1024, 1024), "f32", "mine", "PERSISTENT")
    assert cpu.stats["memory_bytes"] == before
    with rota.graph(cpu) as g:
        rota.scale(x, 2, out=x)
        g.output("first", x[0, :4])
    plan = g.compile()
    assert plan().result()["first"].tolist() == [0, 2, 4, 6] and array[:8].tolist() == [0, 2, 4, 6, 8, 10, 12, 0]
    array[:4] = 5
    assert plan().result()["first"].tolist() == [10, 10, 10, 10] and x.numpy()[0, 0] == 10
    shared = np.from_dlpack(x, copy=False)
    assert shared.ctypes.data == array.ctypes.data
    gone: list[int] = []
    weakref.finalize(array.base, gone.append, 1)
    del array, x, g, plan
    gc.collect()
    assert shared[0, 0] == 10 and gone == []
    del shared
    end = time.monotonic() + 10
    while not gone and time.monotonic() < end:
        gc.collect()
        time.sleep(0.001)
    assert gone == [1]


def test_two_buffers_over_the_same_memory(cpu: rota.Device) -> None:
    array = aligned(8)
    arrays = [np.from_dlpack(cpu.adopt(part), copy=False) for part in (array[:4], array, array[:4])]
    assert cpu.shared == 3 and cpu.are_shared([(array.ctypes.data, n) for n in (1, 32, 36)]) == [True, True, False]
    del arrays[1]
    gc.collect()
    assert cpu.are_shared([(array.ctypes.data, n) for n in (16, 32)]) == [True, False]
    arrays.clear()
    gc.collect()
    assert cpu.shared == 0 and cpu.are_shared([(array.ctypes.data, 1)]) == [False]


def test_memory_is_given_back_while_the_main_thread_waits(cpu: rota.Device) -> None:
    """Who adopts more of it drops what was let go of before."""
    kept: list[int] = []

    def work() -> None:
        arrays: list[Any] = []
        for _ in range(100):
            array = np.ones(64, np.float32)
            arrays.append(weakref.ref(array))
            tensor = cpu.adopt(array)
            del tensor, array
            time.sleep(0.001)  # for the thread that reclaims
        kept.append(sum(array() is not None for array in arrays))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert kept[0] < 50


def test_what_can_not_be_adopted(cpu: rota.Device) -> None:
    with pytest.raises(rota.errors.Misaligned, match="16"):
        cpu.adopt(aligned(8, 4))
    with pytest.raises(rota.errors.InvalidArgument, match="has gaps, and is not to be copied"):
        cpu.adopt(aligned(8)[::2])
    frozen = aligned(8)
    frozen.flags.writeable = False
    with pytest.raises(rota.errors.InvalidArgument, match="a writable array is expected"):
        cpu.adopt(frozen)
    with pytest.raises(rota.errors.InvalidArgument, match="float64"):
        cpu.adopt(np.zeros(8))


def test_shared_memory_keeps_its_device_open() -> None:
    device = rota.open("cpu")
    shared = np.from_dlpack(device.zeros(3), copy=False)
    gc.collect()
    assert device.shared == 1 and shared.tolist() == [0, 0, 0]
    with pytest.raises(rota.errors.WrongState, match="1 arrays over its memory"):
        device.close()
    del shared
    gc.collect()
    assert device.shared == 0
    device.close()


def test_shared_memory_outlives_the_interpreters_devices() -> None:
    code = """
import atexit, numpy as np
kept = []
atexit.register(lambda: print(int(kept[0].sum())))
import rota
device = rota.open("cpu")
x = device.tensor(np.ones(1 << 20, np.float32))
kept.append(np.from_dlpack(x, copy=False))
with rota.graph(device) as g:
    g.host(lambda array: None, reads=[x])
g.compile()()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1048576\n", "")
