"""Models that rota is compared with eager PyTorch on: each in a small size, for the suite, and in its own.

Run as a program, it compares them all, and says which ops ran on whose kernels and how long a training step took:
python torch_zoo.py [--full] [--time] [--device cuda] [MODEL ...]. It exits with 1 where one is farther from eager than
it may be, which is twice as far from what f64 gives as eager itself is, where that is more. A model of somebody else's
is FILE.py:FUNCTION or MODULE:FUNCTION, a function of whether it is to be in its own size and of how many a batch is to
have, or None, as those in MODELS are: it gives a module and a batch, of which the last is the classes, or a function
that gives the batch of each step by its number.
"""

import argparse
import cProfile
import importlib
import math
import pstats
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch_data as data
from torch import nn
from torch.nn import functional as F

import rota.torch

# How far from eager's outputs and gradients are to be at most, relative to the largest magnitude of each.
FORWARD_MAX, GRADIENTS_MAX = 1e-5, 1e-4


class Loss(nn.Module):
    """A model with a loss behind it."""

    gives_outputs = True  # beside the loss

    def __init__(self, model: nn.Module, loss: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *batch: Any) -> Any:
        *inputs, target = batch
        outputs = self.model(*inputs)
        loss = self.loss(outputs.flatten(0, -2) if outputs.dim() == 3 else outputs, target.flatten())
        return (loss, outputs) if self.gives_outputs else loss


class Block(nn.Module):
    """A transformer's block, causal or not, with attention to a memory where there is one."""

    def __init__(self, width: int, heads: int, causal: bool, crossed: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        if crossed:
            self.norm3, self.query, self.memory = (
                nn.LayerNorm(width),
                nn.Linear(width, width),
                nn.Linear(width, 2 * width),
            )
            self.crossed = nn.Linear(width, width)

    def attend(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)

    def forward(self, x: Any, memory: Any = None) -> Any:
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + self.out(self.attend(q, k, v, self.causal))
        if memory is not None:
            keys, values = self.memory(memory).chunk(2, -1)
            x = x + self.crossed(self.attend(self.query(self.norm3(x)), keys, values, False))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """GPT-2: learned positions, tied embeddings."""

    def __init__(self, words: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for table in (self.words, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.words.weight)


class Translator(nn.Module):
    """An encoder and a decoder."""

    def __init__(self, words: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.encoder = nn.ModuleList(Block(width, heads, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(width, heads, True, crossed=True) for _ in range(layers))
        self.out = nn.Linear(width, words)

    def forward(self, source: Any, target: Any) -> Any:
        memory = self.words(source)
        for block in self.encoder:
            memory = block(memory)
        x = self.words(target)
        for block in self.decoder:
            x = block(x, memory)
        return self.out(x)


class ViT(nn.Module):
    """A vision transformer: patches, a class token, learned positions."""

    def __init__(self, size: int, patch: int, width: int, heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads, False) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: Any) -> Any:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outer),
        )
        self.short: nn.Module = nn.Identity()
        if stride != 1 or inner != outer:
            self.short = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: Any) -> Any:
        return F.relu(self.body(x) + self.short(x))


def resnet(width: int, classes: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inner = width
    for i in range(4):
        outer = width << i
        layers += [Residual(inner, outer, 1 if i == 0 else 2), Residual(outer, outer, 1)]
        inner = outer
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, classes))


