"""PyTorch's own kernels as nodes of a plan: called on memory of rota's, on threads of the CPU device's."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from .devices import CPU

# Addresses for which an operand's tensor is kept: a plan's memory seldom moves, its inputs do.
TENSORS_KEPT = 4


# Dtypes that PyTorch copies many tensors of at once.
TOGETHER = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32)


def copy_all(to: Sequence[Any], of: Sequence[Any]) -> None:
    """Copies each tensor of a list to one of the same shape: many are few launches, and of kernels that are faster than
    the driver's copies."""
    by_dtype: dict[Any, tuple[list[Any], list[Any]]] = {}
    for destination, source in zip(to, of, strict=True):
        if destination.dtype not in TOGETHER:
            destination.copy_(source)
            continue
        lists = by_dtype.setdefault(destination.dtype, ([], []))
        lists[0].append(destination)
        lists[1].append(source)
    for destinations, sources in by_dtype.values():
        torch._foreach_copy_(destinations, sources)


class Layout(NamedTuple):
    """A tensor as a part of one of a node's memories."""

    memory: int
    bytes: int
    dtype: Any
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    device: Any = CPU

    def tensor(self, address: int) -> Any:
        """A tensor over memory that is there as long as the call."""
        if self.bytes == 0:
            return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)
        if self.device != CPU:
            storage = torch._C._construct_storage_from_data_pointer(address, self.device, self.bytes)
            made = torch.empty(0, dtype=self.dtype, device=self.device)
            return made.set_(storage, self.offset, self.shape, self.stride)
        memory = (ctypes.c_uint8 * self.bytes).from_address(address)
        flat = torch.frombuffer(memory, dtype=self.dtype)
        return torch.as_strided(flat, self.shape, self.stride, self.offset)


class Operand:
    """A tensor of a node, kept for addresses that it had lately."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.kept: dict[int, Any] = {}

    def at(self, addresses: Sequence[int]) -> Any:
        address = addresses[self.layout.memory]
        tensor = self.kept.get(address)
        if tensor is None:
            tensor = self.layout.tensor(address)
            kept = dict(self.kept) if len(self.kept) < TENSORS_KEPT else {}  # replays may overlap
            kept[address] = tensor
            self.kept = kept
        return tensor


# Of ops that can write a result where it is to be: a function of the results' tensors and the op's arguments, which
# says whether it did.
INTO: dict[Any, Callable[..., bool]] = {}


class Call:
    """A node's function: an op of PyTorch's, on arguments of which some are tensors, and its results' layouts."""

    def __init__(self, target: Any, leaves: Sequence[Any], spec: Any, results: Sequence[Layout | None]) -> None:
        self.target = target
        self.leaves = [Operand(leaf) if isinstance(leaf, Layout) else leaf for leaf in leaves]
        self.spec = spec
        self.results = [None if layout is None else Operand(layout) for layout in results]

    def __call__(self, addresses: Sequence[int]) -> None:
        leaves = [leaf.at(addresses) if isinstance(leaf, Operand) else leaf for leaf in self.leaves]
        with torch.no_grad():
            args, kwargs = pytree.tree_unflatten(leaves, self.spec)
            into = INTO.get(self.target)
            if into is not None and None not in self.results:
                there = [operand.at(addresses) for operand in self.results if operand is not None]
                if into(there, *args, **kwargs):
                    return
            results = self.target(*args, **kwargs)
            pairs = zip(pytree.tree_leaves(results), self.results, strict=True)
            kept = [
                (operand.at(addresses), result)
                for result, operand in pairs
                if operand is not None and self._is_there(operand, result)
            ]
            copy_all([destination for destination, _ in kept], [result for _, result in kept])

    def _is_there(self, operand: Operand, result: Any) -> bool:
        """Whether there is a result to be brought to its place. What has no element may be no tensor, either."""
        shape = operand.layout.shape
        given = None if result is None else tuple(result.shape)
        if given != shape and not (given is None and 0 in shape):
            what = "no tensor" if given is None else f"one of shape {list(given)}"
            raise RuntimeError(f"a result of shape {list(shape)} is expected, {self.target} gave {what}")
        return result is not None
