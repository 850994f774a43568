"""A small model of text, and four tasks on which it can be tuned.

Each text is a review, a bag of words. It is about something, and in some mood, and both
show in its words. The backbone has learnt to guess a word from the others, and is then
frozen. Two tasks ask what a review is about, two in what mood it is. Whoever has learnt
the one is quicker with the other question of the same sort.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from adapters import CLASSES, Layers, adapted, joined, kept

WORDS = 160
LENGTH = 24  # words of a review
RATE = 4e-4  # at which adapters are trained
TEST = 2000  # samples on which accuracy is measured
WIDTHS = (32, 64, 32, 32)

__all__ = ["RATE", "TASKS", "TEST", "adapted", "answer", "joined", "pretrained", "samples"]


def bins(x):
    """The class of each x from 0 to 1."""
    return (x * CLASSES).long().clamp(0, CLASSES - 1)


TASKS = {
    "topic": lambda z: bins(2 * z["about"] % 1),  # topics lie on a ring, and opposite ones are one class
    "shelf": lambda z: bins((2 * z["about"] + 0.5 / CLASSES) % 1),  # the same, by other classes
    "feeling": lambda z: bins((2 * z["mood"] - 1).abs()),  # how strong the mood is, good or bad
    "calm": lambda z: bins((1 - (2 * z["mood"] - 1).abs()) ** 1.5),  # the same, by other classes, the other way round
}


def vocabulary():
    """Of each word, what it is about, how much so, and how it is meant."""
    g = torch.Generator().manual_seed(7)
    place = torch.rand(WORDS, generator=g)
    bound = 2.5 * (torch.rand(WORDS, generator=g) < 0.5)
    tone = 4 * torch.randn(WORDS, generator=g) * (torch.rand(WORDS, generator=g) < 0.3)
    return place, bound, tone


def write(n, g):
    """n reviews as numbers of words, and what they are."""
    place, bound, tone = vocabulary()
    about, mood = torch.rand(n, generator=g), torch.rand(n, generator=g)
    near = torch.cos(2 * math.pi * (place - about[:, None]))
    score = bound * near + tone * (mood[:, None] - 0.5)
    text = torch.multinomial(score.softmax(-1), LENGTH, replacement=True, generator=g)
    return text, {"about": about, "mood": mood}


def samples(n, seed, task):
    g = torch.Generator().manual_seed(1000 * seed + list(TASKS).index(task))
    text, z = write(n, g)
    return text, TASKS[task](z)


def answer(model, x):
    return model(x)


def pretrained(path, steps=1000):
    """The backbone. It has learnt to guess the last word of a review from the others."""
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)

    def train(model):
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        for _ in range(steps):
            text, _ = write(64, g)
            loss = F.cross_entropy(model(text[:, :-1]), text[:, -1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return kept(path, Layers(nn.EmbeddingBag(WORDS, WIDTHS[0]), WIDTHS, WORDS), train)
