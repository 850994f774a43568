#!/usr/bin/env python3
"""Trains one of three recommendation models to foresee clicks: wide & deep, DeepFM,
or one that looks at what the user clicked before (as DIN does). The clicks are
generated: nothing is downloaded.

Such models keep a GPU busy for a small part of the time only, so that several of them
share one well, and some do without it: this one runs on a GPU or on processors.
"""

import argparse
import json
import os
import sys

# Not needed where the package is installed: pip install sdk/python
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))

import norn  # noqa: E402

job = norn.init()  # before the slow imports: a stop may come at any moment

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import norn.torch as nt  # noqa: E402

USERS, ITEMS, KINDS, HOURS = 500, 300, 24, 24
PAST = 8  # clicks of a user that a sample tells
DENSE = 4  # numbers beside the names


def clicks(n, world, seed):
    """n impressions of a world: who saw which item when, what that user had clicked
    before, some numbers, and whether she clicked. A user likes items near her in a
    space that no model sees; items of a kind lie near each other."""
    g = torch.Generator().manual_seed(world)

    def normal(*shape):
        return torch.randn(*shape, generator=g)

    kind = torch.randint(0, KINDS, (ITEMS,), generator=g)
    item = normal(KINDS, 6)[kind] + 0.7 * normal(ITEMS, 6)
    user, popular, hour_of_kind = normal(USERS, 6), normal(ITEMS), normal(HOURS, KINDS)
    past = ((user @ item.T) + 2 * normal(USERS, ITEMS)).topk(PAST, dim=1).indices
    g.manual_seed(seed)
    u, i = torch.randint(0, USERS, (n,), generator=g), torch.randint(0, ITEMS, (n,), generator=g)
    h, dense = torch.randint(0, HOURS, (n,), generator=g), normal(n, DENSE)
    score = 0.6 * (user[u] * item[i]).sum(1) + 0.5 * popular[i] + 0.7 * hour_of_kind[h, kind[i]] + 0.5 * dense[:, 0] * dense[:, 1] - 1
    clicked = torch.rand(n, generator=g) < torch.sigmoid(score)
    return torch.stack([u, i, kind[i], h], 1), past[u], dense, clicked.float()


def mlp(width, *widths):
    layers = []
    for w in widths:
        layers += [nn.Linear(width, w), nn.ReLU()]
        width = w
    return nn.Sequential(*layers, nn.Linear(width, 1))


class Names(nn.Module):
    """Vectors for users, items, kinds of items, and hours, which stand in one table."""

    def __init__(self, width):
        super().__init__()
        sizes = torch.tensor([USERS, ITEMS, KINDS, HOURS])
        self.register_buffer("first", sizes.cumsum(0) - sizes, persistent=False)
        self.table = nn.Embedding(int(sizes.sum()), width)
        nn.init.normal_(self.table.weight, std=0.05)

    def forward(self, names):
        return self.table(names + self.first)

    def items(self, items):
        return self.table(items + USERS)


class WideDeep(nn.Module):
    """Weights of names and of pairs of names, beside a deep network (Cheng et al. 2016)."""

    PAIRS = 20011  # places for pairs of names

    def __init__(self, width):
        super().__init__()
        self.names, self.wide, self.pairs = Names(width), Names(1), nn.Embedding(self.PAIRS, 1)
        nn.init.zeros_(self.pairs.weight)
        self.deep = mlp(4 * width + DENSE, 128, 64)

    def forward(self, names, past, dense):
        pair = torch.stack([names[:, 0] * KINDS + names[:, 2], names[:, 3] * KINDS + names[:, 2] + 7], 1) % self.PAIRS
        wide = self.wide(names).sum((1, 2)) + self.pairs(pair).sum((1, 2))
        return wide + self.deep(torch.cat([self.names(names).flatten(1), dense], 1)).squeeze(1)


