"""A small language model, adapters for it, and tasks on which it can be tuned.

The backbone, a transformer of two layers, has learnt from sentences such as "the red
cat sees the blue dog . the cat is red", and is then frozen. Each task asks something
about such a sentence and wants a word as the answer. All have to look for the two animals
in it, and so one learns in a third of the steps what it would take alone, when it goes on
from another.
"""

import math
import random

import torch
from torch import nn
from torch.nn import functional as F

from adapters import LoRA, kept

RATE = 5e-3  # at which adapters are trained
TEST = 500  # samples on which accuracy is measured
COLOURS = "red blue green black white brown".split()
ANIMALS = "cat dog bird horse mouse fish".split()
WORDS = ["the", "sees", "hears", "is", ".", "?", "who", "whom", *COLOURS, *ANIMALS]
CODE = {w: i for i, w in enumerate(WORDS)}
LENGTH = 12
ANSWER = 10  # where it stands in a question

# What follows behind "the red cat sees the blue dog ." by task: from the colours, the
# animals, and which of the two is asked for.
TASKS = {
    "facts": lambda c, a, w: ["the", a[w], "is", c[w]],  # of the backbone: the cat is red
    "animals": lambda c, a, w: [("who", "whom")[w], "?", a[w]],  # who ? cat
    "others": lambda c, a, w: [("who", "whom")[w], "?", a[1 - w]],  # who ? dog
    "colours": lambda c, a, w: [("who", "whom")[w], "?", c[w]],  # who ? red
}


def sentences(n, seed, task):
    """n sentences of word numbers, each with what the task has behind it."""
    rng = random.Random(f"{seed} {task}")
    out = []
    for _ in range(n):
        c, a, which = rng.sample(COLOURS, 2), rng.sample(ANIMALS, 2), rng.randrange(2)
        text = ["the", c[0], a[0], rng.choice(("sees", "hears")), "the", c[1], a[1], ".", *TASKS[task](c, a, which)]
        out.append([CODE[w] for w in text] + [CODE["."]] * (LENGTH - len(text)))
    return torch.tensor(out)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / math.sqrt(w // self.heads)
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        seen = score.masked_fill(future, -math.inf).softmax(-1) @ v
        x = x + self.out(seen.transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Backbone(nn.Module):
    def __init__(self, width=32, heads=2, layers=2):
        super().__init__()
        self.words, self.places = nn.Embedding(len(WORDS), width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(WORDS))

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.words(x) + self.places.weight[: x.shape[1]])))


def samples(n, seed, task):
    """n questions and their answers."""
    text = sentences(n, seed, task)
    return text[:, :ANSWER], text[:, ANSWER]


def pretrained(path, steps=300):
    """The backbone. It has learnt to tell facts."""
    torch.manual_seed(0)

    def train(model):
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for batch in sentences(steps * 32, seed=1, task="facts").split(32):
            loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return kept(path, Backbone(), train)


def adapted(model, rank):
    """The model with adapters that can be trained, and nothing else that can."""
    model.requires_grad_(False)
    for block in model.blocks:
        for name in ("qkv", "out", "up", "down"):
            setattr(block, name, LoRA(getattr(block, name), rank))
    return model


def joined(model):
    """The same model: it has no head that belongs to a task."""
    return model


def answer(model, questions):
    """A score for each word behind the questions."""
    return model(questions)[:, -1]


def accuracy(model, text):
    """The part of questions that are answered right."""
    with torch.no_grad():
        return float((answer(model, text[:, :ANSWER]).argmax(-1) == text[:, ANSWER]).float().mean())


def loss_of(model, text):
    """Of the answers alone."""
    return F.cross_entropy(answer(model, text[:, :ANSWER]), text[:, ANSWER])
