#!/usr/bin/env python3
"""Measures what a resident trainer and merging are worth here. One command:

    python3 measure.py --devices auto     # where there is a GPU
    python3 measure.py                    # anywhere: a declared slot stands for it

First how long a tiny job takes whose trainer has to load the backbone (cold), and one
that finds it loaded (warm). Then a batch of jobs, each until it answers 90 % of questions
that it has not seen: under Ymir with merging, and without. It starts a Norn of its own
for each, in a folder that is removed, and touches no other.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TASKS = ["animals", "others", "colours"]
TIME = 20  # s, the estimate of a job


def gains():
    """What tasks give each other, as it was measured once: three times less work behind
    another task, five times less behind the same; a little when trained as one."""
    for a in TASKS:
        for b in TASKS:
            yield f"  - {{backbone: words, from: {a}, to: {b}, after: {5 if a == b else 3}, together: 1.2}}\n"


class Norn:
    """A daemon of its own."""

    def __init__(self, args, folder, policy):
        self.program, self.state = args.norn, folder
        os.makedirs(folder)
        with open(os.path.join(folder, "norn.yaml"), "w") as f:
            f.write(f"devices: {args.devices}\npolicy: '{policy}'\nlog-level: warn\ngains:\n{''.join(gains())}")
        self.env = {**os.environ, "NORN_SERVER": os.path.join(folder, "norn.sock")}
        self.backbone = os.path.join(folder, "backbone.pt")
        up = [self.program, "up", "--state", folder, "--config", os.path.join(folder, "norn.yaml"), "--socket", self.env["NORN_SERVER"]]
        with open(os.path.join(folder, "norn.log"), "w") as log:
            self.daemon = subprocess.Popen(up, stdout=log, stderr=log)
        while subprocess.run([self.program, "status"], env=self.env, capture_output=True).returncode != 0:
            if self.daemon.poll() is not None:
                sys.exit(open(os.path.join(folder, "norn.log")).read())
            time.sleep(0.05)

    def submit(self, task, *flags, backbone="words"):
        trainer = f"{sys.executable} {HERE}/trainer.py --backbone {self.backbone}"
        options = ["--kind", "fine-tuning", "--backbone", backbone, "--dataset", task, "--est", str(TIME), "--units", "400", "--unit", "steps"]
        command = [sys.executable, f"{HERE}/tune.py", task, *flags]
        asked = [*options, "--stop", "checkpoint", "--resident", trainer, "--dir", self.state, "--name", task, "-q", "--", *command]
        return subprocess.run([self.program, "submit", *asked], env=self.env, text=True, stdout=subprocess.PIPE, check=True).stdout.strip()

    def wait(self, ids):
        while True:
            all = json.loads(subprocess.run([self.program, "ps", "-a", "-o", "json"], env=self.env, capture_output=True, check=True).stdout)
            mine = [j for j in all if j["id"] in ids]
            if len(mine) == len(ids) and all and {j["state"] for j in mine} <= {"done", "failed", "cancelled"}:
                break
            time.sleep(0.2)
        for j in mine:
            if j["state"] != "done":
                subprocess.run([self.program, "logs", j["id"]], env=self.env)
                sys.exit(f"job {j['id']} is {j['state']}")
        return mine

    def down(self):
        subprocess.run([self.program, "drain"], env=self.env, capture_output=True)  # ends the trainer
        time.sleep(1)
        self.daemon.terminate()
        self.daemon.wait()


def switches(args, folder):
    """Seconds of jobs of one step, cold and warm."""
    norn = Norn(args, folder, "fifo")
    norn.wait([norn.submit("animals", "--steps", "1")])  # makes the backbone
    times = {"cold": [], "warm": []}
    for i in range(args.switches):
        for kind in ("cold", "warm"):
            job = norn.wait([norn.submit("animals", "--steps", "1", backbone=f"words-{i}")])[0]
            times[kind].append(job["ran"])
    norn.down()
    return times


def batch(args, folder, policy):
    """Seconds until all jobs answer well enough, and what each of them says."""
    norn = Norn(args, folder, policy)
    norn.wait([norn.submit("animals", "--steps", "1")])
    began = time.monotonic()
    ids = [norn.submit(task, "--batch", size) for size in ("32", "48") for task in TASKS]
    norn.wait(ids)
    took = time.monotonic() - began
    print(f"\n{policy}", flush=True)
    for i in ids:
        subprocess.run([norn.program, "logs", i], env=norn.env)
    norn.down()
    return took


def main():
    p = argparse.ArgumentParser(description="Measures cold and warm switches, and a batch with and without merging.")
    p.add_argument("--norn", default="norn", help="the program")
    p.add_argument("--devices", default="1", help="as in Norn's configuration: auto, a list of GPUs, or a number of declared slots")
    p.add_argument("--switches", type=int, default=3, help="of each kind")
    args = p.parse_args()
    ymir = "ymir(profile=0s,interval=10s,gap=2s,merge={})"
    with tempfile.TemporaryDirectory(prefix="norn-tune-") as folder:
        times = switches(args, os.path.join(folder, "switches"))
        with_merging = batch(args, os.path.join(folder, "merged"), ymir.format("both"))
        without = batch(args, os.path.join(folder, "apart"), ymir.format("none"))
    mean = {k: sum(v) / len(v) for k, v in times.items()}
    print(f"\na job of one step: cold {mean['cold']:.2f} s, warm {mean['warm']:.2f} s ({args.switches} of each)")
    print(f"six jobs to 90 %: without merging {without:.1f} s, with merging {with_merging:.1f} s: {without / with_merging:.2f} times as fast")


main()
