#!/usr/bin/env python3
"""Trains a small convolutional network to tell noisy drawings of rings, squares and
crosses apart. Runs on one worker or several, on CPUs or GPUs, with Norn or without,
and goes on where it was stopped.

The lines that make it so are marked with (norn); the rest is a plain PyTorch loop.
"""

import argparse
import json
import os
import sys

# Not needed where the package is installed: pip install sdk/python
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))

import norn  # noqa: E402

job = norn.init()  # (norn) before the slow imports: a stop may come at any moment

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import norn.torch as nt  # noqa: E402

SIDE = 16


def drawings(n, seed):
    """n pictures, and which of the three each of them is."""
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 3, (n,), generator=g)
    centre = 6 + 4 * torch.rand(n, 2, 1, 1, generator=g)
    radius = 3 + 2 * torch.rand(n, 1, 1, generator=g)
    axis = torch.arange(SIDE, dtype=torch.float32)
    dy, dx = axis.view(1, -1, 1) - centre[:, 0], axis.view(1, 1, -1) - centre[:, 1]
    ring = (torch.hypot(dx, dy) - radius).abs() < 0.8
    square = (torch.maximum(dx.abs(), dy.abs()) - radius).abs() < 0.8
    cross = (torch.minimum(dx.abs(), dy.abs()) < 0.8) & (torch.maximum(dx.abs(), dy.abs()) < radius)
    shape = torch.stack([ring, square, cross])[kind, torch.arange(n)].float()
    return (shape + 0.7 * torch.randn(n, SIDE, SIDE, generator=g)).unsqueeze(1), kind


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * (SIDE // 4) ** 2, 3),
    )  # fmt: skip


def main():
    p = argparse.ArgumentParser(description="Trains a small network on generated pictures.")
    p.add_argument("--steps", type=int, default=4000, help="how long to train; a step takes some 20 ms")
    p.add_argument("--batch", type=int, default=128, help="samples of a step, of all workers together")
    p.add_argument("--checkpoint", default=f"ckpt-{job.id or 'local'}.pt")
    p.add_argument("--log", help="a folder: write down which samples each step trains")
    p.add_argument("--result", help="a file for the final loss and accuracy, as JSON")
    args = p.parse_args()

    torch.set_num_threads(1)  # more would only get into each other's way on so small a model
    torch.manual_seed(0)
    pictures, kinds = drawings(10000, seed=1)
    dataset = torch.utils.data.TensorDataset(pictures, kinds)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)

    run = nt.Run(model, optimizer, args.checkpoint, scheduler=scheduler, save_every=60)  # (norn)
    if run.resumed and run.rank == 0:
        print(f"goes on at step {run.step_count} with {run.world_size} workers", flush=True)
    log = None
    if args.log:
        os.makedirs(args.log, exist_ok=True)
        log = open(os.path.join(args.log, f"samples.{job.run}.{run.rank}"), "a")
    for epoch, step, (x, y) in run.batches(dataset, global_batch=args.batch, steps=args.steps):  # (norn)
        loss = F.cross_entropy(run.model(x), y)
        run.step(loss)  # (norn) instead of backward, optimizer.step, scheduler.step and zero_grad
        if log is not None:
            print(step, *run.indices, file=log, flush=True)
        if run.rank == 0 and (step + 1) % 50 == 0:
            print(f"epoch {epoch} step {step + 1} loss {run.loss:.4f}", flush=True)

    if run.rank == 0:
        finish(model, run, args)


def finish(model, run, args):
    """Says how good the model has become."""
    x, y = drawings(2000, seed=2)
    with torch.no_grad():
        out = model(x.to(run.device)).cpu()
    loss, accuracy = float(F.cross_entropy(out, y)), float((out.argmax(1) == y).float().mean())
    job.report(quality={"accuracy": accuracy})  # (norn)
    print(f"{run.step_count} steps: loss {loss:.6f}, accuracy {accuracy:.4f} on pictures not seen before", flush=True)
    if args.result:
        norn.replace(args.result, lambda f: f.write(json.dumps({"loss": loss, "accuracy": accuracy}).encode()))


main()
