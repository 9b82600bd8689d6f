"""What passes over a graph of PyTorch's ask of its nodes."""

import operator
from typing import Any

import torch

aten = torch.ops.aten

# The same elements in another shape.
RESHAPES = (aten.view.default, aten._unsafe_view.default)


def value_of(node: Any) -> Any:
    return node.meta["val"]


def picked(node: Any) -> dict[int, Any]:
    """The nodes that pick a result of several, by its place."""
    return {one.args[1]: one for one in node.users if one.target is operator.getitem}
