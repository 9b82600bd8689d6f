"""Blocks of graphs that decide: if_, while_, for_ and switch."""

from typing import Any

import numpy as np
import pytest

import rota


@pytest.fixture
def word(cpu: rota.Device) -> Any:
    """A tensor of one u32 that lives on the device."""

    def made(value: int) -> rota.Tensor:
        return cpu.tensor(np.array(value, np.uint32))

    return made


def run(g: rota.Graph, **arguments: Any) -> dict[str, Any]:
    return g.compile(certify=True)(**arguments).result(timeout=20)


@pytest.mark.parametrize("flag", [0, 1, 7])
def test_if_and_otherwise(cpu: rota.Device, word: Any, flag: int) -> None:
    x = cpu.tensor(np.array([1, 2, 3], np.float32))
    y = cpu.tensor(np.zeros(3, np.float32))
    with rota.graph(cpu) as g:
        condition = word(flag)
        twice = x * 2
        with g.if_(condition) as block:
            rota.add(twice, x, out=y)
            with block.otherwise():
                own = x * 100
                rota.add(own, twice, out=y)
        with g.if_(condition, name="alone"):
            rota.add(y, y, out=y)
        g.output("y", y + 0)
    got = run(g)["y"]
    assert got.tolist() == ([6, 12, 18] if flag else [102, 204, 306])


def test_while_of_a_function_of_python(cpu: rota.Device, word: Any) -> None:
    more, x = word(1), cpu.tensor(np.ones(4, np.float32))
    seen: list[int] = []

    def decide(x: Any, more: Any) -> None:
        seen.append(int(x[0]))
        more[...] = x[0] < 100

    with rota.graph(cpu) as g:
        with g.while_(more, iterations_max=50):
            rota.add(x, x, out=x)
            g.host(decide, reads=[x], writes=[more])
        g.output("x", x + 0)
    assert run(g)["x"].tolist() == [128] * 4
    assert seen == [2, 4, 8, 16, 32, 64, 128]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_for_has_its_number(cpu: rota.Device, word: Any, count: int) -> None:
    total = cpu.tensor(np.zeros((), np.float32))
    n = word(count)
    with rota.graph(cpu) as g:
        with g.for_(n, iterations_max=5) as i:
            rota.add(total, rota.cast(i, "f32"), out=total)
        g.output("total", total + 0)
    assert run(g)["total"] == sum(range(count))


def test_switch_and_blocks_in_blocks(cpu: rota.Device, word: Any) -> None:
    kind, times = word(0), word(3)
    x = cpu.tensor(np.zeros(2, np.float32))
    with rota.graph(cpu) as g:
        k = g.slot("k")
        with g.switch(kind) as block:
            with block.case(0):
                with g.for_(times, iterations_max=3):
                    rota.add(x, x * 0 + 1, out=x)
            with block.case(2):
                rota.scale(x, k, out=x)
        g.output("x", x + 0)
    plan = g.compile()
    assert plan(k=10).result(timeout=20)["x"].tolist() == [3, 3]
    kind.write(np.array(2, np.uint32))
    assert plan(k=10).result(timeout=20)["x"].tolist() == [30, 30]
    kind.write(np.array(1, np.uint32))
    assert plan(k=10).result(timeout=20)["x"].tolist() == [30, 30]


def test_gradients_in_a_block(cpu: rota.Device, word: Any) -> None:
    w = cpu.tensor(np.array([1, 2], np.float32))
    n = word(3)
    with rota.graph(cpu) as g:
        with g.for_(n, iterations_max=3):
            loss = rota.sum(w * w)
            (grad,) = g.backward(loss, [w])
            rota.sub(w, grad * 0.25, out=w)
        g.output("w", w + 0)
    assert run(g)["w"].tolist() == [0.125, 0.25]


@pytest.mark.parametrize(("flag", "value", "of"), [(1, 6, (3, 2)), (0, 2, (1, 0))])
def test_gradients_through_an_if(cpu: rota.Device, word: Any, flag: int, value: float, of: tuple[float, float]) -> None:
    w = cpu.tensor(np.array([2], np.float32))
    v = cpu.tensor(np.array([3], np.float32))
    chosen = word(flag)
    with rota.graph(cpu) as g:
        y = w * 1
        with g.if_(chosen):
            rota.mul(w, v, out=y)
        of_w, of_v = g.backward(rota.sum(y), [w, v])
        g.output("y", y + 0)
        g.output("w", of_w + 0)
        g.output("v", of_v + 0)
    got = run(g)
    assert got["y"].tolist() == [value]
    assert (got["w"].item(), got["v"].item()) == of


@pytest.mark.parametrize("times", [0, 1, 3, 5])
def test_gradients_through_a_loop(cpu: rota.Device, word: Any, times: int) -> None:
    """A recurrence over the rows of a table, in one plan for any number of them."""
    rng = np.random.default_rng(3)
    u, v, x, first = (rng.standard_normal(s).astype(np.float32) / 2 for s in ((4, 4), (4, 4), (5, 4), (3, 4)))
    params = [cpu.tensor(a) for a in (u, v, x, first)]
    with rota.graph(cpu) as g:
        h = params[3] * 1
        with g.for_(word(times), iterations_max=5) as i:
            row = rota.embedding(params[2], i.reshape(1))
            rota.tanh(h @ params[0] + row @ params[1], out=h)
        for name, grad in zip("uvxh", g.backward(rota.sum((h * h).reshape(12)), params), strict=True):
            g.output(name, grad + 0)
    got = run(g)

    with rota.graph(cpu) as g:
        h = params[3] * 1
        for n in range(times):
            h = rota.tanh(h @ params[0] + params[2][n : n + 1] @ params[1])
        for name, grad in zip("uvxh", g.backward(rota.sum((h * h).reshape(12)), params), strict=True):
            g.output(name, grad + 0)
    unrolled = run(g)
    for name in "uvxh":
        np.testing.assert_allclose(got[name], unrolled[name], rtol=1e-6, atol=1e-6)


