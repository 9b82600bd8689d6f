"""The short way to train: a loss as a function, arrays to begin with, and an optimizer."""

from collections.abc import Callable, Mapping
from typing import Any

from ._rota import Communicator, Device, Tensor, all_reduce, graph
from .optimizers import Optimizer

DTYPES = {"float32": "f32", "float16": "f16", "int32": "i32", "uint32": "u32"}


class Trainer:
    """A training step as a plan. Called with a batch, it gives the loss; `params` are the tensors that it trains."""

    def __init__(
        self,
        device: Device,
        loss: Callable[..., Tensor],
        params: Mapping[str, Any],
        optimizer: Optimizer,
        batch: Mapping[str, Any],
        communicator: Communicator | None = None,
    ) -> None:
        self.params = {name: device.tensor(array, name=name) for name, array in params.items()}
        with graph(device, name="training step", communicator=communicator) as g:
            inputs = {}
            for name, array in batch.items():
                dtype = str(array.dtype).removeprefix("torch.")
                inputs[name] = g.input(name, tuple(array.shape), DTYPES.get(dtype, dtype))
            value = loss(self.params, **inputs)
            optimizer.minimize(g, value, list(self.params.values()), communicator=communicator)
            if communicator is not None:
                g.remember(False)
                value = all_reduce(value, communicator, "mean")
            g.output("loss", value)
        self.plan = g.compile()

    def submit(self, **arguments: Any) -> Any:
        """The step's ticket, without waiting; the batch is not to be changed before `ticket.wait_inputs()`."""
        return self.plan(**arguments)

    def __call__(self, **arguments: Any) -> float:
        """One step on a batch (and `lr`, if it is to be another); gives the loss before it."""
        return float(self.plan(**arguments).result()["loss"].reshape(()))

    def __repr__(self) -> str:
        return f"<rota.Trainer of {', '.join(self.params)}: {self.plan!r}>"


def trainer(
    device: Device,
    loss: Callable[..., Tensor],
    params: Mapping[str, Any],
    optimizer: Optimizer,
    *,
    communicator: Communicator | None = None,
    **batch: Any,
) -> Trainer:
    """Compiles a training step: loss(params, **batch) gives the loss of tensors like those of `batch`, an example of
    what every call gives. Parameters begin as the arrays of `params`, the same on all ranks of a communicator, each of
    which gives its part of the batch: gradients and the loss that a call gives are then the means of all."""
    return Trainer(device, loss, params, optimizer, batch, communicator)
