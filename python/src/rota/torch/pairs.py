"""Ops of PyTorch's with their gradients' ops, found in a graph of both passes, as ops of rota's that hand on what the
gradient needs: what PyTorch's would keep for it (a softmax of all classes, means and deviations apart) is not made."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx.passes.shape_prop import _extract_tensor_metadata
from torch.utils import _pytree as pytree

from .. import _rota as ops
from .._rota import Memory, Tensor
from . import adam, heads, pools
from .lower import convert, lowers, part, real
from .nodes import RESHAPES, picked, value_of
from .own import define, real_numbers
from .segment import DTYPES, EACH, NotLowered, Segment, bytes_of, id_of, is_row_major, ordered

aten = torch.ops.aten

# ---- The ops, as PyTorch has them: what they compute where no plan does ----

def like(x: Any) -> Any:
    """In rows as far apart as those of x."""
    pitch = pitch_of(x)
    return x.new_empty(x.shape) if pitch is None else x.new_empty(x.shape[0], pitch)[:, : x.shape[1]]


def pitch_of(x: Any) -> int | None:
    """How far a matrix's rows are apart, where that is more than they are long."""
    is_so = x.dim() == 2 and x.stride(1) == 1 and x.stride(0) > x.shape[1]
    return int(x.stride(0)) if is_so else None


def norm_and_stats(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any]:
    """The norm along the last axis, and each row's mean and inverse deviation."""
    y, mean, deviation = aten.native_layer_norm(x, [x.shape[-1]], weight, bias, eps)
    return y, torch.stack([mean.reshape(-1), deviation.reshape(-1)], 1).to(torch.float32)


def norm_gradients(
    dy: Any, x: Any, stats: Any, weight: Any, bias: Any, eps: float, wanted: Sequence[bool]
) -> tuple[Any, Any]:
    """By x, and by those of weight and bias that are wanted, in rows; of what is not wanted, nothing."""
    rows = [*x.shape[:-1], 1]
    mean, deviation = (stats[:, i].reshape(rows).to(x.dtype).contiguous() for i in (0, 1))
    shape = [x.shape[-1]]
    grads = aten.native_layer_norm_backward(dy, x, shape, mean, deviation, weight, bias, list(wanted))
    of_parameters = [grad for grad in grads[1:] if grad is not None]
    return (
        x.new_empty(0) if grads[0] is None else grads[0],
        torch.stack(of_parameters) if of_parameters else x.new_empty(0, x.shape[-1]),
    )


def with_rows(x: Any, rows: int, dtype: torch.dtype) -> Any:
    """A matrix in a dtype with rows of zeroes after its own."""
    made = x.new_zeros(rows, x.shape[1], dtype=dtype)
    made[: len(x)] = x
    return made


def gelu_gradients(dy: Any, z: Any, x: Any, w: Any) -> tuple[Any, Any, Any]:
    """By x, w and the bias of gelu(z), z = x w^T + bias; by x only with w."""
    dz = aten.gelu_backward(dy, z, approximate="tanh")
    return x.new_empty(0) if w is None else dz @ w, dz.T @ x, dz.sum(0)


def linear_and_gelu(x: Any, w: Any, bias: Any) -> tuple[Any, Any]:
    """gelu(z) and z = x w^T + bias."""
    z = torch.nn.functional.linear(x, w, bias)
    return torch.nn.functional.gelu(z, approximate="tanh"), z


def product_by_rows(a: Any, b: Any, pitch: int) -> Any:
    """A product whose rows lie so many elements apart."""
    rows = a.new_empty(a.shape[0], pitch)[:, : b.shape[1]]
    return rows.copy_(a @ b)


def loss_and_stats(logits: Any, labels: Any, ignored: int) -> tuple[Any, Any, Any]:
    """The mean cross entropy, the logarithm of each row's sum, and 1 over how many rows count."""
    logits = logits.to(torch.float32)
    sums = logits.logsumexp(-1)
    counts = labels != ignored
    picked = logits.gather(1, torch.where(counts, labels, 0).unsqueeze(1)).squeeze(1)
    inverse = counts.sum().to(torch.float32).reciprocal().reshape(1)
    loss = torch.where(counts, sums - picked, 0.0).sum() * inverse.reshape(())
    return loss, sums, inverse


