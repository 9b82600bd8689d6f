#!/usr/bin/env python3
"""ResNet-18's convolutions of a batch of 64 on a CUDA device, beside PyTorch's with cudnn.benchmark in the same run:
conv_against_torch.py BUILD/tests/test_conv_device. Prints a table, and exits with 1 where rota's results were wrong.
Both are calls on a stream, one after the other, timed by the host over many."""

import json
import subprocess
import sys
import time
from typing import Any

import torch
from torch.nn import functional as F

RUNS, ROUNDS = 20, 5
DTYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}


def timed(call: Any) -> float:
    for _ in range(5):
        call()
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(RUNS):
            call()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - begin) / RUNS * 1e6)
    return sorted(rounds)[ROUNDS // 2]


def torchs(of: str, dtype: str, conv: list[int], channels_last: bool) -> float:
    """Microseconds of PyTorch's."""
    batch, inner, size, outer, window, stride = conv
    padding = window // 2
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    order = torch.channels_last if channels_last else torch.contiguous_format
    x = torch.randn(batch, inner, size, size, device="cuda", dtype=DTYPES[dtype]).to(memory_format=order)
    w = torch.randn(outer, inner, window, window, device="cuda", dtype=DTYPES[dtype]).to(memory_format=order)
    y = F.conv2d(x, w, None, stride, padding)
    dy = torch.randn_like(y)
    if of == "forward":
        return timed(lambda: F.conv2d(x, w, None, stride, padding))
    mask = [of == "by x", of == "by w", False]
    arguments = (dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, mask)
    return timed(lambda: torch.ops.aten.convolution_backward(*arguments))


def main() -> int:
    torch.backends.cudnn.benchmark = True
    ran = subprocess.run([sys.argv[1], "time"], capture_output=True, text=True)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    print("   in size  out window stride of        dtype |   rota us (own us) | torch us | ratio | channels last")
    for line in ran.stdout.splitlines():
        if not line.startswith("{"):
            continue
        one = json.loads(line)
        theirs = torchs(one["of"], one["dtype"], one["conv"], False)
        last = torchs(one["of"], one["dtype"], one["conv"], True)
        _, inner, size, outer, window, stride = one["conv"]
        print(
            f"{inner:5} {size:4} {outer:4} {window:6} {stride:6} {one['of']:9} {one['dtype']:5} | "
            f"{one['us']:8.1f} ({one['own_us']:7.1f}) | {theirs:8.1f} | {one['us'] / theirs:5.2f} | {last:8.1f}   "
            f"{one['choice']}",
            flush=True,
        )
    if ran.returncode:
        print(ran.stdout[-2000:], ran.stderr[-2000:])
    return 1 if ran.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
