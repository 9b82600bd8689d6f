"""Kernels of one's own: GLSL on Vulkan, a C function on the CPU; what CUDA C compiles to."""

import ctypes
import shutil
import subprocess
from contextlib import nullcontext
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
# y[i] = 2 x[i] + the count, as many as are counted: two items a thread on a GPU.
COUNTED_GLSL = """
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"
layout(local_size_x = 64) in;
ROTA_KERNEL_BEGIN(2)
    uint shift;
    uint count;
ROTA_KERNEL_END
void main() {
    uint count = rota_param_u32(1, pc.count);
    for (uint i = 2 * rota_index(); i < 2 * rota_index() + 2 && i < count; i++) {
        float x = rota_f32(rota_operand(0)).v[i];
        rota_f32(rota_operand(1)).v[i] = 2.0 * x + float(count + pc.shift);
    }
}
"""
COUNTED_CUDA = """
#include "rota_kernel.cuh"
struct exact_params { uint32_t shift, count; };
ROTA_KERNEL(exact, 2, exact_params, 64) {
    const uint32_t count = rota_param_u32(args, 1, args.params.count);
    for (uint64_t i = 2 * rota_index(); i < 2 * rota_index() + 2 && i < count; i++)
        rota_operand<float>(args, 1)[i] =
            2 * rota_operand<const float>(args, 0)[i] + (float)(count + args.params.shift);
}
"""
COUNTED_C = """
#include <stdint.h>
struct call { void *const *operands; const void *params; uint64_t begin, end, items; };
int exact(const struct call *call) {
    const uint32_t *params = call->params;
    const float *x = call->operands[0];
    float *y = call->operands[1];
    for (uint64_t i = call->begin; i < call->end; i++) y[i] = 2 * x[i] + (params[1] + params[0]);
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


def test_counted_by_nonzero(device: rota.Device) -> None:
    x = np.array([0, 2, 0, 0, 5, 7], np.float32)
    kept = device.tensor(np.full(6, -1, np.int32))
    with rota.graph(device) as g:
        index, count = rota.nonzero(g.input("x", 6))
        g.copy_rows(kept, index, count)
    g.compile()(x=x).result()
    np.testing.assert_array_equal(kept.numpy(), [1, 4, 5, -1, -1, -1])


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


def exact_kernel(device: rota.Device, folder: Path) -> rota.Kernel:
    """The counted kernel as what the device runs."""
    params = [("shift", "u32"), ("count", "u32")]
    if device.id.startswith("cuda:"):
        return rota.Kernel("exact", OPERANDS, params, cuda=COUNTED_CUDA)
    if device.id == "cpu":
        return rota.Kernel("exact", OPERANDS, params, cpu=c_function(COUNTED_C, "exact", folder))
    if shutil.which("glslangValidator") is None:
        pytest.skip("no glslangValidator")
    return rota.Kernel("exact", OPERANDS, params, glsl=COUNTED_GLSL)


@pytest.mark.parametrize("in_body", [False, True])
def test_counted_on_all(device: rota.Device, tmp_path: Path, in_body: bool) -> None:
    kernel = exact_kernel(device, tmp_path)
    x = np.arange(1000, dtype=np.float32)
    y, kept = (device.tensor(np.full((500, 2), 9, np.float32)) for _ in range(2))
    flag = device.tensor(np.array(1, np.uint32))
    with rota.graph(device) as g:
        count, given = g.input("count", 1, "i32"), g.input("x", 1000)
        rows = g.input("rows", 1, "i32")
        with g.if_(flag) if in_body else nullcontext():
            kernel(given, y, 1, 0, count=count, count_max=700, items_per_group=128, count_param="count")
            g.copy_rows(kept, y, rows)
    plan = g.compile(certify=True)
    for items in (0, 1, 127, 128, 129, 256, 700, 5):
        y.write(np.full((500, 2), 9, np.float32))
        kept.write(np.full((500, 2), 9, np.float32))
        rows_copied = items // 3
        plan(x=x, count=np.array([items], np.int32), rows=np.array([rows_copied], np.int32)).result(timeout=60)
        expected = np.where(np.arange(1000) < items, 2 * x + (items + 1), 9).astype(np.float32)
        np.testing.assert_array_equal(y.numpy().ravel(), expected)
        np.testing.assert_array_equal(kept.numpy().ravel()[: 2 * rows_copied], expected[: 2 * rows_copied])
        np.testing.assert_array_equal(kept.numpy().ravel()[2 * rows_copied :], 9)
    with pytest.raises(rota.errors.NodeFailed, match="its count is 701, the most it may be is 700"):
        plan(x=x, count=np.array([701], np.int32), rows=np.array([1], np.int32)).result(timeout=60)
    with pytest.raises(rota.errors.NodeFailed, match="its count is 501, the most it may be is 500"):
        y.write(np.full((500, 2), 9, np.float32))
        kept.write(np.full((500, 2), 9, np.float32))
        plan(x=x, count=np.array([1], np.int32), rows=np.array([501], np.int32)).result(timeout=60)


def test_counted_wrongly(device: rota.Device, tmp_path: Path) -> None:
    kernel = exact_kernel(device, tmp_path)
    x, y = (device.tensor(np.zeros(8, np.float32)) for _ in range(2))
    with rota.graph(device) as g:
        count, shift = g.input("count", 1, "i32"), g.slot("shift", "u32")
        with pytest.raises(rota.errors.InvalidArgument, match="no parameter 'items' .* it has 'shift', 'count'"):
            kernel(x, y, 1, 0, count=count, count_max=8, count_param="items")
        with pytest.raises(rota.errors.InvalidArgument, match="'shift' .* gets the count, and is bound to a slot"):
            kernel(x, y, shift, 0, count=count, count_max=8, count_param="shift")
        with pytest.raises(rota.errors.InvalidArgument, match="count_param without a count"):
            kernel(x, y, 1, 0, count_param="count")
        with pytest.raises(rota.errors.InvalidArgument, match="items_per_group without a count"):
            kernel(x, y, 1, 0, items_per_group=64)
        kernel(x, y, shift, 0, count=count, count_max=8, items_per_group=128)
    if device.id == "cpu":
        g.compile()
    else:
        with pytest.raises(rota.errors.Unsupported, match="none of its parameters gets the count"):
            g.compile()


def test_cuda_compiles() -> None:
    try:
        assert b".entry logistic" in rota.compile_cuda(CUDA)
        assert b".entry exact" in rota.compile_cuda(COUNTED_CUDA)
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
