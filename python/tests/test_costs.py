"""What Python adds: how long importing, submitting and recording take at the least, on a machine that does other things
beside. The bars are several times what was measured (docs/measurements.md)."""

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import rota

IMPORT_S, SUBMIT_S, RECORD_S = 0.2, 3e-6, 2.0


def least(repeats: int, work: Callable[[], float]) -> float:
    return min(work() for _ in range(repeats))


def test_importing() -> None:
    program = "import time, numpy; begin = time.perf_counter(); import rota; print(time.perf_counter() - begin)"

    def work() -> float:
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
        return float(ran.stdout)

    taken = least(5, work)
    print(f"import rota: {1e3 * taken:.0f} ms")
    assert taken <= IMPORT_S


def test_submitting(cpu: rota.Device) -> None:
    x = cpu.tensor(np.zeros(4, np.float32), name="x")
    with rota.graph(cpu, gradients=False) as g:
        rota.scale(x, g.slot("k"), out=x)
    plan = g.compile()
    plan(k=1.0).wait()

    def work() -> float:
        begin = time.perf_counter()
        for _ in range(200):
            ticket = plan(k=1.0)
        taken = (time.perf_counter() - begin) / 200
        ticket.wait()
        return taken

    taken = least(50, work)
    print(f"a submit: {1e6 * taken:.2f} us")
    assert taken <= SUBMIT_S


def test_recording(cpu: rota.Device) -> None:
    nodes = 100_000
    x = cpu.tensor(np.zeros(4, np.float32), name="x")

    def work() -> float:
        begin = time.perf_counter()
        with rota.graph(cpu, gradients=False) as g:
            y = g.input("y", 4)
            for _ in range(nodes):
                y = y + x
        taken = time.perf_counter() - begin
        assert g.compile(analyse=True, fuse=False).stats["nodes"] >= nodes
        return taken

    taken = least(3, work)
    print(f"{nodes} nodes recorded in {taken:.2f} s")
    assert taken <= RECORD_S
