"""What is measured of steps: where their time goes, and how noisy gradients are."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterable, List, Optional, Sequence, cast

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from ..protocol import LONGEST_EMBEDDING
from .group import Group


class Waiting:
    """Measures how long a step waits for the gradients of others: from the moment
    that the last of its own are ready to the end of backward. What is exchanged
    before runs beside the computation, and costs nothing."""

    def __init__(self, ddp: Any, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._ready: Any = None
        self._end: Any = None
        # A lambda: PyTorch is particular about how a hook is annotated.
        ddp.register_comm_hook(None, lambda _, bucket: self._exchange(bucket))

    def _exchange(self, bucket: Any) -> Any:
        self._ready = self._now()
        return allreduce_hook(cast(Any, None), bucket)  # None: all workers

    def _now(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream())
        return event

    def end(self) -> None:
        """Backward has ended."""
        self._end = self._now()

    def seconds(self) -> float:
        """Of the last step. Waits for the GPU."""
        if self._ready is None or self._end is None:
            return 0.0
        if not self._cuda:
            return max(0.0, self._end - self._ready)
        self._end.synchronize()
        return max(0.0, self._ready.elapsed_time(self._end) / 1000)


class Noise:
    """Estimates the squared norm of the true gradient, and the variance of the
    gradient of one sample (trace of its covariance), from how much the gradients of
    parts of a batch differ from that of the whole.

    Each pass p of each worker gives a gradient g_p over n_p samples, with
    E|g_p|² = |G|² + S/n_p; that of the whole batch of B samples has
    E|g|² = |G|² + S/B. Hence, with means over passes,

        S    = (mean |g_p|² - |g|²) / (mean 1/n_p - 1/B)
        |G|² = |g|² - S/B

    as in McCandlish et al. (2018), appendix A.1, for parts of any sizes; AdaptDL
    and Pollux use the same for equal parts. Both are smoothed over steps. The
    gradient noise scale, in samples, is S / |G|².
    """

    DECAY = 0.98  # of a step's weight, per step

    def __init__(self, params: Sequence[torch.nn.Parameter]) -> None:
        self._params = [p for p in params if p.requires_grad]
        self._pass: Optional[torch.Tensor] = None
        self._sqr: List[torch.Tensor] = []
        self._inverse: List[float] = []
        self._mean = {"sqr": 0.0, "var": 0.0, "weight": 0.0}
        for p in self._params:
            p.register_hook(self._add)

    def _add(self, grad: torch.Tensor) -> None:
        """The gradient of this pass alone, before it is added to others."""
        sqr = grad.detach().double().pow(2).sum()
        self._pass = sqr if self._pass is None else self._pass + sqr.to(self._pass.device)

    def passed(self, samples: int, weight: float) -> None:
        """A pass has ended whose gradient was multiplied by weight."""
        if samples > 0 and weight > 0 and self._pass is not None:
            self._sqr.append(self._pass / weight**2)
            self._inverse.append(1.0 / samples)
        self._pass = None

    def stepped(self, group: Group, batch: int) -> None:
        """All passes have ended, and gradients are those of the whole batch."""
        mine = [float(sum(float(s) for s in self._sqr)), sum(self._inverse), float(len(self._sqr))]
        self._sqr, self._inverse = [], []
        sqr, inverse, parts = group.agree(mine).wait()
        total = float(sum(float(p.grad.detach().double().pow(2).sum()) for p in self._params if p.grad is not None))
        if parts < 2:
            return
        spread = inverse / parts - 1.0 / batch
        if spread <= 0:
            return
        var = (sqr / parts - total) / spread
        for name, v in (("sqr", total - var / batch), ("var", var), ("weight", 1.0)):
            self._mean[name] = self.DECAY * self._mean[name] + (1 - self.DECAY) * v

    def estimates(self) -> Dict[str, float]:
        """grad_sqr and grad_var of a Report; nothing while nothing is known."""
        w = self._mean["weight"]
        if w == 0:
            return {}
        return {"grad_sqr": max(0.0, self._mean["sqr"] / w), "grad_var": max(0.0, self._mean["var"] / w)}

    def state_dict(self) -> Dict[str, float]:
        return dict(self._mean)

    def load_state_dict(self, state: Dict[str, float]) -> None:
        self._mean = {k: float(state[k]) for k in self._mean}


class Fisher:
    """Embeds a task by how much each unit of a model matters for it: by the diagonal of
    the Fisher information of its weights, averaged over the weights of each unit.

    Each of the layers takes one tensor x and gives one tensor; its last dimension is
    that of the units. A weight w_ij has the gradient d_i x_j for a sample, where d is
    that of the layer's output, so that unit i has the mean over samples of
    d_i^2 mean_j x_j^2, which no pass by itself is needed for. What is averaged are
    the steps during which on is true. The loss is a mean over samples, the first
    dimension of the output.

    Source: Achille et al., "Task2Vec", ICCV 2019, section 2, with the gradients of the
    data's own answers.
    """

    def __init__(self, layers: Iterable[torch.nn.Module]) -> None:
        self.on = False
        self._sum: List[torch.Tensor] = []
        self._count: List[int] = []
        for i, layer in enumerate(layers):
            self._sum.append(torch.zeros(()))
            self._count.append(0)
            layer.register_forward_hook(self._hook(i))

    def _hook(self, i: int) -> Any:
        def forward(_: Any, args: Any, out: torch.Tensor) -> None:
            if not self.on or not out.requires_grad:
                return
            x = args[0].detach().pow(2).mean(-1, keepdim=True)

            def backward(grad: torch.Tensor) -> None:
                n = len(grad)
                of = (grad.detach() * n).pow(2) * x
                self._sum[i] = self._sum[i] + of.reshape(-1, of.shape[-1]).sum(0).cpu()
                self._count[i] += n

            out.register_hook(backward)

        return forward

    def embedding(self, longest: int = LONGEST_EMBEDDING) -> Optional[List[float]]:
        """A number for each unit, those of the first layer first; neighbours are averaged
        where there are more than longest. None while nothing was seen."""
        if 0 in self._count or not self._count:
            return None
        units = torch.cat([s / n for s, n in zip(self._sum, self._count)])
        if len(units) > longest:
            units = torch.nn.functional.adaptive_avg_pool1d(units[None], longest)[0]
        return [float(u) for u in units]
