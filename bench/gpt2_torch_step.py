#!/usr/bin/env python3
"""PyTorch's best time for one training step of GPT-2, which rota's is held against.

    bench/gpt2_torch_step.py --data TOKENS.bin [--batch 32] [--modes reduce-overhead,max-autotune]
                             [--vocabularies 50257,50304] [--attentions flash,cudnn] [--steps 40] [--out FILE.json]
                             [--ranks 1] [--train-gpt build/examples/train_gpt]

The model is GPT-2 as llm.c and train_gpt --arch gpt2 have it: learned positions, norms before attention and before the
feed-forward part, GELU by tanh, the token table tied to the head, biases everywhere but in the head. Weights are f32,
computed with in bf16 under autocast, the loss in f32; the optimizer is AdamW (fused), after clipping the gradients'
norm at 1. Forward and backward are compiled, with CUDA graphs in the modes reduce-overhead and max-autotune. A
vocabulary of 50304 is 50257 padded to a multiple of 128, the padding's logits masked in the loss.

Each variant runs in a process of its own, and nothing on the host waits between its steps. A step is timed by events,
from its beginning to the next one's; reported are the median, the least and the most of the later two thirds of the
steps, and the most memory PyTorch reserved. A variant counts only if its losses are finite, and its first is within
5 % of the logarithm of the vocabulary and its last below the first. With --train-gpt rota takes the same number of
steps on the same tokens in the same call. With --ranks N, PyTorch's is DistributedDataParallel over NCCL, N processes
with a GPU and a batch each, compiled as its guide has it (the wrapped model, so that its buckets are reduced beside the
backward pass), and train_gpt gets --ranks N; the times are the first rank's. Skips (77) without PyTorch or so many CUDA
devices.
"""
import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True,
                        help="tokens of 16 bits after a header of 256 words, as llm.c writes them")
    for name, value in (("batch", 32), ("block", 1024), ("layers", 12), ("heads", 12), ("dim", 768), ("vocab", 50257),
                        ("steps", 40), ("seed", 1337), ("ranks", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--modes", default="reduce-overhead,max-autotune", help="of torch.compile; eager: not compiled")
    parser.add_argument("--vocabularies", default="50257,50304")
    parser.add_argument("--attentions", default="flash,cudnn")
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--train-gpt")
    parser.add_argument("--device", default="cuda:0", help="train_gpt's")
    parser.add_argument("--out")
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    return parser.parse_args()


def make_model(o, padded, attention):
    import torch
    from torch import nn
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel
    backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[attention]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(o.dim), nn.LayerNorm(o.dim)
            self.qkv, self.proj = nn.Linear(o.dim, 3 * o.dim), nn.Linear(o.dim, o.dim)
            self.up, self.down = nn.Linear(o.dim, 4 * o.dim), nn.Linear(4 * o.dim, o.dim)

        def forward(self, x):
            rows, length, _ = x.shape
            q, k, v = (part.view(rows, length, o.heads, o.dim // o.heads).transpose(1, 2)
                       for part in self.qkv(self.norm_1(x)).split(o.dim, dim=2))
            with sdpa_kernel(backend):
                y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(rows, length, o.dim))
            return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(padded, o.dim), nn.Embedding(o.block, o.dim)
            self.blocks = nn.ModuleList(Block() for _ in range(o.layers))
            self.norm = nn.LayerNorm(o.dim)
            for name, parameter in self.named_parameters():
                if parameter.dim() > 1:
                    deep = name.endswith(("proj.weight", "down.weight"))
                    nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * o.layers) if deep else 0.02)
                elif name.endswith("bias"):
                    nn.init.zeros_(parameter)

        def forward(self, batch, targets):
            x = self.tokens(batch) + self.positions.weight[:batch.shape[1]]
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.norm(x), self.tokens.weight).float()
            if padded != o.vocab:
                padding = torch.arange(padded, device=logits.device) >= o.vocab
                logits = logits.masked_fill(padding, float("-inf"))
            return functional.cross_entropy(logits.view(-1, padded), targets.reshape(-1))

    torch.manual_seed(o.seed)
    return Model()


