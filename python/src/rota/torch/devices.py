"""The devices of plans of PyTorch's graphs, and PyTorch's own memory as the devices'."""

import threading
import weakref
from typing import Any

import torch

from .._rota import Device, Tensor, open
from ..allocators import Allocator

# A kernel of PyTorch's may take its time, and is no progress to rota meanwhile.
TIMEOUT = 600.0


def words_of(real: Any) -> Any:
    """A contiguous tensor's bytes as a flat one of 32-bit words, which rota has tensors of, whatever they are."""
    flat = real.detach().contiguous().reshape(-1).view(torch.uint8)
    if flat.numel() % 4:
        flat = torch.cat([flat, flat.new_zeros(4 - flat.numel() % 4)])
    return flat.view(torch.int32)


def tensor_in(words: Any, like: Any) -> Any:
    """A tensor with a dtype, shape and strides in memory that an array of words has. It is no view of that array."""
    storage = torch.from_dlpack(words).untyped_storage()
    return torch.empty(0, dtype=like.dtype).set_(storage, 0, like.shape, like.stride())


def range_of(real: Any) -> tuple[int, int]:
    """Where a tensor's elements lie: an address, and the bytes from there to the last one's end."""
    if real.is_contiguous():
        return real.data_ptr(), real.nbytes
    if real.layout is not torch.strided or real.numel() == 0:
        return 0, 0
    last = sum((extent - 1) * stride for extent, stride in zip(real.shape, real.stride(), strict=True))
    return real.data_ptr(), (last + 1) * real.itemsize


# What a tensor's memory begins at a multiple of, to be a buffer's of rota.
ALIGNMENT = 16

# Arrays over memory that was adopted, by the tensor that has it: as long as there is one, plans find it by its address.
_shared: dict[int, Any] = {}


def can_be_adopted(real: Any) -> bool:
    address, size = range_of(real)
    return bool(real.is_contiguous()) and size != 0 and size % 4 == 0 and address % ALIGNMENT == 0


def adopted(real: Any) -> Tensor | None:
    """A tensor of the CPU's in a tensor's own memory, whole words; none: it can't be. Nothing is copied. It is
    known by its address as long as the tensor has it; plans that have it hold the memory longer."""
    if real.device.type != "cpu" or not can_be_adopted(real):
        return None
    tensor = device().adopt(words_of(real), name="adopted")
    if id(real) not in _shared:
        weakref.finalize(real, _shared.pop, id(real), None)
    _shared[id(real)] = torch.from_dlpack(tensor, copy=False)
    return tensor


# From how many bytes on a call's input is read where it lies: to make it known for the call takes about 30 us, and a
# plan's copy of less not even that.
IN_PLACE_MIN = 1 << 20


def known_for_a_call(real: Any) -> Any:
    """An array over a tensor's own memory on the CPU: as long as there is one, plans find it by its address. None: the
    tensor can't be adopted, or is copied sooner."""
    if real.device.type != "cpu" or real.nbytes < IN_PLACE_MIN or not can_be_adopted(real):
        return None
    return torch.from_dlpack(device().adopt(words_of(real), name="input"), copy=False)


class Pool:
    """PyTorch's caching allocator of CUDA devices, as a device of rota's takes one."""

    def allocate(self, size_bytes: int, device: int, stream: int) -> int:
        return int(torch.cuda.caching_allocator_alloc(size_bytes, device, stream))

    def free(self, memory: int, size_bytes: int, device: int, stream: int) -> None:
        torch.cuda.caching_allocator_delete(memory)


def allocator() -> Allocator:
    """PyTorch's pool of device memory, for `rota.open("cuda:0", allocator=rota.torch.allocator())`: what either gives
    back the other can have, and `torch.cuda.memory_allocated()` counts rota's. Raises what PyTorch does where it has no
    GPU."""
    torch.cuda.init()
    return Pool()


CPU = torch.device("cpu")

_mutex = threading.Lock()
_devices: dict[str, Device] = {}


def device(home: Any = CPU) -> Device:
    """The device of the plans of tensors on a device of PyTorch's: the CPU, or the GPU that they are on, in PyTorch's
    own context; opened when the first one is compiled."""
    name = "cpu" if home.type == "cpu" else f"{home.type}:{home.index or 0}"
    with _mutex:
        if name not in _devices or _devices[name].closed:
            _devices[name] = open(name, timeout=TIMEOUT, threads=torch.get_num_threads())
        return _devices[name]
