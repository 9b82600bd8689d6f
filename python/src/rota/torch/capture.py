"""A whole training step as one plan: forward, backward, clipping, optimizer, on tensors that the plan has in place."""

import contextlib
import inspect
import itertools
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._C._dynamo.guards import TensorGuards
from torch.autograd.graph import increment_version
from torch.utils import _pytree as pytree

from .._rota import Communicator, Device, Tensor
from ..errors import InvalidArgument
from .decompositions import decompositions, unrolled
from . import casts, scaler as amp
from .checkpoints import Tracing, draw_once
from .devices import CPU, adopted, device, range_of
from .fixed import FixedSegment, current
from .layouts import turn
from .lower import LOWERED
from .pairs import is_impure, pair
from .program import FIXED, elsewhere, is_host, staying
from .ranks import put_together, reducing
from .segment import Segment, signature_of
from .state import State, Uncapturable, memory_of

LOG = logging.getLogger("rota.torch")

# Plans of a step: one for each combination of shapes and of what is no tensor; the one that was made first goes.
PLANS_MAX = 16


# PyTorch traces in one thread of a process at a time. Steps that run as they are meanwhile, and may wait for one
# another as ranks, are not kept.
tracing = threading.Lock()


class OfThread:
    """In the place of PyTorch's flag that something is traced, which is the process's: true in this thread alone. What
    optimizers compute goes by it, which others run meanwhile."""

    def __init__(self, otherwise: Any) -> None:
        self.thread, self.otherwise = threading.get_ident(), otherwise

    def __bool__(self) -> bool:
        return threading.get_ident() == self.thread or bool(self.otherwise)


def found_in(step: Callable[..., Any], kind: type) -> list[Any]:
    """What a function refers to, of a kind, each once."""
    function = inspect.unwrap(step)
    variables = inspect.getclosurevars(getattr(function, "__func__", function))
    values = [*variables.nonlocals.values(), *variables.globals.values(), getattr(function, "__self__", None)]
    found = {id(value): value for value in values if isinstance(value, kind)}
    return list(found.values())


# Of a module's table that is empty, as most are.
NOTHING: list[int] = []


class Seen:
    """What a step refers to, as a call found it."""

    def __init__(
        self,
        home: Any,
        key: int,
        tensors: Sequence[Any],
        parameters: Sequence[Any],
        found: Sequence[Any],
        holds: Sequence[Any],
        options: Sequence[Any],
    ) -> None:
        self.home, self.key, self.tensors, self.parameters = home, key, tensors, parameters
        self.found, self.holds, self.options = found, holds, options
        self.memories = [memory_of(one) for one in tensors]
        # What memory_of has, of all at once: a call pays for it.
        self.addresses = list(map(torch.Tensor.data_ptr, tensors))
        self.layouts = TensorGuards(
            *tensors,
            dynamic_dims_sizes=[list(one.shape) for one in tensors],
            dynamic_dims_strides=[list(one.stride()) for one in tensors],
        )
        self.are_adopted = False  # once they are, they are until one has moved

    def has_moved(self) -> bool:
        """Whether a tensor has other memory than it had, or is to have a gradient where it had none, or the reverse: it
        was frozen, or is trained again."""
        return list(map(torch.Tensor.data_ptr, self.tensors)) != self.addresses or not self.layouts.check(*self.tensors)

    def is_adopted(self, states: Mapping[int, State]) -> bool:
        """Whether plans write where the tensors are, as far as this was found."""
        if not self.are_adopted:
            kept = [states.get(id(one)) for one in self.tensors]
            self.are_adopted = all(
                state is not None and state.memory == memory for state, memory in zip(kept, self.memories, strict=True)
            )
        return self.are_adopted


def overlap(tensors: Sequence[Any]) -> bool:
    """Whether two tensors have bytes together, which a plan would take for bytes of each."""
    end = 0
    for address, size in sorted(map(range_of, tensors)):
        if size and address < end:
            return True
        end = max(end, address + size)
    return False


