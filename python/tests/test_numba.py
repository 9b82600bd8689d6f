"""Python functions that numba compiles, as kernels of the CPU's."""

from typing import Any

import numpy as np
import pytest

numba = pytest.importorskip("numba")

import rota

OPERANDS, PARAMS = ["read", "write"], [("count", "u32"), ("rate", "f32")]


def logistic(x: Any, y: Any, count: Any, rate: Any) -> None:
    given, made = numba.carray(x, count, np.float32), numba.carray(y, count, np.float32)
    for i in range(count):
        made[i] = rate * given[i] * (1 - given[i])


def logistic_plan(device: rota.Device, kernel: rota.Kernel) -> rota.Plan:
    with rota.graph(device) as g:
        y = g.empty(256)
        kernel(g.input("x", 256), y, 256, g.slot("rate"))
        g.output("y", y)
    return g.compile(check_kernels=True)


@pytest.mark.parametrize("function", [logistic, numba.njit(logistic)], ids=["python", "njit"])
def test_a_function(cpu: rota.Device, function: Any) -> None:
    plan = logistic_plan(cpu, rota.Kernel("logistic", OPERANDS, PARAMS, numba=function))
    x = np.linspace(0, 1, 256, dtype=np.float32)
    for rate in (2.0, 3.5):
        np.testing.assert_allclose(plan(x=x, rate=rate).result()["y"], rate * x * (1 - x), rtol=1e-5, atol=1e-6)


def test_an_address(cpu: rota.Device) -> None:
    """Whoever has a cfunc of numba's gives its address: a call's first word is the operands' address."""
    types = numba.types

    @numba.cfunc(types.int32(types.CPointer(types.CPointer(types.CPointer(types.float32)))))
    def negate(call: Any) -> int:
        operands = numba.carray(numba.carray(call, 1)[0], 2)
        given, made = numba.carray(operands[0], 8), numba.carray(operands[1], 8)
        for i in range(8):
            made[i] = -given[i]
        return 0

    with rota.graph(cpu) as g:
        y = g.empty(8)
        rota.Kernel("negate", OPERANDS, cpu=negate.address)(g.input("x", 8), y)
        g.output("y", y)
    got = g.compile(check_kernels=True)(x=np.arange(8, dtype=np.float32)).result()["y"]
    np.testing.assert_array_equal(got, -np.arange(8, dtype=np.float32))


def test_items(cpu: rota.Device) -> None:
    """As many as an earlier node says, in shares of several threads'."""

    def mark(y: Any, by: Any, begin: Any, end: Any) -> None:
        made = numba.carray(y, 1 << 16, np.int32)
        for i in range(begin, end):
            made[i] += np.int32(by)

    kernel = rota.Kernel("mark", ["readwrite"], [("by", "u32")], numba=mark)
    y = cpu.tensor(np.zeros(1 << 16, np.int32))
    with rota.graph(cpu) as g:
        kernel(y, 3, count=g.input("count", 1, "i32"), count_max=1 << 16)
    plan = g.compile()
    for count in (0, 1000, 1 << 16):
        plan(count=np.array([count], np.int32)).result()
    expected = np.full(1 << 16, 3)
    expected[:1000] += 3
    np.testing.assert_array_equal(y.numpy(), expected)


def test_a_kernel_that_does_not_do_as_it_says(cpu: rota.Device) -> None:
    """check_kernels sees that an operand that is read is written."""

    def wrong(x: Any, y: Any, count: Any, rate: Any) -> None:
        given, made = numba.carray(x, count, np.float32), numba.carray(y, count, np.float32)
        for i in range(count):
            made[i] = rate * given[i]
            given[i] = 0

    plan = logistic_plan(cpu, rota.Kernel("wrong", OPERANDS, PARAMS, numba=wrong))
    with pytest.raises(rota.errors.NodeFailed, match="'wrong'"):
        plan(x=np.ones(256, np.float32), rate=1.0).result()


def test_what_a_function_raises_fails_its_node(cpu: rota.Device) -> None:
    def picky(x: Any, y: Any, count: Any, rate: Any) -> None:
        if rate > 3:
            raise ValueError("too fast")
        numba.carray(y, count, np.float32)[:] = numba.carray(x, count, np.float32)

    plan = logistic_plan(cpu, rota.Kernel("picky", OPERANDS, PARAMS, numba=picky))
    x = np.ones(256, np.float32)
    for rate in (1.0, 4.0, 2.0):
        if rate > 3:
            with pytest.raises(rota.errors.NodeFailed, match="'picky' failed with NODE_FAILED"):
                plan(x=x, rate=rate).result()
        else:
            np.testing.assert_array_equal(plan(x=x, rate=rate).result()["y"], x)


def test_refusals() -> None:
    with pytest.raises(rota.errors.InvalidArgument, match="<lambda> takes 1 arguments, expected 4: 2 operands and 2"):
        rota.Kernel("few", OPERANDS, PARAMS, numba=lambda x: None)
    with pytest.raises(rota.errors.InvalidArgument, match="(?s)numba: .*open"):
        rota.Kernel("open", OPERANDS, PARAMS, numba=lambda x, y, count, rate: open("x"))
