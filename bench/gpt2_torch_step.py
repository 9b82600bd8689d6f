#!/usr/bin/env python3
"""PyTorch's best time for one training step of GPT-2, which rota's is held against.

    bench/gpt2_torch_step.py --data TOKENS.bin [--batch 32] [--modes reduce-overhead,max-autotune]
                             [--vocabularies 50257,50304] [--attentions flash,cudnn] [--steps 40] [--out FILE.json]
                             [--ranks 1] [--train-gpt build/examples/train_gpt] [--variant-seconds 900] [--on cuda]

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
backward pass), and train_gpt gets --ranks N; the times are the first rank's.

A variant that fails, or takes longer than --variant-seconds, is named with its cause, and the others go on: where one
rank has ended badly, the ones that wait for it are killed. How far a variant is, is printed as it goes, its steps and
what they take so far; --out is written anew after each variant, so that a run that is ended has what was measured till
then. --on cpu runs PyTorch's side on the CPU, ranks by Gloo: to try the script without a GPU. Exit codes: 0; 1 where no
variant counts, or rota's losses are wrong; 77 without PyTorch or so many CUDA devices: skipped.
"""
import argparse
import contextlib
import ctypes
import datetime
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time


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
    parser.add_argument("--on", default="cuda", choices=["cuda", "cpu"], help="PyTorch's")
    parser.add_argument("--variant-seconds", type=float, default=900, help="for a variant, compiling included")
    parser.add_argument("--out")
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
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


class Times:
    """When steps began and the last ended, by the device's own clock where it has one; nothing here waits."""

    def __init__(self, o):
        import torch
        self.steps, self.on_gpu, self.first, self.said = o.steps, o.on == "cuda", time.monotonic(), 0.0
        self.marks = [torch.cuda.Event(enable_timing=True) for _ in range(o.steps + 1)] if self.on_gpu else []
        self.ended = 0

    def mark(self, step):
        if self.on_gpu:
            self.marks[step].record()
        else:
            self.marks.append(time.perf_counter())

    def between(self, a, b):
        return self.marks[a].elapsed_time(self.marks[b]) if self.on_gpu else (self.marks[b] - self.marks[a]) * 1e3

    def say(self, step):
        """At most every two seconds, after the step was given to the device; what it has ended by now."""
        while self.ended < step and (not self.on_gpu or self.marks[self.ended + 1].query()):
            self.ended += 1
        now = time.monotonic()
        if not self.ended or now - self.said < 2:
            return
        self.said = now
        late = self.ended // 3 if self.ended > 3 else 0
        mean = self.between(late, self.ended) / (self.ended - late)
        print(f"step {self.ended} of {self.steps} after {now - self.first:.0f} s, {mean:.3f} ms each", file=sys.stderr,
              flush=True)


