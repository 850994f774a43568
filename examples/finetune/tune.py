#!/usr/bin/env python3
"""A fine-tuning job that loads nothing: it hands its task to the trainer that has the
backbone loaded (trainer.py), and tells of its progress."""

import argparse
import json
import os
import sys

# Not needed where the package is installed: pip install sdk/python
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))

import norn  # noqa: E402

job = norn.init()


def main():
    p = argparse.ArgumentParser(description="Has a small model tuned on a task.")
    p.add_argument("task", help="one of those of the trainer's family, such as animals")
    p.add_argument("--steps", type=int, default=800, help="how long at most")
    p.add_argument("--target", type=float, default=0.9, help="accuracy with which it is done")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--seed", type=int, default=1, help="of its samples and adapters")
    p.add_argument("--rate", type=float, default=1, help="factor on the learning rate of the family")
    p.add_argument("--rank", type=int, default=8, help="of the adapters")
    p.add_argument("--result", help="a file for what has come of it, as JSON")
    p.add_argument("--checkpoint", default=f"ckpt-{job.id or 'local'}.pt", help="of the adapters")
    args = p.parse_args()
    work = {**vars(args), "checkpoint": os.path.abspath(args.checkpoint), "resume": job.allocation.resumable}
    result = norn.resident.tune(work)
    merge = job.allocation.merge
    how = {"after": ", after job ", "together": ", together with job "}.get(merge.get("how"), "") + str(merge.get("with", ""))
    if args.result:
        norn.replace(args.result, lambda f: f.write(json.dumps({**result, "merge": dict(merge)}).encode()))
    print(f"{args.task}: {result['steps']} steps, {result['seconds']:.1f} s, {result['accuracy']:.1%} right{how}", flush=True)


main()
