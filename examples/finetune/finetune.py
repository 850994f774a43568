#!/usr/bin/env python3
"""Teaches a small language model to answer questions, by low-rank adapters alone.

The backbone, a transformer of two layers, has learnt from sentences such as "the red
cat sees the blue dog . the cat is red". It is trained in a few seconds when it is
not there yet, and then frozen. What is fine-tuned, reported and saved are adapters
(LoRA) that make it answer: "the red cat sees the blue dog . whom ? dog".
"""

import argparse
import math
import os
import random
import sys

# Not needed where the package is installed: pip install sdk/python
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))

import norn  # noqa: E402

job = norn.init()  # before the slow imports: a stop may come at any moment

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import norn.torch as nt  # noqa: E402

COLOURS = "red blue green black white brown".split()
ANIMALS = "cat dog bird horse mouse fish".split()
WORDS = ["the", "sees", "hears", "is", ".", "?", "who", "whom", *COLOURS, *ANIMALS]
CODE = {w: i for i, w in enumerate(WORDS)}
LENGTH = 12
ANSWER = 10  # where it stands in a question


def sentences(n, seed, ask):
    """n sentences of word numbers. Each ends with what follows from its beginning:
    "the cat is red", or with ask "who ? cat"."""
    rng = random.Random(seed)
    out = []
    for _ in range(n):
        c, a, who = rng.sample(COLOURS, 2), rng.sample(ANIMALS, 2), rng.randrange(2)
        end = [("who", "whom")[who], "?", a[who]] if ask else ["the", a[who], "is", c[who]]
        text = ["the", c[0], a[0], rng.choice(("sees", "hears")), "the", c[1], a[1], ".", *end]
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


class LoRA(nn.Module):
    """A linear layer that stays as it is, and a product of two thin matrices beside it."""

    def __init__(self, base, rank, scale=2.0):
        super().__init__()
        self.base, self.scale = base, scale
        self.a = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.a.T) @ self.b.T


def pretrained(path, steps):
    """The backbone. Takes a few seconds when the file is not there yet, in which a
    stop has to wait. Several workers may make it at the same time: they make the same."""
    torch.manual_seed(0)
    model = Backbone()
    if os.path.exists(path):
        model.load_state_dict(torch.load(path))
        return model
    text = sentences(steps * 32, seed=1, ask=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for batch in text.split(32):
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    norn.replace(path, lambda f: torch.save(model.state_dict(), f), part=f"{path}.{os.getpid()}.part")
    return model


def adapted(model, rank):
    """The model with adapters that can be trained, and nothing else that can."""
    model.requires_grad_(False)
    for block in model.blocks:
        for name in ("qkv", "out", "up", "down"):
            setattr(block, name, LoRA(getattr(block, name), rank))
    return model


def main():
    p = argparse.ArgumentParser(description="Fine-tunes a small language model with adapters.")
    p.add_argument("--steps", type=int, default=1500, help="how long to train; a step takes some 20 ms")
    p.add_argument("--batch", type=int, default=32, help="samples of a step, of all workers together")
    p.add_argument("--rank", type=int, default=8, help="of the adapters")
    p.add_argument("--backbone", default="backbone.pt", help="is made when it is not there")
    p.add_argument("--backbone-steps", type=int, default=300, help="how long that is trained")
    p.add_argument("--checkpoint", default=f"ckpt-{job.id or 'local'}.pt", help="of the adapters")
    args = p.parse_args()

    torch.set_num_threads(1)  # more would only get into each other's way on so small a model
    model = adapted(pretrained(args.backbone, args.backbone_steps), args.rank)
    optimizer = torch.optim.AdamW([q for q in model.parameters() if q.requires_grad], lr=5e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    run = nt.Run(model, optimizer, args.checkpoint, scheduler=scheduler, save_frozen=False, noise=True)
    questions = sentences(8000, seed=2, ask=True)
    for _, step, text in run.batches(questions, global_batch=args.batch, steps=args.steps):
        out = run.model(text[:, :ANSWER])[:, -1]
        stepped = run.step(F.cross_entropy(out, text[:, ANSWER]))
        if stepped and run.rank == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {run.loss:.4f}", flush=True)

    if run.rank == 0:
        test = sentences(1000, seed=3, ask=True).to(run.device)
        with torch.no_grad():
            right = float((model(test[:, :ANSWER])[:, -1].argmax(-1) == test[:, ANSWER]).float().mean())
        job.report(quality={"accuracy": right})
        print(f"{run.step_count} steps: {right:.1%} of 1000 questions answered", flush=True)


main()
