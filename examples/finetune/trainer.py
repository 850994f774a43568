#!/usr/bin/env python3
"""Keeps the backbone loaded and trains adapters for the jobs of tune.py, which load
nothing. Norn starts it and keeps it, as job.yaml says under `resident`.

Jobs that the policy has merged are trained so: one that comes after another goes on from
the adapters of that one, and two that run together train one set of adapters on both
tasks, until either is done.
"""

import argparse
import copy
import os
import sys
import time

# Not needed where the package is installed: pip install sdk/python
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))

import norn.resident  # noqa: E402

trainer = norn.resident.Trainer()  # before the slow imports: jobs may hand in their work meanwhile

import torch  # noqa: E402

from words import accuracy, adapted, loss_of, pretrained, sentences  # noqa: E402

EVERY = 25  # steps between two looks at the accuracy on sentences that are not trained on


class Work:
    """What one job has handed in."""

    def __init__(self, session, backbone, device):
        self.session, r = session, session.request
        self.steps, self.target, self.batch, self.path = int(r["steps"]), float(r["target"]), int(r["batch"]), r["checkpoint"]
        self.data = sentences(4000, seed=2, task=r["task"]).to(device)
        self.test = sentences(500, seed=3, task=r["task"]).to(device)
        torch.manual_seed(1)
        self.step, self.right, self.began = 0, 0.0, time.monotonic()
        self.model = adapted(copy.deepcopy(backbone), int(r["rank"])).to(device)
        self.optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], lr=5e-3)
        first = session.merge.get("checkpoint") if session.merge.get("how") == "after" else None
        if r["resume"] and os.path.exists(self.path):
            saved = torch.load(self.path, map_location=device)
            self.model.load_state_dict(saved["model"], strict=False)
            self.optimizer.load_state_dict(saved["optimizer"])
            self.step = saved["step"]
        elif first and os.path.exists(first):  # what another has learnt
            self.model.load_state_dict(torch.load(first, map_location=device)["model"], strict=False)

    def join(self, other):
        """Trains the adapters of another from now on."""
        self.model, self.optimizer = other.model, other.optimizer

    def part(self):
        """The samples of this step."""
        at = self.step * self.batch % len(self.data)
        return self.data[at : at + self.batch]

    def stepped(self, loss):
        self.step += 1
        if self.step % EVERY == 0 or self.step == self.steps:
            self.right = accuracy(self.model, self.test)
            epoch = self.step * self.batch / len(self.data)
            self.session.report(step=self.step, steps=self.steps, epoch=epoch, loss=loss, quality={"accuracy": self.right})
        elif self.step % 5 == 0:
            self.session.report(step=self.step, steps=self.steps, loss=loss)
        return self.right >= self.target or self.step >= self.steps

    def save(self):
        adapters = {k: v for k, v in self.model.state_dict().items() if k.endswith((".a", ".b"))}
        state = {"model": adapters, "optimizer": self.optimizer.state_dict(), "step": self.step}
        norn.replace(self.path, lambda f: torch.save(state, f))
        self.session.saved(self.step, self.path)

    def end(self):
        self.save()
        self.session.done({"steps": self.step, "accuracy": self.right, "seconds": time.monotonic() - self.began})


def merged(a, b):
    """Whether two jobs are trained as one."""
    return any(x.merge.get("how") == "together" and x.merge.get("with") == y.job for x, y in ((a.session, b.session), (b.session, a.session)))


def train(group):
    """One step of all work on the same adapters; each counts as much as the others."""
    losses = [loss_of(w.model, w.part()) for w in group]
    (sum(losses) / len(losses)).backward()
    group[0].optimizer.step()
    group[0].optimizer.zero_grad()
    return [w for w, loss in zip(group, losses) if w.stepped(float(loss))]


def main():
    p = argparse.ArgumentParser(description="Keeps a small language model loaded and trains adapters for jobs.")
    p.add_argument("--backbone", default="backbone.pt", help="is made when it is not there")
    p.add_argument("--backbone-steps", type=int, default=300, help="how long that is trained")
    args = p.parse_args()
    torch.set_num_threads(1)  # more would only get into each other's way on so small a model
    device = "cuda" if torch.cuda.is_available() else "cpu"
    backbone = pretrained(args.backbone, args.backbone_steps)
    works = {}
    while trainer.wait():
        for session in trainer.sessions():
            if session not in works:
                new = Work(session, backbone, device)
                for other in works.values():
                    if merged(new, other):
                        new.join(other)
                works[session] = new
        for work in [w for w in works.values() if w.session.stopping]:
            work.save()
            work.session.left()
        works = {s: w for s, w in works.items() if not s.ended}
        for model in {id(w.model): w.model for w in works.values()}.values():
            for done in train([w for w in works.values() if w.model is model]):
                done.end()
        works = {s: w for s, w in works.items() if not s.ended}


main()
