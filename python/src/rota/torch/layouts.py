"""The order in which images lie in memory: PyTorch's convolutions on a GPU are fastest where channels are next to one
another, and turn what lies otherwise themselves, each time."""

import copy
import logging
import operator
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx.passes.shape_prop import _extract_tensor_metadata
from torch.utils import _pytree as pytree

from .nodes import RESHAPES

LOG = logging.getLogger("rota.torch")

aten = torch.ops.aten

# The operands of convolutions that are images or windows, by their position.
IMAGES = {aten.convolution.default: (0, 1), aten.convolution_backward.default: (0, 1, 2)}
# The operands that an op's kernel on a GPU takes by channels first alone, by their position: who calls it sees to that,
# before images were turned.
CHANNELS_FIRST = {aten.native_group_norm.default: (0,), aten.native_group_norm_backward.default: (0, 1)}
# Ops that say what strides are to be, which would be other ones.
FIXED_STRIDES = (
    aten._reshape_alias.default,
    aten.as_strided.default,
    aten.as_strided_scatter.default,
    aten.new_empty_strided.default,
)


class CannotTurn(Exception):
    """A graph stays as it is."""


def is_worth_it(module: Any) -> bool:
    """Whether there are convolutions of images in a graph on a GPU that run on its units for products."""
    for node in module.graph.nodes:
        if node.target is not aten.convolution.default:
            continue
        x, groups = node.args[0].meta["val"], node.args[8]
        fast = x.dtype in (torch.float16, torch.bfloat16) or torch.backends.cudnn.allow_tf32
        if x.device.type == "cuda" and x.dim() == 4 and groups == 1 and fast:
            return True
    return False


def turned(x: Any) -> bool:
    return bool(x.is_contiguous(memory_format=torch.channels_last))


def turn(module: Any) -> None:
    """Has a graph's images lie by channels last, in place, where that is worth it and can be."""
    if not is_worth_it(module):
        return
    before = module.graph
    module.graph = copy.deepcopy(before)
    try:
        Turning(module.graph).run()
    except Exception as error:  # whatever it is, the graph is right as it was
        LOG.info("images lie as they did: %s: %s", type(error).__name__, error)
        module.graph = before
    module.recompile()


class Turning:
    """A graph whose images lie by channels last; what it gives, and what changes memory is given, lies as before."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.before = {node: node.meta.get("val") for node in graph.nodes}
        self.mode = detect_fake_mode([node.meta.get("val") for node in self.graph.nodes])
        self.made: dict[tuple[Any, Any], Any] = {}  # images that lie so, by those that they are of

    def run(self) -> None:
        """Raises CannotTurn, or what an op says of the other strides: the graph is of no use then."""
        for node in list(self.graph.nodes):
            if node.target in FIXED_STRIDES:
                raise CannotTurn(str(node.target))
            if node.op == "output" or is_mutable(node):
                self.give_as_before(node)
            if node.op == "call_function":
                self.step(node)
        self.graph.lint()

    def step(self, node: Any) -> None:
        for position in IMAGES.get(node.target, ()):
            x = node.args[position]
            if x.meta["val"].dim() == 4 and not turned(x.meta["val"]):
                self.replace(node, position, torch.channels_last)
        for position in CHANNELS_FIRST.get(node.target, ()):
            if not node.args[position].meta["val"].is_contiguous():
                self.replace(node, position, torch.contiguous_format)
        if node.target in RESHAPES and not self.views(node):
            node.update_arg(0, self.copied(node.args[0], torch.contiguous_format, node))
        self.imagine(node)

    def replace(self, node: Any, position: int, memory_format: Any) -> None:
        """An operand by one that lies so, made where the first node wants it."""
        x = node.args[position]
        if (x, memory_format) not in self.made:
            self.made[x, memory_format] = self.copied(x, memory_format, node)
        node.update_arg(position, self.made[x, memory_format])

    def views(self, node: Any) -> bool:
        try:
            self.value_of(node)
        except (RuntimeError, ValueError):
            return False
        return True

    def value_of(self, node: Any) -> Any:
        given = (node.args, dict(node.kwargs))
        args, kwargs = pytree.tree_map_only(torch.fx.Node, lambda one: one.meta["val"], given)
        if node.target is operator.getitem:
            return args[0][args[1]]
        with self.mode, torch.no_grad():
            return node.target(*args, **kwargs)

    def imagine(self, node: Any) -> None:
        node.meta["val"] = self.value_of(node)
        if isinstance(node.meta["val"], torch.Tensor):
            node.meta["tensor_meta"] = _extract_tensor_metadata(node.meta["val"])

    def copied(self, x: Any, memory_format: Any, before: Any) -> Any:
        with self.graph.inserting_before(before):
            node = self.graph.call_function(aten.clone.default, (x,), {"memory_format": memory_format})
        node.meta = {name: value for name, value in before.meta.items() if name not in ("val", "tensor_meta")}
        self.imagine(node)
        return node

    def give_as_before(self, node: Any) -> None:
        def one_as_before(one: Any) -> Any:
            old, new = self.before.get(one), one.meta.get("val")
            if not isinstance(old, torch.Tensor) or old.stride() == new.stride():
                return one
            if not old.is_contiguous():
                raise CannotTurn(f"{one} had strides {old.stride()}")
            return self.copied(one, torch.contiguous_format, node)

        node.args = pytree.tree_map_only(torch.fx.Node, one_as_before, node.args)


def is_mutable(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)
