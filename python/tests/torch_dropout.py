"""What dropout costs in plans on a GPU.

python torch_dropout.py [--layers 12] [--repeats 60] times a forward and a backward pass of linear layers of 768, each
with GELU and dropout, of 4096 rows, under autocast to bf16: by rota, eagerly and by mode="reduce-overhead"; and what it
takes to put a plan's seed and offset, before each replay."""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import rota.torch
from rota.torch import draws

OPTIONS: dict[str, dict[str, Any] | None] = {
    "rota": {"backend": "rota"},
    "eager": None,
    "reduce-overhead": {"mode": "reduce-overhead"},
}


def median(run: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return sorted(times)[repeats // 2]


def step_of(layers: int, options: dict[str, Any] | None) -> Callable[[], None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    parts = [part for _ in range(layers) for part in (nn.Linear(768, 768), nn.GELU(), nn.Dropout(0.1))]
    model = nn.Sequential(*parts).cuda()
    called = model if options is None else torch.compile(model, **options)
    x = torch.randn(4096, 768, device="cuda")

    def step() -> None:
        model.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            y = called(x)
        y.float().square().mean().backward()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=60)
    given = parser.parse_args()
    found: list[Any] = []
    make = draws.Numbers.__init__

    def kept(self: Any, home: Any) -> None:
        make(self, home)
        found.append(self)

    setattr(draws.Numbers, "__init__", kept)  # noqa: B010
    for name, options in OPTIONS.items():
        step = step_of(given.layers, options)
        for _ in range(5):
            step()
        print(f"{name}: {median(step, given.repeats) * 1e3:.3f} ms", flush=True)
    assert rota.torch.ops()["host"] == {}
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(50_000_000)  # all are with the driver before the first one runs
    begin.record()
    started = time.perf_counter()
    for _ in range(given.repeats):
        found[0].put()
    host = time.perf_counter() - started
    end.record()
    torch.cuda.synchronize()
    gpu = begin.elapsed_time(end) * 1e3
    print(f"seed and offset: {host / given.repeats * 1e6:.1f} us of the host, {gpu / given.repeats:.1f} of the GPU")


if __name__ == "__main__":
    main()
