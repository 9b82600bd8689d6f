"""Submissions after PyTorch's streams and events, its streams after tickets, and DLPack between the two, on a GPU."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rota
from conftest import gpu_marks

torch = pytest.importorskip("torch")
pytestmark = gpu_marks()

COUNT = 1 << 20
CYCLES = 400_000_000  # of the GPU's clock: some 200 ms


def doubled(device: rota.Device, x: rota.Tensor) -> rota.Plan:
    """The first four elements of 2 x, in an array of the host's; they come after all of it."""
    with rota.graph(device) as g:
        g.output("y", (x * 2)[:4])
    return g.compile()


def stepped(device: rota.Device, x: rota.Tensor) -> rota.Plan:
    with rota.graph(device) as g:
        rota.affine(x, 1.0, 1.0, out=x)
    return g.compile()


def later(x: Any, value: float) -> None:
    """On the current stream, a while from now."""
    torch.cuda._sleep(CYCLES)
    x.fill_(value)


@pytest.fixture
def device() -> Any:
    with rota.open("cuda:0") as opened:
        yield opened


def test_after_streams_and_events(device: rota.Device) -> None:
    x = torch.zeros(COUNT, device="cuda")
    plan = doubled(device, device.adopt(x))
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    held = 0
    for i, on in enumerate([stream, torch.cuda.default_stream()] * 3, 1):
        with torch.cuda.stream(on):
            later(x, i)
            event.record()
            if i % 2:
                torch.cuda._sleep(CYCLES)  # which is behind the event
        after: list[Any] = [[on], [event], [on.cuda_stream]][i % 3]
        ticket = plan(after=after)
        held += not ticket.done()
        assert ticket.result()["y"].tolist() == [2 * i] * 4
        torch.cuda.synchronize()
    assert held == 6
    with pytest.raises(rota.errors.InvalidArgument, match="was not recorded on a stream yet"):
        plan(after=[torch.cuda.Event()])


def test_nobody_waits_for_what_is_before(device: rota.Device) -> None:
    """Fifty submissions are made while the stream has not come to the first."""
    x = torch.zeros(COUNT, device="cuda")
    tensor = device.adopt(x)
    plan, stream, event = stepped(device, tensor), torch.cuda.Stream(), torch.cuda.Event()
    plan(after=[stream]).wait()
    with torch.cuda.stream(stream):
        later(x, 0)
        event.record()
    tickets = [plan(after=[stream]) for _ in range(50)]
    assert not event.query() and not tickets[0].done()
    tickets[-1].wait()
    assert tensor.numpy()[0] == 50 and event.query()


def test_awaited(device: rota.Device) -> None:
    x = torch.zeros(COUNT, device="cuda")
    plan = doubled(device, device.adopt(x))

    async def run() -> Any:
        later(x, 3)
        return await plan(after=[torch.cuda.current_stream()])

    assert asyncio.run(run())["y"].tolist() == [6] * 4


