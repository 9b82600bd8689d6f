"""Kernels of one's own, from sources: GLSL and SPIR-V for Vulkan, CUDA C and PTX for CUDA, C functions and Python's by
numba for the CPU."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ._rota import CompiledKernel, Constant, Graph, Slot, Tensor, current_graph, make_kernel
from .errors import InvalidArgument, Unsupported, WrongState

# rota_kernel.glsl and rota_kernel.cuh, which sources include.
INCLUDE = Path(__file__).parent / "include"

# NVRTC has no headers of the C library.
STDINT = b"""
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned uint32_t;
typedef unsigned long long uint64_t; typedef unsigned long long uintptr_t;
"""


class Kernel:
    """A kernel of one's own: call it inside of a graph's `with` block with its operands, then its parameters.

    `operands` says what it does with each: 'read', 'write' (all of it), 'readwrite', 'accumulate'. `params` are pairs
    of a name and 'f32' or 'u32', in the order of its parameter struct; each may be given as a slot. The code is that of
    the devices it is to run on: `glsl` (a source that includes rota_kernel.glsl) or `spirv` (bytes); `cuda` (a source
    that includes rota_kernel.cuh, compiled by NVRTC) or `ptx` (bytes), with `entry` and the `block`'s threads; `cpu`,
    the address of a C function `rota_status f(const rota_kernel_call *)`, or `numba`, a Python function that
    `compile_numba` makes one of.
    """

    def __init__(
        self,
        name: str,
        operands: Sequence[str],
        params: Sequence[tuple[str, str]] = (),
        *,
        glsl: str | None = None,
        spirv: bytes | None = None,
        cuda: str | None = None,
        ptx: bytes | None = None,
        entry: str | None = None,
        block: int = 64,
        cpu: int = 0,
        numba: Callable[..., object] | None = None,
        pure: bool = False,
    ) -> None:
        if glsl is not None:
            spirv = compile_glsl(glsl)
        if cuda is not None:
            ptx = compile_cuda(cuda)
        if numba is not None:
            cpu = compile_numba(numba, len(operands), [kind for _, kind in params])
        if spirv is None and ptx is None and not cpu:
            raise InvalidArgument(f"kernel '{name}' has no code: give glsl, spirv, cuda, ptx, cpu or numba")
        self.compiled: CompiledKernel = make_kernel(
            name,
            list(operands),
            list(params),
            spirv=spirv,
            cuda=ptx,
            entry=name if entry is None else entry,
            block=block,
            cpu=cpu,
            pure=pure,
        )
        self._operand_count = len(operands)

    def __call__(
        self,
        *arguments: Tensor | float | Slot | Constant,
        groups: Sequence[int] | None = None,
        count: Tensor | None = None,
        count_max: int = 0,
        items_per_group: int = 0,
        count_param: str | None = None,
    ) -> None:
        """Records a node: as many tensors as there are operands, then the parameters.

        `groups`: workgroups on a GPU; without it, one.

        `count`: one i32 that an earlier node wrote, how many items the kernel runs, at most `count_max`; more fail the
        node. What the kernel then doesn't write keeps what it had. On a GPU a group runs `items_per_group` of them (the
        shader's local size, or `block`, times what one thread does; 1 without it), and as many groups are launched as
        that takes, on CUDA devices as `count_max` would take. So there the kernel needs a parameter for the exact
        number, a u32 whose name is `count_param`: it gets the count, whatever number is given in its position, is read
        by `rota_param_u32`, and the kernel leaves out what is beyond.
        """
        tensors, numbers = arguments[: self._operand_count], arguments[self._operand_count :]
        graph: Graph | None = current_graph()
        if graph is None:
            raise WrongState(f"kernel '{self.compiled.name}': call it inside of `with rota.graph():`")
        if groups is None:
            groups = (1,) if count is None else ()
        graph.kernel(
            self.compiled,
            tensors,  # type: ignore[arg-type]
            numbers,  # type: ignore[arg-type]
            groups,
            count=count,
            count_max=count_max,
            items_per_group=items_per_group,
            count_param=count_param,
        )

    def __repr__(self) -> str:
        return f"<rota.Kernel '{self.compiled.name}'>"


def compile_glsl(source: str) -> bytes:
    """SPIR-V of a compute shader, by glslangValidator."""
    # Here and below: what few need would take a third of the time that importing rota takes.
    import shutil
    import subprocess
    import tempfile

    compiler = shutil.which("glslangValidator")
    if compiler is None:
        raise Unsupported("GLSL is compiled by glslangValidator, which is not on PATH; give spirv instead")
    with tempfile.TemporaryDirectory() as folder:
        shader, out = Path(folder) / "kernel.comp", Path(folder) / "kernel.spv"
        shader.write_text(source)
        command = [compiler, "-V", "--quiet", "--target-env", "vulkan1.2", f"-I{INCLUDE}", "-o", str(out), str(shader)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise InvalidArgument(f"glslangValidator: {ended.stdout.strip() or ended.stderr.strip()}")
        return out.read_bytes()


def compile_cuda(source: str, architecture: str = "compute_75") -> bytes:
    """PTX of CUDA C, by NVRTC."""
    import ctypes

    nvrtc = None
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"):
        try:
            nvrtc = ctypes.CDLL(name)
            break
        except OSError:
            continue
    if nvrtc is None:
        raise Unsupported("CUDA C is compiled by NVRTC (libnvrtc), which is not there; give ptx instead")
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program),
        source.encode(),
        b"kernel.cu",
        1,
        (ctypes.c_char_p * 1)(STDINT),
        (ctypes.c_char_p * 1)(b"stdint.h"),
    )
    if created != 0:
        raise Unsupported(f"NVRTC: error {created}")
    try:
        options = [f"--gpu-architecture={architecture}", "-std=c++17", f"-I{INCLUDE}"]
        texts = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        status = nvrtc.nvrtcCompileProgram(program, len(options), texts)
        size = ctypes.c_size_t()
        if status != 0:
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise InvalidArgument(f"NVRTC: {log.value.decode().strip()}")
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetPTX(program, text)
        return text.value
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


# Kernels are never freed (binding/kernel.cpp), nor is the code that numba has made for them.
_compiled_by_numba: list[Any] = []
_NODE_FAILED = 15  # ROTA_NODE_FAILED of base/status.h

# What a kernel's C function gets, as words of 64 bits: the operands' addresses, the parameters' address, and of the
# items the first, the one after the last, and how many there are.
_NUMBA_CALL = """
def call(words):
    try:
        fields = carray(words, 5)
        operands = carray(pointer(fields[0]), {operands}, uint64)
        reals = carray(pointer(fields[1]), {params}, float32)
        whole = carray(pointer(fields[1]), {params}, uint32)
        function({arguments})
    except Exception:
        return {failed}
    return 0
