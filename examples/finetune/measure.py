#!/usr/bin/env python3
"""Measures what Ymir lives on with real training, and what it makes of that. One command:

    python3 measure.py                       # everything, on two declared slots
    python3 measure.py --devices auto        # where there are GPUs
    python3 measure.py --quick               # a few tasks and jobs, as continuous integration does

Three stages, each of which uses what the one before has written to the folder --out:

    matrix  trains all tasks of two backbones alone, after each other and together: what
            they give each other (matrix.json, matrix.csv)
    live    runs a batch of jobs under each policy, by a Norn of its own that touches no
            other: completion times, accuracies, cold and warm starts (live.json, live.csv)
    study   says what Ymir's estimator foretells of the matrix, and simulates the batch on
            four slots (study.json); a Go program
"""

import argparse
import csv
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Not needed where the package is installed: pip install sdk/python
sys.path.insert(0, os.path.join(HERE, "..", "..", "sdk", "python"))

import live  # noqa: E402

FAMILIES = ("pictures", "reviews")
POLICIES = ["ymir(profile=0s,interval=10s,gap=1s)", "ymir(merge=none,profile=0s,interval=10s,gap=1s)", "optimus(interval=1s)"]
QUICK_POLICIES = [POLICIES[0].replace(")", ",filter=1)"), POLICIES[1]]  # of so few jobs more are merged so
QUICK = {"pictures": ["stripes", "turned", "column"], "reviews": ["topic", "shelf", "feeling"]}
STAGES = ("matrix", "live", "study")

began = time.monotonic()


def say(text):
    print(f"{time.monotonic() - began:7.1f} s  {text}", file=sys.stderr, flush=True)


