#!/usr/bin/env python3
"""Runs the twelve trainings of job.yaml one by one, then several at a time in order of
arrival, as MPS would have them share a GPU, and then under RMixer. It says how long each
took and whether the results are the same. One command:

    python3 measure.py --devices auto --host 2     # where there is a GPU
    python3 measure.py                             # anywhere: a declared slot stands for it

It starts a Norn of its own for each, in a folder that is removed, and touches no other.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def run(args, name, policy, host, folder):
    """Runs the batch under a policy; seconds, and the results by job."""
    state, results = os.path.join(folder, name), os.path.join(folder, name + "-results")
    os.makedirs(state)
    os.makedirs(results)
    config = os.path.join(state, "norn.yaml")
    with open(config, "w") as f:
        f.write(f"devices: {args.devices}\nhost: {{slots: {host}}}\npolicy: '{policy}'\nhealth: {{sample: 1s}}\nlog-level: warn\n")
    with open(os.path.join(HERE, "job.yaml")) as f:
        jobs = f.read().replace("python3, dlrm.py", f"{sys.executable}, {HERE}/dlrm.py")
    jobs = re.sub(r"(command: \[.*)\]", rf'\1, --steps, "{args.steps}", --result, {results}]', jobs)
    norn = [args.norn, "--state", state, "--config", config]
    env = {**os.environ, "NORN_SERVER": os.path.join(state, "norn.sock")}
    with open(os.path.join(state, "norn.log"), "w") as log:
        daemon = subprocess.Popen([norn[0], "up", *norn[1:], "--socket", env["NORN_SERVER"]], stdout=log, stderr=log)
    try:
        while subprocess.run([args.norn, "status"], env=env, capture_output=True).returncode != 0:
            if daemon.poll() is not None:
                sys.exit(open(os.path.join(state, "norn.log")).read())
            time.sleep(0.05)
        began = time.monotonic()
        submit = subprocess.run([args.norn, "submit", "--dir", state, "--wait", "-q", "-f", "-"], input=jobs, env=env, text=True)
        took = time.monotonic() - began
        print(f"\n{name}: {policy}", flush=True)
        subprocess.run([args.norn, "history", "--since", "1d"], env=env)
        if submit.returncode != 0:
            sys.exit(f"{name}: not all jobs have done their work")
    finally:
        daemon.terminate()
        daemon.wait()
    found = {}
    for file in sorted(os.listdir(results)):
        with open(os.path.join(results, file)) as f:
            found[file[: -len(".json")]] = json.load(f)
    return took, found


def main():
    p = argparse.ArgumentParser(description="Measures a batch of trainings one by one, and under RMixer.")
    p.add_argument("--norn", default="norn", help="the program")
    p.add_argument("--devices", default="1", help="as in Norn's configuration: auto, a list of GPUs, or a number of declared slots")
    p.add_argument("--host", type=int, default=1, help="host devices: parts of the processors")
    p.add_argument("--gpu-workers", type=int, default=4, help="jobs on one GPU at a time")
    p.add_argument("--cpu-workers", type=int, default=2, help="jobs on one host device at a time")
    p.add_argument("--steps", type=int, default=400, help="of each training")
    args = p.parse_args()
    room = f"gpu-workers={args.gpu_workers},cpu-workers={args.cpu_workers}"
    ways = [
        ("one-by-one", "fifo", 0),
        ("mps-like", f"rmixer({room},job-policy=mps,device-policy=dySequ)", 0),
        ("rmixer", f"rmixer({room},beta=2,batch-size=12)", args.host),
    ]
    with tempfile.TemporaryDirectory(prefix="norn-dlrm-") as folder:
        found = {name: run(args, name, policy, host, folder) for name, policy, host in ways}
    want = found["one-by-one"][1]
    print(f"\n{len(want)} trainings of {args.steps} steps")
    for name, (took, have) in found.items():
        if set(have) != set(want):
            sys.exit(f"{name}: some results are missing")
        worst = max(abs(want[k]["auc"] - have[k]["auc"]) for k in want)
        print(f"  {name:10s} {took:6.1f} s, {found['one-by-one'][0] / took:.2f} times as fast as one by one; largest difference of an AUC {worst:.2g}")


main()
