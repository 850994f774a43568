#!/usr/bin/env python3
"""GraphSAGE on a generated power-law graph, on processors: which of its neighbours' classes a
vertex has most.

Each batch is sampled, two hops of 10 and 15 neighbours, and trained on. Features are stored in a
byte each, as large stores do, and decoded when they are fetched. The means over the second hop need
no parameters, so they are taken where it is fetched. --mode piped runs the
operators of several batches side by side (pipeline.py) on the cores that Norn gives the job,
also when these change while it runs. --mode coupled samples and trains in turn, one batch at a
time, as a plain loop does. Both train on the same batches in the same order.
"""

import argparse
import json
import math
import os
import sys
import time

sys.path += [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python")]

import norn  # noqa: E402
import torch  # noqa: E402
from pipeline import SAMPLING, TRAINING, Controller, Operator, Pipeline, balanced  # noqa: E402

CLASSES, WIDTH, HIDDEN, FAN = 8, 128, 32, (10, 15)


def graph(vertices, edges, seed):
    """Edges into each vertex (start, source), the features and the class of each vertex. The degree
    of sources follows a power law; four of five edges stay within a class."""
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(CLASSES, (vertices,), generator=g)
    order = torch.argsort(label, stable=True)
    first = torch.searchsorted(label[order].contiguous(), torch.arange(CLASSES + 1))
    to = torch.randint(vertices, (edges,), generator=g)
    rank = torch.rand(edges, generator=g) ** 2
    inside = torch.rand(edges, generator=g) < 0.8
    low = torch.where(inside, first[label[to]], torch.zeros_like(to))
    size = torch.where(inside, first[label[to] + 1] - low, torch.full_like(to, vertices))
    source = order[low + (rank * size).long().clamp(max=vertices - 1)]
    to, by = torch.sort(to, stable=True)
    start = torch.searchsorted(to, torch.arange(vertices + 1))
    feature = torch.randn(vertices, WIDTH, generator=g)
    feature[:, :CLASSES] += 0.7 * torch.nn.functional.one_hot(label, CLASSES)
    return start, source[by], (feature * 32 + 128).clamp(0, 255).to(torch.uint8), label


class Sage(torch.nn.Module):
    """Two layers, each of a vertex and the mean of its sampled neighbours."""

    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(2 * WIDTH, HIDDEN), torch.nn.Linear(2 * HIDDEN, CLASSES)

    def forward(self, x0, x1, x2):
        # x0: (batch, width), x1: (batch, fan, width), x2: the same, means over the next hop
        inner = torch.relu(self.one(torch.cat([x1, x2], -1)))
        outer = torch.relu(self.one(torch.cat([x0, x1.mean(1)], -1)))
        return self.two(torch.cat([outer, inner.mean(1)], -1))


class Work:
    """What is done for each batch: its operators, by name."""

    def __init__(self, args):
        self.args = args
        self.start, self.source, self.feature, self.label = graph(args.vertices, args.edges, args.seed)
        torch.manual_seed(args.seed)
        self.model = Sage()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)
        self.loss = math.nan

    def neighbours(self, of, fan, g):
        begin, count = self.start[of], self.start[of + 1] - self.start[of]
        at = begin.unsqueeze(-1) + (torch.rand(*of.shape, fan, generator=g) * count.unsqueeze(-1)).long()
        found = self.source[at.clamp(max=len(self.source) - 1)]
        return torch.where(count.unsqueeze(-1) > 0, found, of.unsqueeze(-1))  # without any: itself

    def fetch(self, of):
        return (self.feature[of].float() - 128) / 32

    def operators(self, number, s):
        def sample1(s):
            g = torch.Generator().manual_seed(self.args.seed * 1_000_003 + number)
            s["g"], s["seeds"] = g, torch.randint(self.args.vertices, (self.args.batch,), generator=g)
            s["hop1"] = self.neighbours(s["seeds"], FAN[0], g)

        def sample2(s):
            s["hop2"] = self.neighbours(s["hop1"], FAN[1], s["g"])

        def feature1(s):
            s["x1"] = self.fetch(s["hop1"])

        def feature2(s):
            s["x2"] = self.fetch(s["hop2"]).mean(2)

        def assemble(s):
            s["x0"], s["y"] = self.fetch(s["seeds"]), self.label[s["seeds"]]

        def train(s):
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(s["x0"], s["x1"], s["x2"]), s["y"])
            loss.backward()
            self.optimizer.step()
            self.loss = loss.item()

        wait = self.args.remote
        return [
            Operator("sample-1", SAMPLING, sample1, (), 5, wait),
            Operator("feature-1", SAMPLING, feature1, ("sample-1",), 3, wait),
            Operator("sample-2", SAMPLING, sample2, ("sample-1",), 4, wait),
            Operator("feature-2", SAMPLING, feature2, ("sample-2",), 3, wait),
            Operator("assemble", SAMPLING, assemble, ("feature-1", "feature-2"), 2),
            Operator("train", TRAINING, train, ("assemble",), 1),
        ]

    def accuracy(self, batches=20):
        right = 0
        with torch.no_grad():
            for b in range(batches):
                s = {}
                for op in self.operators(1_000_000 + b, s)[:-1]:
                    op.run(s)
                right += (self.model(s["x0"], s["x1"], s["x2"]).argmax(1) == s["y"]).sum().item()
        return right / batches / self.args.batch


