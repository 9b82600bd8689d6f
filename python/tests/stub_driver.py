"""The stand-in for the CUDA driver (tests/exec/cuda/cuda_stub_driver.c), where the loader finds it as libcuda.so.1: an
application's streams, events and memory, in the first device's primary context, and gates that streams wait at."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

NON_BLOCKING, WORD = 1, 4
Pointer, Out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
ARGUMENTS: dict[str, list[Any]] = {
    "cuDevicePrimaryCtxRetain": [Out, ctypes.c_int],
    "cuCtxPushCurrent": [Pointer],
    "cuCtxPopCurrent": [Out],
    "cuCtxGetDevice": [ctypes.POINTER(ctypes.c_int)],
    "cuStreamCreate": [Out, ctypes.c_uint],
    "cuStreamDestroy": [Pointer],
    "cuStreamSynchronize": [Pointer],
    "cuStreamQuery": [Pointer],
    "cuStreamWaitEvent": [Pointer, Pointer, ctypes.c_uint],
    "cuEventCreate": [Out, ctypes.c_uint],
    "cuEventRecord": [Pointer, Pointer],
    "cuEventDestroy": [Pointer],
    "cuMemAlloc": [Out, ctypes.c_size_t],
    "cuMemFree": [Pointer],
    "cuStreamBeginCapture": [Pointer, ctypes.c_int],
    "cuStreamEndCapture": [Pointer, Out],
    "cuGraphDestroy": [Pointer],
    "cuMemcpyAsync": [Pointer, Pointer, ctypes.c_size_t, Pointer],
}


def opened() -> ctypes.CDLL | None:
    """None: the driver is another one, or there is none."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return library if hasattr(library, "stub_gate_new") else None


class Driver:
    def __init__(self, library: ctypes.CDLL, device: int = 0) -> None:
        self.library, self.ordinal = library, device
        library.stub_gate_new.restype = Pointer
        library.stub_gate_hold.argtypes = [Pointer, Pointer]
        library.stub_gate_open.argtypes = library.stub_gate_free.argtypes = [Pointer]
        library.cuGetProcAddress_v2.argtypes = [ctypes.c_char_p, Out, ctypes.c_int, ctypes.c_uint64, Pointer]
        self.functions = {name: self.find(name) for name in ARGUMENTS}
        self.context = self.made("cuDevicePrimaryCtxRetain", device)

    def find(self, name: str) -> Callable[..., int]:
        address, found = Pointer(), ctypes.c_int()
        self.library.cuGetProcAddress_v2(name.encode(), ctypes.byref(address), 12000, 1, ctypes.byref(found))
        assert address.value, name
        function: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_int, *ARGUMENTS[name])(address.value)
        return function

    def made(self, name: str, *arguments: Any) -> int:
        """What a function gives as its first argument."""
        out = Pointer()
        assert self.functions[name](ctypes.byref(out), *arguments) == 0, name
        assert out.value
        return out.value

    @contextmanager
    def current(self) -> Iterator[None]:
        """The device is this thread's current one."""
        before = Pointer()
        assert self.functions["cuCtxPushCurrent"](self.context) == 0
        yield
        self.functions["cuCtxPopCurrent"](ctypes.byref(before))

    def current_ordinal(self) -> int:
        """Of this thread's current device, as cudaGetDevice has it: 0 where there is none."""
        ordinal = ctypes.c_int()
        return ordinal.value if self.functions["cuCtxGetDevice"](ctypes.byref(ordinal)) == 0 else 0

    def call(self, name: str, *arguments: Any) -> int:
        """In the device's context, as are all below."""
        with self.current():
            return self.functions[name](*arguments)

    def new(self, name: str, *arguments: Any) -> int:
        out = Pointer()
        assert self.call(name, ctypes.byref(out), *arguments) == 0, name
        assert out.value
        return out.value

    def new_of(self, name: str, handle: int) -> int:
        out = Pointer()
        assert self.call(name, handle, ctypes.byref(out)) == 0, name
        assert out.value
        return out.value

    def stream(self) -> int:
        return self.new("cuStreamCreate", NON_BLOCKING)

    def event(self) -> int:
        return self.new("cuEventCreate", 2)

    def record(self, event: int, stream: int) -> None:
        assert self.call("cuEventRecord", event, stream) == 0

    def wait(self, stream: int, event: int) -> None:
        assert self.call("cuStreamWaitEvent", stream, event, 0) == 0

    def end(self, stream: int) -> None:
        assert self.call("cuStreamSynchronize", stream) == 0
        assert self.call("cuStreamDestroy", stream) == 0

    def words(self, count: int, value: float = 0) -> "Words":
        return Words(self, count, value)

    def copy(self, to: "Words", source: "Words", stream: int) -> None:
        assert self.call("cuMemcpyAsync", to.address, source.address, WORD * to.array.size, stream) == 0

    def copy_from(self, to: "Words", address: int, stream: int) -> None:
        assert self.call("cuMemcpyAsync", to.address, address, WORD * to.array.size, stream) == 0

    def pause(self, is_paused: bool) -> None:
        """While it is, no stream does anything."""
        self.library.stub_pause(is_paused)

    def is_through(self, stream: int) -> bool:
        return self.call("cuStreamQuery", stream) == 0

    def violations(self) -> str:
        text = ctypes.create_string_buffer(256)
        return text.value.decode() if self.library.stub_violations(text, len(text)) else ""


class Tensor(ctypes.Structure):
    """DLPack's DLTensor, and the manager's part behind it."""

    _fields_ = [
        ("data", Pointer),
        ("device", ctypes.c_int32),
        ("ordinal", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", Pointer),
        ("offset_bytes", ctypes.c_uint64),
        ("manager", Pointer),
        ("deleter", Pointer),
    ]


FLOAT32, CUDA = 0x00012002, 2  # lanes, bits, code; kDLCUDA


class Words:
    """An array of float32 in the device's memory, as other libraries have one: by DLPack, and `asked` by which stream.
    The stand-in's memory is the host's, which `array` is over. Capsules have no deleter: it is kept for good."""

    kept: list["Words"] = []

    def __init__(self, driver: Driver, count: int, value: float) -> None:
        self.address = driver.new("cuMemAlloc", WORD * count)
        self.array = np.ctypeslib.as_array((ctypes.c_float * count).from_address(self.address))
        self.array[:] = value
        self.asked: list[int | None] = []
        self.shape = (ctypes.c_int64 * 1)(count)
        self.kept.append(self)
        self.device = CUDA, driver.ordinal
        self.tensor = Tensor(self.address, *self.device, 1, FLOAT32, self.shape, None, 0, None, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> Any:
        self.asked.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [Pointer, ctypes.c_char_p, Pointer]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def address_in(capsule: object) -> int:
    """Where the array lies that a capsule of DLPack's without a version has."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = Pointer, [ctypes.py_object, ctypes.c_char_p]
    tensor = Tensor.from_address(get(capsule, b"dltensor"))
    return int(tensor.data) + int(tensor.offset_bytes)


class Gate:
    """What a stream waits for until it is opened; a gate is opened before its stream ends."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        with driver.current():
            self.made = driver.library.stub_gate_new()
        assert self.made

    def hold(self, stream: int) -> None:
        with self.driver.current():
            assert self.driver.library.stub_gate_hold(self.made, stream) == 0

    def open(self) -> None:
        self.driver.library.stub_gate_open(self.made)
