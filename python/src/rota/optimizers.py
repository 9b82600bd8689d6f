"""Optimizers: what records a model's step, with the state it needs."""

from collections.abc import Sequence

from ._rota import Communicator, Constant, Device, Graph, Slot, Tensor, adamw, clip_global_norm, lion, sgd
from .errors import InvalidArgument


class Optimizer:
    """What all have in common: parameters, their state, and the numbers that are given at each call of the plan.

    `lr` is the default of the plan's argument `lr`; None: each call gives it.
    """

    states = 1
    counts = False

    def __init__(self, lr: float | None = None, *, clip: float | None = None) -> None:
        self.lr = lr
        self.clip = clip
        self.state: list[list[Tensor]] = []

    def minimize(
        self, graph: Graph, loss: Tensor, params: Sequence[Tensor], *, communicator: Communicator | None = None
    ) -> list[Tensor]:
        """Records the gradients of a loss, the means of all ranks' with a communicator, and the step that follows
        them; gives the gradients."""
        if not params:
            raise InvalidArgument("minimize: no parameters")
        grads = graph.backward(loss, params, communicator=communicator)
        self.step(graph, params, grads)
        return grads

    def step(self, graph: Graph, params: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
        """Records one step on gradients that there are."""
        device = graph.device
        if device is None:
            raise InvalidArgument("an optimizer's parameters are tensors of a device")
        graph.remember(False)
        if self.clip is not None:
            clip_global_norm(list(grads), self.clip)
        lr = graph.slot("lr", default=self.lr)
        count = graph.slot("step", "u32", counts=True) if self.counts else Constant(1)
        for param, grad in zip(params, grads, strict=True):
            state = [self._zeros(device, param) for _ in range(self.states)]
            self.state.append(state)
            self._update(param, grad, state, lr, count)
        graph.remember(True)

    @staticmethod
    def _zeros(device: Device, param: Tensor) -> Tensor:
        return device.zeros(param.shape, name=f"{param.name} state")

    def _update(self, param: Tensor, grad: Tensor, state: list[Tensor], lr: Slot, step: Slot | Constant) -> None:
        raise NotImplementedError


class AdamW(Optimizer):
    """AdamW (Loshchilov and Hutter, 2019). The plan counts its argument `step` from 1, unless a call gives it."""

    states = 2
    counts = True

    def __init__(
        self,
        lr: float | None = None,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        clip: float | None = None,
    ) -> None:
        super().__init__(lr, clip=clip)
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay

    def _update(self, param: Tensor, grad: Tensor, state: list[Tensor], lr: Slot, step: Slot | Constant) -> None:
        m, v = state
        adamw(param, grad, m, v, lr, step, *self.betas, self.eps, self.weight_decay)


class SGD(Optimizer):
    """SGD with momentum, as PyTorch's without dampening."""

    def __init__(
        self,
        lr: float | None = None,
        *,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        clip: float | None = None,
    ) -> None:
        super().__init__(lr, clip=clip)
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay, nesterov

    def _update(self, param: Tensor, grad: Tensor, state: list[Tensor], lr: Slot, step: Slot | Constant) -> None:
        sgd(param, grad, state[0], lr, self.momentum, self.weight_decay, self.nesterov)


class Lion(Optimizer):
    """Lion (Chen et al., 2023)."""

    def __init__(
        self,
        lr: float | None = None,
        *,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        clip: float | None = None,
    ) -> None:
        super().__init__(lr, clip=clip)
        self.betas, self.weight_decay = betas, weight_decay

    def _update(self, param: Tensor, grad: Tensor, state: list[Tensor], lr: Slot, step: Slot | Constant) -> None:
        lion(param, grad, state[0], lr, *self.betas, self.weight_decay)