def coupled(work, first, last, each):
    """One batch after the other; returns where it ended and the core-seconds of both phases."""
    spent = [0.0, 0.0]
    for number in range(first, last):
        s = {}
        for op in work.operators(number, s):
            time.sleep(op.wait)
            began = time.process_time()
            op.run(s)
            spent[op.phase] += time.process_time() - began
        if not each(number):
            return number + 1, spent
    return last, spent


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--mode", choices=["piped", "coupled"], default="piped")
    p.add_argument("--vertices", type=int, default=100_000)
    p.add_argument("--edges", type=int, default=1_000_000)
    p.add_argument("--batches", type=int, default=600)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--cores", type=float, default=0, help="cores, where Norn tells none (default: those of the machine)")
    p.add_argument("--remote", type=float, default=0, help="seconds until another server answers, for each of four operators of sampling (a sleep)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1, help="coupled: threads of each operator")
    p.add_argument("--checkpoint", default="", help="file to go on from")
    p.add_argument("--wait", default="", help="file without which the last batch does not begin (for tests)")
    p.add_argument("--result", default="", help="file for the figures, as JSON")
    return p.parse_args()


def main():
    args = arguments()
    run = norn.init()
    sys.setswitchinterval(0.0005)  # threads hand over soon, where one is between two operators of PyTorch
    torch.set_num_threads(args.threads if args.mode == "coupled" else 1)
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = lambda: min(here, run.cores() or args.cores or here) * 1000  # noqa: E731
    work = Work(args)
    path = args.checkpoint or f"gnn-{os.environ.get('NORN_JOB', 'local')}.pt"
    first = 0
    if os.path.exists(path):
        saved = torch.load(path)
        first = saved["batch"]
        work.model.load_state_dict(saved["model"])
        work.optimizer.load_state_dict(saved["optimizer"])

    told = set()

    def cores_now():
        now = cores()
        if args.wait and now not in told:  # somebody wants to know that it was heard
            told.add(now)
            open(f"heard-{now:.0f}", "w").close()
        return now

    def each(number):
        while args.wait and number == args.batches - 2 and not os.path.exists(args.wait) and not run.should_stop():
            time.sleep(0.05)
        run.report(step=number + 1, steps=args.batches, samples=(number + 1) * args.batch, loss=work.loss)
        return not run.should_stop()

    began, control, splits = time.monotonic(), Controller(cores()), []
    if args.mode == "coupled":
        ended, spent = coupled(work, first, args.batches, each)
        cost = [x / max(1, ended - first) for x in spent]
    else:
        p = Pipeline(work.operators, first, args.batches, cores_now, control, threads=here + 1)
        ended = p.run(each)
        cost, splits = control.cost, p.splits
    took = time.monotonic() - began
    if ended < args.batches:
        part = path + ".part"
        torch.save({"batch": ended, "model": work.model.state_dict(), "optimizer": work.optimizer.state_dict()}, part)
        os.replace(part, path)
        run.checkpoint_saved(ended, path)
        run.flush()
        run.leave()
    both = sum(cost)
    foretold = 1 / (both + 4 * args.remote) if args.mode == "coupled" else min(control.cores / 1000 / both, 1 / cost[TRAINING])
    late = splits[len(splits) // 2 :]
    figures = {
        "mode": args.mode, "batches": ended - first, "seconds": round(took, 3), "foretold": round(foretold, 3), "batches_per_second": round((ended - first) / took, 3),
        "core_seconds_sampling": round(cost[SAMPLING], 5), "core_seconds_training": round(cost[TRAINING], 5),
        "cores": control.cores, "split_mean": round(sum(s for s, _ in late) / max(1, len(late))), "split_balanced": balanced(control.cores, control.step, *cost),
        "least_cores": min((c for _, c in splits), default=control.cores), "most_cores": max((c for _, c in splits), default=control.cores),
        "loss": round(work.loss, 5), "accuracy": round(work.accuracy(), 4),
    }
    print(json.dumps(figures), flush=True)
    if args.result:
        with open(args.result, "w") as f:
            json.dump(figures, f)
    run.report(quality={"accuracy": figures["accuracy"]})
    run.finished()
    if os.path.exists(path):
        os.remove(path)


main()