class Captured:
    """A step that is called as the function it was made of. Its first call runs as it is, which makes the optimizer's
    state; those after it are replays."""

    def __init__(
        self,
        step: Callable[..., Any],
        modules: Sequence[Any],
        optimizers: Sequence[Any],
        scalers: Sequence[Any],
        communicator: Communicator | None = None,
        keep_casts: bool = False,
    ) -> None:
        self.step, self.modules, self.optimizers, self.communicator = step, modules, optimizers, communicator
        self.keep_casts = keep_casts
        self.casts: dict[Any, casts.Cast] = {}  # of all plans, by what they are of
        self.stream: Any = None  # that of the last call
        self.scalers = [scaler for scaler in scalers if scaler.is_enabled()]
        self.mutex = threading.Lock()
        self.states: dict[int, State] = {}
        self.plans: dict[Any, Made] = {}
        self.seen: Seen | None = None
        self.numbers: dict[Any, int] = {}  # of what was seen, so that plans are found by that
        self.count = itertools.count()
        self.rates: dict[tuple[int, Any], Rate] = {}
        self.has_begun = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The step, or a replay of it: gives what the step gives."""
        with self.mutex:
            return self._replay(args, kwargs) if self.has_begun else self._begin(args, kwargs)

    def _begin(self, args: Any, kwargs: Any) -> Any:
        """The step as it is. An optimizer whose step a scaler has skipped has no state yet."""
        stepped: set[int] = set()
        with contextlib.ExitStack() as hooks:
            for optimizer in self.optimizers:
                hook = optimizer.register_step_post_hook(lambda one, *_: stepped.add(id(one)))
                hooks.callback(hook.remove)
            result = self._step(args, kwargs)
        self.has_begun = not self.scalers or len(stepped) == len(self.optimizers)
        return result

    def _step(self, args: Any, kwargs: Any) -> Any:
        """The step as it is, but for what ranks do in it."""
        if self.communicator is None:
            return self.step(*args, **kwargs)
        home = next((p.device for p in self._parameters() if p.device.type == "cuda"), CPU)
        self._device(home)
        with reducing(self._parameters(), self.communicator):
            return self.step(*args, **kwargs)

    def _device(self, home: Any) -> Device:
        """That of the plans."""
        if self.communicator is None:
            return device(home)
        own = self.communicator.device
        expected = home.type if home.type == "cpu" else f"{home.type}:{home.index or 0}"
        if own.id != expected:
            raise InvalidArgument(f"the parameters are on {expected}, the communicator is one of device '{own.id}'")
        return own

    def _replay(self, args: Any, kwargs: Any) -> Any:
        seen = self._look()
        leaves, spec = pytree.tree_flatten((args, kwargs))
        leaves = [torch.tensor(leaf, device=seen.home) if isinstance(leaf, float) else leaf for leaf in leaves]
        inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        rates = [self._rate(i, group["lr"], seen.home) for i, (_, group) in enumerate(self._groups())]
        key = (spec, tuple(map(signature_of, leaves)), seen.key)
        # A plan that clears the gradients does so whether there are any or not.
        clears = any(parameter.grad is not None for parameter in seen.parameters)
        made = self.plans.get((key, True)) or (None if clears else self.plans.get((key, False)))
        if made is not None and made.segment is not None and not seen.is_adopted(self.states):
            self.plans.clear()  # they have memory that somebody has put another in the place of
            made = None
        if made is None:
            if len(self.plans) >= PLANS_MAX:
                self.plans.pop(next(iter(self.plans)))
            with tracing:
                made = self._compile(leaves, spec, seen.tensors, rates, inputs, clears)
            self.plans[key, clears] = made
        if made.segment is None:
            return self._step(args, kwargs)
        for parameter in seen.parameters:
            parameter.grad = None
        self._come_after(seen.home)
        if made.casts:
            casts.refresh(made.casts)
        given = [*seen.tensors, *(rate.tensor for rate in rates), *inputs, *(cast.tensor for cast in made.casts)]
        values = made.segment.run(given)
        assert values is not None  # it lends nothing
        increment_version([one for one in seen.parameters if one.requires_grad])
        for cast in made.casts:
            cast.is_written()
        flat = [value.value if isinstance(value, Known) else values[value] for value in made.results]
        return pytree.tree_unflatten(flat, made.spec)

    def _come_after(self, home: Any) -> None:
        """Has this thread's stream wait for that of the last call, which casts and rates are written after."""
        if home.type != "cuda":
            return
        stream = torch.cuda.current_stream(home)
        if self.stream is not None and self.stream != stream:
            stream.wait_stream(self.stream)
        self.stream = stream

    def _look(self) -> "Seen":
        """What the step refers to: as the call before saw it, if all of that is as it was."""
        groups = [{k: value for k, value in g.items() if k not in ("params", "lr")} for _, g in self._groups()]
        options = [repr(groups), *map(amp.settings_of, self.scalers)]
        found, holds = self._found()
        if self.seen is None or self.seen.found != found or self.seen.options != options or self.seen.has_moved():
            home = self._home()
            found, holds = self._found()  # counts of steps are on the GPU from now on
            tensors = list(self._tensors().values())
            trained = tuple(tensor.requires_grad for tensor in tensors)
            key = (tuple(map(signature_of, tensors)), trained, tuple(found), tuple(options))
            if key not in self.numbers and len(self.numbers) >= PLANS_MAX:
                self.numbers.clear()
                self.plans.clear()
            number = self.numbers.setdefault(key, next(self.count))
            self.seen = Seen(home, number, tensors, self._parameters(), found, holds, options)
        return self.seen

    def _found(self) -> tuple[list[Any], list[Any]]:
        """All that the step refers to, by identity, and what keeps those from being given to others."""
        modules = {id(one): one for one in self.modules}
        walked = list(self.modules)
        for module in walked:
            for child in module.__dict__["_modules"].values():
                if child is not None and id(child) not in modules:
                    modules[id(child)] = child
                    walked.append(child)
        # A call pays for each of these, and they are many: loops of comprehensions alone.
        tables = [module.__dict__ for module in walked]
        found: list[Any] = [own["training"] for own in tables]
        for name in ("_parameters", "_buffers", "_modules"):
            ids = [[id(one) for one in own[name].values()] if own[name] else NOTHING for own in tables]
            found += map(len, ids)
            found += itertools.chain.from_iterable(ids)
        found += [id(parameter) for _, group in self._groups() for parameter in group["params"]]
        for optimizer in self.optimizers:
            states = optimizer.state.values()
            found += [id(value) for state in states for value in state.values() if isinstance(value, torch.Tensor)]
        for scaler in self.scalers:
            found.extend(map(id, amp.tensors_of(scaler)))
        return found, walked

    def _rate(self, group: int, rate: Any, home: Any) -> "Rate":
        """A group's learning rate on the device, in memory of this step's, which is written when it changes."""
        kept = self.rates.get((group, home))
        if kept is None:
            kept = self.rates[group, home] = Rate(home, self._device(home) if self.communicator else None)
        if isinstance(rate, torch.Tensor):
            self._come_after(home)
            kept.tensor.copy_(rate.detach())
        elif kept.value != rate:
            self._come_after(home)
            kept.tensor.fill_(rate)
        kept.value = None if isinstance(rate, torch.Tensor) else rate
        return kept

    # ---- What a step refers to ----

    def _groups(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                yield optimizer, group

    def _parameters(self) -> list[Any]:
        parameters = [p for module in self.modules for p in module.parameters()]
        parameters += [p for _, group in self._groups() for p in group["params"]]
        return list({id(p): p for p in parameters}.values())

    def _home(self) -> Any:
        """The device of the plans: the first GPU that a parameter is on, else the CPU. An optimizer's counts of steps
        are PyTorch's on the host, unless it is `capturable`; they are moved there."""
        home = next((p.device for p in self._parameters() if p.device.type == "cuda"), CPU)
        for state in [state for optimizer in self.optimizers for state in optimizer.state.values()]:
            for name, value in state.items():
                if isinstance(value, torch.Tensor) and value.dim() == 0 and value.device != home:
                    state[name] = value.to(home)
        return home

    def _tensors(self) -> dict[int, Any]:
        """Parameters, buffers, and the state of optimizers and scalers, by identity."""
        tensors = self._parameters()
        tensors += [buffer for module in self.modules for buffer in module.buffers()]
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                tensors += [value for value in state.values() if isinstance(value, torch.Tensor)]
        tensors += [value for scaler in self.scalers for value in amp.tensors_of(scaler)]
        return {id(tensor): tensor for tensor in tensors}

    def _adopt(self, tensors: Sequence[Any], home: Any) -> list[Tensor]:
        for tensor in tensors:
            if id(tensor) not in self.states or self.states[id(tensor)].real is not tensor:
                self.states[id(tensor)] = State(tensor, None if self.communicator is None else self.communicator.device)
        states = [self.states[id(tensor)] for tensor in tensors]
        if any(state.tensor is not None and not state.is_there() for state in states):
            self.plans.clear()  # those of other shapes, too, have memory that another has come in the place of
        return [state.adopt(home) for state in states]

    # ---- Compiling ----

    def _compile(
        self,
        leaves: Sequence[Any],
        spec: Any,
        tensors: Sequence[Any],
        rates: Sequence["Rate"],
        inputs: Sequence[Any],
        clears: bool,
    ) -> "Made":
        try:
            grads = {id(p): p.grad for p in self._parameters() if p.grad is not None} if clears else {}
            of_rates = [rate.tensor for rate in rates]
            module, results = self._trace(leaves, spec, tensors, of_rates, inputs, grads)
            kept = self._kept(module, tensors)
            nodes = list(module.graph.nodes)
            placeholders = [node for node in nodes if node.op == "placeholder"]
            (output,) = [node for node in nodes if node.op == "output"]
            body = [node for node in nodes if node.op not in ("placeholder", "output")]
            home = self._home()
            not_there = elsewhere(body, home)
            for node in body:
                if is_host(node, in_place=True) or node in not_there:
                    raise Uncapturable(f"{node.target} needs the host")
            if overlap(tensors):
                raise Uncapturable("tensors of the state have memory together")
            with current(home):
                states = dict(enumerate(self._adopt(tensors, home)))
                states |= {len(tensors) + i: rate.state.adopt(home) for i, rate in enumerate(rates)}
                first = len(placeholders) - len(kept)
                states |= {first + i: cast.adopt(home) for i, cast in enumerate(kept)}
            shared = [False] * len(placeholders)
            values = [*tensors, *of_rates, *inputs, *(cast.tensor for cast in kept)]
            what = (body, placeholders, output.args[0], Attributes(module), values, LOWERED, "step", shared, states)
            on = self._device(home)
            segment = FixedSegment(home, on, *what) if home.type in FIXED else Segment(on, *what)
        except Exception as error:  # whatever it is, PyTorch can run the step
            LOG.warning("the step runs eagerly: %s: %s", type(error).__name__, error, exc_info=True)
            return Made(None, [], None, [])
        return Made(segment, results[0], results[1], kept)

    def _kept(self, module: Any, tensors: Sequence[Any]) -> list[casts.Cast]:
        """What a graph, which has placeholders for them from now on, keeps of parameters from step to step."""
        if not self.keep_casts:
            return []
        there = {id(one) for one in tensors}
        self.casts = {key: cast for key, cast in self.casts.items() if id(cast.parameter) in there}
        are_parameters = [isinstance(one, torch.nn.Parameter) and not one.is_inference() for one in tensors]
        on = None if self.communicator is None else self.communicator.device
        found = []
        for position, dtype, rows in casts.keep(module, are_parameters):
            key = (id(tensors[position]), dtype, rows)
            if key not in self.casts:
                self.casts[key] = casts.Cast(tensors[position], dtype, rows, on)
            found.append(self.casts[key])
        return found

    def _trace(
        self,
        leaves: Sequence[Any],
        spec: Any,
        tensors: Sequence[Any],
        rates: Sequence[Any],
        inputs: Sequence[Any],
        grads: dict[int, Any],
    ) -> tuple[Any, Any]:
        """The step's graph and how its results are made. Gradients that there are before are not to be used."""
        from torch.fx.experimental.proxy_tensor import make_fx

        results: list[Any] = []

        def traced(*all_values: Any) -> list[Any]:
            values, of_grads = all_values[: -len(grads) or None], all_values[len(all_values) - len(grads) :]
            state = dict(zip(map(id, tensors), values, strict=False))
            of_rates = values[len(tensors) : len(tensors) + len(rates)]
            given = iter(values[len(tensors) + len(rates) :])
            replaced = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(replaced, spec)
            with numbers, self._swapped(state, of_rates, dict(zip(grads, of_grads, strict=True))):
                before = [len(optimizer.state) for optimizer in self.optimizers]
                returned = self.step(*args, **kwargs)
                if before != [len(optimizer.state) for optimizer in self.optimizers]:
                    raise Uncapturable("an optimizer makes its state in it")
                if any(scaler._per_optimizer_states for scaler in self.scalers):
                    raise Uncapturable("a scaler's update() is not in it")
            flat, of_results = pytree.tree_flatten(returned)
            outs = [leaf.detach() for leaf in flat if isinstance(leaf, torch.Tensor)]
            positions = iter(range(len(outs)))
            results[:] = [
                [next(positions) if isinstance(leaf, torch.Tensor) else Known(leaf) for leaf in flat],
                of_results,
            ]
            return outs

        homes = list(dict.fromkeys(one.device for one in tensors if one.device.type == "cuda"))
        random = torch.get_rng_state()
        of_gpus = [torch.cuda.get_rng_state(home) for home in homes]
        numbers = Tracing([CPU, *homes])
        try:
            given = [*tensors, *rates, *inputs, *grads.values()]
            with contextlib.ExitStack() as traced_so:
                for one in self.modules:
                    traced_so.enter_context(unrolled(one, list(one.parameters())))
                module = make_fx(traced, decomposition_table=decompositions(), tracing_mode="fake")(*given)
        finally:
            torch.set_rng_state(random)
            for one, home in zip(of_gpus, homes, strict=True):
                torch.cuda.set_rng_state(one, home)
        draw_once(module.graph, numbers.drawn)
        for node in reversed(module.graph.nodes):
            if getattr(node.target, "namespace", "") == "profiler":  # an optimizer names its steps to profilers
                module.graph.erase_node(node)
        module.graph.eliminate_dead_code(is_impure)
        for node in [node for node in module.graph.nodes if node.op == "placeholder"][len(given) - len(grads) :]:
            if node.users:
                raise Uncapturable("it uses gradients of a step before; zero_grad() is to let go of them")
            module.graph.erase_node(node)
        pair(module)
        turn(module)
        if self.communicator is not None:
            put_together(module)
        return module, results

    @contextlib.contextmanager
    def _swapped(self, state: dict[int, Any], rates: Sequence[Any], grads: dict[int, Any]) -> Iterator[None]:
        """Inside, modules and optimizers have what is traced in the place of their tensors."""
        of: dict[int, Any] = {}
        parameters = self._parameters()
        for tensor in self._tensors().values():
            of[id(tensor)] = state[id(tensor)].detach().requires_grad_(tensor.requires_grad)
            of[id(tensor)].grad = grads.get(id(tensor))
        with contextlib.ExitStack() as restored:
            for one in self.modules:
                for module in one.modules():
                    for table in (module._parameters, module._buffers):
                        restored.callback(table.update, dict(table))
                        table.update({name: None if t is None else of[id(t)] for name, t in table.items()})
            for optimizer in self.optimizers:
                restored.callback(setattr, optimizer, "state", optimizer.state)
                swapped: dict[Any, Any] = defaultdict(dict)
                for parameter, values in optimizer.state.items():
                    swapped[of[id(parameter)]] = {name: of.get(id(value), value) for name, value in values.items()}
                optimizer.state = swapped
                if hasattr(optimizer, "_step_supports_amp_scaling"):
                    supports = optimizer._step_supports_amp_scaling
                    restored.callback(setattr, optimizer, "_step_supports_amp_scaling", supports)
                    optimizer._step_supports_amp_scaling = False
            for scaler in self.scalers:
                restored.enter_context(amp.swapped(scaler, of))
            for (optimizer, group), rate in zip(list(self._groups()), rates, strict=True):
                restored.callback(group.update, dict(group))
                group["params"] = [of[id(parameter)] for parameter in group["params"]]
                # What has a gradient is not asked for its value.
                group["lr"] = rate.detach().requires_grad_()
                plain = PLAIN if is_fusable(optimizer, group) else NOT_FUSED
                group.update({name: value for name, value in plain.items() if name in group})
            restored.enter_context(reducing([of[id(one)] for one in parameters], self.communicator))
            flag = torch.compiler._is_compiling_flag
            restored.callback(setattr, torch.compiler, "_is_compiling_flag", flag)
            torch.compiler._is_compiling_flag = OfThread(flag)
            yield


# How optimizers are asked to compute: nothing of it on the host, Adam by PyTorch's one pass over a tensor's memory,
# others op by op.
PLAIN = {"foreach": False, "fused": True, "capturable": True}
NOT_FUSED = PLAIN | {"fused": None}


def is_fusable(optimizer: Any, group: dict[str, Any]) -> bool:
    adam = isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW)
    return adam and all(parameter.dtype is torch.float32 for parameter in group["params"])


