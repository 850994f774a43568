"""The training side of Norn: tell progress, hear orders, leave and come back.

    import norn

    job = norn.init()
    for step in range(start, steps):
        with job.step(samples=64) as s:
            s.loss = train(step)
        if job.should_stop():
            save("ckpt", step + 1)
            job.checkpoint_saved(step + 1, "ckpt")
            job.leave()  # exits with 75: continue me later
    job.finished()

Without Norn the same program runs just so: nothing is told to anybody, and
SIGTERM is the only order. norn.torch has all this ready for PyTorch loops.
"""

from . import resident
from .files import replace
from .job import Job, Step, Stop, init
from .protocol import CONTINUE_LATER, Allocation, Checkpoint, Order, Report

__all__ = ["CONTINUE_LATER", "Allocation", "Checkpoint", "Job", "Order", "Report", "Step", "Stop", "init", "replace", "resident"]
__version__ = "0.1.0"
