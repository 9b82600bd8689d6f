"""rota.jax on JAX's GPU: in order with XLA's stream, under jit and grad, against the same in JAX."""

import gc
import time
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

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(jax.default_backend() != "gpu", reason="JAX has no GPU here"),
]

RANDOM = np.random.default_rng(7)
X, W = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((64, 32), (32, 48)))


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Products of f32 are not of TF32."""
    with jax.default_matmul_precision("highest"):
        yield


def layer(x: Any, w: Any) -> Any:
    return rota.tanh(x @ w)


def expected_layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def close(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(expected)
    for a, b in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), rtol=tolerance, atol=tolerance)


def test_called_and_under_jit() -> None:
    one = rota.jax.function(layer)
    got = one(X, W)
    close(got, expected_layer(X, W))
    assert got.devices() == {jax.devices()[0]} and rota.jax.device().id == "cuda:0"
    inside = jax.jit(lambda f, x, w: f(x * 2, w) + f(x, w), static_argnums=0)
    for _ in range(3):
        close(inside(one, X, W), inside(expected_layer, X, W))
    close(inside(one, X[:2], W), inside(expected_layer, X[:2], W))


@pytest.mark.parametrize("jit", [False, True])
def test_gradients(jit: bool) -> None:
    def loss(f: Callable[..., Any], x: Any, w: Any) -> Any:
        return (f(x, w) ** 2 * jnp.arange(48.0)).mean() + f(x + 1, w).mean()

    one = rota.jax.function(layer)
    for which in ((1,), (2,), (1, 2)):
        grads = jax.value_and_grad(loss, which)
        run = jax.jit(grads, static_argnums=0) if jit else grads
        close(run(one, X, W), grads(expected_layer, X, W), 1e-4)


def test_dtypes_scalars_and_trees() -> None:
    def pick(p: Any, i: Any, scale: Any) -> Any:
        rows = rota.embedding(p["table"], i)
        return {"rows": rows + p["shift"], "index": rota.copy(i)}, (rows * rota.exp(scale.broadcast_to(rows.shape)),)

    def expected(p: Any, i: Any, scale: Any) -> Any:
        rows = p["table"][i]
        return {"rows": rows + p["shift"], "index": i}, (rows * jnp.exp(scale),)

    p, i = {"table": jnp.asarray(X), "shift": jnp.arange(32.0)}, jnp.array([4, 0, 4, 1], jnp.int32)
    close(rota.jax.function(pick)(p, i, 0.5), expected(p, i, jnp.float32(0.5)))
    for dtype in (jnp.bfloat16, jnp.float16):
        x, w = jnp.asarray(X, dtype) / 8, jnp.asarray(W, dtype)
        close(rota.jax.function(layer)(x, w), expected_layer(x, w), 0.02)


def test_in_order_with_the_stream() -> None:
    """What comes before on XLA's stream is long, and what comes after reads at once; nobody waits between calls, whose
    inputs each overwrite those of the last."""
    one = rota.jax.function(lambda x: x * 3.0 + 1.0)
    big = jnp.asarray(RANDOM.standard_normal((2048, 2048)).astype(np.float32)) / 64

    def chain(f: Callable[..., Any]) -> Any:
        def run(x: Any) -> Any:
            for _ in range(8):
                x = f(jnp.tanh(x @ big))
            return x

        return jax.jit(run)

    ours, theirs = chain(one), chain(lambda x: x * 3.0 + 1.0)
    x = big
    for _ in range(5):
        got, expected = ours(x), theirs(x)
        close(got, expected, 1e-4)
        x = expected
    values = [ours(big + i) for i in range(12)]  # none of them waited for
    for i, value in enumerate(values):
        close(value, theirs(big + i), 1e-4)
    square = [one(jnp.full((512, 512), float(i))) for i in range(100)]
    assert [float(v[17, 5]) for v in square] == [3.0 * i + 1 for i in range(100)]


def test_vmap_scan_and_training() -> None:
    one = rota.jax.function(layer)
    xs = jnp.stack([X, X + 1, X - 1])
    close(jax.vmap(one, (0, None))(xs, W), jax.vmap(expected_layer, (0, None))(xs, W), 1e-4)
    f = rota.jax.function(lambda w, x, y: rota.mse(x @ w, y).reshape())

    def fit(loss: Callable[..., Any]) -> Any:
        def run(w: Any) -> Any:
            def step(w: Any, _: Any) -> Any:
                value, grad = jax.value_and_grad(loss)(w, jnp.asarray(X), jnp.asarray(X @ W))
                return w - 0.05 * grad, value

            return jax.lax.scan(step, w, length=50)

        return jax.jit(run)(jnp.zeros((32, 48)))

    got, expected = fit(f), fit(lambda w, x, y: ((x @ w - y) ** 2).mean())
    close(got, expected, 1e-3)
    assert got[1][-1] < got[1][0]


def test_threads() -> None:
    one = jax.jit(rota.jax.function(layer))
    one(X, W)
    wrong: list[int] = []

    def work(i: int) -> None:
        x = X + i
        expected = np.tanh(x @ W)
        for _ in range(30):
            if not np.allclose(np.asarray(one(x, W)), expected, atol=1e-4):
                wrong.append(i)

    side_by_side(8, work)
    assert wrong == []


def test_functions_of_the_hosts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a device of their own, which would not know that XLA has written an operand anew."""
    graphs: list[rota.Graph] = []

    def graph(*arguments: Any, **options: Any) -> rota.Graph:
        graphs.append(rota.graph(*arguments, **options))
        return graphs[-1]

    def same(x: Any, y: Any) -> None:
        y[:] = x

    def on_host(x: Any) -> Any:
        y = graphs[-1].empty(4)
        graphs[-1].host(same, reads=[x], writes=[y])
        return y

    monkeypatch.setattr(rota.jax, "graph", graph)
    with pytest.raises(rota.errors.Unsupported, match="parts on other devices than 'cuda:0'"):
        rota.jax.function(on_host)(jnp.arange(4.0))


