"""PyTorch loops that can be stopped, continued and resized, in a few lines:

    import norn.torch as nt

    run = nt.Run(model, optimizer, path="ckpt.pt")
    for epoch, step, (x, y) in run.batches(dataset, global_batch=256, epochs=3):
        loss = torch.nn.functional.cross_entropy(run.model(x), y)
        run.step(loss)

Started on one worker or on several, with or without Norn, stopped and started
again at any step: each step trains the same samples, and none is left out or
taken twice. See Run.
"""

from .arbiter import Arbiter
from .measure import Fisher
from .run import Run
from .state import Unusable, previous

__all__ = ["Arbiter", "Fisher", "Run", "Unusable", "previous"]
