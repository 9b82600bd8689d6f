"""Where a CUDA device's memory comes from."""

from typing import Protocol


class Allocator(Protocol):
    """What `rota.open(..., allocator=)` takes: device memory of an application's, so that rota's and its own come from
    one pool. Its functions are called with the interpreter's lock, with the device's context current, on threads that
    call rota and on rota's own, and call nothing of rota. `stream` is a CUDA stream of rota's, always the same: memory
    may be in use on it, and on no other one, until what is there by then is done."""

    def allocate(self, size_bytes: int, device: int, stream: int) -> int:
        """The address of new memory on the GPU of that number, a multiple of 256. None or 0, and what it raises, is
        errors.OutOfMemory of the call that wanted the memory, or of the ticket."""

    def free(self, memory: int, size_bytes: int, device: int, stream: int) -> None:
        """Takes it back: nothing of rota's uses it any more. What it raises goes to sys.unraisablehook."""