def time_steps(o, mode, where, model, optimizer, loss_of, clip=None):
    """Takes o.steps steps: (milliseconds of each of the later two thirds, every step's loss). loss_of() draws a batch
    and gives its loss, by a function compiled in the mode; clip: the most that the gradients' norm may be."""
    import torch
    times, losses = Times(o), []
    print("compiling" if mode != "eager" else "begun", file=sys.stderr, flush=True)
    for step in range(o.steps):
        times.mark(step)
        loss = loss_of()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach().clone())
        times.say(step)
    times.mark(o.steps)
    if where.type == "cuda":
        torch.cuda.synchronize()
    late = [times.between(step, step + 1) for step in range(o.steps // 3, o.steps)]
    return late, [loss.item() for loss in losses]


def print_row(variant, where, late, first, last, checked):
    """What compare reads of a variant's process: what names the variant, what its steps took and came to."""
    import torch
    reserved = torch.cuda.max_memory_reserved() >> 20 if where.type == "cuda" else 0
    print(json.dumps(variant | {"median_ms": statistics.median(late), "min_ms": min(late), "max_ms": max(late),
                                "reserved_mib": reserved, "first_loss": first, "last_loss": last, "checked": checked,
                                "torch": torch.__version__}), flush=True)


def run_variant(o, mode, padded, attention):
    # A rank that waits for others in a kernel hears of nothing: it goes where its parent goes.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    import numpy as np
    import torch
    rank, on_gpu = int(os.environ["RANK"]), o.on == "cuda"
    where = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(where)
    torch.set_float32_matmul_precision("high")
    tokens = torch.from_numpy(np.fromfile(o.data, dtype=np.uint16)[512:].astype(np.int64)).to(where)
    model = make_model(o, padded, attention).to(where).train()
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == decays],
               "weight_decay": 0.1 if decays else 0.0}
              for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=torch.tensor(o.lr, device=where), betas=(0.9, 0.95), eps=1e-8, fused=True)
    wrapped = model
    if o.ranks > 1:
        torch.distributed.init_process_group("nccl" if on_gpu else "gloo", init_method=f"file://{o.meet}", rank=rank,
                                             world_size=o.ranks, device_id=where if on_gpu else None,
                                             timeout=datetime.timedelta(seconds=o.variant_seconds))
        wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank] if on_gpu else None,
                                                            gradient_as_bucket_view=True)
    step_of = wrapped
    if mode != "eager":
        step_of = torch.compile(wrapped, mode=mode, dynamic=False, fullgraph=o.ranks == 1)
    offsets = torch.arange(o.block + 1, device=where)
    generator = torch.Generator(device=where).manual_seed(o.seed + rank)

    def loss_of():
        starts = torch.randint(len(tokens) - o.block - 1, (o.batch, 1), device=where, generator=generator)
        rows = tokens[starts + offsets]
        torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(o.on, dtype=torch.bfloat16):
            return step_of(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())

    late, losses = time_steps(o, mode, where, model, optimizer, loss_of, clip=1.0)
    ok = all(map(math.isfinite, losses)) and abs(losses[0] / math.log(o.vocab) - 1) < 0.05 and losses[-1] < losses[0]
    if rank == 0:
        print_row({"mode": mode, "vocabulary": padded, "attention": attention}, where, late, losses[0], losses[-1], ok)
    # What is measured is said: a group that does not come down must not take it away.
    if o.ranks > 1:
        torch.distributed.destroy_process_group()


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


