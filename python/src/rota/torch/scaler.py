"""torch.amp.GradScaler in a step that is one plan. A plan has no step that is not done: one that the scaler skips is
done, and what it changed has what it had before."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler, _refresh_per_optimizer_state

__all__ = ["GradScaler", "check_and_unscale", "settings_of", "swapped", "tensors_of"]


def tensors_of(scaler: GradScaler) -> list[Any]:
    """What it keeps from step to step: nothing before its first one."""
    return [one for one in (scaler._scale, scaler._growth_tracker) if one is not None]


def settings_of(scaler: GradScaler) -> tuple[Any, ...]:
    """What is fixed in a plan."""
    return scaler._growth_factor, scaler._backoff_factor, scaler._growth_interval


def check_and_unscale(grads: Sequence[Any], found_inf: Any, inverse_scale: Any) -> None:
    """Of aten._amp_foreach_non_finite_check_and_unscale_: each gradient by itself. What is no number is not at most
    the largest one, either."""
    filled = [grad for grad in grads if grad.numel()]
    finite = [(grad.abs() <= torch.finfo(grad.dtype).max).to(found_inf.dtype).amin() for grad in filled]
    if finite:
        found_inf.copy_(torch.maximum(found_inf, 1 - torch.stack(finite).amin()))
    for grad in filled:
        grad.mul_(inverse_scale)


def step_or_keep(optimizer: Any, state: dict[str, Any], *args: Any, **kwargs: Any) -> None:
    """In the place of GradScaler's own, which asks for the value."""
    is_skipped = sum(state["found_inf_per_device"].values()) != 0
    tensors = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for values in optimizer.state.values():
        tensors += [value for value in values.values() if isinstance(value, torch.Tensor)]
    before = [tensor.detach().clone() for tensor in tensors]
    optimizer.step(*args, **kwargs)
    with torch.no_grad():
        for tensor, old in zip(tensors, before, strict=True):
            tensor.copy_(torch.where(is_skipped, old, tensor))


@contextlib.contextmanager
def swapped(scaler: GradScaler, of: dict[int, Any]) -> Iterator[None]:
    """Inside, a scaler has what is traced in the place of its tensors, by identity, and steps of optimizers by it are
    for a plan."""
    kept = dict(vars(scaler))
    vars(scaler).update(
        _scale=of[id(scaler._scale)],
        _growth_tracker=of[id(scaler._growth_tracker)],
        _per_optimizer_states=defaultdict(_refresh_per_optimizer_state),
        _maybe_opt_step=step_or_keep,
    )
    try:
        yield
    finally:
        vars(scaler).clear()
        vars(scaler).update(kept)
