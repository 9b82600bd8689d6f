"""A piece of a graph of PyTorch's as a plan: what it reads and gives, where that lies, and whose kernels run."""

import logging
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.utils import _pytree as pytree

from .._rota import Device, Graph, Memory, Plan, Tensor, cast, graph
from ..errors import Error
from .devices import CPU, tensor_in, words_of
from .draws import is_random
from .kernels import Call, Layout
from .results import results_of

LOG = logging.getLogger("rota.torch")

# The library's limit of a node's accesses.
OPERANDS_MAX = 24
# What depends on no input is computed once, when a plan is compiled, up to so many bytes.
CONSTANT_BYTES_MAX = 64 << 20

DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int32: "i32"}
# What rota has no tensors of is read by its ops converted, as a whole: the dtypes that there are, and the usual one.
CONVERTED = {torch.bool: ("f32",), torch.int64: ("i32", "f32")}
NAMES = {torch.bool: "bool", torch.int64: "i64"}

said: set[str] = set()
ran_on_rota: Counter[str] = Counter()
ran_on_torch: Counter[str] = Counter()


# Ops whose result's elements are each made of those at its place: lower.py says which.
EACH: set[Any] = set()


class NotLowered(Exception):
    """rota has no op for this; PyTorch's kernel runs."""


def id_of(tensor: Any) -> int:
    """The storage of a fake tensor, the same for all views of it."""
    return int(tensor.untyped_storage()._cdata)


def bytes_of(tensor: Any) -> int:
    return int(tensor.untyped_storage().nbytes())


def layout_of(tensor: Any) -> tuple[Any, ...]:
    return tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset())


def signature_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride(), value.dtype
    return value


def is_changing(target: Any) -> bool:
    """Whether an op writes to arguments."""
    return isinstance(target, torch._ops.OpOverload) and bool(target._schema.is_mutable)


