"""rota's plans as functions of JAX's, under jit, grad and vmap: `f = rota.jax.function(lambda x, w: rota.tanh(x @ w))`.

XLA calls a plan by its foreign function interface, on a thread of XLA's. On its CPU it waits there; on its GPU a plan
comes after what is before it on XLA's stream, and that stream after the plan.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import backend
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from . import _rota as ops
from ._rota import Device, ForeignCall, Graph, Plan, Tensor, graph, open, xla_handlers, xla_state
from .errors import InvalidArgument, Unsupported

# What XLA knows rota's handlers by, and what JAX calls each platform where it registers them.
TARGETS = {"cpu": ("rota_plan", "cpu"), "cuda": ("rota_plan_on_cuda", "CUDA")}

DTYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "i32": jnp.int32, "u32": jnp.uint32}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
REAL = ("f32", "f16", "bf16")

_mutex = threading.Lock()
_devices: dict[str, Device] = {}
_registered: set[str] = set()


def _platform() -> str:
    """Where JAX computes what nobody places: on its "cpu", or on "cuda"."""
    chosen = jax.config.jax_default_device
    if chosen is None:
        client = backend.get_backend()
    else:
        client = backend.get_backend(chosen) if isinstance(chosen, str) else chosen.client
    return "cuda" if client.platform in ("gpu", "cuda") and "cuda" in client.platform_version.lower() else "cpu"


def device() -> Device:
    """The device of functions that are given none: the GPU where JAX computes on one by itself, else the CPU. Opened
    when the first such function is called."""
    platform = _platform()
    with _mutex:
        if platform not in _devices or _devices[platform].closed:
            _devices[platform] = open("cuda:0" if platform == "cuda" else "cpu")
        return _devices[platform]


def _register(platform: str) -> None:
    """Tells XLA of rota's handlers, once."""
    target, name = TARGETS[platform]
    with _mutex:
        if platform in _registered:
            return
        if not hasattr(jax.ffi, "register_ffi_type"):
            raise Unsupported(f"rota.jax needs a JAX with jax.ffi.register_ffi_type; this is {jax.__version__}")
        jax.ffi.register_ffi_type(target, xla_state(platform), platform=name)
        jax.ffi.register_ffi_target(target, xla_handlers(platform), platform=name)
        _registered.add(platform)


# ---- Where a plan runs ----

# Gives what it is given, where it is lowered for the platform that a call is made for.
_on = Primitive("rota_on")
_on.def_impl(lambda x, platform: x)
_on.def_abstract_eval(lambda x, platform: x)


def _lower(context: Any, x: Any, *, platform: str) -> Any:
    platforms = list(context.module_context.platforms)
    if platforms != [platform]:
        raise Unsupported(
            f"the rota plan of this computation is made for JAX's {'GPU' if platform == 'cuda' else 'CPU'} alone; this "
            f"is lowered for {', '.join(platforms)}"
        )
    return [x]


mlir.register_lowering(_on, _lower)
batching.defvectorized(_on)


# ---- Calls ----


def _call(
    of: ForeignCall, operands: Sequence[Any], has_side_effect: bool = False, platform: str = "cpu"
) -> list[Any]:
    """A plan's results, each as an array of JAX's."""
    results = [jax.ShapeDtypeStruct(shape, DTYPES[dtype]) for _, dtype, shape, _ in of.results]
    run = jax.ffi.ffi_call(TARGETS[platform][0], results, has_side_effect=has_side_effect, vmap_method="sequential")
    return [_on.bind(value, platform=platform) for value in run(*operands, call=np.int64(of.id))]


