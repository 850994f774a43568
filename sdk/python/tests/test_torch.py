"""Training with PyTorch that is stopped, continued and resized, against training
that is left alone."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .fake import FakeNorn

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 120  # seconds after which a training is believed to hang

HAS_TORCH = importlib.util.find_spec("torch") is not None
if not HAS_TORCH and os.environ.get("CI"):
    raise RuntimeError("PyTorch is missing: continuous integration needs python3-torch")
needs_torch = unittest.skipUnless(HAS_TORCH, "PyTorch is missing (Debian: python3-torch)")

# Samples of each step as one set, and its loss.
Log = Dict[int, Tuple[int, List[int], float]]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def environments(world: int, run: int, **more: str) -> List[Dict[str, str]]:
    """What the tasks of a run find, as Norn sets it."""
    base = {k: v for k, v in os.environ.items() if not k.startswith("NORN_")}
    base.update(NORN_RUN=str(run), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    base.update(OMP_NUM_THREADS="1", PYTHONPATH=os.path.dirname(HERE), CUDA_VISIBLE_DEVICES="", **more)
    return [{**base, "RANK": str(r), "LOCAL_RANK": str(r)} for r in range(world)]


class Forge:
    """Starts the tasks of a run; see forge.py."""

    def __init__(self) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.path.dirname(HERE)}
        self._process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "forge.py")], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, program: Sequence[str], envs: List[Dict[str, str]], err: str) -> List[int]:
        """Exit statuses, by rank; all of them -9 after LIMIT."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"program": program, "envs": envs, "err": err, "limit": LIMIT}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


class Tasks(unittest.TestCase):
    """Runs programs as gangs, in a folder of their own."""

    forge: Forge

    @classmethod
    def setUpClass(cls) -> None:
        cls.forge = Forge()
        cls.addClassCleanup(cls.forge.close)

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def launch(self, program: Sequence[str], world: int, run: int, want: Sequence[int], env: Optional[Dict[str, str]] = None) -> str:
        """One run to its end; want are the exit statuses. Returns the standard error."""
        path = os.path.join(self.folder, "err")
        codes = self.forge.run(program, environments(world, run, **(env or {})), path)
        with open(path) as f:
            err = f.read()
        os.unlink(path)
        self.assertEqual(codes, list(want), err)
        return err


