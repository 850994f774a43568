"""A small model of pictures, and five tasks on which it can be tuned.

Each picture has stripes and, on top of them, a spot, and noise. The backbone has learnt
to take the noise away, and is then frozen. Three tasks ask about the stripes, two about
the spot. Whoever has learnt to see the one is quicker with other questions about it,
and slower with questions about the other, for which it has no eye any more.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from adapters import CLASSES, Layers, adapted, joined, kept

SIDE = 12
NOISE = 0.5
RATE = 4e-4  # at which adapters are trained
TEST = 2000  # samples on which accuracy is measured
WIDTHS = (SIDE * SIDE, 64, 32, 32)

__all__ = ["RATE", "TASKS", "TEST", "adapted", "answer", "joined", "pretrained", "samples"]


def bins(x, low, high):
    """The class of each x, of equal classes from low to high."""
    return ((x - low) / (high - low) * CLASSES).long().clamp(0, CLASSES - 1)


TASKS = {
    "stripes": lambda z: bins(z["angle"], 0, math.pi),  # how they lie
    "turned": lambda z: bins((z["angle"] + math.pi / 2 / CLASSES) % math.pi, 0, math.pi),  # the same, by other classes
    "width": lambda z: bins(z["width"], 0.5, 1.4),  # how wide they are
    "column": lambda z: bins(z["x"], -4, 4),  # where the spot is
    "side": lambda z: bins(-z["x"] + 0.5 * z["x"].abs(), -2, 6),  # the same, by other classes, from the right
}


def scenes(n, g):
    """What is to be seen on n pictures."""
    u = torch.rand(6, n, generator=g)
    return {"angle": math.pi * u[0], "width": 0.5 + 0.9 * u[1], "phase": 4 * u[2], "x": 8 * u[3] - 4, "y": 8 * u[4] - 4, "bright": 1 + 1.5 * u[5]}


def draw(scene):
    """The pictures, a row of points each, without noise."""
    z = {k: v[:, None, None] for k, v in scene.items()}
    c = torch.arange(SIDE) - (SIDE - 1) / 2
    y, x = torch.meshgrid(c, c, indexing="ij")
    along = x * torch.cos(z["angle"]) + y * torch.sin(z["angle"])
    stripes = torch.cos(z["width"] * along + z["phase"])
    spot = torch.exp(-((x - z["x"]) ** 2 + (y - z["y"]) ** 2) / 4.5)
    return (0.6 * stripes + z["bright"] * spot).flatten(1)


def noisy(pictures, g):
    return pictures + NOISE * torch.randn(pictures.shape, generator=g)


def samples(n, seed, task):
    g = torch.Generator().manual_seed(1000 * seed + list(TASKS).index(task))
    scene = scenes(n, g)
    return noisy(draw(scene), g), TASKS[task](scene)


def answer(model, x):
    return model(x)


def pretrained(path, steps=1000):
    """The backbone. It has learnt to tell pictures from their noise."""
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)

    def train(model):
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        for _ in range(steps):
            clean = draw(scenes(64, g))
            loss = F.mse_loss(model(noisy(clean, g)), clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return kept(path, Layers(nn.Identity(), WIDTHS, SIDE * SIDE), train)
