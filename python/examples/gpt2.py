"""GPT-2 from its published weights (model.safetensors): writes on from some tokens, or trains on further ones.

python3 examples/gpt2.py model.safetensors --tokens 464,2068,7586 --count 20
python3 examples/gpt2.py model.safetensors --train tokens.bin --steps 100 --save tuned.safetensors
"""

import argparse
import json
from pathlib import Path
from typing import Any

import gpt
import numpy as np

import rota

DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I32": np.int32}
NAMES = {dtype: name for name, dtype in reversed(DTYPES.items())}


def load(path: Path) -> dict[str, Any]:
    """A safetensors file's arrays by name, as they lie in the file; bf16 as uint16."""
    data = np.memmap(path, np.uint8, "r")
    length = int(data[:8].view("<u8")[0])
    header = json.loads(data[8 : 8 + length].tobytes())
    header.pop("__metadata__", None)
    arrays = {}
    for name, tensor in header.items():
        if tensor["dtype"] not in DTYPES:
            continue  # masks of attention, in some files
        begin, end = tensor["data_offsets"]
        bytes_ = np.array(data[8 + length + begin : 8 + length + end])
        arrays[name] = bytes_.view(DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
    return arrays


def save(path: Path, arrays: dict[str, Any]) -> None:
    header, offset = {}, 0
    for name, array in arrays.items():
        offsets = [offset, offset + array.nbytes]
        header[name] = {"dtype": NAMES[array.dtype.type], "shape": list(array.shape), "data_offsets": offsets}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).tobytes())


def to_f32(array: Any) -> Any:
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def weights(path: Path) -> dict[str, Any]:
    """What the model reads, by the names of gpt.py, f32: with or without 'transformer.' before them in the file."""
    arrays = {name.removeprefix("transformer."): array for name, array in load(path).items()}
    kept = ("wte.", "wpe.", "ln_f.")
    return {
        name: to_f32(array)
        for name, array in arrays.items()
        if name.startswith(kept) or (name.startswith("h.") and not name.endswith((".attn.bias", ".masked_bias")))
    }


def forward(device: rota.Device, arrays: dict[str, Any], heads: int, length: int) -> rota.Plan:
    """A plan from i32 `tokens` [1, length] to `logits` [length, vocabulary]."""
    params = {name: device.tensor(array, name=name) for name, array in arrays.items()}
    with rota.graph(device, name="GPT-2", gradients=False) as g:
        g.output("logits", gpt.logits(params, g.input("tokens", (1, length), "i32"), heads))
    return g.compile()


def write(plan: rota.Plan, tokens: list[int], count: int, length: int) -> list[int]:
    """The most likely tokens after some."""
    for _ in range(count):
        recent = tokens[-length:]
        padded = np.zeros((1, length), np.int32)
        padded[0, : len(recent)] = recent
        tokens = [*tokens, int(plan(tokens=padded).result()["logits"][len(recent) - 1].argmax())]
    return tokens


def train(
    device: rota.Device, arrays: dict[str, Any], data: Any, *, heads: int, steps: int, batch: int, block: int, lr: float
) -> tuple[rota.Trainer, list[float]]:
    """Trains on tokens (as of a file of uint16)."""
    rng = np.random.default_rng(3)

    def sample() -> dict[str, Any]:
        starts = rng.integers(0, len(data) - block, batch)
        windows = np.stack([data[start : start + block + 1] for start in starts]).astype(np.int32)
        return {"tokens": np.ascontiguousarray(windows[:, :-1]), "labels": windows[:, 1:].reshape(-1)}

    step = rota.trainer(
        device,
        lambda p, tokens, labels: rota.cross_entropy(gpt.logits(p, tokens, heads), labels),
        arrays,
        rota.AdamW(lr, clip=1.0, weight_decay=0.0),
        **sample(),
    )
    losses = []
    for i in range(steps):
        losses.append(step(**sample()))
        print(f"step {i + 1:4} loss {losses[-1]:.4f}")
    return step, losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="model.safetensors, in the layout of the published GPT-2")
    parser.add_argument("--device", help="cpu, vk:0, cuda:0; the best there is")
    parser.add_argument("--heads", type=int, help="of attention; a head of the published models is 64 wide")
    parser.add_argument("--tokens", default="464", help="token numbers to write on from")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--train", type=Path, help="a file of tokens, uint16")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--lr", type=float, default=3e-5)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    arrays = weights(options.file)
    heads = options.heads or arrays["wte.weight"].shape[1] // 64
    block = min(options.block, len(arrays["wpe.weight"]))
    with rota.open(options.device) as device:
        if options.train:
            data = np.fromfile(options.train, np.uint16)
            step, _ = train(
                device, arrays, data, heads=heads, steps=options.steps, batch=options.batch, block=block, lr=options.lr
            )
            arrays = {name: tensor.numpy() for name, tensor in step.params.items()}
            if options.save:
                save(options.save, {"transformer." + name: array for name, array in arrays.items()})
        tokens = [int(token) for token in options.tokens.split(",")]
        print(*write(forward(device, arrays, heads, block), tokens, options.count, block), sep=",")


if __name__ == "__main__":
    main()
