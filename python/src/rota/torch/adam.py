"""Adam and AdamW of PyTorch's, as captured steps ask for them (a few tensors at a time, each by its own count of
steps), as rota's op, which reads a gradient of 16 bits as it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .. import _rota as ops
from .kernels import INTO
from .lower import lowers
from .nodes import value_of
from .own import define
from .ranks import ALL_REDUCE
from .segment import Segment

aten = torch.ops.aten

# ---- The ops, as PyTorch has them: what they compute where no plan does ----


def rates_of(steps: Sequence[Any], lr: Any, one: Any) -> Any:
    """A row for each count of steps: 1, which a gradient is multiplied by, the learning rate, and the count."""
    return torch.stack([x for step in steps for x in (one, lr, step)]).view(len(steps), 3)


def rates_into(out: Sequence[Any], steps: Sequence[Any], lr: Any, one: Any) -> bool:
    """... by one kernel."""
    torch.stack([x for step in steps for x in (one, lr, step)], out=out[0].view(3 * len(steps)))
    return True


def begun_of(rates: Sequence[Any], last: Any) -> Any:
    """All those rows, once `last` is there, of which nothing is read."""
    return torch.cat(list(rates))


def begun_into(out: Sequence[Any], rates: Sequence[Any], last: Any) -> bool:
    torch.cat(list(rates), out=out[0])
    return True


class Step(NamedTuple):
    """What ADAMW is called with, in its order: a step of p and its moments by a gradient and a row of rates."""

    p: Any
    g: Any
    m: Any
    v: Any
    rates: Any
    beta1: float
    beta2: float
    eps: float
    decay: float
    coupled: bool  # Adam's weight decay, which is a part of the gradient
    half: Any = None  # what p has then in 16 bits


def update(*given: Any, **named: Any) -> None:
    """A step, as Step says."""
    p, g, m, v, rates, beta1, beta2, eps, decay, coupled, half = Step(*given, **named)
    _, lr, step = rates.unbind()
    g = g.to(p.dtype)
    if coupled:
        g = g + decay * p
    else:
        p.mul_(1 - lr * decay)
    m.lerp_(g, 1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    p.sub_(lr / (1 - beta1**step) * m / ((v / (1 - beta2**step)).sqrt() + eps))
    if half is not None:
        half.copy_(p)


RATES = define(
    "rates(Tensor[] steps, Tensor lr, Tensor one) -> Tensor",
    rates_of,
    lambda steps, lr, one: lr.new_empty(len(steps), 3),
)
INTO[RATES] = rates_into
BEGUN = define(
    "begun(Tensor[] rates, Tensor last) -> Tensor",
    begun_of,
    lambda rates, last: rates[0].new_empty(sum(map(len, rates)), 3),
)
INTO[BEGUN] = begun_into
ADAMW = define(
    "adamw(Tensor(a!) p, Tensor g, Tensor(b!) m, Tensor(c!) v, Tensor rates, float beta1, float beta2, float eps,"
    " float decay, bool coupled, Tensor(d!)? half=None) -> ()",
    update,
    lambda *given: None,
)

# ---- On rota's kernels ----


@lowers(ADAMW)
def adamw(s: Segment, node: Any, y: Any, *given: Any, **named: Any) -> None:
    step = Step(*given, **named)
    gradient, rates = s.read(step.g), s.read(step.rates)
    values, mean, square = (s.write(one) for one in (step.p, step.m, step.v))
    narrow = None if step.half is None else s.write(step.half)
    never = ops.Constant(1)  # the rates are in memory
    options = (step.beta1, step.beta2, step.eps, step.decay)
    ops.adamw(values, gradient, mean, square, never, never, *options, rates, narrow, step.coupled)


# ---- Finding them ----

FUSED = {aten._fused_adamw_.tensor_lr: False, aten._fused_adam_.tensor_lr: True}  # whether weight decay is coupled

# Counts of steps that are put side by side at once: a node has a bounded number of operands.
COUNTS = 18

# On GPUs a step's updates begin when the backward pass ends: each takes all of the memory's bandwidth, and what it ran
# beside would be as much later, that pass above all. False: wherever a plan is, for tests.
GPU_ALONE = True


def is_taken(node: Any) -> bool:
    """Whether rota's op does the same: the largest second moments are not kept, and nothing is maximized or skipped."""
    tensors, grads, first, second, _, steps = ([value_of(one) for one in given] for given in node.args)
    options = node.kwargs
    return (
        not (options["amsgrad"] or options["maximize"])
        and options.get("grad_scale") is None
        and options.get("found_inf") is None
        and all(x.dtype is torch.float32 and x.is_contiguous() and x.numel() for x in [*tensors, *first, *second])
        and all(g.dtype is torch.float32 for g in grads)
        and all(step.dtype is torch.float32 and step.dim() == 0 for step in steps)
        and value_of(options["lr"]).dtype is torch.float32
    )


