"""Threads on the same objects at once: what free-threaded Python has no lock for."""

import gc
import random
import threading
from typing import Any

import numpy as np
import pytest
from conftest import side_by_side

import rota

THREADS, ROUNDS = 8, 40


def adding(device: rota.Device, kept: rota.Tensor) -> rota.Plan:
    with rota.graph(device, name="adding") as g:
        x = g.input("x", 64)
        g.output("y", x * g.slot("by") + kept)
    return g.compile()


def test_one_plan_and_its_tickets(cpu: rota.Device) -> None:
    """Each calls the plan, and asks tickets of everybody's for all that they have."""
    kept = cpu.tensor(np.ones(64, np.float32), name="kept")
    plan = adding(cpu, kept)
    tickets: list[tuple[int, Any]] = []
    barrier = threading.Barrier(THREADS)
    wrong: list[str] = []

    def work(thread: int) -> None:
        draw = random.Random(thread)
        barrier.wait()
        for i in range(ROUNDS):
            number = thread * ROUNDS + i
            tickets.append((number, plan(x=np.full(64, number, np.float32), by=2.0)))
            number, ticket = draw.choice(tickets)
            ended: list[object] = []
            ticket.add_done_callback(ended.append)
            assert isinstance(repr(ticket), str) and isinstance(ticket.done(), bool)
            y = ticket.result(timeout=60)["y"]
            if not (y == 2 * number + 1).all():
                wrong.append(f"{number}: {y[0]}")
            assert isinstance(plan.stats, dict) and isinstance(cpu.stats, dict) and repr(plan)

    side_by_side(THREADS, work)
    assert wrong == [] and len(tickets) == THREADS * ROUNDS


def test_one_tensor(cpu: rota.Device) -> None:
    """Each reads it, shares it, lets go of views, and makes others, while a plan's replays change it."""
    x = cpu.tensor(np.zeros((16, 64), np.float32), name="x")
    with rota.graph(cpu) as g:
        rota.affine(x, 1.0, 1.0, out=x)
    plan = g.compile()
    barrier = threading.Barrier(THREADS)
    wrong: list[float] = []

    def work(thread: int) -> None:
        barrier.wait()
        before = 0.0
        for i in range(ROUNDS):
            plan()
            now = x.numpy()
            # All of one replay's, and none goes back.
            if now.min() != now.max() or now[0, 0] <= before:
                wrong.append(float(now[0, 0]))
            before = float(now[0, 0])
            shared = np.from_dlpack(x, copy=False)
            views = [x[j : j + 2].T for j in range(0, 16, 2)]
            assert shared.shape == (16, 64) and views[3].shape == (64, 2) and repr(x)
            mine = cpu.tensor(np.full(8, i, np.float32))
            adopted = cpu.adopt(np.full(16, i, np.float32))
            assert mine.numpy()[0] == i == adopted.numpy()[0]
            if i % 8 == thread:
                gc.collect()

    side_by_side(THREADS, work)
    assert wrong == [] and x.numpy()[0, 0] == THREADS * ROUNDS


def test_graphs_kernels_and_functions(cpu: rota.Device) -> None:
    """Each records, compiles and runs graphs of its own with the same tensor and host function, and lets go of all."""
    kept = cpu.tensor(np.ones(64, np.float32), name="kept")
    barrier = threading.Barrier(THREADS)
    called: list[int] = []

    def note(values: Any) -> None:
        called.append(int(values[0]))

    def work(thread: int) -> None:
        barrier.wait()
        for i in range(10):
            with rota.graph(cpu, name=f"of {thread}") as g:
                y = rota.exp(g.input("x", 64) * 0.0) + kept
                g.host(note, reads=[y])
                g.output("y", y)
                assert rota.current_graph() is g
            plan = g.compile()
            assert plan(x=np.ones(64, np.float32)).result()["y"][0] == 2
            with pytest.raises(rota.errors.InvalidArgument):
                plan(x=np.ones(63, np.float32))
            assert plan._repr_svg_()

    side_by_side(THREADS, work)
    assert called == [2] * (THREADS * 10)


def test_a_device_is_closed_while_others_use_it() -> None:
    """A call is over before it, or is refused; none is lost."""
    for _ in range(5):
        device = rota.open("cpu", threads=2)
        plan = adding(device, device.tensor(np.ones(64, np.float32)))
        begun = threading.Barrier(5)

        def work(thread: int, device: rota.Device = device, plan: rota.Plan = plan, begun: Any = begun) -> None:
            begun.wait()
            if thread == 4:
                device.close()
                return
            for _ in range(1000):
                try:
                    y = plan(x=np.zeros(64, np.float32), by=1.0).result(timeout=60)["y"]
                except (rota.errors.WrongState, rota.errors.Cancelled):
                    return
                assert y[0] == 1

        side_by_side(5, work)
        with pytest.raises(rota.errors.WrongState):
            plan(x=np.zeros(64, np.float32), by=1.0)
