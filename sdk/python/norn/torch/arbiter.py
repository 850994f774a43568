"""A proposer of batch sizes that learns while the job trains, from its validation loss.

Nouns: the proposer network looks at validation samples and gives logits, the candidates of
a batch size; weights say how much each helps at present. The mixed logit is their mean. It
disturbs the features of as many validation samples as its batch has, so that the loss there
can be traced back to it, although a batch is a whole number.

Source: MacLellan and Dong, "Arbiter: Hyper-Learning for Gradient-Based Batch Size
Adaptation", arXiv 2205.08231, and its code (calum-r-maclellan/Arbiter), of which the second
rounding of the chosen batch, a slip, is not copied.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Generator, List, Mapping, Optional, Tuple
from contextlib import contextmanager

import torch

from ..proposer import Range, Trained
from .loading import moved

SMALL = 1e-6  # of weights at the beginning of an interval
CLOSE = 2  # samples from the first batch, within which warming up ends


def mixture(logits: torch.Tensor, alpha: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The mixed logit, and the weights: softmax(alpha)."""
    weights = torch.softmax(alpha, 0)
    return (weights * logits).sum(), weights


def images(channels: int, candidates: int) -> torch.nn.Module:
    """The proposer network for images: four convolutions and a mean."""
    layers: List[torch.nn.Module] = []
    for i, stride in enumerate((1, 2, 2, 2)):
        layers += [torch.nn.Conv2d(channels if i == 0 else 64, 64, 3, stride, 1), torch.nn.BatchNorm2d(64), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, candidates))


