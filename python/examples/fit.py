"""Trains in three lines: a plane through points."""

import numpy as np

import rota

x = np.random.default_rng(0).standard_normal((256, 8)).astype(np.float32)
y = x.sum(1, keepdims=True)

device = rota.open("cpu")
step = rota.trainer(
    device,
    lambda p, x, y: rota.mse(x @ p["w"] + p["b"], y),
    {"w": np.zeros((8, 1), np.float32), "b": np.zeros(1, np.float32)},
    rota.AdamW(lr=0.05),
    x=x,
    y=y,
)
losses = [step(x=x, y=y) for _ in range(200)]
print(f"loss {losses[0]:.3f} -> {losses[-1]:.6f}")
