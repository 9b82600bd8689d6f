"""rota's plans as functions of JAX's, under jit, grad and vmap: `f = rota.jax.function(lambda x, w: rota.tanh(x @ w))`.

On JAX's CPU: XLA calls a plan by its foreign function interface, on a thread of XLA's, and waits there.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from . import _rota as ops
from ._rota import Device, ForeignCall, Graph, Plan, Tensor, graph, open, xla_handlers, xla_state
from .errors import InvalidArgument, Unsupported

TARGET = "rota_plan"

DTYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "i32": jnp.int32, "u32": jnp.uint32}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
REAL = ("f32", "f16", "bf16")

_mutex = threading.Lock()
_device: Device | None = None
_is_registered = False


def device() -> Device:
    """The device of functions that are given none: the CPU, opened when the first one is made."""
    global _device
    with _mutex:
        if _device is None or _device.closed:
            _device = open("cpu")
        return _device


def _register() -> None:
    """Tells XLA of rota's handlers, once."""
    global _is_registered
    with _mutex:
        if _is_registered:
            return
        if not hasattr(jax.ffi, "register_ffi_type"):
            raise Unsupported(f"rota.jax needs a JAX with jax.ffi.register_ffi_type; this is {jax.__version__}")
        jax.ffi.register_ffi_type(TARGET, xla_state(), platform="cpu")
        jax.ffi.register_ffi_target(TARGET, xla_handlers(), platform="cpu")
        _is_registered = True


# ---- Where a plan runs ----

# Gives what it is given, where it is lowered for the CPU: the foreign function has no word for what else there is.
_on_cpu = Primitive("rota_on_cpu")
_on_cpu.def_impl(lambda x: x)
_on_cpu.def_abstract_eval(lambda x: x)


def _refuse(context: Any, x: Any) -> Any:
    platforms = ", ".join(context.module_context.platforms)
    raise Unsupported(
        f"rota.jax runs on JAX's CPU alone; this is lowered for {platforms}: rota has no order with XLA's streams yet"
    )


mlir.register_lowering(_on_cpu, _refuse)
mlir.register_lowering(_on_cpu, lambda context, x: [x], platform="cpu")
batching.defvectorized(_on_cpu)


# ---- Calls ----


def _call(of: ForeignCall, operands: Sequence[Any], has_side_effect: bool = False) -> list[Any]:
    """A plan's results, each as an array of JAX's."""
    results = [jax.ShapeDtypeStruct(shape, DTYPES[dtype]) for _, dtype, shape, _ in of.results]
    run = jax.ffi.ffi_call(TARGET, results, has_side_effect=has_side_effect, vmap_method="sequential")
    return [_on_cpu.bind(value) for value in run(*operands, call=np.int64(of.id))]


def call(plan: Plan, *, has_side_effect: bool = False) -> Callable[..., dict[str, Any]]:
    """A plan as a function of JAX's: arguments by name, as the plan has them, to a dict of its outputs.

    Numbers of the plan (slots) are scalars, and may be left out where the plan gives them itself. There is no gradient
    (`function` has). `has_side_effect`: it is called even where nobody uses its outputs, as for a plan that trains.
    Arguments are read, and outputs written, in XLA's own memory; tensors of the plan's device stay there.
    """
    _register()
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


class _Made:
    """A function for arguments of some shapes: a plan, one for its gradients, and what JAX calls."""

    def __init__(self, of: "Function", tree: Any, kinds: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        self.of, self.tree, self.kinds = of, tree, list(kinds)
        self.mutex = threading.Lock()
        self.gradient: ForeignCall | None = None
        with graph(of._device(), name=of.name, gradients=False) as g:
            results = self._record(g)
            for i, result in enumerate(results):
                g.output(f"result {i}", result)
        self.results = [(result.dtype, result.shape) for result in results]
        self.forward = ForeignCall(g.compile(), self._names())
        self.run = jax.custom_vjp(self._run)
        self.run.defvjp(lambda *leaves: (self._run(*leaves), leaves), self._pull_back)

    def _names(self) -> list[str]:
        return [f"argument {i}" for i in range(len(self.kinds))]

    def _record(self, g: Graph) -> list[Tensor]:
        """Calls the function with tensors; sets what its results are a tree of."""
        kinds = zip(self._names(), self.kinds, strict=True)
        self.inputs = [g.input(name, shape, dtype) for name, (dtype, shape) in kinds]
        returned: Any = self.of.function(*jax.tree_util.tree_unflatten(self.tree, self.inputs))
        leaves, self.out_tree = jax.tree_util.tree_flatten(returned)
        results = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if not results or len(results) != len(leaves):
            raise InvalidArgument(f"function '{self.of.name}' is to give tensors of rota's, not {returned!r}")
        return results

    def _run(self, *leaves: Any) -> tuple[Any, ...]:
        return tuple(_call(self.forward, leaves))

    def _gradient(self) -> ForeignCall:
        """The plan that gives the gradients of the real arguments, of those and of the real results' gradients."""
        with self.mutex:
            if self.gradient is None:
                with graph(self.of._device(), name=f"gradient of {self.of.name}") as g:
                    results = self._record(g)
                    names, losses = self._names(), []
                    for i, result in enumerate(results):
                        if result.dtype in REAL:
                            names.append(f"gradient {i}")
                            losses.append(_total(result * g.input(names[-1], result.shape, result.dtype)))
                    wanted = [x for x in self.inputs if x.dtype in REAL]
                    for i, grad in enumerate(g.backward(losses, wanted)):
                        g.output(f"result {i}", grad)
                self.gradient = ForeignCall(g.compile(), names)
            return self.gradient

    def _pull_back(self, leaves: Any, cotangents: Any) -> tuple[Any, ...]:
        given = [one for one, (dtype, _) in zip(cotangents, self.results, strict=True) if dtype in REAL]
        is_real = [dtype in REAL for dtype, _ in self.kinds]
        made = iter(_call(self._gradient(), [*leaves, *given]) if any(is_real) and given else [])
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

    def _device(self) -> Device:
        return device() if self.on is None else self.on

    def __call__(self, *arguments: Any) -> Any:
        """Calls the plan for these shapes, which is made where there is none yet."""
        leaves, tree = jax.tree_util.tree_flatten(arguments)
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        for leaf in leaves:
            if leaf.dtype not in NAMES:
                raise Unsupported(f"function '{self.name}': {leaf.dtype} is no dtype of rota's ({', '.join(DTYPES)})")
        kinds = tuple((NAMES[leaf.dtype], leaf.shape) for leaf in leaves)
        with self.mutex:
            made = self.made.get((tree, kinds))
            if made is None:
                made = self.made[tree, kinds] = _Made(self, tree, kinds)
        return jax.tree_util.tree_unflatten(made.out_tree, made.run(*leaves))


def function(of: Callable[..., Any], *, device: Device | None = None, name: str | None = None) -> Function:
    """A function of rota's tensors as one of JAX's arrays, inside of jit, grad and vmap or not.

    `of` takes tensors and gives one, or trees of them as JAX has them; it is called once for each combination of
    shapes, and once more where gradients are asked for, to be recorded. Both are plans on `device`, the CPU if none is
    given. Gradients are rota's own, and compute what they need of the function anew. vmap calls it once for each.
    Arguments are read, and results written, in XLA's own memory, from where the plan's first and last commands copy.
    """
    _register()
    return Function(of, device, name or str(getattr(of, "__name__", "function")))


