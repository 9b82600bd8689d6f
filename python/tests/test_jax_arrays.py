"""JAX's arrays as rota's tensors and the other way round by DLPack, on JAX's CPU: in order, and copied."""

import gc
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import rota

DTYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "i32": jnp.int32, "u32": jnp.uint32}


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def scaled(device: rota.Device, x: rota.Tensor) -> rota.Plan:
    with rota.graph(device) as g:
        rota.scale(x, 2, out=x)
    return g.compile()


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_and_back(device: rota.Device, dtype: str) -> None:
    """Each dtype comes from JAX as it is and goes back so."""
    given = jnp.arange(6).reshape(2, 3).astype(DTYPES[dtype])
    x = device.from_dlpack(given)
    assert (x.dtype, x.shape) == (dtype, (2, 3))
    for copy in (None, True, False):
        back = jnp.from_dlpack(x, copy=copy)
        assert isinstance(back, jax.Array) and back.dtype == given.dtype and back.shape == (2, 3)
        assert jnp.array_equal(back, given) and jnp.array_equal(back + back, given + given)
    assert jnp.array_equal(jax.dlpack.from_dlpack(x), given)


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_of_plans(cpu: rota.Device, dtype: str) -> None:
    given = jnp.arange(6).astype(DTYPES[dtype])
    with rota.graph(cpu) as g:
        g.output("y", rota.copy(g.input("x", 6, dtype)))
    y = g.compile()(x=given).result()["y"]
    assert y.tobytes() == np.asarray(given).tobytes()


def test_views_and_strides(cpu: rota.Device) -> None:
    given = jnp.arange(24.0).reshape(4, 6)
    for part in (given[1:3], given[:, 2:], given.T, given[0]):
        np.testing.assert_array_equal(cpu.from_dlpack(part).numpy(), np.asarray(part))
    x = cpu.from_dlpack(given)
    np.testing.assert_array_equal(np.asarray(jnp.from_dlpack(x[1:3])), np.asarray(given[1:3]))
    np.testing.assert_array_equal(np.asarray(jnp.from_dlpack(x.T)), np.asarray(given.T))


def test_jax_has_arrays_of_its_own(cpu: rota.Device) -> None:
    """It names no `copy` to a library, so each is a copy, and stays as it is when plans go on."""
    x = cpu.tensor(np.arange(1024, dtype=np.float32))
    plan = scaled(cpu, x)
    arrays = [jnp.from_dlpack(x), jnp.from_dlpack(x, copy=False), jax.dlpack.from_dlpack(x)]
    plan().wait()
    assert cpu.shared == 0 and [float(jax.jit(jnp.sum)(array)) for array in arrays] == [1023 * 512.0] * 3
    del x, plan
    gc.collect()
    assert [float(array[3]) for array in arrays] == [3.0] * 3


def test_what_jax_has_begun_is_waited_for(cpu: rota.Device) -> None:
    """JAX computes while the caller goes on: a tensor of its result, and a plan over it, have what comes out."""

    @jax.jit
    def slow(x: Any) -> Any:
        return jax.lax.fori_loop(0, 200, lambda i, y: jnp.tanh(y @ y.T / 600) + x, x)

    x = jnp.ones((300, 300))
    expected = np.asarray(slow(x))
    with rota.graph(cpu) as g:
        g.output("y", rota.copy(g.input("x", (300, 300))))
    plan = g.compile()
    for _ in range(5):
        np.testing.assert_array_equal(cpu.from_dlpack(slow(x)).numpy(), expected)
        np.testing.assert_array_equal(plan(x=slow(x)).result()["y"], expected)


def test_jax_reads_what_was_submitted_before(cpu: rota.Device) -> None:
    x = cpu.tensor(np.ones(1 << 18, np.float32))
    plan = scaled(cpu, x)
    for i in range(1, 20):
        plan()
        assert float(jnp.from_dlpack(x, copy=None if i % 2 else False)[-1]) == 2**i


def test_jaxs_arrays_are_not_written(cpu: rota.Device) -> None:
    """They are what they are: none is a tensor's memory, nor a plan's output's."""
    for given in (jnp.ones(64), jnp.ones(64, jnp.bfloat16)):
        with pytest.raises(rota.errors.InvalidArgument, match="a writable array is expected, not .*ArrayImpl"):
            cpu.adopt(given)
    with rota.graph(cpu) as g:
        g.output("y", g.input("x", 64) * 2)
    given = jnp.ones(64)
    with pytest.raises(rota.errors.InvalidArgument, match="a writable array is expected"):
        g.compile()(x=given, out={"y": given})
    assert jnp.array_equal(given, jnp.ones(64))


def test_what_rota_does_not_have(cpu: rota.Device) -> None:
    for dtype in (jnp.int8, jnp.complex64, jnp.float8_e4m3fn):
        with pytest.raises(rota.errors.InvalidArgument, match="an array is .*; rota has f32, f16, bf16, i32, u32"):
            cpu.from_dlpack(jnp.ones(4, dtype))


def test_an_input_outlives_its_name(cpu: rota.Device) -> None:
    given = jnp.ones(1 << 16)
    gone = weakref.ref(given)
    with rota.graph(cpu) as g:
        g.output("sum", rota.sum(g.input("x", 1 << 16), 0))
    ticket = g.compile()(x=given)
    del given
    gc.collect()
    assert float(ticket.result()["sum"]) == 1 << 16
    end = time.monotonic() + 10
    while gone() is not None and time.monotonic() < end:
        ticket.done()
        gc.collect()
        time.sleep(0.001)
    assert gone() is None
