"""PyTorch's convolutions and pooling by rota's ops."""

from collections.abc import Sequence
from typing import Any

import torch

from .. import _rota as ops
from .._rota import Tensor
from .kernels import INTO
from .lower import lowers, real, reduced_into
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


def check_layout(s: Segment, *fakes: Any) -> None:
    """On a GPU what PyTorch has channels last of is its own kernels', which need no copies then."""
    if s.home.type != "cpu" and not all(fake.is_contiguous() for fake in fakes):
        raise NotLowered


def plane(x: Tensor) -> Tensor:
    """With a height of 1 where there is a width alone."""
    return x if len(x.shape) == 4 else x.reshape(x.shape[0], x.shape[1], 1, x.shape[2])


class Window:
    """What a convolution's node says of its windows."""

    def __init__(self, x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> None:
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
    check_layout(s, x, w, y)
    window = Window(x, w, stride, padding, dilation, groups)
    value, weight, added = plane(s.read(x)), plane(s.read(w)), None if bias is None else s.read(bias)
    out = plane(s.write(y))
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
    check_layout(s, dy, x, w, *(result for result in (dx, dw) if result is not None))
    window = Window(x, w, stride, padding, dilation, groups)
    given, value, weight = plane(s.read(dy)), plane(s.read(x)), plane(s.read(w))
    to_x, to_w = (None if result is None else plane(s.write(result)) for result in (dx, dw))
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

    options = {"window": both(window), "stride": both(stride or window), "padding": both(padding)}
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
    check_layout(s, x)
    options = pooled(x, window, stride, padding, dilation)
    out = s.write(results[0]), s.write(results[1])
    ops.max_pool2d(s.read(x), **options, ceil_mode=ceil_mode, out=out)


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
    check_layout(s, x, dy, dx)
    options = pooled(x, window, stride, padding, dilation)
    found = s.read(index, "i32")
    ops.max_pool2d_backward(
        s.read(dy), found, (x.shape[2], x.shape[3]), **options, ceil_mode=ceil_mode, out=s.write(dx)
    )


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
    check_layout(s, x)
    if divisor is not None:
        raise NotLowered
    options = pooled(x, window, stride, padding)
    ops.avg_pool2d(
        s.read(x), **options, ceil_mode=ceil_mode, exclude_padding=not count_include_pad, out=s.write(y)
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
    check_layout(s, x, dy, dx)
    if divisor is not None:
        raise NotLowered
    options = pooled(x, window, stride, padding)
    ops.avg_pool2d_backward(
        s.read(dy),
        (x.shape[2], x.shape[3]),
        **options,
        ceil_mode=ceil_mode,
        exclude_padding=not count_include_pad,
        out=s.write(dx),
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
    check_layout(s, x)
    ops.avg_pool2d(s.read(x), **even(x, y), out=s.write(y))


@lowers(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool_backward(s: Segment, node: Any, dx: Any, dy: Any, x: Any) -> None:
    real(dx)
    check_layout(s, x, dy, dx)
    ops.avg_pool2d_backward(s.read(dy), (x.shape[2], x.shape[3]), **even(x, dy), out=s.write(dx))
