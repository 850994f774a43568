"""Training of adapters for one task of a family (adapters.py), step by step."""

import copy

import torch
from torch.nn import functional as F

import norn.torch as nt
from adapters import LoRA, adapters

DATA = 4000  # samples that are trained on
PROFILE = 100  # first steps of a job, from which others can tell what it is like
HEAD = 10  # times as fast as adapters: a new head knows nothing yet
EVERY = 20  # steps between two looks at the accuracy


class Training:
    """A task with the model that is tuned for it."""

    def __init__(self, family, backbone, task, seed=1, batch=32, rank=4, device="cpu", rate=1):
        self.family, self.batch, self.step, self.device, self.rate = family, batch, 0, device, rate * family.RATE
        self.data = [x.to(device) for x in family.samples(DATA, seed, task)]
        self.test = [x.to(device) for x in family.samples(family.TEST, 0, task)]
        torch.manual_seed(seed)
        self.model = family.adapted(copy.deepcopy(backbone), rank).to(device)
        layers = {n: m for n, m in self.model.named_modules() if isinstance(m, LoRA)}
        self.shared = self.optimizer(p for n, p in self.model.named_parameters() if p.requires_grad and n.endswith((".a", ".b")))
        self.own = self.optimizer((p for n, p in self.model.named_parameters() if p.requires_grad and not n.endswith((".a", ".b"))), HEAD)
        self.fisher = nt.Fisher(layers.values())

    def optimizer(self, parameters, faster=1):
        """None where there is nothing to optimise."""
        parameters = list(parameters)
        return torch.optim.AdamW(parameters, lr=faster * self.rate) if parameters else None

    def follow(self, learnt):
        """Begins with the adapters of another task."""
        self.model.load_state_dict(learnt, strict=False)

    def join(self, other):
        """Trains the adapters of another task from now on, together with it."""
        self.model, self.shared, self.fisher = self.family.joined(other.model).to(self.device), other.shared, other.fisher
        self.own = self.optimizer(self.model.head.parameters(), HEAD) if other.own else None

    def loss(self):
        """Of the samples of the next step."""
        at = self.step * self.batch % DATA
        x, y = (d[at : at + self.batch] for d in self.data)
        return F.cross_entropy(self.family.answer(self.model, x), y)

    def accuracy(self):
        """On samples that are not trained on."""
        x, y = self.test
        with torch.no_grad():
            return float((self.family.answer(self.model, x).argmax(-1) == y).float().mean())

    def embedding(self):
        """Of the task, when it has been profiled; else None."""
        return self.fisher.embedding() if self.step == PROFILE else None

    def state(self):
        optimizers = [o and o.state_dict() for o in (self.shared, self.own)]
        trained = {n for n, p in self.model.named_parameters() if p.requires_grad}
        weights = {k: v for k, v in self.model.state_dict().items() if k in trained}
        return {"model": weights, "adapters": adapters(self.model), "optimizers": optimizers, "step": self.step}

    def restore(self, state):
        self.model.load_state_dict(state["model"], strict=False)
        for o, s in zip((self.shared, self.own), state["optimizers"]):
            if o:
                o.load_state_dict(s)
        self.step = state["step"]


def step(group):
    """One step of all trainings on the same adapters, each of which counts as much as the
    others. Returns their losses."""
    for t in group:
        t.fisher.on = PROFILE // 2 <= t.step < PROFILE
    losses = [t.loss() for t in group]
    (sum(losses) / len(losses)).backward()
    for o in [group[0].shared, *(t.own for t in group)]:
        if o:
            o.step()
            o.zero_grad()
    for t in group:
        t.step += 1
    return [float(loss) for loss in losses]