def run_variant(o, mode, padded, attention):
    import numpy as np
    import torch
    rank = int(os.environ.get("RANK", 0))
    torch.cuda.set_device(rank)
    torch.set_float32_matmul_precision("high")
    tokens = torch.from_numpy(np.fromfile(o.data, dtype=np.uint16)[512:].astype(np.int64)).cuda()
    model = make_model(o, padded, attention).cuda().train()
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == decays], 
               "weight_decay": 0.1 if decays else 0.0}
              for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=torch.tensor(o.lr, device="cuda"), betas=(0.9, 0.95), eps=1e-8, fused=True)
    wrapped = model
    if o.ranks > 1:
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
        wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)
    step_of = wrapped
    if mode != "eager":
        step_of = torch.compile(wrapped, mode=mode, dynamic=False, fullgraph=o.ranks == 1)
    offsets = torch.arange(o.block + 1, device="cuda")
    generator = torch.Generator(device="cuda").manual_seed(o.seed + rank)
    marks, losses = [torch.cuda.Event(enable_timing=True) for _ in range(o.steps + 1)], []
    for step in range(o.steps):
        marks[step].record()
        starts = torch.randint(len(tokens) - o.block - 1, (o.batch, 1), device="cuda", generator=generator)
        rows = tokens[starts + offsets]
        torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = step_of(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach().clone())
    marks[o.steps].record()
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]
    losses = [loss.item() for loss in losses]
    late = times[len(times) // 3:]
    ok = all(map(math.isfinite, losses)) and abs(losses[0] / math.log(o.vocab) - 1) < 0.05 and losses[-1] < losses[0]
    if o.ranks > 1:
        torch.distributed.destroy_process_group()
    print(json.dumps({"mode": mode, "vocabulary": padded, "attention": attention, "median_ms": statistics.median(late),
                      "min_ms": min(late), "max_ms": max(late), "reserved_mib": torch.cuda.max_memory_reserved() >> 20,
                      "first_loss": losses[0], "last_loss": losses[-1], "checked": ok, "torch": torch.__version__}))


def run_rota(o):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        command = [o.train_gpt, "--data", o.data, "--tokenizer", "bin", "--arch", "gpt2", "--dtype", "bf16", "--device",
                   o.device,
                   "--eval-iters", 0, "--iters", o.steps, "--lr", o.lr, "--weight-decay", 0.1, "--beta1", 0.9,
                   "--beta2", 0.95,
                   "--grad-clip", 1, "--warmup", 1, "--schedule", "constant", "--log", log]
        for name in ("batch", "block", "layers", "heads", "dim", "vocab", "seed"):
            command += [f"--{name}", getattr(o, name)]
        if o.ranks > 1:
            command += ["--ranks", o.ranks]
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        if done.returncode:
            sys.exit(f"train_gpt ended with {done.returncode}:\n{done.stdout}")
        with open(log) as file:
            steps = [json.loads(line) for line in file]
    late = [step["ms"] for step in steps[len(steps) // 3:]]
    losses = [step["loss"] for step in steps]
    ok = all(map(math.isfinite, losses)) and abs(losses[0] / math.log(o.vocab) - 1) < 0.05 and losses[-1] < losses[0]
    return {"mode": "rota", "device": o.device, "median_ms": statistics.median(late), "min_ms": min(late),
            "max_ms": max(late),
            "first_loss": losses[0], "last_loss": losses[-1], "checked": ok}


def run_ranks(o, variant):
    """What the first of the ranks prints, or the error of one that failed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(o.ranks):
        environment = os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(o.ranks),
                                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        started.append(subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--variant", variant],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment))
    said = [process.communicate() for process in started]
    for process, (_, error) in zip(started, said):
        if process.returncode:
            raise RuntimeError((error.strip().splitlines() or ["no message"])[-1])
    return json.loads(said[0][0].strip().splitlines()[-1])


def describe(row):
    if "error" in row:
        return f"{row['mode']:16} {row['vocabulary']} {row['attention']:6} failed: {row['error']}"
    name = "rota" if row["mode"] == "rota" else f"{row['mode']:16} {row['vocabulary']} {row['attention']:6}"
    memory = f", {row['reserved_mib']} MiB" if "reserved_mib" in row else ""
    return (f"{name:30} {row['median_ms']:8.3f} ms (min {row['min_ms']:.3f}, max {row['max_ms']:.3f}){memory}, loss "
            f"{row['first_loss']:.4f} to {row['last_loss']:.4f}"
             f"{'' if row['checked'] else ' NOT CHECKED: does not count'}")


def main():
    o = parse()
    try:
        import torch
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    if torch.cuda.device_count() < o.ranks:
        print(f"skipped: PyTorch sees {torch.cuda.device_count()} CUDA devices, {o.ranks} are asked for")
        sys.exit(77)
    if o.variant:
        mode, padded, attention = o.variant.split(":")
        run_variant(o, mode, int(padded), attention)
        return
    rows = []
    if o.train_gpt:
        rows.append(run_rota(o))
        print(describe(rows[-1]), flush=True)
    for mode in o.modes.split(","):
        for padded in map(int, o.vocabularies.split(",")):
            for attention in o.attentions.split(","):
                try:
                    rows.append(run_ranks(o, f"{mode}:{padded}:{attention}"))
                except RuntimeError as error:
                    rows.append({"mode": mode, "vocabulary": padded, "attention": attention, "error": str(error),
                                 "checked": False})
                print(describe(rows[-1]), flush=True)
    rivals = [row for row in rows if row["checked"] and row["mode"] != "rota"]
    if rivals:
        best = min(rivals, key=lambda row: row["median_ms"])
        print(f"PyTorch {best['torch']}'s best at batch {o.batch} on {o.ranks} GPUs: {describe(best)}")
        if rows[0]["mode"] == "rota" and rows[0]["checked"]:
            print(f"rota's step over PyTorch's best: {rows[0]['median_ms'] / best['median_ms']:.3f}")
    if o.out:
        with open(o.out, "w") as file:
            sizes = {name: getattr(o, name) for name in ("ranks", "batch", "block", "layers", "dim")}
            json.dump(sizes | {"rows": rows}, file, indent=1)
    sys.exit(0 if rivals and all(row["checked"] for row in rows if row["mode"] == "rota") else 1)


main()
