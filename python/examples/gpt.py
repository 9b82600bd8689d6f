"""A GPT of characters, trained on a text and then writing one: python3 examples/gpt.py [TEXT FILE]."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import rota

Params = dict[str, rota.Tensor]
PROVERBS = (
    "a stitch in time saves nine. the early bird catches the worm. birds of a feather flock together. "
    "all that glitters is not gold. a rolling stone gathers no moss. look before you leap. "
) * 20


def initial(vocabulary: int, block: int, layers: int, dim: int) -> dict[str, Any]:
    """GPT-2's initial weights, under its published names; products are [in, out], as there."""
    rng = np.random.default_rng(1)

    def normal(*shape: int, scale: float = 0.02) -> Any:
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    weights = {"wte.weight": normal(vocabulary, dim), "wpe.weight": normal(block, dim)}
    for layer in range(layers):
        h = f"h.{layer}."
        last = 0.02 / np.sqrt(2 * layers)
        shapes = {
            "attn.c_attn": (dim, 3 * dim),
            "attn.c_proj": (dim, dim),
            "mlp.c_fc": (dim, 4 * dim),
            "mlp.c_proj": (4 * dim, dim),
        }
        for name, shape in shapes.items():
            weights[f"{h}{name}.weight"] = normal(*shape, scale=last if name.endswith("c_proj") else 0.02)
            weights[f"{h}{name}.bias"] = np.zeros(shape[1], np.float32)
        for name in ("ln_1", "ln_2"):
            weights[f"{h}{name}.weight"], weights[f"{h}{name}.bias"] = (
                np.ones(dim, np.float32),
                np.zeros(dim, np.float32),
            )
    weights["ln_f.weight"], weights["ln_f.bias"] = np.ones(dim, np.float32), np.zeros(dim, np.float32)
    return weights


def logits(p: Params, tokens: rota.Tensor, heads: int) -> rota.Tensor:
    """GPT-2: tokens i32 [batch, time] to [batch * time, vocabulary]."""
    batch, time = tokens.shape
    dim = p["wte.weight"].shape[1]
    positions = p["wpe.weight"][:time].broadcast_to((batch, time, dim))
    x = (rota.embedding(p["wte.weight"], tokens) + positions).reshape(batch * time, dim)
    layer = 0
    while f"h.{layer}.ln_1.weight" in p:
        h = f"h.{layer}."
        y = rota.layernorm(x, p[h + "ln_1.weight"], p[h + "ln_1.bias"])
        qkv = rota.linear(y, p[h + "attn.c_attn.weight"], p[h + "attn.c_attn.bias"])
        parts = qkv.reshape(batch, time, 3, heads, dim // heads).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        mixed = rota.attention(q, k, v, causal=True).permute(0, 2, 1, 3).reshape(batch * time, dim)
        x = rota.linear(mixed, p[h + "attn.c_proj.weight"], p[h + "attn.c_proj.bias"], residual=x)
        y = rota.layernorm(x, p[h + "ln_2.weight"], p[h + "ln_2.bias"])
        y = rota.linear(y, p[h + "mlp.c_fc.weight"], p[h + "mlp.c_fc.bias"], activation="gelu")
        x = rota.linear(y, p[h + "mlp.c_proj.weight"], p[h + "mlp.c_proj.bias"], residual=x)
        layer += 1
    x = rota.layernorm(x, p["ln_f.weight"], p["ln_f.bias"])
    return rota.matmul(x, p["wte.weight"], transpose_b=True)


def train(
    device: rota.Device, text: str, *, steps: int, block: int, layers: int, heads: int, dim: int, batch: int
) -> tuple[rota.Trainer, list[float], str]:
    letters = "".join(sorted(set(text)))
    data = np.array([letters.index(letter) for letter in text], np.int32)
    rng = np.random.default_rng(2)

    def sample() -> dict[str, Any]:
        starts = rng.integers(0, len(data) - block - 1, batch)
        windows = np.stack([data[start : start + block + 1] for start in starts])
        return {"tokens": np.ascontiguousarray(windows[:, :-1]), "labels": windows[:, 1:].reshape(-1)}

    step = rota.trainer(
        device,
        lambda p, tokens, labels: rota.cross_entropy(logits(p, tokens, heads), labels),
        initial(len(letters), block, layers, dim),
        rota.AdamW(clip=1.0, weight_decay=0.1),
        **sample(),
    )
    losses = []
    for i in range(steps):
        losses.append(step(**sample(), lr=3e-3 * min(1.0, (i + 1) / 20)))
        if i % 50 == 0 or i == steps - 1:
            print(f"step {i:4} loss {losses[-1]:.3f}")
    return step, losses, letters


def write(params: Params, device: rota.Device, letters: str, *, heads: int, length: int, prompt: str) -> str:
    """The most likely letters after a prompt. The window is that of the model: a plan has one shape."""
    block = params["wpe.weight"].shape[0]
    with rota.graph(device, gradients=False) as g:
        g.output("logits", logits(params, g.input("tokens", (1, block), "i32"), heads))
    plan = g.compile()
    text = prompt
    for _ in range(length):
        recent = text[-block:]
        tokens = np.zeros((1, block), np.int32)
        tokens[0, : len(recent)] = [letters.index(letter) for letter in recent]
        text += letters[int(plan(tokens=tokens).result()["logits"][len(recent) - 1].argmax())]
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="?", type=Path, help="a text file; without one, proverbs")
    parser.add_argument("--device", help="cpu, vk:0, cuda:0; the best there is")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    text = options.text.read_text() if options.text else PROVERBS
    with rota.open(options.device) as device:
        step, _, letters = train(device, text, steps=options.steps, block=32, layers=2, heads=4, dim=64, batch=16)
        print(write(step.params, device, letters, heads=4, length=80, prompt=text[:8]))


if __name__ == "__main__":
    main()