def mean(values):
    """Not a number where there are none."""
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def write(args, name, data, rows):
    """Writes data as JSON, and rows as CSV."""
    with open(os.path.join(args.out, f"{name}.json"), "w") as f:
        json.dump(data, f, indent=1)
        f.write("\n")
    with open(os.path.join(args.out, f"{name}.csv"), "w", newline="") as f:
        table = csv.DictWriter(f, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def read(args, name):
    path = os.path.join(args.out, f"{name}.json")
    if not os.path.exists(path):
        sys.exit(f"there is no {path} yet: run the stage {name} first")
    with open(path) as f:
        return json.load(f)


# The matrix.


def measure(args, name):
    """Measures one family, in a process of its own where several are at work."""
    import torch

    import matrix

    torch.set_num_threads(1)
    module = importlib.import_module(name)
    backbone = module.pretrained(os.path.join(args.out, f"{name}.pt"))
    tasks = QUICK[name] if args.quick else list(module.TASKS)
    family = matrix.Family(module, backbone, tasks, range(1, args.seeds + 1), args.steps, lambda text: say(f"{name}: {text}"))
    return {"family": name, **family.measure(spatial=not args.no_spatial)}


def rows_of(family):
    alone = {t["task"]: t for t in family["tasks"]}
    for how in ("after", "together"):
        for p in family[how]:
            b = alone[p["to"]]
            yield {
                "family": family["family"],
                "how": how,
                "from": p["from"],
                "to": p["to"],
                "k_alone": round(mean(b["k"])),
                "k": round(mean(p["k"])),
                "speed_up": round(mean(b["k"]) / mean(p["k"]), 3),
                "gain": round(mean(p["accuracy"]) / mean(b["accuracy"]) - 1, 3),
                "final_alone": round(mean(b["final"]), 3),
            }


def print_matrix(family):
    tasks = [t["task"] for t in family["tasks"]]
    rows = {(r["how"], r["from"], r["to"]): r for r in rows_of(family)}
    print(f"\n{family['family']}: times fewer steps to the target, and gain in accuracy after half of the steps that a task needs alone")
    for t in family["tasks"]:
        print(f"  {t['task']:8} alone: {mean(t['k']):.0f} steps to {t['target']:.1%}, {mean(t['accuracy']):.1%} after half of that, {mean(t['final']):.1%} in the end")
    for how in ("after", "together"):
        if any(r[0] == how for r in rows):
            print(f"  {how:18}" + "".join(f"{b:>16}" for b in tasks))
        for a in tasks:
            if any(r[:2] == (how, a) for r in rows):
                found = [rows.get((how, a, b)) for b in tasks]
                print(f"  {a:18}" + "".join(f"{r['speed_up']:8.2f} {r['gain']:+7.2f}" if r else f"{'':16}" for r in found))


def matrix_stage(args):
    data = {"every": importlib.import_module("learn").EVERY, "families": [measure(args, name) for name in args.families]}
    write(args, "matrix", data, [r for f in data["families"] for r in rows_of(f)])
    for f in data["families"]:
        print_matrix(f)


# The live run.


def live_stage(args):
    measured = read(args, "matrix")
    with tempfile.TemporaryDirectory(prefix="norn-tune-") as folder:
        step = []  # of each family
        with live.Norn(args.norn, 1, os.path.join(folder, "first"), "fifo") as norn:
            for f in measured["families"]:
                job = {**live.batch({"families": [f]}, 1, 1, 1)[0], "target": 2, "steps": 300}
                step.append(live.trained(norn, args.out, job)["seconds"] / job["steps"])
        say(f"a step takes {1000 * mean(step):.1f} ms")
        jobs = live.batch(measured, args.each, mean(step), args.rate)
        out = {"step": mean(step), "rate": args.rate, "policies": {}}
        for i, policy in enumerate(args.policies):
            name = policy.split("(")[0] + (" without merging" if "merge=none" in policy else "")
            said = lambda done: say(f"{name}: {done} of {len(jobs)} jobs")  # noqa: E731
            with live.Norn(args.norn, args.devices, os.path.join(folder, str(i)), policy, measured) as norn:
                out["policies"][policy] = live.run(norn, args.out, jobs, args.every, said)
    write(args, "live", out, [{"policy": p, **j} for p, all in out["policies"].items() for j in all])
    print_live(out)


def seconds(text):
    """Since some day, of a time as Norn writes it."""
    clock, _, fraction = text.rstrip("Z").partition(".")
    return time.mktime(time.strptime(clock[:19], "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction[:6] or 0}")


def print_live(out):
    print(f"\nlive, {len(next(iter(out['policies'].values())))} jobs; times are of this machine, as busy as it was")
    print(f"  {'':48}{'mean':>9}{'':>9}{'merged':>15}{'':>8}{'accuracy over target':>22}{'starts':>22}")
    print(f"  {'policy':48}{'JCT':>9}{'makespan':>9}{'after':>6}{'together':>9}{'steps':>8}{'alone':>11}{'merged':>11}{'cold':>11}{'warm':>11}")
    for policy, jobs in out["policies"].items():
        jct = mean(seconds(j["ended"]) - seconds(j["submitted"]) for j in jobs)
        span = max(seconds(j["ended"]) for j in jobs) - min(seconds(j["submitted"]) for j in jobs)
        how = [sum(j["how"] == h for j in jobs) for h in ("after", "together")]
        over = [mean(j["accuracy"] - j["target"] for j in jobs if (j["how"] == "alone") == alone) for alone in (True, False)]
        starts = [[j["ran"] - j["trained"] for j in jobs if j["cold"] == cold and j["runs"] == 1] for cold in (True, False)]
        told = "".join(f"{mean(s):7.1f}s{len(s):3}" for s in starts)
        print(f"  {policy:48}{jct:8.1f}s{span:8.1f}s{how[0]:6}{how[1]:9}{sum(j['steps'] for j in jobs):8}{over[0]:+11.1%}{over[1]:+11.1%}{told}")


# The study.


def study_stage(args):
    found = ["-out", os.path.join(args.out, "study.json")]
    path = os.path.join(args.out, "live.json")
    if os.path.exists(path):
        with open(path) as f:
            seen = json.load(f)
        found += ["-step", f"{seen['step'] / seen['rate']:.6f}s"]
    here = os.path.join(HERE, "..", "..")
    done = subprocess.run([args.go, "run", "./examples/finetune/study", *found, os.path.abspath(os.path.join(args.out, "matrix.json"))], cwd=here)
    if done.returncode != 0:
        sys.exit(done.returncode)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("stages", nargs="*", metavar="stage", help="matrix, live or study; default: all of them")
    p.add_argument("--out", default="measured", help="folder for what is measured")
    p.add_argument("--quick", action="store_true", help="three tasks of each backbone, one seed, shorter training, all jobs at once")
    p.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES, help="which backbones")
    p.add_argument("--seeds", type=int, default=3, help="over which the matrix is averaged")
    p.add_argument("--steps", type=int, default=1200, help="of a task alone, and the most that another one takes")
    p.add_argument("--no-spatial", action="store_true", help="leave out tasks that are trained together")
    p.add_argument("--norn", default="norn", help="the program")
    p.add_argument("--go", default="go", help="the program")
    p.add_argument("--devices", default="2", help="as in Norn's configuration: auto, a list of GPUs, or a number of declared slots")
    p.add_argument("--policies", nargs="+", help="under which the batch is run")
    p.add_argument("--each", type=int, default=3, help="jobs of each task")
    p.add_argument("--every", type=float, default=1, help="seconds between two jobs")
    p.add_argument("--rate", type=float, default=0.5, help="factor on the learning rate of live jobs, which take longer in proportion")
    args = p.parse_args()
    if set(args.stages) - set(STAGES):
        p.error(f"stages are {', '.join(STAGES)}")
    args.policies = args.policies or (QUICK_POLICIES if args.quick else POLICIES)
    if args.quick:
        args.seeds, args.each, args.steps, args.every, args.no_spatial = 1, 2, 700, 0, True
    args.out = os.path.abspath(args.out)
    os.makedirs(args.out, exist_ok=True)
    for stage, do in zip(STAGES, (matrix_stage, live_stage, study_stage)):
        if not args.stages or stage in args.stages:
            say(stage)
            do(args)


if __name__ == "__main__":
    main()
