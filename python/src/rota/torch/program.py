"""A graph of PyTorch's as plans: cut where an op needs the host, each piece compiled for the shapes that come."""

import builtins
import logging
import operator
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from .._rota import Device, Tensor
from ..errors import NodeFailed, Unsupported
from .devices import CPU, adopted, can_be_adopted, known_for_a_call, range_of, words_of
from .draws import as_eager_reads, draws, is_attention
from .fixed import FixedSegment, current, lent_at, not_capturable
from .kernels import copy_all
from .lower import LOWERED
from .results import why_not
from .segment import OPERANDS_MAX, Segment, signature_of, tensors_of

LOG = logging.getLogger("rota.torch")

# Plans of a piece: one for each combination of shapes, the least recently used one goes.
PLANS_MAX = 16

ran_on_host: Counter[str] = Counter()

# How many of a graph's outputs are the caller's: an entry of its module's `meta`; all, where there is none.
RESULTS = "rota_results"

# Kinds of PyTorch's devices whose plans have memory of their own that stays where it is (fixed.py).
FIXED = {"cuda"}


def home_of(nodes: Sequence[Any]) -> Any:
    """The device of a graph's plans: the first GPU that one of its tensors is on, else the CPU."""
    for node in nodes:
        for value in tensors_of(node.meta.get("val")):
            if value.device.type == "cuda":
                return value.device
    return CPU


def elsewhere(nodes: Sequence[Any], home: Any) -> set[Any]:
    """Nodes that are no work of a GPU's plan: they read or give what is not there. What is made of nothing that a call
    gives, and is the same each time, may be anywhere."""
    found: set[Any] = set()
    known: set[Any] = set()
    for node in nodes if home.type != "cpu" else []:
        inputs = node.all_input_nodes
        if node.op == "get_attr" or (node.op == "call_function" and known.issuperset(inputs) and not is_drawn(node)):
            known.add(node)
        elif node.op == "call_function" and is_away(node, known, home):
            found.add(node)
        elif node.target is operator.getitem and node.args[0] in found:
            found.add(node)
    return found


def is_drawn(node: Any) -> bool:
    return draws(node.target, node.args, node.kwargs)


def is_away(node: Any, known: set[Any], home: Any) -> bool:
    if node.target is operator.getitem or is_attention(node.target):
        return False
    read = [one for one in node.all_input_nodes if one not in known]
    return any(value.device != home for one in (node, *read) for value in tensors_of(one.meta.get("val")))


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


class Fit(NamedTuple):
    """What a plan with memory of its own was made for: tensors at addresses, and what else was given."""

    device: Device
    lends: bool
    addresses: Sequence[tuple[int, int]]
    rest: Sequence[tuple[int, Any]]
    segment: FixedSegment

    def takes(self, device: Device, lends: bool, values: Sequence[Any]) -> bool:
        """Whether a call may have such values. The plan holds what is at the addresses, so that nothing else is."""
        if device is not self.device or lends != self.lends:
            return False
        for index, address in self.addresses:
            if values[index].data_ptr() != address:
                return False
        return all(signature_of(values[index]) == signature for index, signature in self.rest)