class Arbiter:
    """Proposes the batch that its weights favour at the end of every so many epochs.

    features, classifier   the two parts of the trained model, which is not changed: features
                           gives a vector for each sample, classifier what loss is made of
    validation             a data set of (input, target), none of which is trained
    batches                that are allowed
    first                  the batch with which training begins; warm_up() starts there
    loss                   of classifier's output and targets
    network                gives candidates logits for each input; default: images()
    candidates             N
    every                  epochs between two proposals (T)
    sample                 validation inputs that the network looks at
    rate, weight_rate      of the network and its map to features, and of the weights
    decay                  of the network's parameters
    seed                   of the network, and of which validation samples are looked at

    After each step of training it takes one step of its own, on the first worker, for which
    the others wait; overhead tells how long that takes. It draws no random numbers of the
    training.
    """

    def __init__(
        self,
        features: torch.nn.Module,
        classifier: torch.nn.Module,
        validation: Any,
        *,
        batches: Range = Range(8, 512),
        first: int = 128,
        loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = torch.nn.functional.cross_entropy,
        network: Optional[torch.nn.Module] = None,
        candidates: int = 4,
        every: int = 1,
        sample: int = 64,
        rate: float = 1e-5,
        weight_rate: float = 1e-4,
        decay: float = 5e-4,
        seed: int = 0,
    ) -> None:
        if len(validation) == 0 or every < 1 or candidates < 1 or sample < 1:
            raise ValueError("there must be validation samples, candidates, and an epoch between proposals")
        if not batches.least <= first <= batches.most:
            raise ValueError(f"a first batch of {first} is not from {batches.least} to {batches.most}")
        self.every, self.range, self.first = every, batches, first
        self.logits: List[float] = []  # of the last step, in order
        self.mixed = 0.0  # mixed logit of the last step
        self._features, self._classifier, self._validation, self._loss = features, classifier, validation, loss
        self._sample, self._draw = sample, torch.Generator().manual_seed(seed)
        self._device = next(iter(features.parameters()), torch.zeros(0)).device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            shown = moved(validation[0][0], self._device)
            if network is None and shown.dim() != 3:
                raise ValueError("inputs are no images: tell a network that gives logits")
            self.network = (network or images(shown.shape[0], candidates)).to(self._device)
            with _still(features), torch.no_grad():
                size, kind = features(shown.unsqueeze(0)).flatten(1).shape[1], next(iter(features.parameters()), torch.zeros(0)).dtype
            self.map = torch.nn.Parameter(0.01 * torch.randn(size, dtype=kind, device=self._device))
        self.alpha = torch.nn.Parameter(torch.zeros(candidates, dtype=self.map.dtype, device=self._device))
        self._forget()
        self._optimizer = torch.optim.Adam(
            [
                {"params": [*self.network.parameters(), self.map], "lr": rate, "weight_decay": decay},
                {"params": [self.alpha], "lr": weight_rate},
            ]
        )
        self._spent = self._trained = 0.0

    # A Proposer.

    def stepped(self, trained: Trained) -> None:
        """One step of its own: the loss of validation samples, disturbed by the mixed logit,
        falls along the gradient of network, map and weights."""
        began = time.perf_counter()
        s = self._look()
        x, y = self._drawn(self.range.batch(float(s.detach())))
        with _still(self._features), _still(self._classifier):
            with torch.no_grad():
                f = self._features(x)
            disturbed = f + f * (s * self.map).reshape(1, *f.shape[1:])
            loss = self._loss(self._classifier(disturbed), y)
            self._follow(loss)
        self._spent += time.perf_counter() - began
        self._trained += trained.seconds

    def propose(self) -> int:
        """The candidate with the most weight. The weights begin anew."""
        if not self.logits:
            return self.first
        chosen = self.range.batch(self.logits[int(torch.argmax(self.alpha.detach()))])
        self._forget()
        return chosen

    def state_dict(self) -> Dict[str, Any]:
        return {
            "network": self.network.state_dict(),
            "map": self.map.detach().clone(),
            "alpha": self.alpha.detach().clone(),
            "optimizer": self._optimizer.state_dict(),
            "draw": self._draw.get_state(),
            "logits": list(self.logits),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        with torch.no_grad():
            self.map.copy_(state["map"])
            self.alpha.copy_(state["alpha"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._draw.set_state(state["draw"].cpu())
        self.logits = list(state["logits"])

    # More.

    @property
    def overhead(self) -> float:
        """Its seconds over those of training, so far."""
        return self._spent / self._trained if self._trained else 0.0

    def warm_up(self, rate: float = 1e-4, most: int = 10_000) -> int:
        """Brings the mixed logit to the first batch, before training or after a change from
        outside, and tells in how many steps."""
        rates = [g["lr"] for g in self._optimizer.param_groups]
        goal = torch.tensor(self.range.logit(self.first), dtype=self.alpha.dtype, device=self._device)
        for g in self._optimizer.param_groups:
            g["lr"] = rate
        steps = 0
        for steps in range(most + 1):
            s = self._look()
            if abs(self.range.real(float(s.detach())) - self.first) < CLOSE or steps == most:
                break
            self._follow(torch.nn.functional.smooth_l1_loss(s, goal))
        for g, lr in zip(self._optimizer.param_groups, rates):
            g["lr"] = lr
        self._optimizer.state.clear()
        self._forget()
        return steps

    def _look(self) -> torch.Tensor:
        """The mixed logit for some validation inputs."""
        x, _ = self._drawn(self._sample)
        logits = torch.sort(self.network(x).mean(0))[0]
        s, _ = mixture(logits, self.alpha)
        self.logits, self.mixed = [float(v) for v in logits.detach()], float(s.detach())
        return s

    def _follow(self, loss: torch.Tensor) -> None:
        """A step along the gradient of what is learnt here, and of nothing else."""
        params = [p for g in self._optimizer.param_groups for p in g["params"]]
        for p, grad in zip(params, torch.autograd.grad(loss, params, allow_unused=True)):
            p.grad = grad
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def _drawn(self, n: int) -> Tuple[torch.Tensor, torch.Tensor]:
        """n validation samples; where there are fewer, some come again."""
        ids = torch.randint(len(self._validation), (n,), generator=self._draw).tolist()
        pairs = [self._validation[i] for i in ids]
        return moved(torch.stack([p[0] for p in pairs]), self._device), moved(torch.stack([torch.as_tensor(p[1]) for p in pairs]), self._device)

    def _forget(self) -> None:
        with torch.no_grad():
            self.alpha.copy_(SMALL * torch.randn(self.alpha.shape, generator=self._draw, dtype=self.alpha.dtype))


@contextmanager
def _still(module: torch.nn.Module) -> Generator[None, None, None]:
    """The module evaluates: nothing of it changes."""
    was = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for m, training in was:
            m.training = training
