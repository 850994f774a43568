"""Batch sizes that a job proposes by itself."""

from __future__ import annotations

import importlib.util
import math
import os
import unittest
from typing import Any, List

from norn.proposer import Goodput, Range, Table, Trained

HAS_TORCH = importlib.util.find_spec("torch") is not None
if not HAS_TORCH and os.environ.get("CI"):
    raise RuntimeError("PyTorch is missing: continuous integration needs python3-torch")


class RangeTest(unittest.TestCase):
    def test_map(self) -> None:
        """Acceptance 1 of the specification of Arbiter."""
        r = Range(8, 512)
        for logit, batch in ((0, 260), (1, 376), (2, 451), (-2, 68), (-10, 8), (10, 511), (1000, 512), (-1000, 8)):
            self.assertEqual(r.batch(logit), batch, logit)
        self.assertAlmostEqual(r.logit(128), -1.163151, delta=1e-6)
        self.assertAlmostEqual(r.real(r.logit(128)), 128, delta=1e-9)
        self.assertEqual(r.batch(r.logit(128)), 128)
        self.assertAlmostEqual((r.real(1e-6) - r.real(-1e-6)) / 2e-6, 126, delta=1e-3)
        for batch in (8, 512):  # the ends are not left for ever
            self.assertTrue(math.isfinite(r.logit(batch)))

    def test_wrong(self) -> None:
        for least, most in ((0, 8), (8, 8), (9, 8)):
            with self.assertRaises(ValueError):
                Range(least, most)
        for table in ({}, {0: 0}, {-1: 8}):
            with self.assertRaises(ValueError):
                Table(table)


def saw(p: Any, batch: int, seconds: float, noise: float, times: int = 5) -> None:
    for k in range(times):
        p.stepped(Trained(k, 0, batch, seconds, None, noise))


class GoodputTest(unittest.TestCase):
    def test_the_best_batch(self) -> None:
        """The best of goodput, by trying all batches."""
        a, b = 0.1, 0.002
        for noise in (20.0, 200.0, 2000.0):
            p = Goodput(Range(8, 512))
            saw(p, 64, a + 64 * b, noise)
            saw(p, 128, a + 128 * b, noise)
            best = max(range(1, 4096), key=lambda x: x / (a + b * x) / (noise + x))
            self.assertAlmostEqual(p.best() or 0.0, best, delta=1)
            self.assertEqual(p.propose(), max(64, min(256, best)), "at most twice the present batch, at least half of it")

    def test_bootstrap(self) -> None:
        p = Goodput(Range(8, 100))
        saw(p, 64, 1.0, 500.0)
        self.assertEqual(p.propose(), 100, "twice, but in the range: the noise is large")
        p = Goodput(Range(8, 512))
        saw(p, 64, 1.0, 10.0)
        self.assertEqual(p.propose(), 64, "twice would be a waste")
        q = Goodput(Range(8, 512))
        q.load_state_dict(p.state_dict())
        saw(q, 128, 1.5, 10.0)
        self.assertEqual(q.propose(), 64)

    def test_no_fixed_cost(self) -> None:
        p = Goodput(Range(8, 512))
        saw(p, 64, 0.64, 1000.0)
        saw(p, 128, 1.28, 1000.0)
        self.assertEqual(p.propose(), 64, "small batches cost nothing more")


