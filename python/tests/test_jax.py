"""rota.jax on JAX's CPU: plans under jit, grad and vmap, against the same in JAX."""

import ctypes
import gc
import logging
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
from conftest import side_by_side

import rota
import rota.jax

RANDOM = np.random.default_rng(7)
X, W = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((5, 3), (3, 4)))


def layer(x: Any, w: Any) -> Any:
    return rota.tanh(x @ w)


def expected_layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.fixture(params=["arguments", "fixed"])
def one(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> rota.jax.Function:
    """Of a plan that reads and writes XLA's memory, and of one that XLA's memory is copied to and from, as on a GPU."""
    if request.param == "fixed":
        monkeypatch.setattr(rota.jax.Function, "_is_fixed", lambda self, platform: True)
    return rota.jax.function(layer)


def close(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(expected)
    for a, b in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), rtol=tolerance, atol=tolerance)


# ---- Functions ----


def test_called_and_under_jit(one: rota.jax.Function) -> None:
    close(one(X, W), expected_layer(X, W))
    inside = jax.jit(lambda f, x, w: f(x * 2, w) + f(x, w), static_argnums=0)
    for _ in range(3):
        close(inside(one, X, W), inside(expected_layer, X, W))
    close(inside(one, X[:2], W), inside(expected_layer, X[:2], W))
    assert len(one.made) == 2


@pytest.mark.parametrize("jit", [False, True])
def test_gradients(one: rota.jax.Function, jit: bool) -> None:
    def loss(f: Callable[..., Any], x: Any, w: Any) -> Any:
        return (f(x, w) ** 2 * jnp.arange(4.0)).sum() + f(x + 1, w).mean()

    for which in ((1,), (2,), (1, 2)):
        grads = jax.value_and_grad(loss, which)
        run = jax.jit(grads, static_argnums=0) if jit else grads
        close(run(one, X, W), grads(expected_layer, X, W))


def test_trees_dtypes_and_indices() -> None:
    """Arguments and results that are trees, an integer among either, and numbers of Python's."""

    def pick(p: Any, i: Any, scale: Any) -> Any:
        rows = rota.embedding(p["table"], i)
        return {"rows": rows + p["shift"], "index": rota.copy(i)}, (rows * rota.exp(scale.broadcast_to(rows.shape)),)

    def expected(p: Any, i: Any, scale: Any) -> Any:
        rows = p["table"][i]
        return {"rows": rows + p["shift"], "index": i}, (rows * jnp.exp(scale),)

    def loss(f: Callable[..., Any], p: Any, i: Any, scale: Any) -> Any:
        first, (second,) = f(p, i, scale)
        return (first["rows"] ** 2).sum() + (second * first["index"][:, None]).sum()

    p, i = {"table": jnp.asarray(X), "shift": jnp.arange(3.0)}, jnp.array([4, 0, 4, 1], jnp.int32)
    f = rota.jax.function(pick)
    close(f(p, i, 0.5), expected(p, i, jnp.float32(0.5)))
    grads = jax.jit(jax.grad(loss, (1, 3)), static_argnums=0)
    close(grads(f, p, i, 0.5), grads(expected, p, i, 0.5))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision(one: rota.jax.Function, dtype: Any) -> None:
    x, w = jnp.asarray(X, dtype), jnp.asarray(W, dtype)
    close(one(x, w), expected_layer(x, w), 0.02)

    def loss(f: Callable[..., Any]) -> Any:
        return jax.grad(lambda w: f(x, w).astype(jnp.float32).sum())(w)

    close(loss(one), loss(expected_layer), 0.05)


def test_an_argument_that_plays_no_part() -> None:
    f = rota.jax.function(lambda x, unused: rota.exp(x))
    close(jax.grad(lambda x, y: f(x, y).sum(), (0, 1))(X, W), (jnp.exp(X), jnp.zeros_like(W)))


def test_vmap_scan_and_checkpoint(one: rota.jax.Function) -> None:
    xs = jnp.stack([X, X + 1, X - 1])
    close(jax.vmap(one, (0, None))(xs, W), jax.vmap(expected_layer, (0, None))(xs, W))

    def summed(f: Callable[..., Any]) -> Any:
        return jax.grad(lambda w: jax.vmap(f, (0, None))(xs, w).sum())

    close(jax.jit(summed(one))(W), summed(expected_layer)(W))

    def scanned(f: Callable[..., Any]) -> Any:
        step = jax.checkpoint(lambda carry, x: (carry + f(x, W).sum(), f(x, W)))
        return jax.jit(jax.grad(lambda xs: jax.lax.scan(step, 0.0, xs)[0]))

    close(scanned(one)(xs), scanned(expected_layer)(xs))


