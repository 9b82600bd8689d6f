"""What test_oracle.sh compares: a GPT's and a PatchTST's training step against JAX in f64. oracle_check.py
ORACLE_TOOL"""
import subprocess
import sys

import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file, save_file

tool = sys.argv[1]
RELATIVE = 1e-4
LR = 0.01
rng = np.random.default_rng(5)


def check(good, what):
    if not good:
        sys.exit("FAILED: " + what)


def run(*arguments):
    result = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True)
    check(result.returncode == 0, f"{arguments[:2]}: exit code {result.returncode}: {result.stderr}")
    return load_file("out.safetensors")


def wide(tensors):
    return {name: jnp.asarray(x, jnp.float64) for name, x in tensors.items()}


def near(what, got, expected, scale=None):
    """Largest difference, relative to the largest value expected."""
    scale = np.abs(expected).max() if scale is None else scale
    apart = np.abs(np.asarray(got, np.float64).reshape(np.shape(expected)) - expected).max() / scale
    check(apart < RELATIVE, f"{what}: {apart:.3g} apart, relative to {scale:.3g}")
    return apart


def compare(what, got, start, loss, gradients, beta2, decay, prefix=""):
    """Loss, every gradient, and the weights that Adam makes of them."""
    worst = near(what + ": loss", got["loss"], np.atleast_1d(loss))
    largest = max(np.abs(g).max() for g in gradients.values())
    for name, expected in gradients.items():
        mine = got[prefix + name + ".gradient"]
        # What a norm takes away again has no influence: nothing but rounding.
        if np.abs(expected).max() < 1e-12 * largest:
            near(f"{what}: {name}, whose gradient is 0", mine, np.zeros(mine.shape), 1e-2 * largest)
        else:
            worst = max(worst, near(f"{what}: gradient of {name}", mine, np.asarray(expected)))
        before, g = start[name].astype(np.float64), mine.astype(np.float64).reshape(start[name].shape)
        after = before * (1 - LR * (decay if before.ndim == 2 else 0)) - LR * g / (np.sqrt((1 - beta2) * g * g / (1
                - beta2)) + 1e-8)
        near(f"{what}: {name} after the step", got[prefix + name], after, max(np.abs(after).max(), LR))
    return worst


# ---- GPT ----