class UNet(nn.Module):
    """Down and up again, with group norm; gives an image's classes by place."""

    def __init__(self, width: int, levels: int, classes: int) -> None:
        super().__init__()
        widths = [width << i for i in range(levels + 1)]
        self.down = nn.ModuleList(self.pair(a, b) for a, b in zip([3, *widths[:-1]], widths, strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.join = nn.ModuleList(self.pair(2 * w, w) for w in reversed(widths[:-1]))
        self.out = nn.Conv2d(width, classes, 1)

    @staticmethod
    def pair(inner: int, outer: int) -> nn.Module:
        layers: list[nn.Module] = []
        for a in (inner, outer):
            layers += [nn.Conv2d(a, outer, 3, padding=1), nn.GroupNorm(min(4, outer), outer), nn.SiLU()]
        return nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        kept = []
        for i, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, join, other in zip(self.up, self.join, reversed(kept[:-1]), strict=True):
            x = join(torch.cat([up(x), other], 1))
        return self.out(x).permute(0, 2, 3, 1).flatten(1, 2)


class LSTM(nn.Module):
    """A character model of LSTM cells, written out."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(words, width), nn.Linear(width, words)
        self.input, self.state = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.input(self.words(tokens))
        h = c = x.new_zeros(x.shape[0], x.shape[2] // 4)
        states = []
        for t in range(x.shape[1]):
            i, f, g, o = (x[:, t] + self.state(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            states.append(h)
        return self.out(torch.stack(states, 1))


# AdamW's. Batch norm of few images makes a tenth of a rounding within ten steps by 1e-3, a thousandth within 50 by
# 1e-4; by 1e-3 the translator in its own size jumps, from 8 to 24 in one step, and comes back another way each time.
LEARNING_RATE, LEARNING_RATES = 1e-3, {"resnet18": 3e-5, "translator": 1e-4}

# What a model is trained on: the batch of each step, by its number; or one for all, in somebody else's models.
Batches = Callable[[int], list[Any]]


def gpt2(full: bool, count: int | None) -> Any:
    words, length = (50257, 1024 if count else 256) if full else (101, 24)
    model = GPT(words, length, 768, 12, 12) if full else GPT(words, length, 32, 4, 2)
    return model, partial(data.language, words, count or (1 if full else 2), length)


def resnet18(full: bool, count: int | None) -> Any:
    width, size, count = (64, 224, count or 8) if full else (8, 64, count or 4)
    return resnet(width, 10), partial(data.gratings, 10, count, size)


def vit(full: bool, count: int | None) -> Any:
    model, size = (ViT(224, 16, 384, 6, 12, 10), 224) if full else (ViT(32, 8, 32, 4, 2, 10), 32)
    return model, partial(data.gratings, 10, count or 4, size)


def lstm(full: bool, count: int | None) -> Any:
    width, length, count = (256, 64, count or 16) if full else (24, 8, count or 3)
    return LSTM(65, width), partial(data.language, 65, count, length)


def unet(full: bool, count: int | None) -> Any:
    width, size, count, levels = (32, 128, count or 2, 4) if full else (8, 32, count or 2, 2)
    return UNet(width, levels, 3), partial(data.discs, 3, count, size)


def translator(full: bool, count: int | None) -> Any:
    width, layers, length, words = (512, 6, 64, 8000) if full else (32, 2, 12, 97)
    heads, count = 8 if full else 4, count or 2
    return Translator(words, width, heads, layers), partial(data.translation, words, count, length)


MODELS: dict[str, Callable[[bool, int | None], Any]] = {
    "gpt2": gpt2,
    "resnet18": resnet18,
    "vit": vit,
    "lstm": lstm,
    "unet": unet,
    "translator": translator,
}


def model_of(name: str) -> Callable[[bool, int | None], Any]:
    """One of MODELS, or somebody else's; a ValueError says what is wrong with a name."""
    if name in MODELS:
        return MODELS[name]
    where, colon, function = name.rpartition(":")
    if not colon:
        raise ValueError(f"there is no model '{name}'; there are {', '.join(MODELS)}, and FILE.py:FUNCTION")
    try:
        if where.endswith(".py"):
            sys.path.insert(0, str(Path(where).resolve().parent))
            where = Path(where).stem
        found = getattr(importlib.import_module(where), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"model '{name}': {error}") from error
    if not callable(found):
        raise ValueError(f"model '{name}': {function} is no function")
    return found  # type: ignore[no-any-return]


def make(
    name: str, full: bool = False, device: str = "cpu", count: int | None = None
) -> tuple[nn.Module, list[Any]]:
    """A model with its loss, and a batch, of so many or of the usual size; the same each time, on each device."""
    model, batches = make_batches(name, full, device, count)
    return model, batches(0)


def make_batches(
    name: str, full: bool = False, device: str = "cpu", count: int | None = None
) -> tuple[nn.Module, Batches]:
    """The same, with the batches of all steps."""
    torch.manual_seed(7)
    model, given = model_of(name)(full, count)
    return Loss(model, F.cross_entropy).to(device), lambda step: [
        one.to(device) for one in (given(step) if callable(given) else given)
    ]


def off(a: Any, b: Any) -> float:
    """How far a tensor is from another, relative to that one's largest magnitude."""
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-30))


