"""Kernels of one's own: GLSL on Vulkan, a C function on the CPU; what CUDA C compiles to."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import rota

GLSL = """
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"
layout(local_size_x = 64) in;
ROTA_KERNEL_BEGIN(2)
    uint count;
    uint rate;
ROTA_KERNEL_END
void main() {
    uint i = rota_index();
    if (i >= pc.count) return;
    float x = rota_f32(rota_operand(0)).v[i];
    rota_f32(rota_operand(1)).v[i] = rota_param_f32(1, pc.rate) * x * (1.0 - x);
}
"""
CUDA = """
#include "rota_kernel.cuh"
struct logistic_params { uint32_t count; float rate; };
ROTA_KERNEL(logistic, 2, logistic_params, 64) {
    const uint64_t i = rota_index();
    if (i >= args.params.count) return;
    const float x = rota_operand<const float>(args, 0)[i];
    rota_operand<float>(args, 1)[i] = rota_param_f32(args, 1, args.params.rate) * x * (1.0f - x);
}
"""
C = """
#include <stdint.h>
struct call { void *const *operands; const void *params; uint64_t begin, end, items; };
struct params { uint32_t count; float rate; };
int logistic(const struct call *call) {
    const struct params *p = call->params;
    const float *x = call->operands[0];
    float *y = call->operands[1];
    for (uint32_t i = 0; i < p->count; i++) y[i] = p->rate * x[i] * (1 - x[i]);
    return 0;
}
"""
COUNTED = """
#include <stdint.h>
struct call { void *const *operands; const void *params; uint64_t begin, end, items; };
int items(const struct call *call) {
    float *y = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) y[i] = call->items;
    return 0;
}
"""
OPERANDS, PARAMS = ["read", "write"], [("count", "u32"), ("rate", "f32")]


def check(device: rota.Device, kernel: rota.Kernel) -> None:
    with rota.graph(device) as g:
        y = g.empty(256)
        kernel(g.input("x", 256), y, 256, g.slot("rate"), groups=[4])
        g.output("y", y)
    plan = g.compile(check_kernels=True)
    x = np.linspace(0, 1, 256, dtype=np.float32)
    for rate in (2.0, 3.5):
        np.testing.assert_allclose(plan(x=x, rate=rate).result()["y"], rate * x * (1 - x), rtol=1e-5, atol=1e-6)


def test_glsl(device: rota.Device) -> None:
    if shutil.which("glslangValidator") is None:
        pytest.skip("no glslangValidator")
    kernel = rota.Kernel("logistic", OPERANDS, PARAMS, glsl=GLSL)
    if not device.id.startswith("vk:"):
        with pytest.raises(rota.errors.Unsupported, match="logistic"):
            check(device, kernel)
    else:
        check(device, kernel)


def test_glsl_with_an_error() -> None:
    if shutil.which("glslangValidator") is None:
        pytest.skip("no glslangValidator")
    with pytest.raises(rota.errors.InvalidArgument, match="glslangValidator: .*nonsense"):
        rota.compile_glsl("#version 460\nvoid main() { nonsense; }")


def c_function(source: str, name: str, folder: Path) -> int:
    """The address of a C function, compiled into the folder."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (folder / "kernel.c").write_text(source)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", folder / "kernel.so", folder / "kernel.c"], check=True)
    address = ctypes.cast(getattr(ctypes.CDLL(str(folder / "kernel.so")), name), ctypes.c_void_p).value
    assert address is not None
    return address


def test_c_function(cpu: rota.Device, tmp_path: Path) -> None:
    check(cpu, rota.Kernel("logistic", OPERANDS, PARAMS, cpu=c_function(C, "logistic", tmp_path)))


def test_counted(cpu: rota.Device, tmp_path: Path) -> None:
    kernel = rota.Kernel("items", ["write"], cpu=c_function(COUNTED, "items", tmp_path))
    y, kept = (cpu.tensor(np.full(shape, 9, np.float32)) for shape in (12, (4, 3)))
    with rota.graph(cpu) as g:
        count = g.input("count", 1, "i32")
        kernel(y, count=count, count_max=4)
        g.copy_rows(kept, y.reshape(4, 3), count)
        with pytest.raises(rota.errors.InvalidArgument, match="one i32, not f32"):
            kernel(y, count=kept, count_max=4)
        with pytest.raises(rota.errors.InvalidArgument, match="maximum"):
            kernel(y, count=count)
        with pytest.raises(rota.errors.InvalidArgument, match="count_max without a count"):
            kernel(y, count_max=4)
        with pytest.raises(rota.errors.InvalidArgument, match="groups beside a count"):
            kernel(y, count=count, count_max=4, groups=[2])
        with pytest.raises(rota.errors.InvalidArgument, match="one shape"):
            g.copy_rows(kept, y, count)
    plan = g.compile()
    for items in (0, 3):
        plan(count=np.array([items], np.int32)).result()
        np.testing.assert_array_equal(y.numpy(), [items] * items + [9] * (12 - items))
        np.testing.assert_array_equal(kept.numpy().ravel(), ([3] * 3 + [9] * 6 if items else [9] * 9) + [9] * 3)
    for items in (5, -1):
        with pytest.raises(rota.errors.NodeFailed, match=f"'items' .*its count is {items % 2**32}, .*is 4"):
            plan(count=np.array([items], np.int32)).result()
        y.write(np.zeros(12, np.float32))  # which the failure has left without contents
        kept.write(np.zeros((4, 3), np.float32))


def test_cuda_compiles() -> None:
    try:
        assert b".entry logistic" in rota.compile_cuda(CUDA)
    except rota.errors.Unsupported as error:
        pytest.skip(str(error))
    with pytest.raises(rota.errors.InvalidArgument, match="(?s)NVRTC: .*nonsense"):
        rota.compile_cuda("nonsense")


def test_cuda(device: rota.Device) -> None:
    if not device.id.startswith("cuda:"):
        pytest.skip("for CUDA devices")
    check(device, rota.Kernel("logistic", OPERANDS, PARAMS, cuda=CUDA))


def test_wrong_kernels(cpu: rota.Device) -> None:
    with pytest.raises(rota.errors.InvalidArgument, match="has no code"):
        rota.Kernel("empty", OPERANDS)
    with pytest.raises(rota.errors.InvalidArgument, match="not 'reads'"):
        rota.Kernel("wrong", ["reads"], spirv=b"")
    with pytest.raises(rota.errors.InvalidArgument, match="f32 or u32, not 'f64'"):
        rota.Kernel("wrong", ["read"], [("a", "f64")], spirv=b"")
    kernel = rota.Kernel("few", OPERANDS, PARAMS, cpu=1)
    with rota.graph(cpu) as g:
        x = g.input("x", 4)
        with pytest.raises(rota.errors.InvalidArgument, match="takes 2 operands and 2 parameters, not 2 and 1"):
            kernel(x, g.empty(4), 4)
    with pytest.raises(rota.errors.WrongState, match="call it inside of"):
        kernel(x, x, 1, 2)