class DeepFM(nn.Module):
    """Products of all pairs of vectors, beside a deep network over them (Guo et al. 2017)."""

    def __init__(self, width):
        super().__init__()
        self.names, self.first = Names(width), Names(1)
        self.dense = nn.Linear(DENSE, width)
        self.deep = mlp(5 * width, 128, 64)

    def forward(self, names, past, dense):
        v = torch.cat([self.names(names), self.dense(dense).unsqueeze(1)], 1)
        products = 0.5 * (v.sum(1) ** 2 - (v**2).sum(1)).sum(1)
        return self.first(names).sum((1, 2)) + products + self.deep(v.flatten(1)).squeeze(1)


class DIN(nn.Module):
    """What the user clicked before, weighted by how much it has to do with the item
    that she sees (Zhou et al. 2018)."""

    def __init__(self, width):
        super().__init__()
        self.names, self.weigh = Names(width), mlp(4 * width, 36)
        self.deep = mlp(5 * width + DENSE, 128, 64)

    def forward(self, names, past, dense):
        v, before = self.names(names), self.names.items(past)
        seen = v[:, 1:2].expand_as(before)
        weight = self.weigh(torch.cat([before, seen, before - seen, before * seen], 2))
        return self.deep(torch.cat([v.flatten(1), (weight * before).sum(1), dense], 1)).squeeze(1)


MODELS = {"widedeep": WideDeep, "deepfm": DeepFM, "din": DIN}


def auc(score, clicked):
    """The chance that of a click and a non-click the click has the larger score."""
    rank = torch.empty(len(score), dtype=torch.float64)
    rank[score.argsort()] = torch.arange(1, len(score) + 1, dtype=torch.float64)
    ones = float(clicked.sum())
    return float((rank[clicked > 0].sum() - ones * (ones + 1) / 2) / (ones * (len(score) - ones)))


def main():
    p = argparse.ArgumentParser(description="Trains a recommendation model on generated clicks.")
    p.add_argument("model", choices=sorted(MODELS))
    p.add_argument("--steps", type=int, default=400, help="how long to train; a step takes some 20 ms on a processor")
    p.add_argument("--batch", type=int, default=256, help="samples of a step, of all workers together")
    p.add_argument("--width", type=int, default=8, help="of the vectors of names")
    p.add_argument("--seed", type=int, default=job.array_index or 0, help="of weights and clicks (default: the number in an array)")
    p.add_argument("--checkpoint", default=f"ckpt-{job.id or 'local'}.pt")
    p.add_argument("--result", help="a file for the final loss and AUC, as JSON; a folder: NAME-SEED.json in it")
    args = p.parse_args()

    torch.set_num_threads(1)  # more would only get into each other's way on so small a model
    torch.manual_seed(args.seed)
    dataset = torch.utils.data.TensorDataset(*clicks(40000, world=1, seed=100 + args.seed))
    model = MODELS[args.model](args.width)
    run = nt.Run(model, torch.optim.Adam(model.parameters(), lr=5e-3), args.checkpoint, save_every=60)
    for _, step, (names, past, dense, clicked) in run.batches(dataset, global_batch=args.batch, steps=args.steps):
        run.step(F.binary_cross_entropy_with_logits(run.model(names, past, dense), clicked))
        if run.rank == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {run.loss:.4f}", flush=True)
    if run.rank == 0:
        finish(model, run, args)


def finish(model, run, args):
    """Says how good the model has become, on clicks that it has not seen."""
    names, past, dense, clicked = clicks(20000, world=1, seed=2)
    with torch.no_grad():
        score = model(names.to(run.device), past.to(run.device), dense.to(run.device)).cpu()
    result = {"auc": auc(score, clicked), "loss": float(F.binary_cross_entropy_with_logits(score, clicked))}
    job.report(quality=result)
    print(f"{args.model} on {run.device}, {run.step_count} steps: AUC {result['auc']:.4f}, loss {result['loss']:.4f}", flush=True)
    if args.result:
        path = args.result
        if os.path.isdir(path):
            path = os.path.join(path, f"{args.model}-{args.seed}.json")
        norn.replace(path, lambda f: f.write(json.dumps(result).encode()))


main()