@unittest.skipUnless(HAS_TORCH, "PyTorch is missing (Debian: python3-torch)")
class ArbiterTest(unittest.TestCase):
    def arbiter(self, **more: Any) -> Any:
        import torch

        import norn.torch as nt

        class Free(torch.nn.Module):
            """Logits that do not look at inputs (specification, F)."""

            def __init__(self) -> None:
                super().__init__()
                self.logits = torch.nn.Parameter(torch.tensor([1.0, -1.0, 2.0, 0.0]))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.logits.expand(len(x), 4)

        torch.manual_seed(5)
        self.features, self.classifier = torch.nn.Linear(3, 6), torch.nn.Linear(6, 2)
        held = torch.utils.data.TensorDataset(torch.randn(50, 3), torch.arange(50) % 2)
        return nt.Arbiter(self.features, self.classifier, held, network=more.pop("network", Free()), sample=8, **more)

    def test_mixture(self) -> None:
        """Acceptance 2: weights, mixed logit, and the candidate that is chosen; 3: its gradients, and
        descent to the goal."""
        import torch

        from norn.torch.arbiter import mixture

        logits = torch.tensor([-1.0, 0.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
        alpha = torch.tensor([0.0, 0.0, 0.0, math.log(3)], dtype=torch.float64, requires_grad=True)
        s, w = mixture(logits, alpha)
        for got, want in zip(w.tolist(), (1 / 6, 1 / 6, 1 / 6, 1 / 2)):
            self.assertAlmostEqual(got, want)
        self.assertAlmostEqual(float(s), 1.0)
        self.assertEqual(Range(8, 512).batch(float(s)), 376)
        self.assertEqual(Range(8, 512).batch(logits[int(torch.argmax(alpha))]), 451)
        (grad,) = torch.autograd.grad((s - 3) ** 2, alpha)
        for g, x, weight in zip(grad.tolist(), logits.tolist(), w.tolist()):
            self.assertAlmostEqual(g, weight * (x - 1.0) * 2 * (1.0 - 3))
        logits = torch.full((4,), -1.163, dtype=torch.float64, requires_grad=True)
        descent = torch.optim.SGD([logits, alpha], lr=0.1)
        for _ in range(500):
            descent.zero_grad()
            s, _ = mixture(logits, alpha)
            ((s - 1) ** 2).backward()
            descent.step()
        self.assertAlmostEqual(float(s), 1.0, delta=1e-6)
        self.assertIn(Range(8, 512).batch(float(s)), (376,))

    def test_warm_up(self) -> None:
        """Acceptance 4."""
        a = self.arbiter()
        steps = a.warm_up(rate=0.01)
        self.assertLess(steps, 10_000)
        self.assertLess(abs(a.range.real(a.mixed) - 128), 2)
        self.assertLess(float(a.alpha.detach().abs().max()), 1e-4)
        self.assertEqual([g["lr"] for g in a._optimizer.param_groups], [1e-5, 1e-4])

    def test_steps(self) -> None:
        """Acceptance 5: batches in the range, candidates in order, the trained model untouched; a
        step follows the gradient; training's random numbers stay."""
        import torch

        a = self.arbiter(rate=0.05, weight_rate=0.1)
        kept = [p.detach().clone() for m in (self.features, self.classifier) for p in m.parameters()]
        rng = torch.get_rng_state()
        before = a.network.logits.detach().clone()
        for k in range(20):
            a.stepped(Trained(k, 0, 128, 1.0))
            self.assertEqual(a.logits, sorted(a.logits))
            self.assertTrue(8 <= a.range.batch(a.mixed) <= 512)
        self.assertTrue(torch.equal(rng, torch.get_rng_state()))
        self.assertTrue(self.features.training and self.classifier.training)
        for p, was in zip([p for m in (self.features, self.classifier) for p in m.parameters()], kept):
            self.assertTrue(torch.equal(p.detach(), was) and p.grad is None)
        self.assertFalse(torch.equal(before, a.network.logits.detach()))
        self.assertGreater(float(a.alpha.detach().abs().max()), 0.01, "weights learn")
        self.assertGreater(a.overhead, 0)
        at = int(torch.argmax(a.alpha.detach()))
        self.assertEqual(a.propose(), a.range.batch(a.logits[at]))
        self.assertLess(float(a.alpha.detach().abs().max()), 1e-4, "weights begin anew")

    def test_goes_on(self) -> None:
        """What a checkpoint keeps is all: the same proposals follow."""
        a, b = self.arbiter(rate=0.05, weight_rate=0.1), self.arbiter(rate=0.05, weight_rate=0.1, seed=9)
        ends: List[Any] = []
        for k in range(5):
            a.stepped(Trained(k, 0, 128, 1.0))
        b.load_state_dict(a.state_dict())
        for one in (a, b):
            for k in range(5):
                one.stepped(Trained(k, 0, 128, 1.0))
            ends.append((one.logits, one.alpha.tolist(), one.propose()))
        self.assertEqual(ends[0], ends[1])

    def test_images(self) -> None:
        import torch

        import norn.torch as nt

        held = torch.utils.data.TensorDataset(torch.randn(12, 3, 9, 9), torch.arange(12) % 2)
        features = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(243, 4))
        a = nt.Arbiter(features, torch.nn.Linear(4, 2), held, sample=4)
        a.stepped(Trained(0, 0, 128, 1.0))
        self.assertEqual(len(a.logits), 4)
        self.assertTrue(8 <= a.propose() <= 512)

    def test_wrong(self) -> None:
        import torch

        import norn.torch as nt

        flat = torch.utils.data.TensorDataset(torch.randn(4, 3), torch.zeros(4))
        with self.assertRaisesRegex(ValueError, "no images"):
            nt.Arbiter(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2), flat)
        with self.assertRaisesRegex(ValueError, "a first batch of 1024"):
            self.arbiter(first=1024)
        with self.assertRaisesRegex(ValueError, "validation samples"):
            self.arbiter(every=0)
