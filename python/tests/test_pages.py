"""The pages' listings of Python run as they stand."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rota

ROOT = Path(__file__).parents[2]
# Each page that has any, and how many: test_listings, of the C library's tests, looks whether one is forgotten.
PAGES = {"README.md": 1, "python/README.md": 13, "docs/guide.md": 1, "docs/index.md": 1, "docs/tasks.md": 1}


def names_before(page: str, device: rota.Device) -> dict[str, Any]:
    """What the page's words say is there already; READMEs begin with nothing."""
    if page.endswith("README.md"):
        return {}
    if page == "docs/tasks.md":
        shapes = {"first": (1, 8), "rows": (512, 8), "u": (8, 8), "v": (8, 8)}
        tensors = {name: device.tensor(np.ones(shape, np.float32) / 16) for name, shape in shapes.items()}
        return {"rota": rota, "device": device, "length": device.tensor(np.array([7], np.int32)), **tensors}
    x = np.random.default_rng(0).standard_normal((256, 8)).astype(np.float32)
    y = x.sum(1, keepdims=True)
    return {"rota": rota, "device": device, "x": x, "y": y, "w": device.tensor(np.zeros((8, 1), np.float32))}


def has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


@pytest.mark.parametrize("page", PAGES)
def test_listings(page: str, cpu: rota.Device, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other; those with torch, JAX or numba where it is, those with PyTorch's GPU where that is."""
    listings = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    assert len(listings) == PAGES[page]
    names = names_before(page, cpu)
    for listing in listings:
        if any(f"import {other}" in listing and find_spec(other) is None for other in ("torch", "jax", "numba")):
            continue
        if "torch.cuda" in listing and not has_gpu():
            continue
        exec(compile(listing, page, "exec"), names)
    if page == "docs/tasks.md":
        assert names["of_u"].shape == (8, 8)
    elif page == "docs/guide.md":
        assert float(capsys.readouterr().out.strip(" []\n")) == pytest.approx(np.mean(names["y"] ** 2), rel=1e-3)
    else:
        assert names["loss"] < 1e-3
        names["device"].close()
