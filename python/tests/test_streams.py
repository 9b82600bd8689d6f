"""Submissions after streams, events and tickets, streams after tickets, and DLPack's streams, over the stand-in for the
CUDA driver; with PyTorch on a GPU it is test_streams_gpu.py."""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rota
from conftest import on_stub, side_by_side
from stub_driver import CUDA, Driver, Gate, Words, address_in

COUNT = 64
SOON = 0.05  # what is not to happen has not happened by then
pytestmark = on_stub()


@pytest.fixture
def device() -> Iterator[rota.Device]:
    with rota.open("cuda:0", timeout=30) as opened_:
        yield opened_


def doubled(device: rota.Device, x: rota.Tensor) -> rota.Plan:
    with rota.graph(device) as g:
        g.output("y", x * 2)
    return g.compile(fuse=False)


def stepped(device: rota.Device, x: rota.Tensor) -> rota.Plan:
    """x += 1"""
    with rota.graph(device) as g:
        rota.affine(x, 1.0, 1.0, out=x)
    return g.compile(fuse=False)


class Held:
    """Memory of the application's, and a stream that brings 5 there once its gate is open."""

    def __init__(self, driver: Driver, device: rota.Device) -> None:
        self.driver, self.stream, self.gate = driver, driver.stream(), Gate(driver)
        self.words, five = driver.words(COUNT), driver.words(COUNT, 5)
        self.plan = doubled(device, device.adopt(self.words))
        self.gate.hold(self.stream)
        driver.copy(self.words, five, self.stream)

    def expect(self, ticket: rota.Ticket) -> None:
        """That it is held, and then comes after the copy."""
        time.sleep(SOON)
        assert not ticket.done()
        self.gate.open()
        np.testing.assert_array_equal(ticket.result()["y"], np.full(COUNT, 10, np.float32))
        self.driver.end(self.stream)