def whole_rows(x: Any) -> Any:
    """As x and what lies between its rows, next to one another."""
    return x.new_empty(x.shape[0], pitch_of(x) or x.shape[1])


def loss_gradient(d: Any, logits: Any, labels: Any, sums: Any, inverse: Any, ignored: int) -> Any:
    """Of scores in rows that are farther apart than they are long, with zeroes between them."""
    counts = (labels != ignored).unsqueeze(1)
    chances = (logits.to(torch.float32) - sums.unsqueeze(1)).exp()
    chances.scatter_add_(1, torch.where(counts, labels.unsqueeze(1), 0), torch.full_like(sums, -1).unsqueeze(1))
    found = (torch.where(counts, chances, 0.0) * (d * inverse)).to(logits.dtype)
    return torch.nn.functional.pad(found, (0, whole_rows(logits).shape[1] - logits.shape[1]))


LAYER_NORM = define(
    "layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor)",
    norm_and_stats,
    lambda x, weight, bias, eps: (like(x), real_numbers(x, x.numel() // x.shape[-1], 2)),
)
LAYER_NORM_BACKWARD = define(
    "layer_norm_backward(Tensor dy, Tensor x, Tensor stats, Tensor? weight, Tensor? bias, float eps, bool[3] wanted)"
    " -> (Tensor, Tensor)",
    norm_gradients,
    lambda dy, x, stats, weight, bias, eps, wanted: (
        like(x) if wanted[0] else x.new_empty(0),
        x.new_empty(sum(wanted[1:]), x.shape[-1]),
    ),
)
CROSS_ENTROPY = define(
    "cross_entropy(Tensor logits, Tensor labels, int ignored) -> (Tensor, Tensor, Tensor)",
    loss_and_stats,
    lambda logits, labels, ignored: tuple(real_numbers(logits, *shape) for shape in ((), (len(logits),), (1,))),
)
CROSS_ENTROPY_BACKWARD = define(
    "cross_entropy_backward(Tensor d, Tensor logits, Tensor labels, Tensor sums, Tensor inverse, int ignored)"
    " -> Tensor",
    loss_gradient,
    lambda d, logits, *rest: whole_rows(logits),
)

LINEAR_GRADIENTS = define(
    "linear_gradients(Tensor dy, Tensor x) -> (Tensor, Tensor)",
    lambda dy, x: (dy.T @ x, dy.sum(0)),
    lambda dy, x: (dy.new_empty(dy.shape[1], x.shape[1]), dy.new_empty(dy.shape[1])),
)
GELU_GRADIENTS = define(
    "gelu_gradients(Tensor dy, Tensor z, Tensor x, Tensor? w) -> (Tensor, Tensor, Tensor)",
    gelu_gradients,
    lambda dy, z, x, w: (
        x.new_empty(0 if w is None else x.shape),
        x.new_empty(dy.shape[1], x.shape[1]),
        x.new_empty(dy.shape[1]),
    ),
)
LINEAR_GELU = define(
    "linear_gelu(Tensor x, Tensor w, Tensor bias) -> (Tensor, Tensor)",
    linear_and_gelu,
    lambda x, w, bias: (x.new_empty(x.shape[0], w.shape[0]), x.new_empty(x.shape[0], w.shape[0])),
)
MM_WIDE = define(
    "mm_wide(Tensor a, Tensor b) -> Tensor",
    lambda a, b: a.to(torch.float32) @ b.to(torch.float32),
    lambda a, b: real_numbers(a, a.shape[0], b.shape[1]),
)
WITH_ROWS = define(
    "with_rows(Tensor x, int rows, ScalarType dtype) -> Tensor",
    with_rows,
    lambda x, rows, dtype: x.new_empty(rows, x.shape[1], dtype=dtype),
)
MM_BY_ROWS = define(
    "mm_by_rows(Tensor a, Tensor b, int pitch) -> Tensor",
    product_by_rows,
    lambda a, b, pitch: a.new_empty(a.shape[0], pitch)[:, : b.shape[1]],
)

# ---- On rota's kernels ----


def read_or_none(s: Segment, x: Any) -> Any:
    return None if x is None else s.read(x)


def whole(s: Segment, x: Any) -> Any:
    """As what a gradient is taken by: contiguous."""
    return s.read(x) if is_row_major(*ordered(x, s.order)) else ops.copy(s.read(x))


@lowers(LAYER_NORM)
def layer_norm(s: Segment, node: Any, y: Any, x: Any, weight: Any, bias: Any, eps: float) -> None:
    real(x)
    inputs = [s.read(x), read_or_none(s, weight), read_or_none(s, bias)]
    ops.apply("layernorm", inputs, [s.write(y[0]), s.write(y[1])], eps=eps)


@lowers(LAYER_NORM_BACKWARD)
def layer_norm_backward(
    s: Segment,
    node: Any,
    y: Any,
    dy: Any,
    x: Any,
    stats: Any,
    weight: Any,
    bias: Any,
    eps: float,
    wanted: Sequence[bool],
) -> None:
    real(x)
    out = [s.write(y[0]) if wanted[0] else None, None, None]
    if any(wanted[1:]):
        rows = s.write(y[1])  # next to one another, so that partial sums of both are added up at once
        for row, i in enumerate(i for i in (1, 2) if wanted[i]):
            out[i] = part(rows, 0, row, row + 1).reshape(x.shape[-1])
    inputs = [whole(s, x), read_or_none(s, weight), read_or_none(s, bias)]
    ops.gradient("layernorm", inputs, [None, s.read(stats)], s.read(dy), list(wanted), out, eps=eps)


@lowers(MM_WIDE)
def mm_wide(s: Segment, node: Any, y: Any, a: Any, b: Any) -> None:
    """Of 16 bits, whose sums are not rounded to them."""
    ops.matmul(s.read(a), s.read(b), out=s.write(y))


def unread(s: Segment, like: Any) -> Tensor:
    """What stands for an operand that a gradient reads nothing of."""
    memory = s.memory(like.numel() * like.itemsize, None)
    return memory.view(real(like), list(like.shape), list(like.stride()), 0)


@lowers(LINEAR_GRADIENTS)
def linear_gradients(s: Segment, node: Any, y: Any, dy: Any, x: Any) -> None:
    """By a linear layer's weight and bias, of which nothing is read."""
    dw, db = y
    of_both = [unread(s, one) for one in y]
    out = [None, s.write(dw), s.write(db)]
    ops.gradient("linear", [whole(s, x), *of_both], [None], whole(s, dy), [False, True, True], out, transpose_b=True)


@lowers(LINEAR_GELU)
def linear_with_gelu(s: Segment, node: Any, y: Any, x: Any, w: Any, bias: Any) -> None:
    given = [whole(s, x), whole(s, w), s.read(bias)]
    ops.apply("linear_gelu", given, [s.write(y[0])], transpose_b=True, kept=s.write(y[1]))


@lowers(GELU_GRADIENTS)
def gelu_linear_gradients(s: Segment, node: Any, y: Any, dy: Any, z: Any, x: Any, w: Any) -> None:
    """Of a linear layer with GELU behind it."""
    given = [whole(s, x), unread(s, y[1]) if w is None else whole(s, w), unread(s, y[2])]
    wanted = [w is not None, True, True]
    out = [s.write(one) if is_wanted else None for one, is_wanted in zip(y, wanted, strict=True)]
    ops.gradient("linear_gelu", given, [None], whole(s, dy), wanted, out, transpose_b=True, kept=whole(s, z))


def by_rows(x: Any, memory: Memory) -> Tensor | None:
    """A matrix with what lies between its rows, where all of that is there."""
    pitch = pitch_of(x)
    if pitch is None or x.storage_offset() != 0 or memory.size_bytes < x.shape[0] * pitch * x.itemsize:
        return None
    return memory.view(real(x), [x.shape[0], pitch], [pitch, 1], 0)


@lowers(WITH_ROWS)
def matrix_with_rows(s: Segment, node: Any, y: Any, x: Any, rows: int, dtype: torch.dtype) -> None:
    real(x), real(y)
    source, out = s.read(x), s.write(y)
    convert(source, part(out, 0, 0, len(x)))
    ops.fill(part(out, 0, len(x), rows), 0)


@lowers(MM_BY_ROWS)
def mm_by_rows(s: Segment, node: Any, y: Any, a: Any, b: Any, pitch: int) -> None:
    memory = s.storage(y).destination()
    if id_of(y) not in s.bases:
        ops.fill(memory.view(real(y), [bytes_of(y) // y.itemsize], [1], 0), 0)  # also what is between the rows
    out = memory.view(real(y), list(y.shape), list(y.stride()), 0)
    ops.matmul(s.read(a), s.read(b), out=out)


def scores_of(s: Segment, logits: Any) -> tuple[Tensor, int]:
    """Of whose columns so many are classes; 0: all."""
    rows = by_rows(logits, s.storage(logits).as_dtype(real(logits)))
    return (whole(s, logits), 0) if rows is None else (rows, int(logits.shape[1]))


@lowers(CROSS_ENTROPY)
def cross_entropy(s: Segment, node: Any, y: Any, logits: Any, labels: Any, ignored: int) -> None:
    scores, classes = scores_of(s, logits)
    out = [s.write(y[0]).reshape(1), s.write(y[1]), s.write(y[2])]
    ops.apply("cross_entropy", [scores, s.read(labels, "i32")], out, ignored=ignored, classes=classes)


@lowers(CROSS_ENTROPY_BACKWARD)
def cross_entropy_backward(
    s: Segment, node: Any, y: Any, d: Any, logits: Any, labels: Any, sums: Any, inverse: Any, ignored: int
) -> None:
    scores, classes = scores_of(s, logits)
    if classes == 0 and y.shape != logits.shape:
        raise NotLowered
    out = s.write(y)
    inputs, results = [scores, s.read(labels, "i32")], [None, s.read(sums), s.read(inverse)]
    wanted, dy = [True, False], s.read(d).reshape(1)
    ops.gradient("cross_entropy", inputs, results, dy, wanted, [out, None], ignored=ignored, classes=classes)


@lowers(aten.embedding_dense_backward.default)
def embedding_backward(
    s: Segment, node: Any, y: Any, dy: Any, index: Any, count: int, padding: int, is_scaled: bool
) -> None:
    dtype = real(y)
    if padding >= 0 or is_scaled or not y.is_contiguous():
        raise NotLowered
    # Of the table the gradient reads nothing.
    table = s.memory(y.numel() * y.itemsize, None).view(dtype, list(y.shape), list(y.stride()), 0)
    inputs = [table, s.read(index, "i32")]
    ops.gradient("embedding", inputs, [None], s.read(dy, dtype), [True, False], [s.write(y), None])


@lowers(aten.gelu_backward.default)
def gelu_backward(s: Segment, node: Any, y: Any, dy: Any, x: Any, approximate: str = "none") -> None:
    name = "gelu" if approximate == "tanh" else "gelu_erf"
    ops.gradient(name, [whole_as(s, x, real(y))], [None], s.read(dy, real(y)), [True], [s.write(y)])


EACH.add(aten.gelu_backward.default)


def whole_as(s: Segment, x: Any, dtype: str) -> Any:
    if real(x) != dtype:
        raise NotLowered
    return whole(s, x)


# ---- Finding them ----

# Elements of 16 bits that the rows of scores are multiples of, on GPUs, or, for tests, everywhere.
ROW = 64
GPU_ALONE = True


VIEWS = (*RESHAPES, aten.permute.default, aten.t.default)


def on_gpu(value: Any) -> bool:
    return value.device.type == "cuda" or not GPU_ALONE


def user(node: Any, target: Any) -> Any:
    """The one node that uses another, if it calls the op."""
    (one,) = node.users if len(node.users) == 1 else (None,)
    return one if one is not None and one.target is target else None


def rounded(sums: Any, dtype: torch.dtype) -> Any:
    """Sums in a dtype: as they are, or, of those in f32, as autocast has them, what alone is made of them."""
    if not sums.kwargs:
        return sums
    node = sums
    while len(node.users) == 1 and sums.kwargs == {"dtype": torch.float32}:
        (node,) = node.users
        if node.target is aten._to_copy.default:
            return node if value_of(node).dtype == dtype and value_of(node).device == value_of(sums).device else None
        if node.target not in RESHAPES:
            return None
    return None


def unwound(node: Any) -> tuple[Any, bool]:
    """The matrix that a matrix is the same elements of, but for views of its rows, and whether it is its transpose."""
    is_turned = False
    while True:
        if node.target in (aten.permute.default, aten.t.default) and value_of(node).dim() == 2:
            is_turned ^= list(node.args[1:]) in ([[1, 0]], [])
        elif (
            node.target not in RESHAPES
            or value_of(node.args[0]).shape[-1:] != value_of(node).shape[-1:]
        ):
            return node, is_turned
        node = node.args[0]


class Rewriting:
    """A graph in which pairs are put in the place of what they are of."""

    def __init__(self, module: Any) -> None:
        self.module, self.graph = module, module.graph
        self.mode = detect_fake_mode([one.meta.get("val") for one in self.graph.nodes if one.op == "placeholder"])

    def insert(self, before: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
        """A call before a node, with what is said of that one."""
        with self.graph.inserting_before(before):
            node = self.graph.call_function(target, args, kwargs)
        node.meta = {name: value for name, value in before.meta.items() if name not in ("val", "tensor_meta")}
        values = pytree.tree_map_only(torch.fx.Node, value_of, args)
        if target is operator.getitem:
            node.meta["val"] = values[0][values[1]]
        else:
            with self.mode, torch.no_grad():
                node.meta["val"] = target(*values, **(kwargs or {}))
        if isinstance(node.meta["val"], torch.Tensor):
            node.meta["tensor_meta"] = _extract_tensor_metadata(node.meta["val"])
        return node

    def part(self, node: Any, index: int, before: Any) -> Any:
        return self.insert(before, operator.getitem, (node, index))

    def run(self) -> None:
        for node in list(self.graph.nodes):
            if node.target is aten.alias.default and all(one.op != "output" for one in node.users):
                node.replace_all_uses_with(node.args[0])
                self.graph.erase_node(node)
        heads.put(self.graph, self.insert, on_gpu)
        pools.put(self.graph, self.insert)
        for node in list(self.graph.nodes):
            if node.target is aten.native_layer_norm.default:
                self.norm(node)
            elif node.target is aten._log_softmax.default:
                self.loss(node)
        order = {node: i for i, node in enumerate(self.graph.nodes)}
        for node in list(self.graph.nodes):
            if node.target is aten.mm.default:
                self.linear(node, order)
        self.graph.eliminate_dead_code(is_impure)  # what was replaced is nobody that reads
        order = {node: i for i, node in enumerate(self.graph.nodes)}
        for node in list(self.graph.nodes):
            if node.target is LINEAR_GRADIENTS:
                self.gelu(node, order)
        for node in list(self.graph.nodes):
            if node.target is aten._to_copy.default:
                self.wide(node)
        adam.put(self.graph, self.insert)
        self.graph.eliminate_dead_code(is_impure)
        self.graph.lint()
        self.module.recompile()

    def norm(self, node: Any) -> None:
        x, shape, weight, bias, eps = node.args
        given = [value_of(one) for one in (x, weight, bias) if one is not None]
        found = picked(node)
        backward = {one for i in (1, 2) for one in (found[i].users if i in found else ())}
        if (
            len(shape) != 1
            or len(backward) != 1
            or 0 not in found
            or any(one.dtype != given[0].dtype or one.dtype not in DTYPES for one in given)
        ):
            return
        (gradient,) = backward
        if gradient.target is not aten.native_layer_norm_backward.default or gradient.args[1] is not x:
            return
        made = self.insert(node, LAYER_NORM, (x, weight, bias, eps))
        y, stats = self.part(made, 0, node), self.part(made, 1, node)
        found[0].replace_all_uses_with(y)
        dy, wanted = gradient.args[0], list(gradient.args[7])
        grads = self.insert(gradient, LAYER_NORM_BACKWARD, (dy, x, stats, weight, bias, eps, wanted))
        for i, one in picked(gradient).items():
            if not wanted[i]:
                continue
            part = self.part(grads, min(i, 1), one)
            row = i == 2 and wanted[1]
            one.replace_all_uses_with(part if i == 0 else self.insert(one, aten.select.int, (part, 0, int(row))))

    def linear(self, node: Any, order: dict[Any, int]) -> None:
        """Of a linear layer's product by its weight, and the sum that is the bias' gradient, of the same rows."""
        turned, x = node.args
        if turned.target not in (aten.permute.default, aten.t.default) or list(turned.args[1:]) not in ([[1, 0]], []):
            return
        dy = turned.args[0]
        sums = [one for one in dy.users if one.target is aten.sum.dim_IntList and one.args[1] in ([0], [-2])]
        if len(sums) != 1 or value_of(dy).dim() != 2 or value_of(dy).dtype not in DTYPES:
            return
        bias = rounded(sums[0], value_of(dy).dtype)
        if bias is None:
            return
        given = [value_of(one) for one in (dy, x, node, bias)]
        if len({one.dtype for one in given}) != 1 or not all(one.is_contiguous() for one in given):
            return
        first = min((node, sums[0]), key=lambda one: order.get(one, 0))
        if order.get(x, 0) > order.get(first, 0):
            return
        made = self.insert(first, LINEAR_GRADIENTS, (dy, x))
        dw, db = self.part(made, 0, first), self.part(made, 1, first)
        node.replace_all_uses_with(dw)
        bias.replace_all_uses_with(self.insert(first, aten.view.default, (db, list(value_of(bias).shape))))

    def gelu(self, node: Any, order: dict[Any, int]) -> None:
        """Of a linear layer's gradients, and that of the GELU behind it, which nothing else reads."""
        rows, x = node.args
        gradient, is_turned = unwound(rows)
        others = [one for one in rows.users if one is not node]
        if (
            gradient.target is not aten.gelu_backward.default
            or is_turned
            or len(others) > 1
            or any(one.target is not aten.mm.default or one.args[0] is not rows for one in others)
            or gradient.kwargs.get("approximate", "none") != "tanh"
            or value_of(rows).dtype not in (torch.float16, torch.bfloat16)
            or not on_gpu(value_of(rows))
        ):
            return
        step = gradient
        while step is not rows:
            if len(step.users) != 1:
                return
            (step,) = step.users
        w, w_turned = unwound(others[0].args[1]) if others else (None, False)
        read = [one for one in (*gradient.args[:2], x, w) if one is not None]
        given = [value_of(one) for one in read]
        first = min((node, *others), key=order.__getitem__)
        if w_turned or any(not one.is_contiguous() or one.dtype != given[0].dtype for one in given):
            return
        if w is not None and value_of(w).shape != (value_of(rows).shape[1], value_of(x).shape[1]):
            return
        if max(order[one] for one in read) > order[first]:
            return
        shape = list(value_of(rows).shape)
        dy, z = (self.insert(first, aten.view.default, (one, shape)) for one in gradient.args[:2])
        made = self.insert(first, GELU_GRADIENTS, (dy, z, x, w))
        dx, dw, db = (self.part(made, i, first) for i in range(3))
        for one in others:
            one.replace_all_uses_with(dx)
        for i, one in picked(node).items():
            one.replace_all_uses_with((dw, db)[i])
        self.gelu_of_product(gradient.args[1])

    def gelu_of_product(self, z: Any) -> None:
        """Of a linear layer whose result goes through the GELU that has such gradients: both in one node."""
        product, is_turned = unwound(z)
        if product.target is not aten.addmm.default or is_turned or product.kwargs:
            return
        bias, x, turned = product.args
        w, is_transposed = unwound(turned)
        given = [value_of(one) for one in (product, bias, x, w)]
        seen = [product]
        for one in seen:  # views of it, as they come
            seen += [user for user in one.users if user.target in RESHAPES]
        gelus = [user for one in seen for user in one.users if user.target is aten.gelu.default]
        if (
            not is_transposed
            or len(gelus) != 1
            or gelus[0].kwargs != {"approximate": "tanh"}
            or value_of(bias).dim() != 1
            or value_of(w).shape != (given[0].shape[1], given[2].shape[1])
            or any(not one.is_contiguous() or one.dtype != given[0].dtype for one in given)
        ):
            return
        made = self.insert(product, LINEAR_GELU, (x, w, bias))
        y, kept = (self.part(made, i, product) for i in range(2))
        gelus[0].replace_all_uses_with(self.insert(gelus[0], aten.view.default, (y, list(value_of(gelus[0]).shape))))
        product.replace_all_uses_with(kept)

    def wide(self, node: Any) -> None:
        """Of a product in 16 bits that is made f32, and that nobody reads otherwise. What a norm's gradient alone reads
        stays as it is where that is one kernel with the conversion."""
        if on_gpu(value_of(node)) and all(is_norms(user, node) for user in node.users):
            return
        views, product = [], node.args[0]
        while product.target in (*VIEWS, aten.slice.Tensor) and len(product.users) == 1:
            views.append(product)
            product = product.args[0]
        if (
            product.target is not aten.mm.default
            or len(product.users) != 1
            or value_of(product).dtype not in (torch.float16, torch.bfloat16)
            or value_of(node).dtype is not torch.float32
            or value_of(node).device != value_of(product).device
        ):
            return
        made = self.insert(product, MM_WIDE, product.args)
        for view in reversed(views):
            made = self.insert(view, view.target, (made, *view.args[1:]))
        if value_of(made).stride() == value_of(node).stride():
            node.replace_all_uses_with(made)

    def loss(self, node: Any) -> None:
        """Of a log_softmax, which stands between scores and the loss, and between the gradients of both."""
        logits, axis, _ = node.args
        # What is in 16 bits is made f32 for the loss, and the loss's gradient 16 bits again: under autocast on a GPU.
        wider = [one for one in node.users if one.target is aten._to_copy.default]
        chances = wider[0] if len(wider) == 1 and value_of(wider[0]).dtype is torch.float32 else node
        forward = [one for one in chances.users if one.target is aten.nll_loss_forward.default]
        backward = [one for one in chances.users if one.target is aten.nll_loss_backward.default]
        if len(forward) != 1 or len(backward) != 1 or value_of(logits).dim() != 2:
            return
        given = backward[0] if chances is node else user(backward[0], aten._to_copy.default)
        softened = None if given is None else user(given, aten._log_softmax_backward_data.default)
        is_mean = forward[0].args[2] is None and forward[0].args[3] == 1
        found = picked(forward[0])
        if softened is None or softened not in node.users or not is_mean or axis not in (-1, 1) or 0 not in found:
            return
        if {*node.users, *chances.users} - {chances} != {forward[0], backward[0], softened}:
            return
        if 1 in found and set(found[1].users) != {backward[0]}:
            return
        if value_of(chances).dtype is not torch.float32 or value_of(logits).dtype not in DTYPES:
            return
        _, labels, _, _, ignored = forward[0].args
        source, last = logits, softened
        # Scores of 16 bits are read as they are, and their gradient is rounded once.
        of_16 = logits.args[0] if logits.target is aten._to_copy.default and len(logits.users) == 1 else None
        rounded = user(softened, aten._to_copy.default)
        if (
            of_16 is not None
            and rounded is not None
            and value_of(of_16).dtype in DTYPES
            and value_of(of_16).dtype == value_of(rounded).dtype
        ):
            source, last = of_16, rounded
        source, table = self.by_rows(source)
        made = self.insert(forward[0], CROSS_ENTROPY, (source, labels, ignored))
        loss, sums, inverse = (self.part(made, i, forward[0]) for i in range(3))
        found[0].replace_all_uses_with(loss)
        d = backward[0].args[0]
        grad = self.insert(last, CROSS_ENTROPY_BACKWARD, (d, source, labels, sums, inverse, ignored))
        if value_of(grad).shape == value_of(last).shape:
            last.replace_all_uses_with(grad)
            return
        narrow = self.insert(last, aten.slice.Tensor, (grad, 1, 0, value_of(last).shape[1]))
        last.replace_all_uses_with(narrow)
        self.gradient_products(grad, narrow, table)

    def by_rows(self, scores: Any) -> tuple[Any, Any]:
        """The scores of 16 bits of a product, in rows that begin at multiples of 16 bytes, which products are faster
        with. Nobody else reads them, so that nobody asks how they lie. Beside them the table that they are by, with as
        many rows as they then have columns, if it is one of rows."""
        views, product = [], scores
        while product.target in RESHAPES and len(product.users) == 1:
            if value_of(product.args[0]).shape[-1] != value_of(product).shape[-1]:
                return scores, None
            views.append(product)
            product = product.args[0]
        value = value_of(product)
        if (
            product.target is not aten.mm.default
            or len(product.users) != 1
            or value.dtype not in (torch.float16, torch.bfloat16)
            or value.shape[1] % ROW == 0
            or not on_gpu(value)
        ):
            return scores, None
        pitch = -(-value.shape[1] // ROW) * ROW
        table = self.with_rows(product.args[1], pitch)
        if table is None:
            made = self.insert(product, MM_BY_ROWS, (*product.args, pitch))
        else:
            turned = self.insert(product, aten.permute.default, (table, [1, 0]))
            whole = self.insert(product, aten.mm.default, (product.args[0], turned))
            made = self.insert(product, aten.slice.Tensor, (whole, 1, 0, value.shape[1]))
        for view in reversed(views):
            made = self.insert(view, view.target, (made, view.args[1]))
        return made, table

    def with_rows(self, turned: Any, rows: int) -> Any:
        """The table whose rows are a product's columns, with rows of zeroes, so that the product's columns beyond its
        own are zeroes; whoever reads the table reads a part of that. None: it is not made of rows."""
        table, is_turned = unwound(turned)
        if not is_turned or table.op == "placeholder" or not value_of(table).is_contiguous():
            return None
        value = value_of(table)
        is_cast = table.target is aten._to_copy.default and value_of(table.args[0]).device == value.device
        source = table.args[0] if is_cast and value_of(table.args[0]).dtype in DTYPES else table
        made = self.insert(table.next, WITH_ROWS, (source, rows, value.dtype))
        narrow = self.insert(made.next, aten.slice.Tensor, (made, 0, 0, value.shape[0]))
        for one in [one for one in table.users if one is not made]:
            one.replace_input_with(table, narrow)
        return made

    def gradient_products(self, whole: Any, narrow: Any, table: Any) -> None:
        """Of scores' gradient with the zeroes between its rows: products along rows, and those of which each row is a
        column of the scores, take them with the rest."""
        count = value_of(narrow).shape[1]
        for node in list(self.graph.nodes):
            if node.target is not aten.mm.default:
                continue
            (a, is_turned), (b, of_columns) = (unwound(one) for one in node.args)
            if a is not narrow:
                continue
            if is_turned:
                turned = self.insert(node, aten.permute.default, (whole, [1, 0]))
                made = self.insert(node, aten.mm.default, (turned, node.args[1]))
                node.replace_all_uses_with(self.insert(node, aten.slice.Tensor, (made, 0, 0, count)))
            elif table is not None and not of_columns and b.target is aten.slice.Tensor and b.args[0] is table:
                node.replace_all_uses_with(self.insert(node, aten.mm.default, (whole, table)))


# Elements of rows that a norm's kernel on a GPU takes of f32 beside 16 bits.
NORM_STEP, NORM_MOST = 8, 1024


def is_norms(node: Any, dy: Any) -> bool:
    """Whether a node is such a norm's gradient by a result's."""
    if node.target is not LAYER_NORM_BACKWARD or node.args[0] is not dy or dy in node.args[1:]:
        return False
    dim = int(value_of(dy).shape[-1])  # a norm's rows: what others read may have no dimensions
    return dim % NORM_STEP == 0 and dim <= NORM_MOST


def is_impure(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return node.op in ("placeholder", "output") or (schema is not None and bool(schema.is_mutable)) or node.is_impure()


def pair(module: Any) -> None:
    """Puts pairs into a graph of both passes, in place."""
    Rewriting(module).run()
