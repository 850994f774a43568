"""Measures what the tasks of a family (adapters.py) give each other.

Each task is trained alone from the backbone, on from what another one had learnt when it
was done (temporal), and together with another one (spatial). A task is done at the first
look at which it is as accurate as its target; K is the step of that look.
"""

import copy

from adapters import adapters
from learn import EVERY, PROFILE, Training, step

ENOUGH = 0.95  # of what a task reaches in the end is its target


def target(accuracies):
    """Of a task, from how accurate it was at each look, alone and by seed."""
    ends = [sum(a[-5:]) / 5 for a in accuracies]
    return ENOUGH * sum(ends) / len(ends)


def needed(accuracies, goal):
    """K: the step of the first look with that accuracy, or None."""
    return next((EVERY * i for i, a in enumerate(accuracies, 1) if a >= goal), None)


class Trace:
    """What was seen of one training."""

    def __init__(self):
        self.losses, self.accuracies, self.adapters, self.embedding = [], [], [], None

    def look(self, training, loss, keep):
        self.losses.append(loss)
        self.embedding = self.embedding or training.embedding()
        if training.step % EVERY == 0:
            self.accuracies.append(training.accuracy())
            if keep:
                self.adapters.append(copy.deepcopy(adapters(training.model)))

    def means(self):
        """Losses, averaged between looks, with the middle of these steps."""
        parts = [self.losses[i : i + EVERY] for i in range(0, len(self.losses) - EVERY + 1, EVERY)]
        return [[EVERY * i + EVERY / 2, round(sum(p) / EVERY, 4)] for i, p in enumerate(parts)]


class Family:
    """Measurements of one family."""

    def __init__(self, module, backbone, tasks, seeds, steps, say):
        self.module, self.backbone, self.tasks, self.seeds, self.steps, self.say = module, backbone, tasks, seeds, steps, say
        self.pairs = [(a, b) for a in tasks for b in tasks]

    def training(self, task, seed):
        return Training(self.module, self.backbone, task, seed)

    def run(self, trainings, least=0, goals=None):
        """Trains until all goals are met, at least for so many steps and at most for all."""
        traces = [Trace() for _ in trainings]
        while trainings[0].step < self.steps:
            for trace, training, loss in zip(traces, trainings, step(trainings)):
                trace.look(training, loss, keep=goals is None)
            done = goals and all(needed(t.accuracies[-1:], g) for t, g in zip(traces, goals))
            if done and trainings[0].step >= least:
                break
        return traces

    def measure(self, spatial):
        """All of it, as data for JSON."""
        alone = {}
        for task in self.tasks:
            alone[task] = [self.run([self.training(task, s)])[0] for s in self.seeds]
            self.say(f"{task} alone")
        self.goal = {t: target([x.accuracies for x in runs]) for t, runs in alone.items()}
        self.k = {t: [needed(x.accuracies, self.goal[t]) or self.steps for x in runs] for t, runs in alone.items()}
        self.half = {t: max(EVERY, EVERY * round(sum(k) / len(k) / 2 / EVERY)) for t, k in self.k.items()}
        after = [self.after(a, b, alone) for a, b in self.pairs]
        together = [x for a, b in self.pairs if a < b for x in self.together(a, b)] if spatial else []
        return {"profile": PROFILE, "tasks": [self.described(t, alone[t]) for t in self.tasks], "after": after, "together": together}

    def described(self, task, runs):
        return {
            "task": task,
            "target": self.goal[task],
            "half": self.half[task],
            "k": self.k[task],
            "accuracy": [self.at_half(task, x) for x in runs],
            "final": [round(sum(x.accuracies[-5:]) / 5, 4) for x in runs],
            "loss": [x.means() for x in runs],
            "embedding": [[float(f"{u:.4g}") for u in x.embedding] for x in runs],
        }

    def at_half(self, task, trace):
        return round(trace.accuracies[self.half[task] // EVERY - 1], 4)

    def after(self, a, b, alone):
        """b goes on from what a had learnt when it was done."""
        traces = []
        for seed, first, k in zip(self.seeds, alone[a], self.k[a]):
            training = self.training(b, seed + 100)  # other samples, even of the same task
            training.follow(first.adapters[k // EVERY - 1])
            traces += self.run([training], self.half[b], [self.goal[b]])
        self.say(f"{b} after {a}")
        return self.pair(a, b, traces)

    def together(self, a, b):
        """Both are trained as one; what each of them has of it."""
        traces = []
        for seed in self.seeds:
            one, two = self.training(a, seed), self.training(b, seed)
            two.join(one)
            traces.append(self.run([one, two], max(self.half[a], self.half[b]), [self.goal[a], self.goal[b]]))
        self.say(f"{a} together with {b}")
        return self.pair(b, a, [t[0] for t in traces]), self.pair(a, b, [t[1] for t in traces])

    def pair(self, a, b, traces):
        return {
            "from": a,
            "to": b,
            "k": [needed(t.accuracies, self.goal[b]) or self.steps for t in traces],
            "accuracy": [self.at_half(b, t) for t in traces],
            "final": [round(t.accuracies[-1], 4) for t in traces],
        }
