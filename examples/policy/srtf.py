#!/usr/bin/env python3
"""Shortest remaining time first: norn sim --policy 'srtf,exec(examples/policy/srtf.py)'."""
import math

import norn.policy


def decide(view, plan):
    room = view.total - sum(view.usable(j) for j in view.running if j.astray)
    starts, stops = [], []
    for job in sorted(view.active, key=lambda j: (not j.stays, ends(j, view.now), j.id)):
        if job.never or job.astray:
            continue
        size = job.held if job.running else job.gpus
        if size <= room:
            room -= size
            starts += [] if job.running else [job]
        else:
            stops += [job] if job.running else []
    for job in sorted(stops, key=lambda j: j.id):
        plan.stop(job, room_for=starts[0] if starts else None)
    for job in starts:
        plan.start(job)


def ends(job, now):
    if job.remaining is None:
        return math.inf
    return now + job.remaining + job.start_takes if job.end is None else job.end


norn.policy.run(decide)
