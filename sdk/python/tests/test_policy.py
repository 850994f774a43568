"""Policies over standard input and output."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import unittest
from typing import Any, Callable, Dict, List

from norn import policy

HELLO: Dict[str, Any] = {"hello": 1, "policy": "exec(x)"}
FIRST: Dict[str, Any] = {
    "decision": 1, "now": 100, "first": True, "random": 12345, "free": 2, "total": 6, "types": [{"type": "A"}], "tenants": [],
    "nodes": [
        {"node": 0, "name": "n0", "gpus": [{"type": "A", "count": 4, "device": 0}], "broken": [3]},
        {"node": 1, "name": "n1", "unusable": True, "gpus": [{"type": "A", "count": 2, "device": 4}], "within": {"rack": "r"}},
    ],
    "jobs": [
        {"job": 0, "spec": {"key": "a", "submit": 10, "gpus": 2, "tasks": 2, "stop": "checkpoint"}, "phase": "running", "since": 40, "estimate": 90,
         "run_time": 5, "service": 10, "progress": 4, "held": 2, "held_tasks": 2, "ready": 50, "speed": 0.5, "end": 222, "devices": [3, 4]},
        {"job": 1, "spec": {"key": "b", "submit": 30, "gpus": 1, "tasks": 1, "min_tasks": 1, "max_tasks": 4, "stop": "last-save"}, "phase": "waiting", "since": 30, "start_takes": 3},
    ],
}  # fmt: skip


def talk(decide: Callable[[policy.View, policy.Plan], None], *messages: Dict[str, Any], past: bool = False) -> List[Dict[str, Any]]:
    lines = "".join(json.dumps(m) + "\n" for m in (HELLO, *messages))
    out = io.BytesIO()
    policy.run(decide, past=past, stdin=io.BytesIO(lines.encode()), stdout=out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


class Policies(unittest.TestCase):
    def test_view(self) -> None:
        def decide(view: policy.View, plan: policy.Plan) -> None:
            a, b = view.active
            self.assertEqual((view.waiting, view.running, view.changed, view.first), ([b], [a], [a, b], True))
            self.assertEqual((a.run_time, a.service, a.wait, a.progress, a.remaining, a.end), (65, 130, 25, 29, 61, 222))
            self.assertEqual((b.run_time, b.wait, b.remaining, b.end, b.start_takes, b.max_tasks, a.max_tasks), (0, 70, None, None, 3, 4, 2))
            self.assertEqual((view.node(4).name, view.nodes[1].within, view.usable(a)), ("n1", {"rack": "r"}, 0))
            self.assertFalse(a.stays)

        self.assertEqual(talk(decide, FIRST), [{"hello": 1}, {"decision": 1, "plan": []}])

    def test_changes(self) -> None:
        seen: List[Any] = []

        def decide(view: policy.View, plan: policy.Plan) -> None:
            seen.append((view.now, [j.key for j in view.active], [j.key for j in view.ended], view.random.random()))
            if view.now == 120:
                b = view.jobs[1]
                self.assertEqual((b.submit, b.held, b.stays, b.start_takes, b.key), (30, 1, True, 0, "b"))
            if view.now == 140:
                self.assertFalse(view.jobs[1].stays)  # it has saved its state at 130

        second = {"decision": 2, "now": 120, "random": 1, "free": 2, "total": 6, "jobs": [
            {"job": 0, "phase": "done", "since": 120},
            {"job": 1, "phase": "running", "since": 110, "held": 1, "held_tasks": 1, "ready": 110, "speed": 1, "devices": [0], "unsaved": True, "next_save": 130},
        ]}  # fmt: skip
        third = {"decision": 3, "now": 140, "random": 1, "free": 2, "total": 6, "jobs": []}
        talk(decide, FIRST, second, third)
        self.assertEqual([s[:3] for s in seen], [(100, ["a", "b"], []), (120, ["b"], ["a"]), (140, ["b"], [])])
        self.assertEqual(seen[1][3], seen[2][3])
        self.assertNotEqual(seen[0][3], seen[1][3])

    def test_plan(self) -> None:
        def decide(view: policy.View, plan: policy.Plan) -> None:
            a, b = view.active
            with plan.together():
                plan.stop(a, why="so", room_for=b)
                plan.start(b, tasks=2, place="best-fit")
            plan.start(1, devices=[0, 1])
            plan.resize(a, 3)
            plan.move(a, place="pack")
            plan.wait(b, "because")
            plan.remember(a, "x")
            plan.remember(b, "")
            plan.wake(300)
            plan.wake(200)
            plan.wake(float("inf"))

        self.assertEqual(talk(decide, FIRST, past=True), [{"hello": 1, "past": True}, {"decision": 1, "wake": 200, "plan": [
            {"all": [{"stop": 0, "why": "so", "for": 1}, {"start": 1, "tasks": 2, "place": "best-fit"}]},
            {"start": 1, "devices": [0, 1]}, {"resize": 0, "tasks": 3}, {"move": 0, "place": "pack"},
            {"wait": 1, "why": "because"}, {"remember": 0, "note": "x"}, {"remember": 1},
        ]}])  # fmt: skip

    def test_together_fails(self) -> None:
        def decide(view: policy.View, plan: policy.Plan) -> None:
            try:
                with plan.together():
                    plan.stop(0)
                    raise KeyError
            except KeyError:
                plan.start(1)

        self.assertEqual(talk(decide, FIRST)[1]["plan"], [{"start": 1}])

    def test_prints_go_to_stderr(self) -> None:
        program = "import norn.policy\ndef decide(view, plan): print('mine')\nnorn.policy.run(decide)\n"
        lines = json.dumps(HELLO) + "\n" + json.dumps(FIRST) + "\n"
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
        done = subprocess.run([sys.executable, "-c", program], input=lines, capture_output=True, text=True, cwd=root, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, "mine\n"))
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()], [{"hello": 1}, {"decision": 1, "plan": []}])

    def test_by_hand(self) -> None:
        with self.assertRaisesRegex(SystemExit, "which Norn starts"):
            policy.run(lambda view, plan: None, stdin=io.BytesIO(b"hi\n"), stdout=io.BytesIO())
        with self.assertRaisesRegex(SystemExit, "version 1 of the protocol"):
            policy.run(lambda view, plan: None, stdin=io.BytesIO(b'{"hello":9}\n'), stdout=io.BytesIO())
        policy.run(lambda view, plan: None, stdin=io.BytesIO(b""), stdout=io.BytesIO())


if __name__ == "__main__":
    unittest.main()
