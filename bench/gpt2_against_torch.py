#!/usr/bin/env python3
"""GPT-2's training step beside PyTorch's: the same weights, batches and settings, step by step.

    bench/gpt2_against_torch.py build/examples/train_gpt --data TOKENS.bin [--steps 100] [--batch 4] [--device cuda:0]

Weights are drawn at random by PyTorch and given to train_gpt as safetensors; the batches are those that train_gpt draws
from its seed (examples/gpt/data.c), drawn here again. PyTorch keeps f32 weights and computes in bf16 under autocast, as
train_gpt
--dtype bf16 does. Prints losses of some steps, and fails (exit code 1) where they differ by more than --bound, or where
train_gpt started twice doesn't print the same bits. --control trains in PyTorch a second time with its attention
computed another way: what rounding alone makes of the same steps. The settings' defaults are those that GPT-2 124M is
commonly trained with from random weights. Skips (77) without PyTorch, transformers or the device.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

GOLDEN, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


def next_random(state):
    """splitmix64: (new state, number)."""
    state = (state + GOLDEN) & MASK
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def state_after_weights(o):
    """train_gpt draws its own first weights before those of a file are read: two numbers for each that is not 0 or
    1."""
    drawn = (o.vocab + o.block) * o.dim + o.layers * 12 * o.dim * o.dim
    return (o.seed + 2 * drawn * GOLDEN) & MASK


def draw_batches(tokens, o):
    starts, state = int(len(tokens) * 0.9) - o.block, state_after_weights(o)
    for _ in range(o.steps):
        rows = []
        for _ in range(o.batch):
            state, number = next_random(state)
            rows.append(tokens[number % starts:number % starts + o.block + 1])
        yield rows


def learning_rate(step, o):
    """Warm-up, then constant."""
    return o.lr * min(1, step / o.warmup)


def run_rota(o, weights, folder, name):
    log = os.path.join(folder, name)
    command = [o.train_gpt, "--data", o.data, "--tokenizer", "bin", "--vocab", o.vocab, "--arch", "gpt2", "--layers",
               o.layers,
               "--heads", o.heads, "--dim", o.dim, "--block", o.block, "--batch", o.batch, "--dtype", o.dtype,
               "--device", o.device,
               "--init-from", weights, "--iters", o.steps, "--lr", o.lr, "--min-lr", 0, "--warmup", o.warmup,
               "--schedule", "constant",
               "--weight-decay", o.weight_decay, "--beta1", 0.9, "--beta2", 0.95, "--grad-clip", 1, "--seed", o.seed,
               "--eval-iters", 0, "--log", log]
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)
    if result.returncode:
        sys.exit(f"train_gpt ended with {result.returncode}:\n{result.stdout}")
    with open(log) as file:
        return [json.loads(line) for line in file]


def make_model(o, attention):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(o.seed)
    settings = dict(vocab_size=o.vocab, n_positions=o.block, n_embd=o.dim, n_layer=o.layers, n_head=o.heads,
                    resid_pdrop=0.0,
                    embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    try:
        return GPT2LMHeadModel(GPT2Config(attn_implementation=attention, **settings))
    except (ImportError, ValueError):  # older versions have one attention
        torch.manual_seed(o.seed)
        return GPT2LMHeadModel(GPT2Config(**settings))


def run_torch(o, model, tokens, where):
    """(loss, gradient norm) of each step."""
    import numpy as np
    import torch
    model.to(where).train()
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == decays], "weight_decay": o.weight_decay
               if decays else 0.0}
              for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=o.lr, betas=(0.9, 0.95), eps=1e-8)
    steps = []
    for step, rows in enumerate(draw_batches(tokens, o), 1):
        batch = torch.from_numpy(np.stack(rows)).to(where)
        with torch.autocast(where, dtype=torch.bfloat16, enabled=o.dtype == "bf16"):
            logits = model(batch[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.float().view(-1, o.vocab), batch[:, 1:].reshape(-1))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, o)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps.append((loss.item(), norm.item()))
    return steps


def largest(losses, theirs):
    """(largest difference, its step); NaN is larger than all."""
    differences = [abs(a - b) for a, (b, _) in zip(losses, theirs)]
    step = max(range(len(differences)), key=lambda i: (math.isnan(differences[i]), differences[i]))
    return differences[step], step + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train_gpt")
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda:0", help="train_gpt's; PyTorch's is cuda, or cpu for cpu")
    parser.add_argument("--dtype", default="bf16", choices=["f32", "bf16"])
    for name, value in (("steps", 100), ("batch", 4), ("block", 1024), ("vocab", 50257), ("layers", 12), ("heads", 12),
                        ("dim", 768),
                        ("warmup", 700), ("seed", 1337)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("lr", 6e-4), ("weight-decay", 0.1), ("bound", 0.02)):
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--control", action="store_true")
    o = parser.parse_args()
    try:
        import numpy as np
        import torch
        from safetensors.torch import save_file
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    where = "cpu" if o.device == "cpu" else "cuda"
    if where == "cuda" and not torch.cuda.is_available():
        print("skipped: PyTorch sees no CUDA device")
        sys.exit(77)

    weights_model = make_model(o, "sdpa")
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, "weights.safetensors")
        named = dict(weights_model.named_parameters())
        save_file({name: value.detach().contiguous() for name, value in named.items() if name != "lm_head.weight"},
                  weights)
        rota = run_rota(o, weights, folder, "first.jsonl")
        again = run_rota(o, weights, folder, "second.jsonl")
    # A header of 256 words, as llm.c writes it.
    tokens = np.fromfile(o.data, dtype=np.uint16)[512:].astype(np.int64)
    theirs = run_torch(o, weights_model, tokens, where)
    del weights_model, named
    control = run_torch(o, make_model(o, "eager"), tokens, where) if o.control else None
    for step in range(1, o.steps + 1):
        if step > 3 and step % 10:
            continue
        (loss, norm), mine = theirs[step - 1], rota[step - 1]
        print(f"step {step:4}: loss {mine['loss']:.5f}, torch {loss:.5f}"
              + (f" {control[step - 1][0]:.5f}" if control else "") +
              f"; gradient norm {mine['grad_norm']:.4f}, torch {norm:.4f}"
              + (f" {control[step - 1][1]:.4f}" if control else ""))
    worst, step = largest([s["loss"] for s in rota], theirs)
    same = [s["loss"] for s in rota] == [s["loss"] for s in again]
    print(f"{len(rota)} steps on {o.device}, {o.dtype}, batch {o.batch}, lr {o.lr} after {o.warmup}: largest "
          f"difference {worst:.5f}, at step {step}; bound {o.bound}; two runs of train_gpt "
          f"{'agree bit for bit' if same else 'DIFFER'}; PyTorch {torch.__version__}")
    if control:
        print("PyTorch against itself: largest difference %.5f, at step %d"
              % largest([loss for loss, _ in control], theirs))
    sys.exit(0 if len(rota) == o.steps and worst <= o.bound and not math.isnan(worst) and same else 1)


main()
