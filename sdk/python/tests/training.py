"""A training as users write them, that tells what it does. Run by test_torch.py.

    python training.py FOLDER OPTIONS    (JSON)

Writes FOLDER/log.RUN.RANK, a line for each pass: step, epoch, loss, samples; and
when all is done FOLDER/result, a JSON object.
"""

import norn

job = norn.init()

import json  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import torch  # noqa: E402

import norn.torch as nt  # noqa: E402
from norn.proposer import Goodput, Range, Table  # noqa: E402

folder, options = sys.argv[1], json.loads(sys.argv[2])
N, STEPS, BATCH = 103, options.get("steps", 60), 16

torch.manual_seed(options.get("model_seed", 1))
data = torch.randn(N, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
target = torch.sin(data.sum(1, keepdim=True))
layers = [torch.nn.Linear(6, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1)]
if options.get("dropout"):
    layers.insert(2, torch.nn.Dropout(0.5))
if options.get("norm"):
    layers.insert(1, torch.nn.BatchNorm1d(24))
model = torch.nn.Sequential(*layers).double()
if options.get("single"):
    model, data, target = model.float(), data.float(), target.float()
if options.get("freeze"):
    layers[0].requires_grad_(False)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1 / (1 + 0.02 * k))


def resized(old: int, new: int) -> None:
    scheduler.base_lrs = [lr * new / old for lr in scheduler.base_lrs]


if options.get("plain"):
    # The same without Norn: what everything else is compared with.
    from norn.samples import Order

    log = open(os.path.join(folder, "log.1.0"), "w")
    step = epoch = 0
    while step < STEPS:
        order = [Order(N, 0, epoch)[i] for i in range(N)]
        for at in range(0, N, BATCH):
            ids = torch.tensor(order[at : at + BATCH])
            errors = ((model(data[ids]) - target[ids]) ** 2).squeeze(1)
            if options.get("count"):
                errors = errors[ids % 3 > 0]
            loss = errors.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            print(step, epoch, float(loss), *ids.tolist(), file=log)
            step += 1
            if step == STEPS:
                break
        epoch += 1
    log.close()
    with torch.no_grad():
        final = torch.nn.functional.mse_loss(model(data), target)
    weights = sum([p.detach().flatten().tolist() for p in model.parameters()], [])
    with open(os.path.join(folder, "result"), "w") as f:
        json.dump({"loss": float(final), "weights": weights, "lr": optimizer.param_groups[0]["lr"]}, f)
    sys.exit(0)
if options.get("own_group"):
    torch.distributed.init_process_group("gloo")
proposer = None
if options.get("propose") == "table":
    proposer = Table({0: BATCH, 1: 32, 2: 8})
elif options.get("propose") == "goodput":
    proposer = Goodput(Range(8, 64))
elif options.get("propose") == "arbiter":
    held = torch.utils.data.TensorDataset(torch.sin(torch.arange(240.0, dtype=torch.float64)).reshape(40, 6), torch.zeros(40, 1, dtype=torch.float64))
    proposer = nt.Arbiter(
        model[:2], model[2], held, batches=Range(8, 64), first=BATCH, loss=torch.nn.functional.mse_loss,
        network=torch.nn.Linear(6, 4).double(), every=2, sample=16, rate=0.05, weight_rate=0.1,
    )
    proposer.warm_up(rate=0.01)
run = nt.Run(
    model,
    optimizer,
    path=os.path.join(folder, "ckpt.pt"),
    scheduler=scheduler,
    save_every=options.get("save_every", 1e9),
    save_frozen=not options.get("freeze"),
    noise=options.get("noise", False),
    logical_workers=options.get("logical"),
    proposer=proposer,
    on_batch=resized if options.get("resize") else None,
)
out = open(os.path.join(folder, f"log.{job.run}.{run.rank}"), "w")
told_to_stop = options.get("stop", {}).get(str(job.run))  # [rank, step, how]
dataset = torch.utils.data.TensorDataset(data, target, torch.arange(N))
if options.get("augment"):

    class Augmented(torch.utils.data.Dataset):
        """Samples with random numbers added, as users draw them."""

        def __getitem__(self, i):
            x, y, n = dataset_as_it_is[i]
            return x + 0.1 * torch.randn_like(x) + 0.1 * random.random(), y, n

        def __len__(self):
            return N

    dataset_as_it_is, dataset = dataset, Augmented()
for epoch, step, (x, y, ids) in run.batches(
    dataset, global_batch=BATCH, steps=STEPS, local_batch=options.get("local_batch"), workers=options.get("workers", 0), balance=options.get("balance", "equal"),
    drop_last=options.get("drop_last", False),
):
    if told_to_stop and told_to_stop[1] == step and told_to_stop[0] in (run.rank, "all"):
        if told_to_stop[2] == "body":
            os.kill(os.getpid(), signal.SIGTERM)
        elif told_to_stop[2] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        else:  # from now on at any moment
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGTERM)).start()
    if str(run.rank) in options.get("slow", {}):
        time.sleep(options["slow"][str(run.rank)])
    out_of = run.model(x)
    loss = torch.nn.functional.mse_loss(out_of, y)
    if options.get("count"):  # the mean over some of the samples
        mask = (ids % 3 > 0).double()
        loss = ((out_of - y) ** 2).squeeze(1).mul(mask).sum() / mask.sum().clamp(min=1)
        run.step(loss, count=float(mask.sum()))
    else:
        run.step(loss)
    assert ids.tolist()[: len(run.indices)] == run.indices
    print(step, epoch, run.loss, *run.indices, file=out, flush=True)

if run.rank == 0:
    with torch.no_grad():
        final = torch.nn.functional.mse_loss(model.eval()(data), target)
    with open(os.path.join(folder, "result"), "w") as f:
        weights = [p.detach().flatten().tolist() for p in [*model.parameters(), *model.buffers()]]
        json.dump({"loss": float(final), "weights": sum(weights, []), "lr": optimizer.param_groups[0]["lr"]}, f)
