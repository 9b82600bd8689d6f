"""Max pooling with its gradient, found in a graph of both passes: where each window's largest is goes from one to the
other in 32 bits, as rota has it, and not in PyTorch's 64."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .nodes import picked, value_of
from .own import define
from .segment import DTYPES

aten = torch.ops.aten


def pool_and_indices(
    x: Any, window: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], ceil: bool
) -> tuple[Any, Any]:
    """Each window's largest, and where in its plane it is."""
    y, index = aten.max_pool2d_with_indices(x, window, stride, padding, dilation, ceil)
    return y, index.to(torch.int32)


def pool_gradient(
    dy: Any,
    index: Any,
    size: Sequence[int],
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
) -> Any:
    """By x, which has planes of a size, and lies as dy."""
    last = dy.is_contiguous(memory_format=torch.channels_last) and not dy.is_contiguous()
    x = torch.empty(
        (*dy.shape[:2], *size),
        dtype=dy.dtype,
        device=dy.device,
        memory_format=torch.channels_last if last else torch.contiguous_format,
    )
    return aten.max_pool2d_with_indices_backward(
        dy, x, window, stride, padding, dilation, ceil, index.to(torch.int64)
    )


MAX_POOL = define(
    "max_pool(Tensor x, int[] window, int[] stride, int[] padding, int[] dilation, bool ceil) -> (Tensor, Tensor)",
    pool_and_indices,
    pool_and_indices,
)
MAX_POOL_BACKWARD = define(
    "max_pool_backward(Tensor dy, Tensor index, int[] size, int[] window, int[] stride, int[] padding, int[] dilation,"
    " bool ceil) -> Tensor",
    pool_gradient,
    pool_gradient,
)


def both(value: Any) -> list[int]:
    """Of height and width."""
    numbers = list(value) if isinstance(value, Sequence) else [value]
    return numbers * 2 if len(numbers) == 1 else numbers


def put(graph: Any, insert: Callable[..., Any]) -> None:
    """In the place of such pairs in a graph; insert(before, target, args) makes a node."""
    for node in list(graph.nodes):
        if node.target is not aten.max_pool2d_with_indices.default:
            continue
        x, found = value_of(node.args[0]), picked(node)
        users = list(found[1].users) if 1 in found else []
        is_so = len(users) == 1 and users[0].target is aten.max_pool2d_with_indices_backward.default
        if not is_so or users[0].args[7] is not found[1] or x.dim() != 4 or DTYPES.get(x.dtype) in (None, "i32"):
            continue
        given: list[Any] = list(node.args[1:])
        defaults: list[Any] = [[], 0, 1, False]
        window, stride, padding, dilation, ceil = given + defaults[len(given) - 1 :]
        how = both(window), both(stride or window), both(padding), both(dilation), bool(ceil)
        made = insert(node, MAX_POOL, (node.args[0], *how))
        parts = [insert(node, operator.getitem, (made, i)) for i in range(2)]
        if 0 in found:
            found[0].replace_all_uses_with(parts[0])
        backward = users[0]
        size = [int(extent) for extent in x.shape[2:]]
        gradient = insert(backward, MAX_POOL_BACKWARD, (backward.args[0], parts[1], size, *how))
        backward.replace_all_uses_with(gradient)
