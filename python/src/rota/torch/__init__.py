"""rota as a backend of torch.compile: `torch.compile(model, backend="rota")`.

AOTAutograd's forward and backward graphs are recorded as plans for the CPU. Inputs and parameters are read where they
lie, results are written where PyTorch has them. What rota has no op for is a node that calls PyTorch's own kernel.
"""

import threading
from typing import Any

import torch

from .._rota import Device, open
from .program import Program, ran_on_host
from .segment import ran_on_rota, ran_on_torch

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

# A kernel of PyTorch's may take its time, and is no progress to rota meanwhile.
TIMEOUT = 600.0

_mutex = threading.Lock()
_device: Device | None = None


def device() -> Device:
    """The device of all plans: the CPU, opened when the first one is compiled."""
    global _device
    with _mutex:
        if _device is None or _device.closed:
            _device = open("cpu", timeout=TIMEOUT, threads=torch.get_num_threads())
        return _device


def decompositions() -> dict[Any, Any]:
    table = torch._decomp._core_aten_decompositions_post_autograd()
    return {op: function for op, function in table.items() if op._schema.name.removeprefix("aten::") not in WHOLE}


def backend(module: Any, inputs: Any) -> Any:
    """What torch.compile calls with a graph of Dynamo's."""
    from functorch.compile import default_partition
    from torch._dynamo.backends.common import aot_autograd

    def compiler(name: str) -> Any:
        def compile_graph(graph: Any, _: Any) -> Any:
            return make_boxed(Program(graph, name, device))

        return compile_graph

    compiled = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        partition_fn=default_partition,
    )
    return compiled(module, inputs)


def make_boxed(program: Program) -> Any:
    """A program as AOTAutograd calls it: with one list."""

    def run(arguments: list[Any]) -> list[Any]:
        return program.run(arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def ops() -> dict[str, dict[str, int]]:
    """How many nodes of each op there are in the plans made so far, on rota's kernels and on PyTorch's, and how often
    the calling thread ran one between plans, or in the place of one."""
    return {"rota": dict(ran_on_rota), "torch": dict(ran_on_torch), "host": dict(ran_on_host)}


def reset_ops() -> None:
    for counts in (ran_on_rota, ran_on_torch, ran_on_host):
        counts.clear()
