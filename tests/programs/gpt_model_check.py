"""What test_gpt_model.sh compares. gpt_model_check.py sampling|logits GPT_TOOL TRAIN_GPT, in a folder of its own."""
import math
import os
import subprocess
import sys

mode, tool, train = sys.argv[1:]


def run(*arguments, code=0):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    check(result.returncode == code, f"{arguments[:3]}: exit code {result.returncode}: {result.stderr}")
    return result.stdout if code == 0 else result.stderr


def check(good, what):
    if not good:
        sys.exit("FAILED: " + what)


def sampling():
    """Frequencies over many draws against the probabilities that temperature, top-k and top-p leave."""
    logits = [0.5, 2.0, -1.0, 1.9, 0.0, 2.0, -30.0, 1.0]
    draws = 200000
    cases = [(1, 0, 1), (0.5, 0, 1), (2, 0, 1), (1, 3, 1), (0.7, 1, 1), (1, 0, 0.6), (1, 0, 1e-6), (1.3, 5, 0.8),
             (0, 0, 1), (1, 100, 1)]
    for temperature, top_k, top_p in cases:
        order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
        if temperature == 0:
            expected = {order[0]: 1.0}
        else:
            kept = order[: top_k or None]
            weights = [math.exp(logits[i] / temperature) for i in kept]
            chances = [w / sum(weights) for w in weights]
            n, reached = 0, 0.0
            while n < len(kept) and (n == 0 or reached < top_p):
                reached += chances[n]
                n += 1
            expected = {i: c / sum(chances[:n]) for i, c in zip(kept[:n], chances[:n])}
        arguments = [tool, "choose", temperature, top_k, top_p, 5, draws, *logits]
        drawn = [int(line) for line in run(*arguments).split()]
        check(run(*arguments).split() == [str(d) for d in drawn], "the same seed draws otherwise")
        for i, count in enumerate(drawn):
            chance = expected.get(i, 0.0)
            # Five standard deviations of a binomial.
            bound = 5 * math.sqrt(draws * chance * (1 - chance))
            check(abs(count - draws * chance) <= bound,
                  f"temperature {temperature}, k {top_k}, p {top_p}: token {i} came "
                  f"{count} times of {draws}, expected {draws * chance:.0f} +- {bound:.0f}")
    print(f"sampling: {len(cases)} cases draw as often as they should")


