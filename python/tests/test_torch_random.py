"""Random numbers in plans of PyTorch's graphs: those that eager has, on a GPU, too, where kernels that are captured
find seed and offset in its memory (rota/torch/draws.py), and where a checkpoint draws again."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import test_torch
import torch
from conftest import on_gpu
from test_torch_fixed import kind as kind
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import rota.torch
from rota.torch import draws, fixed, kernels


def no_host() -> None:
    assert rota.torch.ops()["host"] == {}


def same_sequence(kind: str, function: Callable[..., Any], *inputs: Any) -> None:
    """Calls one after the other, with what eager draws between them and a seed in the middle: equal to eager's, and so
    is what is drawn next."""

    def values(called: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(3)
        found = []
        for i in range(5):
            if i == 3:
                torch.manual_seed(11)
            found += [called(*inputs), torch.rand(3, device=kind)]
        return found

    expected, got = values(function), values(test_torch.compiled(function))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    assert not torch.utils._pytree.tree_leaves(got[0])[0].equal(torch.utils._pytree.tree_leaves(got[2])[0])
    no_host()


DRAWS: dict[str, Callable[[Any], Any]] = {
    "dropout": lambda x: F.dropout(x * 2, 0.3).exp(),
    "dropouts": lambda x: F.dropout(F.dropout(x.tanh(), 0.1) @ x.T, 0.5),
    "rand": lambda x: x + torch.rand(x.shape, device=x.device) * 2,
    "rand_like": lambda x: x + torch.rand_like(x) * torch.rand_like(x).exp(),
    "randn": lambda x: x * torch.randn(x.shape, device=x.device),
    "randint": lambda x: x + torch.randint(0, 1000, x.shape, device=x.device),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) * 2,
    "normal": lambda x: torch.normal(x, 2.0) + 1,
    "alpha dropout": lambda x: F.alpha_dropout(x + 1, 0.3, training=True),
    "dropout2d": lambda x: F.dropout2d(x[None, :, :, None].expand(2, -1, -1, 4) + 1, 0.5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_eagers(kind: str, name: str) -> None:
    same_sequence(kind, DRAWS[name], torch.randn(65, 33, device=kind))


def test_many_numbers(kind: str) -> None:
    """More than one round of a GPU's threads each."""
    x = torch.randn(1 << 20, device=kind)
    same_sequence(kind, lambda x: (F.dropout(x, 0.5), torch.rand_like(x), F.dropout(x[:5] + 1, 0.5)), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_with_dropout(kind: str, dtype: Any) -> None:
    """Its backward pass draws from where the forward one did."""
    q, k, v = (torch.randn(2, 4, 64, 32, device=kind, dtype=dtype, requires_grad=True) for _ in range(3))

    def values(called: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(3)
        found = []
        for _ in range(3):
            y = called(q, k, v)
            found += [y.detach(), *torch.autograd.grad(y.float().square().sum(), (q, k, v))]
        return [*found, torch.rand(3, device=kind)]

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q * 2, k, v, dropout_p=0.2, is_causal=True) + 1

    bound = 1e-3 if dtype is torch.float32 else 0.1
    expected, got = values(attend), values(test_torch.compiled(attend))
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=bound, atol=bound)
    no_host()