def test_refusals() -> None:
    one = rota.jax.function(layer)
    with pytest.raises(rota.errors.Unsupported, match="JAX's GPU alone; this is lowered for cpu"):
        jax.jit(one).trace(X, W).lower(lowering_platforms=("cpu",))
    with rota.open("cpu") as cpu:
        with pytest.raises(rota.errors.Unsupported, match="JAX's CPU alone; this is lowered for cuda"):
            jax.jit(rota.jax.function(layer, device=cpu))(X, W)
        with jax.default_device(jax.devices("cpu")[0]):
            close(rota.jax.function(layer, device=cpu)(X, W), expected_layer(X, W))


def test_what_is_let_go_of() -> None:
    """A function that is dropped while XLA's stream has its call before it. JAX and it refer to each other."""
    gc.collect()
    before = rota.jax.device().stats["plans"]
    big = jnp.ones((4096, 4096))
    for i in range(5):
        f = rota.jax.function(lambda x: x + 1.0)
        got = f((big @ big) * 0 + i)
        del f
        jax.clear_caches()
        assert float(got[4095, 4095]) == i + 1
    end = time.monotonic() + 10
    while rota.jax.device().stats["plans"] > before and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    assert rota.jax.device().stats["plans"] <= before


def test_how_long_a_call_takes(record_property: Callable[[str, object], None]) -> None:
    one, theirs = jax.jit(rota.jax.function(lambda x: rota.tanh(x))), jax.jit(jnp.tanh)
    x = jnp.ones((256, 256))
    for name, f in (("rota", one), ("jax", theirs)):
        jax.block_until_ready(f(x))
        begin = time.perf_counter()
        for _ in range(200):
            y = f(x)
        jax.block_until_ready(y)
        microseconds = (time.perf_counter() - begin) / 200 * 1e6
        record_property(name, microseconds)
        print(f"{name}: {microseconds:.1f} us a call")


# ---- Arrays ----


def let_go_of(device: rota.Device) -> None:
    """Until XLA has let go of what is in the device's memory, where copies are, too: then the device may be closed."""
    end = time.monotonic() + 10
    while device.shared and time.monotonic() < end:
        gc.collect()
        time.sleep(0.001)
    assert device.shared == 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint32"])
def test_arrays_there_and_back(dtype: str) -> None:
    """On the GPU, by DLPack, after what JAX has begun; and back."""
    with rota.open("cuda:0") as device:
        given = (jnp.arange(1 << 20) % 7).astype(dtype)  # before f16 has infinities of them
        for _ in range(3):
            given = jax.jit(lambda x: (x + x) % 5)(given)
            x = device.from_dlpack(given)
            back = jnp.from_dlpack(x)
            assert back.devices() == given.devices() and back.dtype == given.dtype
            assert bool(jnp.array_equal(back, given))
            del back
        let_go_of(device)


def test_jax_reads_what_was_submitted_before() -> None:
    with rota.open("cuda:0") as device:
        x = device.tensor(np.ones(1 << 20, np.float32))
        with rota.graph(device) as g:
            rota.scale(x, 2, out=x)
        plan = g.compile()
        for i in range(1, 20):
            plan()
            assert float(jnp.from_dlpack(x)[-1]) == 2**i
        let_go_of(device)
