#!/usr/bin/env python3
"""One point of a sweep: fits a line by gradient descent, with the learning rate that
belongs to NORN_ARRAY_INDEX. Needs nothing but Python."""

import os
import random

index = int(os.environ.get("NORN_ARRAY_INDEX", "1"))
rate = 0.0001 * 2**index

rng = random.Random(7)
points = [(x, 3 * x - 1 + rng.gauss(0, 0.1)) for x in (rng.uniform(-1, 1) for _ in range(2000))]
slope = height = 0.0
for _ in range(4000):
    errors = [(slope * x + height - y, x) for x, y in points]
    slope -= rate * sum(e * x for e, x in errors) / len(points)
    height -= rate * sum(e for e, _ in errors) / len(points)
loss = sum((slope * x + height - y) ** 2 for x, y in points) / len(points)
print(f"rate {rate:g}: y = {slope:.3f} x {height:+.3f}, mean squared error {loss:.5f}")
