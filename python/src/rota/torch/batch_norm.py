"""Batch norm in training, taken apart: sums over a batch are two of rota's ops, and what is element by element is
others, which are one kernel with what comes before and after them (a ReLU, a residual)."""

from typing import Any

import torch

from .. import _rota as ops
from .._rota import Tensor
from .lower import lowers
from .own import define, real_numbers
from .segment import Segment

aten = torch.ops.aten

# On GPUs, or, for tests, everywhere.
GPU_ALONE = True


def axes_of(x: Any) -> list[int]:
    return [0, *range(2, x.dim())]


def along(vector: Any, x: Any) -> Any:
    """A number for each channel, beside x."""
    return vector.reshape(1, -1, *(1,) * (x.dim() - 2))


def stats_of(x: Any, mean: Any, variance: Any, momentum: float, eps: float) -> tuple[Any, Any, Any]:
    """Each channel's mean and inverse deviation [2, channels], in f32, and the running means and variances of batches
    so far, with this one's, whose variance is without bias."""
    of_batch, middle = torch.var_mean(x.to(torch.float32), axes_of(x), correction=0)
    count = x.numel() // x.shape[1]
    unbiased = of_batch * (count / (count - 1))
    new = mean * (1 - momentum) + middle * momentum, variance * (1 - momentum) + unbiased * momentum
    return torch.stack([middle, (of_batch + eps).rsqrt()]), *new


def sums_of(dy: Any, x: Any, mean: Any, deviation: Any) -> Any:
    """Of dy times x's distance from the mean in deviations, and of dy, over each channel [2, channels], in f32."""
    dy = dy.to(torch.float32)
    distance = (x.to(torch.float32) - along(mean, x)) * along(deviation, x)
    return torch.stack([(dy * distance).sum(axes_of(x)), dy.sum(axes_of(x))])


STATS = define(
    "batch_stats(Tensor x, Tensor mean, Tensor variance, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    stats_of,
    lambda x, *rest: tuple(real_numbers(x, *rows, x.shape[1]) for rows in ((2,), (), ())),
)
SUMS = define(
    "batch_sums(Tensor dy, Tensor x, Tensor mean, Tensor deviation) -> Tensor",
    sums_of,
    lambda dy, x, mean, deviation: real_numbers(x, 2, x.shape[1]),
)


def by_channels(x: Any, value: Tensor) -> tuple[Tensor, int]:
    """A tensor by the order in which x's elements lie in memory, and the axis of its channels then."""
    if x.is_contiguous() or not x.is_contiguous(memory_format=torch.channels_last):
        return value, 1
    return value.permute(0, 2, 3, 1), 3


@lowers(STATS)
def batch_stats(
    s: Segment, node: Any, results: Any, x: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> None:
    value, axis = by_channels(x, s.read(x))
    stats, new_mean, new_variance = (s.write(result) for result in results)
    ops.copy(s.read(mean), out=new_mean)
    ops.copy(s.read(variance), out=new_variance)
    ops.batch_norm_stats(value, new_mean, new_variance, axis, eps, momentum, out=stats)


@lowers(SUMS)
def batch_sums(s: Segment, node: Any, sums: Any, dy: Any, x: Any, mean: Any, deviation: Any) -> None:
    value, axis = by_channels(x, s.read(x))
    slope, _ = by_channels(x, s.read(dy))
    ops.batch_norm_sums(slope, value, s.read(mean), s.read(deviation), axis, out=s.write(sums))


def is_taken(x: Any, *vectors: Any) -> bool:
    """Whether batch norm of x is taken apart: its numbers are of dtypes that rota has, those by channels f32."""
    given = [vector for vector in vectors if vector is not None]
    return (
        (x.device.type == "cuda" or not GPU_ALONE)
        and x.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and x.dim() >= 2
        and x.numel() > x.shape[1]
        and all(vector.dtype is torch.float32 for vector in given)
    )


def normed(x: Any, weight: Any, bias: Any, mean: Any, deviation: Any) -> Any:
    scale = deviation if weight is None else deviation * weight
    y = (x.to(torch.float32) - along(mean, x)) * along(scale, x)
    if bias is not None:
        y = y + along(bias, x)
    return y.to(x.dtype)


def statistics(
    x: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> tuple[Any, Any, Any, Any]:
    """A batch's means and inverse deviations, and the running means and variances, which may be none that count."""
    if mean is None or variance is None:
        mean = variance = x.new_zeros(x.shape[1], dtype=torch.float32)
    stats, *new = STATS(x, mean, variance, momentum, eps)
    return stats[0], stats[1], *new


# What is by channels stands before what is by elements, which then is together.


def functional(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Any:
    """aten._native_batch_norm_legit_functional."""
    if not training or not is_taken(x, weight, bias, mean, variance):
        return NotImplemented
    of_batch, deviation, *new = statistics(x, mean, variance, momentum, eps)
    return normed(x, weight, bias, of_batch, deviation), of_batch, deviation, *new


def in_place(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Any:
    """aten.native_batch_norm, which changes the running ones."""
    if not training or not is_taken(x, weight, bias, mean, variance):
        return NotImplemented
    of_batch, deviation, new, new_variance = statistics(x, mean, variance, momentum, eps)
    if mean is not None and variance is not None:
        mean.copy_(new)
        variance.copy_(new_variance)
    return normed(x, weight, bias, of_batch, deviation), of_batch, deviation


def backward(
    dy: Any,
    x: Any,
    weight: Any,
    mean: Any,
    variance: Any,
    of_batch: Any,
    deviation: Any,
    training: bool,
    eps: float,
    wanted: list[bool],
) -> Any:
    """aten.native_batch_norm_backward."""
    if not training or not is_taken(x, weight, of_batch, deviation) or dy.dtype != x.dtype:
        return NotImplemented
    part = x.shape[1] / x.numel()
    sums = SUMS(dy, x, of_batch, deviation)
    of_distance, of_dy = sums[0], sums[1]
    dx = None
    if wanted[0]:
        slope = of_distance * deviation * part
        middle = of_dy * part
        scale = deviation if weight is None else deviation * weight
        # In an order in which each joins what is there already, so that all of it is one kernel.
        off = (x.to(torch.float32) - along(of_batch, x)) * along(slope, x)
        dx = ((dy.to(torch.float32) - off - along(middle, x)) * along(scale, x)).to(x.dtype)
    return dx, of_distance if wanted[1] else None, of_dy if wanted[2] else None


TABLE = {
    aten._native_batch_norm_legit_functional.default: functional,
    aten._native_batch_norm_legit.default: in_place,
    aten.native_batch_norm.default: in_place,
    aten.native_batch_norm_backward.default: backward,
}
