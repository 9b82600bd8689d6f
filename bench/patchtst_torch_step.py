#!/usr/bin/env python3
"""PyTorch's best time for one training step of PatchTST, which rota's is held against.

    bench/patchtst_torch_step.py [--data ETTh1.csv] [--modes reduce-overhead,max-autotune] [--precisions highest]
                                 [--epochs 6] [--out FILE.json] [--train-patchtst build/examples/train_patchtst]
                                 [--device cuda:0] [--variant-seconds 900] [--on cuda]

The model is train_patchtst's, whose options it has, with their defaults, the published ones for ETTh1: each channel
normalised by its window, patches that overlap, layers with batch norm and scores that are added up, one dropout where
two follow one another, all in f32, Adam (fused). Forward and backward are compiled, with CUDA graphs in the modes
reduce-overhead and max-autotune. Precision highest is f32 as rota computes; high lets PyTorch's products round to TF32.
The table lies on the device, and a step's windows are drawn and gathered there; train_patchtst puts them together on
the host and sends them while the step before runs.

Both take as many steps as train_patchtst has in --epochs. PyTorch's are timed as gpt2_torch_step.py times them, each
variant in a process of its own; rota's is the time of an epoch over its steps, evaluations left out, of which the
median, the least and the most of the later two thirds of the epochs. A variant counts only if its losses are finite,
the last epoch's is below the first's and, with --train-patchtst, within 10 % of rota's: weights, windows and masks are
drawn by other generators. Without --data the table is drawn: seven channels of waves and noise.

Exit codes: 0; 1 where no variant counts, or rota's losses are wrong; 77 without PyTorch or a CUDA device: skipped.
"""
import argparse
import ctypes
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile

from gpt2_torch_step import compare, need_torch, print_row, time_steps

PARTS = ("train", "val", "test")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="as train_patchtst's; by default drawn")
    for name, value in (("train-rows", 8640), ("val-rows", 2880), ("test-rows", 2880), ("look-back", 336),
                        ("horizon", 96), ("patch", 16), ("stride", 8), ("layers", 3), ("heads", 4), ("dim", 16),
                        ("wide", 128), ("batch", 128), ("epochs", 6), ("seed", 2021)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("dropout", 0.3), ("lr", 1e-4)):
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--modes", default="reduce-overhead,max-autotune", help="of torch.compile; eager: not compiled")
    parser.add_argument("--precisions", default="highest", help="of products in f32: highest, high")
    parser.add_argument("--train-patchtst")
    parser.add_argument("--device", default="cuda:0", help="train_patchtst's")
    parser.add_argument("--on", default="cuda", choices=["cuda", "cpu"], help="PyTorch's")
    parser.add_argument("--variant-seconds", type=float, default=900, help="for a variant, compiling included")
    parser.add_argument("--out")
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    parser.add_argument("--last-loss", type=float, help=argparse.SUPPRESS)
    o = parser.parse_args()
    o.ranks = 1
    o.steps_of_epoch = (o.train_rows - o.look_back - o.horizon + 1) // o.batch
    o.steps = o.epochs * o.steps_of_epoch
    if o.steps_of_epoch < 1 or o.epochs < 3:
        parser.error(f"{o.steps_of_epoch} steps an epoch, {o.epochs} epochs: expected at least 1 and 3")
    return o


def draw_table(o, path):
    """Seven channels as the data's are: waves of a day and a week, one that drifts, and noise."""
    import numpy as np
    generator, rows = np.random.default_rng(o.seed), o.train_rows + o.val_rows + o.test_rows
    hours = np.arange(rows)
    with open(path, "w") as file:
        table = np.stack([np.sin(hours * 2 * np.pi / 24 + c) + 0.5 * np.cos(hours * 2 * np.pi / 168 * (c + 1))
                          + 0.3 * generator.standard_normal(rows)
                          + 0.05 * generator.standard_normal(rows).cumsum() * (c == 6) for c in range(7)], axis=1)
        file.write("date," + ",".join(f"c{c}" for c in range(7)) + "\n")
        for hour, values in enumerate(table):
            file.write(f"{hour}," + ",".join(f"{value:.6f}" for value in values) + "\n")


def read_table(o):
    """[channels, rows], standardised by the rows to train on."""
    import numpy as np
    with open(o.data) as file:
        channels = len(file.readline().split(",")) - 1
    table = np.loadtxt(o.data, delimiter=",", skiprows=1, usecols=range(1, channels + 1), dtype=np.float64, ndmin=2).T
    train = table[:, :o.train_rows]
    deviation = train.std(axis=1, keepdims=True)
    return ((table - train.mean(axis=1, keepdims=True)) / np.where(deviation > 0, deviation, 1)).astype(np.float32)


