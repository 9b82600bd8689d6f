"""Gradients of several ranks: each becomes the mean of all ranks' as soon as the backward pass has added to it, in a
captured step as nodes of its plan, which run beside the rest of that pass, and else by plans of their own."""

import contextlib
import operator
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .. import _rota as ops
from .._rota import Communicator, Tensor, graph
from ..errors import InvalidArgument
from .lower import lowers
from .nodes import value_of
from .own import define
from .segment import DTYPES, Segment, id_of

# Gradients of fewer bytes go together, up to so many, in a copy of theirs: a collective has a cost of its own.
SMALL_BYTES, TOGETHER_BYTES = 64 << 10, 4 << 20

# Communicators by the number that a node has of one, as long as somebody has them.
_communicators: weakref.WeakValueDictionary[int, Communicator] = weakref.WeakValueDictionary()
_mutex = threading.Lock()


def number_of(communicator: Communicator) -> int:
    with _mutex:
        for number, one in _communicators.items():
            if one is communicator:
                return number
        number = max(_communicators, default=0) + 1
        _communicators[number] = communicator
        return number


# ---- The ops: what they compute where no plan does ----


def mean_into(x: Tensor, world: Communicator, out: Tensor) -> None:
    """The mean of all ranks' x, in memory that is read by others than plans. What messages carry is written on the
    host, and an adopted tensor's memory on a GPU has that once a node there needs it: a copy."""
    if world.device.id == "cpu":
        ops.all_reduce(x, world, "mean", out=out)
    else:
        ops.copy(ops.all_reduce(x, world, "mean"), out=out)


def reduce_there(there: Tensor, world: Communicator) -> None:
    """The mean of all ranks' elements in the place of a rank's own, by a plan that is waited for."""
    with graph(world.device, name="gradients", gradients=False) as recorded:
        mean_into(there, world, there)
    recorded.compile()().wait()


def reduced(grad: Any, communicator: int) -> Any:
    """The mean of all ranks' contiguous gradients."""
    flat = grad.detach().to(torch.float32, copy=True).reshape(-1)
    world = _communicators[communicator]
    reduce_there(world.device.adopt(flat, name="gradient"), world)
    return flat.reshape(grad.shape).to(grad.dtype)


def reduced_together(grads: Sequence[Any], communicator: int) -> list[Any]:
    return [reduced(grad, communicator) for grad in grads]


ALL_REDUCE = define(
    "all_reduce(Tensor grad, int communicator) -> Tensor", reduced, lambda grad, _: torch.empty_like(grad)
)
ALL_REDUCE_TOGETHER = define(
    "all_reduce_together(Tensor[] grads, int communicator) -> Tensor[]",
    reduced_together,
    lambda grads, _: [torch.empty_like(grad) for grad in grads],
)

# ---- On rota's kernels ----


@lowers(ALL_REDUCE)
def all_reduce(s: Segment, node: Any, y: Any, grad: Any, communicator: int) -> None:
    world = _communicators[communicator]
    if id_of(y) in s.live:  # what a step gives
        mean_into(s.read(grad), world, s.write(y))
    else:
        ops.all_reduce(s.read(grad), world, "mean", out=s.write(y))


@lowers(ALL_REDUCE_TOGETHER)
def all_reduce_together(s: Segment, node: Any, y: Any, grads: Sequence[Any], communicator: int) -> None:
    name = DTYPES[grads[0].dtype]
    count = sum(grad.numel() for grad in grads)
    memory = s.memory(count * grads[0].itemsize, None)
    whole = memory.view(name, [count], [1], 0)
    parts, first = [], 0
    for grad in grads:
        parts.append(memory.view(name, [grad.numel()], [1], first))
        first += grad.numel()
    for part, grad in zip(parts, grads, strict=True):
        ops.copy(s.read(grad).reshape(grad.numel()), out=part)
    ops.all_reduce(whole, _communicators[communicator], "mean", out=whole)
    for part, made in zip(parts, y, strict=True):
        ops.copy(part, out=s.write(made).reshape(made.numel()))


# ---- In a step ----


@contextlib.contextmanager
def reducing(parameters: Sequence[Any], communicator: Communicator | None) -> Iterator[None]:
    """Inside, what a backward pass adds up in a parameter's gradient is the mean of all ranks'. A pass after it that
    adds to that has the mean of the sum: that of what is the same on all ranks is itself."""
    if communicator is None:
        yield
        return
    number = number_of(communicator)

    def reduce(parameter: Any) -> None:
        grad = parameter.grad
        if grad.layout is not torch.strided or grad.dtype not in DTYPES:
            raise InvalidArgument(
                f"a gradient is {grad.dtype} {grad.layout} {tuple(grad.shape)}: ranks reduce strided ones of "
                "float32, float16 and bfloat16"
            )
        if not grad.numel():
            return
        # In the order of elements, wherever a rank has them.
        mean = ALL_REDUCE(grad.contiguous(), number)
        parameter.grad = mean if grad.is_contiguous() else torch.empty_like(grad).copy_(mean)

    with contextlib.ExitStack() as hooks:
        for parameter in parameters:
            if parameter.requires_grad:
                hooks.callback(parameter.register_post_accumulate_grad_hook(reduce).remove)
        yield


def put_together(module: Any) -> None:
    """Small gradients of a graph that come one after the other, and that nobody reads in between, are reduced
    together, in place."""
    group: list[Any] = []
    size = 0
    read: set[Any] = set()  # by whom, of those of the group
    for node in list(module.graph.nodes):
        is_small = node.target is ALL_REDUCE and value_of(node).nbytes < SMALL_BYTES
        fits = is_small and size + value_of(node).nbytes <= TOGETHER_BYTES
        alike = fits and all(value_of(one).dtype == value_of(node).dtype for one in group)
        if group and (node in read or (is_small and not alike)):
            reduce_group(module.graph, group)
            group, size, read = [], 0, set()
        if is_small:
            group.append(node)
            size += value_of(node).nbytes
            read.update(node.users)
    reduce_group(module.graph, group)
    module.graph.lint()
    module.recompile()


def reduce_group(graph: Any, group: Sequence[Any]) -> None:
    if len(group) < 2:
        return
    with graph.inserting_after(group[-1]):
        made = graph.call_function(ALL_REDUCE_TOGETHER, ([one.args[0] for one in group], group[0].args[1]))
    made.meta["val"] = [value_of(one) for one in group]
    after = made
    for i, one in enumerate(group):
        with graph.inserting_after(after):
            after = graph.call_function(operator.getitem, (made, i))
        after.meta["val"] = value_of(one)
        one.replace_all_uses_with(after)
        graph.erase_node(one)
