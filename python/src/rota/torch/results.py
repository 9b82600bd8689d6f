"""What PyTorch's kernels give on the CPU, where PyTorch's own functions for fake tensors say something else."""

from typing import Any

import torch

aten = torch.ops.aten

REDUCED = (torch.bfloat16, torch.float16)

NORMS = (
    aten.native_group_norm.default,
    aten.native_layer_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit_no_training.default,
    aten.native_batch_norm.default,
)

def norm(results: Any, x: Any, *parameters: Any) -> Any:
    """Means and deviations are f32 where a parameter is, whatever is normed. Gradients' kernels ask for that; a fake
    tensor of them has the other's dtype."""
    given = [one for one in parameters if isinstance(one, torch.Tensor)]
    if x.dtype not in REDUCED or all(one.dtype is not torch.float32 for one in given):
        return results
    return (results[0], *(one.to(torch.float32) for one in results[1:3]), *results[3:])


def results_of(target: Any, args: Any, kwargs: Any) -> Any:
    """What an op gives for fake tensors."""
    results = target(*args, **kwargs)
    return norm(results, *args, **kwargs) if target in NORMS else results


ONEDNNS_LSTM = (aten.mkldnn_rnn_layer.default, aten.mkldnn_rnn_layer_backward.default)


def why_not(target: Any, name: str) -> str | None:
    """Why a graph of a name can't have an op: what comes of it would bring the process down."""
    if target not in ONEDNNS_LSTM or name == "inference":
        return None
    return (
        f"{target} in a graph with a gradient: the gradient reads a workspace that PyTorch does not pass on "
        "between graphs; torch.backends.mkldnn.set_flags(False) keeps nn.LSTM from it"
    )