def test_training_under_jit() -> None:
    """A loss of rota's inside a training step of JAX's."""
    f = rota.jax.function(lambda w, x, y: rota.mse(x @ w, y))

    def fit(loss: Callable[..., Any]) -> Any:
        @jax.jit
        def step(w: Any) -> Any:
            value, grad = jax.value_and_grad(loss)(w, X, jnp.asarray(X).sum(1, keepdims=True))
            return w - 0.2 * grad, value.reshape(())

        w, losses = jnp.zeros((3, 1)), []
        for _ in range(20):
            w, value = step(w)
            losses.append(value)
        return w, losses

    def of_rota(*values: Any) -> Any:
        return f(*values).sum()

    got, expected = fit(of_rota), fit(lambda w, x, y: ((x @ w - y) ** 2).mean())
    close(got, expected)
    assert got[1][-1] < 0.5 * got[1][0]


def test_threads(one: rota.jax.Function) -> None:
    run = jax.jit(lambda x, w: one(x, w) * 2)
    expected = [np.asarray(run(X + i, W)) for i in range(8)]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(50):
            if not np.array_equal(np.asarray(run(X + i, W)), expected[i]):
                wrong.append(i)

    side_by_side(8, work)
    assert wrong == []


# ---- Plans ----


def test_a_plan_with_numbers_and_tensors_of_its_own(cpu: rota.Device) -> None:
    """It trains a tensor that stays rota's, as often as the loop of JAX's calls it."""
    w = cpu.tensor(np.zeros((3, 1), np.float32), name="w")
    with rota.graph(cpu) as g:
        error = rota.mse(g.input("x", (5, 3)) @ w, g.input("y", (5, 1)))
        rota.SGD(lr=0.2).step(g, [w], g.backward(error, [w]))
        g.output("loss", error)
    plan = g.compile()
    step = rota.jax.call(plan, has_side_effect=True)
    y = X.sum(1, keepdims=True)

    @jax.jit
    def steps(lr: Any) -> Any:
        return jax.lax.fori_loop(0, 10, lambda i, last: step(x=X, y=y, lr=lr)["loss"].reshape(()), jnp.float32(0))

    loss = float(steps(0.2))
    expected = np.zeros((3, 1), np.float32)
    for _ in range(10):
        expected -= 0.2 * 2 / 5 * X.T @ (X @ expected - y)
    np.testing.assert_allclose(w.numpy(), expected, rtol=1e-4, atol=1e-5)
    before = w.numpy()
    assert float(step(x=X, y=y, lr=0)["loss"].reshape(())) < loss
    np.testing.assert_array_equal(w.numpy(), before)


def test_what_a_plan_is_not_given_right_is_said(cpu: rota.Device) -> None:
    with rota.graph(cpu, name="scale") as g:
        g.output("y", g.input("x", 4) * g.slot("by"))
        g.buffer_slot("b", 4)
    plan = g.compile()
    call = rota.jax.call(plan)
    x = np.ones(4, np.float32)
    with pytest.raises(rota.errors.InvalidArgument, match="argument 'by' is missing"):
        call(x=x)
    with pytest.raises(rota.errors.NotFound, match="no argument 'z'"):
        call(x=x, z=1)
    with pytest.raises(rota.errors.Unsupported, match="'b' is a tensor of rota's"):
        call(x=x, by=1, b=x)
    with rota.graph(cpu, name="scale") as g:
        g.output("y", g.input("x", 4) * g.slot("by"))
    call = rota.jax.call(g.compile())
    close(call(by=3, x=x), {"y": jnp.full(4, 3.0)})
    with pytest.raises(rota.errors.InvalidArgument, match=r"argument 'x' is f32 \[4\], not float32 \[3\]"):
        call(x=x[:3], by=1)


# ---- What goes wrong ----


def test_refusals() -> None:
    with pytest.raises(rota.errors.Unsupported, match="complex64 is no dtype of rota's"):
        rota.jax.function(layer)(X.astype(np.complex64), W)
    with pytest.raises(rota.errors.InvalidArgument, match="is to give tensors of rota's"):
        rota.jax.function(lambda x: 3)(X)
    with pytest.raises(rota.errors.InvalidArgument, match="matmul"):
        rota.jax.function(layer)(X, X)


def test_another_platform_is_refused(one: rota.jax.Function) -> None:
    with pytest.raises(rota.errors.Unsupported, match="JAX's CPU alone; this is lowered for cuda"):
        jax.jit(one).trace(X, W).lower(lowering_platforms=("cuda",))


def test_a_node_that_fails_fails_its_call_alone() -> None:
    def pick(table: Any, i: Any) -> Any:
        return rota.embedding(table, i)

    f = jax.jit(rota.jax.function(pick))
    with pytest.raises(jax.errors.JaxRuntimeError, match="embedding"):
        jax.block_until_ready(f(X, jnp.array([77], jnp.int32)))
    close(f(X, jnp.array([2], jnp.int32)), jnp.asarray(X[2:3]))


