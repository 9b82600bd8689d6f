"""CuPy's arrays, streams and events with rota's tensors and plans, on a GPU: by DLPack, copied and shared, in order."""

from typing import Any

import numpy as np
import pytest

cupy: Any = pytest.importorskip("cupy")

import rota


def gpus() -> int:
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(gpus() == 0, reason="CuPy has no GPU here")]

COUNT = 1 << 20
# Keeps its stream busy for some 200 ms.
WAIT = """
extern "C" __global__ void wait(long long cycles) {
    const long long end = clock64() + cycles;
    while (clock64() < end);
}
"""


@pytest.fixture(autouse=True)
def first_gpu() -> Any:
    """CuPy's arrays and streams are of the GPU that is current: of several, JAX leaves its last one so, where this
    process has opened it."""
    with cupy.cuda.Device(0):
        yield


@pytest.fixture
def device() -> Any:
    with rota.open("cuda:0") as opened:
        yield opened


def later(x: Any, value: float) -> None:
    """On the current stream, a while from now."""
    cupy.RawKernel(WAIT, "wait")((1,), (1,), (np.int64(400_000_000),))
    x.fill(value)


def scaled(device: rota.Device, x: rota.Tensor) -> rota.Plan:
    with rota.graph(device) as g:
        rota.scale(x, 2, out=x)
    return g.compile()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint32])
def test_there_and_back(device: rota.Device, dtype: Any) -> None:
    given = cupy.arange(6).reshape(2, 3).astype(dtype)
    x = device.from_dlpack(given)
    assert x.shape == (2, 3)
    np.testing.assert_array_equal(x.numpy(), given.get())
    back = cupy.from_dlpack(x)
    assert back.dtype == dtype and back.device.id == 0
    np.testing.assert_array_equal((back + back).get(), 2 * given.get())


def test_an_array_is_adopted(device: rota.Device) -> None:
    """Plans read and write it where CuPy has it, after what CuPy's current stream was given."""
    stream = cupy.cuda.Stream(non_blocking=True)
    x = cupy.zeros(COUNT, cupy.float32)
    with stream:
        later(x, 3)
        tensor = device.adopt(x)
    plan = scaled(device, tensor)
    plan().wait()
    assert float(x[-1]) == 6
    assert cupy.from_dlpack(tensor).shape == (COUNT,)


@pytest.mark.parametrize("kind", ["stream", "handle", "event"])
def test_plans_and_streams_in_order(device: rota.Device, kind: str) -> None:
    stream, event = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event()
    x = cupy.zeros(COUNT, cupy.float32)
    plan = scaled(device, device.adopt(x))
    for i in range(1, 5):
        with stream:
            later(x, i)
            event.record()
            ticket = plan(after=[{"stream": stream, "handle": stream.ptr, "event": event}[kind]])
            assert not ticket.done()
            ticket.stream_wait(stream)
            x += 1
        stream.synchronize()
        assert float(x[0]) == 2 * i + 1 == float(x[-1])


def test_cupy_reads_what_was_submitted_before(device: rota.Device) -> None:
    x = device.tensor(np.ones(COUNT, np.float32))
    plan = scaled(device, x)
    stream = cupy.cuda.Stream(non_blocking=True)
    for i in range(1, 20):
        plan()
        with stream:
            assert float(cupy.from_dlpack(x)[-1]) == 2**i


@pytest.mark.skipif(gpus() < 2, reason="there is one GPU")
def test_another_gpu_is_current(device: rota.Device) -> None:
    """What is waited for is CuPy's current stream of the array's GPU; an array of the other one is refused by name."""
    x = cupy.zeros(COUNT, cupy.float32)
    later(x, 3)
    with cupy.cuda.Device(1):
        assert device.from_dlpack(x).numpy()[-1] == 3
        with pytest.raises(rota.errors.InvalidArgument, match="not <class 'cupy.ndarray'> in .* CUDA device 1$"):
            device.adopt(cupy.zeros(COUNT, cupy.float32))
