"""A captured training step of GPT-2 124M under autocast beside train_gpt's own, in turns, on a GPU.

python captured_gpt2.py TRAIN_GPT --data TOKENS.bin [--batch 4] [--rounds 4] [--steps 60] [--plain] [--trace FILE]

A round is train_gpt's steps, of which the first ten are left out, and as many captured ones in a row, which nobody
waits for in between; --plain: without keep_casts. It prints milliseconds of a step, their ratio, and what the host
takes of a call; --trace writes when each kernel of six captured steps began, how long it took, on which stream. It
exits with 1 where the step is no plan, or its loss does not fall, and with 77 without a CUDA device.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch_zoo as zoo

import rota.torch

SKIPPED = 10  # train_gpt's first steps
TRACED = 6


def train(given: argparse.Namespace) -> float:
    """Milliseconds of train_gpt's step, in the mean, as those of a row of captured ones are."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        options = (
            "--tokenizer bin --vocab 50257 --arch gpt2 --layers 12 --heads 12 --dim 768 --block 1024 --dtype bf16 "
            f"--device cuda --eval-iters 0 --batch {given.batch} --iters {given.steps + SKIPPED} --log {log}"
        )
        subprocess.run([given.train_gpt, "--data", given.data, *options.split()], check=True, stdout=subprocess.DEVNULL)
        with open(log) as lines:
            return statistics.mean([float(json.loads(line)["ms"]) for line in lines][SKIPPED:])


def captured(given: argparse.Namespace) -> tuple[rota.torch.Captured, Callable[[], Any]]:
    torch.manual_seed(1)
    model, batch = zoo.make("gpt2", True, "cuda", given.batch)
    model.gives_outputs = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(*batch)
        loss.backward()
        optimizer.step()
        return loss

    called = rota.torch.capture(step, modules=[model], optimizers=[optimizer], keep_casts=not given.plain)
    return called, lambda: called(*batch)


def row(run: Callable[[], Any], steps: int) -> float:
    """Milliseconds of a step, of many that follow one another."""
    for _ in range(SKIPPED):
        run()
    begin = zoo.ended("cuda")
    for _ in range(steps):
        run()
    return 1e3 * (zoo.ended("cuda") - begin) / steps


def host(run: Callable[[], Any]) -> float:
    """Milliseconds that a call takes of the host: few of them, so that nothing is full."""
    times = []
    zoo.ended("cuda")
    for _ in range(8):
        begin = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def trace(run: Callable[[], Any], path: str) -> None:
    """A line for each kernel: microseconds from the first one, and of its own; the stream; the name."""
    zoo.ended("cuda")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(TRACED):
            run()
        zoo.ended("cuda")
    on_gpu = [one for one in profile.events() or [] if one.device_type == torch.autograd.DeviceType.CUDA]
    on_gpu.sort(key=lambda one: one.time_range.start)
    with open(path, "w") as lines:
        for one in on_gpu:
            begin = one.time_range.start - on_gpu[0].time_range.start
            print(f"{begin:.1f} {one.time_range.elapsed_us():.1f} {one.device_resource_id} {one.name}", file=lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train_gpt", metavar="TRAIN_GPT")
    parser.add_argument("--data", required=True, help="tokens of 16 bits after a header, as --write-tokens makes them")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--plain", action="store_true", help="parameters are converted in every step")
    parser.add_argument("--trace", metavar="FILE")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: PyTorch has no CUDA device here")
        return 77
    called, run = captured(given)
    first = float(run().detach())
    for _ in range(given.rounds):
        of_train = train(given)
        ms = row(run, given.steps)
        print(f"batch {given.batch}: train_gpt {of_train:.3f} ms, captured {ms:.3f}: {ms / of_train:.3f}", flush=True)
    print(f"a call takes {host(run):.2f} ms of the host")
    if given.trace:
        trace(run, given.trace)
    last = float(run().detach())
    is_plan = all(made.segment is not None for made in called.plans.values())
    if not is_plan or not (math.isfinite(last) and last < first):
        print(f"wrong: the step is {'a' if is_plan else 'no'} plan, its loss went from {first:.4f} to {last:.4f}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
