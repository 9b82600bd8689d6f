"""PyTorch's ops by rota's: for each the function that records it. What one does not take runs on PyTorch's kernel."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _rota as ops
from .._rota import Tensor
from .kernels import INTO
from .segment import DTYPES, EACH, NotLowered, Segment

aten = torch.ops.aten

LOWERED: dict[Any, Callable[..., None]] = {}


def lowers(*targets: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        for target in targets:
            LOWERED[target] = function
        return function

    return register


def real(fake: Any) -> str:
    """The dtype of real numbers that a tensor has."""
    name = DTYPES.get(fake.dtype)
    if name is None or name == "i32":
        raise NotLowered
    return name


def axis_of(x: Any, axis: int) -> int:
    return axis % max(int(x.dim()), 1)


def axes_of(x: Any, axes: Sequence[int] | int | None) -> list[int]:
    if isinstance(axes, int):
        axes = [axes]
    return sorted({axis_of(x, axis) for axis in (axes if axes else range(x.dim()))})


def convert(x: Tensor, out: Tensor) -> None:
    """x's elements in out's dtype."""
    if x.dtype == out.dtype:
        ops.copy(x, out=out)
    else:
        ops.apply("cast", [x], [out], dtype=out.dtype)


def store(result: Tensor, s: Segment, y: Any) -> None:
    convert(result, s.write(y))


# ---- Element by element ----


def unary(target: Any, op: Callable[..., Tensor]) -> None:
    def lower(s: Segment, node: Any, y: Any, x: Any) -> None:
        op(s.read(x, real(y)), out=s.write(y))

    LOWERED[target] = lower


for _target, _op in {
    aten.neg.default: ops.neg,
    aten.exp.default: ops.exp,
    aten.log.default: ops.log,
    aten.sqrt.default: ops.sqrt,
    aten.relu.default: ops.relu,
    aten.abs.default: ops.abs,
    aten.reciprocal.default: ops.reciprocal,
    aten.rsqrt.default: ops.rsqrt,
    aten.tanh.default: ops.tanh,
    aten.sigmoid.default: ops.sigmoid,
    aten.sin.default: ops.sin,
    aten.cos.default: ops.cos,
    aten.sign.default: ops.sign,
    aten.floor.default: ops.floor,
    aten.ceil.default: ops.ceil,
    aten.round.default: ops.round,
    aten.silu.default: ops.silu,
    aten.hardswish.default: ops.hardswish,
    aten.square.default: ops.square,
}.items():
    unary(_target, _op)


@lowers(aten.gelu.default)
def gelu(s: Segment, node: Any, y: Any, x: Any, approximate: str = "none") -> None:
    (ops.gelu if approximate == "tanh" else ops.gelu_erf)(s.read(x, real(y)), out=s.write(y))


@lowers(aten.leaky_relu.default)
def leaky_relu(s: Segment, node: Any, y: Any, x: Any, slope: float = 0.01) -> None:
    ops.leaky_relu(s.read(x, real(y)), slope, out=s.write(y))


@lowers(aten.elu.default)
def elu(s: Segment, node: Any, y: Any, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> None:
    if scale != 1 or input_scale != 1:
        raise NotLowered
    ops.elu(s.read(x, real(y)), alpha, out=s.write(y))


@lowers(aten.add.Tensor, aten.add.Scalar)
def add(s: Segment, node: Any, y: Any, a: Any, b: Any, alpha: float = 1) -> None:
    dtype, of_a, of_b = real(y), s.number(a), s.number(b)
    if of_b is not None:
        ops.affine(s.read(a, dtype), 1, of_b * alpha, out=s.write(y))
    elif of_a is not None:
        ops.affine(s.read(b, dtype), alpha, of_a, out=s.write(y))
    else:
        right = s.read(b, dtype)
        ops.add(s.read(a, dtype), right if alpha == 1 else ops.scale(right, alpha), out=s.write(y))


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def sub(s: Segment, node: Any, y: Any, a: Any, b: Any, alpha: float = 1) -> None:
    dtype, of_a, of_b = real(y), s.number(a), s.number(b)
    if of_b is not None:
        ops.affine(s.read(a, dtype), 1, -of_b * alpha, out=s.write(y))
    elif of_a is not None:
        ops.affine(s.read(b, dtype), -alpha, of_a, out=s.write(y))
    else:
        right = s.read(b, dtype)
        ops.sub(s.read(a, dtype), right if alpha == 1 else ops.scale(right, alpha), out=s.write(y))


@lowers(aten.mul.Tensor, aten.mul.Scalar)
def mul(s: Segment, node: Any, y: Any, a: Any, b: Any) -> None:
    dtype, of_a, of_b = real(y), s.number(a), s.number(b)
    if of_b is not None or of_a is not None:
        left, number = (a, of_b) if of_b is not None else (b, of_a)
        ops.scale(s.read(left, dtype), number or 0.0, out=s.write(y))
    elif a is b:
        ops.square(s.read(a, dtype), out=s.write(y))
    else:
        ops.mul(s.read(a, dtype), s.read(b, dtype), out=s.write(y))


@lowers(aten.div.Tensor, aten.div.Scalar)
def div(s: Segment, node: Any, y: Any, a: Any, b: Any) -> None:
    dtype, of_a, of_b = real(y), s.number(a), s.number(b)
    if of_b:
        ops.scale(s.read(a, dtype), 1 / of_b, out=s.write(y))
    elif of_a is not None and of_b is None:
        ops.scale(ops.reciprocal(s.read(b, dtype)), of_a, out=s.write(y))
    else:
        ops.div(s.read(a, dtype), s.read(b, dtype), out=s.write(y))


@lowers(aten.pow.Tensor_Scalar)
def pow_scalar(s: Segment, node: Any, y: Any, x: Any, exponent: float) -> None:
    base, out = s.read(x, real(y)), s.write(y)
    plain = {2: ops.square, 0.5: ops.sqrt, -0.5: ops.rsqrt, -1: ops.reciprocal}.get(exponent)
    if plain is not None:
        plain(base, out=out)
    else:
        ops.pow_scalar(base, exponent, out=out)


@lowers(aten.pow.Tensor_Tensor)
def pow_tensor(s: Segment, node: Any, y: Any, a: Any, b: Any) -> None:
    ops.pow(s.read(a, real(y)), s.read(b, real(y)), out=s.write(y))


@lowers(aten.maximum.default)
def maximum(s: Segment, node: Any, y: Any, a: Any, b: Any) -> None:
    ops.maximum(s.read(a, real(y)), s.read(b, real(y)), out=s.write(y))


@lowers(aten.minimum.default)
def minimum(s: Segment, node: Any, y: Any, a: Any, b: Any) -> None:
    ops.minimum(s.read(a, real(y)), s.read(b, real(y)), out=s.write(y))


@lowers(aten.clamp.default)
def clamp(s: Segment, node: Any, y: Any, x: Any, low: float | None = None, high: float | None = None) -> None:
    infinity = float("inf")
    ops.clamp(s.read(x, real(y)), -infinity if low is None else low, infinity if high is None else high, out=s.write(y))


@lowers(aten.lerp.Scalar)
def lerp(s: Segment, node: Any, y: Any, a: Any, b: Any, weight: float) -> None:
    left = s.read(a, real(y))
    ops.add(left, ops.scale(ops.sub(s.read(b, real(y)), left), weight), out=s.write(y))


@lowers(aten.pow.Scalar)
def pow_of_number(s: Segment, node: Any, y: Any, base: float, x: Any) -> None:
    if base <= 0:
        raise NotLowered
    ops.exp(ops.scale(s.read(x, real(y)), math.log(base)), out=s.write(y))


@lowers(aten.copy_.default)
def copy(s: Segment, node: Any, y: Any, x: Any, source: Any, non_blocking: bool = False) -> None:
    if y.dtype not in DTYPES or source.dtype is torch.int64:
        raise NotLowered
    convert(s.read(source), s.write(y))


@lowers(aten.linalg_vector_norm.default)
def vector_norm(s: Segment, node: Any, y: Any, x: Any, order: float = 2, *args: Any, **options: Any) -> None:
    if order != 2 or y.dim() != 0 or y.dtype is not torch.float32:
        raise NotLowered
    ops.sqrt(ops.sum_squares(s.read(x, real(x))).reshape(), out=s.write(y))


# ---- Choosing ----


def comparison(name: str, op: Callable[..., Tensor]) -> None:
    def lower(s: Segment, node: Any, y: Any, a: Any, b: Any) -> None:
        dtype = real(a)
        if isinstance(b, torch.Tensor):
            if b.dtype != a.dtype:
                raise NotLowered
            right = s.read(b)
        else:
            right = s.constant(b, dtype)
        held = op(s.read(a), right)
        store(held, s, y)

    LOWERED[getattr(aten, name).Tensor] = LOWERED[getattr(aten, name).Scalar] = lower


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    comparison(_name, getattr(ops, _name))


def truths(*fakes: Any) -> None:
    if any(fake.dtype is not torch.bool for fake in fakes):
        raise NotLowered


@lowers(aten.logical_not.default, aten.bitwise_not.default)
def logical_not(s: Segment, node: Any, y: Any, x: Any) -> None:
    truths(x, y)
    ops.affine(s.read(x), -1, 1, out=s.write(y))


@lowers(aten.logical_and.default, aten.bitwise_and.Tensor)
def logical_and(s: Segment, node: Any, y: Any, a: Any, b: Any) -> None:
    truths(a, b, y)
    ops.mul(s.read(a), s.read(b), out=s.write(y))


@lowers(aten.logical_or.default, aten.bitwise_or.Tensor)
def logical_or(s: Segment, node: Any, y: Any, a: Any, b: Any) -> None:
    truths(a, b, y)
    ops.maximum(s.read(a), s.read(b), out=s.write(y))


@lowers(aten.where.self)
def where(s: Segment, node: Any, y: Any, condition: Any, a: Any, b: Any) -> None:
    dtype = real(y)
    ops.where(s.read(condition, dtype), s.read(a, dtype), s.read(b, dtype), out=s.write(y))


# ---- Moving ----


@lowers(aten.clone.default)
def clone(s: Segment, node: Any, y: Any, x: Any, **options: Any) -> None:
    if x.dtype not in DTYPES:
        raise NotLowered
    ops.copy(s.read(x), out=s.write(y))


@lowers(aten._to_copy.default)
def to_copy(s: Segment, node: Any, y: Any, x: Any, **options: Any) -> None:
    if y.dtype not in DTYPES or x.dtype is torch.int64:
        raise NotLowered  # an i64 may be none of i32's
    convert(s.read(x), s.write(y))


EACH.update(LOWERED)  # all so far


def add_into(results: Sequence[Any], a: Any, b: Any, alpha: float = 1) -> bool:
    """Of what rota does not add: counts in i64, and others."""
    torch.add(a, b, alpha=alpha, out=results[0])
    return True


INTO[aten.add.Tensor] = add_into


# Tensors that PyTorch's kernels join on a GPU.
FEW = 8


@lowers(aten.cat.default)
def cat(s: Segment, node: Any, y: Any, tensors: Sequence[Any], axis: int = 0) -> None:
    # On a GPU PyTorch's kernel writes all of what lies between one another at once.
    is_apart = any(extent != 1 for extent in y.shape[: axis_of(y, axis)]) and all(x.dtype == y.dtype for x in tensors)
    if y.dtype not in DTYPES or (s.home.type == "cuda" and is_apart and len(tensors) <= FEW):
        raise NotLowered
    parts = [s.read(x, DTYPES[y.dtype]) for x in tensors if x.numel()]
    ops.concat(parts, axis_of(y, axis), out=s.write(y))


@lowers(aten.repeat.default)
def repeat(s: Segment, node: Any, y: Any, x: Any, times: Sequence[int]) -> None:
    """With an axis for each count, along which x is broadcast."""
    if x.dtype not in DTYPES or not y.is_contiguous():
        raise NotLowered
    extents = [1] * (len(times) - x.dim()) + list(x.shape)
    apart: list[int] = [n for pair in zip(times, extents, strict=True) for n in pair]
    once: list[int] = [n for extent in extents for n in (1, extent)]
    ops.copy(s.read(x).reshape(*once), out=s.write(y).reshape(*apart))


def cat_into(results: Sequence[Any], tensors: Sequence[Any], axis: int = 0) -> bool:
    torch.cat(tensors, axis, out=results[0])
    return True


INTO[aten.cat.default] = cat_into


def part(x: Tensor, axis: int, start: int, end: int) -> Tensor:
    return x[(slice(None),) * axis + (slice(start, end),)]


@lowers(aten.slice_scatter.default)
def slice_scatter(
    s: Segment, node: Any, y: Any, x: Any, source: Any, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> None:
    if step != 1 or x.dtype not in DTYPES:
        raise NotLowered
    axis = axis_of(x, axis)
    begin, stop, _ = slice(start, end).indices(x.shape[axis])
    out = s.write(y)
    ops.copy(s.read(x), out=out)
    ops.copy(s.read(source), out=part(out, axis, begin, stop))


@lowers(aten.constant_pad_nd.default)
def constant_pad(s: Segment, node: Any, y: Any, x: Any, pads: Sequence[int], value: float = 0) -> None:
    if min(pads) < 0 or x.dtype not in DTYPES:
        raise NotLowered
    out = inner = s.write(y)
    for i in range(0, len(pads), 2):
        axis = x.dim() - 1 - i // 2
        inner = part(inner, axis, pads[i], pads[i] + x.shape[axis])
    ops.fill(out, value)
    ops.copy(s.read(x), out=inner)


@lowers(aten.full.default, aten.full_like.default)
def full(s: Segment, node: Any, y: Any, x: Any, number: float, **options: Any) -> None:
    if y.dtype not in DTYPES:
        raise NotLowered
    ops.fill(s.write(y), number)


@lowers(aten.embedding.default)
def embedding(
    s: Segment, node: Any, y: Any, table: Any, index: Any, padding: int = -1, scale: bool = False, sparse: bool = False
) -> None:
    real(table)
    ops.embedding(s.read(table), s.read(index, "i32"), out=s.write(y))


@lowers(aten.gather.default)
def gather(s: Segment, node: Any, y: Any, x: Any, axis: int, index: Any, sparse_grad: bool = False) -> None:
    axis = axis_of(x, axis)
    if x.dim() == 0 or x.dtype not in DTYPES or any(x.shape[i] != index.shape[i] for i in range(x.dim()) if i != axis):
        raise NotLowered
    ops.gather(s.read(x), axis, s.read(index, "i32"), out=s.write(y))


# ---- Products ----


@lowers(aten.mm.default, aten.bmm.default)
def matmul(s: Segment, node: Any, y: Any, a: Any, b: Any) -> None:
    real(y)
    ops.matmul(s.read(a), s.read(b), out=s.write(y))


@lowers(aten.addmm.default)
def addmm(s: Segment, node: Any, y: Any, bias: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> None:
    if beta != 1 or alpha != 1 or bias.dim() != 1 or bias.shape[0] != y.shape[1]:
        raise NotLowered
    real(y)
    is_transposed = b.stride(0) == 1 and b.stride(1) >= b.shape[0]
    weight = s.read(b).T if is_transposed else s.read(b)
    ops.linear(s.read(a), weight, s.read(bias), transposed=is_transposed, out=s.write(y))


# ---- Along axes ----


def reduction(op: Callable[..., Tensor], x: Tensor, axes: Sequence[int]) -> Tensor:
    for axis in axes:
        x = op(x, axis, True)
    return x


def reduced_into(s: Segment, y: Any, x: Any, op: Callable[..., Tensor], axes: Sequence[int]) -> None:
    """One axis after the other; y is without them, or has them with extent 1."""
    value = s.read(x, real(y))
    out = s.write(y)
    if y.dim() != x.dim():
        shape = [1 if i in axes else extent for i, extent in enumerate(x.shape)]
        out = out.reshape(*shape)
    if not axes:
        ops.copy(value, out=out)
        return
    op(reduction(op, value, axes[:-1]), axes[-1], True, out=out)


@lowers(aten.sum.dim_IntList)
def sum_(s: Segment, node: Any, y: Any, x: Any, axes: Any, keep: bool = False, *, dtype: Any = None) -> None:
    reduced_into(s, y, x, ops.sum, axes_of(x, axes))


@lowers(aten.sum.default)
def sum_all(s: Segment, node: Any, y: Any, x: Any, *, dtype: Any = None) -> None:
    reduced_into(s, y, x, ops.sum, axes_of(x, None))


@lowers(aten.mean.dim)
def mean(s: Segment, node: Any, y: Any, x: Any, axes: Any, keep: bool = False, *, dtype: Any = None) -> None:
    reduced_into(s, y, x, ops.mean, axes_of(x, axes))


@lowers(aten.mean.default)
def mean_all(s: Segment, node: Any, y: Any, x: Any, *, dtype: Any = None) -> None:
    reduced_into(s, y, x, ops.mean, axes_of(x, None))


@lowers(aten.amax.default)
def amax(s: Segment, node: Any, y: Any, x: Any, axes: Any = (), keep: bool = False) -> None:
    reduced_into(s, y, x, ops.max, axes_of(x, axes))


@lowers(aten.amin.default)
def amin(s: Segment, node: Any, y: Any, x: Any, axes: Any = (), keep: bool = False) -> None:
    reduced_into(s, y, x, ops.min, axes_of(x, axes))


def planes(s: Segment, x: Any, axes: Sequence[int]) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]] | None:
    """Of axes of which some, but not all, are x's last: variance and mean over those, and what moves the others to the
    end. None where x has to be copied for that, or what is between would be rounded."""
    first = x.dim()
    while first - 1 in axes:
        first -= 1
    head = [axis for axis in axes if axis < first]
    if not head or first == x.dim() or not x.is_contiguous() or x.dtype is not torch.float32:
        return None
    rest = [i for i in range(first) if i not in head]
    value = s.read(x).reshape(*x.shape[:first], math.prod(x.shape[first:]))

    def moved(t: Tensor) -> Tensor:
        return t.permute(*rest, *head).reshape(*(x.shape[i] for i in rest), math.prod(x.shape[i] for i in head))

    return ops.variance(value, -1, 0, False), ops.mean(value, -1, False), moved


def variance(s: Segment, y: Any, x: Any, axes: Sequence[int], correction: float, mean: Any = None) -> None:
    """Of the axes together, and their mean. What is not along x's last axes is moved there, if it can be once the
    others are summed: the variance is the mean of the planes' and that of their means (Chan, Golub and LeVeque,
    Updating formulae and a pairwise algorithm for computing sample variances, 1979)."""
    if correction not in (0, 1) or not axes:
        raise NotLowered
    rest = [i for i in range(x.dim()) if i not in axes]
    count = math.prod(x.shape[axis] for axis in axes)
    if count <= correction:
        raise NotLowered
    apart = planes(s, x, axes)
    if apart is not None:
        real(y)
        within, centres, moved = apart
        centres = moved(centres)
        both = ops.add(ops.mean(moved(within), -1, False), ops.variance(centres, -1, 0, False))
        store(ops.scale(both, count / (count - correction)).reshape(*y.shape), s, y)
        if mean is not None:
            store(ops.mean(centres, -1, False).reshape(*mean.shape), s, mean)
        return
    value = s.read(x, real(y)).permute(*rest, *axes).reshape(*(x.shape[i] for i in rest), count)
    store(ops.variance(value, -1, int(correction), False).reshape(*y.shape), s, y)
    if mean is not None:
        reduced_into(s, mean, x, ops.mean, axes)


@lowers(aten.var.correction)
def var(
    s: Segment, node: Any, y: Any, x: Any, axes: Any = None, *, correction: Any = None, keepdim: bool = False
) -> None:
    variance(s, y, x, axes_of(x, axes), 1 if correction is None else correction)


@lowers(aten.var_mean.correction)
def var_mean(
    s: Segment, node: Any, y: Any, x: Any, axes: Any = None, *, correction: Any = None, keepdim: bool = False
) -> None:
    variance(s, y[0], x, axes_of(x, axes), 1 if correction is None else correction, y[1])


def along_last(s: Segment, y: Any, x: Any, axis: int, op: Callable[..., Tensor]) -> None:
    if x.dim() == 0:
        raise NotLowered
    axis = axis_of(x, axis)
    op(s.read(x, real(y)).transpose(axis, x.dim() - 1), out=s.write(y).transpose(axis, x.dim() - 1))


@lowers(aten._softmax.default)
def softmax(s: Segment, node: Any, y: Any, x: Any, axis: int, half_to_float: bool) -> None:
    along_last(s, y, x, axis, ops.softmax)


@lowers(aten._log_softmax.default)
def log_softmax(s: Segment, node: Any, y: Any, x: Any, axis: int, half_to_float: bool) -> None:
    along_last(s, y, x, axis, ops.log_softmax)


@lowers(aten.cumsum.default)
def cumsum(s: Segment, node: Any, y: Any, x: Any, axis: int, *, dtype: Any = None) -> None:
    if x.dim() == 0:
        raise NotLowered
    store(ops.cumulative_sum(s.read(x, real(y)), axis), s, y)


def is_used(node: Any, index: int) -> bool:
    return any(user.args[1] == index for user in node.users if len(user.args) == 2)


@lowers(aten.native_layer_norm.default)
def layer_norm(s: Segment, node: Any, y: Any, x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> None:
    """In the dtype of the means, which is f32 where a parameter is."""
    dtype = real(y[1])
    if len(shape) != 1:
        raise NotLowered
    value = s.read(x, dtype)
    weight = None if weight is None else s.read(weight, dtype)
    bias = None if bias is None else s.read(bias, dtype)
    if y[1].dtype == y[0].dtype:
        ops.layernorm(value, weight, bias, eps, out=s.write(y[0]))
    else:
        store(ops.layernorm(value, weight, bias, eps), s, y[0])
    if is_used(node, 1):
        ops.mean(value, -1, True, out=s.write(y[1]))
    if is_used(node, 2):
        ops.rsqrt(ops.affine(ops.variance(value, -1, 0, True), 1, eps), out=s.write(y[2]))
