"""PyTorch's convolutions and pooling by rota's ops."""

from collections.abc import Sequence
from typing import Any

import torch

from .. import _rota as ops
from .._rota import Tensor
from .kernels import INTO
from .lower import lowers, real, reduced_into
from .pools import MAX_POOL, MAX_POOL_BACKWARD
from .segment import NotLowered, Segment

aten = torch.ops.aten

Pair = tuple[int, int]


def pair(values: Sequence[int], axes: int, instead: int) -> Pair:
    """Of height and width, from PyTorch's list; of one axis alone it is the width's."""
    first, last = values[0], values[-1]
    return (instead, last) if axes == 1 else (first, last)


def allows_tf32() -> bool:
    """What PyTorch's own convolutions are told, when a plan is compiled."""
    return bool(torch.backends.cudnn.allow_tf32)


def lies_last(s: Segment, *fakes: Any) -> bool:
    """Whether images, and windows, lie by channels last. On a GPU they lie alike, or are PyTorch's kernels', which need
    no copies then."""
    if all(fake.is_contiguous() for fake in fakes):
        return False
    if all(fake.dim() == 4 and fake.is_contiguous(memory_format=torch.channels_last) for fake in fakes):
        return True
    if s.home.type != "cpu":
        raise NotLowered
    return False


def check_library(s: Segment, last: bool, x: Any, groups: int) -> None:
    """By channels last a convolution on a GPU is to be cuDNN's with units for products, which rota finds where PyTorch
    has it; of f32 as it is, and of many groups, it is PyTorch's own."""
    by_units = x.dtype is not torch.float32 or allows_tf32()
    if s.home.type != "cpu" and last and not (by_units and groups == 1 and torch.backends.cudnn.is_available()):
        raise NotLowered


def plane(x: Tensor, last: bool = False) -> Tensor:
    """With a height of 1 where there is a width alone, and in the order in which it lies."""
    if last:
        return x.permute(0, 2, 3, 1)
    return x if len(x.shape) == 4 else x.reshape(x.shape[0], x.shape[1], 1, x.shape[2])


class Window:
    """What a convolution's node says of its windows."""

    def __init__(self, x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int, last: bool) -> None:
        axes = x.dim() - 2
        if axes not in (1, 2) or w.dim() != x.dim() or x.dtype != w.dtype:
            raise NotLowered
        self.stride = pair(stride, axes, 1)
        self.padding = pair(padding, axes, 0)
        self.dilation = pair(dilation, axes, 1)
        self.extent = pair(w.shape[2:], axes, 1)
        self.options: dict[str, Any] = {
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": groups,
            "allow_tf32": allows_tf32(),
            "channels_last": last,
        }

    def rest(self, wide: Sequence[int], narrow: Sequence[int]) -> Pair:
        """By how much the windows of a convolution end before its input does."""
        axes = len(wide) - 2
        of_wide, of_narrow = pair(wide[2:], axes, 1), pair(narrow[2:], axes, 1)
        rests = [
            of_wide[i]
            - ((of_narrow[i] - 1) * self.stride[i] - 2 * self.padding[i] + self.dilation[i] * (self.extent[i] - 1) + 1)
            for i in range(2)
        ]
        return rests[0], rests[1]


