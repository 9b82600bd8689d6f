"""Which ops of PyTorch's are taken apart into others before a plan is made of them."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from . import batch_norm
from .scaler import check_and_unscale

# Ops that core ATen takes apart, but that are one kernel of PyTorch's where rota would need many, or whose random
# numbers are to be those that eager has.
WHOLE = (
    "_log_softmax_backward_data",
    "_scaled_dot_product_flash_attention_for_cpu",
    "avg_pool2d_backward",
    "bernoulli",
    "col2im",
    "embedding_dense_backward",
    "gelu_backward",
    "im2col",
    "native_batch_norm_backward",
    "native_layer_norm_backward",
    "nll_loss2d_backward",
    "nll_loss2d_forward",
    "nll_loss_backward",
    "nll_loss_forward",
    "reflection_pad1d",
    "reflection_pad1d_backward",
    "reflection_pad2d",
    "reflection_pad2d_backward",
    "reflection_pad3d",
    "reflection_pad3d_backward",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "upsample_bilinear2d",
    "upsample_linear1d",
    "upsample_nearest2d_backward",
    "upsample_trilinear3d",
)


def each(op: Callable[..., Any]) -> Callable[..., Any]:
    """An op on lists of tensors as one on each; what else is a list has one for each, too."""

    def on_lists(first: Sequence[Any], *rest: Any, **options: Any) -> list[Any]:
        def at(value: Any, i: int) -> Any:
            return value[i] if isinstance(value, list | tuple) else value

        return [op(x, *(at(value, i) for value in rest), **options) for i, x in enumerate(first)]

    return on_lists


def each_in_place(op: Callable[..., Any]) -> Callable[..., Any]:
    """The same of an op that changes the first list, and gives nothing."""
    on_lists = each(op)

    def in_place(first: Sequence[Any], *rest: Any, **options: Any) -> None:
        on_lists(first, *rest, **options)

    return in_place


# Tensors that an op on lists changes at once, with four more of each or alone: a node has a bounded number of operands.
PIECE, PIECE_ALONE = 3, 18


def in_pieces(op: Callable[..., Any], piece: int) -> Callable[..., Any]:
    """An op on lists that go together as several on parts of them."""

    def on_parts(*given: Any, **options: Any) -> Any:
        count = len(given[0])
        if count <= piece:
            return NotImplemented  # it is taken as it is
        for i in range(0, count, piece):
            op(*(one[i : i + piece] if isinstance(one, list | tuple) else one for one in given), **options)
        return None

    return on_parts


def decompositions() -> dict[Any, Any]:
    table = torch._decomp._core_aten_decompositions_post_autograd()
    kept = {op: function for op, function in table.items() if op._schema.name.removeprefix("aten::") not in WHOLE}
    return {**kept, **ON_LISTS, **batch_norm.TABLE}


@contextlib.contextmanager
def unrolled(module: Any, inputs: Sequence[Any]) -> Iterator[None]:
    """Where a graph with an LSTM is taken apart, so that its gradient can be.

    PyTorch makes one op of oneDNN's of a layer whose input needs no gradient, and asks it for none, whatever its
    weights need: the gradient's op then reads a workspace that was never made. Without oneDNN, meanwhile, the layer is
    cells. What other threads call meanwhile runs on PyTorch's other kernels."""
    needs_gradient = torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in inputs)
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(before and not (needs_gradient and has_lstm(module)))
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def has_lstm(module: Any) -> bool:
    for one in module.modules():
        if isinstance(one, torch.nn.LSTM):
            return True
        nodes = one.graph.nodes if isinstance(one, torch.fx.GraphModule) else []
        if any(getattr(node.target, "__name__", "") == "lstm" for node in nodes):
            return True
    return False


# Clipping by the global norm is on lists, and so are a scaler's look for what is not finite, and Adam.
ON_LISTS = {
    **{
        op: in_pieces(op, PIECE)
        for packet in (torch.ops.aten._fused_adam_, torch.ops.aten._fused_adamw_)
        for op in (packet.default, packet.tensor_lr)
    },
    torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default: check_and_unscale,
    torch.ops.aten._foreach_add_.Scalar: in_pieces(torch.ops.aten._foreach_add_.Scalar, PIECE_ALONE),
    torch.ops.aten._foreach_norm.Scalar: each(torch.linalg.vector_norm),
    torch.ops.aten._foreach_mul.Tensor: each(torch.mul),
    torch.ops.aten._foreach_mul_.Tensor: each_in_place(torch.Tensor.mul_),
    torch.ops.aten._foreach_mul_.Scalar: each_in_place(torch.Tensor.mul_),
}