class Rate:
    """A group's learning rate as plans read it, and the number that it has, if it was given as one."""

    def __init__(self, home: Any, on: Device | None) -> None:
        self.value: float | None = None
        self.tensor = torch.zeros([], dtype=torch.float32, device=home)
        self.state = State(self.tensor, on)


class Made(NamedTuple):
    """A step's plan, none where it runs as it is, how its results are made, and what it keeps of parameters."""

    segment: Segment | None
    results: list[Any]
    spec: Any
    casts: list[casts.Cast]


class Known:
    """A result of a step that is no tensor."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Attributes:
    """What a graph's get_attr nodes name."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __getitem__(self, name: str) -> Any:
        return getattr(self.module, name)


def adopt(*modules: Any) -> None:
    """Makes the memory of modules' parameters and buffers known to rota's device: plans then read them there, and copy
    them no more at each call. Parameters are so at their first call by themselves. What can't be (a size that is no
    multiple of 4 bytes, an address that is none of 16) is copied on."""
    for module in modules:
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.device.type in FIXED:
                staying[id(tensor)] = tensor
            elif not device().are_shared([range_of(tensor)])[0]:
                adopted(tensor)


def capture(
    step: Callable[..., Any],
    *,
    modules: Sequence[Any] | None = None,
    optimizers: Sequence[Any] | None = None,
    scalers: Sequence[Any] | None = None,
    communicator: Communicator | None = None,
    keep_casts: bool = False,
) -> Captured:
    """A function that does a training step, as one plan from its second call on.

    `modules`, `optimizers` and `scalers` (torch.amp.GradScaler) are what it changes; those that it refers to, if none
    are given. It begins with no gradients, which it is to make anew (`optimizer.zero_grad()`), and leaves none behind.
    Parameters, buffers and the state of optimizers and scalers stay the tensors that they are, and plans change them in
    place. `lr` of the optimizers' groups is read at every call, and numbers that are floats are arguments of the plan,
    tensors inside of the step; what else is no tensor is fixed in a plan, of which there is one for each that comes, as
    for each combination of shapes.

    Where a scaler finds a gradient that is not finite, parameters and the optimizer's state are after the step what
    they were before it, and the scale falls, all inside of the plan. The scaler's update() belongs to the step, and so
    many first calls run as they are as it takes until each optimizer has made a step.

    Where a parameter is on a GPU the plan is that GPU's, and an optimizer's counts of steps are moved there.

    With a `communicator` (of the parameters' device: rota.Communicator.open(rota.torch.device(home)), or another of its
    id) each rank does the step on a part of the batch of its own, and each parameter's gradient is the mean of all
    ranks' from the backward pass on, so that clipping, a scaler and optimizers find the same on all; as of
    torch.nn.parallel.DistributedDataParallel. They are reduced in the plan, beside the rest of the backward pass. All
    ranks begin with the same parameters and do the same steps; losses and buffers stay a rank's own. Steps that run as
    they are are reduced, too, one gradient after the other. Raises InvalidArgument where the device is another.

    `keep_casts`: parameters of f32 that the step converts to 16 bits, as autocast does, are kept in those from one step
    to the next, which takes the memory of them; an AdamW or Adam writes both. Results are the same to the bit, as long
    as whoever else changes a parameter does so as PyTorch counts it (in place, by load_state_dict, an optimizer's
    step, another captured step, another memory): the conversion is then made anew before the next step. Changes
    through `parameter.data` or DLPack are not counted, and would be seen a step late.
    """
    of_modules = found_in(step, torch.nn.Module) if modules is None else list(modules)
    of_optimizers = found_in(step, torch.optim.Optimizer) if optimizers is None else list(optimizers)
    if not of_modules or not of_optimizers:
        raise InvalidArgument("the step refers to no module, or to no optimizer: give modules= and optimizers=")
    of_scalers = found_in(step, amp.GradScaler) if scalers is None else list(scalers)
    if keep_casts:
        casts.count_steps()
    return Captured(step, of_modules, of_optimizers, of_scalers, communicator, keep_casts)
