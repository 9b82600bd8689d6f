"""Optimizers and ops that training needs, against numpy; the examples."""

import runpy
from pathlib import Path
from typing import Any

import gpt
import numpy as np
import pytest

import rota

HERE = Path(__file__).parent


def steps_of(device: rota.Device, optimizer: Any, grads: list[Any], p: Any) -> Any:
    param = device.tensor(p, name="p")
    with rota.graph(device) as g:
        optimizer.step(g, [param], [rota.copy(g.input("g", p.shape))])
    plan = g.compile()
    for grad in grads:
        plan(g=grad).wait()
    return param.numpy()


def test_optimizers(device: rota.Device) -> None:
    rng = np.random.default_rng(5)
    p = rng.standard_normal(33).astype(np.float32)
    grads = [rng.standard_normal(33).astype(np.float32) for _ in range(3)]
    m, v, w = np.zeros(33), np.zeros(33), p.astype(np.float64)
    for t, grad in enumerate(grads, 1):
        m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad**2
        w = w * (1 - 0.1 * 0.01) - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(steps_of(device, rota.AdamW(0.1), grads, p), w, rtol=1e-4, atol=1e-5)
    m, w = np.zeros(33), p.astype(np.float64)
    for grad in grads:
        m = 0.9 * m + grad + 0.01 * w
        w = w - 0.1 * m
    np.testing.assert_allclose(
        steps_of(device, rota.SGD(0.1, momentum=0.9, weight_decay=0.01), grads, p), w, rtol=1e-4, atol=1e-5
    )
    m, w = np.zeros(33), p.astype(np.float64)
    for grad in grads:
        w = w - 0.1 * np.sign(0.9 * m + 0.1 * grad)
        m = 0.99 * m + 0.01 * grad
    np.testing.assert_allclose(steps_of(device, rota.Lion(0.1), grads, p), w, rtol=1e-4, atol=1e-5)


def test_lr_and_step_may_be_given(cpu: rota.Device) -> None:
    param = cpu.tensor(np.ones(1, np.float32))
    with rota.graph(cpu) as g:
        rota.AdamW(weight_decay=0).step(g, [param], [rota.copy(g.input("g", 1))])
    plan = g.compile()
    with pytest.raises(rota.errors.InvalidArgument, match="argument 'lr' is missing"):
        plan(g=np.ones(1, np.float32))
    plan(g=np.ones(1, np.float32), lr=0.5, step=1).wait()
    np.testing.assert_allclose(param.numpy(), 0.5, rtol=1e-5)


def test_dropout(device: rota.Device) -> None:
    with rota.graph(device) as g:
        x = g.input("x", 4096)
        seed, step = g.slot("seed", "u32"), g.slot("step", "u32", counts=True)
        g.output("y", rota.dropout(x, 0.25, seed, step))
        g.output("z", rota.residual_dropout(x, x, 0.25, seed, step))
    plan = g.compile()
    ones = np.ones(4096, np.float32)
    first, second = plan(x=ones, seed=3).result(), plan(x=ones, seed=3).result()
    again = plan(x=ones, seed=3, step=1).result()
    assert np.allclose(np.unique(first["y"]), [0, 4 / 3]) and abs((first["y"] == 0).mean() - 0.25) < 0.04
    assert np.allclose(np.unique(first["z"]), [1, 7 / 3])
    assert np.array_equal(first["y"], again["y"]) and not np.array_equal(first["y"], second["y"])


def test_in_place_ops(device: rota.Device) -> None:
    rng = np.random.default_rng(6)
    count = device.tensor(np.zeros(5, np.int32))
    average, state = device.zeros(8), device.tensor(np.array([8, 0], np.float32))
    mean, variance = device.zeros(6), device.tensor(np.ones(6, np.float32))
    with rota.graph(device) as g:
        rota.index_add(g.input("index", 7, "i32"), 2, count)
        x = g.input("x", 8)
        rota.ema(x, average, 0.75)
        y = g.empty(8)
        rota.fill(y, 3)
        g.output("filled", y)
        a = rota.copy(x)
        norm = rota.clip_global_norm([a], 0.5)
        g.output("clipped", a)
        g.output("factor", rota.loss_scale(norm[0:1], state))
        g.output("found", rota.check_finite(x))
        g.output("normalized", rota.batch_norm(g.input("images", (4, 6, 3)), mean, variance))
    index, array = rng.integers(0, 5, 7).astype(np.int32), rng.standard_normal(8).astype(np.float32)
    images = rng.standard_normal((4, 6, 3)).astype(np.float32)
    result = g.compile()(index=index, x=array, images=images).result()
    np.testing.assert_array_equal(count.numpy(), 2 * np.bincount(index, minlength=5))
    np.testing.assert_allclose(average.numpy(), 0.25 * array, rtol=1e-6)
    np.testing.assert_array_equal(result["filled"], np.full(8, 3))
    np.testing.assert_allclose(result["clipped"], array * 0.5 / np.linalg.norm(array), rtol=1e-4)
    np.testing.assert_allclose(result["factor"], 1 / 8, rtol=1e-6)
    assert state.numpy().tolist() == [8, 1] and result["found"].tolist() == [0, 2**32 - 1]
    centred = images - images.mean((0, 2), keepdims=True)
    np.testing.assert_allclose(
        result["normalized"], centred / np.sqrt(images.var((0, 2), keepdims=True) + 1e-5), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(mean.numpy(), 0.1 * images.mean((0, 2)), rtol=1e-3, atol=1e-5)


def test_not_finite_is_named(cpu: rota.Device) -> None:
    with rota.graph(cpu) as g:
        rota.check_finite(g.input("x", 4))
    with pytest.raises(rota.errors.NodeFailed, match="nan"):
        g.compile()(x=np.array([1, 2, np.nan, 4], np.float32)).result()


def test_trainer(device: rota.Device) -> None:
    x = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    y = x.sum(1, keepdims=True)
    begin = {"w": np.zeros((8, 1), np.float32)}
    step = rota.trainer(device, lambda p, x, y: rota.mse(x @ p["w"], y), begin, rota.AdamW(lr=0.05), x=x, y=y)
    losses = [step(x=x, y=y) for _ in range(100)]
    assert losses[-1] < 1e-2 < 1 < losses[0]
    assert "call it with (x, y, lr=..., step=...)" in repr(step)


def test_example_fit(capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(HERE.parent / "examples/fit.py"))
    names["device"].close()
    assert names["losses"][-1] < 1e-3


def test_example_gpt(cpu: rota.Device) -> None:
    step, losses, letters = gpt.train(cpu, gpt.PROVERBS, steps=120, block=16, layers=1, heads=2, dim=32, batch=8)
    assert losses[-1] < 1.6 < 2.8 < losses[0]
    text = gpt.write(step.params, cpu, letters, heads=2, length=8, prompt="a stitch in ")
    assert text.startswith("a stitch in ") and len(text) == 20
