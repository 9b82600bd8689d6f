"""The device of all plans of PyTorch's graphs."""

import threading
from typing import Any

import torch

from .._rota import Device, open

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


_mutex = threading.Lock()
_device: Device | None = None


def device() -> Device:
    """The device of all plans: the CPU, opened when the first one is compiled."""
    global _device
    with _mutex:
        if _device is None or _device.closed:
            _device = open("cpu", timeout=TIMEOUT, threads=torch.get_num_threads())
        return _device