def runs_of(graph: Any) -> Iterator[list[Any]]:
    """Such ops next to one another with one learning rate: no count of steps changes between them."""
    run: list[Any] = []
    for node in list(graph.nodes):
        is_next = node.target in FUSED and is_taken(node)
        if run and not (is_next and node.prev is run[-1] and node.kwargs["lr"] is run[0].kwargs["lr"]):
            yield run
            run = []
        if is_next:
            run.append(node)


def before_f32(g: Any) -> Any:
    """What a gradient that nobody else reads was before it was made f32."""
    if g.target is not aten._to_copy.default or len(g.users) != 1:
        return g
    source = value_of(g.args[0])
    is_real = source.dtype in (torch.float16, torch.bfloat16)
    return g.args[0] if is_real and source.device == value_of(g).device else g


def made_last(grads: Sequence[Any], order: Mapping[Any, int], before: int) -> Any:
    """The gradient of a matrix that a graph makes last before a position, but for an embedding's: what norms and
    embeddings have left to do then takes few of a GPU's multiprocessors, and updates run beside it. None: none, or
    ranks reduce gradients, which takes few, too."""
    apart = (aten.embedding_dense_backward.default, aten.add.Tensor)
    if any(node.target is ALL_REDUCE for node in order):
        return None
    found = [g for g in grads if g.op != "placeholder" and g.target not in apart and order[g] < before]
    return max((g for g in found if value_of(g).dim() > 1), key=order.__getitem__, default=None)


def put(graph: Any, insert: Callable[..., Any]) -> None:
    """Puts rota's op where it does the same, in place; `insert` makes a node before another."""
    runs = list(runs_of(graph))
    order = {node: i for i, node in enumerate(graph.nodes)}
    grads = [before_f32(g) for run in runs for node in run for g in node.args[1]]
    for run in runs:
        steps = [step for node in run for step in node.args[5]]
        lr = run[0].kwargs["lr"]
        like = {"dtype": torch.float32, "device": value_of(lr).device, "pin_memory": False}
        one = insert(run[0], aten.full.default, ([], 1.0), like)  # made when the plan is
        last = made_last(grads, order, order[run[0]]) if value_of(lr).device.type == "cuda" or not GPU_ALONE else None
        parts = [insert(run[0], RATES, (steps[i : i + COUNTS], lr, one)) for i in range(0, len(steps), COUNTS)]
        if last is not None:
            parts = [insert(run[0], BEGUN, (parts[i : i + COUNTS], last)) for i in range(0, len(parts), COUNTS)]
        rows = [insert(run[0], aten.select.int, (part, 0, row)) for part in parts for row in range(len(value_of(part)))]
        given = iter(rows)
        for node in run:
            options = [node.kwargs[name] for name in ("beta1", "beta2", "eps", "weight_decay")]
            for p, g, m, v in zip(*node.args[:4], strict=True):
                insert(node, ADAMW, (p, before_f32(g), m, v, next(given), *options, FUSED[node.target]))
            graph.erase_node(node)
