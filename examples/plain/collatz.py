#!/usr/bin/env python3
"""Finds the number below a limit whose Collatz sequence is the longest.

There is no Norn in it: a program that saves its state when it is told to end
(SIGTERM), leaves with exit status 75, and goes on from there when it is started
again, can be stopped and continued as Norn sees fit.
"""

import json
import os
import signal
import sys

limit = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
path = f"state-{os.environ.get('NORN_JOB', 'local')}.json"

told_to_end = False


def end(*_):
    global told_to_end
    told_to_end = True


signal.signal(signal.SIGTERM, end)


def save(state):
    """Replaces the file as a whole: a crash leaves the old one."""
    with open(path + ".part", "w") as f:
        json.dump(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".part", path)


state = {"next": 1, "best": 1, "length": 1}
if os.path.exists(path):
    with open(path) as f:
        state = json.load(f)
print(f"from {state['next']} on", flush=True)

while state["next"] < limit:
    if told_to_end:
        save(state)
        sys.exit(75)  # continue me later
    n, length = state["next"], 1
    while n != 1:
        n = 3 * n + 1 if n & 1 else n >> 1
        length += 1
    if length > state["length"]:
        state["best"], state["length"] = state["next"], length
    state["next"] += 1

save(state)
print(f"below {limit}: {state['best']}, in {state['length']} steps")