def call(plan: Plan, *, has_side_effect: bool = False) -> Callable[..., dict[str, Any]]:
    """A plan as a function of JAX's: arguments by name, as the plan has them, to a dict of its outputs.

    Numbers of the plan (slots) are scalars, and may be left out where the plan gives them itself. There is no gradient
    (`function` has). `has_side_effect`: it is called even where nobody uses its outputs, as for a plan that trains.
    Arguments are read, and outputs written, in XLA's own memory, the host's: this is for JAX's CPU, whatever device the
    plan is on. Tensors of that device stay there.
    """
    _register("cpu")
    calls: dict[tuple[str, ...], ForeignCall] = {}

    def run(**arguments: Any) -> dict[str, Any]:
        order = tuple(arguments)
        if order not in calls:
            calls[order] = ForeignCall(plan, list(order))
        known = {name: (dtype, shape) for name, dtype, shape, _ in calls[order].arguments}
        operands = []
        for name, value in arguments.items():
            dtype, shape = known[name]
            # A number of Python's is what the plan takes.
            array = jnp.asarray(value, DTYPES[dtype] if isinstance(value, int | float) else None)
            if NAMES.get(array.dtype) != dtype or array.shape != shape:
                raise InvalidArgument(
                    f"plan '{plan.name}': argument '{name}' is {dtype} {list(shape)}, not {array.dtype} "
                    f"{list(array.shape)}"
                )
            operands.append(array)
        results = _call(calls[order], operands, has_side_effect)
        return dict(zip(plan.outputs, results, strict=True))

    return run


# ---- Functions ----


class _Recorded:
    """A plan of a function's: its operands and results are its inputs and outputs, or, where XLA's memory is a GPU's,
    tensors of the device, which XLA's are copied to and from."""

    def __init__(self, device: Device, name: str, is_fixed: bool, gradients: bool) -> None:
        self.device, self.is_fixed = device, is_fixed
        self.names: list[str] = []
        self.operands: list[Tensor] = []
        self.results: list[Tensor] = []
        self.graph: Graph = graph(device, name=name, gradients=gradients)

    def operand(self, name: str, shape: tuple[int, ...], dtype: str) -> Tensor:
        self.names.append(name)
        if self.is_fixed:
            made = self.device.zeros(shape, dtype, name=name)
        else:
            made = self.graph.input(name, shape, dtype)
        self.operands.append(made)
        return made

    def result(self, value: Tensor) -> None:
        name = f"result {len(self.results)}"
        if self.is_fixed:
            self.results.append(self.device.zeros(value.shape, value.dtype, name=name))
            ops.copy(value, out=self.results[-1])
        else:
            self.results.append(value)
            self.graph.output(name, value)

    def compile(self) -> ForeignCall:
        if self.is_fixed:  # which one replay at a time has
            return ForeignCall.of_tensors(self.graph.compile(instances=1), self.operands, self.results)
        return ForeignCall(self.graph.compile(), self.names)


class _Made:
    """A function for arguments of some shapes: a plan, one for its gradients, and what JAX calls."""

    def __init__(
        self, of: "Function", tree: Any, kinds: Sequence[tuple[str, tuple[int, ...]]], on: Device, platform: str
    ) -> None:
        self.of, self.tree, self.kinds, self.on, self.platform = of, tree, list(kinds), on, platform
        self.mutex = threading.Lock()
        self.gradient: ForeignCall | None = None
        recorded = self._new(of.name, gradients=False)
        with recorded.graph:
            results = self._record(recorded)
            for result in results:
                recorded.result(result)
        self.results = [(result.dtype, result.shape) for result in results]
        self.forward = recorded.compile()
        self.run = jax.custom_vjp(self._run)
        self.run.defvjp(lambda *leaves: (self._run(*leaves), leaves), self._pull_back)

    def _new(self, name: str, gradients: bool) -> _Recorded:
        return _Recorded(self.on, name, self.of._is_fixed(self.platform), gradients)

    def _record(self, recorded: _Recorded) -> list[Tensor]:
        """Calls the function with tensors; sets what its results are a tree of."""
        inputs = [recorded.operand(f"argument {i}", shape, dtype) for i, (dtype, shape) in enumerate(self.kinds)]
        returned: Any = self.of.function(*jax.tree_util.tree_unflatten(self.tree, inputs))
        leaves, self.out_tree = jax.tree_util.tree_flatten(returned)
        results = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if not results or len(results) != len(leaves):
            raise InvalidArgument(f"function '{self.of.name}' is to give tensors of rota's, not {returned!r}")
        return results

    def _run(self, *leaves: Any) -> tuple[Any, ...]:
        return tuple(_call(self.forward, leaves, platform=self.platform))

    def _gradient(self) -> ForeignCall:
        """The plan that gives the gradients of the real arguments, of those and of the real results' gradients."""
        with self.mutex:
            if self.gradient is None:
                recorded = self._new(f"gradient of {self.of.name}", gradients=True)
                with recorded.graph as g:
                    losses = []
                    for i, result in enumerate(self._record(recorded)):
                        if result.dtype in REAL:
                            given = recorded.operand(f"gradient {i}", result.shape, result.dtype)
                            losses.append(_total(result * given))
                    wanted = [x for x in recorded.operands[: len(self.kinds)] if x.dtype in REAL]
                    for grad in g.backward(losses, wanted):
                        recorded.result(grad)
                self.gradient = recorded.compile()
            return self.gradient

    def _pull_back(self, leaves: Any, cotangents: Any) -> tuple[Any, ...]:
        given = [one for one, (dtype, _) in zip(cotangents, self.results, strict=True) if dtype in REAL]
        is_real = [dtype in REAL for dtype, _ in self.kinds]
        made = iter(
            _call(self._gradient(), [*leaves, *given], platform=self.platform) if any(is_real) and given else []
        )
        return tuple(
            next(made, None) if real else np.zeros(shape, jax.dtypes.float0)
            for real, (_, shape) in zip(is_real, self.kinds, strict=True)
        )