def changed_by(target: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that an op writes to."""
    changed: list[Any] = []
    for i, argument in enumerate(target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            changed += tensors_of(args[i] if i < len(args) else kwargs.get(argument.name))
    return changed


def out_of_place(target: Any) -> Any:
    """The op that computes what an op in place does; copy_ is one of its own."""
    name = target._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    if not name.endswith("_") or name == "copy_" or packet is None:
        return target
    return getattr(packet, target._overloadname, None)


def tensors_of(value: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def by_storage(tensors: Iterable[Any]) -> dict[int, Any]:
    """One tensor for each storage that has a byte."""
    return {id_of(tensor): tensor for tensor in tensors if bytes_of(tensor)}


def is_in(leaf: Any, storages: Mapping[int, Any]) -> bool:
    return isinstance(leaf, torch.Tensor) and id_of(leaf) in storages


def is_dense(tensor: Any) -> bool:
    """Whether it has all elements of its storage, each once."""
    expected = 1
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return bool(expected * tensor.itemsize == bytes_of(tensor))


def order_of(result: Any) -> list[int] | None:
    """A dense tensor's axes from the longest stride to the shortest, in which it is contiguous; none: as it is."""
    if not isinstance(result, torch.Tensor) or result.dim() < 2 or result.is_contiguous() or not is_dense(result):
        return None
    return sorted(range(result.dim()), key=lambda i: (-result.stride(i), i))


def ordered(fake: Any, order: Sequence[int] | None) -> tuple[list[int], list[int]]:
    """A tensor's shape and strides, with its axes, and leading ones that a broadcast would add, in an order."""
    shape, stride = list(fake.shape), list(fake.stride())
    if order is None:
        return shape, stride
    missing = len(order) - len(shape)
    shape, stride = [1] * missing + shape, [0] * missing + stride
    return [shape[i] for i in order], [stride[i] for i in order]


def is_row_major(shape: Sequence[int], stride: Sequence[int]) -> bool:
    expected = 1
    for extent, step in zip(reversed(shape), reversed(stride), strict=True):
        if extent > 1 and step != expected:
            return False
        expected *= extent
    return True


def used_of(node: Any, results: Any) -> Any:
    """An op's results, with None for those of several that nobody picks."""
    if not isinstance(results, tuple | list) or any(user.target is not operator.getitem for user in node.users):
        return results
    picked = {user.args[1] for user in node.users}
    return [one if i in picked or not isinstance(one, torch.Tensor) else None for i, one in enumerate(results)]


class Storage:
    """What a storage of PyTorch's is in a plan: bytes in its own dtype, and elements converted, each once needed."""

    def __init__(self, segment: "Segment", fake: Any, source: tuple[str, int] | None, real: Any = None) -> None:
        self.segment = segment
        self.dtype = fake.dtype
        self.bytes = bytes_of(fake)
        self.count = self.bytes // fake.dtype.itemsize
        self.source = source
        self.real = real
        self.converted: dict[str, Memory] = {}
        # What a call gives has its memory at once, so that what is made in rota's dtypes need not be there before.
        self.own = segment.memory(self.bytes, source) if source else None

    def make(self) -> Memory:
        """The bytes in the storage's own dtype, to be written."""
        if self.own is None:
            self.own = self.segment.memory(self.bytes, None)
        return self.own

    def memory(self) -> Memory:
        """The bytes in the storage's own dtype, as PyTorch's kernels read them."""
        if self.own is None or self.is_owed:
            name, made = next(iter(self.converted.items()))
            self.segment.convert(made, name, self.make(), NAMES[self.dtype], self.count)
            self.is_owed = False
        assert self.own is not None
        return self.own

    is_changed = False  # an op in place writes it, so that what is converted is right for a while only
    is_owed = False  # the own memory is there, but only what is converted was written

    def as_dtype(self, name: str) -> Memory:
        """All elements in a dtype of rota's."""
        if DTYPES.get(self.dtype) == name:
            return self.memory()
        if name not in CONVERTED.get(self.dtype, ()):
            raise NotLowered
        if self.is_changed:
            return self.segment.converted(self, name)
        if name not in self.converted:
            self.converted[name] = self.segment.converted(self, name)
        return self.converted[name]

    def destination(self) -> Memory:
        """Where rota's ops write the elements: in the own dtype, or as what is converted when somebody asks."""
        if self.dtype in DTYPES:
            return self.make()
        if self.is_changed:
            raise NotLowered
        name = CONVERTED[self.dtype][0]
        self.is_owed = True
        if name not in self.converted:
            self.converted[name] = self.segment.memory(self.count * 4, None)
        return self.converted[name]


def written_of(storage: Storage) -> Memory:
    """The bytes that a kernel of PyTorch's writes, whatever was begun otherwise."""
    storage.is_owed = False
    storage.converted.clear()
    return storage.make()


class Output:
    """How a result of a segment is made of what a call has: an input, a constant or memory of this call's."""

    def __init__(self, source: tuple[str, int], fake: Any, base: Any) -> None:
        self.source = source
        self.whole = layout_of(fake) == layout_of(base)
        self.shape, self.stride, self.offset = layout_of(fake)
        self.offset -= int(base.storage_offset())  # from where the tensor begins that a call has

    def of(self, bases: Mapping[str, Sequence[Any]]) -> Any:
        base = bases[self.source[0]][self.source[1]]
        if self.source[0] == "constant":
            base = base.clone()  # whoever gets it may write to it
        if self.whole:
            return base
        return torch.as_strided(base, self.shape, self.stride, self.offset + base.storage_offset())


class Segment:
    """A plan of nodes of an FX graph for inputs of certain shapes. Immutable once it is made; any thread may run it."""

    home = CPU  # the device that PyTorch has the tensors on
    operands_max = OPERANDS_MAX

    def __init__(
        self,
        device: Device,
        nodes: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        attributes: Any,
        values: Sequence[Any],
        lowered: Mapping[Any, Any],
        name: str,
        shared: Sequence[bool],
        states: Mapping[int, Tensor] | None = None,
    ) -> None:
        """`shared`: which inputs lie in memory that the device shares; others are copied into the plan's at each call.
        `states`: inputs that are tensors of the device's, by place. They may be written to."""
        self.device = device
        self.shared = shared
        self.states = dict(states or {})
        self.lowered = lowered
        self.attributes = attributes
        self.env: dict[Any, Any] = {}
        # Of storages that a call gives: where from, and what is known of the tensor.
        self.bases: dict[int, tuple[tuple[str, int], Any]] = {}
        self.storages: dict[int, Storage] = {}
        self.constants: dict[Any, Any] = {}  # by node
        self.given: list[Any] = []  # constants, which every call has
        self.made: list[Any] = []  # what a call makes: fake tensors
        self.sources: list[tuple[str, int]] = []  # of each address of a call
        self.live: set[int] = set()
        self.changed: set[Any] = set()  # nodes whose results an op in place writes to
        self.changed_ids: set[int] = set()
        self.last_random: int | None = None
        self.order: list[int] | None = None  # of operands' axes, in which the op's result is contiguous
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.graph: Graph = graph(device, name=name, gradients=False)
        self.plan: Plan | None = None
        with torch.no_grad(), self.graph:
            self._imagine_all(nodes, inputs, values)
            self.live = {id_of(fake) for node in outputs for fake in tensors_of(self.env[node])}
            for node in nodes:
                self._record(node)
            self.outputs = [pytree.tree_map_only(torch.Tensor, self._output, self.env[node]) for node in outputs]
        if self.graph.node_count:
            self.plan = self.compile()
        # What was only needed to record; the functions of nodes hold no segment.
        self.env, self.storages, self.constants, self.bases = {}, {}, {}, {}

    def compile(self) -> Plan:
        return self.graph.compile(self.device, deterministic=torch.are_deterministic_algorithms_enabled())

    # ---- What there is ----

    def memory(self, size: int, source: tuple[str, int] | None) -> Memory:
        """Bytes of the plan; with a source they are given by each call."""
        if source is None:
            return self.graph.memory("transient", "transient", size)
        if source[0] == "constant":
            return self.graph.memory_of(self.device.tensor(words_of(self.given[source[1]]), name="constant"))
        if source[0] == "input" and source[1] in self.states:
            return self.graph.memory_of(self.states[source[1]])
        kind = "slot" if source[0] == "made" or self.shared[source[1]] else "input"
        self.sources.append(source)
        return self.graph.memory(kind, f"{kind} {len(self.sources)}", size)

    def _base(self, real: Any, source: tuple[str, int]) -> Any:
        with self.mode:
            fake = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype, device=self.home)
        self.bases[id_of(fake)] = (source, fake)
        return fake

    def constant_of(self, real: Any) -> Any:
        self.given.append(real.detach().contiguous())
        return self._base(self.given[-1], ("constant", len(self.given) - 1))

    def _imagine_all(self, nodes: Sequence[Any], inputs: Sequence[Any], values: Sequence[Any]) -> None:
        """What an op in place writes to is found first: it is no constant, whatever it is made of."""
        changing = [node for node in nodes if node.op != "get_attr" and is_changing(node.target)]
        self.changed = set(nodes) if changing else set()
        for _ in range(2 if changing else 1):
            self.bases.clear()
            self.constants.clear()
            self.given.clear()
            for index, (node, value) in enumerate(zip(inputs, values, strict=True)):
                self.env[node] = self._base(value, ("input", index)) if isinstance(value, torch.Tensor) else value
            for node in nodes:
                self._imagine(node)
            self.changed_ids = {
                id_of(fake) for node in changing for fake in changed_by(node.target, *self.given_to(node))
            }
            self.changed = {
                node for node in nodes if any(id_of(fake) in self.changed_ids for fake in tensors_of(self.env[node]))
            }

    def given_to(self, node: Any) -> tuple[Any, Any]:
        """A node's arguments, with fake tensors."""
        args, kwargs = pytree.tree_map_only(torch.fx.Node, self.env.__getitem__, (node.args, dict(node.kwargs)))
        return args, kwargs

    def _imagine(self, node: Any) -> None:
        """Shapes, strides and aliases of a node's results; the results themselves where no input plays a part."""
        if node.op == "get_attr":
            self._set_constant(node, self.attributes[node.target])
            return
        args, kwargs = self.given_to(node)
        with self.mode:
            self.env[node] = results_of(node.target, args, kwargs)
        fakes = tensors_of(self.env[node])
        is_known = all(n in self.constants or not tensors_of(self.env[n]) for n in node.all_input_nodes)
        if (
            not fakes
            or not is_known
            or node in self.changed
            or is_random(node.target)
            or sum(map(bytes_of, fakes)) > CONSTANT_BYTES_MAX
        ):
            return
        given = (node.args, dict(node.kwargs))
        args, kwargs = pytree.tree_map_only(torch.fx.Node, lambda n: self.constants.get(n, self.env[n]), given)
        with unset_fake_temporarily():
            self._set_constant(node, node.target(*args, **kwargs))

    def _set_constant(self, node: Any, value: Any) -> None:
        self.constants[node] = value
        self.env[node] = pytree.tree_map_only(torch.Tensor, self.constant_of, value)

    def storage(self, fake: Any) -> Storage:
        """What a fake tensor's storage is in the plan."""
        key = id_of(fake)
        if key not in self.storages:
            source, base = self.bases.get(key, (None, fake))
            if source is None and key in self.live:
                source, base = self._make(fake)
            real = self.given[source[1]] if source and source[0] == "constant" else None
            self.storages[key] = Storage(self, base, source, real)
            self.storages[key].is_changed = key in self.changed_ids
        return self.storages[key]

    def converted(self, storage: Storage, name: str) -> Memory:
        """All elements of a storage in another dtype: a node, or, of a constant, another constant."""
        if storage.real is not None:
            real = storage.real.reshape(-1)
            return self.storage(self.constant_of(real.to(torch.int32 if name == "i32" else torch.float32))).memory()
        made = self.memory(storage.count * 4, None)
        self.convert(storage.memory(), NAMES[storage.dtype], made, name, storage.count)
        return made

    def convert(self, source: Memory, of: str, made: Memory, to: str, count: int) -> None:
        """A node that converts so many elements."""
        self.graph.convert_memory(source, of, made, to)

    # ---- Operands ----

    def read(self, fake: Any, dtype: str | None = None) -> Tensor:
        """A tensor as an operand of rota's ops: in a dtype, or in its own."""
        names = CONVERTED.get(fake.dtype, (DTYPES.get(fake.dtype),))
        name = dtype if dtype in names else names[0]
        if name is None or fake.numel() == 0:
            raise NotLowered
        memory = self.storage(fake).as_dtype(name)
        tensor = memory.view(name, *ordered(fake, self.order), int(fake.storage_offset()))
        return tensor if dtype in (None, name) else cast(tensor, str(dtype))

    def write(self, fake: Any) -> Tensor:
        """A result of an op as its destination."""
        name = DTYPES.get(fake.dtype) or CONVERTED.get(fake.dtype, (None,))[0]
        is_there = id_of(fake) in self.bases or id_of(fake) in self.storages  # an op in place writes to a part, maybe
        if name is None or fake.numel() == 0 or not (is_there or is_dense(fake)):
            raise NotLowered
        memory = self.storage(fake).destination()
        return memory.view(name, *ordered(fake, self.order), int(fake.storage_offset()))

    def number(self, value: Any) -> float | None:
        """A Python number, or what a constant of one element has."""
        if isinstance(value, bool | int | float):
            return float(value)
        if not isinstance(value, torch.Tensor) or value.dim() != 0:
            return None
        source, base = self.bases.get(id_of(value), (("none", 0), value))
        if source[0] != "constant" or base.numel() != 1 or base.is_complex():
            return None
        return float(self.given[source[1]])

    def constant(self, number: float, dtype: str) -> Tensor:
        kind = next(key for key, name in DTYPES.items() if name == dtype)
        return self.read(self.constant_of(torch.tensor([number], dtype=kind)))

    # ---- Nodes ----

    def _record(self, node: Any) -> None:
        results = tensors_of(self.env[node])
        is_in_place = node.op != "get_attr" and is_changing(node.target)
        is_there = all(id_of(fake) in self.storages or id_of(fake) in self.bases for fake in results)
        if node in self.constants or (is_there and not is_in_place):
            return  # computed already, a view, or no tensor
        name = str(node.target)
        args, kwargs = self.given_to(node)
        target = out_of_place(node.target) if is_in_place else node.target
        lower = self.lowered.get(target)
        if lower is not None and all(fake.dim() <= 8 for fake in [*results, *tensors_of((args, kwargs))]):
            self.graph.name_nodes(name)
            self.order = order_of(self.env[node]) if target in EACH else None
            try:
                lower(self, node, self.env[node], *args, **kwargs)
            except (NotLowered, Error) as error:
                LOG.debug("%s: rota's op is not taken: %s", name, error)
            else:
                ran_on_rota[name] += 1
                return
            finally:
                self.order = None
        self._call(node.target, name, args, kwargs, used_of(node, self.env[node]))

    def _call(self, target: Any, name: str, args: Any, kwargs: Any, results: Any) -> None:
        """A node that calls PyTorch's kernel."""
        changed = changed_by(target, args, kwargs) if is_changing(target) else []
        updated = {id_of(fake) for fake in changed}
        leaves, spec = pytree.tree_flatten((args, kwargs))
        reads = by_storage(leaf for leaf in tensors_of(leaves) if id_of(leaf) not in updated)
        written = by_storage(leaf for leaf in tensors_of(results) if id_of(leaf) not in updated | reads.keys())
        updates = by_storage(changed)
        if not written and not updates:
            return  # no element to write
        order = {key: i for i, key in enumerate([*reads, *written, *updates])}
        if len(order) > self.operands_max:
            raise NotLowered(f"{name} has {len(order)} operands; a node has at most {self.operands_max}")

        def layout_of_leaf(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            shape, stride, offset = layout_of(leaf)
            memory = order.get(id_of(leaf), 0)
            return Layout(memory, bytes_of(leaf), leaf.dtype, shape, stride, offset, self.home)

        def is_result(leaf: Any) -> bool:
            return isinstance(leaf, torch.Tensor) and (is_in(leaf, written) or bytes_of(leaf) == 0)

        outs = [layout_of_leaf(leaf) if is_result(leaf) else None for leaf in pytree.tree_leaves(results)]
        index = self.call(
            Call(target, [layout_of_leaf(leaf) for leaf in leaves], spec, outs),
            [self.storage(fake).memory() for fake in reads.values()],
            [written_of(self.storage(fake)) for fake in written.values()],
            [self.storage(fake).memory() for fake in updates.values()],
            name,
            self.last_random if is_random(target) else None,
        )
        if is_random(target):
            self.last_random = index
        ran_on_torch[name] += 1
        if name not in said:
            said.add(name)
            LOG.info("%s runs on PyTorch's kernel: rota has no op for it, or not for these dtypes", name)

    def call(
        self,
        called: Call,
        reads: Sequence[Memory],
        writes: Sequence[Memory],
        updates: Sequence[Memory],
        name: str,
        after: int | None = None,
    ) -> int:
        """A node that calls a function of Python's; gives its index."""
        return self.graph.call_memory(called, reads, writes, updates, name, after)

    # ---- Calls ----

    def _output(self, fake: Any) -> Output:
        if fake.numel() and self.bases.get(id_of(fake), (("made", 0), None))[0][0] == "made":
            self.storage(fake).memory()
        elif id_of(fake) not in self.bases:
            self._make(fake)
        source, base = self.bases[id_of(fake)]
        return Output(source, fake, base)

    def _make(self, fake: Any) -> tuple[tuple[str, int], Any]:
        """A storage that each call makes: as the tensor, if that has all of it, else flat."""
        is_whole = is_dense(fake) and fake.storage_offset() == 0
        base = fake if is_whole else fake.as_strided((bytes_of(fake) // fake.itemsize,), (1,), 0)
        self.bases[id_of(fake)] = (("made", len(self.made)), base)
        self.made.append(base)
        return self.bases[id_of(fake)]

    def _new(self, like: Any) -> Any:
        size = bytes_of(like)
        return (
            tensor_in(self.device.new_memory(size), like)
            if size
            else torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
        )

    def run(self, values: Sequence[Any]) -> list[Any] | None:
        """The outputs' values, once the replay has ended; none: it can't be run now."""
        made = [self._new(base) for base in self.made]
        bases = {"input": values, "constant": self.given, "made": made}
        if self.plan is not None:
            self.plan.run_memory([bases[kind][index].data_ptr() for kind, index in self.sources], bases)
        return self.outputs_of(bases)

    def outputs_of(self, bases: Mapping[str, Sequence[Any]]) -> list[Any]:
        return [
            output.of(bases)
            if isinstance(output, Output)
            else pytree.tree_map_only(Output, lambda one: one.of(bases), output)
            for output in self.outputs
        ]
