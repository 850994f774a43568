"""A scheduling policy of your own, as a program that norn sim asks.

    import norn.policy

    def decide(view, plan):
        for job in view.waiting:
            plan.start(job)

    norn.policy.run(decide)

    norn sim --policy 'fifo,exec(python3 mine.py)'

A policy decides from the view alone: it reads no clock and draws random numbers from
view.random only. It may keep what it could make again from a view, since Norn may kill the
program at any time and start it anew; the first view of a program has everything. It
remembers anything else about a job with plan.remember. What it prints goes to standard
error. Times are seconds since the start of the run, sizes are GPUs and bytes.
docs/external-policies.md describes what is spoken over standard input and output.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import sys
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

__all__ = ["Job", "Node", "Plan", "View", "run"]

VERSION = 1  # of the protocol
ACTIVE = ("waiting", "assigned", "running")  # phases of jobs about which a policy decides
OVER = ("done", "failed", "cancelled")  # phases of jobs that have left for good


class Job:
    """A job as it stands. The same object stands for it in all views of a program."""

    def __init__(self, view: "View", number: int) -> None:
        self._view = view
        self.id = number  # in order of submission
        self.key = self.name = self.user = self.tenant = self.app = ""
        self.submit = 0.0
        self.serial = number  # for life
        self.gpus = 0.0  # that it asks for
        self.tasks = self.min_tasks = self.max_tasks = 0  # as its user asked, and the range of an elastic one
        self.gpus_per_task = self.cpu = 0.0
        self.memory = self.gpu_memory = 0
        self.types: List[str] = []  # acceptable ones, best first; empty: any
        self.where = self.tolerate = self.within = ""
        self.prefer = False
        self.roles = 1
        self.kind = self.model = self.backbone = self.dataset = ""
        self.batch = self.priority = 0
        self.deadline: Optional[float] = None
        self.soft = False
        self.tier = self.stop = self.resize = ""

    def _specified(self, spec: Mapping[str, Any]) -> None:
        for name, value in spec.items():
            setattr(self, name, value)
        self.min_tasks = self.min_tasks or self.tasks
        self.max_tasks = self.max_tasks or self.tasks

    def _told(self, m: Mapping[str, Any]) -> None:
        get = m.get
        self.phase: str = m["phase"]  # held, waiting, assigned, running, stopping, done, failed, cancelled
        self.since: float = m["since"]  # the moment at which this phase, or what it has, began
        self.estimate: Optional[float] = get("estimate")  # of its run time; None: there is none
        self.first_start: Optional[float] = get("first_start")
        self.preemptions: int = get("preemptions", 0)
        self.failures: int = get("failures", 0)
        self.held: float = get("held", 0)  # GPUs that it has
        self.held_tasks: int = get("held_tasks", 0)
        self.devices: List[int] = get("devices", [])
        self.parts: List[float] = get("parts") or [1] * len(self.devices)  # of each of them
        self.ready: float = get("ready", 0)  # from when on it makes progress
        self.speed: float = get("speed", 0)
        self.start_takes: float = get("start_takes", 0)  # without progress, if it is started
        self.pace: float = get("pace", 1)
        self.speeds: Dict[str, float] = get("speeds", {})  # by GPU type, where there are several
        self.never: bool = get("never", False)  # it can never run on this cluster
        self.astray: bool = get("astray", False)  # it has what takes no new work
        self.next_save: Optional[float] = get("next_save")
        self.note: str = get("note", "")  # see Plan.remember
        self._run_time: float = get("run_time", 0)
        self._service: float = get("service", 0)
        self._progress: float = get("progress", 0)
        self._end: Optional[float] = get("end")
        self._unsaved: bool = get("unsaved", False)

    @property
    def running(self) -> bool:
        """Whether it has devices, or the cores that it asks for instead. It may still wait for others to leave them."""
        return self.held_tasks > 0

    @property
    def _passed(self) -> float:
        return self._view.now - self.since if self.phase in ("running", "stopping") else 0

    @property
    def run_time(self) -> float:
        """Seconds for which it has had devices."""
        return self._run_time + self._passed

    @property
    def service(self) -> float:
        """GPU-seconds that it has had."""
        return self._service + self.held * self._passed

    @property
    def wait(self) -> float:
        """Seconds without devices since it was submitted."""
        return self._view.now - self.submit - self.run_time

    @property
    def progress(self) -> float:
        """Work that it has done, as seconds of run time in the reference configuration."""
        if self.phase != "running":
            return self._progress
        return self._progress + max(0.0, self._view.now - self.ready) * self.speed

    @property
    def remaining(self) -> Optional[float]:
        """The estimate less the progress, at least 0; None without an estimate."""
        return None if self.estimate is None else max(0.0, self.estimate - self.progress)

    @property
    def end(self) -> Optional[float]:
        """When it ends if the estimate holds, not before now; None if nobody knows."""
        return None if self._end is None else max(self._view.now, self._end)

    @property
    def unsaved(self) -> bool:
        """Whether a stop would throw away all that it has done since it began."""
        return self._unsaved and (self.next_save is None or self.next_save > self._view.now)

    @property
    def stays(self) -> bool:
        """Whether it should be left where it is: it must not be stopped, or would lose its work."""
        return self.running and (self.stop in ("never", "restart") or self.unsaved)

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.key} {self.phase}>"


class Node:
    """A node of the cluster."""

    def __init__(self, m: Mapping[str, Any]) -> None:
        self.id: int = m["node"]
        self.name: str = m.get("name", "")
        self.usable: bool = not m.get("unusable", False)  # it takes new work
        self.gpus: List[Dict[str, Any]] = m["gpus"]  # groups: type, count, device (number of the first), pooled
        self.broken: List[int] = m.get("broken", [])
        self.cpu: float = m.get("cpu", 0)
        self.memory: int = m.get("memory", 0)
        self.within: Dict[str, str] = m.get("within", {})  # by level: rack, zone
        self.labels: Dict[str, str] = m.get("labels", {})
        self.devices: List[int] = []  # numbers; one that stands for several is listed once
        self.types: Dict[int, str] = {}  # by device
        for g in self.gpus:
            for d in range(g["device"], g["device"] + (1 if g.get("pooled") else g["count"])):
                self.devices.append(d)
                self.types[d] = g["type"]


class View:
    """What a policy may know at one moment."""

    def __init__(self, policy: str) -> None:
        self.policy = policy  # as tables name it
        self.now = 0.0
        self.first = True  # this program knew nothing before
        self.woken = False  # the moment has come that plan.wake asked for
        self.free = self.total = 0  # GPUs: wholly free ones, and usable ones
        self.jobs: Dict[int, Job] = {}  # those that have not ended, by number; held ones and those that are leaving their devices are among them
        self.nodes: Dict[int, Node] = {}
        self.types: List[Dict[str, Any]] = []
        self.tenants: List[Dict[str, Any]] = []  # those with a guarantee, limit, weight or children
        self.changed: List[Job] = []  # since the last view, by number
        self.ended: List[Job] = []  # of these, those that have left for good
        self._node_of: Dict[int, Node] = {}
        self._seed = 0
        self._order: Optional[List[Job]] = None
        self._random: Optional[random.Random] = None

    def _take(self, m: Mapping[str, Any]) -> None:
        self.now, self._seed, self._random, self._order = m["now"], m.get("random", 0), None, None
        self.first, self.woken = m.get("first", False), m.get("woken", False)
        self.free, self.total = m["free"], m["total"]
        if self.first:
            self.jobs, self.nodes, self._node_of = {}, {}, {}
            self.types, self.tenants = m["types"], m["tenants"]
        for n in m.get("nodes", ()):
            node = Node(n)
            self.nodes[node.id] = node
            for d in node.devices:
                self._node_of[d] = node
        self.changed, self.ended = [], []
        for j in m["jobs"]:
            number = j["job"]
            job = self.jobs.get(number) or Job(self, number)
            if "spec" in j:
                job._specified(j["spec"])  # pyright: ignore[reportPrivateUsage]
            job._told(j)  # pyright: ignore[reportPrivateUsage]
            self.jobs[number] = job
            self.changed.append(job)
            if job.phase in OVER:
                self.ended.append(job)
                del self.jobs[number]

    @property
    def active(self) -> List[Job]:
        """The jobs that wait or have devices, in order of submission."""
        if self._order is None:
            active = (j for _, j in sorted(self.jobs.items()))
            self._order = [j for j in active if j.phase in ACTIVE]
        return self._order

    @property
    def waiting(self) -> List[Job]:
        """The jobs that wait, in order of submission."""
        return [j for j in self.active if j.phase == "waiting"]

    @property
    def running(self) -> List[Job]:
        """The jobs that have devices, in order of submission."""
        return [j for j in self.active if j.running]

    @property
    def random(self) -> random.Random:
        """Random numbers that are the same whenever the run is repeated."""
        if self._random is None:
            self._random = random.Random(self._seed)
        return self._random

    def node(self, device: int) -> Node:
        """The node of a device."""
        return self._node_of[device]

    def usable(self, job: Job) -> float:
        """How much of what a job has takes new work, in GPUs."""
        total = 0.0
        for d, part in zip(job.devices, job.parts):
            node = self._node_of[d]
            if node.usable and d not in node.broken:
                total += part
        return total


JobOrNumber = Union[Job, int]


def _number(job: JobOrNumber) -> int:
    return job.id if isinstance(job, Job) else job


class Plan:
    """What should hold from now on. It is carried out act by act: what does not fit is left
    out, and that job waits. A plan that makes no sense, such as to start a job that runs,
    is an error that ends the simulation."""

    def __init__(self) -> None:
        self._acts: List[Dict[str, Any]] = []
        self._wake: Optional[float] = None

    def _add(self, verb: str, job: JobOrNumber, **fields: Any) -> None:
        act: Dict[str, Any] = {verb: _number(job)}
        act.update((k, v) for k, v in fields.items() if v is not None)
        self._acts.append(act)

    def start(self, job: JobOrNumber, tasks: Optional[int] = None, place: Optional[str] = None, devices: Optional[Sequence[int]] = None) -> None:
        """Start a job that waits: where a strategy says (norn policies --placements), or on these devices."""
        self._add("start", job, tasks=tasks, place=place, devices=devices)

    def stop(self, job: JobOrNumber, why: Optional[str] = None, room_for: Optional[JobOrNumber] = None) -> None:
        """Take a job off its devices; it waits again. room_for is the job that goes first."""
        room = None if room_for is None else _number(room_for)
        self._add("stop", job, why=why, **{"for": room})

    def resize(self, job: JobOrNumber, tasks: int, place: Optional[str] = None) -> None:
        """Give an elastic job another number of tasks."""
        self._add("resize", job, tasks=tasks, place=place)

    def move(self, job: JobOrNumber, place: Optional[str] = None, devices: Optional[Sequence[int]] = None) -> None:
        """Take a job to other devices."""
        self._add("move", job, place=place, devices=devices)

    def wait(self, job: JobOrNumber, why: str) -> None:
        """Say why a job waits."""
        self._add("wait", job, why=why)

    def remember(self, job: JobOrNumber, note: str) -> None:
        """Have note be there as job.note, also for a program that starts anew. "" forgets it."""
        self._add("remember", job, note=note or None)

    def wake(self, at: float) -> None:
        """Ask again at this moment, whatever happens until then. Of several the first counts."""
        if at < math.inf:
            self._wake = at if self._wake is None else min(at, self._wake)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is planned inside is done as a whole, or not at all if any of it does not fit."""
        outer, self._acts = self._acts, []
        try:
            yield
            outer.append({"all": self._acts})
        finally:
            self._acts = outer

    def _answer(self, decision: int) -> bytes:
        out: Dict[str, Any] = {"decision": decision, "plan": self._acts}
        if self._wake is not None:
            out["wake"] = self._wake
        return json.dumps(out, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def run(decide: Callable[[View, Plan], None], past: bool = False, stdin: Optional[BinaryIO] = None, stdout: Optional[BinaryIO] = None) -> None:
    """Decide whenever Norn asks, until it has nothing more to ask. With past the first view
    has the jobs that have ended before, too (view.ended)."""
    if stdout is None:
        sys.stdout.flush()
        stdout = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # nothing that is printed may come between the answers
    source = sys.stdin.buffer if stdin is None else stdin
    line = source.readline()
    if not line:
        return
    hello = _read(line)
    if hello.get("hello") != VERSION:
        raise SystemExit(f"norn.policy speaks version {VERSION} of the protocol, and was greeted with {line[:200]!r}")
    greeting: Dict[str, Any] = {"hello": VERSION}
    if past:
        greeting["past"] = True
    stdout.write(json.dumps(greeting).encode() + b"\n")
    stdout.flush()
    view = View(hello.get("policy", ""))
    while True:
        line = source.readline()
        if not line:
            return
        message = _read(line)
        view._take(message)  # pyright: ignore[reportPrivateUsage]
        plan = Plan()
        decide(view, plan)
        stdout.write(plan._answer(message["decision"]))  # pyright: ignore[reportPrivateUsage]
        stdout.flush()


def _read(line: bytes) -> Dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise SystemExit(f"this program is a policy, which Norn starts: norn sim --policy 'exec(python3 {sys.argv[0]})'; it read {line[:100]!r}")
    return message