def test_a_stream_waits_for_tickets(device: rota.Device) -> None:
    """PyTorch reads what plans have written, on streams of each kind, without a wait of its own."""
    x = torch.zeros(16 * COUNT, device="cuda")  # whose plans take longer than their calls
    plan = stepped(device, device.adopt(x))
    plan().wait()
    busy = 0
    for i, stream in enumerate([torch.cuda.Stream(), torch.cuda.default_stream()] * 5, 1):
        ticket = [plan() for _ in range(200)][-1]
        ticket.stream_wait([stream, stream.cuda_stream][i // 2 % 2])
        busy += not ticket.done()
        with torch.cuda.stream(stream):
            y = x.clone()
        stream.synchronize()
        assert y.min() == y.max() == 200 * i + 1
    assert busy > 0  # the GPU has waited
    rounds, stream = 20, torch.cuda.Stream()
    x.zero_()
    torch.cuda.synchronize()
    for _ in range(rounds):
        with torch.cuda.stream(stream):
            x.mul_(2)
        plan(after=[stream]).stream_wait(stream)
    stream.synchronize()
    assert x.min() == x.max() == 2**rounds - 1


def test_dlpacks_streams(device: rota.Device) -> None:
    """torch.from_dlpack names its current stream, which comes after what was called before."""
    x = device.zeros(COUNT)
    plan = stepped(device, x)
    total = 0
    for stream in [torch.cuda.default_stream(), torch.cuda.Stream()] * 4:
        for copy in (False, None):
            for _ in range(50):
                plan()
            total += 50
            with torch.cuda.stream(stream):
                y = torch.from_dlpack(x, copy=False) if copy is False else torch.from_dlpack(x)
                z = y + 0
            stream.synchronize()
            assert z.min() == z.max() == total
            del y
    for told in (None, -1, 1, 2, torch.cuda.Stream().cuda_stream):
        plan()
        total += 1
        got = torch.utils.dlpack.from_dlpack(x.__dlpack__(stream=told))
        torch.cuda.synchronize()
        assert got.min() == got.max() == total
    with pytest.raises(rota.errors.InvalidArgument, match="stream is None, -1, 1"):
        x.__dlpack__(stream=0)


def test_producers_streams(device: rota.Device) -> None:
    """from_dlpack and adopt wait for PyTorch's current stream; adopt with a stream does not."""
    x = torch.zeros(COUNT, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        later(x, 1)
        assert device.from_dlpack(x).numpy()[-1] == 1
        later(x, 2)
        assert doubled(device, device.adopt(x)).__call__().result()["y"][0] == 4
    plan = doubled(device, device.adopt(x))
    stream, mine = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        later(x, 3)
        begin = time.monotonic()
        again = device.adopt(x, stream=mine.cuda_stream)  # mine comes after stream
    assert not stream.query() and time.monotonic() - begin < 10
    assert plan(after=[mine]).result()["y"][0] == 6
    assert again.numpy()[0] == 3


def test_a_tensor_of_one_device_is_anothers(device: rota.Device) -> None:
    """rota as producer and as consumer."""
    with rota.open("cuda:0") as other:
        x = device.zeros(COUNT)
        plan = stepped(device, x)
        for i in range(1, 5):
            plan()
            np.testing.assert_array_equal(other.from_dlpack(x).numpy(), np.full(COUNT, i, np.float32))


def test_the_readmes_listing(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[1] / "README.md").read_text()
    listing = next(
        text for text in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if "stream_wait" in text
    )
    names: dict[str, Any] = {"rota": rota}
    exec(compile(listing, "README.md", "exec"), names)
    assert float(capsys.readouterr().out) == 1.5 * 1024 * 1024
    names["gpu"].close()


def test_costs(device: rota.Device, capsys: pytest.CaptureFixture[str]) -> None:
    """What the calls take, for whoever reads the output (-s): no bound."""
    x = torch.zeros(64, device="cuda")
    tensor = device.adopt(x)
    plan, stream = stepped(device, tensor), torch.cuda.Stream()
    event = torch.cuda.Event()
    event.record(stream)
    ticket = plan()
    ticket.wait()

    def microseconds(work: Any, rounds: int = 300) -> float:
        work()
        begin = time.perf_counter()
        for _ in range(rounds):
            work()
        return (time.perf_counter() - begin) / rounds * 1e6

    takes = {
        "plan()": microseconds(lambda: plan()),
        "plan(after=[stream])": microseconds(lambda: plan(after=[stream])),
        "plan(after=[event])": microseconds(lambda: plan(after=[event])),
        "plan().wait()": microseconds(lambda: plan().wait()),
        "plan(after=[stream]).wait()": microseconds(lambda: plan(after=[stream]).wait()),
        "plan().stream_wait(stream)": microseconds(lambda: plan().stream_wait(stream)),
        "torch.from_dlpack(x, copy=False)": microseconds(lambda: torch.from_dlpack(tensor, copy=False)),
        "torch.from_dlpack(x)": microseconds(lambda: torch.from_dlpack(tensor)),
    }
    torch.cuda.synchronize()
    with capsys.disabled():
        print("".join(f"\n{name}: {taken:.1f} us" for name, taken in takes.items()))
