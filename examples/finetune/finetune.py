#!/usr/bin/env python3
"""Teaches a small language model to answer questions, by low-rank adapters alone.

The backbone, a transformer of two layers, has learnt from sentences such as "the red
cat sees the blue dog . the cat is red". It is trained in a few seconds when it is
not there yet, and then frozen. What is fine-tuned, reported and saved are adapters
(LoRA) that make it answer: "the red cat sees the blue dog . whom ? dog". trainer.py does
the same for many jobs, and loads the backbone once.
"""

import argparse
import os
import sys

# Not needed where the package is installed: pip install sdk/python
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))

import norn  # noqa: E402

job = norn.init()  # before the slow imports: a stop may come at any moment

import torch  # noqa: E402

import norn.torch as nt  # noqa: E402
from words import TASKS, accuracy, adapted, loss_of, pretrained, sentences  # noqa: E402


def main():
    p = argparse.ArgumentParser(description="Fine-tunes a small language model with adapters.")
    p.add_argument("--task", choices=sorted(TASKS), default="animals", help="what it is to answer")
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
    questions = sentences(8000, seed=2, task=args.task)
    for _, step, text in run.batches(questions, global_batch=args.batch, steps=args.steps):
        stepped = run.step(loss_of(run.model, text))
        if stepped and run.rank == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1} loss {run.loss:.4f}", flush=True)

    if run.rank == 0:
        right = accuracy(model, sentences(1000, seed=3, task=args.task).to(run.device))
        job.report(quality={"accuracy": right})
        print(f"{run.step_count} steps: {right:.1%} of 1000 questions answered", flush=True)


main()
