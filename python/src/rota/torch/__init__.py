"""rota as a backend of torch.compile: `torch.compile(model, backend="rota")`.

AOTAutograd's forward and backward graphs are recorded as plans. What rota has no op for is a node that calls PyTorch's
own kernel.
"""

import logging
from typing import Any

from ..errors import Unsupported
from . import windows as windows  # whose ops are in the table once it is here
from .capture import Captured as Captured
from .capture import adopt as adopt
from .capture import capture as capture
from .checkpoints import keep
from .decompositions import decompositions, unrolled
from .devices import allocator as allocator
from .devices import device as device
from .layouts import turn
from .pairs import pair
from .program import RESULTS, Program, ran_on_host
from .segment import ran_on_rota, ran_on_torch

LOG = logging.getLogger("rota.torch")


def backend(module: Any, inputs: Any) -> Any:
    """What torch.compile calls with a graph of Dynamo's."""
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
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    try:
        with unrolled(module, inputs):
            return compiled(module, inputs)
    except Unsupported as refused:  # no plan has it, but PyTorch can run it
        LOG.warning("a graph runs eagerly: %s", refused)
        return module.forward


def partition(joint: Any, inputs: Any, *, num_fwd_outputs: int, **options: Any) -> tuple[Any, Any]:
    """A graph of both passes as one of each."""
    from functorch.compile import default_partition

    keep(joint.graph)
    pair(joint)
    turn(joint)
    forward, backward = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
    forward.meta[RESULTS], backward.meta[RESULTS] = num_fwd_outputs, 0
    return forward, backward


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
    """Begins counting anew."""
    for counts in (ran_on_rota, ran_on_torch, ran_on_host):
        counts.clear()
