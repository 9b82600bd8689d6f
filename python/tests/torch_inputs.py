"""What it costs that a plan has its inputs' memory: the bytes that a step copies there, and how long that takes.

python torch_inputs.py [--device cuda] [--repeats 50] [MODEL:COUNT ...] does training steps of torch_zoo's models in
their own sizes, with the forward pass under autocast to bf16 on a GPU, by backend="rota" and captured, and says of each
plan of a step what its call copies, and how long those copies alone take: on the GPU (a mean of copies one after the
other) and for the host to submit them. Beside it stands a step's time. On the CPU, where plans read large inputs where
they lie, a forward pass is compared with one whose plan copies all of them."""

import argparse
import time
from typing import Any

import torch
import torch_zoo as zoo

import rota.torch
from rota.torch import devices, fixed
from rota.torch.kernels import copy_all

MODELS = ("gpt2:4", "resnet18:64")


def copies(called: Any, repeats: int) -> list[tuple[str, int, int, float, float]]:
    """Of each plan of a step: inputs, bytes, and microseconds of the GPU and the host."""
    seen: list[tuple[Any, list[Any]]] = []
    run = fixed.FixedSegment.run

    def watched(self: Any, values: Any) -> Any:
        seen.append((self, list(values)))
        return run(self, values)

    setattr(fixed.FixedSegment, "run", watched)  # noqa: B010
    try:
        called()
    finally:
        setattr(fixed.FixedSegment, "run", run)  # noqa: B010
    found = []
    for segment, values in seen:
        pairs = [(segment._copied("input", i, values[i]), values[i]) for i in segment.inputs]
        to, of = [one.inside for one, _ in pairs], [one.of(real) for one, real in pairs]

        def copy(to: Any = to, of: Any = of) -> None:
            with torch.no_grad():
                copy_all(to, of)

        copy()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(20_000_000)  # all copies are with the driver before the first one runs
        begin.record()
        started = time.perf_counter()
        for _ in range(repeats):
            copy()
        host = time.perf_counter() - started
        end.record()
        torch.cuda.synchronize()
        size = sum(one.nbytes for one in to)
        found.append((len(to), size, begin.elapsed_time(end) / repeats * 1e3, host / repeats * 1e6))
    return [(f"plan {i}", *one) for i, one in enumerate(found)]


def median(called: Any, device: str, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = zoo.ended(device)
        called()
        times.append(zoo.ended(device) - begin)
    return sorted(times)[repeats // 2]


def show(name: str, count: int, device: str, repeats: int) -> None:
    on_gpu = device == "cuda"
    for how in ("compiled", "captured"):
        torch._dynamo.reset()
        if how == "compiled":
            called, _ = zoo.step_of(name, True, "rota", device, count, on_gpu)
        else:
            called = zoo.training_step_of(name, True, device, True, count, on_gpu)
        for _ in range(4):
            called()
        print(f"{name}, {count} at a time, {how}: {median(called, device, repeats) * 1e3:.2f} ms", flush=True)
        if on_gpu:
            for plan, inputs, size, gpu, host in copies(called, repeats):
                print(f"  {plan}: {inputs} inputs, {size} bytes, {gpu:.1f} us of the GPU, {host:.1f} of the host")


def show_shared(name: str, count: int, repeats: int) -> None:
    """On the CPU: a forward pass whose plan copies its batch, and one that reads it where it lies, in turns."""
    torch._dynamo.reset()
    model, batches = zoo.make_batches(name, True, "cpu", count)
    batch, least = batches(0), devices.IN_PLACE_MIN
    called = torch.compile(model, backend="rota")
    times: list[list[float]] = [[], []]
    with torch.no_grad():
        for i in range(2 * repeats + 4):
            devices.IN_PLACE_MIN = (1 << 62, least)[i % 2]
            begin = time.perf_counter()
            called(*batch)
            if i >= 4:
                times[i % 2].append(time.perf_counter() - begin)
    devices.IN_PLACE_MIN = least
    copied, shared = (sorted(of_one)[repeats // 2] * 1e3 for of_one in times)
    sizes = [one.nbytes for one in batch]
    large = sum(size for size in sizes if size >= least)
    print(f"{name}, {count} at a time: {copied:.2f} ms with {sum(sizes)} bytes copied, {shared:.2f} with {large} fewer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL:COUNT")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--repeats", type=int, default=50)
    given = parser.parse_args()
    for one in given.models:
        name, count = one.split(":")
        if given.device == "cpu":
            show_shared(name, int(count), given.repeats)
        else:
            show(name, int(count), given.device, given.repeats)
    print(rota.torch.ops()["host"] or "nothing ran between plans")


if __name__ == "__main__":
    main()