def worst(distances: Iterable[float]) -> float:
    """The largest; infinite where one is not a number, which max would pass over."""
    found = list(distances)
    return math.inf if any(math.isnan(one) for one in found) else max(found)


def values(model: nn.Module, called: Any, batch: list[Any]) -> tuple[Any, dict[str, Any]]:
    model.zero_grad()
    loss, outputs = called(*batch)
    loss.backward()
    return outputs.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


def grads_off(got: dict[str, Any], expected: dict[str, Any]) -> float:
    """The worst of all gradients. (One that is 0 but for rounding is measured by the largest of all.)"""
    largest = max(float(grad.abs().max()) for grad in expected.values())
    return worst(
        min(off(got[key], grad), float((got[key] - grad).abs().max()) / largest * 10)
        if float(grad.abs().max()) < 1e-5 * largest
        else off(got[key], grad)
        for key, grad in expected.items()
    )


def compare(name: str, full: bool = False, device: str = "cpu", count: int | None = None) -> tuple[float, float]:
    """How far outputs and gradients are from eager's."""
    model, batch = make(name, full, device, count)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    outputs, grads = values(model, model, batch)
    model.load_state_dict(state)
    got, got_grads = values(model, torch.compile(model, backend="rota"), batch)
    return off(got, outputs), grads_off(got_grads, grads)


def compare_exact(
    name: str, full: bool = False, device: str = "cpu", count: int | None = None
) -> dict[str, tuple[float, float]]:
    """How far outputs and gradients of eager and of rota are from those that eager gives in f64: what a kink (the zero
    of a ReLU, two maxima of a pool) or a near-zero variance makes of f32's rounding is in both."""
    torch._dynamo.reset()
    model, batch = make(name, full, device, count)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    exact = Loss(model.model, F.cross_entropy).double()
    outputs, grads = values(exact, exact, [one.double() if one.is_floating_point() else one for one in batch])
    found = {}
    for backend in (None, "rota"):
        model, batch = make(name, full, device, count)
        model.load_state_dict(state)
        called = model if backend is None else torch.compile(model, backend=backend)
        got, got_grads = values(model, called, batch)
        found[backend or "eager"] = off(got, outputs), grads_off(got_grads, grads)
    return found


def train(
    name: str,
    steps: int,
    full: bool = False,
    backend: str | None = None,
    bf16: bool = False,
    device: str = "cpu",
    count: int | None = None,
) -> list[float]:
    """The losses of some steps with one batch, so that they go down, with the forward pass under autocast to bf16 or
    not."""
    model, batch = make(name, full, device, count)
    called = model if backend is None else torch.compile(model, backend=backend)
    return losses_of(name, model, called, lambda _: batch, steps, device, bf16)


