#!/usr/bin/env python3
"""Keeps the backbone of a family loaded and trains adapters for the jobs of tune.py, which
load nothing. Norn starts it and keeps it, as jobs.yaml says under `resident`.

Jobs that the policy has merged are trained so: one that comes after another goes on from
the adapters of that one, and two that run together train one set of adapters on both
tasks, until either is done. A job that begins from the backbone by itself is profiled
in its first steps, without a stay of its own for that: how its loss falls, and which
parts of the backbone matter for it.
"""

import argparse
import importlib
import os
import sys
import time

# Not needed where the package is installed: pip install sdk/python
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))

import norn.resident  # noqa: E402

trainer = norn.resident.Trainer()  # before the slow imports: jobs may hand in their work meanwhile

import torch  # noqa: E402

from adapters import FAMILIES  # noqa: E402
from learn import DATA, EVERY, Training, step  # noqa: E402


class Work:
    """What one job has handed in."""

    def __init__(self, session, family, backbone, device):
        self.session, r = session, session.request
        self.steps, self.target, self.path = int(r["steps"]), float(r["target"]), r["checkpoint"]
        self.training = Training(family, backbone, r["task"], r.get("seed", 1), int(r["batch"]), int(r["rank"]), device, r.get("rate", 1))
        self.right, self.began = 0.0, time.monotonic()
        self.alone = not session.merge  # a profile of merged jobs would say little of either
        self.first = session.merge.get("checkpoint") if session.merge.get("how") == "after" else None
        if r["resume"] and os.path.exists(self.path):
            self.training.restore(torch.load(self.path, map_location=device))
        elif self.first and os.path.exists(self.first):
            self.training.follow(torch.load(self.first, map_location=device)["adapters"])
        else:
            self.first = None

    def stepped(self, loss):
        """Tells of a step, and whether it was the last one."""
        t, report = self.training, {}
        if t.step % EVERY == 0 or t.step == self.steps:
            self.right = t.accuracy()
            report = {"epoch": t.step * t.batch / DATA, "quality": {"accuracy": self.right}}
        if self.alone and t.embedding():
            report["embedding"] = t.embedding()
        if report or t.step % 5 == 0:
            self.session.report(step=t.step, steps=self.steps, samples=t.step * t.batch, loss=loss, **report)
        return self.right >= self.target or t.step >= self.steps

    def save(self):
        norn.replace(self.path, lambda f: torch.save(self.training.state(), f))
        self.session.saved(self.training.step, self.path)

    def end(self):
        self.save()
        result = {"steps": self.training.step, "accuracy": self.right, "seconds": time.monotonic() - self.began}
        self.session.done({**result, "from": self.first, "trainer": os.getpid()})


def merged(a, b):
    """Whether two jobs are trained as one."""
    return any(x.merge.get("how") == "together" and x.merge.get("with") == y.job for x, y in ((a.session, b.session), (b.session, a.session)))


def train(group):
    """One step of all work on the same adapters. Returns what is done."""
    losses = step([w.training for w in group])
    return [w for w, loss in zip(group, losses) if w.stepped(loss)]


def main():
    p = argparse.ArgumentParser(description="Keeps a small model loaded and trains adapters for jobs.")
    p.add_argument("--family", choices=FAMILIES, default="words", help="which model")
    p.add_argument("--backbone", default="backbone.pt", help="is made when it is not there")
    p.add_argument("--backbone-steps", type=int, help="how long that is trained")
    args = p.parse_args()
    torch.set_num_threads(1)  # more would only get into each other's way on so small a model
    device = "cuda" if torch.cuda.is_available() else "cpu"
    family = importlib.import_module(args.family)
    backbone = family.pretrained(args.backbone, *([args.backbone_steps] if args.backbone_steps else []))
    works = {}
    while trainer.wait():
        for session in trainer.sessions():
            if session not in works:
                new = Work(session, family, backbone, device)
                for other in works.values():
                    if merged(new, other):
                        new.training.join(other.training)
                works[session] = new
        for work in [w for w in works.values() if w.session.stopping]:
            work.save()
            work.session.left()
        works = {s: w for s, w in works.items() if not s.ended}
        for shared in {id(w.training.shared): w.training.shared for w in works.values()}.values():
            for done in train([w for w in works.values() if w.training.shared is shared]):
                done.end()
        works = {s: w for s, w in works.items() if not s.ended}


main()
