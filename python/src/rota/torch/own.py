"""Ops of this package's as PyTorch has them: what they compute where no plan does, and what they give."""

from typing import Any

import torch

LIBRARY = torch.library.Library("rota", "DEF")


def define(schema: str, function: Any, fake: Any) -> Any:
    """An op that computes what a function does, and gives what the other gives for tensors without elements."""
    name = schema.split("(")[0]
    LIBRARY.define(schema)
    LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"rota::{name}", fake, lib=LIBRARY)
    return getattr(torch.ops.rota, name).default


def real_numbers(like: Any, *shape: int) -> Any:
    """New f32 numbers, undefined, on the device of another tensor: what most of such ops give."""
    return like.new_empty(shape, dtype=torch.float32)
