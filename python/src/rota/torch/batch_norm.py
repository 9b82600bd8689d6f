"""Batch norm in training, taken apart: sums over a batch are PyTorch's kernels, and what is element by element is
rota's ops, which are one kernel with what comes before and after them (a ReLU, a residual)."""

from typing import Any

import torch

from .own import define

aten = torch.ops.aten

# On GPUs, or, for tests, everywhere.
GPU_ALONE = True


def axes_of(x: Any) -> list[int]:
    return [0, *range(2, x.dim())]


def along(vector: Any, x: Any) -> Any:
    """A number for each channel, beside x."""
    return vector.reshape(1, -1, *(1,) * (x.dim() - 2))


def stats_of(x: Any, eps: float) -> tuple[Any, Any]:
    """Each channel's mean and inverse deviation, in f32."""
    if x.device.type == "cuda":
        mean, deviation = aten.batch_norm_stats(x, eps)
        return mean, deviation
    variance, mean = torch.var_mean(x.to(torch.float32), axes_of(x), correction=0)
    return mean, (variance + eps).rsqrt()


def sums_of(dy: Any, x: Any, mean: Any, deviation: Any) -> tuple[Any, Any]:
    """Of dy, and of dy times x's distance from the mean, over each channel, in f32."""
    if x.device.type == "cuda":
        sums = aten.batch_norm_backward_reduce(dy, x, mean, deviation, None, True, False, False)
        return sums[0], sums[1]
    dy = dy.to(torch.float32)
    return dy.sum(axes_of(x)), (dy * (x.to(torch.float32) - along(mean, x))).sum(axes_of(x))


def of_channels(x: Any) -> Any:
    return x.new_empty(x.shape[1], dtype=torch.float32)


STATS = define(
    "batch_stats(Tensor x, float eps) -> (Tensor, Tensor)", stats_of, lambda x, eps: (of_channels(x), of_channels(x))
)
SUMS = define(
    "batch_sums(Tensor dy, Tensor x, Tensor mean, Tensor deviation) -> (Tensor, Tensor)",
    sums_of,
    lambda dy, x, mean, deviation: (of_channels(x), of_channels(x)),
)


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


def running(
    x: Any, of_batch: Any, deviation: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> tuple[Any, Any]:
    """The means and variances of batches so far, with this one's, whose variance is without bias."""
    count = x.numel() // x.shape[1]
    of_this = (deviation.pow(-2) - eps).clamp(min=0) * (momentum * count / (count - 1))
    return mean * (1 - momentum) + of_batch * momentum, variance * (1 - momentum) + of_this


# What is by channels stands before what is by elements, which then is together.


def functional(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Any:
    """aten._native_batch_norm_legit_functional."""
    if not training or not is_taken(x, weight, bias, mean, variance):
        return NotImplemented
    of_batch, deviation = STATS(x, eps)
    new = running(x, of_batch, deviation, mean, variance, momentum, eps)
    return normed(x, weight, bias, of_batch, deviation), of_batch, deviation, *new


def in_place(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Any:
    """aten.native_batch_norm, which changes the running ones."""
    if not training or not is_taken(x, weight, bias, mean, variance):
        return NotImplemented
    of_batch, deviation = STATS(x, eps)
    if mean is not None and variance is not None:
        new, new_variance = running(x, of_batch, deviation, mean, variance, momentum, eps)
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
    of_dy, of_product = SUMS(dy, x, of_batch, deviation)
    dweight = of_product * deviation if wanted[1] else None
    dx = None
    if wanted[0]:
        slope = of_product * deviation.square() * part
        middle = of_dy * part
        scale = deviation if weight is None else deviation * weight
        rest = dy.to(torch.float32) - (x.to(torch.float32) - along(of_batch, x)) * along(slope, x)
        dx = ((rest - along(middle, x)) * along(scale, x)).to(x.dtype)
    return dx, dweight, of_dy if wanted[2] else None


TABLE = {
    aten._native_batch_norm_legit_functional.default: functional,
    aten._native_batch_norm_legit.default: in_place,
    aten.native_batch_norm.default: in_place,
    aten.native_batch_norm_backward.default: backward,
}