def cause_of(text):
    """The last line that names an exception, which notes of PyTorch's may follow; else the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception|Interrupt)\b", line)]
    return (named or lines or ["no message"])[-1].strip()


@contextlib.contextmanager
def ranks_started(o, variant, folder):
    """Processes, whose output goes to files: a pipe that nobody reads would stop who fills it. None is left after."""
    started = []
    try:
        for rank in range(o.ranks):
            with open(f"{folder}/{rank}.out", "w") as out, open(f"{folder}/{rank}.err", "w") as err:
                started.append(subprocess.Popen([sys.executable, *sys.argv, "--variant", variant,
                                                 "--meet", f"{folder}/meet"], stdout=out, stderr=err,
                                                stdin=subprocess.DEVNULL, env=os.environ | {"RANK": str(rank)}))
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.wait()


def read(path):
    with open(path, errors="replace") as file:
        return file.read()


def watch(o, started, folder, name):
    """Until all have ended well; raises as soon as one has ended badly or the time is over."""
    ends, said, measured = time.monotonic() + o.variant_seconds, "", None
    while True:
        codes = [process.poll() for process in started]
        steps = [line for line in read(f"{folder}/0.err").splitlines()
                 if re.match(r"(step \d+ of|compiling$|begun$)", line)]
        if steps and steps[-1] != said:
            said = steps[-1]
            print(f"{name}: {said}", flush=True)
        for rank, code in enumerate(codes):
            if code:
                error = read(f"{folder}/{rank}.err")
                print("\n".join(error.splitlines()[-20:]), file=sys.stderr, flush=True)
                how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
                raise RuntimeError(f"rank {rank} {how}: {cause_of(error)}")
        if read(f"{folder}/0.out").endswith("}\n"):  # measured: what is left is the group's end, which may hang
            ends = min(ends, measured := measured or time.monotonic() + 20)
        if None not in codes or (measured and time.monotonic() > ends):
            return
        if time.monotonic() > ends:
            missing = [str(rank) for rank, code in enumerate(codes) if code is None]
            raise RuntimeError(f"took longer than {o.variant_seconds:g} s (--variant-seconds); ranks still running: "
                               f"{', '.join(missing)}; the first rank's last line: {said or 'none'}")
        time.sleep(0.2)


def run_ranks(o, variant):
    """What the first of the ranks prints; RuntimeError with the cause where one failed."""
    with tempfile.TemporaryDirectory() as folder:
        with ranks_started(o, variant, folder) as started:
            watch(o, started, folder, variant.replace(":", " "))
        return json.loads(read(f"{folder}/0.out").strip().splitlines()[-1])


def write_rows(o, rows, sizes):
    """All rows till now, in the stead of what the file had; sizes: the names of options that say what was timed."""
    if not o.out:
        return
    sizes = {name: getattr(o, name) for name in sizes}
    with open(f"{o.out}.new", "w") as file:
        json.dump(sizes | {"rows": rows}, file, indent=1)
    os.replace(f"{o.out}.new", o.out)


def describe(row):
    name = " ".join(str(row[what]) for what in ("mode", "vocabulary", "attention", "precision") if what in row)
    if "error" in row:
        return f"{name} failed: {row['error']}"
    memory = f", {row['reserved_mib']} MiB" if "reserved_mib" in row else ""
    return (f"{name:30} {row['median_ms']:8.3f} ms (min {row['min_ms']:.3f}, max {row['max_ms']:.3f}){memory}, loss "
            f"{row['first_loss']:.4f} to {row['last_loss']:.4f}"
             f"{'' if row['checked'] else ' NOT CHECKED: does not count'}")


def compare(o, rota, variants, sizes):
    """Runs rota's side where it is given, then each variant (what names it, of which the values joined by colons are
    --variant's): prints what each came to and the best. The exit code."""
    # By an exception, so that ranks and folders go first.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    rows = []
    if rota:
        rows.append(rota(o))
        print(describe(rows[-1]), flush=True)
        write_rows(o, rows, sizes)
    for variant in variants:
        try:
            rows.append(run_ranks(o, ":".join(map(str, variant.values()))))
        except RuntimeError as error:
            rows.append(variant | {"error": str(error), "checked": False})
        print(describe(rows[-1]), flush=True)
        write_rows(o, rows, sizes)
    rivals = [row for row in rows if row["checked"] and row["mode"] != "rota"]
    if rivals:
        best = min(rivals, key=lambda row: row["median_ms"])
        print(f"PyTorch {best['torch']}'s best at batch {o.batch} on {o.ranks} {'GPUs' if o.on == 'cuda' else 'ranks'}:"
              f" {describe(best)}")
        if rows[0]["mode"] == "rota" and rows[0]["checked"]:
            print(f"rota's step over PyTorch's best: {rows[0]['median_ms'] / best['median_ms']:.3f}")
    return 0 if rivals and all(row["checked"] for row in rows if row["mode"] == "rota") else 1


def need_torch(o):
    """Ends with 77 without PyTorch or so many CUDA devices."""
    try:
        import torch
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    if o.on == "cuda" and torch.cuda.device_count() < o.ranks:
        print(f"skipped: PyTorch sees {torch.cuda.device_count()} CUDA devices, {o.ranks} are asked for")
        sys.exit(77)


def main():
    o = parse()
    need_torch(o)
    if o.variant:
        mode, padded, attention = o.variant.split(":")
        run_variant(o, mode, int(padded), attention)
        return
    variants = [{"mode": mode, "vocabulary": int(padded), "attention": attention} for mode in o.modes.split(",")
                for padded in o.vocabularies.split(",") for attention in o.attentions.split(",")]
    sys.exit(compare(o, run_rota if o.train_gpt else None, variants, ("ranks", "batch", "block", "layers", "dim")))


if __name__ == "__main__":
    main()