def test_gradients_through_blocks_in_blocks(cpu: rota.Device, word: Any) -> None:
    """Three times y *= w, and each but the first time as often y *= v: w**3 * v**(1 + 2)."""
    w, v = (cpu.tensor(np.array([a], np.float32)) for a in (2, 3))
    with rota.graph(cpu) as g:
        y = w * 0 + 1
        with g.for_(word(3), iterations_max=4) as i:
            rota.mul(y, w, out=y)
            with g.if_(i):
                with g.for_(i, iterations_max=4):
                    rota.mul(y, v, out=y)
        for name, grad in zip("wv", g.backward(rota.sum(y), [w, v]), strict=True):
            g.output(name, grad + 0)
    got = run(g)
    assert (got["w"].item(), got["v"].item()) == (3 * 4 * 27, 8 * 3 * 9)


def test_training_in_a_block_by_a_loop_in_it(cpu: rota.Device, word: Any) -> None:
    """Steps of descent, each with the gradient of a loop: w**3 is brought to 8."""
    w, goal = (cpu.tensor(np.array([a], np.float32)) for a in (1.5, 8))
    with rota.graph(cpu) as g:
        with g.for_(word(40), iterations_max=40):
            y = w * 0 + 1
            with g.for_(word(3), iterations_max=4):
                rota.mul(y, w, out=y)
            off = y - goal
            (grad,) = g.backward(rota.sum(off * off), [w])
            rota.sub(w, grad * 0.003, out=w)
        g.output("w", w + 0)
    np.testing.assert_allclose(run(g)["w"], [2], rtol=1e-4)


def test_gradients_while_it_is_small(cpu: rota.Device) -> None:
    w, most = (cpu.tensor(np.array([a], np.float32)) for a in (3, 20))
    with rota.graph(cpu) as g:
        y = w * 0 + 1
        more = rota.cast(y < most, "i32")
        with g.while_(more, iterations_max=8):
            rota.mul(y, w, out=y)
            rota.copy(rota.cast(y < most, "i32"), out=more)
        (grad,) = g.backward(rota.sum(y), [w])
        g.output("y", y + 0)
        g.output("w", grad + 0)
    got = run(g)
    assert (got["y"].item(), got["w"].item()) == (27, 27)


def test_errors_name_the_iteration(cpu: rota.Device, word: Any) -> None:
    n, x = word(4), cpu.tensor(np.zeros(1, np.float32))

    def fails(x: Any) -> None:
        x += 1
        if x[0] == 3:
            raise RuntimeError("the third")

    with rota.graph(cpu, name="g") as g:
        with g.for_(n, iterations_max=4, name="rounds"):
            g.host(fails, reads=[], writes=[x], name="fails")
    with pytest.raises(rota.Error, match="iteration 2 of for 'rounds', node 'fails'.*the third"):
        g.compile()().wait(timeout=20)


def test_limit(cpu: rota.Device, word: Any) -> None:
    with rota.graph(cpu) as g:
        x = cpu.tensor(np.zeros(1, np.float32))
        with g.while_(word(1), iterations_max=3):
            rota.add(x, x, out=x)
    with pytest.raises(rota.Error, match="after 3 iterations"):
        g.compile()().wait(timeout=20)


def test_wrong_uses_have_sentences(cpu: rota.Device, word: Any) -> None:
    x = cpu.tensor(np.zeros(2, np.float32))
    with rota.graph(cpu, name="g") as g:
        with pytest.raises(rota.errors.InvalidArgument, match="one element of 4 bytes"):
            g.if_(x)
        with g.if_(word(1)) as block:
            own = x + 1
            with pytest.raises(rota.errors.WrongState, match="outside of blocks"):
                g.input("late", 2)
            with pytest.raises(rota.errors.InvalidArgument, match="a switch case"):
                block.case(0)
        with pytest.raises(rota.errors.WrongState, match="its block has ended"):
            own + 1
        with pytest.raises(rota.errors.WrongState, match="inside of its `with` block"):
            block.otherwise()
        with pytest.raises(rota.errors.WrongState, match="entered once"):
            block.__enter__()
        with pytest.raises(rota.errors.InvalidArgument, match="no case"):
            with g.switch(word(1)):
                pass
        with pytest.raises(rota.errors.InvalidArgument, match="iterations_max is 0"):
            with g.while_(word(1), iterations_max=0):
                rota.add(x, x, out=x)
        before = g.node_count
        with pytest.raises(KeyError):
            with g.if_(word(1)):
                rota.add(x, x, out=x)
                raise KeyError("given up")
        assert g.node_count == before
        rota.add(x, x, out=x)
    g.compile()().wait(timeout=20)