def losses_of(
    name: str,
    model: nn.Module,
    called: Any,
    batches: Batches,
    steps: int,
    device: str,
    bf16: bool = False,
    captured: bool = False,
) -> list[float]:
    """The losses of some steps of a model, which is called as it is or compiled, or whose whole step is captured."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATES.get(name, LEARNING_RATE))

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        # Around the forward pass alone: the weights that autocast has cast are kept until it ends.
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            loss, _ = called(*batch)
        loss.backward()
        optimizer.step()
        return loss

    run = rota.torch.capture(step) if captured else step
    losses = [float(run(*batches(i)).detach()) for i in range(steps)]
    if isinstance(run, rota.torch.Captured) and any(made.segment is None for made in run.plans.values()):
        raise RuntimeError("the step is no plan: it ran eagerly")
    return losses


def ended(device: str) -> float:
    """The time once a device has done what it was given."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def time_step(
    name: str, full: bool, backend: str | None, repeats: int, device: str, count: int | None = None, bf16: bool = False
) -> tuple[float, float]:
    """Seconds of the first step, with what it compiles, and the median of the others."""
    run, _ = step_of(name, full, backend, device, count, bf16)
    times = []
    for _ in range(repeats + 3):
        begin = ended(device)
        run()
        times.append(ended(device) - begin)
    return times[0], sorted(times[3:])[repeats // 2]


def step_of(
    name: str, full: bool, backend: str | None, device: str, count: int | None = None, bf16: bool = False
) -> tuple[Callable[[], Any], nn.Module]:
    """A forward and a backward pass, as a function, and what it is of."""
    torch._dynamo.reset()
    model, batch = make(name, full, device, count)
    model.gives_outputs = False
    called = model if backend is None else torch.compile(model, **BACKENDS[backend])

    def run() -> Any:
        model.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            loss = called(*batch)
        loss.backward()
        return loss

    return run, model


def time_captured(
    name: str, full: bool, repeats: int, device: str, captured: bool, count: int | None = None, bf16: bool = False
) -> tuple[float, float]:
    """As time_step, of a training step with AdamW."""
    called = training_step_of(name, full, device, captured, count, bf16)
    called()
    times = []
    for _ in range(repeats + 3):
        begin = ended(device)
        called()
        times.append(ended(device) - begin)
    return times[0], sorted(times[3:])[repeats // 2]


def training_step_of(
    name: str, full: bool, device: str, captured: bool, count: int | None = None, bf16: bool = False
) -> Callable[[], Any]:
    model, batch = make(name, full, device, count)
    model.gives_outputs = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            loss = model(*batch)
        loss.backward()
        optimizer.step()
        return loss

    called = rota.torch.capture(step) if captured else step
    return lambda: called(*batch)


BACKENDS: dict[str, dict[str, Any]] = {
    "rota": {"backend": "rota"},
    "inductor": {"backend": "inductor"},
    "reduce-overhead": {"mode": "reduce-overhead"},
}


def check_models(parser: argparse.ArgumentParser, names: list[str]) -> None:
    """Ends the program where there is no such model."""
    for name in names:
        try:
            model_of(name)
        except ValueError as error:
            parser.error(str(error))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="which; all of MODELS if none is named")
    parser.add_argument("--full", action="store_true", help="in their own sizes")
    parser.add_argument("--time", action="store_true", help="against eager and Inductor")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--repeats", type=int, default=5, help="timed steps")
    parser.add_argument("--batch", type=int, help="so many in a batch; GPT-2 then has 1024 tokens of each")
    parser.add_argument("--bf16", action="store_true", help="times are of forward passes under autocast to bf16")
    parser.add_argument("--profile", action="store_true", help="where a step's time goes, on a GPU and the host")
    parser.add_argument("--no-compare", action="store_true", help="times alone")
    given = parser.parse_args()
    check_models(parser, given.models)
    is_right = True
    for name in given.models or MODELS:
        rota.torch.reset_ops()
        torch.backends.cudnn.allow_tf32 = False  # f32, whichever algorithm is chosen
        is_right = (given.no_compare or is_near(name, given)) and is_right
        torch.backends.cudnn.allow_tf32 = True  # as it is where nobody says something else
        if given.time:
            show_times(name, given)
        if given.profile:
            show_profiles(name, given)
    return 0 if is_right else 1


def is_near(name: str, given: argparse.Namespace) -> bool:
    """Says how far a model's values are from eager's, and tells whether that is near enough."""
    torch._dynamo.reset()
    forward, backward = compare(name, given.full, given.device, given.batch)
    print(f"{name}: forward off by {forward:.1e}, gradients by {backward:.1e}")
    for kernels, counts in rota.torch.ops().items():
        text = ", ".join(f"{op.removeprefix('aten.')} {n}" for op, n in sorted(counts.items(), key=lambda c: -c[1]))
        print(f"  {kernels} ({sum(counts.values())}): {text}")
    if forward <= FORWARD_MAX and backward <= GRADIENTS_MAX:
        return True
    exact = compare_exact(name, given.full, given.device, given.batch)
    for kind, (one, other) in exact.items():
        print(f"  {kind} from f64: forward {one:.1e}, gradients {other:.1e}")
    limits = zip(exact["rota"], exact["eager"], (FORWARD_MAX, GRADIENTS_MAX), strict=True)
    return all(ours <= max(2 * eager, least) for ours, eager, least in limits)


def show_times(name: str, given: argparse.Namespace) -> None:
    faster = "inductor" if given.device == "cpu" else "reduce-overhead"
    what = (given.device, given.batch, given.bf16)
    for backend in (None, faster, "rota"):
        first, step = time_step(name, given.full, backend, given.repeats, *what)
        print(f"  {backend or 'eager'}: first step {first:.2f} s, then {1e3 * step:.2f} ms", flush=True)
    for captured in (False, True):
        first, step = time_captured(name, given.full, given.repeats, given.device, captured, given.batch, given.bf16)
        kind = "captured" if captured else "eager"
        print(f"  {kind}, with AdamW: second step {first:.2f} s, then {1e3 * step:.2f} ms", flush=True)


# Steps that a profile is of, and lines of it.
PROFILED, LINES = 4, 14


def show_profiles(name: str, given: argparse.Namespace) -> None:
    """Which kernels took a GPU's time, and, of rota, which functions the host's: of a step, on the average."""
    for backend in ("reduce-overhead", "rota"):
        run, _ = step_of(name, given.full, backend, given.device, given.batch, given.bf16)
        show_profile(f"{name}, {backend}", run)
    run = training_step_of(name, given.full, given.device, True, given.batch, given.bf16)
    show_profile(f"{name}, captured, with AdamW", run)


def show_profile(title: str, run: Callable[[], Any]) -> None:
    for _ in range(5):
        run()
    begin = ended("cuda")
    for _ in range(PROFILED):
        run()
    wall = (ended("cuda") - begin) / PROFILED
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        for _ in range(PROFILED):
            run()
        ended("cuda")
    kernels: dict[str, tuple[int, float]] = {}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA and not getattr(event, "is_user_annotation", False):
            count, total = kernels.get(event.name, (0, 0.0))
            kernels[event.name] = count + 1, total + event.time_range.elapsed_us()
    count, total = (sum(column) for column in zip(*kernels.values(), strict=True))
    print(f"{title}: {1e3 * wall:.2f} ms, kernels {total / PROFILED / 1e3:.2f} ms, {count / PROFILED:.0f} of them")
    for kernel, (count, total) in sorted(kernels.items(), key=lambda one: -one[1][1])[:LINES]:
        print(f"  {total / PROFILED / 1e3:8.3f} ms  {count / PROFILED:6.1f}  {kernel[:110]}")
    host = cProfile.Profile()
    host.enable()
    for _ in range(PROFILED):
        run()
    ended("cuda")
    host.disable()
    print(f"  on the host, of {PROFILED} steps:")
    stats = pstats.Stats(host).sort_stats("tottime")
    for key in stats.fcn_list[:LINES]:  # type: ignore[attr-defined]
        calls, _, own, whole, _ = stats.stats[key]  # type: ignore[attr-defined]
        function = f"{key[0].split('/')[-1]}:{key[1]} {key[2]}"
        print(f"  {1e3 * own:8.2f} ms own  {1e3 * whole:8.2f} ms  {calls:6d}  {function}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
