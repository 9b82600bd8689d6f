"""Every op against numpy, and its gradient against finite differences."""

import contextlib
import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rota

Array = Any
erf = np.vectorize(math.erf)


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalize(x: Array, eps: float = 1e-5) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def compact(x: Array, mask: Array) -> Array:
    kept = x[mask != 0]
    return np.concatenate([kept, np.zeros((len(x) - len(kept), *x.shape[1:]), x.dtype)])


def unique(x: Array) -> Array:
    numbers = np.unique(x)
    return np.pad(numbers, (0, x.size - numbers.size))


def share(x: Array, p: float) -> Array:
    sums = np.cumsum(-np.sort(-x, -1), -1, dtype=np.float64)
    return (sums < p * sums[:, -1:]).sum(-1, keepdims=True) + 1


def causal(x: Array) -> Array:
    queries, keys = x.shape[-2:]
    return np.where(np.tril(np.ones((queries, keys), bool), keys - queries), x, -np.inf)


def attention(q: Array, k: Array, v: Array, is_causal: bool = False) -> Array:
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return softmax(causal(scores) if is_causal else scores) @ v


def rope(x: Array, offset: int) -> Array:
    half = x.shape[-1] // 2
    angle = (np.arange(x.shape[-2])[:, None] + offset) * 10000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def windows(x: Array, kh: int, kw: int, stride: int, filled: float) -> Array:
    """[batch, channels, oh, ow, kh, kw] of x with padding of 1."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=filled)
    return np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), (2, 3))[:, :, ::stride, ::stride]


def conv2d(x: Array, w: Array, bias: Array) -> Array:
    return np.einsum("nchwij,ocij->nohw", windows(x, w.shape[2], w.shape[3], 2, 0), w) + bias[:, None, None]


def conv_transpose2d(x: Array, w: Array) -> Array:
    """By stride 2 with padding of 1."""
    (batch, _, height, width), (_, out, kh, kw) = x.shape, w.shape
    y = np.zeros((batch, out, 2 * height - 2 + kh, 2 * width - 2 + kw), x.dtype)
    for i in range(height):
        for j in range(width):
            y[:, :, 2 * i : 2 * i + kh, 2 * j : 2 * j + kw] += np.einsum("nc,coij->noij", x[:, :, i, j], w)
    return y[:, :, 1:-1, 1:-1]


def cross_entropy(x: Array, labels: Array) -> Array:
    rows = np.log(softmax(x))[np.arange(len(labels)), labels]
    return -rows[labels != -100].mean(keepdims=True)


def smoothed(x: Array, labels: Array, smoothing: float) -> Array:
    log = np.log(softmax(x))
    target = np.full(x.shape, smoothing / x.shape[-1])
    target[np.arange(len(labels)), labels] += 1 - smoothing
    return -(log * target).sum(-1).mean(keepdims=True)


def scatter_add(base: Array, index: Array, x: Array) -> Array:
    y = base.copy()
    np.add.at(y, (np.arange(len(index))[:, None], index), x)
    return y


def huber(x: Array, t: Array) -> Array:
    d = np.abs(x - t)
    return np.where(d <= 1, d * d / 2, d - 0.5).mean(keepdims=True).reshape(1)


rng = np.random.default_rng(7)


def normal(*shape: int) -> Array:
    return rng.uniform(-1, 1, shape).astype(np.float32)


def positive(*shape: int) -> Array:
    return rng.uniform(0.5, 1.5, shape).astype(np.float32)


def index(classes: int, *shape: int) -> Array:
    return rng.integers(0, classes, shape).astype(np.int32)


X, Y, P = normal(3, 5), normal(3, 5), positive(3, 5)
I = index(5, 3, 4)
LABELS = index(5, 3)
MASK, SPARSE = np.array([0, 2, -1], np.int32), index(2, 3, 70)
WEIGHT, BIAS = positive(5), normal(5)
Q, K, V = normal(2, 3, 4, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 8)
CHANNELS = normal(4, 6, 3)
IMAGE, WINDOW, BIAS_OF_WINDOW, TURNED = normal(2, 3, 5, 6), normal(4, 3, 3, 2), normal(4), normal(3, 2, 4, 3)

Case = tuple[str, Callable[..., Any], Callable[..., Any], list[Array]]
CASES: list[Case] = [
    ("add", rota.add, np.add, [X, BIAS]),
    ("sub", rota.sub, np.subtract, [X, Y]),
    ("mul", rota.mul, np.multiply, [X, Y]),
    ("div", rota.div, np.divide, [X, P]),
    ("minimum", rota.minimum, np.minimum, [X, Y]),
    ("maximum", rota.maximum, np.maximum, [X, Y]),
    ("pow", rota.pow, np.power, [P, X]),
    ("silu_mul", rota.silu_mul, lambda a, b: a * sigmoid(a) * b, [X, Y]),
    ("bias_gelu", rota.bias_gelu, lambda a, b: gelu(a + b), [X, BIAS]),
    ("eq", rota.eq, lambda a, b: (a == b) * 1.0, [X, X]),
    ("ne", rota.ne, lambda a, b: (a != b) * 1.0, [X, Y]),
    ("lt", rota.lt, lambda a, b: (a < b) * 1.0, [X, Y]),
    ("le", rota.le, lambda a, b: (a <= b) * 1.0, [X, Y]),
    ("gt", rota.gt, lambda a, b: (a > b) * 1.0, [X, Y]),
    ("ge", rota.ge, lambda a, b: (a >= b) * 1.0, [X, Y]),
    ("affine", lambda x: rota.affine(x, 2, -1), lambda x: 2 * x - 1, [X]),
    ("scale", lambda x: rota.scale(x, 3), lambda x: 3 * x, [X]),
    ("neg", rota.neg, np.negative, [X]),
    ("exp", rota.exp, np.exp, [X]),
    ("log", rota.log, np.log, [P]),
    ("sqrt", rota.sqrt, np.sqrt, [P]),
    ("relu", rota.relu, lambda x: np.maximum(x, 0), [X]),
    ("gelu", rota.gelu, gelu, [X]),
    ("silu", rota.silu, lambda x: x * sigmoid(x), [X]),
    ("abs", rota.abs, np.abs, [X]),
    ("square", rota.square, np.square, [X]),
    ("reciprocal", rota.reciprocal, np.reciprocal, [P]),
    ("rsqrt", rota.rsqrt, lambda x: 1 / np.sqrt(x), [P]),
    ("tanh", rota.tanh, np.tanh, [X]),
    ("sigmoid", rota.sigmoid, sigmoid, [X]),
    ("sin", rota.sin, np.sin, [X]),
    ("cos", rota.cos, np.cos, [X]),
    ("sign", rota.sign, np.sign, [X]),
    ("floor", rota.floor, np.floor, [3 * X]),
    ("ceil", rota.ceil, np.ceil, [3 * X]),
    ("round", rota.round, np.round, [3 * X]),
    ("gelu_erf", rota.gelu_erf, lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), [X]),
    ("softplus", rota.softplus, lambda x: np.log1p(np.exp(x)), [X]),
    ("hardswish", rota.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6, [X]),
    ("leaky_relu", lambda x: rota.leaky_relu(x, 0.1), lambda x: np.where(x > 0, x, 0.1 * x), [X]),
    ("elu", lambda x: rota.elu(x, 0.5), lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1)), [X]),
    ("pow_scalar", lambda x: rota.pow_scalar(x, 1.5), lambda x: x**1.5, [P]),
    ("clamp", lambda x: rota.clamp(x, -0.5, 0.4), lambda x: np.clip(x, -0.5, 0.4), [X]),
    ("softcap", lambda x: rota.softcap(x, 2), lambda x: 2 * np.tanh(x / 2), [X]),
    ("where", rota.where, lambda c, a, b: np.where(c != 0, a, b), [(X > 0).astype(np.float32), X, Y]),
    (
        "masked_fill",
        lambda x, m: rota.masked_fill(x, m, -2),
        lambda x, m: np.where(m != 0, -2, x),
        [X, np.sign(np.abs(Y) - 0.5) + 1],
    ),
    ("copy", rota.copy, lambda x: x, [X]),
    ("stop_gradient", rota.stop_gradient, lambda x: x, [X]),
    ("contiguous", lambda x: rota.contiguous(x.T), lambda x: x.T, [X]),
    ("cast", lambda x: rota.cast(rota.cast(x, "i32"), "f32"), lambda x: np.trunc(x), [3 * X]),
    ("transpose", lambda x: rota.transpose(x, 0, 1), np.transpose, [X]),
    ("slice", lambda x: rota.slice(x, 1, 1, 3), lambda x: x[:, 1:4], [X]),
    ("reshape", lambda x: rota.reshape(x, [5, 3]), lambda x: x.reshape(5, 3), [X]),
    ("broadcast", lambda x: rota.broadcast(x, [2, 3, 5]), lambda x: np.broadcast_to(x, (2, 3, 5)), [X]),
    ("concat", lambda a, b: rota.concat([a, b], 1), lambda a, b: np.concatenate([a, b], 1), [X, Y]),
    ("embedding", rota.embedding, lambda t, i: t[i], [normal(5, 4), I]),
    ("gather", lambda x, i: rota.gather(x, 1, i), lambda x, i: np.take_along_axis(x, i, 1), [X, I]),
    ("scatter_add", lambda b, i, x: rota.scatter_add(b, 1, i, x), scatter_add, [X, I, normal(3, 4)]),
    ("one_hot", lambda i: rota.one_hot(i, 5), lambda i: np.eye(5)[i], [I]),
    ("sum", lambda x: rota.sum(x, 0), lambda x: x.sum(0), [X]),
    ("mean", lambda x: rota.mean(x, 1, keep=True), lambda x: x.mean(1, keepdims=True), [X]),
    ("max", rota.max, lambda x: x.max(-1), [X]),
    ("min", rota.min, lambda x: x.min(-1), [X]),
    ("argmax", rota.argmax, lambda x: x.argmax(-1), [X]),
    ("sum_squares", rota.sum_squares, lambda x: (x * x).sum().reshape(1), [X]),
    ("variance", lambda x: rota.variance(x, correction=1), lambda x: x.var(-1, ddof=1), [X]),
    ("column_sums", rota.column_sums, lambda x: x.sum(0), [X]),
    ("prod", rota.prod, lambda x: x.prod(-1), [P]),
    ("cumulative_sum", rota.cumulative_sum, lambda x: x.cumsum(-1), [X]),
    ("top_k", lambda x: rota.top_k(x, 2)[0], lambda x: -np.sort(-x, -1)[:, :2], [X]),
    ("top_k index", lambda x: rota.top_k(x, 2)[1], lambda x: np.argsort(-x, -1)[:, :2], [X]),
    ("nonzero", lambda x: rota.nonzero(x)[0], lambda x: np.argsort(x.ravel() == 0, kind="stable"), [SPARSE]),
    ("nonzero count", lambda x: rota.nonzero(x)[1], lambda x: np.array([np.count_nonzero(x)]), [SPARSE]),
    ("compact", lambda x, m: rota.compact(x, m)[0], compact, [X, MASK]),
    ("compact count", lambda x, m: rota.compact(x, m)[1], lambda _, m: np.array([np.count_nonzero(m)]), [X, MASK]),
    ("unique", lambda x: rota.unique(x)[0], unique, [SPARSE]),
    ("unique count", lambda x: rota.unique(x)[1], lambda x: np.array([np.unique(x).size]), [SPARSE]),
    (
        "unique inverse",
        lambda x: rota.unique(x)[2],
        lambda x: np.unique(x, return_inverse=True)[1].reshape(x.shape),
        [SPARSE],
    ),
    ("top_p", lambda x: rota.top_p(x, 0.5)[0], lambda x: np.argsort(-x, -1, kind="stable"), [softmax(X)]),
    ("top_p count", lambda x: rota.top_p(x, 0.5)[1], lambda x: share(x, 0.5), [softmax(X)]),
    ("matmul", rota.matmul, np.matmul, [X, normal(5, 4)]),
    ("matmul transposed", lambda a, b: rota.matmul(a, b, True, True), lambda a, b: a.T @ b.T, [X, normal(4, 3)]),
    ("weighted_matmul", rota.weighted_matmul, np.matmul, [softmax(normal(2, 3, 4, 6)), V]),
    ("linear", rota.linear, lambda x, w, b: x @ w + b, [X, normal(5, 4), normal(4)]),
    (
        "linear_gelu",
        lambda x, w, b: rota.linear(x, w, b, activation="gelu"),
        lambda x, w, b: gelu(x @ w + b),
        [X, normal(5, 4), normal(4)],
    ),
    (
        "linear_relu",
        lambda x, w: rota.linear(x, w, activation="relu"),
        lambda x, w: np.maximum(x @ w, 0),
        [X, normal(5, 4)],
    ),
    ("layernorm", rota.layernorm, lambda x, w, b: normalize(x) * w + b, [X, WEIGHT, BIAS]),
    ("rmsnorm", rota.rmsnorm, lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w, [X, WEIGHT]),
    (
        "residual_layernorm",
        lambda x, r, w, b: rota.residual_layernorm(x, r, w, b)[0],
        lambda x, r, w, b: normalize(x + r) * w + b,
        [X, Y, WEIGHT, BIAS],
    ),
    (
        "group_norm",
        lambda x: rota.group_norm(x, 2),
        lambda x: normalize(x.reshape(4, 2, 9)).reshape(x.shape),
        [CHANNELS],
    ),
    ("softmax", rota.softmax, softmax, [X]),
    ("log_softmax", rota.log_softmax, lambda x: np.log(softmax(x)), [X]),
    ("causal_mask", lambda x: rota.softmax(rota.causal_mask(x)), lambda x: softmax(causal(x)), [X]),
    ("rope", lambda x: rota.rope(x, rota.Constant(3)), lambda x: rope(x, 3), [Q]),
    (
        "conv2d",
        lambda x, w, b: rota.conv2d(x, w, b, stride=2, padding=1),
        conv2d,
        [IMAGE, WINDOW, BIAS_OF_WINDOW],
    ),
    (
        "conv_transpose2d",
        lambda x, w: rota.conv_transpose2d(x, w, stride=2, padding=(1, 1)),
        conv_transpose2d,
        [IMAGE, TURNED],
    ),
    (
        "max_pool2d",
        lambda x: rota.max_pool2d(x, 3, stride=2, padding=1)[0],
        lambda x: windows(x, 3, 3, 2, -np.inf).max((-1, -2)),
        [IMAGE],
    ),
    (
        "avg_pool2d",
        lambda x: rota.avg_pool2d(x, (3, 2), stride=2, padding=1),
        lambda x: windows(x, 3, 2, 2, 0).mean((-1, -2)),
        [IMAGE],
    ),
    ("attention", rota.attention, attention, [Q, K, V]),
    (
        "attention causal",
        lambda q, k, v: rota.attention(q, k, v, causal=True),
        lambda q, k, v: attention(q, k, v, True),
        [Q, K, V],
    ),
    ("attention separate", lambda q, k, v: rota.attention(q, k, v, separate=True), attention, [Q, K, V]),
    ("attention_residual", lambda q, k, v: rota.attention_residual(q, k, v, scale=8**-0.5)[0], attention, [Q, K, V]),
    ("mse", rota.mse, lambda x, t: ((x - t) ** 2).mean().reshape(1), [X, Y]),
    ("l1", rota.l1, lambda x, t: np.abs(x - t).mean().reshape(1), [X, Y]),
    ("huber", rota.huber, huber, [3 * X, Y]),
    ("cross_entropy", rota.cross_entropy, cross_entropy, [X, LABELS]),
    ("classifier", lambda x, t: rota.classifier(x, t, smoothing=0.1), lambda x, t: smoothed(x, t, 0.1), [X, LABELS]),
    (
        "global_norm",
        lambda a, b: rota.global_norm([a, b], 0.5)[0:1],
        lambda a, b: np.sqrt((a * a).sum() + (b * b).sum()).reshape(1),
        [X, Y],
    ),
]
# No gradient, or one that finite differences don't give.
WITHOUT = {
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "sign",
    "floor",
    "ceil",
    "round",
    "stop_gradient",
    "cast",
    "one_hot",
    "argmax",
    "top_k index",
    "nonzero",
    "nonzero count",
    "compact count",
    "unique",
    "unique count",
    "unique inverse",
    "top_p",
    "top_p count",
    "global_norm",
}

# Inputs that only choose: no gradient flows to them.
CHOSEN_BY = {("where", 0), ("masked_fill", 1), ("compact", 1)}


def run(device: rota.Device, op: Callable[..., Any], arrays: list[Array]) -> Array:
    with rota.graph(device) as g:
        tensors = [g.input(f"x{i}", a.shape, "i32" if a.dtype == np.int32 else "f32") for i, a in enumerate(arrays)]
        g.output("y", op(*tensors))
    return g.compile()(**{f"x{i}": a for i, a in enumerate(arrays)}).result()["y"]


def contiguous(arrays: list[Array]) -> list[Array]:
    return [np.ascontiguousarray(a, a.dtype if a.dtype == np.int32 else np.float32) for a in arrays]


@pytest.mark.parametrize(("op", "reference", "arrays"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_op(device: rota.Device, op: Callable[..., Any], reference: Callable[..., Any], arrays: list[Array]) -> None:
    arrays = contiguous(arrays)
    expected = np.asarray(reference(*[a.astype(np.float64) if a.dtype != np.int32 else a for a in arrays]))
    y = run(device, op, arrays)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "op", "reference", "arrays"),
    [case for case in CASES if case[0] not in WITHOUT],
    ids=[case[0] for case in CASES if case[0] not in WITHOUT],
)
def test_gradient(
    device: rota.Device, name: str, op: Callable[..., Any], reference: Callable[..., Any], arrays: list[Array]
) -> None:
    """Of sum(w * op(...)) with random w, by central differences of the reference in f64."""
    arrays = contiguous(arrays)
    exact = [a.astype(np.float64) if a.dtype != np.int32 else a for a in arrays]
    y = np.asarray(reference(*exact))
    w = np.random.default_rng(3).uniform(-1, 1, y.shape).astype(np.float32)
    real = [i for i, a in enumerate(arrays) if a.dtype != np.int32]
    with rota.graph(device) as g:
        params = [device.tensor(a) for a in arrays]
        loss = rota.sum(rota.reshape(op(*params) * device.tensor(w), [w.size]), 0, keep=True)
        for i, grad in zip(real, g.backward(loss, [params[i] for i in real])):
            g.output(f"g{i}", grad)
    grads = g.compile()().result()
    for i in real:
        expected = np.zeros(arrays[i].size)
        for j in range(arrays[i].size):
            sides = []
            for step in (1e-5, -1e-5):
                moved = [a.copy() for a in exact]
                moved[i].reshape(-1)[j] += step
                sides.append(float((np.asarray(reference(*moved)) * w).sum()))
            expected[j] = (sides[0] - sides[1]) / 2e-5
        if (name, i) in CHOSEN_BY:
            continue
        np.testing.assert_allclose(grads[f"g{i}"].reshape(-1), expected, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("dtype", ["f8_e4m3fn", "f8_e5m2"])
@pytest.mark.parametrize("by_rows", [False, True])
def test_8_bit_floats(device: rota.Device, dtype: str, by_rows: bool) -> None:
    """Of x and w, quantized as a whole or by rows: scales and values against numpy's, the product against x @ w.T
    within what rounding to the dtype may add up to; codes are read as uint8."""
    random = np.random.default_rng(7)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 48), (16, 48)))
    bias = random.standard_normal(16).astype(np.float32)
    with rota.graph(device) as g:
        a, scale_a = rota.quantize(device.tensor(x), dtype, by_rows)
        b, scale_b = rota.quantize(device.tensor(w), dtype, by_rows)
        assert (a.dtype, scale_a.shape) == (dtype, (2, 3, 1) if by_rows else (1,))
        y = rota.scaled_matmul(a, b, scale_a, scale_b, dtype="f32")
        g.output("y", y)
        g.output("codes", a)
        g.output("wide", rota.cast(a, "f32") * scale_a)
        half = rota.scaled_matmul(a, b, scale_a, scale_b, rota.cast(device.tensor(bias), "f16"), "f16")
        g.output("half", rota.cast(half, "f32"))
        g.output("scale", rota.f8_scale(device.tensor(x), dtype, by_rows))
    result = g.compile()().result()
    largest = 448 if dtype == "f8_e4m3fn" else 57344
    step = 2**-4 if dtype == "f8_e4m3fn" else 2**-3
    assert result["codes"].dtype == np.uint8
    scale = np.abs(x).max(-1, keepdims=True) / largest if by_rows else np.abs(x).max().reshape(1) / largest
    np.testing.assert_allclose(result["scale"], scale, rtol=1e-6)
    np.testing.assert_allclose(result["wide"], x, rtol=step, atol=float(scale.max()) / 64)
    exact = x @ w.T
    assert np.abs(result["y"] - exact).max() < 2.2 * step * np.sqrt((x * x).sum(-1).max() * (w * w).sum(-1).max())
    np.testing.assert_allclose(result["half"], result["y"] + bias, rtol=2e-3, atol=2e-2)


def test_arrays_of_8_bit_floats(device: rota.Device) -> None:
    """Their bits as uint8, and numpy's arrays of ml_dtypes and PyTorch's, where those are there."""
    codes = np.array([0x38, 0x40, 0xB8, 0x7E], np.uint8)
    with rota.graph(device) as g:
        g.output("y", rota.cast(g.input("x", (4,), "f8_e4m3fn"), "f32"))
    plan = g.compile()
    given: list[Any] = [codes]
    with contextlib.suppress(ImportError):
        given.append(codes.view(importlib.import_module("ml_dtypes").float8_e4m3fn))
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")
        given.append(torch.from_numpy(codes).view(torch.float8_e4m3fn))
    for array in given:
        np.testing.assert_array_equal(plan(x=array).result()["y"], [1, 2, -1, 448])
    for array in given[1:]:
        assert device.tensor(array).dtype == "f8_e4m3fn"
    with pytest.raises(rota.errors.InvalidArgument, match="f8_e4m3fn"):
        plan(x=codes.astype(np.float32))
    with pytest.raises(rota.errors.InvalidArgument, match="uint8"):
        device.tensor(codes)


@pytest.mark.parametrize("name", ["conv2d_backward_weight", "max_pool2d_backward", "avg_pool2d_backward"])
def test_gradient_as_an_op(device: rota.Device, name: str) -> None:
    """What backward makes of conv2d and pooling is also had for itself, of a gradient that is given."""
    size = (IMAGE.shape[2], IMAGE.shape[3])
    with rota.graph(device) as g:
        x, w = device.tensor(IMAGE), device.tensor(WINDOW)
        if name == "conv2d_backward_weight":
            y, by = rota.conv2d(x, w, stride=2, padding=1), w
        elif name == "max_pool2d_backward":
            (y, chosen), by = rota.max_pool2d(x, 3, stride=2, padding=1), x
        else:
            y, by = rota.avg_pool2d(x, (3, 2), stride=2, padding=1), x
        dy = device.tensor(np.random.default_rng(5).uniform(-1, 1, y.shape).astype(np.float32))
        loss = rota.sum(rota.reshape(y * dy, [int(np.prod(y.shape))]), 0, keep=True)
        g.output("expected", g.backward(loss, [by])[0])
        if name == "conv2d_backward_weight":
            alone = rota.conv2d_backward_weight(x, dy, (WINDOW.shape[2], WINDOW.shape[3]), stride=2, padding=1)
        elif name == "max_pool2d_backward":
            alone = rota.max_pool2d_backward(dy, chosen, size, 3, stride=2, padding=1)
        else:
            alone = rota.avg_pool2d_backward(dy, size, (3, 2), stride=2, padding=1)
        g.output("alone", alone)
    result = g.compile()().result()
    assert np.abs(result["expected"]).max() > 0
    np.testing.assert_allclose(result["alone"], result["expected"], rtol=1e-6, atol=1e-6)


def test_batch_norm_in_parts() -> None:
    """Its statistics and sums, against numpy, by channels first and last; into a destination, too."""
    random = np.random.default_rng(5)
    x, dy = (random.standard_normal((4, 3, 5, 2)).astype(np.float32) for _ in range(2))
    x = x + np.float32(100)
    before = (np.ones(3, np.float32), np.full(3, 2, np.float32))
    mean, variance = x.mean((0, 2, 3)), x.astype(np.float64).var((0, 2, 3))
    rstd = (1 / np.sqrt(variance + 1e-3)).astype(np.float32)
    by_channel = [vector.reshape(3, 1, 1) for vector in (mean, rstd)]
    sums = np.stack([(dy * (x - by_channel[0]) * by_channel[1]).sum((0, 2, 3)), dy.sum((0, 2, 3))])
    for last in (False, True):
        axis = 3 if last else 1
        value, slope = (array.transpose(0, 2, 3, 1).copy() if last else array for array in (x, dy))
        dev = rota.open("cpu")
        running_mean, running_variance = (dev.tensor(array) for array in before)
        with rota.graph(dev) as g:
            given, gradient = (g.input(name, array.shape) for name, array in (("x", value), ("dy", slope)))
            stats = rota.batch_norm_stats(given, running_mean, running_variance, axis, 1e-3, 0.25)
            g.output("stats", stats)
            into = stats * 0.0
            made = rota.batch_norm_sums(gradient, given, stats[0], stats[1], axis=axis, out=into)
            g.output("sums", made)
        got = g.compile()(x=value, dy=slope).result()
        np.testing.assert_allclose(got["stats"], np.stack([mean, rstd]), rtol=1e-4)
        np.testing.assert_allclose(got["sums"], sums, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(running_mean.numpy(), 0.75 + 0.25 * mean, rtol=1e-5)
        np.testing.assert_allclose(running_variance.numpy(), 1.5 + 0.25 * variance * 40 / 39, rtol=1e-4)


def test_attention_dropout_is_attention_with_dropout() -> None:
    draw = np.random.default_rng(5)
    q, k, v = (draw.standard_normal((2, 3, 9, 8)).astype(np.float32) for _ in range(3))
    dev = rota.open("cpu")
    got = []
    for fused in (True, False):
        with rota.graph(dev) as g:
            given = [g.input(name, x.shape) for name, x in zip("qkv", (q, k, v), strict=True)]
            seed, step = rota.Constant(3), rota.Constant(4)
            if fused:
                y = rota.attention_dropout(given[0], given[1], given[2], 0.25, seed, step, causal=True)
            else:
                scores = rota.causal_mask(rota.matmul(given[0], given[1], transpose_b=True) * 8**-0.5)
                y = rota.matmul(rota.dropout(rota.softmax(scores), 0.25, seed, step), given[2])
            g.output("y", y)
        got.append(g.compile()(q=q, k=k, v=v).result()["y"])
    np.testing.assert_allclose(got[0], got[1], rtol=1e-4, atol=1e-5)


def test_every_op_of_the_table_is_there() -> None:
    named = {case[0].split()[0] for case in CASES}
    elsewhere = {
        "dropout", "residual_dropout", "fill", "batch_norm", "index_add", "adamw", "momentum", "ema", "loss_scale",
        "check_finite", "conv2d_backward_weight", "max_pool2d_backward", "avg_pool2d_backward", "batch_norm_stats",
        "batch_norm_sums", "scaled_matmul", "attention_dropout",
    }  # fmt: skip
    assert set(rota.op_names()) - named - elsewhere == set()
    for name in set(rota.op_names()) - {"momentum", "linear_gelu", "linear_relu"}:
        assert getattr(rota, name).__doc__, name