"""


def compile_numba(function: Callable[..., object], operands: int, params: Sequence[str] = ()) -> int:
    """The address of a C function, a kernel's for the CPU, that calls a Python function compiled by numba.

    The function gets a pointer for each operand, of which `numba.carray(pointer, shape, dtype)` makes an array, then
    the parameters as numbers ('f32' or 'u32'), and, if it takes two arguments more, the first item that it runs and the
    one after the last. It runs without the interpreter, on threads of the device's, several at once. What it raises
    fails the node.
    """
    try:
        import numba
        from numba import types
        from numba.extending import intrinsic
    except ImportError as error:
        raise Unsupported("a Python function is compiled by numba, which is not there") from error
    import inspect

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(typing: Any, address: Any) -> Any:
        def made(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(types.voidptr))

        return types.voidptr(types.uint64), made

    compiled = function if hasattr(function, "py_func") else numba.njit(function)
    arguments = [f"pointer(operands[{i}])" for i in range(operands)]
    arguments += [f"{'reals' if kind == 'f32' else 'whole'}[{i}]" for i, kind in enumerate(params)]
    takes = len(inspect.signature(compiled.py_func).parameters)
    if takes == len(arguments) + 2:
        arguments += ["fields[2]", "fields[3]"]
    if takes != len(arguments):
        raise InvalidArgument(
            f"numba: {compiled.py_func.__name__} takes {takes} arguments, expected {len(arguments)}: {operands} "
            f"operands and {len(params)} parameters, or with two more the items"
        )
    names = {"pointer": pointer, "function": compiled, "carray": numba.carray}
    names |= {kind: getattr(types, kind) for kind in ("uint64", "uint32", "float32")}
    source = _NUMBA_CALL.format(
        operands=max(operands, 1), params=max(len(params), 1), arguments=", ".join(arguments), failed=_NODE_FAILED
    )
    exec(source, names)
    try:
        made = numba.cfunc(types.int32(types.CPointer(types.uint64)))(names["call"])
    except numba.core.errors.NumbaError as error:
        raise InvalidArgument(f"numba: {error}") from error
    _compiled_by_numba.append(made)
    return int(made.address)
