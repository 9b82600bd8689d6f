"""Plans on a GPU: memory that stays where it is, and PyTorch's kernels captured with its addresses."""

import contextlib
import logging
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .._rota import Device, Memory, Plan, Tensor
from .devices import words_of
from .kernels import Call, Layout
from .segment import NAMES, OPERANDS_MAX, Segment

LOG = logging.getLogger("rota.torch")

I32 = torch.iinfo(torch.int32)

# Ops of which a kernel could not be captured: plans are cut there from then on.
not_capturable: set[Any] = set()


def current(home: Any) -> Any:
    """Inside, a GPU is PyTorch's current one."""
    return torch.cuda.device(home) if home.type == "cuda" else contextlib.nullcontext()


class Shared:
    """What PyTorch's kernels of all plans on a GPU have together: workspaces of libraries, and the memory of what they
    make on the way, which is PyTorch's pool's and theirs alone as long as the process lives. Each kernel's node writes
    `turn`, so that no two run at once."""

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

    def __init__(self, call: Call, sizes: Sequence[int], home: Any, pool: Any) -> None:
        self.call, self.sizes, self.home, self.pool = call, sizes, home, pool

    def __call__(self, addresses: Sequence[int], stream: int, is_trial: bool) -> None:
        on = torch.cuda.ExternalStream(stream, device=self.home)
        # The stream's device is current inside, and what is made there the pool's. A step may be compiled inside of
        # a block of autocast, which its graph has in it already.
        with torch.cuda.stream(on), torch.cuda.use_mem_pool(self.pool, self.home), torch._C._DisableAutocast():
            if is_trial:
                self._try(addresses)
                return
            try:
                self.call(addresses)
            except Exception:
                not_capturable.add(self.call.target)
                raise

    def _try(self, addresses: Sequence[int]) -> None:
        """Once without a capture, so that what libraries do at their first call is done. Zeroes are indices of
        whatever there is; a kernel that does not take them may take what comes."""
        for address, size in zip(addresses, self.sizes, strict=False):
            Layout(0, size, torch.uint8, (size,), (1,), 0, self.home).tensor(address).zero_()
        try:
            self.call(addresses)
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


def flat(real: Any, count: int) -> Any:
    """All elements from a tensor's first one to its last, with those between."""
    return real.as_strided((count,), (1,), real.storage_offset())


class FixedSegment(Segment):
    """A plan of which all that it reads and gives has its memory, PyTorch's, as long as the plan lives: kernels that a
    library launches are captured with their addresses. What a call is given is copied there, on PyTorch's current
    stream, and what it gives from there; tensors of the state are read and changed where they are. A call comes after
    all that its thread's current stream has to do, which it waits for, without the interpreter's lock, and has ended
    when it returns; one call runs at a time."""

    operands_max = OPERANDS_MAX - 1  # and the turn

    def __init__(self, home: Any, device: Device, *rest: Any) -> None:
        self.home = home
        self.together = shared_by(device, home)
        self.fixed: dict[tuple[str, int], Any] = {}  # bytes by what they are of
        self.mutex = threading.Lock()
        self.copied: Any = None  # an event: behind the copies of the last call's results
        with current(home):
            super().__init__(device, *rest)

    def compile(self) -> Plan:
        # One instance: it is captured once, while it is compiled, by the thread that does that.
        return self.graph.compile(self.device, instances=1)

    # ---- Memory ----

    def memory(self, size: int, source: tuple[str, int] | None) -> Memory:
        if source is None:
            return super().memory(size, None)
        kind, index = source
        if kind == "constant":
            return self._adopted(words_of(self.given[index].to(self.home)), "constant")
        if kind == "input" and index in self.states:
            return super().memory(size, source)
        words = torch.empty((size + 3) // 4, dtype=torch.int32, device=self.home)
        self.fixed[source] = words.view(torch.uint8)[:size]
        return self._adopted(words, kind)

    def _adopted(self, words: Any, name: str) -> Memory:
        return self.graph.memory_of(self.device.adopt(words, name=name))

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
        turn = self.graph.memory_of(self.together.turn)
        function: Any = called
        if self.together.pool is not None:
            sizes = [memory.size_bytes for memory in (*reads, *writes, *updates)]
            function = Captured(called, sizes, self.home, self.together.pool)
        return self.graph.call_memory(function, reads, writes, [*updates, turn], name, after)

    def convert(self, source: Memory, of: str, made: Memory, to: str, count: int) -> None:
        dtypes = {"f32": torch.float32, "i32": torch.int32} | {name: dtype for dtype, name in NAMES.items()}

        def row(memory: int, dtype: Any) -> Layout:
            return Layout(memory, count * dtype.itemsize, dtype, (count,), (1,), 0, self.home)

        target = clamped if (of, to) == ("i64", "i32") else itself
        called = Call(target, [row(0, dtypes[of])], ONE_ARGUMENT, [row(1, dtypes[to])])
        self.call(called, [source], [made], [], f"{of} to {to}")

    # ---- Calls ----

    def run(self, values: Sequence[Any]) -> list[Any]:
        with self.mutex, torch.no_grad():
            if self.copied is not None:
                self.copied.synchronize()
            for (kind, index), memory in self.fixed.items():
                if kind == "input":
                    elements = memory.view(values[index].dtype)
                    elements.copy_(flat(values[index], elements.numel()))
            if self.home.type == "cuda":
                torch.cuda.current_stream(self.home).synchronize()
            if self.plan is not None:
                self.plan.run_memory([], [*values, self])
            made = [self._taken(index) for index in range(len(self.made))]
            if self.home.type == "cuda":
                self.copied = torch.cuda.current_stream(self.home).record_event()
        return self.outputs_of({"input": values, "constant": self.given, "made": made})

    def _taken(self, index: int) -> Any:
        like = self.made[index]
        made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=self.home)
        if ("made", index) in self.fixed:
            elements = self.fixed["made", index].view(like.dtype)
            flat(made, elements.numel()).copy_(elements)
        return made
