"""Plans on a GPU: memory that stays where it is, and PyTorch's kernels captured with its addresses."""

import contextlib
import logging
import math
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .._rota import Device, Memory, Plan, Tensor
from .devices import words_of
from .draws import Numbers, draws, without_dropout
from .kernels import Call, Layout, copy_all
from .segment import NAMES, OPERANDS_MAX, Output, Segment, id_of

LOG = logging.getLogger("rota.torch")

I32 = torch.iinfo(torch.int32)

# Ops whose kernels need neither a workspace nor memory of their own, so that they run beside others; their results, if
# they have one, are written where they are to be (INTO).
APART = {
    torch.ops.aten._fused_adam_.tensor_lr,
    torch.ops.aten._fused_adamw_.tensor_lr,
    torch.ops.aten._foreach_add_.Scalar,
    torch.ops.aten.add.Tensor,
}

# What optimizers count their steps with, one after the other and after the plan's first call: they depend on nothing,
# and as many as a GPU begins with, as large models have, what is needed first would begin after them.
COUNTING = torch.ops.aten._foreach_add_.Scalar

# Ops of which a kernel could not be captured: plans are cut there from then on.
not_capturable: set[Any] = set()


def current(home: Any) -> Any:
    """Inside, a GPU is PyTorch's current one."""
    return torch.cuda.device(home) if home.type == "cuda" else contextlib.nullcontext()


class Shared:
    """What PyTorch's kernels of all plans on a GPU have together: workspaces of libraries, and the memory of what they
    make on the way, which is PyTorch's pool's and theirs alone as long as the process lives. Each kernel's node writes
    `turn`, so that no two run at once, but those of APART."""

    def __init__(self, device: Device, home: Any) -> None:
        self.turn: Tensor = device.zeros(4, "i32", name="PyTorch's workspaces")
        with current(home):
            self.pool = torch.cuda.MemPool() if home.type == "cuda" else None


_mutex = threading.Lock()
_shared: dict[Any, tuple[Device, Shared]] = {}


def shared_by(device: Device, home: Any) -> Shared:
    with _mutex:
        if home not in _shared or _shared[home][0] is not device:
            _shared[home] = (device, Shared(device, home))
        return _shared[home][1]


class Captured:
    """A node's call on a GPU: what it puts on the stream is what every replay does."""

    def __init__(
        self, call: Call, sizes: Sequence[int], home: Any, pool: Any, numbers: Numbers | None = None
    ) -> None:
        self.call, self.sizes, self.home, self.pool = call, sizes, home, pool
        self.numbers = numbers  # where it draws some

    def __call__(self, addresses: Sequence[int], stream: int, is_trial: bool) -> None:
        drawing = contextlib.nullcontext() if self.numbers is None else self.numbers.drawn(is_trial)
        try:
            with drawing:
                self._put_on(stream, addresses, is_trial)
        except Exception:
            not_capturable.add(self.call.target)
            raise

    def _put_on(self, stream: int, addresses: Sequence[int], is_trial: bool) -> None:
        on = torch.cuda.ExternalStream(stream, device=self.home)
        # The stream's device is current inside, and what is made there the pool's. A step may be compiled inside of
        # a block of autocast, which its graph has in it already.
        with torch.cuda.stream(on), torch.cuda.use_mem_pool(self.pool, self.home), torch._C._DisableAutocast():
            if is_trial:
                self._try(addresses)
            else:
                self.call(addresses)

    def _try(self, addresses: Sequence[int]) -> None:
        """Once without a capture, so that what libraries do at their first call is done. Zeroes are indices of
        whatever there is; a kernel that does not take them may take what comes."""
        for address, size in zip(addresses, self.sizes, strict=False):
            Layout(0, size, torch.uint8, (size,), (1,), 0, self.home).tensor(address).zero_()
        try:
            without_dropout(self.call)(addresses)
        except Exception as error:
            LOG.debug("%s on zeroes: %s: %s", self.call.target, type(error).__name__, error)


# Of functions of one tensor.
ONE_ARGUMENT = pytree.tree_structure(((0,), {}))


def itself(x: Any) -> Any:
    """What brings it to its place converts it."""
    return x


def clamped(x: Any) -> Any:
    """An index that i32 has not is to stay outside of whatever it is an index of."""
    return x.clamp(I32.min, I32.max)


