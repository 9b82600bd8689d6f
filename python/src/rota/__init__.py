"""rota runs GPU work from a task graph: ops are recorded into a graph, compiled to a plan, and replayed."""

import atexit
import os
import sys
import time

from . import errors as errors
from ._rota import *  # noqa: F403
from ._rota import Device, Tensor, open_devices
from .allocators import Allocator as Allocator
from .errors import Error as Error
from .kernels import Kernel as Kernel
from .kernels import compile_cuda as compile_cuda
from .kernels import compile_glsl as compile_glsl
from .kernels import compile_numba as compile_numba
from .optimizers import SGD as SGD
from .optimizers import AdamW as AdamW
from .optimizers import Lion as Lion
from .training import Trainer as Trainer
from .training import trainer as trainer


def from_dlpack(array: object, device: Device, *, name: str | None = None) -> Tensor:
    """A tensor on a device with a copy of an array of any library with DLPack, in host memory."""
    return device.from_dlpack(array, name=name)


def _drain(device: Device, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while device.held:
        if time.monotonic() > end:
            raise Error(f"{device!r}: submissions have not ended in {seconds} s")
        time.sleep(0.001)


# Threads of a device call into Python (callbacks, functions in graphs): none may be left when the interpreter ends.
def _close_all() -> None:
    for device in open_devices():
        try:
            if device.shared:
                # Somebody may read its memory to the end: it stays, once nothing of it runs.
                _drain(device)
            else:
                device.close()
        except Error as error:
            # It may go on calling into Python, and drivers' exit handlers may wait for it for ever.
            print(f"rota: {error}", file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)


atexit.register(_close_all)
