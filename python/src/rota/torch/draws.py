"""Random numbers of plans: which ops draw some, and where their kernels on a GPU find seed and offset."""

import contextlib
import copy
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .kernels import Call

# PyTorch's attention. What it gives beside its results is for dropout, and in the host's memory but in a capture.
ATTENTION = "aten::_scaled_dot_product"


def is_random(target: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def is_attention(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.name.startswith(ATTENTION)


def position_of_dropout(target: Any) -> int | None:
    """Which argument of an attention's is the share that dropout makes zero."""
    names = [argument.name for argument in target._schema.arguments]
    return names.index("dropout_p") if is_attention(target) and "dropout_p" in names else None


def draws(target: Any, args: Sequence[Any], kwargs: Any) -> bool:
    """Whether an op draws random numbers: attention does so only with dropout."""
    if not is_random(target):
        return False
    position = position_of_dropout(target)
    if position is None:
        return True
    dropout = args[position] if position < len(args) else kwargs.get("dropout_p", 0.0)
    return bool(dropout != 0)


def without_dropout(call: Call) -> Call:
    """A call as it may be tried without a capture: there PyTorch's attention looks for its dropout's seed and offset in
    the host's memory, where a plan's are not."""
    position = position_of_dropout(call.target)
    if position is None:
        return call
    args, kwargs = pytree.tree_unflatten(call.leaves, call.spec)
    if position < len(args):
        args = (*args[:position], 0.0, *args[position + 1 :])
    elif "dropout_p" in kwargs:
        kwargs = {**kwargs, "dropout_p": 0.0}
    tried = copy.copy(call)
    tried.leaves = pytree.tree_leaves((args, kwargs))
    return tried


def as_eager_reads(target: Any, args: Any) -> Any:
    """An op's arguments where no plan calls it: attention's seed and offset, which a plan has left on the GPU, in the
    host's memory."""
    if not is_attention(target):
        return args
    return [
        one.cpu() if isinstance(one, torch.Tensor) and one.dim() == 0 and one.dtype is torch.int64 else one
        for one in args
    ]


def generator_of(home: Any) -> Any:
    """What PyTorch's kernels on a device draw from, unless they are given something else."""
    if home.type != "cuda":
        return torch.default_generator
    torch.cuda.init()
    return torch.cuda.default_generators[torch.cuda.current_device() if home.index is None else home.index]


# A GPU's generator has one state, which is exchanged for a moment, or moved on.
_mutex = threading.Lock()


@contextlib.contextmanager
def exchanged(generator: Any, state: Any) -> Iterator[None]:
    """Inside, a generator has the state of another."""
    with _mutex:
        before = generator.graphsafe_get_state()
        generator.graphsafe_set_state(state)
        try:
            yield
        finally:
            generator.graphsafe_set_state(before)


class Numbers:
    """What the kernels of a plan on a GPU draw from, as in PyTorch's own CUDA graphs: those that are captured read seed
    and offset from the GPU's memory, and add what those of the same plan before them have drawn. PyTorch lets a kernel
    do so while a graph of its own is captured, and writes the two words where that graph is replayed. So there is one,
    of nothing to speak of, that is captured meanwhile, on a stream of its own, and replayed before each replay of the
    plan. The words are this plan's alone, so that plans on other streams may run at the same time.

    A capture lasts from the first such kernel's to the end of the plan's compilation; a kernel's trial before draws
    from a state that nobody else has. Another thread that draws on this GPU in just the moment in which a kernel is
    captured gets PyTorch's error for that, as beside each of PyTorch's captures."""

    def __init__(self, home: Any) -> None:
        self.default = generator_of(home)
        self.own, self.trial = torch.Generator(home), torch.Generator(home)
        self.graph, self.stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(home)
        self.word = torch.zeros(1, device=home)
        self.is_begun = self.is_complete = False

    @contextlib.contextmanager
    def drawn(self, is_trial: bool) -> Iterator[None]:
        """Inside, a kernel is captured, or tried."""
        if not is_trial and not self.is_begun:
            self._begin()
        if not is_trial and self.is_complete:
            raise RuntimeError("a kernel that draws random numbers is captured after its plan was compiled")
        with exchanged(self.default, self.trial if is_trial else self.own):
            yield

    def _begin(self) -> None:
        # A graph's capture is that of the state which the generator has there.
        with exchanged(self.default, self.own), torch.cuda.stream(self.stream):
            self.graph.register_generator_state(self.own)
            self.graph.capture_begin(capture_error_mode="relaxed")
        self.is_begun = True

    def end(self) -> None:
        """Nothing is captured any more."""
        self.is_complete = True
        if not self.is_begun:
            return
        with torch.cuda.stream(self.stream):
            self.word.zero_()  # a graph of nothing at all is a warning
            self.graph.capture_end()
        self.stream.synchronize()  # the beginning wrote the words, too

    def put(self) -> None:
        """Has the next replay on PyTorch's current stream draw what the generator gives next, which then goes on behind
        it."""
        if not self.is_begun:
            return
        with _mutex:
            self.own.manual_seed(self.default.initial_seed())
            self.own.set_offset(self.default.get_offset())
            self.graph.replay()
            self.default.set_offset(self.own.get_offset())