class Twice(nn.Module):
    """A model of two parts that a checkpoint computes again, one in the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(7, 9), nn.Dropout(0.4), nn.Tanh())
        self.last = nn.Sequential(nn.Linear(9, 9), nn.Dropout(0.2), nn.GELU(), nn.Dropout(0.3), nn.Linear(9, 7))

    def both(self, x: Any) -> Any:
        y = checkpoint(self.first, x, use_reentrant=False)
        return self.last(y * (1 + torch.rand_like(y)))

    def forward(self, x: Any) -> Any:
        return checkpoint(self.both, x, use_reentrant=False)


def losses(kind: str, how: str, steps: int = 5) -> tuple[list[float], Any]:
    torch.manual_seed(5)
    model = Twice().to(kind)
    x = torch.randn(5, 7, device=kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    called = torch.compile(model, backend="rota") if how == "compiled" else model

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = called(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    captured = rota.torch.capture(step, modules=[model], optimizers=[optimizer]) if how == "captured" else step
    torch.manual_seed(7)
    found = [float(captured(x)) for _ in range(steps)]
    if isinstance(captured, rota.torch.Captured):
        assert all(made.segment is not None for made in captured.plans.values())
    return [*found, float(torch.rand(1, device=kind))], model.state_dict()


@pytest.mark.parametrize("how", ["compiled", "captured"])
def test_a_checkpoint_draws_what_it_has_drawn(kind: str, how: str) -> None:
    expected, state = losses(kind, "eager")
    got, other = losses(kind, how)
    assert got == pytest.approx(expected, rel=1e-4)
    for key, value in state.items():
        torch.testing.assert_close(other[key], value, rtol=1e-3, atol=1e-4)
    if how == "compiled":
        no_host()


def test_a_step_that_seeds_runs_eagerly(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its graph would not have the seed."""
    model = nn.Sequential(nn.Linear(7, 7), nn.Dropout(0.5)).to(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        torch.manual_seed(4)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return torch.rand(3, device=kind)

    called = rota.torch.capture(step)
    found = [called(torch.ones(5, 7, device=kind)) for _ in range(3)]
    assert found[0].equal(found[1]) and found[1].equal(found[2])
    assert "it seeds a generator" in caplog.text


def test_what_is_drawn_again_for_something_else_runs_eagerly(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """A state that is put back, but not by a checkpoint: another op draws from it."""
    model = nn.Linear(7, 7).to(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = draws.generator_of(torch.device(kind))

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        state = generator.get_state()
        one = torch.rand(3, device=kind)
        generator.set_state(state)
        other = torch.rand(2, device=kind)
        model(x).square().mean().backward()
        optimizer.step()
        return one, other

    called = rota.torch.capture(step, modules=[model], optimizers=[optimizer])
    for _ in range(3):
        one, other = called(torch.ones(5, 7, device=kind))
        assert kind == "cuda" or one[:2].equal(other)
    assert "for something else" in caplog.text


# ---- On a GPU alone ----


@on_gpu
def test_making_a_plan_draws_nothing() -> None:
    """Kernels are tried, then captured: the first call draws what eager would, and no more."""
    torch._dynamo.reset()
    x = torch.ones(1 << 16, device="cuda")
    torch.cuda.manual_seed(3)
    F.dropout(x, 0.5)
    after = torch.cuda.default_generators[0].get_offset()
    torch.cuda.manual_seed(3)
    test_torch.compiled(lambda x: F.dropout(x, 0.5))(x)
    assert torch.cuda.default_generators[0].get_offset() == after


@on_gpu
def test_plans_on_streams_of_their_own_draw() -> None:
    """Each plan has its own words, and each of its replays other numbers, whatever other threads replay meanwhile."""
    torch._dynamo.reset()
    functions = [test_torch.compiled(lambda x, i=i: F.dropout(x, 0.5) + i) for i in range(4)]
    x = torch.ones(1 << 18, device="cuda")
    for called in functions:
        called(x)
    torch.cuda.synchronize()
    found: list[list[Any]] = [[] for _ in functions]

    def run(i: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(10):
                found[i].append(functions[i](x) - i)
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    masks = [one != 0 for of_one in found for one in of_one]
    assert len(masks) == 40
    assert all(abs(float(one.float().mean()) - 0.5) < 0.01 for one in masks)
    assert not any(masks[i].equal(masks[j]) for i in range(40) for j in range(i))


@on_gpu
def test_a_captured_step_draws_in_its_plan() -> None:
    torch._dynamo.reset()
    found = []
    for captured in (False, True):
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(64, 256), nn.Dropout(0.3), nn.GELU(), nn.Linear(256, 64), nn.Dropout(0.1))
        model.cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        x = torch.randn(512, 64, device="cuda")

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                loss = (model(x) - x).float().square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        called = rota.torch.capture(step, modules=[model], optimizers=[optimizer]) if captured else step
        torch.manual_seed(9)
        found.append([float(called(x)) for _ in range(8)])
        if isinstance(called, rota.torch.Captured):
            (made,) = called.plans.values()
            assert isinstance(made.segment, fixed.FixedSegment) and made.segment.numbers is not None
    assert found[1] == pytest.approx(found[0], rel=0.01)


# ---- Where seed and offset are put: with a stand-in for PyTorch's generators and graphs ----


class State:
    def __init__(self, seed: int) -> None:
        self.seed, self.offset, self.is_captured, self.drawn = seed, 0, False, 0
        self.words: tuple[int, int] | None = None


class Generator:
    """Of PyTorch's, in which a kernel draws four numbers."""

    def __init__(self, home: Any = None) -> None:
        self.state = State(67280421310721)

    def graphsafe_get_state(self) -> Any:
        made = Generator()
        made.state = self.state
        return made

    def graphsafe_set_state(self, other: Any) -> None:
        self.state = other.state

    def manual_seed(self, seed: int) -> None:
        self.state.seed, self.state.offset = seed, 0

    def initial_seed(self) -> int:
        return self.state.seed

    def get_offset(self) -> int:
        return self.state.offset

    def set_offset(self, offset: int) -> None:
        self.state.offset = offset

    def draw(self, is_captured: bool) -> Any:
        """A kernel; gives a function of what it draws when it runs."""
        state = self.state
        assert state.is_captured == is_captured
        if not is_captured:
            state.offset += 4
            return None
        before = state.drawn
        state.drawn += 4

        def replayed() -> tuple[int, int]:
            assert state.words is not None
            return state.words[0], state.words[1] + before

        return replayed


class Graphs:
    """torch.cuda, as far as it is used."""

    def __init__(self, default: Generator) -> None:
        self.default, self.depth = default, 0

    def make(self) -> Any:
        outer = self

        class Graph:
            def register_generator_state(self, generator: Generator) -> None:
                assert outer.depth == 1
                self.registered = generator.state

            def capture_begin(self, capture_error_mode: str) -> None:
                assert outer.depth == 1 and capture_error_mode == "relaxed"
                self.state = outer.default.state
                assert self.state is self.registered
                self.state.is_captured = True

            def capture_end(self) -> None:
                assert outer.depth == 1
                self.state.is_captured = False

            def replay(self) -> None:
                assert not self.state.is_captured
                self.state.words = self.state.seed, self.state.offset
                self.state.offset += self.state.drawn

        return Graph()


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Generator]]:
    default = Generator()
    default.manual_seed(5)
    graphs = Graphs(default)

    class Stream:
        def __init__(self, home: Any) -> None:
            pass

        def __enter__(self) -> None:
            graphs.depth += 1

        def __exit__(self, *_: Any) -> None:
            graphs.depth -= 1

        def synchronize(self) -> None:
            pass

    monkeypatch.setattr(draws, "generator_of", lambda home: default)
    monkeypatch.setattr(torch, "Generator", Generator)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", graphs.make)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    yield draws.Numbers(torch.device("cpu")), default


def test_words_are_put_before_each_replay(numbers: tuple[Any, Generator]) -> None:
    made, default = numbers
    default.draw(False)
    for _ in range(2):
        with made.drawn(True):
            default.draw(False)
    kernels = []
    for _ in range(3):
        with made.drawn(False):
            kernels.append(default.draw(True))
        default.draw(False)  # somebody else, while the plan is made
    made.end()
    assert (default.get_offset(), default.initial_seed()) == (16, 5)  # no trial has moved it
    made.put()
    assert [kernel() for kernel in kernels] == [(5, 16), (5, 20), (5, 24)] and default.get_offset() == 28
    default.draw(False)
    made.put()
    assert [kernel() for kernel in kernels] == [(5, 32), (5, 36), (5, 40)]
    default.manual_seed(7)
    made.put()
    assert [kernel() for kernel in kernels] == [(7, 0), (7, 4), (7, 8)] and default.get_offset() == 12


def test_a_generator_gets_its_state_back(numbers: tuple[Any, Generator]) -> None:
    """Whatever a kernel's capture ends in; what is captured too late is an error."""
    made, default = numbers
    before = default.state
    for is_trial in (True, False):
        with pytest.raises(ValueError, match="a kernel's"), made.drawn(is_trial):
            assert default.state is not before
            raise ValueError("a kernel's")
        assert default.state is before
    made.end()
    assert not made.own.state.is_captured
    with pytest.raises(RuntimeError, match="after its plan was compiled"), made.drawn(False):
        pass
    assert default.state is before


def test_without_a_capture_nothing_is_put(numbers: tuple[Any, Generator]) -> None:
    made, default = numbers
    with made.drawn(True):
        default.draw(False)
    made.end()
    made.put()
    assert default.get_offset() == 0 and made.own.state.words is None


def test_what_draws() -> None:
    aten = torch.ops.aten
    assert draws.draws(aten.native_dropout.default, (None, 0.5, True), {})
    assert not draws.draws(aten.add.Tensor, (None, None), {})
    flash = aten._scaled_dot_product_flash_attention.default
    assert not draws.draws(flash, (None, None, None), {}) and not draws.draws(flash, (None, None, None, 0.0), {})
    assert draws.draws(flash, (None, None, None, 0.1), {}) and draws.draws(flash, (None,) * 3, {"dropout_p": 0.1})
    assert draws.is_random(flash)


def test_attention_is_tried_without_dropout() -> None:
    """PyTorch's looks for its seed in the host's memory outside of a capture."""
    target = torch.ops.aten._scaled_dot_product_efficient_attention_backward.default
    names = [argument.name for argument in target._schema.arguments]
    given = [0.25 if name == "dropout_p" else name for name in names]
    leaves, spec = torch.utils._pytree.tree_flatten((tuple(given), {"scale": 1.0}))
    call = kernels.Call(target, leaves, spec, [])
    tried = draws.without_dropout(call)
    args, options = torch.utils._pytree.tree_unflatten(tried.leaves, tried.spec)
    assert args[names.index("dropout_p")] == 0.0 and call.leaves == leaves and options == {"scale": 1.0}
    assert sum(one != other for one, other in zip(args, given, strict=True)) == 1
    plain = kernels.Call(torch.ops.aten.native_dropout.default, [0, 0.5, True], spec, [])
    assert draws.without_dropout(plain) is plain


def test_attention_without_dropout_is_computed_again(kind: str) -> None:
    """In a captured step, as the checkpoint says."""
    model = nn.Linear(32, 96).to(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def attend(x: Any) -> Any:
        q, k, v = (one.reshape(2, 4, -1, 8) for one in model(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v).square()

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = checkpoint(attend, x, use_reentrant=False).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    called, x = rota.torch.capture(step, modules=[model], optimizers=[optimizer]), torch.randn(2, 16, 32, device=kind)
    called(x)
    rota.torch.reset_ops()
    called(x)
    attention = [name for name in rota.torch.ops()["torch"] if "attention" in name and "backward" not in name]
    assert [rota.torch.ops()["torch"][name] for name in attention] == [2]