def span_of(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Elements from a tensor's first one to its last, with those between."""
    return 1 + sum((extent - 1) * step for extent, step in zip(shape, stride, strict=True)) if math.prod(shape) else 0


class Copied:
    """A tensor that is copied to or from a plan's memory, as it lies there, or, where it has gaps or elements more than
    once, all from its first element to its last."""

    def __init__(self, memory: Any, fake: Any) -> None:
        span = span_of(fake.shape, fake.stride())
        self.span = None if span == fake.numel() else span
        shape, stride = (fake.shape, fake.stride()) if self.span is None else ((span,), (1,))
        self.inside = memory.view(fake.dtype).as_strided(shape, stride, 0)

    def of(self, real: Any) -> Any:
        """The caller's."""
        return real if self.span is None else real.as_strided((self.span,), (1,), real.storage_offset())


class Lent:
    """Memory of a plan's that a call gives as it is, in the place of a copy: `base` is over all of it."""

    def __init__(self, device: Device, tensor: Tensor, base: Any) -> None:
        self.device, self.tensor, self.base = device, tensor, base
        self.storage = int(base.untyped_storage()._cdata)
        self.holders = torch._C._storage_Use_Count(self.storage)

    def is_free(self) -> bool:
        """Whether no tensor of anybody's is over it any more."""
        return bool(torch._C._storage_Use_Count(self.storage) == self.holders)


# What plans lend, by its address, as long as the plan that made it lives.
_lent: weakref.WeakValueDictionary[int, Lent] = weakref.WeakValueDictionary()


def lent_at(device: Device, value: Any) -> Tensor | None:
    """The plan's memory that a tensor has its elements in."""
    found = _lent.get(value.untyped_storage().data_ptr())
    if found is None or found.device is not device or int(value.untyped_storage()._cdata) != found.storage:
        return None
    return found.tensor if value.layout is torch.strided else None


def made_by(output: Any) -> list[int]:
    """What an output is made of that a call makes."""
    parts = [part for part in pytree.tree_leaves(output) if isinstance(part, Output)]
    return [part.source[1] for part in parts if part.source[0] == "made"]


# The default stream, as the driver names it.
LEGACY_STREAM = 1


def stream_number(stream: Any) -> int:
    return int(stream.cuda_stream) or LEGACY_STREAM


class FixedSegment(Segment):
    """A plan of which all that it reads and gives has its memory, PyTorch's, as long as the plan lives: kernels that a
    library launches are captured with their addresses. What a call is given is copied there, on PyTorch's current
    stream; tensors of the state, and what another plan lends, are read and changed where they are. What it gives is
    copied from there, or, where `lends` says so of an output, lent: then no call runs before everybody has let go of
    what the last one lent. A call comes after all that its thread's current stream has to do, and so after the call
    before, which that stream, or one that it then waits for, comes after; the stream then comes after the replay. It is
    the GPU that waits, and with it all else that rota's device of it is given meanwhile: nobody does on the host, and
    replays follow one another without a gap; one call runs at a time."""

    operands_max = OPERANDS_MAX - 1  # and the turn

    def __init__(self, home: Any, device: Device, *rest: Any, lends: Sequence[bool] = ()) -> None:
        self.home = home
        self.together = shared_by(device, home)
        self.fixed: dict[tuple[str, int], Any] = {}  # bytes by what they are of
        self.tensors: dict[tuple[str, int], Tensor] = {}  # of rota's, over them
        self.copied: dict[tuple[str, int], Copied] = {}  # of inputs and results, made at the first call
        self.mutex = threading.Lock()
        self.counted: int | None = None  # the last node that counts steps, or the first call
        self.last: Any = None  # the stream of the last call
        self.tickets: deque[Any] = deque()  # of calls of which it is not known how they ended
        self.numbers: Numbers | None = None  # where kernels of PyTorch's on a GPU draw some
        with current(home):
            super().__init__(device, *rest)
        self.lent = self._lend(lends)
        self.inputs = [index for kind, index in self.fixed if kind == "input"]
        self.tensors = {}

    def compile(self) -> Plan:
        # One instance: it is captured once, while it is compiled, by the thread that does that.
        try:
            strict = torch.are_deterministic_algorithms_enabled()
            return self.graph.compile(self.device, instances=1, deterministic=strict)
        finally:
            if self.numbers is not None:
                self.numbers.end()

    # ---- Memory ----

    def memory(self, size: int, source: tuple[str, int] | None) -> Memory:
        if source is None:
            return super().memory(size, None)
        kind, index = source
        if kind == "constant":
            return self.graph.memory_of(self.device.adopt(words_of(self.given[index].to(self.home)), name="constant"))
        if kind == "input" and index in self.states:
            return super().memory(size, source)
        words = torch.empty((size + 3) // 4, dtype=torch.int32, device=self.home)
        self.fixed[source] = words.view(torch.uint8)[:size]
        self.tensors[source] = self.device.adopt(words, name=kind)
        return self.graph.memory_of(self.tensors[source])

    def _base(self, real: Any, source: tuple[str, int]) -> Any:
        is_state = source[0] == "input" and source[1] in self.states
        if not is_state or not real.storage_offset() or lent_at(self.device, real) is None:
            return super()._base(real, source)
        with self.mode:  # a part of what is lent
            count = real.untyped_storage().nbytes() // real.itemsize
            whole = torch.empty(count, dtype=real.dtype, device=self.home)
            fake = whole.as_strided(real.shape, real.stride(), real.storage_offset())
        self.bases[id_of(fake)] = (source, fake)
        return fake

    def _lend(self, lends: Sequence[bool]) -> dict[int, Lent]:
        """What is made of which no output is kept, each with its own memory."""
        if not any(lends):
            return {}
        of_kept = [made_by(output) for output, is_lent in zip(self.outputs, lends, strict=True) if not is_lent]
        kept = {index for indices in of_kept for index in indices}
        found: dict[int, Lent] = {}
        for index, like in enumerate(self.made):
            if index in kept or ("made", index) not in self.fixed:
                continue
            storage = self.fixed.pop(("made", index)).untyped_storage()
            base = torch.empty(0, dtype=like.dtype, device=self.home)
            base.set_(storage, 0, like.shape, like.stride())
            del storage
            found[index] = Lent(self.device, self.tensors["made", index], base)
            _lent[base.data_ptr()] = found[index]
        return found

    # ---- Nodes ----

    def call(
        self,
        called: Call,
        reads: Sequence[Memory],
        writes: Sequence[Memory],
        updates: Sequence[Memory],
        name: str,
        after: int | None = None,
    ) -> int:
        turn = [] if called.target in APART else [self.graph.memory_of(self.together.turn)]
        function: Any = called
        if self.together.pool is not None:
            sizes = [memory.size_bytes for memory in (*reads, *writes, *updates)]
            function = Captured(called, sizes, self.home, self.together.pool, self._numbers_of(called))
        counts = called.target is COUNTING
        after = self.counted if counts else after
        index = self.graph.call_memory(function, reads, writes, [*updates, *turn], name, after)
        if counts or self.counted is None:
            self.counted = index
        return index

    def _numbers_of(self, called: Call) -> Numbers | None:
        args, kwargs = pytree.tree_unflatten(called.leaves, called.spec)
        if not draws(called.target, args, kwargs):
            return None
        self.numbers = self.numbers or Numbers(self.home)
        return self.numbers

    def convert(self, source: Memory, of: str, made: Memory, to: str, count: int) -> None:
        dtypes = {"f32": torch.float32, "i32": torch.int32} | {name: dtype for dtype, name in NAMES.items()}

        def row(memory: int, dtype: Any) -> Layout:
            return Layout(memory, count * dtype.itemsize, dtype, (count,), (1,), 0, self.home)

        target = clamped if (of, to) == ("i64", "i32") else itself
        called = Call(target, [row(0, dtypes[of])], ONE_ARGUMENT, [row(1, dtypes[to])])
        self.call(called, [source], [made], [], f"{of} to {to}")

    # ---- Calls ----

    def run(self, values: Sequence[Any]) -> list[Any] | None:
        """The outputs' values; none: what is lent is in use."""
        with self.mutex, torch.no_grad():
            if not all(lent.is_free() for lent in self.lent.values()):
                return None
            self._order()
            given = [(self._copied("input", index, values[index]), values[index]) for index in self.inputs]
            copy_all([copied.inside for copied, _ in given], [copied.of(real) for copied, real in given])
            if self.plan is not None:
                self._replay()
            return self.outputs_of({"input": values, "constant": self.given, "made": self._taken()})

    def _replay(self) -> None:
        """Comes after this thread's stream, which then comes after the replay. Where an earlier one is known to have
        failed, which that stream does not know, this is said now. What was given was copied, or is the plan's to
        hold."""
        assert self.plan is not None
        if self.home.type != "cuda":
            self.plan.run_memory([], self)
            return
        while self.tickets and self.tickets[0].done():
            self.tickets.popleft().wait()
        stream = torch.cuda.current_stream(self.home)
        if self.numbers is not None:
            with current(self.home):
                self.numbers.put()
        self.tickets.append(self.plan.run_memory([], self, stream_number(stream)))

    def _order(self) -> None:
        """Has this thread's stream wait for that of the last call, where it is another: what reads that one's results
        there, copies of them among it, comes before this one's replay."""
        if self.home.type != "cuda":
            return
        stream = torch.cuda.current_stream(self.home)
        if self.last is not None and self.last != stream:
            stream.wait_stream(self.last)
        self.last = stream

    def _copied(self, kind: str, index: int, real: Any) -> Copied:
        found = self.copied.get((kind, index))
        if found is None:
            found = self.copied[kind, index] = Copied(self.fixed[kind, index], real)
        return found

    def _taken(self) -> list[Any]:
        """What a call makes: lent, or a copy."""
        taken: list[Any] = []
        copies: list[tuple[Copied, Any]] = []
        for index, fake in enumerate(self.made):
            if index in self.lent:
                taken.append(self.lent[index].base.detach())
                continue
            taken.append(torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=self.home))
            if ("made", index) in self.fixed:
                copies.append((self._copied("made", index, fake), taken[-1]))
        copy_all([copied.of(real) for copied, real in copies], [copied.inside for copied, _ in copies])
        return taken
