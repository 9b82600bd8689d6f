"""Tensors that live across captured steps, in memory that plans write to."""

from typing import Any

import torch

from .._rota import Device, Tensor
from .devices import adopted, can_be_adopted, device, tensor_in, words_of
from .program import FIXED


class Uncapturable(Exception):
    """Why a step is no plan; it runs eagerly."""


class State:
    """A tensor that lives across steps: its memory is a tensor's of the device, which plans write to. Where it can't
    be, the elements are moved into memory of the device's, which PyTorch's tensor then is a view of."""

    def __init__(self, real: Any, device: Device | None) -> None:
        """On a device; none: on that which PyTorch's tensors on the CPU have."""
        self.real, self.device = real, device
        self.tensor: Tensor | None = None
        self.memory: Any = None

    def is_there(self) -> bool:
        """Whether plans that have the tensor write where PyTorch's has its elements."""
        return self.tensor is not None and memory_of(self.real) == self.memory

    def adopt(self, home: Any) -> Tensor:
        if self.tensor is None or not self.is_there():
            real = self.real
            if not has_each_once(real) or real.device != home or real.numel() == 0:
                raise Uncapturable(
                    f"a tensor of the state is {real.dtype} {tuple(real.shape)} by {real.stride()} on {real.device}: "
                    f"expected one on {home} that has elements, each once and without gaps"
                )
            if home.type in FIXED or self.device is not None or not real.is_contiguous():
                self.tensor = self._adopt_on(self.device or device(home))
            else:
                self.tensor = adopted(self.real)
                if self.tensor is None:
                    self.tensor = self._move()
            self.memory = memory_of(self.real)
        return self.tensor

    def _adopt_on(self, on: Device) -> Tensor:
        real, flat = self.real, in_memory_order(self.real)
        if not can_be_adopted(flat):
            if on.id == "cpu":
                return self._move(on)
            moved = words_of(flat.clone())
            storage = moved.untyped_storage()
            real.data = torch.empty(0, dtype=real.dtype, device=real.device).set_(storage, 0, real.shape, real.stride())
            return on.adopt(moved, name="state")
        return on.adopt(words_of(flat), name="state")

    def _move(self, on: Device | None = None) -> Tensor:
        real = self.real
        tensor = (on or device()).tensor(words_of(in_memory_order(real)), name="state")
        words = torch.from_dlpack(tensor, copy=False)
        with torch.no_grad():
            real.data = tensor_in(words, real)
        return tensor


def has_each_once(real: Any) -> bool:
    """Whether its elements lie next to one another, in whichever order of its axes."""
    if real.layout is not torch.strided:
        return False
    expected = 1
    for stride, extent in sorted(zip(real.stride(), real.shape, strict=True)):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


def in_memory_order(real: Any) -> Any:
    """All of such a tensor's elements as they lie, with one axis."""
    return real.detach().as_strided((real.numel(),), (1,), real.storage_offset())


def memory_of(real: Any) -> tuple[Any, ...]:
    return real.data_ptr(), real.shape, real.stride()
