"""The jobs of examples/, run by hand and stopped."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from typing import Any, Dict, List

import norn.resident

from .test_resident import Told
from .test_torch import LIMIT, environments, needs_torch

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples")


class Examples(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, program: str, *args: str, world: int = 1, run: int = 1, **env: str) -> List[subprocess.Popen[str]]:
        tasks = [
            subprocess.Popen(
                [sys.executable, os.path.join(EXAMPLES, program), *args],
                cwd=self.folder,
                env={**e, "NORN_JOB": "7", "PYTHONPATH": "", **env},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for e in environments(world, run)
        ]
        for t in tasks:
            self.addCleanup(t.kill)
        return tasks

    def ends(self, tasks: List[subprocess.Popen[str]], want: int = 0) -> str:
        out = [t.communicate(timeout=LIMIT)[0] for t in tasks]
        self.assertEqual([t.returncode for t in tasks], [want] * len(tasks), out)
        return "".join(out)

    def samples(self, folder: str) -> Dict[int, List[int]]:
        """Of each step; that two runs trained the same step is an error."""
        steps: Dict[int, List[int]] = {}
        by: Dict[int, str] = {}
        for name in os.listdir(os.path.join(self.folder, folder)):
            with open(os.path.join(self.folder, folder, name)) as f:
                for line in f:
                    step, *ids = [int(w) for w in line.split()]
                    self.assertEqual(by.setdefault(step, name.split(".")[1]), name.split(".")[1])
                    steps[step] = sorted(steps.get(step, []) + ids)
        return steps

    @needs_torch
    def test_train(self) -> None:
        base = ["--steps", "100", "--batch", "16"]
        alone = self.start("train/train.py", *base, "--log", "a", "--result", "a.json", "--checkpoint", "a.pt")
        self.ends(alone)
        mine = [*base, "--log", "b", "--result", "b.json"]
        two = self.start("train/train.py", *mine, world=2)
        log = os.path.join(self.folder, "b", "samples.1.0")
        end = time.monotonic() + LIMIT
        while not os.path.exists(log) or os.path.getsize(log) < 200:
            self.assertTrue(all(t.poll() is None for t in two) and time.monotonic() < end, "has not come to the first steps")
            time.sleep(0.005)
        for t in two:
            t.send_signal(signal.SIGTERM)
        self.ends(two, 75)
        self.assertIn("goes on at step", self.ends(self.start("train/train.py", *mine, run=2)))
        self.assertEqual(self.samples("a"), self.samples("b"))
        self.assertEqual(sorted(self.samples("b")), list(range(100)))
        results = []
        for name in ("a.json", "b.json"):
            with open(os.path.join(self.folder, name)) as f:
                results.append(json.load(f)["loss"])
        # Single precision: sums over other parts round otherwise, 100 times.
        self.assertAlmostEqual(results[0], results[1], delta=1e-3 * results[0])
        self.assertTrue(os.path.exists(os.path.join(self.folder, "ckpt-7.pt")))

    @needs_torch
    def test_finetune(self) -> None:
        out = self.ends(self.start("finetune/finetune.py", "--steps", "50", "--backbone-steps", "5"))
        self.assertRegex(out, r"step 50 loss \d\.\d+\n")
        self.assertRegex(out, r"50 steps: \d+\.\d% of 1000 questions answered")
        import torch

        kept = torch.load(os.path.join(self.folder, "ckpt-7.pt"))["model"]
        self.assertEqual({name.rsplit(".", 1)[1] for name in kept}, {"a", "b"}, "adapters, and no backbone")

    @needs_torch
    def test_trainer(self) -> None:
        socket = os.path.join(self.folder, "s")
        trainer = self.start("finetune/trainer.py", "--backbone-steps", "5", NORN_RESIDENT=socket)[0]
        for i, task in enumerate(("animals", "others")):
            flags = ("--steps", "30", "--checkpoint", f"{task}.pt")
            out = self.ends(self.start("finetune/tune.py", task, *flags, NORN_RESIDENT=socket, NORN_JOB=str(i)))
            self.assertRegex(out, rf"{task}: 30 steps, \d+\.\d s, \d+\.\d% right\n")
        # Two at once, and one of them has to leave and comes back.
        task = self.start("finetune/tune.py", "colours", "--steps", "100000", "--checkpoint", "c.pt", NORN_RESIDENT=socket)
        other = self.start("finetune/tune.py", "animals", "--steps", "40", "--checkpoint", "d.pt", NORN_RESIDENT=socket)
        self.assertIn("animals: 40 steps", self.ends(other))
        task[0].send_signal(signal.SIGTERM)
        self.ends(task, 75)
        # Two that are trained as one have the same adapters, those of both tasks.
        ended: Dict[str, Any] = {}

        def tune(name: str, task: str, partner: str) -> None:
            path = os.path.join(self.folder, f"{name}.pt")
            work = {"task": task, "steps": 100, "target": 2, "batch": 8, "rank": 4, "checkpoint": path, "resume": False}
            ended[name] = norn.resident.tune(work, job=Told(name, how="together", **{"with": partner}), path=socket)

        pair = [threading.Thread(target=tune, args=a, daemon=True) for a in (("21", "animals", "22"), ("22", "others", "21"))]
        for t in pair:
            t.start()
        for t in pair:
            t.join(LIMIT)
        self.assertEqual([ended[n]["steps"] for n in ("21", "22")], [100, 100])
        # One that goes on from another one begins with the adapters of its checkpoint.
        path = os.path.join(self.folder, "21.pt")
        work = {"task": "others", "steps": 1, "target": 2, "batch": 8, "rank": 4, "checkpoint": os.path.join(self.folder, "23.pt"), "resume": False}
        later = norn.resident.tune(work, job=Told("23", how="after", checkpoint=path, **{"with": "21"}), path=socket)
        self.assertEqual((later["from"], later["trainer"]), (path, ended["21"]["trainer"]), "the same checkpoint, in the same trainer")
        trainer.kill()
        trainer.communicate()
        import torch

        one, two = (torch.load(os.path.join(self.folder, f"{n}.pt"))["model"] for n in ("21", "22"))
        after = torch.load(os.path.join(self.folder, "23.pt"))["model"]
        self.assertLess(max(float((one[k] - after[k]).abs().max() / one[k].abs().max()) for k in one), 0.2, "one step further")
        near = [float((one[k] - two[k]).abs().max() / one[k].abs().max()) for k in one]
        self.assertLess(max(near), 0.2, "adapters of one training, a few steps apart")  # of two: 1.9
        kept = torch.load(os.path.join(self.folder, "c.pt"))
        self.assertEqual({name.rsplit(".", 1)[1] for name in kept["model"]}, {"a", "b"}, "adapters, and no backbone")
        self.assertGreater(kept["step"], 0)

    @needs_torch
    def test_dlrm(self) -> None:
        for model in ("widedeep", "deepfm", "din"):
            with self.subTest(model):
                first = ["dlrm/dlrm.py", model, "--seed", "3", "--result", self.folder]
                out = self.ends(self.start(*first, "--steps", "60", "--checkpoint", f"{model}.pt"))
                self.assertRegex(out, rf"{model} on \w+, 60 steps: AUC 0\.\d+, loss \d\.\d+\n")
                with open(os.path.join(self.folder, f"{model}-3.json")) as f:
                    self.assertGreater(json.load(f)["auc"], 0.52, "better than a guess")

    @needs_torch
    def test_gnn(self) -> None:
        """Both modes come to the same model; one that is told to stop goes on where it was."""
        small = ["gnn/gnn.py", "--vertices", "2000", "--edges", "20000", "--batch", "32", "--batches", "40", "--cores", "2"]
        losses = []
        for mode in ("piped", "coupled"):
            out = json.loads(self.ends(self.start(*small, "--mode", mode)).splitlines()[-1])
            self.assertEqual((out["mode"], out["batches"]), (mode, 40))
            losses.append((out["loss"], out["accuracy"]))
        tasks = self.start(*small, "--wait", "go")  # waits before its last batch but one
        until = time.monotonic() + LIMIT
        while not any(n.startswith("heard-") for n in os.listdir(self.folder)):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        tasks[0].send_signal(signal.SIGTERM)
        self.ends(tasks, 75)
        out = json.loads(self.ends(self.start(*small)).splitlines()[-1])
        self.assertLess(out["batches"], 40, "it went on from a checkpoint")
        losses.append((out["loss"], out["accuracy"]))
        self.assertEqual(losses, [losses[0]] * 3)

    def test_gnn_rules(self) -> None:
        """The rules of the example are those of the specification of ByteGNN, section 5."""
        sys.path.insert(0, os.path.join(EXAMPLES, "gnn"))
        self.addCleanup(sys.path.remove, os.path.join(EXAMPLES, "gnn"))
        pipeline = importlib.import_module("pipeline")
        self.assertEqual(pipeline.balanced(16000, 1000, 3, 1), 12000)
        self.assertEqual(pipeline.balanced(1500, 100, 2, 1), 1000)
        control = pipeline.Controller(16000, step=1000)
        control.took(0, 3.0)
        control.took(1, 1.0)
        for _ in range(8):
            control.adjust(3, 4, False)
        self.assertEqual(control.split, 12000)
        control.resize(8000)
        self.assertEqual((control.split, control.cores), (6000, 8000))
        control.adjust(9, 4, False)
        self.assertEqual((control.split, control.in_flight), (5000, 8), "the queue is long")

    def test_plain(self) -> None:
        task = self.start("plain/collatz.py", str(10**9))
        assert task[0].stdout is not None
        self.assertEqual(task[0].stdout.readline(), "from 1 on\n")
        task[0].send_signal(signal.SIGTERM)
        self.ends(task, 75)
        with open(os.path.join(self.folder, "state-7.json")) as f:
            at = json.load(f)["next"]
        limit = str(at + 2000)
        out = self.ends(self.start("plain/collatz.py", limit, run=2))
        self.assertTrue(out.startswith(f"from {at} on\n"), out)
        alone = self.ends(self.start("plain/collatz.py", limit, NORN_JOB="8"))
        self.assertEqual(alone.splitlines()[1], out.splitlines()[1])
        known = self.ends(self.start("plain/collatz.py", "10000", NORN_JOB="9"))
        self.assertIn("below 10000: 6171, in 262 steps", known)

    def test_sweep(self) -> None:
        out = self.ends(self.start("sweep/sweep.py", NORN_ARRAY_INDEX="10"))
        self.assertTrue(re.match(r"rate 0\.1024: y = 3\.\d+ x -\d\.\d+, mean squared error 0\.0\d+\n", out), out)


if __name__ == "__main__":
    unittest.main()
