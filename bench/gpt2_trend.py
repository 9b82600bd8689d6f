#!/usr/bin/env python3
"""Whether GPT-2's losses in 16 bits follow those in f32.

    bench/gpt2_trend.py build/examples/train_gpt --data TOKENS.bin [--device cuda:0] [--batch 4] [--steps 50] [--bound
    1e-3]

train_gpt takes the same steps from the same weights on the same tokens in both dtypes. Compared are the means of ten
losses in a row, relative to those of f32: one step's loss is that of its batch, and goes both ways. The second run in
16 bits must give the first one's losses to the last digit. Exits with 1 where a mean is further off than the bound.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

TOGETHER = 10


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train_gpt")
    parser.add_argument("--data", required=True,
                        help="tokens of 16 bits after a header of 256 words, as llm.c writes them")
    for name, value in (("batch", 4), ("block", 1024), ("layers", 12), ("heads", 12), ("dim", 768), ("vocab", 50257),
                        ("steps", 50)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--bound", type=float, default=1e-3)
    return parser.parse_args()


def losses_of(o, dtype, folder):
    log = os.path.join(folder, "log.jsonl")
    command = [o.train_gpt, "--data", o.data, "--tokenizer", "bin", "--arch", "gpt2", "--device", o.device, "--dtype",
               dtype,
               "--iters", str(o.steps), "--eval-iters", "0", "--log", log]
    for name in ("batch", "block", "layers", "heads", "dim", "vocab"):
        command += [f"--{name}", str(getattr(o, name))]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(log, encoding="utf-8") as lines:
        steps = [json.loads(line) for line in lines]
    os.remove(log)
    return [step["loss"] for step in steps if step.get("ms") is not None]


def main():
    o = parse()
    with tempfile.TemporaryDirectory() as folder:
        wide, narrow, again = (losses_of(o, dtype, folder) for dtype in ("f32", o.dtype, o.dtype))
    if len(wide) != o.steps or len(narrow) != o.steps or o.steps < TOGETHER:
        sys.exit(f"{len(wide)} and {len(narrow)} losses of {o.steps} steps, of which there must be {TOGETHER}")
    if narrow != again:
        sys.exit(f"two runs in {o.dtype} differ")
    each = max(abs(n - w) / w for n, w in zip(narrow, wide))
    worst = 0.0
    for first in range(o.steps - TOGETHER + 1):
        mean = [sum(losses[first:first + TOGETHER]) / TOGETHER for losses in (wide, narrow)]
        off = abs(mean[1] - mean[0]) / mean[0]
        worst = max(worst, off)
        if first % TOGETHER == 0:
            print(f"steps {first + 1:3} to {first + TOGETHER:3}: f32 {mean[0]:.5f}, {o.dtype} {mean[1]:.5f}, "
                  f"{off:.1e} apart")
    print(f"means of {TOGETHER}: {worst:.1e} apart at most (bound {o.bound:.0e}); single losses {each:.1e}")
    sys.exit(1 if worst > o.bound else 0)


if __name__ == "__main__":
    main()
