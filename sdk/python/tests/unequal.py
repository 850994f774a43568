"""A training on workers of unequal speed. Run by test_balance.py.

    python unequal.py FOLDER BALANCE

Worker 2 computes half as fast as the others, worker 3 fetches slowly: both sleep for so
long, since cores are shared. Writes FOLDER/BALANCE.RANK, a line for each step: its number
and samples; and worker 0 FOLDER/BALANCE.weights.
"""

import norn

job = norn.init()

import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import torch  # noqa: E402

import norn.torch as nt  # noqa: E402

folder, balance = sys.argv[1:]
N, BATCH, EPOCHS = 640, 64, 4
COMPUTE = [1e-3, 1e-3, 2e-3, 1e-3]  # seconds a sample, by rank
FETCH = [5e-4, 5e-4, 5e-4, 1e-3]  # worker 3 has half of its samples on another node, three times as far

if __name__ == "__main__":
    torch.manual_seed(1)
    data = torch.randn(N, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    target = torch.sin(data.sum(1, keepdim=True))
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
    run = nt.Run(model, torch.optim.SGD(model.parameters(), lr=0.1), os.path.join(folder, balance + ".pt"), save_every=1e9)

    def fetch(items):
        time.sleep(FETCH[run.rank] * len(items))
        return torch.utils.data.default_collate(items)

    with open(os.path.join(folder, f"{balance}.{run.rank}"), "w") as out:
        for _, step, (x, y) in run.batches(torch.utils.data.TensorDataset(data, target), BATCH, EPOCHS, collate=fetch, balance=balance):
            time.sleep(COMPUTE[run.rank] * len(x))
            run.step(torch.nn.functional.mse_loss(run.model(x), y))
            print(step, *run.indices, file=out)
    if run.rank == 0:
        with open(os.path.join(folder, balance + ".weights"), "w") as f:
            json.dump(sum([p.detach().flatten().tolist() for p in model.parameters()], []), f)
