"""A training whose speed depends on its size as a curve says. Run by sdk/elastic_test.go.

    python elastic.py FOLDER STEPS SECONDS SPEEDUP...

Gradients are real. A step is padded to SECONDS on one worker, and to so much less on more
of them as their speedup says, one number for each size: workers share the cores of one
machine, and would not become faster by being more. Writes FOLDER/samples.RUN.RANK, a line
for each step: its number and the samples of this worker.
"""

import norn

job = norn.init()

import os  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import torch  # noqa: E402

import norn.torch as nt  # noqa: E402

folder, steps, seconds, *speedups = sys.argv[1:]
BATCH = 48

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(1)
    data = torch.randn(5000, 16, generator=torch.Generator().manual_seed(2))
    dataset = torch.utils.data.TensorDataset(data, torch.sin(data.sum(1, keepdim=True)))
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    run = nt.Run(model, torch.optim.SGD(model.parameters(), lr=0.05), os.path.join(folder, "ckpt.pt"), save_every=5, noise=True)
    pace = float(seconds) / float(speedups[run.world_size - 1]) * run.world_size / BATCH  # of a sample of one worker
    with open(os.path.join(folder, f"samples.{job.run}.{run.rank}"), "a") as out:
        began = time.perf_counter()
        for _, step, (x, y) in run.batches(dataset, BATCH, steps=int(steps)):
            loss = torch.nn.functional.mse_loss(run.model(x), y)
            time.sleep(max(0.0, began + pace * len(x) - time.perf_counter()))
            began = time.perf_counter()
            run.step(loss)
            print(step, *run.indices, file=out, flush=True)