def make_model(o):
    import torch
    from torch import nn
    from torch.nn import functional
    patches = (o.look_back - o.patch) // o.stride + 2

    class Norm(nn.BatchNorm1d):
        def forward(self, x):  # [rows, patches, dim]
            return super().forward(x.transpose(1, 2)).transpose(1, 2)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.project = nn.Linear(o.dim, 3 * o.dim), nn.Linear(o.dim, o.dim)
            self.widen, self.narrow = nn.Linear(o.dim, o.wide), nn.Linear(o.wide, o.dim)
            self.norm_1, self.norm_2 = Norm(o.dim), Norm(o.dim)

        def forward(self, x, scores):
            q, k, v = (part.view(-1, patches, o.heads, o.dim // o.heads).transpose(1, 2)
                       for part in self.qkv(x).split(o.dim, dim=2))
            products = q @ k.transpose(2, 3) / math.sqrt(o.dim // o.heads)
            scores = products if scores is None else products + scores
            y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, patches, o.dim)
            x = self.norm_1(x + functional.dropout(self.project(y), 1 - (1 - o.dropout) ** 2, self.training))
            y = functional.dropout(functional.gelu(self.widen(x)), o.dropout, self.training)
            return self.norm_2(x + functional.dropout(self.narrow(y), o.dropout, self.training)), scores

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Linear(o.patch, o.dim), nn.Linear(patches * o.dim, o.horizon)
            self.positions = nn.Parameter(torch.empty(patches, o.dim).uniform_(-0.02, 0.02))
            self.layers = nn.ModuleList(Layer() for _ in range(o.layers))

        def forward(self, windows):
            windows = windows.view(-1, o.look_back + o.horizon)
            x, target = windows[:, :o.look_back], windows[:, o.look_back:]
            mean = x.mean(1, keepdim=True)
            deviation = (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
            x = (x - mean) / deviation
            x = torch.cat([x, x[:, -1:].expand(-1, o.stride)], 1).unfold(1, o.patch, o.stride)
            x = functional.dropout(self.embed(x) + self.positions, o.dropout, self.training)
            scores = None
            for layer in self.layers:
                x, scores = layer(x, scores)
            return functional.mse_loss(self.head(x.flatten(1)) * deviation + mean, target)

    torch.manual_seed(o.seed)
    return Model()


def run_variant(o, mode, precision):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    import torch
    where = torch.device(o.on)
    torch.set_float32_matmul_precision(precision)
    table = torch.from_numpy(read_table(o)).to(where)
    model = make_model(o).to(where).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(o.lr, device=where), betas=(0.9, 0.999), eps=1e-8,
                                 fused=True)
    step_of = model if mode == "eager" else torch.compile(model, mode=mode, dynamic=False, fullgraph=True)
    offsets = torch.arange(o.look_back + o.horizon, device=where)
    generator = torch.Generator(device=where).manual_seed(o.seed)

    def loss_of():
        starts = torch.randint(o.train_rows - o.look_back - o.horizon + 1, (o.batch, 1), device=where,
                               generator=generator)
        windows = table[:, starts + offsets].transpose(0, 1).contiguous()
        torch.compiler.cudagraph_mark_step_begin()
        return step_of(windows)

    late, losses = time_steps(o, mode, where, model, optimizer, loss_of)
    first, last = (statistics.mean(losses[from_:from_ + o.steps_of_epoch]) for from_ in
                   (0, o.steps - o.steps_of_epoch))
    good = all(map(math.isfinite, losses)) and last < first
    if o.last_loss is not None:
        good = good and abs(last / o.last_loss - 1) < 0.1
    print_row({"mode": mode, "precision": precision}, where, late, first, last, good)


def run_rota(o):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        command = [o.train_patchtst, "--device", o.device, "--log", log]
        for name in ("data", *(f"{part}_rows" for part in PARTS), "look_back", "horizon", "patch", "stride", "layers",
                     "heads", "dim", "wide", "batch", "epochs", "seed", "dropout", "lr"):
            command += [f"--{name.replace('_', '-')}", getattr(o, name)]
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        if done.returncode:
            sys.exit(f"train_patchtst ended with {done.returncode}:\n{done.stdout}")
        with open(log) as file:
            epochs = [line for line in map(json.loads, file) if "epoch" in line]
    late = [epoch["ms"] for epoch in epochs[len(epochs) // 3:]]
    losses = [epoch["loss"] for epoch in epochs]
    sys.argv += ["--last-loss", repr(losses[-1])]  # which PyTorch's processes are started with
    return {"mode": "rota", "device": o.device, "median_ms": statistics.median(late), "min_ms": min(late),
            "max_ms": max(late), "first_loss": losses[0], "last_loss": losses[-1],
            "checked": len(epochs) == o.epochs and all(map(math.isfinite, losses)) and losses[-1] < losses[0]}


def main():
    o = parse()
    need_torch(o)
    if o.variant:
        run_variant(o, *o.variant.split(":"))
        return
    variants = [{"mode": mode, "precision": precision} for mode in o.modes.split(",")
                for precision in o.precisions.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        if not o.data:
            o.data = os.path.join(folder, "table.csv")
            draw_table(o, o.data)
            sys.argv += ["--data", o.data]
        code = compare(o, run_rota if o.train_patchtst else None, variants,
                       ("batch", "look_back", "horizon", "layers", "dim", "wide"))
    sys.exit(code)


if __name__ == "__main__":
    main()
