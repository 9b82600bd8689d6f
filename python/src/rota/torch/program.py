"""A graph of PyTorch's as plans: cut where an op needs the host, each piece compiled for the shapes that come."""

import builtins
import logging
import operator
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .._rota import Device
from ..errors import NodeFailed, Unsupported
from .devices import adopted, range_of
from .lower import LOWERED
from .results import why_not
from .segment import OPERANDS_MAX, Segment

LOG = logging.getLogger("rota.torch")

# Plans of a piece: one for each combination of shapes, the least recently used one goes.
PLANS_MAX = 16

ran_on_host: Counter[str] = Counter()


def is_host(node: Any, in_place: bool = False) -> bool:
    """Whether a node is not for a plan: what its results look like depends on data, it writes to its arguments, unless
    it may, or is Python."""
    target = node.target
    if node.op == "get_attr":
        return False
    if target is operator.getitem:
        return is_host(node.args[0]) if node.args[0].op == "call_function" else False
    if not isinstance(target, torch._ops.OpOverload):
        # Arithmetic on sizes.
        return getattr(target, "__module__", "") not in ("_operator", "math", "torch") and not isinstance(
            target, type(builtins.len)
        )
    tags = target.tags
    if target is torch.ops.aten.index.Tensor:
        return any(picks_by_truth(index) for index in node.args[1] if index is not None)
    if torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags:
        return True
    is_wide = len(node.all_input_nodes) > OPERANDS_MAX - 4 and target not in LOWERED
    return (target._schema.is_mutable and not in_place) or is_wide or target.namespace not in ("aten", "prims", "rota")


def picks_by_truth(index: Any) -> bool:
    """Whether an index says of each place if it is picked, so that their number depends on data."""
    value = index.meta.get("val")
    return value is None or value.dtype in (torch.bool, torch.uint8)


def signature_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride(), value.dtype
    return value


class Piece:
    """Nodes of a graph that are one plan for each combination of shapes."""

    def __init__(self, program: "Program", nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.program = program
        self.nodes, self.inputs, self.outputs = nodes, inputs, outputs
        self.mutex = threading.Lock()
        self.segments: OrderedDict[Any, Segment | None] = OrderedDict()

    def segment(self, values: Sequence[Any]) -> Segment | None:
        """The plan for inputs like these; none: there is none."""
        device = self.program.device()
        shared = device.are_shared([range_of(value) if isinstance(value, torch.Tensor) else (0, 0) for value in values])
        for i, value in enumerate(values):
            # What lives as long as a model is read where it lies; the rest is copied, for it changes from call to call.
            if not shared[i] and isinstance(value, torch.nn.Parameter):
                shared[i] = adopted(value) is not None
        key = (device, *shared, *map(signature_of, values))
        with self.mutex:
            if key in self.segments:
                self.segments.move_to_end(key)
                return self.segments[key]
            made = self.make(values, shared)
            self.segments[key] = made
            if len(self.segments) > PLANS_MAX:
                self.segments.popitem(last=False)
            return made

    def make(self, values: Sequence[Any], shared: Sequence[bool]) -> Segment | None:
        program = self.program
        if any(isinstance(value, torch.Tensor) and not is_plain(value) for value in values):
            LOG.warning("%s runs eagerly: a tensor of it is not strided memory of the host's", program.name)
            return None
        try:
            return Segment(
                program.device(),
                self.nodes,
                self.inputs,
                self.outputs,
                program.attributes,
                values,
                LOWERED,
                program.name,
                shared,
            )
        except Exception as error:  # whatever it is, PyTorch can run the graph
            LOG.warning("%s runs eagerly: %s: %s", program.name, type(error).__name__, error, exc_info=True)
            return None

    def run(self, env: dict[Any, Any]) -> None:
        values = [resolved(env[node]) for node in self.inputs]
        segment = self.segment(values)
        if segment is None:
            for node in self.nodes:
                run_node(node, env, self.program.attributes)
            return
        env.update(zip(self.outputs, segment.run(values), strict=True))


def is_plain(value: Any) -> bool:
    return value.layout is torch.strided and value.device.type == "cpu"


def resolved(value: Any) -> Any:
    """A tensor whose memory has what it says: without a pending conjugation or negation."""
    if isinstance(value, torch.Tensor) and value.is_neg():
        return value.resolve_neg()
    if isinstance(value, torch.Tensor) and value.is_conj():
        return value.resolve_conj()
    return value


def run_node(node: Any, env: dict[Any, Any], attributes: Any) -> None:
    if node.op == "get_attr":
        env[node] = attributes[node.target]
        return
    args, kwargs = pytree.tree_map_only(torch.fx.Node, env.__getitem__, (node.args, dict(node.kwargs)))
    env[node] = node.target(*args, **kwargs)
    if isinstance(node.target, torch._ops.OpOverload) and not node.target.is_view:
        ran_on_host[str(node.target)] += 1


class HostStep:
    """A node that the calling thread runs, between plans."""

    def __init__(self, program: "Program", node: Any) -> None:
        self.program, self.node = program, node

    def run(self, env: dict[Any, Any]) -> None:
        run_node(self.node, env, self.program.attributes)


class Program:
    """A graph of PyTorch's, as plans and what the host runs between them."""

    def __init__(self, module: Any, name: str, device: Callable[[], Device]) -> None:
        self.name, self.device = name, device
        self.module = module  # has what get_attr names
        self.attributes = Attributes(module)
        nodes = list(module.graph.nodes)
        refused = [why for node in nodes if (why := why_not(node.target, name))]
        if refused:
            raise Unsupported(refused[0])
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        (self.output,) = [node for node in nodes if node.op == "output"]
        self.steps = self._cut([node for node in nodes if node.op not in ("placeholder", "output")])

    def _cut(self, nodes: Sequence[Any]) -> list[Any]:
        """Plans as large as can be, and what the host runs between them."""
        position = {node: i for i, node in enumerate([*self.inputs, *nodes])}
        groups: list[tuple[bool, list[Any]]] = []
        for node in nodes:
            host = is_host(node)
            if host or not groups or groups[-1][0]:
                groups.append((host, []))
            groups[-1][1].append(node)
        steps: list[Any] = []
        for host, group in groups:
            if host:
                steps += [HostStep(self, node) for node in group]
                continue
            inside = set(group)
            inputs = {used for node in group for used in node.all_input_nodes if used not in inside}
            outputs = [node for node in group if any(user not in inside for user in node.users)]
            steps.append(Piece(self, group, sorted(inputs, key=position.__getitem__), outputs))
        return steps

    def run(self, arguments: list[Any]) -> list[Any]:
        """Empties the list, so that what nobody else holds is freed when it was read last."""
        env = dict(zip(self.inputs, arguments, strict=True))
        arguments.clear()
        try:
            for step in self.steps:
                step.run(env)
        except NodeFailed as error:
            raise RuntimeError(str(error)) from error
        results = pytree.tree_map_only(torch.fx.Node, env.__getitem__, self.output.args[0])
        return list(results)

    @property
    def plans(self) -> list[Segment]:
        return [
            segment
            for step in self.steps
            if isinstance(step, Piece)
            for segment in step.segments.values()
            if segment is not None
        ]


class Attributes:
    """What a graph's get_attr nodes name."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __getitem__(self, name: str) -> Any:
        return operator.attrgetter(name)(self.module)