def reference(weights, tokens, layers, heads, np):
    """GPT-2's forward pass in f64, from its description."""
    def norm(x, name):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-5) * weights[name + ".weight"] + weights.get(name + ".bias", 0.0)

    def linear(x, name):
        return x @ weights[name + ".weight"] + weights.get(name + ".bias", 0.0)

    count = len(tokens)
    x = weights["wte.weight"][tokens] + weights["wpe.weight"][:count]
    for layer in range(layers):
        h = f"h.{layer}."
        q, k, v = np.split(linear(norm(x, h + "ln_1"), h + "attn.c_attn"), 3, axis=-1)
        mixed = np.zeros_like(x)
        width = x.shape[1] // heads
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            scores = q[:, part] @ k[:, part].T / math.sqrt(width)
            scores[np.triu_indices(count, 1)] = -np.inf
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, part] = scores / scores.sum(-1, keepdims=True) @ v[:, part]
        x = x + linear(mixed, h + "attn.c_proj")
        wide = linear(norm(x, h + "ln_2"), h + "mlp.c_fc")
        wide = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
        x = x + linear(wide, h + "mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].T


def random_weights(np, rng, arch, vocabulary, block, layers, dim):
    def draw(*shape):
        return rng.normal(0, 0.2, shape).astype(np.float32)

    weights = {"wte.weight": draw(vocabulary, dim), "wpe.weight": draw(block, dim)}
    for layer in range(layers):
        h = f"h.{layer}."
        for name, shape in [("attn.c_attn", (dim, 3 * dim)), ("attn.c_proj", (dim, dim)), ("mlp.c_fc", (dim, 4 * dim)),
                            ("mlp.c_proj", (4 * dim, dim))]:
            weights[h + name + ".weight"] = draw(*shape)
            if arch == "gpt2":
                weights[h + name + ".bias"] = draw(shape[1])
        for name in ("ln_1", "ln_2"):
            weights[h + name + ".weight"] = 1 + draw(dim)
            if arch == "gpt2":
                weights[h + name + ".bias"] = draw(dim)
    weights["ln_f.weight"] = 1 + draw(dim)
    if arch == "gpt2":
        weights["ln_f.bias"] = draw(dim)
    return weights


def to_bf16(np, x):
    """Rounded to nearest even, as 16-bit numbers."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(np, x):
    return (x.astype(np.uint32) << 16).view(np.float32)


def save_bf16(np, path, tensors):
    """safetensors' numpy side has no bf16: the file is put together here."""
    import json
    import struct
    header, data = {}, b""
    for name, x in tensors.items():
        raw = to_bf16(np, x).tobytes()
        header[name] = {"dtype": "BF16", "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


def compare(np, what, text, expected):
    rows = np.array([[float(x) for x in line.split()] for line in text.strip().split("\n")])
    count = len(expected)
    check(rows.shape == (2 * count, expected.shape[1]), f"{what}: {rows.shape} logits")
    scale = np.abs(expected).max()
    for name, part in (("all at once", rows[:count]), ("token after token", rows[count:])):
        apart = np.abs(part - expected).max() / scale
        check(apart < 1e-4, f"{what}, {name}: {apart:.2g} apart, relative to {scale:.3g}")


def logits():
    import numpy as np
    from safetensors.numpy import load_file, save_file
    rng = np.random.default_rng(11)
    devices = ["cpu"]
    if subprocess.run([tool, "logits", "vk:0", "none", "gpt2", "5", "4", "1", "1", "4", "0"],
                      capture_output=True).returncode != 3:
        devices.append("vk:0")
    else:
        print("skipped, logits on Vulkan: there is no device vk:0")
    for arch, prefix, vocabulary, block, layers, heads, dim in [("gpt2", "transformer.", 67, 24, 3, 4, 32),
                                                                ("gpt2", "", 301, 17, 2, 3, 24),
                                                                ("plain", "transformer.", 50, 9, 1, 1, 8)]:
        weights = random_weights(np, rng, arch, vocabulary, block, layers, dim)
        sizes = [vocabulary, block, layers, heads, dim]
        tokens = [int(t) for t in rng.integers(0, vocabulary, block)]
        tensors = {prefix + name: x for name, x in weights.items()}
        # What files found in the wild have besides: a mask, and the head that is the token table.
        tensors[prefix + "h.0.attn.bias"] = np.tril(np.ones((1, 1, block, block), np.float32))
        tensors["lm_head.weight"] = weights["wte.weight"].copy()
        save_file(tensors, "f32.safetensors", metadata={"format": "pt"})
        save_file({n: x.astype(np.float16) for n, x in tensors.items()}, "f16.safetensors")
        save_bf16(np, "bf16.safetensors", tensors)
        rounded = {"f32": lambda x: x, "f16": lambda x: x.astype(np.float16),
                   "bf16": lambda x: from_bf16(np, to_bf16(np, x))}
        for dtype, round_ in rounded.items():
            exact = {n: round_(x).astype(np.float64) for n, x in weights.items()}
            expected = reference(exact, tokens, layers, heads, np)
            for device in devices:
                text = run(tool, "logits", device, dtype + ".safetensors", arch, *sizes, *tokens)
                compare(np, f"{arch} {dtype} on {device}", text, expected)
        # Fewer positions than the file has, and one token only.
        expected = reference({n: x.astype(np.float64) for n, x in weights.items()}, tokens[:1], layers, heads, np)
        compare(np, "one token", run(tool, "logits", "cpu", "f32.safetensors", arch, vocabulary, 5, layers, heads, dim,
                                     tokens[0]), expected)

    # What the trainer saves is what it loaded, in each type, to the bit: f32, and f16 and bf16 rounded to even.
    arch, vocabulary, block, layers, heads, dim = "gpt2", 256, 16, 2, 2, 16
    weights = random_weights(np, rng, arch, vocabulary, block, layers, dim)
    weights["wte.weight"][:6, 0] = [65519.0, 65520.0, 1e-7, 3e-8, 2.0**-25, -6.1e-5]  # the edges of f16
    save_file({"transformer." + n: x for n, x in weights.items()}, "in.safetensors")
    open("text", "w").write("some words to learn from, " * 40)
    options = [train, "--data", "text", "--tokenizer", "byte", "--device", "cpu", "--arch", arch, "--block", block,
               "--layers", layers,
               "--heads", heads, "--dim", dim, "--init-from", "in.safetensors", "--iters", 1, "--lr", 0, "--min-lr", 0,
               "--eval-iters", 0]
    for dtype in ("f32", "f16", "bf16"):
        run(*options, "--save-weights", "out.safetensors", "--weights-dtype", dtype)
        if dtype == "bf16":
            import json
            import struct
            raw = open("out.safetensors", "rb").read()
            length = struct.unpack("<Q", raw[:8])[0]
            header = json.loads(raw[8 : 8 + length])
            saved = {n: np.frombuffer(raw[8 + length :][slice(*t["data_offsets"])], np.uint16).reshape(t["shape"])
                     for n, t in header.items() if n != "__metadata__"}
            expected = {"transformer." + n: to_bf16(np, x) for n, x in weights.items()}
        else:
            saved = load_file("out.safetensors")
            with np.errstate(over="ignore"):
                expected = {"transformer." + n: x.astype(np.float16 if dtype == "f16" else np.float32) for n,
                            x in weights.items()}
        check(set(saved) == set(expected), f"{dtype}: other names were saved: {set(saved) ^ set(expected)}")
        for name, x in expected.items():
            check(saved[name].tobytes() == x.tobytes(), f"{dtype}: {name} was saved otherwise")

    # Another model's weights: the first five names that differ; and a file that is cut.
    few = {"transformer." + n: x for n, x in weights.items() if not n.startswith("h.1.")}
    few["transformer.ln_f.weight"] = np.ones(17, np.float32)
    few["transformer.h.7.extra"] = np.ones(3, np.float32)
    save_file(few, "few.safetensors")
    options[options.index("in.safetensors")] = "few.safetensors"
    message = run(*options, code=1)
    check(message.count("\n") == 1 and message.count("'transformer.h.1.") == 5 and "is missing" in message
          and "and 9 more" in message,
          f"another model's weights: {message}")
    options[options.index("--layers") + 1] = 1
    message = run(*options, code=1)
    check("'transformer.ln_f.weight' is 17 there, 16 here" in message
          and "'transformer.h.7.extra' is not in this model" in message,
          f"another shape: {message}")
    options[options.index("--layers") + 1] = layers
    whole = open("in.safetensors", "rb").read()
    for keep in (0, 100, len(whole) // 2, len(whole) - 1):
        open("few.safetensors", "wb").write(whole[:keep])
        message = run(*options, code=1)
        check(message.count("\n") == 1 and "truncated" in message, f"a file cut at {keep}: {message}")

    # A NaN in a weight is named where it first shows.
    weights["h.1.mlp.c_fc.bias"][3] = np.nan
    save_file({"transformer." + n: x for n, x in weights.items()}, "few.safetensors")
    message = run(*options, code=2)
    check("the loss of step 1 is not finite" in message, message)
    message = run(*options, "--find-nan", code=2)
    check("layer 1 wide: widened" in message, message)
    if "vk:0" in devices:
        options[options.index("cpu")] = "vk:0"
        message = run(*options, "--find-nan", code=2)
        check("layer 1 wide: widened" in message and "the first at 3" in message, message)
    print("logits of small models equal numpy's on " + " and ".join(devices) + "; weights load and save as they are")


sampling() if mode == "sampling" else logits()
