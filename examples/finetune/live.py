"""Runs a batch of jobs of all measured tasks on a Norn of its own, under some policy."""

import json
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OVER = {"done", "failed", "cancelled"}


def gains(measured):
    """What the configuration tells of the tasks, from what was measured."""
    for f in measured["families"]:
        k = {t["task"]: sum(t["k"]) / len(t["k"]) for t in f["tasks"]}
        found = {}
        for how in ("after", "together"):
            for p in f[how]:
                found.setdefault((p["from"], p["to"]), {})[how] = k[p["to"]] / (sum(p["k"]) / len(p["k"]))
        for (a, b), g in found.items():
            told = ", ".join(f"{how}: {x:.3f}" for how, x in g.items())
            yield f"  - {{backbone: {f['family']}, from: {a}, to: {b}, {told}}}\n"


class Norn:
    """A daemon of its own, with a state folder of its own."""

    def __init__(self, program, devices, folder, policy, measured=None):
        self.program, self.state = program, folder
        os.makedirs(folder)
        with open(os.path.join(folder, "norn.yaml"), "w") as f:
            f.write(f"devices: {devices}\npolicy: '{policy}'\nlog-level: warn\n")
            f.writelines(["gains:\n", *gains(measured)] if measured else [])
        self.env = {**os.environ, "NORN_SERVER": os.path.join(folder, "norn.sock")}
        up = [program, "up", "--state", folder, "--config", os.path.join(folder, "norn.yaml"), "--socket", self.env["NORN_SERVER"]]
        with open(os.path.join(folder, "norn.log"), "w") as log:
            self.daemon = subprocess.Popen(up, stdout=log, stderr=log)
        while self.ask("status").returncode != 0:
            if self.daemon.poll() is not None:
                sys.exit(open(os.path.join(folder, "norn.log")).read())
            time.sleep(0.05)

    def ask(self, *args):
        return subprocess.run([self.program, *args], env=self.env, capture_output=True, text=True)

    def submit(self, backbones, job):
        """Hands in a job, and returns its number."""
        trainer = f"{sys.executable} {HERE}/trainer.py --family {job['family']} --backbone {backbones}/{job['family']}.pt"
        options = ["--kind", "fine-tuning", "--backbone", job["family"], "--dataset", job["task"], "--est", f"{job['estimate']:.1f}s"]
        command = [sys.executable, f"{HERE}/tune.py", job["task"], "--steps", str(job["steps"]), "--target", str(job["target"])]
        more = ["--seed", str(job["seed"]), "--rank", "4", "--rate", str(job["rate"]), "--result", self.result(job)]
        asked = [*options, "--stop", "checkpoint", "--resident", trainer, "--dir", self.state, "--name", job["name"], "-q", "--", *command, *more]
        told = self.ask("submit", *asked)
        if told.returncode != 0:
            sys.exit(told.stderr)
        return told.stdout.strip()

    def result(self, job):
        return os.path.join(self.state, f"{job['name']}.json")

    def jobs(self):
        return {j["id"]: j for j in json.loads(self.ask("ps", "-a", "-o", "json").stdout)}

    def wait(self, ids, say=lambda done: None):
        """Waits until jobs have ended, and returns what Norn says of them."""
        seen = -1
        while True:
            mine = [j for i, j in self.jobs().items() if i in ids]
            done = sum(j["state"] in OVER for j in mine)
            if done != seen:
                say(done)
            seen = done
            if done == len(ids):
                break
            time.sleep(0.3)
        for j in mine:
            if j["state"] != "done":
                sys.exit(f"job {j['id']} is {j['state']}\n{self.ask('logs', j['id']).stdout}")
        return mine

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends what still runs, and the daemon."""
        self.ask("cancel", "--all")
        self.ask("drain")  # ends the trainers
        end = time.monotonic() + 10
        while time.monotonic() < end and '"runtime"' in self.ask("status", "--json").stdout:
            time.sleep(0.2)
        self.daemon.terminate()
        self.daemon.wait()


def batch(measured, each, step, rate):
    """The jobs: so many of each task, which differ in their samples, in an order that is
    always the same. step is the seconds of a step, rate the part of the learning rate of
    the measurement, with which a job takes longer in proportion."""
    jobs = []
    for f in measured["families"]:
        for t in f["tasks"]:
            k = sum(t["k"]) / len(t["k"]) / rate
            for seed in range(1, each + 1):
                jobs.append(
                    {
                        "name": f"{t['task']}-{seed}", "family": f["family"], "task": t["task"], "seed": 10 + seed, "rate": rate,
                        "target": t["target"], "steps": int(6 * k), "estimate": k * step,
                    }
                )  # fmt: skip
    random.Random(1).shuffle(jobs)
    return jobs


def trained(norn, backbones, job):
    """Runs one job by itself, and returns its result. It makes the backbone."""
    norn.wait([norn.submit(backbones, job)])
    with open(norn.result(job)) as f:
        return json.load(f)


def run(norn, backbones, jobs, every, say):
    """Hands in a job every so many seconds, waits for all, and tells what came of each."""
    ids = {}
    for job in jobs:
        ids[norn.submit(backbones, job)] = job
        time.sleep(every)
    out, trainers = [], set()
    for j in sorted(norn.wait(list(ids), say), key=lambda j: j["ended"]):
        job = ids[j["id"]]
        with open(norn.result(job)) as f:
            r = json.load(f)
        out.append(
            {
                "job": j["id"], "name": job["name"], "family": job["family"], "task": job["task"], "target": job["target"],
                "submitted": j["submitted"], "ended": j["ended"], "wait": j["wait"], "ran": j["ran"], "runs": j["run"], "checkpoint": os.path.join(norn.state, f"ckpt-{j['id']}.pt"),
                "steps": r["steps"], "accuracy": r["accuracy"], "trained": r["seconds"], "how": r["merge"].get("how", "alone"),
                "with": str(r["merge"].get("with", "")), "from": r["from"], "trainer": r["trainer"],
                "cold": r["trainer"] not in trainers,
            }
        )  # fmt: skip
        trainers.add(r["trainer"])
    return out