@lowers(aten.convolution.default)
def convolution(
    s: Segment,
    node: Any,
    y: Any,
    x: Any,
    w: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> None:
    real(y)
    last = lies_last(s, x, w, y)
    check_library(s, last, x, groups)
    window = Window(x, w, stride, padding, dilation, groups, last)
    value, weight = plane(s.read(x), last), plane(s.read(w), last)
    added = None if bias is None else s.read(bias)
    out = plane(s.write(y), last)
    if transposed:
        rest = pair(output_padding, x.dim() - 2, 0)
        ops.conv_transpose2d(value, weight, added, output_padding=rest, **window.options, out=out)
    else:
        ops.conv2d(value, weight, added, **window.options, out=out)


def convolve_into(
    results: Sequence[Any],
    x: Any,
    w: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> bool:
    """cuDNN's, where PyTorch would take that, and all lies as one another."""
    if x.device.type != "cuda" or transposed or bias is not None:
        return False
    (y,) = results
    formats = [torch.contiguous_format, torch.channels_last] if x.dim() == 4 else [torch.contiguous_format]
    if not any(all(one.is_contiguous(memory_format=kind) for one in (x, w, y)) for kind in formats):
        return False
    how = (stride, padding, dilation, transposed, output_padding, groups)
    if torch._C._select_conv_backend(x, w, bias, *how) != torch._C._ConvBackend.Cudnn:
        return False
    cudnn = torch.backends.cudnn
    options = (cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32)
    aten.cudnn_convolution.out(x, w, padding, stride, dilation, groups, *options, out=y)
    return True


INTO[aten.convolution.default] = convolve_into


@lowers(aten.convolution_backward.default)
def convolution_backward(
    s: Segment,
    node: Any,
    results: Any,
    dy: Any,
    x: Any,
    w: Any,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> None:
    real(dy)
    dx, dw, db = (result if wanted else None for result, wanted in zip(results, mask, strict=True))
    last = lies_last(s, dy, x, w, *(result for result in (dx, dw) if result is not None))
    check_library(s, last, x, groups)
    window = Window(x, w, stride, padding, dilation, groups, last)
    given, value, weight = (plane(s.read(one), last) for one in (dy, x, w))
    to_x, to_w = (None if result is None else plane(s.write(result), last) for result in (dx, dw))
    if to_x is not None and transposed:
        ops.conv2d(given, weight, **window.options, out=to_x)
    elif to_x is not None:
        ops.conv_transpose2d(given, weight, output_padding=window.rest(x.shape, dy.shape), **window.options, out=to_x)
    if to_w is not None:
        wide, narrow = (given, value) if transposed else (value, given)
        ops.conv2d_backward_weight(wide, narrow, window.extent, **window.options, out=to_w)
    if db is not None:
        reduced_into(s, db, dy, ops.sum, [i for i in range(dy.dim()) if i != 1])


# ---- Pooling ----


def pooled(x: Any, window: Sequence[int], stride: Sequence[int], padding: Any, dilation: Any = 1) -> dict[str, Any]:
    """The options that pools of all kinds have."""
    if x.dim() != 4:
        raise NotLowered

    def both(value: Any) -> Pair:
        return (value, value) if isinstance(value, int) else pair(value, 2, 1)

    options: dict[str, Any] = {"window": both(window), "stride": both(stride or window), "padding": both(padding)}
    return options if dilation == 1 else {**options, "dilation": both(dilation)}


@lowers(aten.max_pool2d_with_indices.default)
def max_pool(
    s: Segment,
    node: Any,
    results: Any,
    x: Any,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> None:
    real(x)
    y, index = results
    last = lies_last(s, x, y, index)
    options = pooled(x, window, stride, padding, dilation)
    out = plane(s.write(y), last), plane(s.write(index), last)
    ops.max_pool2d(plane(s.read(x), last), **options, ceil_mode=ceil_mode, channels_last=last, out=out)


@lowers(aten.max_pool2d_with_indices_backward.default)
def max_pool_backward(
    s: Segment,
    node: Any,
    dx: Any,
    dy: Any,
    x: Any,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    index: Any,
) -> None:
    real(dx)
    max_gradient(s, dx, dy, index, pooled(x, window, stride, padding, dilation), ceil_mode)


def max_gradient(s: Segment, dx: Any, dy: Any, index: Any, options: dict[str, Any], ceil_mode: bool) -> None:
    last = lies_last(s, dx, dy, index)
    given, found, out = plane(s.read(dy), last), plane(s.read(index, "i32"), last), plane(s.write(dx), last)
    size = dx.shape[2], dx.shape[3]
    ops.max_pool2d_backward(given, found, size, **options, ceil_mode=ceil_mode, channels_last=last, out=out)


@lowers(MAX_POOL)
def max_pool_of_pair(s: Segment, node: Any, results: Any, x: Any, *how: Any) -> None:
    max_pool(s, node, results, x, *how)


@lowers(MAX_POOL_BACKWARD)
def max_pool_backward_of_pair(
    s: Segment,
    node: Any,
    dx: Any,
    dy: Any,
    index: Any,
    size: Sequence[int],
    window: Sequence[int],
    stride: Sequence[int],
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> None:
    real(dx)
    max_gradient(s, dx, dy, index, pooled(dx, window, stride, padding, dilation), ceil_mode)


@lowers(aten.avg_pool2d.default)
def avg_pool(
    s: Segment,
    node: Any,
    y: Any,
    x: Any,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> None:
    real(y)
    last = lies_last(s, x, y)
    if divisor is not None:
        raise NotLowered
    options = pooled(x, window, stride, padding)
    ops.avg_pool2d(
        plane(s.read(x), last),
        **options,
        ceil_mode=ceil_mode,
        exclude_padding=not count_include_pad,
        channels_last=last,
        out=plane(s.write(y), last),
    )


@lowers(aten.avg_pool2d_backward.default)
def avg_pool_backward(
    s: Segment,
    node: Any,
    dx: Any,
    dy: Any,
    x: Any,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> None:
    real(dx)
    last = lies_last(s, dy, dx)
    if divisor is not None:
        raise NotLowered
    options = pooled(x, window, stride, padding)
    ops.avg_pool2d_backward(
        plane(s.read(dy), last),
        (x.shape[2], x.shape[3]),
        **options,
        ceil_mode=ceil_mode,
        exclude_padding=not count_include_pad,
        channels_last=last,
        out=plane(s.write(dx), last),
    )


def even(x: Any, y: Any) -> dict[str, Any]:
    """Windows that are alike and do not overlap."""
    check = [x.shape[i] % y.shape[i] for i in (-2, -1)]
    if x.dim() != 4 or any(check):
        raise NotLowered
    window = x.shape[2] // y.shape[2], x.shape[3] // y.shape[3]
    return {"window": window, "stride": window}


@lowers(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool(s: Segment, node: Any, y: Any, x: Any, size: Sequence[int]) -> None:
    real(y)
    last = lies_last(s, x, y)
    ops.avg_pool2d(plane(s.read(x), last), **even(x, y), channels_last=last, out=plane(s.write(y), last))


@lowers(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool_backward(s: Segment, node: Any, dx: Any, dy: Any, x: Any) -> None:
    real(dx)
    last = lies_last(s, dy, dx)
    size = x.shape[2], x.shape[3]
    given, out = plane(s.read(dy), last), plane(s.write(dx), last)
    ops.avg_pool2d_backward(given, size, **even(x, dy), channels_last=last, out=out)
