"""What a part of a graph that a checkpoint computes again draws: the numbers that it has drawn, which are kept."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy

from .draws import draws, generator_of, is_random
from .state import Uncapturable

# What generators begin with while a step is traced: a seed that nobody has.
FIRST = 0x726F7461 << 24


class Tracing(TorchDispatchMode):
    """While a step is traced: from where in the sequence each op draws. Nothing is computed then, so that generators
    stay where they are; here each draw moves its generator on, and a checkpoint, which puts a generator back before it
    computes a part of a step again, has that draw from where it did at first."""

    def __init__(self, homes: Sequence[Any]) -> None:
        super().__init__()
        self.drawn: list[tuple[Any, Any]] = []  # ops, and where they draw from; None: from a generator that is given
        self.generators = {home: generator_of(home) for home in homes}
        for generator in self.generators.values():
            generator.manual_seed(FIRST)
        self.known = {(home, FIRST) for home in homes}

    def __torch_dispatch__(self, target: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = target(*args, **(kwargs or {}))
        if draws(target, args, kwargs or {}):
            self.drawn.append((target, self._position(results, kwargs or {})))
        return results

    def _position(self, results: Any, options: Any) -> Any:
        if options.get("generator") is not None:
            return None
        homes = [leaf.device for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
        home = homes[0] if homes else torch.device("cpu")
        generator = self.generators.get(home)
        if generator is None:
            raise Uncapturable(f"it draws numbers on {home}")
        seed = generator.initial_seed()
        if (home, seed) not in self.known:
            raise Uncapturable("it seeds a generator, or gives it a state that was kept before")
        generator.manual_seed(seed + 1)
        self.known.add((home, seed + 1))
        return home, seed


def draw_once(graph: Any, drawn: Sequence[tuple[Any, Any]]) -> None:
    """Has what a graph draws again taken from where it was drawn first, of which a copy is kept: both may be written
    to."""
    called = [node for node in graph.nodes if node.op == "call_function"]
    nodes = [node for node in called if draws(node.target, node.args, node.kwargs)]
    if [node.target for node in nodes] != [target for target, _ in drawn]:
        raise Uncapturable("not all that draws numbers is known")
    first: dict[Any, Any] = {}
    for node, (_, position) in zip(nodes, drawn, strict=True):
        if position is None or first.setdefault(position, node) is node:
            continue
        if not alike(first[position], node):
            raise Uncapturable(f"{node.target} draws what {first[position].name} has drawn for something else")
        replace(graph, first[position], node)


def alike(one: Any, other: Any) -> bool:
    """Whether two nodes of an op draw for the same."""

    def known(node: Any) -> Any:
        leaves = pytree.tree_leaves((node.args, dict(node.kwargs)))
        return [shape_of(leaf.meta["val"]) if isinstance(leaf, torch.fx.Node) else leaf for leaf in leaves]

    return one.target is other.target and known(one) == known(other)


def shape_of(value: Any) -> Any:
    return [
        (leaf.shape, leaf.stride(), leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf
        for leaf in pytree.tree_leaves(value)
    ]


def replace(graph: Any, first: Any, node: Any) -> None:
    aten = torch.ops.aten

    def made(before: Any, target: Any, *args: Any) -> Any:
        with graph.inserting_before(before):
            new = graph.call_function(target, args)
        new.meta["val"] = args[0].meta["val"]
        return new

    if node.target._schema.is_mutable:
        kept = made(first.next, aten.clone.default, first)
        node.replace_all_uses_with(made(node, aten.copy_.default, node.args[0], kept))
    elif isinstance(node.meta["val"], torch.Tensor):
        kept = made(first.next, aten.clone.default, first)
        node.replace_all_uses_with(made(node, aten.clone.default, kept))
    else:
        there = {user.args[1]: user for user in first.users}
        for user in list(node.users):
            picked = there.get(user.args[1])
            if picked is None:
                with graph.inserting_after(first):
                    picked = graph.call_function(user.target, (first, user.args[1]))
                picked.meta["val"] = user.meta["val"]
            kept = made(picked.next, aten.clone.default, picked)
            user.replace_all_uses_with(made(user, aten.clone.default, kept))
            graph.erase_node(user)
    graph.erase_node(node)


def keep(graph: Any) -> None:
    """Has a graph of both passes keep what is drawn in a part of it that a checkpoint computes again: as PyTorch would
    have it, a GPU's numbers would be none of eager's, and the calling thread's to draw. PyTorch takes all attention for
    such an op."""
    for node in graph.nodes:
        source = node.args[0] if node.target is operator.getitem else node
        if "recompute" in node.meta and is_random(source.target):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