class Piece:
    """Nodes of a graph that are one plan for each combination of shapes."""

    def __init__(self, program: "Program", nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.program = program
        self.nodes, self.inputs, self.outputs = nodes, inputs, outputs
        self.mutex = threading.Lock()
        self.segments: OrderedDict[Any, Segment | None] = OrderedDict()
        self.fitting: list[Fit] = []  # the one that was used last first
        self.parts: list[Any] | None = None  # in its place, where one of its ops can't be captured

    def segment(self, values: Sequence[Any], known: list[Any]) -> Segment | None:
        """The plan for inputs like these; none: there is none. `known` gets what must live as long as the call."""
        device = self.program.device(CPU)
        shared = device.are_shared([range_of(value) if isinstance(value, torch.Tensor) else (0, 0) for value in values])
        for i, value in enumerate(values):
            # What is read where it lies: what lives as long as a model is known from now on, large inputs for the call.
            if shared[i] or not isinstance(value, torch.Tensor):
                continue
            if isinstance(value, torch.nn.Parameter):
                shared[i] = adopted(value) is not None
            elif is_plain(value, [CPU]):
                array = known_for_a_call(value)
                shared[i] = array is not None
                known.append(array)
        key = (device, *shared, *map(signature_of, values))

        def make() -> Segment:
            return Segment(device, *self.of_graph(values), shared)

        return self.kept(key, values, make)

    def fixed_segment(self, values: Sequence[Any], lends: bool) -> FixedSegment | None:
        """Of a program whose plans have memory of their own. Parameters, and what other plans lend, are read where
        they are, so that there is a plan for each address of theirs. `lends`: whether this one lends, too."""
        home = self.program.home
        device = self.program.device(home)
        for fit in self.fitting:
            if fit.takes(device, lends, values):
                return fit.segment
        there: dict[int, Tensor | None] = {}
        for i, value in enumerate(values):
            if isinstance(value, torch.Tensor) and is_plain(value, [home]):
                lent = lent_at(device, value)
                if lent is not None or (stays(value) and can_be_adopted(value)):
                    there[i] = lent
        addresses = [(i, values[i].data_ptr()) for i in there]
        key = (device, lends, *addresses, *map(signature_of, values))

        def make() -> Segment:
            with current(home):
                states = {
                    i: device.adopt(words_of(values[i]), name="parameter") if lent is None else lent
                    for i, lent in there.items()
                }
            is_lent = [lends and node not in self.program.results for node in self.outputs]
            shared = [False] * len(values)
            return FixedSegment(home, device, *self.of_graph(values), shared, states, lends=is_lent)

        made = self.kept(key, values, make)
        if not isinstance(made, FixedSegment):
            return None
        # A parameter of another shape is another graph of Dynamo's, and what is lent has the layout of its graph.
        rest = [
            (i, signature_of(value))
            for i, value in enumerate(values)
            if i not in there or (there[i] is None and not isinstance(value, torch.nn.Parameter))
        ]
        self.fitting = [Fit(device, lends, addresses, rest, made), *self.fitting][:PLANS_MAX]
        return made

    def of_graph(
        self, values: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any], Any, Sequence[Any], Mapping[Any, Any], str]:
        """What a plan is made of."""
        program = self.program
        return self.nodes, self.inputs, self.outputs, program.attributes, values, LOWERED, program.name

    def kept(self, key: Any, values: Sequence[Any], make: Callable[[], Segment]) -> Segment | None:
        with self.mutex:
            if key in self.segments:
                self.segments.move_to_end(key)
                return self.segments[key]
            made = self.made(values, make)
            self.segments[key] = made
            if len(self.segments) > PLANS_MAX:
                self.segments.popitem(last=False)
            return made

    def made(self, values: Sequence[Any], make: Callable[[], Segment]) -> Segment | None:
        program = self.program
        homes = (program.home, CPU) if program.is_fixed else (CPU,)  # what is the host's is copied
        if any(isinstance(value, torch.Tensor) and not is_plain(value, homes) for value in values):
            LOG.warning("%s runs eagerly: a tensor of it is not strided memory of %s", program.name, homes[0])
            return None
        try:
            return make()
        except Exception as error:  # whatever it is, PyTorch can run the graph
            if any(node.target in not_capturable for node in self.nodes):
                LOG.warning("%s is cut: %s: %s", program.name, type(error).__name__, error)
                self.parts = program.cut(self.nodes)
                return None
            LOG.warning("%s runs eagerly: %s: %s", program.name, type(error).__name__, error, exc_info=True)
            return None

    def run(self, env: dict[Any, Any]) -> None:
        values = [resolved(env[node]) for node in self.inputs]
        results = self.replay(values) if self.parts is None else None
        if results is not None:
            env.update(zip(self.outputs, results, strict=True))
            return
        for step in self.parts or [HostStep(self.program, node) for node in self.nodes]:
            step.run(env)

    def replay(self, values: Sequence[Any]) -> list[Any] | None:
        """What the plan for such values gives; none: there is none."""
        if not self.program.is_fixed:
            known: list[Any] = []
            segment = self.segment(values, known)
            return None if segment is None else segment.run(values)
        # Where somebody still has what the last call of the one lent, the other's results are copied.
        for lends in (True, False):
            fixed = self.fixed_segment(values, lends)
            results = None if fixed is None else fixed.run(values)
            if fixed is None or results is not None:
                return results
        raise AssertionError("a plan that lends nothing is never in use")

    def plans(self) -> list[Segment]:
        if self.parts is not None:
            return [segment for step in self.parts if isinstance(step, Piece) for segment in step.plans()]
        return [segment for segment in self.segments.values() if segment is not None]


