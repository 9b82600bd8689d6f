"""PyTorch's attention of queries, keys and values that one product makes side by side, as rota's, whose gradients lie
side by side, too: nothing is copied between the products before and after."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _rota as ops
from .._rota import Tensor
from .lower import lowers, real
from .nodes import RESHAPES, picked, value_of
from .own import define, real_numbers
from .segment import Segment

aten = torch.ops.aten

# ---- The ops, as PyTorch has them: what they compute where no plan does ----


def parts_of(qkv: Any, heads: int) -> list[Any]:
    """Queries, keys and values [batch, heads, length, dim] of thirds [batch, length, 3 * heads * dim]."""
    width = qkv.shape[2] // 3
    return [part.unflatten(2, (heads, width // heads)).permute(0, 2, 1, 3) for part in qkv.split(width, 2)]


def scores_of(q: Any, k: Any, causal: bool, scale: float) -> Any:
    scores = q.to(torch.float32) @ k.to(torch.float32).transpose(-1, -2) * scale
    ahead = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(ahead, -math.inf) if causal else scores


def attention(qkv: Any, heads: int, causal: bool, scale: float) -> tuple[Any, Any]:
    """What is attended to [batch, length, heads * dim], and the logarithm of each row's sum [batch, heads, length]."""
    q, k, v = parts_of(qkv, heads)
    scores = scores_of(q, k, causal, scale)
    y = scores.softmax(-1) @ v.to(torch.float32)
    return y.permute(0, 2, 1, 3).flatten(2).to(qkv.dtype), scores.logsumexp(-1)


def attention_gradient(dy: Any, qkv: Any, y: Any, sums: Any, heads: int, causal: bool, scale: float) -> Any:
    q, k, v = (part.to(torch.float32) for part in parts_of(qkv, heads))
    dy, y = (one.unflatten(2, (heads, -1)).permute(0, 2, 1, 3).to(torch.float32) for one in (dy, y))
    chances = (scores_of(q, k, causal, scale) - sums.unsqueeze(-1)).exp()
    scores = chances * (dy @ v.transpose(-1, -2) - (dy * y).sum(-1, keepdim=True)) * scale
    grads = (scores @ k, scores.transpose(-1, -2) @ q, chances.transpose(-1, -2) @ dy)
    return torch.cat([grad.permute(0, 2, 1, 3).flatten(2) for grad in grads], 2).to(qkv.dtype)


def attended(qkv: Any, heads: int, *rest: Any) -> tuple[Any, Any]:
    batch, length, width = qkv.shape
    sums = real_numbers(qkv, batch, heads, length)
    return qkv.new_empty(batch, length, width // 3), sums


ATTENTION = define(
    "attention(Tensor qkv, int heads, bool causal, float scale) -> (Tensor, Tensor)", attention, attended
)
ATTENTION_BACKWARD = define(
    "attention_backward(Tensor dy, Tensor qkv, Tensor y, Tensor sums, int heads, bool causal, float scale) -> Tensor",
    attention_gradient,
    lambda dy, qkv, *rest: qkv.new_empty(qkv.shape),
)

# ---- On rota's kernels ----


def by_heads(x: Tensor, heads: int) -> Tensor:
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).permute(0, 2, 1, 3)


def side_by_side(qkv: Tensor, heads: int) -> list[Tensor]:
    width = qkv.shape[2] // 3
    return [by_heads(qkv[:, :, i * width : (i + 1) * width], heads) for i in range(3)]


@lowers(ATTENTION)
def heads_attend(s: Segment, node: Any, y: Any, qkv: Any, heads: int, causal: bool, scale: float) -> None:
    real(qkv)
    out = [by_heads(s.write(y[0]), heads), s.write(y[1])]
    ops.apply("attention", side_by_side(s.read(qkv), heads), out, causal=causal, scale=scale)


@lowers(ATTENTION_BACKWARD)
def heads_attend_backward(
    s: Segment, node: Any, dqkv: Any, dy: Any, qkv: Any, y: Any, sums: Any, heads: int, causal: bool, scale: float
) -> None:
    real(qkv)
    made = [by_heads(s.read(y), heads), s.read(sums)]
    out = side_by_side(s.write(dqkv), heads)
    given = side_by_side(s.read(qkv), heads)
    ops.gradient(
        "attention", given, made, by_heads(s.read(dy), heads), [True] * 3, out, causal=causal, scale=scale
    )


# ---- Finding them ----

FORWARD = (
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_cudnn_attention.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
)
BACKWARD = (
    aten._scaled_dot_product_flash_attention_backward.default,
    aten._scaled_dot_product_cudnn_attention_backward.default,
    aten._scaled_dot_product_efficient_attention_backward.default,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
)
# What the fast kernels take: elements of a head.
DIM_STEP, DIM_MAX = 8, 128


