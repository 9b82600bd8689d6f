"""Which ops of PyTorch's are taken apart into others before a plan is made of them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

# Ops that core ATen takes apart, but that are one kernel of PyTorch's where rota would need many, or whose random
# numbers are to be those that eager has.
WHOLE = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "avg_pool2d_backward",
    "bernoulli",
    "col2im",
    "embedding_dense_backward",
    "im2col",
    "native_batch_norm_backward",
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


def decompositions() -> dict[Any, Any]:
    table = torch._decomp._core_aten_decompositions_post_autograd()
    kept = {op: function for op, function in table.items() if op._schema.name.removeprefix("aten::") not in WHOLE}
    return {**kept, **ON_LISTS}


# Clipping by the global norm is on lists.
ON_LISTS = {
    torch.ops.aten._foreach_norm.Scalar: each(torch.linalg.vector_norm),
    torch.ops.aten._foreach_mul.Tensor: each(torch.mul),
    torch.ops.aten._foreach_mul_.Tensor: each(torch.Tensor.mul_),
    torch.ops.aten._foreach_mul_.Scalar: each(torch.Tensor.mul_),
}