def is_plain(value: Any, homes: Sequence[Any]) -> bool:
    return value.layout is torch.strided and value.device in homes


def stays(value: Any) -> bool:
    """Whether a value is a tensor that lives as long as a model, so that a plan may have its memory."""
    return isinstance(value, torch.nn.Parameter) or staying.get(id(value)) is value is not None


# Tensors that rota.torch.adopt was given, by identity, on devices whose plans have fixed memory.
staying: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def resolved(value: Any) -> Any:
    """A tensor whose memory has what it says: without a pending conjugation or negation."""
    if type(value) is torch.nn.Parameter or not isinstance(value, torch.Tensor):
        return value
    if value.is_neg():
        return value.resolve_neg()
    return value.resolve_conj() if value.is_conj() else value


def run_node(node: Any, env: dict[Any, Any], attributes: Any) -> None:
    if node.op == "get_attr":
        env[node] = attributes[node.target]
        return
    args, kwargs = pytree.tree_map_only(torch.fx.Node, env.__getitem__, (node.args, dict(node.kwargs)))
    env[node] = node.target(*as_eager_reads(node.target, args), **kwargs)
    if isinstance(node.target, torch._ops.OpOverload) and not node.target.is_view:
        ran_on_host[str(node.target)] += 1


def of_op(node: Any) -> Any:
    """The op of a node, or the one that gives what it picks from."""
    return of_op(node.args[0]) if node.target is operator.getitem else node.target


class HostStep:
    """A node that the calling thread runs, between plans."""

    def __init__(self, program: "Program", node: Any) -> None:
        self.program, self.node = program, node

    def run(self, env: dict[Any, Any]) -> None:
        run_node(self.node, env, self.program.attributes)


def is_update(node: Any) -> bool:
    """Whether a node gives an input its new elements, which nothing in a graph reads: the old ones are its inputs'."""
    return node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder" and not node.users


class Program:
    """A graph of PyTorch's, as plans and what the host runs between them."""

    def __init__(self, module: Any, name: str, device: Callable[[Any], Device]) -> None:
        self.name, self.device = name, device
        self.home = home_of(module.graph.nodes)
        self.is_fixed = self.home.type in FIXED
        self.module = module  # has what get_attr names
        self.attributes = Attributes(module)
        nodes = list(module.graph.nodes)
        refused = [why for node in nodes if (why := why_not(node.target, name))]
        if refused:
            raise Unsupported(refused[0])
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        (self.output,) = [node for node in nodes if node.op == "output"]
        # What the caller gets to keep; the rest is for the backward graph, or gradients.
        outputs = list(self.output.args[0])
        self.results = set(outputs[: module.meta.get(RESULTS, len(outputs))])
        self.position = {node: i for i, node in enumerate(nodes)}
        self.elsewhere = elsewhere(nodes, self.home)
        # The last thing that a call does, of all inputs that change at once.
        self.updates = [(node.args[0], node.args[1]) for node in nodes if is_update(node)]
        self.steps = self.cut([n for n in nodes if n.op not in ("placeholder", "output") and not is_update(n)])

    def cut(self, nodes: Sequence[Any]) -> list[Any]:
        """Plans as large as can be, and what the host runs between them."""
        groups: list[tuple[bool, list[Any]]] = []
        for node in nodes:
            host = is_host(node) or node in self.elsewhere or of_op(node) in not_capturable
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
            steps.append(Piece(self, group, sorted(inputs, key=self.position.__getitem__), outputs))
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
        results = [env[one] if isinstance(one, torch.fx.Node) else one for one in self.output.args[0]]
        if self.updates:
            with torch.no_grad():
                copy_all([env[old] for old, _ in self.updates], [env[new] for _, new in self.updates])
        return results

    @property
    def plans(self) -> list[Segment]:
        return [segment for step in self.steps if isinstance(step, Piece) for segment in step.plans()]


class Attributes:
    """What a graph's get_attr nodes name."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __getitem__(self, name: str) -> Any:
        return operator.attrgetter(name)(self.module)