def test_a_closed_device() -> None:
    with rota.open("cpu", threads=1) as device:
        f = jax.jit(rota.jax.function(layer, device=device))
        f(X, W)
    with pytest.raises(ValueError, match="device 'cpu' is closed"):
        jax.block_until_ready(f(X, W))


def slow(seconds: float) -> Callable[..., Any]:
    def work(x: Any, y: Any) -> None:
        time.sleep(seconds)
        y[:] = x * 2

    def recorded(x: Any) -> Any:
        graph = rota.current_graph()
        assert graph is not None
        y = graph.empty(x.shape)
        graph.host(work, reads=[x], writes=[y])
        return y

    return recorded


def test_a_deadline_is_said_and_waited_beyond(caplog: pytest.LogCaptureFixture) -> None:
    """The memory is XLA's again once the call has returned, so it may not return before the replay has ended."""
    with rota.open("cpu", threads=1, timeout=0.2) as device, caplog.at_level(logging.WARNING, "rota.jax"):
        f = jax.jit(rota.jax.function(slow(1.0), device=device))
        close(f(X), jnp.asarray(X) * 2)
    assert any("deadline" in record.getMessage() for record in caplog.records)


# ---- Who holds what ----


def test_an_executable_holds_its_plan() -> None:
    f = rota.jax.function(layer)
    compiled = jax.jit(f).lower(X, W).compile()
    (made,) = f.made.values()
    call = weakref.ref(made)
    del f, made
    jax.clear_caches()
    gc.collect()
    assert call() is None
    close(compiled(X, W), expected_layer(X, W))


def test_what_was_lowered_outlives_no_function() -> None:
    f = rota.jax.function(layer)
    lowered = jax.jit(f).lower(X, W)
    del f
    jax.clear_caches()
    gc.collect()
    with pytest.raises(jax.errors.JaxRuntimeError, match="the rota plan of this computation is gone"):
        lowered.compile()


def test_nothing_is_kept() -> None:
    """A plan goes with the last of its function and of the executables that have it."""
    with rota.open("cpu", threads=1) as device:
        f = rota.jax.function(layer, device=device)
        run = jax.jit(jax.grad(lambda w: f(X, w).sum()))
        run(W)
        assert device.stats["plans"] == 2
        del f, run
        jax.clear_caches()
        end = time.monotonic() + 10
        while device.stats["plans"] and time.monotonic() < end:
            gc.collect()
            time.sleep(0.01)
        assert device.stats["plans"] == 0


# ---- Versions ----


class Head(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extensions", ctypes.c_void_p)]


class Version(ctypes.Structure):
    _fields_ = [("head", Head), ("major", ctypes.c_int), ("minor", ctypes.c_int)]


class ErrorArgs(ctypes.Structure):
    _fields_ = [("head", Head), ("message", ctypes.c_char_p), ("code", ctypes.c_int)]


CREATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ErrorArgs))


class Api(ctypes.Structure):
    _fields_ = [
        ("head", Head),
        ("version", Version),
        ("internal", ctypes.c_void_p),
        ("error_create", CREATE),
        ("others", ctypes.c_void_p * 8),
    ]


class Metadata(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("version", Version),
        ("traits", ctypes.c_uint32),
        ("state", ctypes.c_int64),
    ]


class Extension(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.POINTER(Metadata)),
    ]


class Frame(ctypes.Structure):
    _fields_ = [("head", Head), ("api", ctypes.POINTER(Api)), ("rest", ctypes.c_uint8 * 256)]


def asked(major: int, minor: int, api_bytes: int) -> tuple[Metadata, list[str]]:
    """What the handler says to an XLA of a version that asks what it is."""
    said: list[str] = []

    def create(args: Any) -> int:
        said.append(args[0].message.decode())
        return 1

    api = Api(Head(api_bytes), Version(Head(24), major, minor), None, CREATE(create))
    metadata = Metadata(ctypes.sizeof(Metadata))
    extension = Extension(24, 1, None, ctypes.pointer(metadata))
    frame = Frame(Head(256, ctypes.addressof(extension)), ctypes.pointer(api))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(rota.xla_handlers()["execute"], b"xla._CUSTOM_CALL_TARGET")
    failed = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Frame))(address)(ctypes.pointer(frame))
    assert (failed is not None) == bool(said)
    return metadata, said


def test_versions_of_xla() -> None:
    for minor in (3, 9):
        metadata, said = asked(0, minor, ctypes.sizeof(Api))
        assert (metadata.version.major, metadata.version.minor) == (0, 3) and said == []
    for major, minor, api_bytes in [(1, 3, ctypes.sizeof(Api)), (0, 2, ctypes.sizeof(Api)), (0, 3, 64)]:
        _, said = asked(major, minor, api_bytes)
        assert len(said) == 1 and f"it is {major}.{minor}" in said[0]