STREAMS: dict[str, Callable[[int], object]] = {
    "a handle": lambda stream: stream,
    "__cuda_stream__": lambda stream: SimpleNamespace(__cuda_stream__=lambda: (0, stream), cuda_stream="not asked"),
    "__cuda_stream__ as a property": lambda stream: SimpleNamespace(__cuda_stream__=(0, stream)),
    "torch's": lambda stream: SimpleNamespace(cuda_stream=stream),
    "cupy's": lambda stream: SimpleNamespace(ptr=stream, wait_event=None, record=None),
}
EVENTS: dict[str, Callable[[int], object]] = {
    "torch's": lambda event: SimpleNamespace(cuda_event=event),
    "cupy's": lambda event: SimpleNamespace(ptr=event, record=None),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_after_a_stream(kind: str, driver: Driver, device: rota.Device) -> None:
    held = Held(driver, device)
    held.expect(held.plan(after=[STREAMS[kind](held.stream)]))


@pytest.mark.parametrize("kind", EVENTS)
def test_after_an_event(kind: str, driver: Driver, device: rota.Device) -> None:
    """After what was on the stream when it was recorded, and not after what is behind it."""
    held, event, behind = Held(driver, device), driver.event(), Gate(driver)
    driver.record(event, held.stream)
    behind.hold(held.stream)
    ticket = held.plan(after=(EVENTS[kind](event),))
    time.sleep(SOON)
    assert not ticket.done()
    held.gate.open()
    np.testing.assert_array_equal(ticket.result()["y"], np.full(COUNT, 10, np.float32))
    assert not driver.is_through(held.stream)
    behind.open()
    driver.end(held.stream)
    assert driver.call("cuEventDestroy", event) == 0


def test_many_after_one_stream_and_several_events(driver: Driver, device: rota.Device) -> None:
    """More rows than the library has for submissions that wait, in their order."""
    x = device.zeros(COUNT)
    plan, stream, gate = stepped(device, x), driver.stream(), Gate(driver)
    gate.hold(stream)
    events = [driver.event() for _ in range(8)]
    tickets = []
    for i in range(64):
        event = events[i % len(events)]
        driver.record(event, stream)
        tickets.append(plan(after=[SimpleNamespace(cuda_event=event)] if i % 2 else [stream]))
    time.sleep(SOON)
    assert not any(ticket.done() for ticket in tickets)
    gate.open()
    np.testing.assert_array_equal(x.numpy(), np.full(COUNT, 64, np.float32))
    driver.end(stream)


def test_after_a_ticket(driver: Driver, device: rota.Device) -> None:
    """Two plans with nothing in common; the first is held by a stream."""
    held = Held(driver, device)
    ones = device.tensor(np.ones(COUNT, np.float32))
    later, other = doubled(device, ones), doubled(device, ones)
    first = held.plan(after=[held.stream])
    second = later(after=[first])
    assert other().result()["y"][0] == 2  # what comes after nothing passes
    time.sleep(SOON)
    assert not second.done()
    held.expect(first)
    second.wait()
    assert other(after=[first, second]).result()["y"][0] == 2  # they have ended
    assert other(after=[]).result()["y"][0] == 2 and other(after=None).result()["y"][0] == 2


def test_after_tickets_of_other_devices(driver: Driver, device: rota.Device, cpu: rota.Device) -> None:
    going, fails = threading.Event(), False

    def wait(_: Any) -> None:
        assert going.wait(30)
        if fails:
            raise ValueError("of its own")

    with rota.graph(cpu) as g:
        g.host(wait, reads=[g.input("x", 1)])
    waits, x = g.compile(), np.zeros(1, np.float32)
    plan = doubled(device, device.tensor(np.ones(COUNT, np.float32)))
    for fails in (False, True):
        going.clear()
        first = waits(x=x)
        second = plan(after=[first])
        time.sleep(SOON)
        assert not second.done()
        going.set()
        assert second.result()["y"][0] == 2  # whatever became of the first
    with pytest.raises(rota.errors.NodeFailed, match="of its own"):
        first.wait()
    held = Held(driver, device)
    before = held.plan(after=[held.stream])
    after = waits(x=x, after=[before])
    time.sleep(SOON)
    assert not after.done()
    held.expect(before)
    with pytest.raises(rota.errors.NodeFailed, match="of its own"):
        after.wait()


def test_awaited(driver: Driver, device: rota.Device) -> None:
    held = Held(driver, device)

    async def run() -> Any:
        asyncio.get_running_loop().call_later(SOON, held.gate.open)
        return await held.plan(after=[held.stream])

    assert asyncio.run(run())["y"].tolist() == [10] * COUNT
    driver.end(held.stream)


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_waits_for_a_ticket(kind: str, driver: Driver, device: rota.Device) -> None:
    """The call returns while the GPU has done nothing yet, and the stream has waited when it goes on."""
    words, stream, got = driver.words(COUNT), driver.stream(), driver.words(COUNT)
    plan = stepped(device, device.adopt(words))
    plan().wait()
    driver.pause(True)
    tickets = [plan() for _ in range(20)]
    tickets[-1].stream_wait(STREAMS[kind](stream))
    driver.copy(got, words, stream)
    assert not tickets[0].done() and not driver.is_through(stream)
    driver.pause(False)
    driver.end(stream)
    np.testing.assert_array_equal(got.array, np.full(COUNT, 21, np.float32))
    tickets[-1].wait()


def test_a_stream_between_two_plans(driver: Driver, device: rota.Device) -> None:
    """Rounds of a stream's work and a plan's, each after the other, and nobody waits for an end in between."""
    words, stream, copy = driver.words(COUNT), driver.stream(), driver.words(COUNT)
    plan = stepped(device, device.adopt(words))
    for _ in range(30):
        plan(after=[stream]).stream_wait(stream)
        driver.copy(copy, words, stream)
        driver.copy(words, copy, stream)
    driver.end(stream)
    np.testing.assert_array_equal(copy.array, np.full(COUNT, 30, np.float32))


def test_refused_by_name(driver: Driver, device: rota.Device, cpu: rota.Device) -> None:
    plan = doubled(device, device.tensor(np.ones(COUNT, np.float32)))
    on_cpu = doubled(cpu, cpu.tensor(np.ones(COUNT, np.float32)))
    stream, elsewhere = driver.stream(), Driver(driver.library, device=1)
    foreign = elsewhere.stream()
    invalid: list[tuple[object, str]] = [
        ([foreign], rf"'graph': after\[0\]: stream {foreign:#x} is of another GPU, or context, than the device's"),
        ([stream, None], r"after\[1\] is a CUDA stream, an event or a ticket, not <class 'NoneType'>"),
        (["stream"], r"after\[0\] is a CUDA stream, an event or a ticket, not <class 'str'>"),
        ([-5], r"after\[0\]: a stream's handle is a whole number, 0 or more, not -5"),
        ([True], r"after\[0\]: a stream's handle is a whole number, 0 or more, not True"),
        ([SimpleNamespace(cuda_event=0)], r"after\[0\]: .*cuda_event=0.* was not recorded on a stream yet"),
        (stream, "after is a list of CUDA streams, events and tickets, not <class 'int'>"),
        ("stream", "after is a list of .*, not <class 'str'>"),
        ([stream] * 17, "after has 17 that have not ended; a submission comes after 16 at most"),
    ]
    for after, sentence in invalid:
        with pytest.raises(rota.errors.InvalidArgument, match=sentence):
            plan(after=after)
    for refused in (lambda: on_cpu(after=[stream]), lambda: on_cpu().stream_wait(stream)):
        with pytest.raises(rota.errors.Unsupported, match="device 'cpu' has no streams"):
            refused()
    with pytest.raises(rota.errors.InvalidArgument, match=f"stream_wait: stream {foreign:#x} is of another GPU"):
        plan().stream_wait(foreign)
    with pytest.raises(rota.errors.InvalidArgument, match="stream_wait: a CUDA stream is expected .*, not .*'str'"):
        plan().stream_wait("stream")
    assert driver.call("cuStreamBeginCapture", stream, 2) == 0
    with pytest.raises(rota.errors.WrongState, match="is being captured"):
        plan(after=[stream])
    assert driver.call("cuGraphDestroy", driver.new_of("cuStreamEndCapture", stream)) == 0
    other = rota.open("cpu")
    ticket = doubled(other, other.tensor(np.ones(1, np.float32)))()
    other.close()
    with pytest.raises(rota.errors.WrongState, match="device 'cpu' is closed"):
        plan(after=[ticket])
    for name in ("out", "after"):
        with pytest.raises(rota.errors.InvalidArgument, match=f"no argument of a graph is named '{name}'"):
            rota.graph(device).input(name, 1)
    with pytest.raises(rota.errors.NotFound, match="has no argument 'befor'"):
        plan(befor=[stream], after=[stream])
    assert plan(after=[stream] * 16).result()["y"][0] == 2
    elsewhere.end(foreign)
    driver.end(stream)


def test_a_stream_that_does_not_get_there(driver: Driver) -> None:
    with rota.open("cuda:0", timeout=0.3) as device:
        held = Held(driver, device)
        ticket = held.plan(after=[held.stream])
        begin = time.monotonic()
        with pytest.raises(rota.errors.Timeout, match=f"held for external timeline 'stream {held.stream:#x}' at 0"):
            ticket.wait(20)
        assert time.monotonic() - begin < 10  # it has failed, and is not waited for
        held.gate.open()
        driver.end(held.stream)


def test_a_child_after_a_fork_enters_no_driver(driver: Driver, device: rota.Device) -> None:
    x, stream = device.zeros(COUNT), driver.stream()
    plan = stepped(device, x)
    ticket = plan(after=[stream])
    ticket.wait()
    words = driver.words(COUNT)
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (
            lambda: plan(after=[stream]),
            lambda: ticket.stream_wait(stream),
            lambda: x.__dlpack__(stream=stream, copy=False),
            lambda: device.from_dlpack(words),
        ):
            try:
                call()
            except rota.errors.WrongState:
                refused += 1
            except BaseException:
                pass
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    driver.end(stream)


def test_dlpacks_streams(driver: Driver, device: rota.Device) -> None:
    """What a consumer's stream does after __dlpack__ comes after the plans that were called before; without a copy, and
    with one. The stand-in runs streams in random order."""
    x, stream, got = device.zeros(COUNT), driver.stream(), driver.words(COUNT)
    plan = stepped(device, x)
    for i in range(1, 21):
        for _ in range(20):
            plan()
        capsule = x.__dlpack__(stream=stream, copy=False if i % 2 else None)
        driver.copy_from(got, address_in(capsule), stream)
        assert driver.call("cuStreamSynchronize", stream) == 0
        np.testing.assert_array_equal(got.array, np.full(COUNT, 20 * i, np.float32))
        del capsule
    driver.end(stream)


def test_dlpack_without_a_stream(driver: Driver, device: rota.Device) -> None:
    """None: all is done when it returns. -1: nobody waits for what shares the memory; a copy is complete."""
    x = device.zeros(COUNT)
    plan = stepped(device, x)
    plan().wait()
    for copy in (False, None):
        capsules: list[Any] = []
        driver.pause(True)
        ticket = plan()
        asks = threading.Thread(target=lambda copy=copy: capsules.append(x.__dlpack__(copy=copy)))
        asks.start()
        if copy is False:
            x.__dlpack__(stream=-1, copy=False)
        time.sleep(SOON)
        assert not capsules and not ticket.done()
        driver.pause(False)
        asks.join(30)
        assert ticket.done() and len(capsules) == 1
    got, stream = driver.words(COUNT), driver.stream()
    driver.copy_from(got, address_in(x.__dlpack__(stream=-1)), stream)
    driver.end(stream)
    np.testing.assert_array_equal(got.array, np.full(COUNT, 3, np.float32))


def test_dlpacks_streams_that_are_refused(driver: Driver, device: rota.Device, cpu: rota.Device) -> None:
    x = device.tensor(np.ones(COUNT, np.float32))
    for wrong in (0, -2, True, "stream", 1.5):
        with pytest.raises(rota.errors.InvalidArgument, match="stream is None, -1, 1 .* or a handle, .*not"):
            x.__dlpack__(stream=wrong)  # type: ignore[arg-type]
    elsewhere = Driver(driver.library, device=1)
    foreign = elsewhere.stream()
    for copy in (False, None):
        with pytest.raises(rota.errors.InvalidArgument, match=f"Tensor .*: stream {foreign:#x} is of another GPU"):
            x.__dlpack__(stream=foreign, copy=copy)
    elsewhere.end(foreign)
    y = cpu.tensor(np.ones(4, np.float32))
    for copy in (False, None):
        with pytest.raises(rota.errors.Unsupported, match="device 'cpu' has no streams: stream is None, not 7"):
            y.__dlpack__(stream=7, copy=copy)
        y.__dlpack__(stream=-1, copy=copy)
        y.__dlpack__(stream=None, copy=copy)
    with pytest.raises(rota.errors.Unsupported, match="has no streams"):
        cpu.adopt(np.zeros(16, np.float32), stream=7)


class Buffered(bytearray):
    """As JAX's and CuPy's arrays: of a type that has buffers, which say nothing of what lies on a GPU."""

    def __init__(self, words: Any) -> None:
        super().__init__(4)
        self.words = words

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self.words.__dlpack__(**options)


def test_arrays_whose_type_has_buffers(driver: Driver, device: rota.Device) -> None:
    words = driver.words(COUNT, 3)
    np.testing.assert_array_equal(device.from_dlpack(Buffered(words)).numpy(), words.array)
    stepped(device, device.adopt(Buffered(words)))().wait()
    np.testing.assert_array_equal(words.array, np.full(COUNT, 4, np.float32))
    with pytest.raises(rota.errors.InvalidArgument, match="in the memory of 'cuda:0' is expected, not .*bytearray"):
        device.adopt(bytearray(16))


class Streamed:
    """As CuPy's and PyTorch's arrays: their libraries order the stream that is current on the GPU that is."""

    def __init__(self, words: Words, drivers: list[Driver], streams: list[int]) -> None:
        self.words, self.drivers, self.streams = words, drivers, streams

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.words.__dlpack_device__()

    def __dlpack__(self, *, stream: int, **options: Any) -> Any:
        now = self.drivers[0].current_ordinal()
        driver = self.drivers[now]
        if stream not in (-1, self.streams[now]):
            event = driver.event()
            driver.record(event, self.streams[now])
            self.drivers[0].wait(stream, event)
            assert driver.call("cuEventDestroy", event) == 0
        return self.words.__dlpack__(stream=stream, **options)


@pytest.mark.parametrize("told", [False, True])
def test_another_gpu_is_current(told: bool, driver: Driver, device: rota.Device) -> None:
    """As JAX leaves its last one: what is waited for is what the library has on the array's, and it stays current."""
    drivers = [driver, Driver(driver.library, device=1)]
    streams, gate, words = [one.stream() for one in drivers], Gate(driver), driver.words(COUNT)
    array, mine = Streamed(words, drivers, streams), driver.stream()
    gate.hold(streams[0])
    driver.copy(words, driver.words(COUNT, 5), streams[0])
    got: list[float] = []

    def take() -> None:
        with drivers[1].current():
            if told:
                x = device.adopt(array, stream=mine)
                assert driver.call("cuStreamSynchronize", mine) == 0
            else:
                x = device.from_dlpack(array)
            got.extend([x.numpy()[0], driver.current_ordinal()])

    takes = threading.Thread(target=take)
    takes.start()
    time.sleep(SOON)
    early = list(got)
    gate.open()
    takes.join(30)
    assert early == [] and got == [5, 1]
    for one, stream in ((driver, mine), (driver, streams[0]), (drivers[1], streams[1])):
        one.end(stream)


def test_memory_that_is_not_taken(driver: Driver, device: rota.Device, cpu: rota.Device) -> None:
    """Each is told by name, and its library is not asked for it."""
    foreign = Driver(driver.library, device=1).words(COUNT)
    others: list[tuple[tuple[int, int], str]] = [
        ((CUDA, 1), "the memory of CUDA device 1"),
        ((1, 0), "the host's memory"),
        ((3, 0), "pinned memory of CUDA's"),
        ((13, 0), "managed memory of CUDA's"),
        ((10, 0), "the memory of a device of DLPack's kind 10"),
    ]
    for foreign.device, text in others:
        sentence = f"a tensor: an array in the memory of 'cuda:0' is expected, not <class '.*Words'> in {text}$"
        with pytest.raises(rota.errors.InvalidArgument, match=sentence):
            device.adopt(foreign)
    foreign.device = CUDA, 1
    with pytest.raises(rota.errors.InvalidArgument, match="a tensor: .*'cuda:0' is expected, not .* CUDA device 1$"):
        device.from_dlpack(foreign)
    assert foreign.asked == []
    foreign.device = CUDA, 0  # which its capsule is not of
    with pytest.raises(rota.errors.Unsupported, match="CUDA device 1, which .* to the memory of CUDA device 0$"):
        device.from_dlpack(foreign)
    with pytest.raises(rota.errors.Unsupported, match="in the memory of CUDA device 0, which .*; copy it to the host"):
        cpu.from_dlpack(driver.words(COUNT))


@pytest.mark.parametrize("copy", [None, False])
def test_arrays_in_a_cuda_devices_memory_keep_it_open(copy: bool | None, driver: Driver) -> None:
    """Copies, too: they are on the device."""
    device = rota.open("cuda:0")
    capsule = device.zeros(COUNT).__dlpack__(copy=copy)
    gc.collect()
    assert device.shared == 1
    with pytest.raises(rota.errors.WrongState, match=r"there are 1 arrays over its memory, of from_dlpack\(tensor\)$"):
        device.close()
    del capsule
    assert device.shared == 0
    device.close()


def test_producers_are_told_the_stream(driver: Driver, device: rota.Device) -> None:
    """A stream of rota's own, whose end it waits for; or the caller's, and nobody waits."""
    words, stream, gate = driver.words(COUNT, 3), driver.stream(), Gate(driver)
    np.testing.assert_array_equal(device.from_dlpack(words).numpy(), words.array)
    device.adopt(words)
    assert words.asked[0] == words.asked[1] and words.asked[0] not in (None, 0, -1, 1, 2, stream)
    gate.hold(stream)
    driver.copy(words, driver.words(COUNT, 4), stream)
    for told in (stream, -1, 1):
        x = device.adopt(words, stream=told)
        assert words.asked[-1] == told
    ticket = doubled(device, x)(after=[stream])
    assert not ticket.done()
    gate.open()
    assert ticket.result()["y"].tolist() == [8] * COUNT
    with pytest.raises(rota.errors.InvalidArgument, match="adopting an array: stream is None, -1, 1"):
        device.adopt(words, stream=0)
    driver.end(stream)


@pytest.mark.parametrize("is_ordered", [False, True])
def test_what_the_host_wrote_last_is_shared(is_ordered: bool, driver: Driver) -> None:
    """Of a collective by messages: it is brought to the device's memory for whoever is given that."""
    devices = [rota.open("cuda:0", timeout=30) for _ in range(2)]
    ranks = rota.Communicator.open_ranks(devices, name="test", timeout=30, nccl=False)
    words = [driver.words(COUNT, 1 + 2 * rank) for rank in range(2)]

    def share(rank: int) -> None:
        there = devices[rank].adopt(words[rank])
        with rota.graph(devices[rank], gradients=False) as g:
            rota.all_reduce(there, ranks[rank], "mean", out=there)
        g.compile()().wait()
        stream = driver.stream() if is_ordered else None
        assert address_in(there.__dlpack__(copy=False, stream=stream)) == words[rank].address
        if stream is not None:
            driver.end(stream)

    side_by_side(2, share)
    for one in words:
        np.testing.assert_array_equal(one.array, np.full(COUNT, 2, np.float32))
    for device in devices:
        device.close()
