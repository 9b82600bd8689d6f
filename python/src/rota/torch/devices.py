"""The device of all plans of PyTorch's graphs."""

import threading

import torch

from .._rota import Device, open

# A kernel of PyTorch's may take its time, and is no progress to rota meanwhile.
TIMEOUT = 600.0

_mutex = threading.Lock()
_device: Device | None = None


def device() -> Device:
    """The device of all plans: the CPU, opened when the first one is compiled."""
    global _device
    with _mutex:
        if _device is None or _device.closed:
            _device = open("cpu", timeout=TIMEOUT, threads=torch.get_num_threads())
        return _device
