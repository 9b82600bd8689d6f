"""Devices that tests run on: the CPU, and a Vulkan (lavapipe) and a CUDA device where they are there."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpt-tool", type=Path, help="the tests' gpt_tool of a build, which has the C trainer's model")


def usable() -> list[str]:
    there = {str(device["id"]) for device in rota.devices() if device["usable"]}
    return [name for name in ("cpu", "vk:0", "cuda:0") if name in there]


@pytest.fixture(scope="session", params=usable())
def device(request: pytest.FixtureRequest) -> Iterator[rota.Device]:
    with rota.open(request.param) as opened:
        yield opened


@pytest.fixture
def cpu() -> Iterator[rota.Device]:
    with rota.open("cpu", threads=2) as opened:
        yield opened
