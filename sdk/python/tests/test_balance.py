"""Splits of batches over unequal workers (LOFT)."""

from __future__ import annotations

import json
import os
import random
import unittest
from typing import Dict, List

from norn.balance import GAIN, Balance, Cost, Meter, equal, locality, longest, split
from norn.samples import Order, passes

from .test_torch import HERE, Tasks, needs_torch

WORKERS = 4


class Splits(unittest.TestCase):
    def costs(self, *local: float) -> List[Cost]:
        return [Cost(c, local=0.001, remote=0.003, locality=part) for c, part in zip((0.002, 0.004), local)]

    def test_example(self) -> None:
        """Acceptance 1 of the sheet of LOFT."""
        costs = self.costs(1, 0.5)
        self.assertAlmostEqual(longest(costs, equal(90, 2)), 0.270)
        self.assertEqual(split(costs, 90), [60, 30])
        self.assertAlmostEqual(longest(costs, [60, 30]), 0.180)
        costs = self.costs(0.5, 0.5)
        self.assertEqual(split(costs, 90), [54, 36])
        self.assertAlmostEqual(longest(costs, [54, 36]), 0.216)
        computing = split([Cost(0.002), Cost(0.004)], 90)
        self.assertEqual(computing, [60, 30])
        self.assertAlmostEqual(longest(costs, computing), 0.240)

    def test_bounds(self) -> None:
        """Acceptance 2."""
        costs = self.costs(1, 0.5)
        self.assertEqual(split(costs, 90, most=[50, 90]), [50, 40])
        self.assertAlmostEqual(longest(costs, [50, 40]), 0.240)
        self.assertEqual(split(costs, 91), [61, 30])
        for wrong in ((90, 1, [40, 40]), (1, 1, None), (90, 50, None)):
            with self.assertRaises(ValueError):
                split(costs, *wrong)

    def test_best(self) -> None:
        """Of small batches the split is the best of all, and none is left out."""
        rng = random.Random(7)
        for _ in range(60):
            costs = [Cost(rng.uniform(0.001, 0.01), rng.uniform(0, 0.01), overhead=rng.choice([0.0, 0.02])) for _ in range(3)]
            batch = rng.randint(3, 14)
            shares = split(costs, batch)
            self.assertEqual(sum(shares), batch)
            all_ = [[a, b, batch - a - b] for a in range(1, batch) for b in range(1, batch - a)]
            best = min(longest(costs, s) for s in all_)
            self.assertLessEqual(longest(costs, shares), best + 1e-12)

    def test_spread(self) -> None:
        """Acceptance 5: no two workers are further apart than a sample takes."""
        rng = random.Random(8)
        for _ in range(60):
            costs = [Cost(rng.uniform(0.001, 0.01), rng.uniform(0, 0.01)) for _ in range(5)]
            shares = split(costs, 400)
            times = [c.step(n) for c, n in zip(costs, shares)]
            self.assertEqual(sum(shares), 400)
            self.assertLessEqual(max(times) - min(times), max(c.sample for c in costs) + 1e-9)

    def test_locality(self) -> None:
        self.assertEqual(locality(100, 10, 10), 1.0)
        self.assertEqual(locality(50, 10, 10), 0.5)

    def test_overlap(self) -> None:
        self.assertEqual(Cost(0.002, local=0.005, overlap=True).sample, 0.005)

    def test_meter(self) -> None:
        m = Meter()
        self.assertEqual(m.numbers, (0.0, 0.0, 0.0))
        m.add(10, 0.02, 0.05)
        fetch, compute, over = m.numbers
        self.assertAlmostEqual(fetch, 0.002)
        self.assertAlmostEqual(compute, 0.005)
        self.assertEqual(over, 0.0)
        for n in (10, 20, 10, 20, 10, 20):
            m.add(n, 0.002 * n, 0.03 + 0.004 * n)
        fetch, compute, over = m.numbers
        self.assertAlmostEqual(fetch, 0.002)
        self.assertLess(abs(compute - 0.004), 0.001)
        self.assertGreater(over, 0.01)

    def test_gain(self) -> None:
        """Acceptance 5: a split stays where another one gains too little."""
        b = Balance("time", 2)
        self.assertFalse(b.look(100, [(0.0, 0.0100, 0.0), (0.0, 0.0103, 0.0)]))
        self.assertEqual(b.split(100), [50, 50])
        self.assertTrue(b.look(100, [(0.0, 0.01, 0.0), (0.01, 0.01, 0.0)]))
        self.assertEqual(b.split(100), [67, 33])
        self.assertEqual(b.split(10), [6, 4])
        self.assertEqual(sum(b.split(1)), 1)
        self.assertGreater(GAIN, 0)
        self.assertFalse(Balance("compute", 2).look(100, [(0.0, 0.01, 0.0), (0.01, 0.01, 0.0)]))

    def test_passes(self) -> None:
        """Whatever the split, the workers together train the samples of the step."""
        order = Order(100, 1, 0)
        for shares in ([5, 5, 5, 5], [12, 1, 0, 7]):
            got = [i for r in range(4) for p in passes(order, range(20, 40), r, 4, most=4, split=shares) for i in p.indices[: p.counted]]
            self.assertEqual(got, [order[i] for i in range(20, 40)])


@needs_torch
class Unequal(Tasks):
    def test_run(self) -> None:
        """Acceptance 3 and 6: four workers, of which one computes and one fetches slowly.
        Each split trains the same samples to the same weights. In the last epoch, by the
        seconds that the program gives to each sample, batches that are split by fetching and
        computing take less time than those split by computing alone, and than equal ones."""
        took: Dict[str, float] = {}
        trained: Dict[str, Dict[int, List[int]]] = {}
        weights: Dict[str, List[float]] = {}
        cost = [a + b for a, b in zip([1e-3, 1e-3, 2e-3, 1e-3], [5e-4, 5e-4, 5e-4, 1e-3])]
        for by in ("equal", "compute", "time"):
            self.launch([os.path.join(HERE, "unequal.py"), self.folder, by], WORKERS, 1, [0] * WORKERS)
            steps: Dict[int, List[List[int]]] = {}
            for rank in range(WORKERS):
                with open(os.path.join(self.folder, f"{by}.{rank}")) as f:
                    for line in f:
                        step, *ids = (int(w) for w in line.split())
                        steps.setdefault(step, []).append(ids)
            self.assertEqual(sorted(steps), list(range(40)))
            trained[by] = {k: sorted(sum(shares, [])) for k, shares in steps.items()}
            took[by] = sum(max(c * len(ids) for c, ids in zip(cost, steps[k])) for k in range(30, 40))
            with open(os.path.join(self.folder, by + ".weights")) as f:
                weights[by] = json.load(f)
        for by in ("compute", "time"):
            self.assertEqual(trained[by], trained["equal"])
            for a, b in zip(weights[by], weights["equal"]):
                self.assertAlmostEqual(a, b, delta=1e-9)
        self.assertLess(took["time"], 0.97 * took["compute"], took)
        self.assertLess(took["time"], 0.97 * took["equal"], took)
