"""torch.amp.GradScaler in a captured step, against the step as it is."""

import math
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch_zoo as zoo
from conftest import gpu_marks
from torch import nn

import rota.torch

KINDS = ["cpu", pytest.param("cuda", marks=gpu_marks())]

OPTIMIZERS = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9),
}


def run_steps(
    kind: str, dtype: Any, optimizer_of: Any, captured: bool, plants: list[float], clips: bool = True
) -> tuple[list[float], list[float], Any]:
    """Losses and scales of steps, each of whose losses is multiplied by what is planted there, and the state then."""
    model, batch = zoo.make("lstm", device=kind)
    optimizer = optimizer_of(model.parameters())
    scaler = torch.amp.GradScaler(kind, init_scale=1024.0, growth_interval=4)

    def step(plant: float, *batch: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast(kind, dtype):
            loss, _ = model(*batch)
        scaler.scale(loss * plant).backward()
        if clips:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        return loss

    called = rota.torch.capture(step) if captured else step
    losses, scales = [], []
    for plant in plants:
        losses.append(float(called(plant, *batch).detach()))
        scales.append(scaler.get_scale())
    if captured:
        assert isinstance(called, rota.torch.Captured) and len(called.plans) == 1
        assert all(made.segment is not None for made in called.plans.values())
    state = {name: value.clone() for name, value in model.state_dict().items()}
    counts = [value for of in optimizer.state.values() for name, value in of.items() if name == "step"]
    return losses, scales, (state, [float(count) for count in counts])


def plants_of(steps: int, bad: dict[int, float]) -> list[float]:
    return [bad.get(i, 1.0) for i in range(steps)]


INF, NAN = math.inf, math.nan
PLANTED = {7: INF, 8: INF, 19: NAN, 20: 1e38, 33: -INF, 49: INF}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("kind", KINDS)
def test_fifty_steps(kind: str, name: str, dtype: Any) -> None:
    plants = plants_of(50, PLANTED)
    expected, scales, (state, counts) = run_steps(kind, dtype, OPTIMIZERS[name], False, plants)
    got, others, (other, other_counts) = run_steps(kind, dtype, OPTIMIZERS[name], True, plants)
    assert others == scales and len(set(scales)) > 4
    assert other_counts == counts and all(count <= 44 for count in counts)
    assert got == pytest.approx(expected, rel=0, abs=0.02)
    for key, value in state.items():
        torch.testing.assert_close(other[key], value, rtol=0, atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_a_skipped_step_changes_nothing(kind: str) -> None:
    """To the bit: parameters, moments and counts, whatever is in the gradients."""
    results = []
    for bad in (INF, NAN, -INF):
        _, scales, state = run_steps(kind, torch.bfloat16, OPTIMIZERS["AdamW"], True, [1.0, 1.0, 1.0, bad, bad])
        results.append(state)
        assert scales[2:] == [1024.0, 512.0, 256.0]
    results.append(run_steps(kind, torch.bfloat16, OPTIMIZERS["AdamW"], True, [1.0, 1.0, 1.0])[2])
    for state, counts in results[1:]:
        assert counts == results[0][1]
        for key, value in state.items():
            assert value.equal(results[0][0][key])


def test_first_steps_that_are_skipped() -> None:
    """The optimizer has no state before its first step, so that they run as they are; without unscale_, too."""
    plants = [INF, NAN, 1.0, 1.0, INF, 1.0]
    for clips in (True, False):
        expected = run_steps("cpu", torch.bfloat16, OPTIMIZERS["AdamW"], False, plants, clips)
        got = run_steps("cpu", torch.bfloat16, OPTIMIZERS["AdamW"], True, plants, clips)
        assert got[0] == pytest.approx(expected[0], rel=0, abs=0.02) and got[1:2] == expected[1:2]


def test_a_scaler_that_is_updated_elsewhere_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Linear(7, 1)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        return loss

    called = rota.torch.capture(step)
    for _ in range(3):
        called(torch.ones(4, 7))
        scaler.update()
    assert any("update() is not in it" in record.message for record in caplog.records)
