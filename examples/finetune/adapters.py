"""What the small models of this example share: adapters, and a network to tune.

A family is a module that has a backbone and tasks for it: words, pictures or reviews.
Each has the same functions, by which trainer.py and measure.py go:

    TASKS                       the names of its tasks
    RATE                        learning rate at which adapters are trained
    TEST                        samples on which accuracy is measured
    samples(n, seed, task)      n inputs and their answers, as tensors
    pretrained(path, steps)     the backbone, made when the file is not there
    adapted(model, rank)        that model, in which adapters alone can be trained
    joined(model)               another one with the same adapters, for a second task
    answer(model, inputs)       a score for each answer
"""

import copy
import math
import os

import torch
from torch import nn
from torch.nn import functional as F

import norn

FAMILIES = ("words", "pictures", "reviews")
CLASSES = 6  # of each task of pictures and reviews


class LoRA(nn.Module):
    """A linear layer that stays as it is, and a product of two thin matrices beside it."""

    def __init__(self, base, rank, scale=2.0):
        super().__init__()
        self.base, self.scale = base, scale
        self.a = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.a.T) @ self.b.T


class Layers(nn.Module):
    """Linear layers on some input, and a head that is another one for each task."""

    def __init__(self, first, widths, out):
        super().__init__()
        self.first = first
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.head = nn.Linear(widths[-1], out)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = F.gelu(layer(x))
        return self.head(x)


def adapted(model, rank):
    """The model with adapters and a new head that can be trained, and nothing else."""
    model.requires_grad_(False)
    for i, layer in enumerate(model.layers):
        model.layers[i] = LoRA(layer, rank)
    model.head = nn.Linear(model.head.in_features, CLASSES)
    return model


def joined(model):
    """A model with the same layers and adapters, and a head of its own."""
    other = copy.copy(model)
    other._modules = {**model._modules, "head": nn.Linear(model.head.in_features, CLASSES)}
    return other


def adapters(model):
    """What one task can hand on to another: the adapters, without the head."""
    return {k: v for k, v in model.state_dict().items() if k.endswith((".a", ".b"))}


def kept(path, model, train):
    """The model with the weights at path. Where there are none it is trained first: in
    a few seconds, in which a stop has to wait. Several workers may do so at the same
    time: they make the same."""
    if os.path.exists(path):
        model.load_state_dict(torch.load(path))
        return model
    train(model)
    norn.replace(path, lambda f: torch.save(model.state_dict(), f), part=f"{path}.{os.getpid()}.part")
    return model