def gpt_loss(w, tokens, targets, layers, heads):
    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w.get(name + ".bias", 0.0)

    def linear(x, name):
        return x @ w[name + ".weight"] + w.get(name + ".bias", 0.0)

    rows, count = tokens.shape
    x = w["wte.weight"][tokens] + w["wpe.weight"][:count]
    dim = x.shape[-1]
    for layer in range(layers):
        h = f"h.{layer}."
        q, k, v = (p.reshape(rows, count, heads, dim // heads)
                   for p in jnp.split(linear(norm(x, h + "ln_1"), h + "attn.c_attn"), 3, -1))
        scores = jnp.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(dim // heads)
        weights = jax.nn.softmax(jnp.where(np.tril(np.ones((count, count), bool)), scores, -jnp.inf), -1)
        x = x + linear(jnp.einsum("bhij,bjhd->bihd", weights, v).reshape(rows, count, dim), h + "attn.c_proj")
        x = x + linear(jax.nn.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate=True), h + "mlp.c_proj")
    chances = jax.nn.log_softmax(norm(x, "ln_f") @ w["wte.weight"].T, -1)
    return -jnp.take_along_axis(chances, targets[..., None], -1).mean()


def gpt_weights(arch, vocabulary, block, layers, dim):
    weights = {"wte.weight": (vocabulary, dim), "wpe.weight": (block, dim), "ln_f.weight": (dim,), "ln_f.bias": (dim,)}
    for layer in range(layers):
        h = f"h.{layer}."
        for name, shape in [("attn.c_attn", (dim, 3 * dim)), ("attn.c_proj", (dim, dim)), ("mlp.c_fc", (dim, 4 * dim)),
                            ("mlp.c_proj", (4 * dim, dim))]:
            weights[h + name + ".weight"] = shape
            weights[h + name + ".bias"] = shape[1:]
        for name in ("ln_1", "ln_2"):
            weights[h + name + ".weight"] = weights[h + name + ".bias"] = (dim,)
    drawn = {name: (rng.normal(0, 0.2, shape) + (".ln_" in "." + name and name.endswith("weight"))).astype(np.float32)
             for name, shape in weights.items() if arch == "gpt2" or not name.endswith("bias")}
    return drawn


def gpt(devices):
    for arch, vocabulary, block, layers, heads, dim, rows, micro in [("gpt2", 37, 12, 2, 2, 16, 3, 2),
                                                                     ("plain", 61, 9, 1, 3, 24, 4, 1)]:
        weights = gpt_weights(arch, vocabulary, block, layers, dim)
        save_file({"transformer." + name: x for name, x in weights.items()}, "in.safetensors")
        tokens = rng.integers(0, vocabulary, (rows * micro, block + 1))
        loss, gradients = jax.jit(jax.value_and_grad(gpt_loss), static_argnums=(3, 4))(
            wide(weights), tokens[:, :-1], tokens[:, 1:], layers, heads)
        norm = np.sqrt(sum((np.asarray(g) ** 2).sum() for g in gradients.values()))
        for device in devices:
            got = run("gpt", device, "in.safetensors", "out.safetensors", arch, vocabulary, block, layers, heads, dim,
                      rows, micro, 10,
                      *tokens.ravel())
            what = f"GPT, {arch}, on {device}"
            near(what + ": norm of the gradient", got["norm"], np.atleast_1d(norm))
            worst = compare(what, got, weights, float(loss), gradients, 0.99, 0.1, "transformer.")
            print(f"{what}: loss {float(loss):.6f}, {len(gradients)} gradients, at most {worst:.2g} apart")


# ---- PatchTST ----


def patchtst_forecast(w, x, statistics, sizes, train):
    """x [rows, look-back]; statistics [layers, 2 norms, mean and variance, dim]. The forecast, and the statistics
    afterwards."""
    patch, stride, layers, heads, dim = sizes
    mean = x.mean(-1, keepdims=True)
    deviation = jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    x = (x - mean) / deviation
    patches = (x.shape[1] - patch) // stride + 2
    x = jnp.concatenate([x, jnp.repeat(x[:, -1:], stride, 1)], 1)
    x = jnp.stack([x[:, i * stride : i * stride + patch] for i in range(patches)], 1)
    after = []

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(x, name):
        running = statistics[len(after)]
        flat = x.reshape(-1, dim)
        m, v = (flat.mean(0), flat.var(0)) if train else (running[0], running[1])
        after.append(0.9 * running + 0.1 * jnp.stack([m, flat.var(0, ddof=1)]))
        return (x - m) / jnp.sqrt(v + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

    def split(x):
        return x.reshape(-1, patches, heads, dim // heads).transpose(0, 2, 1, 3)

    x = linear(x, "embed") + w["positions"]
    previous = 0.0
    for layer in range(layers):
        h = f"layers.{layer}."
        q, k, v = map(split, jnp.split(linear(x, h + "qkv"), 3, -1))
        previous = q @ k.transpose(0, 1, 3, 2) / np.sqrt(dim // heads) + previous
        mixed = (jax.nn.softmax(previous, -1) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(x + linear(mixed, h + "project"), h + "norm1")
        x = norm(x + linear(jax.nn.gelu(linear(x, h + "widen"), approximate=False), h + "narrow"), h + "norm2")
    return linear(x.reshape(len(x), -1), "head") * deviation + mean, jnp.stack(after)


def patchtst_loss(w, windows, statistics, look_back, sizes):
    forecast, after = patchtst_forecast(w, windows[:, :look_back], statistics, sizes, True)
    return ((forecast - windows[:, look_back:]) ** 2).mean(), after


def patchtst_weights(look_back, horizon, patch, stride, layers, dim, widened):
    patches = (look_back - patch) // stride + 2
    weights = {}

    def linear(name, rows, columns):
        weights[name + ".weight"] = rng.normal(0, 0.3, (rows, columns))
        weights[name + ".bias"] = rng.normal(0, 0.3, columns)

    linear("embed", patch, dim)
    weights["positions"] = rng.normal(0, 0.3, (patches, dim))
    for layer in range(layers):
        h = f"layers.{layer}."
        for name, rows, columns in [("qkv", dim, 3 * dim), ("project", dim, dim), ("widen", dim, widened),
                                    ("narrow", widened, dim)]:
            linear(h + name, rows, columns)
        for name in ("norm1", "norm2"):
            weights[h + name + ".weight"] = rng.normal(1, 0.2, dim)
            weights[h + name + ".bias"] = rng.normal(0, 0.2, dim)
    linear("head", patches * dim, horizon)
    return {name: x.astype(np.float32) for name, x in weights.items()}


def patchtst(devices):
    # The second has so many rows that gradients of weights are summed up in parts.
    for on, channels, look_back, horizon, patch, stride, layers, heads, dim, widened, batch in [
            (devices, 3, 25, 6, 8, 4, 3, 2, 8, 12, 5), (["cpu"], 3, 168, 5, 8, 4, 1, 2, 8, 16, 66)]:
        weights = patchtst_weights(look_back, horizon, patch, stride, layers, dim, widened)
        windows = rng.normal(0, 1, (batch, channels, look_back + horizon)).cumsum(-1).astype(np.float32)
        statistics = np.stack([rng.normal(0, 0.5, (layers * 2, dim)), rng.uniform(0.5, 2, (layers * 2, dim))],
                              1).astype(np.float32)
        save_file({**weights, "windows": windows, "statistics": statistics.ravel()}, "in.safetensors")
        sizes = patch, stride, layers, heads, dim
        rows = windows.reshape(-1, look_back + horizon).astype(np.float64)
        (loss, after), gradients = jax.jit(jax.value_and_grad(patchtst_loss, has_aux=True), static_argnums=(3, 4))(
            wide(weights), rows, statistics.astype(np.float64), look_back, sizes)
        forecast, _ = jax.jit(patchtst_forecast, static_argnums=(3, 4))(wide(weights), rows[:, :look_back],
                statistics.astype(np.float64),
                                                                       sizes, False)
        error = np.asarray(forecast - rows[:, look_back:]).reshape(batch, -1)
        for device in on:
            got = run("patchtst", device, "in.safetensors", "out.safetensors", channels, look_back, horizon, patch,
                      stride, layers, heads,
                      dim, widened, batch)
            what = f"PatchTST of {layers} layers on {device}"
            near(what + ": errors in evaluation", got["errors"], np.stack([(error**2).mean(1), np.abs(error).mean(1)]))
            near(what + ": running statistics", got["statistics"], np.asarray(after).ravel())
            worst = compare(what, got, weights, float(loss), gradients, 0.999, 0.0)
            print(f"{what}: loss {float(loss):.6f}, {len(gradients)} gradients, at most {worst:.2g} apart")


devices = ["cpu"]
probe = [tool, "patchtst", "vk:0", "none", "none", *"1 2 1 1 1 1 1 1 1 1".split()]
if subprocess.run(probe, capture_output=True).returncode != 3:
    devices.append("vk:0")
else:
    print("skipped, steps on Vulkan: there is no device vk:0")
gpt(devices)
patchtst(devices)
