"""Parameters in 16 bits, as autocast has them, that stay from one captured step to the next: no step converts them at
its beginning, and the optimizer's node writes them beside the parameter."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import increment_version
from torch.optim.optimizer import register_optimizer_step_post_hook

from .._rota import Device, Tensor
from . import adam, pairs
from .nodes import value_of
from .state import State, memory_of

aten = torch.ops.aten

# ---- In a graph ----


class Asked(NamedTuple):
    """What a graph has a last placeholder for: a parameter, by its position among the graph's first, in a dtype, with
    rows of zeroes up to so many; 0: with none."""

    position: int
    dtype: torch.dtype
    rows: int


class Aliases:
    """Which nodes have memory of others, as far as the ops say, and who writes to it."""

    def __init__(self, graph: Any) -> None:
        self.roots: dict[Any, set[Any]] = {}
        self.writers: dict[Any, list[Any]] = defaultdict(list)
        self.given: set[Any] = set()  # what a call gives is of these
        for node in graph.nodes:
            self._add(node)

    def _add(self, node: Any) -> None:
        own = {node}
        if node.op == "output":
            self.given = self._of(node.all_input_nodes)
        elif not isinstance(node.target, torch._ops.OpOverload):
            own |= self._of(node.all_input_nodes)
        else:
            for i, argument in enumerate(node.target._schema.arguments):
                if argument.alias_info is None:
                    continue
                value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
                roots = self._of(one for one in nodes_in(value))
                own |= roots
                for root in roots if argument.alias_info.is_write else ():
                    self.writers[root].append(node)
        self.roots[node] = own

    def _of(self, nodes: Iterable[Any]) -> set[Any]:
        return set().union(*(self.roots[node] for node in nodes))


def nodes_in(value: Any) -> list[Any]:
    values = value if isinstance(value, list | tuple) else [value]
    return [one for one in values if isinstance(one, torch.fx.Node)]


def cast_of(node: Any) -> tuple[torch.dtype, int] | None:
    """The dtype of 16 bits in which a node gives all of its first argument, and the rows that it has then, if those
    are more."""
    value = value_of(node)
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.float16, torch.bfloat16):
        return None
    if node.target is pairs.WITH_ROWS:
        return value.dtype, len(value)
    source = value_of(node.args[0]) if node.args and node.target is aten._to_copy.default else None
    is_alike = source is not None and source.device == value.device and value.is_contiguous() and source.is_contiguous()
    return (value.dtype, 0) if is_alike else None


def keep(module: Any, parameters: Sequence[bool]) -> list[Asked]:
    """Has the casts of parameters that stay, for each of a graph's first placeholders whether it is one, come from
    placeholders after the last one: those of what nobody writes, or AdamW's node alone, after they were read."""
    graph, insert = module.graph, pairs.Rewriting(module).insert
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    order = {node: i for i, node in enumerate(graph.nodes)}
    aliases = Aliases(graph)
    asked: list[Asked] = []
    for position, (node, is_parameter) in enumerate(zip(placeholders, parameters, strict=False)):
        writers = aliases.writers[node]
        casts = {one: cast for one in node.users if is_parameter and (cast := cast_of(one)) is not None}
        for one in list(casts):
            if aliases.writers[one] or one in aliases.given or any(order[one] > order[w] for w in writers):
                del casts[one]
        is_adams = len(writers) == 1 and writers[0].target is adam.ADAMW and writers[0].args[0] is node
        if not casts or (writers and not is_adams) or value_of(node).dtype is not torch.float32:
            continue
        dtype = next(iter(casts.values()))[0]
        rows = max(count for of, count in casts.values() if of is dtype)
        taken = [one for one, cast in casts.items() if cast in ((dtype, rows), (dtype, 0))]
        asked.append(Asked(position, dtype, rows))
        with graph.inserting_after(placeholders[-1]):
            made = graph.placeholder(f"cast_{position}")
        placeholders.append(made)
        whole = next(one for one in taken if casts[one] == (dtype, rows))
        made.meta = dict(whole.meta)

        def own(before: Any, made: Any = made, count: int = len(value_of(node)) if rows else 0) -> Any:
            return insert(before, aten.slice.Tensor, (made, 0, 0, count)) if count else made

        for one in taken:
            one.replace_all_uses_with(made if casts[one] == (dtype, rows) else own(one))
            graph.erase_node(one)
        for writer in writers:
            writer.args = (*writer.args, own(writer))
    if asked:
        graph.lint()
        module.recompile()
    return asked


# ---- Across steps ----


class Cast:
    """What a step keeps of a parameter."""

    def __init__(self, parameter: Any, dtype: torch.dtype, rows: int, device: Device | None) -> None:
        self.parameter = parameter
        shape = [rows or len(parameter), *parameter.shape[1:]] if parameter.dim() else []
        self.tensor = torch.zeros(shape, dtype=dtype, device=parameter.device)
        self.state = State(self.tensor, device)
        self.source: Any = None

    def adopt(self, home: Any) -> Tensor:
        return self.state.adopt(home)

    def is_current(self) -> bool:
        """Whether nobody but plans has written to the parameter since it was written, as far as PyTorch counts it."""
        return bool(self.source == (self.parameter._version, memory_of(self.parameter)))

    def is_written(self) -> None:
        """It has what the parameter has now."""
        self.source = (self.parameter._version, memory_of(self.parameter))


def refresh(casts: Sequence[Cast]) -> None:
    """Makes those anew whose parameter somebody has changed. Whatever fails before they are written again, they are not
    current."""
    stale = [cast for cast in casts if not cast.is_current()]
    if stale:
        own = [cast.tensor[: len(cast.parameter)] if cast.parameter.dim() else cast.tensor for cast in stale]
        with torch.no_grad():
            torch._foreach_copy_(own, [cast.parameter.detach() for cast in stale])
    for cast in casts:
        cast.source = None


_mutex = threading.Lock()
_counting: list[Any] = []  # the hook's handle, as long as the process lives


def count_steps() -> None:
    """Has steps of all optimizers count as changes of their parameters: PyTorch's fused ones don't."""
    with _mutex:
        if not _counting:
            _counting.append(register_optimizer_step_post_hook(counted))


def counted(optimizer: Any, *_: Any) -> None:
    if not torch.compiler.is_compiling():  # nor traced
        increment_version([parameter for group in optimizer.param_groups for parameter in group["params"]])
