"""The bars of correctness that rota.torch is held to, of torch_zoo's models or others, on a CPU or a GPU.

python torch_bars.py [--full] [--device cuda] [--steps 50] [MODEL ...] compares each model with eager PyTorch, without
TF32: the outputs and gradients of one batch in f32, then the losses of training steps with AdamW, a new batch each
(torch_data.py), in f32 and with the forward pass under autocast to bf16, compiled (backend="rota") and with the whole
step captured. Below stands how far eager is from itself: run again, and from parameters each of which is a rounding
away from what it was, which is what the model itself makes of the least difference that there can be.

Each model has a process of its own, so that one that crashes or hangs is a row of the table. What is over its bar is
also measured, as eager's own is, against eager of more bits (f64; of bf16's losses f32): there it must be no more than
twice as far as eager, as where a kink says more about the model than about a backend. Exits with 0 if every figure is
within its bar, or so near; with 1 if one is not, or a process failed; with 2 at wrong arguments.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch_zoo as zoo
from torch import nn
from torch.nn import functional as F

import rota.torch

# What is measured, in the table's order, and the most that it may be. Outputs and gradients are relative to the largest
# magnitude of each tensor, losses in f32 to eager's of the same step, those in bf16 absolute.
BARS = {
    "forward": zoo.FORWARD_MAX,
    "gradients": zoo.GRADIENTS_MAX,
    "f32": 1e-3,
    "f32 captured": 1e-3,
    "bf16": 0.02,
    "bf16 captured": 0.02,
}

# Eager against itself, for the bars' columns of the same dtype.
FLOORS = {"again": "eager again", "rounding": "a rounding off"}

# Whose kernels the ops of the compiled forward and backward pass ran on (rota.torch.ops).
OPS = ("rota", "torch", "host")

# In a batch of the full size; GPT-2's are of 1024 tokens.
FULL_COUNTS = {"gpt2": 2, "resnet18": 16, "vit": 8, "lstm": 16, "unet": 4, "translator": 8}


@dataclass
class Model:
    """Which model is measured, how, and what the figures are of."""

    name: str
    full: bool
    device: str
    steps: int

    @property
    def count(self) -> int | None:
        return FULL_COUNTS.get(self.name) if self.full else None

    def make(self, dtype: Any = torch.float32) -> tuple[Any, zoo.Batches]:
        """The model of zoo.make, and its batches, of more bits."""
        model, batches = zoo.make_batches(self.name, self.full, self.device, self.count)
        return zoo.Loss(model.model, F.cross_entropy).to(dtype), lambda step: [
            one.to(dtype) if one.is_floating_point() else one for one in batches(step)
        ]

    def values(self, dtype: Any = torch.float32, compiled: bool = False) -> Any:
        """Outputs and gradients."""
        torch._dynamo.reset()
        model, batches = self.make(dtype)
        return zoo.values(model, torch.compile(model, backend="rota") if compiled else model, batches(0))

    def losses(self, bf16: bool, kind: str = "eager", dtype: Any = torch.float32) -> list[float]:
        torch._dynamo.reset()
        model, batches = self.make(dtype)
        if kind == "rounding":
            round_off(model)
        called = torch.compile(model, backend="rota") if kind == "compiled" else model
        is_captured = kind == "captured"
        return zoo.losses_of(self.name, model, called, batches, self.steps, self.device, bf16, is_captured)


def round_off(model: nn.Module) -> None:
    """Moves each element of a model's parameters to the next number, or the one before."""
    drawn = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        ways = torch.randint(2, parameter.shape, generator=drawn).to(parameter.device)
        towards = torch.where(ways == 0, -torch.inf, torch.inf).to(parameter.dtype)
        parameter.data = torch.nextafter(parameter.data, towards)


def apart(a: list[float], b: list[float], relative: bool = False) -> float:
    """The largest distance of two runs' losses, relative to the second's if asked for; infinite where one is not a
    number."""
    return zoo.worst(abs(one - other) / (abs(other) if relative else 1) for one, other in zip(a, b, strict=True))


def measure(model: Model) -> Iterator[dict[str, Any]]:
    """Whose kernels ran, then a row for each of BARS: how far rota is from eager, and, if that is over the bar, both
    from what is exact; and one for each of FLOORS and each dtype."""
    rota.torch.reset_ops()
    got = model.values(compiled=True)
    yield {"what": "ops", **{whose: sum(counts.values()) for whose, counts in rota.torch.ops().items()}}
    expected = model.values()
    off = {"forward": zoo.off(got[0], expected[0]), "gradients": zoo.grads_off(got[1], expected[1])}
    exact = model.values(torch.float64) if any(not off[what] <= BARS[what] for what in off) else None
    for what in off:
        row = {"what": what, "off": off[what]}
        if not off[what] <= BARS[what] and exact is not None:
            far = [
                zoo.off(one[0], exact[0]) if what == "forward" else zoo.grads_off(one[1], exact[1])
                for one in (got, expected)
            ]
            row |= {"exact": far[0], "eager": far[1]}
        yield row
    for dtype in ("f32", "bf16"):
        bf16 = dtype == "bf16"
        eager, reference = model.losses(bf16), None
        for kind, what in (("compiled", dtype), ("captured", f"{dtype} captured")):
            losses = model.losses(bf16, kind)
            distance = apart(losses, eager, not bf16)
            row = {"what": what, "off": distance, "first": losses[0], "last": losses[-1]}
            if not distance <= BARS[what]:
                reference = reference or model.losses(False, dtype=torch.float32 if bf16 else torch.float64)
                row |= {"exact": apart(losses, reference, not bf16), "eager": apart(eager, reference, not bf16)}
            yield row
        for kind in FLOORS:
            yield {"what": f"{dtype} {kind}", "off": apart(model.losses(bf16, kind), eager, not bf16)}


