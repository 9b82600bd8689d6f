"""What torch_zoo's models learn from: another batch at each step, the same on each machine and device.

Nothing here is noise alone, which a model could only learn by heart; nor can anything be learned so well that a loss
comes near to 0, where figures that are relative to it would say nothing. All are made on the host, seeded by the number
of the step.
"""

import math
from typing import Any

import torch

# How many words follow a word, and how often each of them does.
FOLLOWERS = (0.5, 0.25, 0.15, 0.1)

# One label in so many is any of them.
WRONG = 8


def generator(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 + step)


def text(words: int, count: int, length: int, step: int) -> Any:
    """Texts of a language in which four words may follow each, and some are much more frequent than others: a Markov
    chain, whose table depends on the number of words alone."""
    frequencies = 1 / torch.arange(2, words + 2, dtype=torch.float64)
    table = torch.multinomial(frequencies, words * len(FOLLOWERS), True, generator=torch.Generator().manual_seed(words))
    drawn = generator(step)
    ways = torch.multinomial(torch.tensor(FOLLOWERS), count * length, True, generator=drawn).view(count, length)
    written = torch.empty(count, length, dtype=torch.int64)
    written[:, 0] = torch.multinomial(frequencies, count, True, generator=drawn)
    for i in range(1, length):
        written[:, i] = table.view(words, -1)[written[:, i - 1], ways[:, i]]
    return written


def language(words: int, count: int, length: int, step: int) -> list[Any]:
    """Texts, and the word that comes after each of theirs."""
    written = text(words, count, length + 1, step)
    return [written[:, :-1].contiguous(), written[:, 1:].contiguous()]


def translation(words: int, count: int, length: int, step: int) -> list[Any]:
    """Texts, what has been translated of them at each place, and the word that is next there: a word for a word."""
    source = text(words, count, length, step)
    dictionary = torch.randperm(words, generator=torch.Generator().manual_seed(words + 1))
    target = dictionary[source]
    begun = torch.cat([torch.zeros(count, 1, dtype=torch.int64), target[:, :-1]], 1)
    return [source, begun, target]


def mislabelled(labels: Any, classes: int, drawn: torch.Generator) -> Any:
    wrong = torch.randint(WRONG, labels.shape, generator=drawn) == 0
    return torch.where(wrong, torch.randint(classes, labels.shape, generator=drawn), labels)


def gratings(classes: int, count: int, size: int, step: int) -> list[Any]:
    """Images of stripes, whose direction and colour are the class; with noise, and wherever they begin."""
    drawn = generator(step)
    labels = torch.randint(classes, (count,), generator=drawn)
    begin, noise = torch.rand(count, generator=drawn), torch.randn(count, 3, size, size, generator=drawn)
    angles = (labels * (math.pi / classes)).view(-1, 1, 1)
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    waves = torch.sin((x * angles.cos() + y * angles.sin()) * 0.8 + 2 * math.pi * begin.view(-1, 1, 1))
    colours = torch.randn(classes, 3, generator=torch.Generator().manual_seed(classes))
    images = waves.unsqueeze(1) * colours[labels].view(count, 3, 1, 1) + 0.5 * noise
    return [images, mislabelled(labels, classes, drawn)]


def discs(classes: int, count: int, size: int, step: int) -> list[Any]:
    """Images of a disc of each class but the first, which is what they lie on, and the class of each place."""
    drawn = generator(step)
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    labels = torch.zeros(count, size, size, dtype=torch.int64)
    for one in range(1, classes):
        centre = torch.rand(2, count, 1, 1, generator=drawn) * size
        radius = (0.15 + 0.2 * torch.rand(count, 1, 1, generator=drawn)) * size
        labels[(x - centre[0]) ** 2 + (y - centre[1]) ** 2 < radius**2] = one
    colours = torch.randn(classes, 3, generator=torch.Generator().manual_seed(classes))
    images = colours[labels].permute(0, 3, 1, 2) + 0.5 * torch.randn(count, 3, size, size, generator=drawn)
    return [images.contiguous(), mislabelled(labels.flatten(1), classes, drawn)]
