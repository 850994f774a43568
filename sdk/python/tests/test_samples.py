"""Which samples a step trains."""

from __future__ import annotations

import random
import unittest

from norn.samples import Order, Position, Work, batches, passes, remaining_steps, share, turns


class Orders(unittest.TestCase):
    def test_is_a_permutation(self) -> None:
        for n in [*range(1, 70), 255, 256, 257, 1000, 4097]:
            self.assertEqual(sorted(Order(n, 7, 3)[i] for i in range(n)), list(range(n)), n)

    def test_depends_on_seed_and_epoch_alone(self) -> None:
        def order(seed: int, epoch: int) -> list[int]:
            return [Order(500, seed, epoch)[i] for i in range(500)]

        self.assertEqual(order(1, 2), order(1, 2))
        self.assertEqual(len({tuple(order(s, e)) for s in range(5) for e in range(5)}), 25)
        # Written down: a job that is continued by a later version goes on with the same order.
        self.assertEqual([Order(10, 0, 0)[i] for i in range(10)], WRITTEN)

    def test_shuffles(self) -> None:
        n, epochs = 64, 400
        seen = [[0] * n for _ in range(4)]
        for e in range(epochs):
            o = Order(n, 0, e)
            for i, at in enumerate((0, 1, n // 2, n - 1)):
                seen[i][o[at]] += 1
        for counts in seen:
            # Chi-squared with 63 degrees of freedom is below 120 with probability 1 - 2e-5.
            self.assertLess(sum((c - epochs / n) ** 2 / (epochs / n) for c in counts), 120)

    def test_huge(self) -> None:
        o = Order(10**12, 0, 0)
        self.assertEqual(len({o[i] for i in range(1000)}), 1000)
        with self.assertRaises(IndexError):
            o[10**12]
        with self.assertRaises(ValueError):
            Order(0, 0, 0)


WRITTEN = [0, 9, 2, 6, 7, 4, 5, 8, 1, 3]


class Shares(unittest.TestCase):
    def test_shares_cover_all_once(self) -> None:
        for n in range(40):
            for world in range(1, 12):
                got = [i for r in range(world) for i in share(n, r, world)]
                self.assertEqual(got, list(range(n)))
                sizes = [len(share(n, r, world)) for r in range(world)]
                self.assertLessEqual(max(sizes) - min(sizes), 1)

    def test_turns_are_those_of_all_workers(self) -> None:
        """EasyScale, invariant 6 of our specification: each worker once in a step, however they are divided."""
        order = Order(50, 1, 2)
        for workers in range(1, 7):
            want = [p for w in range(workers) for p in passes(order, range(3, 14), w, workers, 2)]
            for cut in range(1, workers):
                got = [turns(order, range(3, 14), mine, workers, 2) for mine in (range(cut), range(cut, workers))]
                self.assertEqual([(p.worker, p.number, p.indices) for mine in got for p in mine], [(p.worker, p.number, p.indices) for p in want])
                self.assertEqual([p.last for mine in got for p in mine].count(True), 2)
                self.assertTrue(all(mine[-1].last for mine in got))

    def test_a_step_is_the_same_for_any_number_of_workers(self) -> None:
        rng = random.Random(1)
        for _ in range(300):
            n, batch = rng.randrange(1, 60), rng.randrange(1, 20)
            order, at, offset = Order(n, 0, rng.randrange(9)), rng.randrange(n), 0
            drop = rng.random() < 0.3
            for where in batches(n, offset, batch, drop):
                want = sorted(order[i] for i in where)
                world, most, least = rng.randrange(1, 9), rng.choice([None, 1, 2, 5]), rng.randrange(1, 4)
                every = [passes(order, where, r, world, most, least) for r in range(world)]
                got = sorted(i for mine in every for p in mine for i in p.indices[: p.counted])
                self.assertEqual(got, want)
                for mine in every:
                    self.assertEqual([p.last for p in mine], [False] * (len(mine) - 1) + [True])
                    self.assertEqual([p.number for p in mine], list(range(len(mine))))
                    for p in mine:
                        self.assertEqual(p.batch, len(where))
                        self.assertGreater(len(p.indices), 0)
                        self.assertLessEqual(len(p.indices), most or n)
            self.assertEqual(len(list(batches(n, at, batch, drop))), remaining_steps(n, at, batch, drop))

    def test_work(self) -> None:
        w = Work(100, 3, None, False)
        self.assertEqual(w.total(Position(), 30), 12)
        self.assertEqual(w.total(Position(1, 30, 5, 130), 30), 5 + 3 + 4)
        self.assertEqual(w.total(Position(3, 0, 12, 300), 30), 12)
        self.assertEqual(Work(100, 3, 7, False).total(Position(), 30), 7)
        self.assertEqual(Work(100, None, 9, True).total(Position(), 30), 9)
        self.assertTrue(w.over(Position(3, 0, 12, 300)))
        self.assertFalse(w.over(Position(2, 90, 11, 290)))
        self.assertTrue(Work(100, 3, 7, False).over(Position(1, 90, 7, 190)))


if __name__ == "__main__":
    unittest.main()