def is_near(row: dict[str, Any]) -> bool:
    """Whether what is over its bar is as near to the exact values as eager is."""
    return "exact" in row and row["exact"] <= 2 * row["eager"]


def measure_here(model: Model) -> None:
    """The figures of a model, a line of JSON each."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    for row in measure(model):
        print(json.dumps(row), flush=True)


def measure_in_process(model: Model, limit_s: float) -> tuple[list[dict[str, Any]], str, float]:
    """The figures of a model that a process of its own measured, why there are no more, if it failed, and its time."""
    begin = time.monotonic()
    command = [sys.executable, __file__, "--here", "--device", model.device, "--steps", str(model.steps), model.name]
    process = subprocess.Popen(
        command + ["--full"] * model.full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, error = process.communicate(timeout=limit_s)
        why = f"exit status {process.returncode}: {error.strip()[-2000:]}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        process.kill()
        out, error = process.communicate()
        why = f"not done after {limit_s:.0f} s"
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return rows, why, time.monotonic() - begin


def show(name: str, rows: list[dict[str, Any]], why: str, seconds: float) -> bool:
    """A row of the table, with lines for what is over its bar; tells whether the model passed."""
    figures = {row["what"]: row for row in rows}
    cells, notes, passed = [], [], not why
    for what, most in BARS.items():
        row = figures.get(what)
        if row is None:
            cells.append("-")
            passed = False
            continue
        met = row["off"] <= most
        cells.append(f"{row['off']:.1e}" + ("" if met else "~" if is_near(row) else "!"))
        passed = passed and (met or is_near(row))
        if not met:
            notes.append(
                f"    {what}: over {most:.0e}; from exact values rota {row['exact']:.1e}, eager {row['eager']:.1e}: "
                + ("as near as eager" if is_near(row) else "MISSED")
            )
    ops = figures.get("ops", {})
    print(
        f"{name:<18}"
        + "".join(f"{cell:>15}" for cell in cells)
        + "".join(f"{ops.get(whose, '-'):>8}" for whose in OPS)
        + f"{seconds:>8.0f}"
    )
    for kind, text in FLOORS.items():
        floor = [figures.get(f"{what} {kind}") for what in BARS]
        if any(floor):
            line = "".join(f"{row['off']:>15.1e}" if row else f"{'':>15}" for row in floor)
            print(f"{'  ' + text:<18}{line}".rstrip())
    for note in [*notes, *(["    FAILED: " + why.replace("\n", "\n    ")] if why else [])]:
        print(note)
    sys.stdout.flush()
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="which; all if none is named")
    parser.add_argument("--full", action="store_true", help="in their own sizes")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--steps", type=int, default=50, help="of training (50)")
    parser.add_argument("--jobs", type=int, help="models at a time (on a GPU all, on a CPU one)")
    parser.add_argument("--limit", type=float, default=210, help="seconds that a model may take (210)")
    parser.add_argument("--here", action="store_true", help="in this process, one model: lines of JSON, no table")
    given = parser.parse_args()
    zoo.check_models(parser, given.models)
    if given.steps < 1 or (given.jobs is not None and given.jobs < 1):
        parser.error("--steps and --jobs must be at least 1")
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch has no CUDA device here")
    models = [Model(name, given.full, given.device, given.steps) for name in given.models or zoo.MODELS]
    if given.here:
        if len(given.models) != 1:
            parser.error("--here wants one model")
        measure_here(models[0])
        return 0
    what = torch.cuda.get_device_name() if given.device == "cuda" else f"{os.cpu_count()} cores"
    print(f"PyTorch {torch.__version__}, {what}, {'full' if given.full else 'small'} sizes, {given.steps} steps")
    print(f"{'':<18}" + "".join(f"{bar:>15}" for bar in BARS) + "".join(f"{whose:>8}" for whose in [*OPS, "s"]))
    print(f"{'at most':<18}" + "".join(f"{most:>15.0e}" for most in BARS.values()))
    jobs = given.jobs or (len(models) if given.device == "cuda" else 1)
    is_right, met, over = True, 0, 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(measure_in_process, model, given.limit): model for model in models}
        for done in concurrent.futures.as_completed(waiting):
            rows, why, seconds = done.result()
            is_right = show(waiting[done].name, rows, why, seconds) and is_right
            figures = [row for row in rows if row["what"] in BARS]
            met += sum(row["off"] <= BARS[row["what"]] for row in figures)
            over += sum(not row["off"] <= BARS[row["what"]] and is_near(row) for row in figures)
    print(f"{met} of {len(models) * len(BARS)} within their bars, {over} over, as near to exact values as eager (~)")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