@needs_torch
class Training(Tasks):
    undisturbed: Dict[str, Tuple[Log, Dict[str, Any]]] = {}

    def run_of(self, world: int, run: int, want: Optional[Sequence[int]] = None, env: Optional[Dict[str, str]] = None, **options: Any) -> str:
        program = [os.path.join(HERE, "training.py"), self.folder, json.dumps(options)]
        return self.launch(program, world, run, want or [0] * world, env)

    def log(self) -> Log:
        """All steps of all runs. That a step is there twice is an error."""
        steps: Log = {}
        by: Dict[int, str] = {}
        for name in sorted(os.listdir(self.folder)):
            if not name.startswith("log."):
                continue
            run = name.split(".")[1]
            with open(os.path.join(self.folder, name)) as f:
                for line in f:
                    step, epoch, loss, *ids = line.split()
                    k = int(step)
                    self.assertEqual(by.setdefault(k, run), run, f"step {k} was trained by two runs")
                    old = steps.get(k, (int(epoch), [], 0.0))
                    value = old[2] if loss == "None" else float(loss)
                    steps[k] = (int(epoch), old[1] + [int(i) for i in ids], value)
        return {k: (e, sorted(ids), loss) for k, (e, ids, loss) in steps.items()}

    def result(self) -> Dict[str, Any]:
        with open(os.path.join(self.folder, "result")) as f:
            return json.load(f)

    def alone(self, **options: Any) -> Tuple[Log, Dict[str, Any]]:
        """The same training on one worker that nobody disturbs: with plain, without
        norn.torch altogether."""
        key = json.dumps(options, sort_keys=True)
        if key not in self.undisturbed:
            mine = self.folder
            with tempfile.TemporaryDirectory() as folder:
                self.folder = folder
                self.run_of(1, 1, **options)
                self.undisturbed[key] = self.log(), self.result()
            self.folder = mine
        return self.undisturbed[key]

    def compare(self, log: Log, result: Dict[str, Any], want: Tuple[Log, Dict[str, Any]]) -> None:
        self.assertEqual(sorted(log), list(range(len(want[0]))), "a step is lost")
        for k, (epoch, ids, loss) in want[0].items():
            self.assertEqual(log[k][:2], (epoch, ids), f"step {k} trained other samples")
            self.assertAlmostEqual(log[k][2], loss, delta=1e-9, msg=f"loss of step {k}")
        for a, b in zip(result["weights"], want[1]["weights"]):
            self.assertAlmostEqual(a, b, delta=1e-9)
        self.assertAlmostEqual(result["loss"], want[1]["loss"], delta=1e-9)
        self.assertAlmostEqual(result["lr"], want[1]["lr"], delta=1e-12)

    def test_alone(self) -> None:
        log, result = self.alone()
        for epoch in range(8):
            seen = sorted(i for e, ids, _ in log.values() if e == epoch for i in ids)
            self.assertEqual(seen, list(range(103)), "an epoch is all samples once")
        self.assertEqual([len(log[k][1]) for k in range(7)], [16] * 6 + [7])
        self.assertLess(result["loss"], 0.5 * log[0][2], "it learns")
        self.compare(log, result, self.alone(plain=True))

    def test_two_workers(self) -> None:
        self.run_of(2, 1)
        self.compare(self.log(), self.result(), self.alone())

    def test_two_one_two(self) -> None:
        # A signal to one of two, at a moment of its own; then to the one; then to both.
        stop = {"1": [1, 13, "any"], "2": ["all", 30, "any"], "3": ["all", 47, "any"]}
        self.run_of(2, 1, [75, 75], stop=stop)
        first = self.log()
        self.assertTrue(13 <= max(first) <= 16, sorted(first))
        self.run_of(1, 2, [75], stop=stop)
        self.run_of(2, 3, [75, 75], stop=stop)
        self.run_of(2, 4, stop=stop)
        self.compare(self.log(), self.result(), self.alone())
        # Once more: there is nothing left to do.
        self.run_of(1, 5, stop=stop)
        self.compare(self.log(), self.result(), self.alone())

    def test_three_workers_and_passes(self) -> None:
        # The last batch of an epoch has 7 samples; of 2 samples at most a pass.
        self.run_of(3, 1, [75, 75, 75], stop={"1": [2, 21, "body"]}, local_batch=2)
        self.run_of(1, 2, local_batch=4, workers=2)
        self.compare(self.log(), self.result(), self.alone())

    def test_stopped_while_processes_load(self) -> None:
        stop = {"1": [1, 8, "body"], "2": ["all", 13, "any"]}
        self.run_of(2, 1, [75, 75], stop=stop, workers=2, steps=20)
        self.run_of(1, 2, [75], stop=stop, workers=1, steps=20)
        self.run_of(2, 3, stop=stop, workers=1, steps=20)
        self.compare(self.log(), self.result(), self.alone(steps=20))

    def test_mean_over_other_things_than_samples(self) -> None:
        self.run_of(2, 1, local_batch=3, count=True, own_group=True)
        self.compare(self.log(), self.result(), self.alone(count=True, plain=True))

    def test_any_life(self) -> None:
        seed = int(os.environ.get("NORN_TEST_SEED", "1"))
        rng = random.Random(seed)
        stop: Dict[str, Any] = {}
        at, run = 0, 0
        while True:
            run += 1
            world = rng.randrange(1, 4)
            at += rng.randrange(0, 14)
            if at < 58:
                who = rng.choice([*range(world), "all"])
                stop[str(run)] = [who, at, rng.choice(["body", "any"])]
            options = {"local_batch": rng.choice([None, 1, 3, 5]), "save_every": rng.choice([0, 1e9])}
            with self.subTest(seed=seed, run=run, world=world, stop=stop.get(str(run)), **options):
                self.run_of(world, run, [75 if at < 58 else 0] * world, stop=stop, **options)
            if at >= 58:
                break
            at = max([at, *(k + 1 for k in self.log())])
        self.compare(self.log(), self.result(), self.alone())

    def test_what_is_frozen_is_not_kept(self) -> None:
        import torch

        self.run_of(2, 1, [75, 75], stop={"1": [0, 9, "body"]}, freeze=True, steps=20)
        kept = torch.load(os.path.join(self.folder, "ckpt.pt"))["model"]
        self.assertEqual(sorted(kept), ["2.bias", "2.weight"])
        self.run_of(1, 2, freeze=True, steps=20)
        self.compare(self.log(), self.result(), self.alone(freeze=True, steps=20))

    def test_random_numbers_go_on(self) -> None:
        stop = {"1": [0, 9, "body"]}
        self.run_of(1, 1, [75], stop=stop, dropout=True, steps=20)
        self.run_of(1, 2, stop=stop, dropout=True, steps=20)
        self.compare(self.log(), self.result(), self.alone(dropout=True, steps=20))

    LOGICAL: Dict[str, Any] = {"logical": 4, "single": True, "dropout": True, "norm": True, "augment": True, "steps": 20, "local_batch": 3, "drop_last": True}

    def test_turns(self) -> None:
        """EasyScale, acceptance 5 of our specification: four workers take turns on one, two and
        four processes, with switches at steps of chance, and end with the same parameters to the bit."""
        seed = int(os.environ.get("NORN_TEST_SEED", "1"))
        rng = random.Random(seed)
        self.run_of(4, 1, **self.LOGICAL)
        want = self.log(), self.result()
        self.assertNotEqual(want[1]["weights"], self.alone(**{**self.LOGICAL, "logical": None})[1]["weights"], "four workers are as one")
        for worlds in ([1], [2], [3], [rng.choice([1, 2, 3, 4]) for _ in range(4)], [1, 4, 2]):
            with tempfile.TemporaryDirectory() as self.folder:
                stops = sorted(rng.sample(range(1, 17), len(worlds) - 1))
                stop = {str(i + 1): ["all", at, rng.choice(["body", "any"])] for i, at in enumerate(stops)}
                with self.subTest(seed=seed, worlds=worlds, stop=stop):
                    for i, world in enumerate(worlds):
                        code = 75 if i < len(stops) else 0
                        self.run_of(world, i + 1, [code] * world, stop=stop, workers=i % 2, **self.LOGICAL)
                    log = self.log()
                    self.assertEqual({k: v[:2] for k, v in log.items()}, {k: v[:2] for k, v in want[0].items()})
                    self.assertEqual(self.result()["weights"], want[1]["weights"], "not the same to the bit")

    def test_turns_are_divided_by_speed(self) -> None:
        """Turns go by what they take, and the parameters stay the same: one of three
        processes is slow, and has one of eight turns in the end."""
        options = {**self.LOGICAL, "logical": 8, "local_batch": None, "steps": 32}
        self.run_of(1, 1, **options)
        want = self.result()
        with tempfile.TemporaryDirectory() as self.folder:
            self.run_of(3, 1, balance="time", slow={"2": 0.02}, **options)
            self.assertEqual(self.result()["weights"], want["weights"])
            with open(os.path.join(self.folder, "log.1.2")) as f:
                turns = [int(line.split()[0]) for line in f]
        self.assertEqual((turns.count(2), turns.count(31)), (3, 1))

    def test_turns_as_norn_says(self) -> None:
        """The job says how many workers there are, and so does its checkpoint."""
        options = {**self.LOGICAL, "logical": None, "steps": 8, "stop": {"1": [0, 3, "body"]}}
        self.run_of(2, 1, [75, 75], env={"NORN_WORKERS": "4"}, **options)
        self.run_of(1, 2, **options)
        want = self.result()
        with tempfile.TemporaryDirectory() as self.folder:
            self.run_of(1, 2, **{**options, "logical": 4})
            self.assertEqual(self.result()["weights"], want["weights"])
        with tempfile.TemporaryDirectory() as self.folder:
            self.run_of(1, 1, [75], **{**options, "logical": 3})
            err = self.run_of(1, 2, [1], **{**options, "logical": 4})
            self.assertIn("it was trained by 3 workers that take turns, and now there are 4", err)
            err = self.run_of(4, 2, [1] * 4, **options)
            self.assertIn("3 workers cannot take turns on 4 processes", err)

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self) -> None:
        from norn.torch import state

        # Saves at each step; is killed in step 11, so that 10 may be there or not.
        self.run_of(1, 1, [-9], stop={"1": [0, 11, "kill"]}, save_every=0, steps=20)
        path = os.path.join(self.folder, "ckpt.pt")
        saved, kept = state.inspect(path), state.inspect(path + ".previous")
        self.assertEqual((saved.step, kept.step), (11, 10))
        with open(path, "r+b") as f:  # torn
            f.truncate(os.path.getsize(path) // 2)
        os.rename(os.path.join(self.folder, "log.1.0"), os.path.join(self.folder, "first"))
        err = self.run_of(1, 2, steps=20)
        self.assertIn("is no whole checkpoint", err)
        self.assertIn("going on from", err)
        self.assertTrue(os.path.exists(path + ".refused"))
        log, want = self.log(), self.alone(steps=20)
        self.assertEqual(sorted(log), list(range(10, 20)))
        self.assertAlmostEqual(self.result()["loss"], want[1]["loss"], delta=1e-9)

    def test_reports(self) -> None:
        fake = FakeNorn(self.folder)
        self.addCleanup(fake.close)
        env = {**fake.env(), "NORN_RUN": "1"}
        self.run_of(2, 1, [75, 75], env=env, stop={"1": [1, 5, "body"]}, noise=True, steps=20)
        told: Dict[str, Any] = {}
        for r in fake.reports:
            if r["rank"] == 0:
                told.update(r)
        self.assertEqual((told["step"], told["steps"], told["samples"], told["local_batch"], told["accumulation"]), (6, 20, 96, 8, 1))
        self.assertEqual(told["checkpoint"], {"step": 6, "path": os.path.join(self.folder, "ckpt.pt")})
        self.assertAlmostEqual(told["epoch"], 96 / 103)
        for name in ("loss", "step_time", "compute_time", "sync_time", "grad_sqr", "grad_var", "lr", "memory"):
            self.assertGreater(told[name], 0, name)
        self.assertLessEqual(told["compute_time"] + told["sync_time"], told["step_time"] * 1.001)
        self.assertEqual(sorted(told["stages"]), ["cpu", "network", "storage"])
        self.assertEqual({r["rank"] for r in fake.reports}, {0, 1})
        fake.reports.clear()
        self.run_of(1, 2, env={**env, "NORN_RUN": "2"}, noise=True, steps=20)
        self.assertEqual(fake.told("checkpoint")[0]["step"], 6, "told again: the run before may not have been heard")
        self.assertEqual(fake.told("finished"), [True])
        self.assertEqual(fake.told("checkpoint")[-1]["step"], 20)
        self.assertEqual(fake.told("step")[-1], 20)
        self.compare(self.log(), self.result(), self.alone(steps=20))

    def test_another_batch_size(self) -> None:
        fake = FakeNorn(self.folder)
        self.addCleanup(fake.close)
        fake.order = {"kind": "batch", "batch": 40}
        stop = {"1": ["all", 12, "body"]}
        self.run_of(2, 1, [75, 75], env=fake.env(NORN_RUN="1"), resize=True, steps=20, stop=stop)
        fake.order = {"kind": "go-on"}
        self.run_of(1, 2, env=fake.env(NORN_RUN="2"), resize=True, steps=20)
        log = self.log()
        self.assertEqual(sorted(log), list(range(20)))
        sizes = [len(log[k][1]) for k in range(20)]
        self.assertIn(40, sizes)
        at = next(i for i, n in enumerate(sizes) if n not in (16, 7))
        self.assertNotIn(16, sizes[at:], "the size stays, after a restart too")
        for epoch in range(log[19][0]):
            seen = sorted(i for e, ids, _ in log.values() if e == epoch for i in ids)
            self.assertEqual(seen, list(range(103)), "an epoch is all samples once")
        self.assertAlmostEqual(self.result()["lr"], 0.02 * 40 / 16 / (1 + 0.02 * 20), delta=1e-12)


    def proposed(self, by: str, steps: int = 30, **more: Any) -> List[Tuple[int, int]]:
        """Epochs and batches of a run with a proposer, that is stopped on two workers and
        goes on on one; Norn is told of each batch. Every sample is trained once an epoch."""
        fake = FakeNorn(self.folder)
        self.addCleanup(fake.close)
        self.run_of(2, 1, [75, 75], env=fake.env(NORN_RUN="1"), propose=by, steps=steps, stop={"1": ["all", 9, "body"]}, **more)
        self.run_of(1, 2, env=fake.env(NORN_RUN="2"), propose=by, steps=steps, **more)
        log = self.log()
        self.assertEqual(sorted(log), list(range(steps)))
        for epoch in range(log[steps - 1][0]):
            seen = sorted(i for e, ids, _ in log.values() if e == epoch for i in ids)
            self.assertEqual(seen, list(range(103)), "an epoch is all samples once")
        first: Dict[int, int] = {}  # batch of an epoch: that of its first step
        for e, ids, _ in (log[k] for k in sorted(log)):
            first.setdefault(e, len(ids))
        self.assertLessEqual(set(fake.told("batch")), set(first.values()))
        self.assertEqual(fake.told("batch")[-1], first[max(first)], "Norn is told")
        return sorted(first.items())

    def test_proposed_by_a_table(self) -> None:
        self.assertEqual(self.proposed("table"), [(0, 16), (1, 32), (2, 8), (3, 8)][: len(self.proposed_epochs(30, [16, 32, 8, 8]))])

    @staticmethod
    def proposed_epochs(steps: int, sizes: Sequence[int]) -> List[int]:
        """The epochs that so many steps reach, with batches of these sizes."""
        out: List[int] = []
        for epoch, size in enumerate(sizes):
            if steps <= 0:
                break
            out.append(epoch)
            steps -= -(-103 // size)
        return out

    def test_proposed_by_goodput(self) -> None:
        got = self.proposed("goodput", noise=True)
        self.assertEqual(got[0], (0, 16))
        for (_, a), (_, b) in zip(got, got[1:]):
            self.assertTrue(8 <= b <= 64 and a / 2 <= b <= 2 * a, got)

    def test_proposed_by_arbiter(self) -> None:
        got = dict(self.proposed("arbiter", steps=40))
        self.assertEqual((got[0], got[1]), (16, 16), "nothing changes inside an interval of two epochs")
        self.assertTrue(all(8 <= b <= 64 for b in got.values()), got)
        self.assertNotEqual(got[2], 16, got)
        self.assertEqual(got.get(3, got[2]), got[2], got)

    def test_paced(self) -> None:
        fake = FakeNorn(self.folder)
        self.addCleanup(fake.close)
        fake.allocation["throttle"] = 200
        fake.order = {"kind": "go-on", "throttle": 200}
        self.run_of(2, 1, env=fake.env(NORN_RUN="1"), steps=20)
        self.compare(self.log(), self.result(), self.alone(steps=20))
        self.assertIn(True, fake.told("paced"))


SCRIPT = """
import os, signal, sys, threading, time
import torch
import norn.torch as nt
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.ones(8, 2))
def run(path="ckpt.pt", **more):
    return nt.Run(model, optimizer, os.path.join(sys.argv[1], path), **more)
def told():
    os.kill(os.getpid(), signal.SIGTERM)
"""


@needs_torch
class Edges(Tasks):
    def script(self, text: str, world: int = 1, want: Optional[Sequence[int]] = None, run: int = 1) -> str:
        path = os.path.join(self.folder, "script.py")
        with open(path, "w") as f:
            f.write(SCRIPT + textwrap.dedent(text))
        return self.launch([path, self.folder], world, run, want or [0] * world)

    def test_who_waits_for_others_can_be_stopped(self) -> None:
        # One never comes, and the other is told to stop while it waits.
        for waits in (0, 1):
            self.script(
                f"""
                import norn.torch.group
                if os.environ["RANK"] != "{waits}":
                    sys.exit(0)
                pause = norn.torch.group.time.sleep
                def sleep(s):
                    told()
                    pause(s)
                norn.torch.group.time.sleep = sleep
                run()
                """,
                2,
                [75, 0] if waits == 0 else [0, 75],
            )

    def test_a_worker_leaves_before_training(self) -> None:
        # It has left while the others make themselves ready; they are told a moment later.
        self.script(
            """
            import norn.torch.run
            def restore(self):
                if self.rank == 1:
                    told()
                    self.job.should_stop()
                    self.job.leave()
                found = self._group.gather(None)
            norn.torch.run.Run._restore = restore
            import norn
            job = norn.init()
            if job.rank == 0:
                class Time:
                    monotonic, perf_counter = time.monotonic, time.perf_counter
                    def sleep(s):
                        told()
                norn.torch.run.time = Time
            run()
            """,
            2,
            [75, 75],
        )

    def test_stopped_before_the_first_step(self) -> None:
        self.script("r = run(); told()\nfor b in r.batches(data, 4, 1): raise AssertionError", 2, [75, 75])
        self.assertNotIn("ckpt.pt", os.listdir(self.folder))

    def test_a_stop_in_the_last_step_ends_the_job(self) -> None:
        self.script("r = run()\nfor _, k, (x,) in r.batches(data, 4, 1):\n  told() if k == 1 else 0\n  r.step(r.model(x).mean())", 2)

    def test_no_checkpoint_can_be_written(self) -> None:
        with open(os.path.join(self.folder, "file"), "w"):
            pass
        loop = "\nfor _, k, (x,) in r.batches(data, 4, 9):\n  told() if k == 3 else 0\n  r.step(r.model(x).mean())"
        err = self.script("r = run('file/ckpt.pt', save_every=0)" + loop, 2, [1, 1])
        self.assertIn("no checkpoint could be written: FileExistsError", err)
        err = self.script("r = run('file/ckpt.pt')\nfor _, k, (x,) in r.batches(data, 4, 1): r.step(r.model(x).mean())", 1, [1])
        self.assertIn("RuntimeError: the last checkpoint could not be written", err)

    def test_what_is_not_ours_is_refused(self) -> None:
        loop = "\nfor _, k, (x,) in r.batches(data, 4, 1): r.step(r.model(x).mean())"
        path = os.path.join(self.folder, "ckpt.pt")
        for content in (b"", b"my own notes", b"PK\x05\x06" + bytes(18)):
            with open(path, "wb") as f:
                f.write(content)
            err = self.script("r = run()" + loop, 2, [1, 1])
            self.assertIn("Unusable", err)
            self.assertIn("remove it to begin anew", err)
            with open(path, "rb") as f:
                self.assertEqual(f.read(), content, "it is left alone")
        self.script(f"torch.save(model.state_dict(), {path!r})")
        self.assertIn("is no checkpoint of Norn's", self.script("r = run()" + loop, 1, [1]))
        os.unlink(path)
        self.script("r = run()" + loop)
        other = "model = torch.nn.Linear(3, 1); optimizer = torch.optim.SGD(model.parameters(), lr=0.1); r = run()"
        self.assertIn("is of another model", self.script(other, 1, [1]))
        self.assertIn("trained with seed 0", self.script("run(seed=1)", 1, [1]))
        self.assertIn("has no scheduler", self.script("run(scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1))", 1, [1]))
        self.script("r = run()\nassert r.resumed and r.step_count == 2\nfor b in r.batches(data, 4, 1): raise AssertionError", 2)

    def test_another_data_set_in_the_middle_of_an_epoch(self) -> None:
        loop = "\nfor _, k, (x,) in r.batches(data, 4, 9):\n  told() if k == 2 else 0\n  r.step(r.model(x).mean())"
        self.script("r = run()" + loop, 1, [75])
        more = "data = torch.utils.data.TensorDataset(torch.ones(9, 2)); r = run()"
        self.assertIn("in the middle of an epoch of 8 samples, and now there are 9", self.script(more + loop, 1, [1]))

    def test_wrong_use(self) -> None:
        for text, world, words in (
            ("for b in r.batches(data, 4, 1): pass", 1, "a batch was not trained"),
            ("for _, _, (x,) in r.batches(data, 4, 1): r.step(model(x).mean())", 2, "not computed through run.model"),
            ("r.step(torch.zeros(1))", 1, "belongs into the loop"),
            ("next(r.batches(data, 4))", 1, "how many epochs"),
            ("next(r.batches(data, 9, 1, drop_last=True))", 1, "less than a batch of 9"),
            ("next(r.batches(data, 4, 1)); next(r.batches(data, 4, 1))", 1, "a run is one loop"),
        ):
            with self.subTest(text=text):
                self.assertIn(words, self.script("r = run()\n" + text, world, [1] * world))

    def test_a_checkpoint_is_a_file_of_torch(self) -> None:
        self.script("r = run()\nfor _, k, (x,) in r.batches(data, 4, 1): r.step(r.model(x).mean())")
        import torch

        model = torch.nn.Linear(2, 1)
        model.load_state_dict(torch.load(os.path.join(self.folder, "ckpt.pt"))["model"])


@needs_torch
class Measures(unittest.TestCase):
    def test_noise(self) -> None:
        import torch

        from norn.job import Job
        from norn.torch.group import Group
        from norn.torch.measure import Noise

        # The gradient of a sample x is x: mean (3, 4), so that |G|² is 25, and
        # variance 4 in each of two directions, so that S is 8.
        torch.manual_seed(0)
        group = Group(Job({}, signals=()), device="cpu")
        w = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
        noise = Noise([w])
        noise.DECAY = 0.9995  # type: ignore[misc]
        parts = (3, 5, 8)  # passes of unequal size
        for _ in range(6000):
            for n in parts:
                x = torch.tensor([3.0, 4.0], dtype=torch.float64) + 2 * torch.randn(n, 2, dtype=torch.float64)
                weight = n / sum(parts)
                ((x @ w).mean() * weight).backward()
                noise.passed(n, weight)
            noise.stepped(group, sum(parts))
            w.grad = None
        got = noise.estimates()
        self.assertAlmostEqual(got["grad_sqr"], 25, delta=0.5)
        self.assertAlmostEqual(got["grad_var"], 8, delta=0.5)
        again = Noise([w])
        self.assertEqual(again.estimates(), {})
        again.load_state_dict(noise.state_dict())
        self.assertEqual(again.estimates(), got)

    def test_fisher(self) -> None:
        import torch

        import norn.torch as nt

        # By the definition, with a pass for each sample: the mean square of the gradient
        # of each weight, averaged over the weights of a unit.
        torch.manual_seed(0)
        first, second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
        fisher = nt.Fisher([first, second])
        self.assertIsNone(fisher.embedding())
        x, y = torch.randn(20, 3), torch.randint(2, (20,))

        def loss(of: slice) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(second(torch.tanh(first(x[of]))), y[of])

        want = [torch.zeros_like(layer.weight) for layer in (first, second)]
        for i in range(20):
            grads = torch.autograd.grad(loss(slice(i, i + 1)), [first.weight, second.weight])
            want = [w + g**2 / 20 for w, g in zip(want, grads)]
        loss(slice(0, 20)).backward()
        self.assertIsNone(fisher.embedding(), "it was not on")
        fisher.on = True
        loss(slice(0, 12)).backward()
        loss(slice(12, 20)).backward()
        got = fisher.embedding()
        assert got is not None
        self.assertEqual(len(got), 6)
        for a, b in zip(got, [float(u) for w in want for u in w.mean(1)]):
            self.assertAlmostEqual(a, b, delta=1e-5 * b)
        short = fisher.embedding(3)
        assert short is not None
        self.assertAlmostEqual(short[0], (got[0] + got[1]) / 2, places=6)

    def test_every_flipped_bit_of_a_checkpoint_is_seen(self) -> None:
        import torch

        from norn.torch import state

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c")
            state.save(path, {"x": torch.arange(64.0)}, state.About("m", 3))
            self.assertEqual(state.inspect(path, "m").step, 3)
            with open(path, "rb") as f:
                good = f.read()
            at = good.index(torch.arange(64.0).numpy().tobytes())
            for where in range(at, at + 256, 37):
                with open(path, "wb") as f:
                    f.write(good[:where] + bytes([good[where] ^ 4]) + good[where + 1 :])
                with self.assertRaisesRegex(state.Unusable, "damaged"):
                    state.inspect(path, "m")
            for size in range(0, len(good), 61):
                with open(path, "wb") as f:
                    f.write(good[:size])
                with self.assertRaises(state.Unusable):
                    state.inspect(path, "m")

    def test_moved(self) -> None:
        import collections

        import torch

        from norn.torch.loading import moved

        meta, t = torch.device("meta"), torch.zeros(2)
        pair = collections.namedtuple("pair", "a b")
        got = moved({"x": [t, (t, 3)], "p": pair(t, "s")}, meta)
        self.assertEqual((got["x"][0].device, got["x"][1][0].device, got["p"].a.device), (meta, meta, meta))
        self.assertEqual((got["x"][1][1], got["p"].b, type(got["x"][1]), type(got["p"])), (3, "s", tuple, pair))


if __name__ == "__main__":
    unittest.main()
