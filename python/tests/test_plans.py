"""Plans and tickets: arguments, waiting, lifetimes, threads, errors, several devices, drawings."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import doubled, side_by_side

import rota


class Slow:
    """A plan whose only node ends when it may."""

    def __init__(self, device: rota.Device) -> None:
        may_end = self.may_end = threading.Event()
        ran: list[str] = []
        self.ran = ran

        def run(x: Any, y: Any) -> None:
            may_end.wait(60)
            y[:] = x + 1
            ran.append("ran")

        with rota.graph(device, name="slow") as g:
            x = g.input("x", 4)
            y = g.empty(4)
            g.host(run, reads=[x], writes=[y])
            g.output("y", y)
        self.plan = g.compile()


def test_arguments_by_name(device: rota.Device) -> None:
    plan = doubled(device)
    x = np.arange(4, dtype=np.float32)
    assert plan.arguments == ["x", "k"] or plan.arguments == ["k", "x"]
    assert plan.outputs == ["y"]
    np.testing.assert_array_equal(plan(x=x).result()["y"], 2 * x)
    np.testing.assert_array_equal(plan(x=x, k=3.5).result()["y"], 3.5 * x)
    np.testing.assert_array_equal(plan(x=x).result()["y"], 2 * x)


def test_nodes_are_placed_on_several_devices(tmp_path: Path) -> None:
    """Whatever is placed where, and learned, results are the same."""
    others = [str(one["id"]) for one in rota.devices() if one["usable"] and one["id"] != "cpu"]
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7
    with rota.open("cpu", threads=2, diagnostics=True, cache_dir=str(tmp_path)) as device:
        with rota.graph(device, name="wide") as g:
            total = None
            given = g.input("x", (64, 64))
            for k in range(6):
                branch = given @ (given * float(k + 1))
                total = branch if total is None else total + branch
            assert total is not None
            g.output("y", total)
        for _ in range(5):
            plan = g.compile(also_on=others)
            np.testing.assert_allclose(plan(x=x).result()["y"], 21 * (x @ x), rtol=1e-5)
            plan.learn()
            assert {one["device"] for one in plan.commands()} <= {"cpu", *others}
        assert not others or any(tmp_path.glob("costs-*"))
        with pytest.raises(rota.errors.NotFound):
            g.compile(also_on=["nowhere:7"])
        with pytest.raises(rota.errors.InvalidArgument, match="'cpu'"):
            g.compile(also_on=["cpu"])
        with pytest.raises(rota.errors.InvalidArgument, match="also_on"):
            g.compile(also_on=["cpu"], analyse=True)
        assert all(one["device"] is None for one in g.compile(analyse=True).commands())


def test_where_several_devices_have_no_room_one_does() -> None:
    """Within the memory of a plan for one device there is a plan, with the same results."""
    others = [str(one["id"]) for one in rota.devices() if one["usable"] and one["id"] != "cpu"]
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7
    with rota.open("cpu", threads=2) as device:
        with rota.graph(device, name="wide", gradients=False) as g:
            given = g.input("x", (64, 64))
            branches = [given @ (given * float(k + 1)) for k in range(6)]
            total = branches[0]
            for branch in branches[1:]:
                total = total + branch
            g.output("y", total)
        limit = g.compile().stats["arena_bytes"]
        plan = g.compile(also_on=others, memory_limit=limit)
        assert plan.stats["arena_bytes"] <= limit
        np.testing.assert_allclose(plan(x=x).result()["y"], 21 * (x @ x), rtol=1e-5)


def test_arrays_have_what_plans_on_several_devices_write(tmp_path: Path) -> None:
    """An adopted array is read and written as it lies there, wherever the rest of the plan is."""
    others = [str(one["id"]) for one in rota.devices() if one["usable"] and one["id"] != "cpu"]
    n = 256
    array = np.zeros((n, n), np.float32)
    with rota.open("cpu", threads=1, diagnostics=True, cache_dir=str(tmp_path)) as device:
        adopted = device.adopt(array)
        with rota.graph(device, name="adopted", gradients=False) as g:
            made = g.input("x", (n, n))
            for _ in range(6):
                made = made @ made
            g.output("y", made * adopted)
            rota.copy(made, out=adopted)
        for k in range(6):
            plan = g.compile(also_on=others)
            array[:] = k + 1
            y = plan(x=np.eye(n, dtype=np.float32) * 1.01).result()["y"]
            plan.learn()
            np.testing.assert_allclose(array, np.eye(n) * 1.01**64, rtol=1e-3)
            np.testing.assert_allclose(y, np.eye(n) * 1.01**64 * (k + 1), rtol=1e-3)


def test_learning_needs_times(device: rota.Device) -> None:
    plan = doubled(device)
    plan(x=np.zeros(4, np.float32)).wait()
    with pytest.raises(rota.errors.WrongState, match="diagnostics"):
        plan.learn()


def test_outputs_into_arrays_that_are_given(device: rota.Device) -> None:
    plan = doubled(device)
    y = np.zeros(4, np.float32)
    result = plan(x=np.ones(4, np.float32), out={"y": y}).result()
    assert result["y"] is y
    np.testing.assert_array_equal(y, np.full(4, 2))


def test_inputs_are_taken_in_place_or_copied(cpu: rota.Device) -> None:
    x = np.ones(4, np.float32)
    plan = doubled(cpu, copy=True)
    tickets = []
    for i in range(20):
        x[:] = i
        tickets.append(plan(x=x))
    for i, ticket in enumerate(tickets):
        np.testing.assert_array_equal(ticket.result()["y"], np.full(4, 2 * i))
    ticket = doubled(cpu)(x=x)
    ticket.wait_inputs(10)
    x[:] = -1
    np.testing.assert_array_equal(ticket.result()["y"], np.full(4, 38))


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({}, rota.errors.InvalidArgument, "plan 'doubled': argument 'x' is missing"),
        ({"x": np.ones(5, "f4")}, rota.errors.InvalidArgument, r"f32 \[4\] is expected, the array is f32 \[5\]"),
        ({"x": np.ones(4)}, rota.errors.InvalidArgument, r"f32 \[4\] is expected, the array is float64 \[4\]"),
        ({"x": np.ones(4, "i8")}, rota.errors.InvalidArgument, r"the array is int64 \[4\]"),
        ({"x": np.ones(8, "f4")[::2]}, rota.errors.InvalidArgument, "has gaps"),
        ({"x": [1, 2, 3, 4]}, rota.errors.InvalidArgument, "an array is expected, not <class 'list'>"),
        ({"x": np.ones(4, "f4"), "k": "two"}, rota.errors.InvalidArgument, "is a number, f32, not 'two'"),
        ({"x": np.ones(4, "f4"), "z": 1}, rota.errors.NotFound, "has no argument 'z'; it has"),
        ({"x": np.ones(4, "f4"), "out": {"z": 1}}, rota.errors.NotFound, "has no output 'z'; it has y"),
        ({"x": np.ones(4, "f4"), "out": {"y": bytes(16)}}, rota.errors.InvalidArgument, "a writable array is expected"),
    ],
)
def test_wrong_arguments(cpu: rota.Device, arguments: dict[str, Any], error: type, sentence: str) -> None:
    plan = doubled(cpu)
    with pytest.raises(error, match=sentence):
        plan(**arguments)
    np.testing.assert_array_equal(plan(x=np.ones(4, "f4")).result()["y"], np.full(4, 2))


def test_wrong_uses_have_sentences(cpu: rota.Device) -> None:
    x = cpu.tensor(np.ones((2, 3), np.float32), name="weights")
    with pytest.raises(rota.errors.WrongState, match="no graph to record into"):
        rota.exp(x)
    with rota.graph(cpu) as g:
        with pytest.raises(rota.errors.InvalidArgument, match="matmul") as raised:
            x @ x
        assert raised.value.status == "INVALID_ARGUMENT" and isinstance(raised.value, ValueError)
        with pytest.raises(rota.errors.InvalidArgument, match="dropout"):
            rota.dropout(x, 0.5, 1, 2)
        with pytest.raises(rota.errors.AlreadyExists, match="has an argument 'a' already"):
            g.slot("a")
            g.slot("a")
        with pytest.raises(rota.errors.InvalidArgument, match="no dtype 'f64'"):
            g.input("b", 3, "f64")
        with pytest.raises(rota.errors.InvalidArgument, match="has data only inside of a replay"):
            rota.exp(x).numpy()
        with pytest.raises(rota.errors.InvalidArgument, match="axis 2"):
            rota.sum(x, 2)
        with pytest.raises(TypeError):
            rota.exp(3)  # type: ignore[arg-type]
        with pytest.raises(IndexError):
            x[0, 1, 2]
        with pytest.raises(TypeError, match="no truth value"):
            bool(x < x)
        with rota.graph(cpu), pytest.raises(rota.errors.WrongState, match="not the innermost"):
            g.__exit__()
    plan = g.compile()
    with pytest.raises(rota.errors.WrongState, match="is compiled"):
        rota.exp(rota.add(x, x)) if rota.current_graph() else g.slot("late")
    assert "call it with (a" in repr(plan)
    with pytest.raises(rota.errors.InvalidArgument, match="has no device yet"):
        rota.graph().compile()
    with pytest.raises(rota.errors.NotFound):
        rota.open("cpu:7")
    with pytest.raises(rota.errors.UndefinedData):
        cpu.empty(3).numpy()
    with rota.open("cpu", threads=1) as other:
        with rota.graph(cpu), pytest.raises(rota.errors.InvalidArgument, match="is another's"):
            x + other.tensor(np.ones(3, np.float32))


def test_every_status_has_an_exception() -> None:
    assert len(rota.errors.BY_STATUS) == 19
    for status, error in rota.errors.BY_STATUS.items():
        assert issubclass(error, rota.Error) and (status == "OK" or error.status == status)


def test_undefined_transient_is_refused(cpu: rota.Device) -> None:
    with rota.graph(cpu) as g:
        g.output("y", g.empty(4))
    with pytest.raises(rota.errors.UndefinedData):
        g.compile()


def test_await(device: rota.Device) -> None:
    async def several() -> list[Any]:
        plan = doubled(device)
        tickets = [plan(x=np.full(4, i, np.float32)) for i in range(30)]
        late = Slow(device)
        pending = late.plan(x=np.zeros(4, np.float32))
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while not pending.done():
                ticks += 1
                if ticks == 4:  # the loop went on
                    late.may_end.set()
                await asyncio.sleep(0.01)

        results, waited, _ = await asyncio.gather(asyncio.gather(*map(awaited, tickets)), awaited(pending), tick())
        assert ticks > 3
        np.testing.assert_array_equal(waited["y"], np.ones(4))
        return list(results)

    async def awaited(ticket: rota.Ticket) -> Any:
        return await ticket

    for i, result in enumerate(asyncio.run(several())):
        np.testing.assert_array_equal(result["y"], np.full(4, 2 * i))


def test_timeout(cpu: rota.Device) -> None:
    slow = Slow(cpu)
    ticket = slow.plan(x=np.zeros(4, np.float32))
    with pytest.raises(TimeoutError, match="slow"):
        ticket.result(timeout=0.05)
    assert not ticket.done()
    slow.may_end.set()
    np.testing.assert_array_equal(ticket.result(timeout=60)["y"], np.ones(4))


def test_cancel(cpu: rota.Device) -> None:
    begun, may_end, ran = threading.Event(), threading.Event(), []

    def first(x: Any, y: Any) -> None:
        begun.set()
        may_end.wait(10)
        y[:] = x + 1

    def second(y: Any, z: Any) -> None:
        ran.append("second")
        z[:] = y

    with rota.graph(cpu, name="two") as g:
        x = g.input("x", 4)
        y, z = g.empty(4), g.empty(4)
        g.host(first, reads=[x], writes=[y])
        g.host(second, reads=[y], writes=[z])
        g.output("z", z)
    plan = g.compile()
    ticket = plan(x=np.zeros(4, np.float32))
    assert begun.wait(10)
    ticket.cancel()
    ticket.cancel()
    assert not ticket.done()  # its first node runs, and is left to end
    may_end.set()
    with pytest.raises(rota.errors.Cancelled, match="plan 'two', submission .* was cancelled by a call"):
        ticket.result(timeout=10)
    assert "CANCELLED" in repr(ticket)
    assert not ran
    again = plan(x=np.zeros(4, np.float32))
    np.testing.assert_array_equal(again.result(timeout=10)["z"], np.ones(4))
    again.cancel()  # it has ended
    np.testing.assert_array_equal(again.result()["z"], np.ones(4))


def test_function_that_raises_fails_its_ticket(device: rota.Device) -> None:
    def fail(x: Any, y: Any) -> None:
        raise KeyError("no such thing")

    with rota.graph(device, name="failing") as g:
        y = g.empty(4)
        g.host(fail, reads=[g.input("x", 4)], writes=[y], name="lookup")
        g.output("y", y)
    plan = g.compile()
    ticket = plan(x=np.zeros(4, np.float32))
    with pytest.raises(rota.errors.NodeFailed, match="function 'lookup' raised KeyError: 'no such thing'"):
        ticket.result()
    assert "NODE_FAILED" in repr(ticket)
    np.testing.assert_array_equal(doubled(device)(x=np.ones(4, "f4")).result()["y"], np.full(4, 2))


def test_function_that_keeps_an_array_fails(cpu: rota.Device) -> None:
    kept = []

    def keep(x: Any) -> None:
        kept.append(x)

    with rota.graph(cpu) as g:
        g.host(keep, reads=[g.input("x", 4)])
    with pytest.raises(rota.errors.NodeFailed, match="kept an array beyond its call"):
        g.compile()(x=np.zeros(4, np.float32)).result()
    kept.clear()


def test_function_cannot_write_what_it_reads(cpu: rota.Device) -> None:
    def write(x: Any) -> None:
        x[:] = 1

    with rota.graph(cpu) as g:
        g.host(write, reads=[g.input("x", 4)])
    with pytest.raises(rota.errors.NodeFailed, match="read-only"):
        g.compile()(x=np.zeros(4, np.float32)).result()


class Watched(np.ndarray):
    pass


def test_arrays_and_functions_live_until_the_ticket_ended(cpu: rota.Device) -> None:
    """Python lets go of arrays, function, plan and graph while a replay runs: it ends well all the same."""
    slow = Slow(cpu)
    x = np.full(4, 5, np.float32).view(Watched)
    y = np.zeros(4, np.float32).view(Watched)
    gone = [weakref.ref(x), weakref.ref(y)]
    ticket = slow.plan(x=x, out={"y": y})
    may_end, ran = slow.may_end, slow.ran
    del x, y, slow
    gc.collect()
    assert all(ref() is not None for ref in gone) and cpu.held == 1
    may_end.set()
    np.testing.assert_array_equal(ticket.result()["y"], np.full(4, 6))
    assert ran == ["ran"] and cpu.held == 0
    del ticket
    gc.collect()
    assert all(ref() is None for ref in gone)


def test_nobody_waits_for_a_ticket_that_is_dropped(cpu: rota.Device) -> None:
    slow = Slow(cpu)
    slow.plan(x=np.zeros(4, np.float32))
    may_end, ran = slow.may_end, slow.ran
    del slow
    gc.collect()
    threading.Timer(0.1, may_end.set).start()  # while it closes, or before
    cpu.close()
    assert ran == ["ran"]


def test_closing_waits_for_calls_of_other_threads() -> None:
    device = rota.open("cpu", threads=1)
    slow = Slow(device)
    ticket = slow.plan(x=np.zeros(4, np.float32))
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(ticket.result()))
    thread.start()
    threading.Timer(0.1, slow.may_end.set).start()  # when both wait, or before
    device.close()
    thread.join()
    np.testing.assert_array_equal(got[0]["y"], np.ones(4))


def test_callbacks(cpu: rota.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = doubled(cpu)
    unraisable: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)
    called = threading.Event()

    def raises(_: rota.Ticket) -> None:
        raise ValueError("from a callback")

    ticket = plan(x=np.ones(4, np.float32))
    ticket.add_done_callback(raises)
    ticket.add_done_callback(lambda of: called.set() if of.done() else None)
    assert called.wait(10)
    deadline = time.monotonic() + 10
    while not unraisable and time.monotonic() < deadline:
        time.sleep(0.01)
    assert isinstance(unraisable[0].exc_value, ValueError)


def test_threads_submit_at_once_bit_equal(device: rota.Device) -> None:
    """16 threads replay plans on one tensor in turns and on tensors of their own: the bits of one thread."""
    rng = np.random.default_rng(1)
    xs = [rng.standard_normal((8, 16)).astype(np.float32) for _ in range(16)]
    w = device.tensor(rng.standard_normal((16, 16)).astype(np.float32))
    count = device.zeros(1)
    with rota.graph(device) as g:
        rota.add(count, rota.sum(g.input("one", (1, 1)), 0), out=count)
        g.output("y", rota.softmax(g.input("x", (8, 16)) @ w))
    plan = g.compile()
    one = np.ones((1, 1), np.float32)
    alone = [plan(x=x, one=one).result()["y"] for x in xs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(25):
            if not np.array_equal(plan(x=xs[i], one=one).result()["y"], alone[i]):
                wrong.append(i)

    side_by_side(16, work)
    assert wrong == []
    assert count.numpy()[0] == 16 * 26


def test_threads_record_graphs_of_their_own(cpu: rota.Device) -> None:
    results: dict[int, Any] = {}

    def work(i: int) -> None:
        with rota.graph(cpu) as g:
            y = g.input("x", 4)
            for _ in range(i + 1):
                y = y + 1
            g.output("y", y)
        results[i] = g.compile()(x=np.zeros(4, np.float32)).result()["y"]

    side_by_side(16, work)
    for i in range(16):
        np.testing.assert_array_equal(results[i], np.full(4, i + 1))


def test_devices_are_closed_when_the_interpreter_ends() -> None:
    """Also while a replay is to call a function of Python's."""
    program = """
import numpy as np, rota, time
with_data = rota.open("cpu", threads=1).tensor(np.ones(3, np.float32))  # holds its device
device = rota.open("cpu", threads=1)
def late(x):
    time.sleep(0.2)
    print("called")
with rota.graph(device) as g:
    g.host(late, reads=[g.input("x", 4)])
ticket = g.compile()(x=np.zeros(4, np.float32))
ticket.add_done_callback(lambda of: print("done"))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "called\ndone\n", "")


def test_order_numbers(cpu: rota.Device) -> None:
    plan = doubled(cpu)
    tickets = [plan(x=np.ones(4, np.float32)) for _ in range(5)]
    for ticket in tickets:
        ticket.wait()
    numbers = [ticket.number for ticket in tickets]
    assert numbers == sorted(set(numbers))


def test_fork(cpu: rota.Device) -> None:
    plan = doubled(cpu)
    plan(x=np.ones(4, np.float32)).result()
    child = os.fork()
    if child == 0:
        try:
            plan(x=np.ones(4, np.float32)).result()
            os._exit(1)
        except rota.errors.WrongState:
            del plan
            gc.collect()
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(plan(x=np.ones(4, "f4")).result()["y"], np.full(4, 2))


def test_buffer_slots(device: rota.Device) -> None:
    with rota.graph(device) as g:
        w = g.buffer_slot("w", (2, 2))
        rota.add(w, w, out=w)
    plan = g.compile()
    a, b = (device.tensor(np.full((2, 2), i, np.float32)) for i in (1, 10))
    plan(w=a).wait()
    plan(w=b).wait()
    plan(w=b).wait()
    np.testing.assert_array_equal(a.numpy(), np.full((2, 2), 2))
    np.testing.assert_array_equal(b.numpy(), np.full((2, 2), 40))
    with pytest.raises(rota.errors.InvalidArgument, match="is a tensor of a device"):
        plan(w=np.ones((2, 2), np.float32))


def test_graphs_are_captured(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    with rota.open("cpu", threads=1, capture=str(folder)) as other:
        try:
            Slow(other)  # its host function has no name of the program's
        except rota.errors.Unsupported as error:
            if "libcbor" in str(error):
                pytest.skip(str(error))
            raise
        doubled(other)(x=np.ones(4, np.float32)).result()
    files = {path.name.split("-")[0]: path.read_bytes() for path in folder.iterdir()}
    assert set(files) == {"slow", "doubled"}
    assert all(content.startswith(b"\xd9\xd9\xf7") and b"rota graph" in content for content in files.values())
    assert b"host 1" in files["slow"]


def test_plan_draws_itself(cpu: rota.Device) -> None:
    with rota.graph(cpu, name="picture <&>") as g:
        x = g.input("x", (64, 64))
        for _ in range(60):
            x = rota.softmax(x @ x)
        g.output("y", x)
    plan = g.compile()
    svg = getattr(plan, "_repr_svg_")()
    root = ElementTree.fromstring(svg)
    text = " ".join(root.itertext())
    assert "softmax" in text and "levels more" in text and "arena" in text
    assert len(plan.commands()) == plan.stats["commands"]
    assert "softmax" in plan.explain(1)
    assert "softmax" in plan.explain_kernel(1) and "why: " in plan.explain_kernel(1)


def test_a_run_draws_itself() -> None:
    with rota.open("cpu", diagnostics=True) as device:
        with rota.graph(device, name="run <&>") as g:
            x = g.input("x", (64, 64))
            for _ in range(5):
                x = rota.softmax(x @ x)
            g.host(lambda array: time.sleep(0.05), reads=[x])
            g.output("y", x)
        plan = g.compile()
        first = plan(x=np.ones((64, 64), np.float32))
        first.wait()
        times = plan.times()
        assert times["number"] == first.number and len(times["commands"]) == plan.stats["commands"]
        assert times["submitted"] < times["completed"]
        assert all(times["submitted"] < begin <= end for begin, end in times["commands"] if end)
        assert max(end - begin for begin, end in times["commands"]) >= 50_000_000
        text = " ".join(ElementTree.fromstring(getattr(first, "_repr_svg_")()).itertext())
        assert "run <&>" in text and "softmax × 5" in text and "% of it busy" in text
        second = plan(x=np.ones((64, 64), np.float32))
        assert getattr(second, "_repr_svg_")() is None or second.done()
        second.wait()
        assert getattr(second, "_repr_svg_")() and getattr(first, "_repr_svg_")() is None  # the last one's times alone
        del plan
        assert getattr(second, "_repr_svg_")() is None  # a ticket keeps no plan


def test_a_run_without_diagnostics(cpu: rota.Device) -> None:
    with rota.graph(cpu) as g:
        g.output("y", rota.exp(g.input("x", 4)))
    plan = g.compile()
    ticket = plan(x=np.ones(4, np.float32))
    ticket.wait()
    assert getattr(ticket, "_repr_svg_")() is None
    with pytest.raises(rota.errors.WrongState, match="diagnostics"):
        plan.times()


def test_analysed_without_a_device() -> None:
    with rota.graph() as g:
        g.output("y", rota.exp(g.input("x", 4)))
    plan = g.compile(analyse=True)
    assert plan.stats["nodes"] == 2 and plan.device is None
    with pytest.raises(rota.errors.WrongState, match="only analysed"):
        plan(x=np.ones(4, np.float32))