def argument(node: Any, name: str, default: Any) -> Any:
    """Of an op's call, by name, wherever it is given."""
    names = [one.name for one in node.target._schema.arguments]
    position = names.index(name) if name in names else len(node.args)
    return node.args[position] if position < len(node.args) else node.kwargs.get(name, default)


def only(nodes: Any) -> Any:
    (one,) = nodes if len(nodes) == 1 else (None,)
    return one


def is_turned(node: Any) -> bool:
    """Whether it exchanges heads and positions."""
    return node is not None and node.target is aten.permute.default and list(node.args[1]) == [0, 2, 1, 3]


def apart(turned: Any) -> Any:
    """What heads [batch, heads, length, dim] were, side by side [batch, length, heads * dim]; none: nothing."""
    if not is_turned(turned) or turned.args[0].target not in RESHAPES:
        return None
    batch, heads, length, dim = value_of(turned).shape
    source = turned.args[0].args[0]
    return source if value_of(source).shape == (batch, length, heads * dim) else None


def together(heads: Any, besides: Any = None) -> list[Any]:
    """The nodes, beside one, that put heads side by side: the turned ones, and that; empty: something else does."""
    turned = only([one for one in heads.users if one is not besides])
    view = only(turned.users) if is_turned(turned) else None
    batch, count, length, dim = value_of(heads).shape
    is_so = view is not None and view.target in RESHAPES and value_of(view).shape == (batch, length, count * dim)
    return [turned, view] if is_so else []


def source_of(parts: Sequence[Any]) -> Any:
    """What queries, keys and values are the thirds of, in this order; none: nothing."""
    thirds = [apart(part) for part in parts]
    if any(third is None or third.target is not operator.getitem for third in thirds):
        return None
    split = thirds[0].args[0]
    if split.target is not aten.split_with_sizes.default or [third.args for third in thirds] != [
        (split, i) for i in range(3)
    ]:
        return None
    value = value_of(split.args[0])
    is_so = value.dim() == 3 and value.is_contiguous() and argument(split, "dim", 0) in (-1, 2)
    return split.args[0] if is_so and list(split.args[1]) == [value.shape[2] // 3] * 3 else None


def is_plain(node: Any) -> bool:
    """Whether attention is of a dtype and a size that rota's kernels are made for, with no more than a causal mask."""
    value = value_of(node.args[0])
    return (
        argument(node, "dropout_p", 0.0) == 0
        and argument(node, "attn_bias", None) is None
        and argument(node, "attn_mask", None) is None
        and value.dtype in (torch.float16, torch.bfloat16)
        and value.shape[3] % DIM_STEP == 0
        and value.shape[3] <= DIM_MAX
    )


def put_one(graph: Any, node: Any, insert: Callable[..., Any]) -> None:
    results, qkv = picked(node), source_of(node.args[:3])
    gradient = only({user for one in results.values() for user in one.users if user.target in BACKWARD})
    if qkv is None or gradient is None or 0 not in results or list(gradient.args[1:4]) != list(node.args[:3]):
        return
    if any(user is not gradient for i, one in results.items() if i != 0 for user in one.users):
        return
    laid, grads, dy = together(results[0], gradient), picked(gradient), apart(gradient.args[0])
    if not laid or dy is None or not value_of(dy).is_contiguous() or any(i not in grads for i in range(3)):
        return
    if any(one.users for i, one in grads.items() if i > 2):
        return
    sides = [together(grads[i]) for i in range(3)]
    joined = only({user for side in sides for user in side[-1].users}) if all(sides) else None
    if joined is None or joined.target is not aten.cat.default or joined.args[1:] not in ((2,), (-1,)):
        return
    if list(joined.args[0]) != [side[-1] for side in sides]:
        return
    value, scale = value_of(node.args[0]), argument(node, "scale", None)
    options = value.shape[1], bool(argument(node, "is_causal", False)), scale or 1 / math.sqrt(value.shape[3])
    made = insert(node, ATTENTION, (qkv, *options))
    y, sums = (insert(node, operator.getitem, (made, i)) for i in range(2))
    laid[-1].replace_all_uses_with(y)
    joined.replace_all_uses_with(insert(joined, ATTENTION_BACKWARD, (dy, qkv, y, sums, *options)))
    turned = [one for side in sides for one in reversed(side)]
    for one in [joined, *turned, *grads.values(), gradient, *reversed(laid), *results.values(), node]:
        graph.erase_node(one)


def put(graph: Any, insert: Callable[..., Any], is_taken: Callable[[Any], bool]) -> None:
    """Puts rota's attention where it does the same, in place, on devices that are taken; `insert` makes a node before
    another."""
    for node in list(graph.nodes):
        if node.target in FORWARD and is_taken(value_of(node.args[0])) and is_plain(node):
            put_one(graph, node, insert)