def _total(x: Tensor) -> Tensor:
    flat = x.reshape(x.size)
    return ops.sum(flat if x.dtype == "f32" else ops.cast(flat, "f32"), 0, False)


class Function:
    """What `function` makes: called with arrays of JAX's, it gives such."""

    def __init__(self, function: Callable[..., Any], on: Device | None, name: str) -> None:
        self.function, self.on, self.name = function, on, name
        self.mutex = threading.Lock()
        self.made: dict[Any, _Made] = {}

    def _where(self) -> tuple[Device, str]:
        """The device of a plan, and the platform of JAX's that it is called on."""
        on = device() if self.on is None else self.on
        return on, _platform() if on.id.startswith("cuda") else "cpu"

    @staticmethod
    def _is_fixed(platform: str) -> bool:
        return platform == "cuda"

    def __call__(self, *arguments: Any) -> Any:
        """Calls the plan for these shapes, which is made where there is none yet."""
        leaves, tree = jax.tree_util.tree_flatten(arguments)
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        for leaf in leaves:
            if leaf.dtype not in NAMES:
                raise Unsupported(f"function '{self.name}': {leaf.dtype} is no dtype of rota's ({', '.join(DTYPES)})")
        kinds = tuple((NAMES[leaf.dtype], leaf.shape) for leaf in leaves)
        on, platform = self._where()
        _register(platform)
        with self.mutex:
            made = self.made.get((tree, kinds, platform))
            if made is None:
                made = self.made[tree, kinds, platform] = _Made(self, tree, kinds, on, platform)
        return jax.tree_util.tree_unflatten(made.out_tree, made.run(*leaves))


def function(of: Callable[..., Any], *, device: Device | None = None, name: str | None = None) -> Function:
    """A function of rota's tensors as one of JAX's arrays, inside of jit, grad and vmap or not.

    `of` takes tensors and gives one, or trees of them as JAX has them; it is called once for each combination of
    shapes, and once more where gradients are asked for, to be recorded. Both are plans on `device`; if none is given,
    on the GPU where JAX computes on one by itself, else on the CPU. Gradients are rota's own, and compute what they
    need of the function anew. vmap calls it once for each.

    On JAX's CPU arguments are read, and results written, in XLA's own memory, from where the plan's first and last
    commands copy. On its GPU, for functions on that CUDA device, they are copied there to and from the plan's memory,
    on XLA's stream, which the plan comes after, and which waits for it on the GPU; only what is before the call on that
    stream is waited for. A plan that fails when that stream has gone on already fails the next call. Close the device
    when what JAX was given is done (`jax.block_until_ready`).
    """
    return Function(of, device, name or str(getattr(of, "__name__", "function")))


