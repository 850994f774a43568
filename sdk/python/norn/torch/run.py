"""A training run that can be stopped, continued and resized."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from dataclasses import asdict
from itertools import chain, tee
from typing import Any, Callable, Dict, Generator, Iterator, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

import torch
from torch.nn.parallel import DistributedDataParallel

from ..balance import Balance
from ..job import Job, init
from ..outbox import Times
from ..proposer import Proposer, Trained
from ..samples import Order, Pass, Position, Work, batches, passes, remaining_steps, turns
from . import state
from .group import Agreement, Group
from .loading import Ask, end_loaders, loader, moved
from .measure import Noise, Waiting
from .turns import Turns, settle

log = logging.getLogger("norn")


class Run:
    """Trains a model on however many workers there are, and goes on where the run
    before has stopped.

    model, optimizer   as for one worker. Forward goes through run.model: with several
                       workers that is a DistributedDataParallel around model
    path               of the checkpoint, which all workers must see
    scheduler          of learning rates; one step of it follows each optimiser step
    extra              whatever else has state_dict and load_state_dict and shall be kept
    seed               of the order of samples
    save_every         seconds between checkpoints; one is written at a stop and at the
                       end anyway
    save_frozen        also keep parameters that are not trained; without, the script
                       makes them again before it makes the Run
    update             is called instead of optimizer.step(), such as to clip gradients
    on_batch           call(old, new) on all workers before the global batch size changes
                       as Norn wishes, such as to scale learning rates; without,
                       such wishes are not followed
    proposer           says at the end of every few epochs with which global batch to go on
                       (norn.proposer, Arbiter); Norn's wishes, where on_batch is told, go first
    noise              estimate the gradient's square and variance at each step; one
                       worker then takes each batch in two passes or more
    report_every       steps between two reports; default 1, and 10 on GPUs, which a
                       report makes the program wait for
    logical_workers    train as so many workers would, to the bit, on any number of processes
                       up to that: they take turns (EasyScale). Default: as Norn says, of
                       a job that resizes by turns; or as the checkpoint; else processes
                       are the workers
    device, backend    default: a GPU and NCCL where there are any, else CPU and Gloo
    ddp                further arguments of DistributedDataParallel

    What the result does not depend on: how many workers there are, and when it is
    stopped, as far as the model computes each sample by itself. Dropout and other
    random numbers are continued exactly on the same number of workers, and differ
    on another; batch normalisation looks at what a worker has of a batch. With
    logical_workers it depends on none of this.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        path: str,
        *,
        scheduler: Any = None,
        extra: Optional[Mapping[str, Any]] = None,
        seed: int = 0,
        save_every: float = 600.0,
        save_frozen: bool = True,
        update: Optional[Callable[[], object]] = None,
        on_batch: Optional[Callable[[int, int], object]] = None,
        proposer: Optional[Proposer] = None,
        noise: bool = False,
        report_every: Optional[int] = None,
        logical_workers: Optional[int] = None,
        device: Optional[str] = None,
        backend: Optional[str] = None,
        ddp: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.job: Job = init()
        with self._nothing_to_lose():
            self._group = Group(self.job, device, backend)
        self.job.cap_gpu_memory()
        self.rank, self.world_size, self.device = self._group.rank, self._group.world, self._group.device
        self.path = path
        self.loss: Optional[float] = None  # mean over the batch of the last step that was reported
        self.indices: List[int] = []  # samples of the present pass of this worker that count
        self._bare = model.to(self.device)
        self._optimizer, self._scheduler, self._extra = optimizer, scheduler, dict(extra or {})
        self._update: Callable[[], object] = update or optimizer.step
        self._on_batch, self._proposer, self._seed = on_batch, proposer, seed
        self._save_every, self._save_frozen = save_every, save_frozen
        self._report_every = report_every or (10 if self.device.type == "cuda" else 1)
        self._noise = Noise(list(model.parameters())) if noise else None
        self._at, self._saved_step, self._saved_time = Position(), 0, time.monotonic()
        self._wants_save = self._finished = False
        self._batch = 0  # global batch size; of a checkpoint until batches() is called
        self._batch_ordered = 0  # as Norn has ordered it, or the proposer said; 0: never
        self._samples = 0  # of an epoch, as the checkpoint knows it; 0: not known
        self._rng: Optional[Dict[str, Any]] = None
        self._work: Optional[Work] = None
        self._pass: Optional[Pass] = None
        self._weight = 1.0
        self._counts = self._losses = 0.0
        self._agreement: Optional[Agreement] = None
        self._agreed: Optional[List[float]] = None
        self._times, self._opened, self._passes, self._largest = Times(), 0.0, 0, 0
        self._starts = True  # the next pass is the first of a step
        self._balance = Balance("equal", self.world_size)
        self._spent = (0.0, 0.0, 0)  # seconds of fetching and computing, and samples, of the present step
        self._worked = 0.0  # seconds of the present step, waiting for others included
        self._signature = state.signature(model)
        self._logical, self._threads = logical_workers or self.job.workers, None
        self._turns: Optional[Turns] = None
        with self._nothing_to_lose():
            self.resumed = self._restore()  # whether it goes on from a checkpoint
            self.model: Any = self._wrapped(ddp or {})

    # Where it stands.

    @property
    def step_count(self) -> int:
        """Optimiser steps done, over all runs."""
        return self._at.step

    @property
    def end_of_epoch(self) -> bool:
        """The last step was the last of its epoch: a moment to validate."""
        return self._at.offset == 0 and self._at.step > 0 and self._pass is None

    @property
    def stopping(self) -> bool:
        """The run ends, to be continued, when the body of the loop has: leave out what
        takes long."""
        return self._agreed is not None and self._agreed[0] > 0

    # The loop.

    def batches(
        self,
        dataset: Any,
        global_batch: int,
        epochs: Optional[int] = None,
        steps: Optional[int] = None,
        *,
        local_batch: Optional[int] = None,
        drop_last: bool = False,
        collate: Optional[Callable[[List[Any]], Any]] = None,
        workers: int = 0,
        balance: str = "equal",
    ) -> Generator[Tuple[int, int, Any], None, None]:
        """Gives (epoch, step, batch), from where the run before has stopped to the end
        of so many epochs or steps. Each must be answered by one run.step(loss).

        dataset has a length and an item for each number below it. A step trains
        global_batch samples in all, divided over the workers; a worker that gets more
        than local_batch of them takes them in several passes, all of the same step.
        workers is how many processes load data. balance says how a batch is divided:
        equal; by the time in which each worker fetches and computes samples, so that
        all are done together (time); or by that of computing alone (compute). The
        samples of a step and its gradient stay the same. With logical_workers it is these that
        are divided, not the batch. Between two rounds of the loop the
        run is saved and ended if it has to stop. After the last it is finished.
        """
        if global_batch < 1 or (local_batch is not None and local_batch < 1) or workers < 0:
            raise ValueError("batch sizes must be at least 1")
        if epochs is None and steps is None:
            raise ValueError("tell how many epochs, or how many steps")
        if self._work is not None:
            raise RuntimeError("batches() was called before: a run is one loop")
        n = len(dataset)
        if drop_last and n < global_batch:
            raise ValueError(f"there are {n} samples, less than a batch of {global_batch}")
        if self._at.offset > 0 and n != self._samples:
            raise ValueError(f"the checkpoint stands in the middle of an epoch of {self._samples} samples, and now there are {n}")
        self._balance = Balance(balance, self.world_size)
        self._work, self._samples = Work(n, epochs, steps, drop_last), n
        self._batch = self._batch_ordered or global_batch
        self._restore_rng()
        with self._nothing_to_lose():
            self._agreed = self._agree(0.0, 0.0).wait()
        self._between()
        least = 2 if self._noise is not None and max(self.world_size, self._logical) == 1 else 1
        while not self._work.over(self._at):
            yield from self._stretch(dataset, local_batch, least, collate, workers)
        self.finish()

    def _stretch(
        self, dataset: Any, most: Optional[int], least: int, collate: Any, workers: int
    ) -> Generator[Tuple[int, int, Any], None, None]:
        """The rest of an epoch, as long as batches keep their size."""
        assert self._work is not None
        work, size, epoch = self._work, self._batch, self._at.epoch
        order = Order(work.samples, self._seed, epoch)
        steps = batches(work.samples, self._at.offset, size, work.drop_last)
        ahead, now = tee(chain.from_iterable(self._passes_of(order, at, most, least) for at in steps))
        seed = state.number(self._seed, self._at.step, self.rank)
        asks = (Ask(p.indices, self._drawn(epoch, p)) for p in ahead)
        loaded: Iterator[Any] = iter(loader(dataset, asks, collate, workers, self.device, seed))
        for p in now:
            began = time.perf_counter()
            data = moved(next(loaded), self.device)
            self._open(p, time.perf_counter() - began)
            yield epoch, self._at.step, data
            if self._pass is not None:
                raise RuntimeError("a batch was not trained: call run.step(loss) for each")
            if not p.last:
                continue
            if work.over(self._at):
                return  # and finish, even if it has to stop
            self._between()
            if self._batch != size or self._rebalanced():
                return

    def _passes_of(self, order: Order, at: range, most: Optional[int], least: int) -> List[Pass]:
        """The passes of this process through the step at those positions."""
        if self._turns is not None:
            return turns(order, at, self._turns.mine, self._turns.workers, most, least)
        return passes(order, at, self.rank, self.world_size, most, least, self._balance.split(len(at)))

    def _drawn(self, epoch: int, p: Pass) -> Optional[int]:
        """The seed of random numbers with which the samples of a pass are loaded, where these
        must not depend on the process that loads them."""
        if self._turns is None:
            return None
        return state.number(self._seed, epoch, p.worker, p.number, *p.indices)

    def _rebalanced(self) -> bool:
        """Between two steps: measures, and tells whether batches are divided otherwise from
        now on. All workers look at the same steps, and decide the same."""
        b = self._balance
        fetch, compute, samples = self._spent
        self._spent = (0.0, 0.0, 0)
        b.meter.add(samples if self._turns is None else len(self._turns.mine), fetch, compute)
        if b.by == "equal" or self.world_size == 1 or self._at.step % b.EVERY != 0:
            return False
        at = 3 * self.rank
        mine = [0.0] * (3 * self.world_size)
        mine[at : at + 3] = b.meter.numbers
        n = self._group.agree(mine).wait()
        costs = [(n[i], n[i + 1], n[i + 2]) for i in range(0, len(n), 3)]
        if self._turns is None:
            return b.look(self._batch, costs)
        changes = b.look(self._turns.workers, costs)
        if changes:
            self._turns.divide(b.shares)
        return changes

    def _open(self, p: Pass, waited: float) -> None:
        """Before a pass."""
        if self._turns is not None:
            self._turns.begin(p, self._at.step)
        if self._starts:
            self._passes = self._largest = 0
        self._starts = p.last
        self._pass = p
        self._passes, self._largest = self._passes + 1, max(self._largest, p.counted)
        self.indices = p.indices[: p.counted]
        self._spent = (self._spent[0] + waited, self._spent[1], self._spent[2] + p.counted)
        self._times.total += waited
        self._times.stages["storage"] = self._times.stages.get("storage", 0.0) + waited
        if self._ddp is not None:
            self._ddp.require_backward_grad_sync = p.last
        self._forwards = 0
        self._opened = time.perf_counter()

    def step(self, loss: torch.Tensor, count: Optional[float] = None) -> bool:
        """Does backward of the loss, which is the mean over the samples of the batch,
        or over count other things in it, such as tokens; and after the last pass of a
        step the optimiser's step. Gradients are zero then. Tells whether it was the
        last pass: without local_batch and noise it always is."""
        p = self._pass
        if p is None:
            raise RuntimeError("run.step(loss) belongs into the loop over run.batches, once for each batch")
        if self._ddp is not None and self._forwards == 0:
            raise RuntimeError("the loss was not computed through run.model: gradients would not be exchanged")
        counted = float(p.counted if count is None or p.counted == 0 else count)
        # DistributedDataParallel takes the mean over workers, the optimiser wants
        # that over samples.
        self._weight = counted / p.batch * (1 if self._ddp is None else self.world_size)
        self._counts += counted
        if self._reports():
            self._losses += float(loss.detach()) * counted
        if p.last:
            # Under way while backward computes.
            self._agreement = self._agree(self._losses, self._counts)
        (loss if self._weight == 1.0 else loss * self._weight).backward()
        self._computed(p)
        if self._noise is not None:
            self._noise.passed(p.counted, self._weight)
        if p.last:
            if self._waiting is not None:
                self._waiting.end()
            self._update_weights(p)
        self._pass = None
        took = time.perf_counter() - self._opened
        self._times.total += took
        self._worked += took
        if p.last:
            step, epoch = self._at.step, self._at.epoch
            self._advance(p)
            if self._proposer is not None and self.rank == 0:
                self._proposer.stepped(Trained(step, epoch, p.batch, self._worked, self.loss, self._noise_scale()))
        return p.last

    def _noise_scale(self) -> Optional[float]:
        seen = {} if self._noise is None else self._noise.estimates()
        square, var = seen.get("grad_sqr", 0.0), seen.get("grad_var")
        return var / square if var is not None and square > 0 else None

    def _computed(self, p: Pass) -> None:
        """A pass was computed; waiting for the gradients of others does not count."""
        if self._balance.by == "equal":
            return
        if p.last and self._waiting is not None:
            self._waiting.end()
        took = time.perf_counter() - self._opened
        if p.last and self._ddp is not None and self._waiting is not None:
            took -= self._waiting.seconds()
        self._spent = (self._spent[0], self._spent[1] + max(0.0, took), self._spent[2])

    def _update_weights(self, p: Pass) -> None:
        assert self._agreement is not None
        if self._turns is not None:
            self._turns.exchange()
        self._agreed, self._agreement = self._agreement.wait(), None
        total = self._agreed[4]
        if total not in (0.0, float(p.batch)):
            # Gradients are sums over what was counted, divided by samples.
            grads = [g.grad for group in self._optimizer.param_groups for g in group["params"] if g.grad is not None]
            for g in grads:
                g.mul_(p.batch / total)
        if self._noise is not None:
            self._noise.stepped(self._group, p.batch)
        self._update()
        if self._scheduler is not None:
            self._scheduler.step()
        # All of the model: a parameter that no optimiser knows must not pile up.
        self._optimizer.zero_grad(set_to_none=True)
        self._bare.zero_grad(set_to_none=True)
        if self._reports():
            self.loss = self._agreed[3] / total if total else None
        self._counts = self._losses = 0.0

    def _advance(self, p: Pass) -> None:
        """A step was done."""
        assert self._work is not None
        reports, at, w = self._reports(), self._at, self._work
        self._times.steps += 1
        at.step += 1
        at.samples += p.batch
        at.offset += p.batch
        if remaining_steps(w.samples, at.offset, self._batch, w.drop_last) == 0:
            at.epoch, at.offset = at.epoch + 1, 0
        if reports:
            self._report(w)

    def _report(self, work: Work) -> None:
        at, t = self._at, self._times
        self._times = Times()
        t.sync = t.steps * (0.0 if self._waiting is None else self._waiting.seconds())
        t.compute = max(0.0, t.total - t.stages["storage"] - t.sync)
        t.stages["network"] = t.sync
        t.stages["gpu" if self.device.type == "cuda" else "cpu"] = t.compute
        self.job.measured(t)
        if self.rank > 0:
            self.job.report(step=at.step, gpu_memory=self._gpu_memory())
            return
        noise = {} if self._noise is None else self._noise.estimates()
        self.job.report(
            step=at.step,
            steps=work.total(at, self._batch),
            epoch=at.epoch + at.offset / work.samples,
            samples=at.samples,
            loss=self.loss,
            lr=self._optimizer.param_groups[0].get("lr"),
            batch=self._batch,
            local_batch=self._largest,
            accumulation=self._passes,
            gpu_memory=self._gpu_memory(),
            grad_sqr=noise.get("grad_sqr"),
            grad_var=noise.get("grad_var"),
        )

    def _gpu_memory(self) -> Optional[int]:
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None

    def _reports(self) -> bool:
        return self._at.step % self._report_every == 0

    # What workers agree on, and what becomes of it.

    def _agree(self, loss: float, count: float) -> Agreement:
        """Adds up: who has to stop, who wants a checkpoint, the batch size that rank 0
        was told, losses, counts, the throttle that rank 0 was told."""
        due = self.rank == 0 and time.monotonic() - self._saved_time >= self._save_every
        batch = self.job.batch if self.rank == 0 and self._on_batch is not None else 0
        batch = batch or self._proposal()
        throttle = self.job.throttle if self.rank == 0 else 0
        wishes = [float(self.job.should_stop()), float(self._wants_save or due), float(batch)]
        return self._group.agree([*wishes, loss, count, float(throttle)])

    def _proposal(self) -> int:
        """The batch that the proposer wants from the next epoch on, if the present step is
        the last of an interval; else 0."""
        p, w = self._pass, self._work
        if self._proposer is None or self.rank > 0 or p is None or w is None:
            return 0
        ends = remaining_steps(w.samples, self._at.offset + p.batch, self._batch, w.drop_last) == 0
        if not ends or (self._at.epoch + 1) % self._proposer.every != 0:
            return 0
        return max(1, min(w.samples, int(self._proposer.propose())))

    def _between(self) -> None:
        """Between two steps: does what was agreed on at the last one."""
        if self._agreed is None:
            return
        stop, save, batch, *_ = self._agreed
        if stop > 0:
            self._leave()
        if save > 0:
            self._save()
        if batch > 0 and int(batch) != self._batch:
            old, self._batch, self._batch_ordered = self._batch, int(batch), int(batch)
            if self._on_batch is not None:
                self._on_batch(old, self._batch)
        self._pace(int(self._agreed[5]))
        self._agreed = None

    def _pace(self, throttle: int) -> None:
        """Leaves the devices to others after a step, all workers at the same time."""
        worked, self._worked = self._worked, 0.0
        if throttle <= 0:
            return
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # what the step has still to do is done in its own time
        waited = 0.0 if self._waiting is None else self._waiting.seconds()
        self.job.pace(max(0.0, worked - waited), throttle)

    def save(self) -> None:
        """Asks for a checkpoint after the step that comes next. One worker that asks is
        enough."""
        self._wants_save = True

    def finish(self) -> None:
        """Ends the job: saves it, and tells Norn. Done at the end of batches(); a script
        that breaks off the loop calls it itself, on all workers."""
        if self._finished:
            return
        self._finished = True
        error = self._save()
        if error is not None:
            raise RuntimeError(f"the last checkpoint could not be written: {error}")
        if self.rank == 0:
            self.job.finished()

    def _leave(self) -> NoReturn:
        """Saves, and exits with 75. All workers come here after the same step."""
        error = self._save()
        self._group.part()
        end_loaders()
        if error is not None:
            print(f"norn: no checkpoint could be written: {error}", file=sys.stderr)
            self.job.close()
            raise SystemExit(1)
        self.job.vanish()

    def _save(self) -> Optional[str]:
        """Writes a checkpoint, unless there is one of this step, and returns what went
        wrong. All workers call it together, and get the same answer."""
        self._wants_save = False
        if self._at.step == self._saved_step:
            return None
        rngs = self._group.gather(state.rng_state(self.device))
        error: Optional[str] = None
        if self.rank == 0:
            try:
                about = state.About(self._signature, self._at.step, self.job.id, self.job.run)
                state.save(self.path, self._state(rngs), about)
            except Exception as err:  # whatever it is: training is worth more
                error = f"{type(err).__name__}: {err}"
                log.warning("%s: no checkpoint at step %d: %s", self.path, self._at.step, error)
        error = self._group.from_first(error)
        self._saved_time = time.monotonic()
        if error is None:
            self._saved_step = self._at.step
            if self.rank == 0:
                self.job.report(step=self._at.step, samples=self._at.samples)
                self.job.checkpoint_saved(self._at.step, self.path)
        return error

    # What is kept.

    def _parts(self) -> Dict[str, Any]:
        """All that has a state of its own, but the model."""
        named = {"optimizer": self._optimizer, "scheduler": self._scheduler, "noise": self._noise, "proposer": self._proposer}
        named.update({f"extra.{k}": v for k, v in self._extra.items()})
        return {k: v for k, v in named.items() if v is not None}

    def _state(self, rngs: Sequence[Any]) -> Dict[str, Any]:
        model = self._bare.state_dict()
        for name in self._left_out():
            del model[name]
        return {
            "model": model,
            **{k: v.state_dict() for k, v in self._parts().items()},
            "position": asdict(self._at),
            "rng": list(rngs),
            "seed": self._seed,
            "samples": self._samples,
            "batch": self._batch_ordered,
            "logical": self._logical,
            "threads": self._threads,
        }

    def _left_out(self) -> List[str]:
        if self._save_frozen:
            return []
        return [name for name, p in self._bare.named_parameters() if not p.requires_grad]

    def _restore(self) -> bool:
        """Goes on from the newest checkpoint, if there is one: all workers or none."""
        found: Optional[state.Found] = None
        error: Optional[str] = None
        if self.rank == 0:
            try:
                found = state.newest(self.path, self._signature)
            except (state.Unusable, OSError) as err:
                error = str(err)
        found, error = self._group.from_first((found, error))
        if found is not None:
            try:
                self._take(state.load(found))
            except Exception as err:
                error = f"{found.path}: {type(err).__name__}: {err}"
        errors = [e for e in self._group.gather(error) if e is not None]
        if errors:
            raise state.Unusable(errors[0])
        if found is not None and self.rank == 0:
            # The report of the run before may have been lost.
            self.job.report(step=self._at.step, samples=self._at.samples)
            self.job.checkpoint_saved(self._at.step, found.path)
        return found is not None

    def _take(self, saved: Dict[str, Any]) -> None:
        if saved["seed"] != self._seed:
            raise ValueError(f"it was trained with seed {saved['seed']}, and now the seed is {self._seed}")
        left_out = set(self._left_out())
        missing, unknown = self._bare.load_state_dict(saved["model"], strict=False)
        wrong = sorted(set(missing) - left_out) + sorted(unknown)
        if wrong:
            raise ValueError(f"{wrong[0]} is in the model or in the checkpoint only")
        for name, part in self._parts().items():
            if name in saved:
                part.load_state_dict(saved[name])
            elif name not in ("noise", "proposer"):
                raise ValueError(f"it has no {name}")
        logical = saved.get("logical", 0)
        if logical and self._logical not in (0, logical):
            raise ValueError(f"it was trained by {logical} workers that take turns, and now there are {self._logical}")
        self._logical, self._threads = self._logical or logical, saved.get("threads")
        self._at = Position(**saved["position"])
        self._saved_step = self._at.step
        self._samples, self._batch_ordered = saved["samples"], saved["batch"]
        if self._on_batch is None and self._proposer is None:
            self._batch_ordered = 0
        if self.rank < len(saved["rng"]):
            self._rng = saved["rng"][self.rank]

    def _restore_rng(self) -> None:
        """Random numbers go on where they were; of a worker that was not there, they
        are others than those of the rest."""
        if self._rng is not None:
            state.set_rng_state(self.device, self._rng)
            self._rng = None
        elif self.rank > 0:
            state.seed_rng(state.number(self._seed, self._at.step, self.rank))

    def _wrapped(self, ddp: Mapping[str, Any]) -> Any:
        self._ddp: Any = None
        self._waiting: Union[Waiting, Turns, None] = None
        self._forwards = 0
        if self._logical > 0:
            self._threads = settle(self.device, self._group.from_first(self._threads))
            self._waiting = self._turns = Turns(self._bare, self._group, self._logical, self._seed)
            return self._bare
        if self.world_size == 1 or not any(p.requires_grad for p in self._bare.parameters()):
            return self._bare
        ids = [self.device] if self.device.type == "cuda" else None
        self._ddp = DistributedDataParallel(self._bare, device_ids=ids, **ddp)
        self._waiting = Waiting(self._ddp, self.device)
        self._ddp.register_forward_pre_hook(self._forward_seen)
        return self._ddp

    @contextlib.contextmanager
    def _nothing_to_lose(self) -> Generator[None, None, None]:
        """Around what workers do together before the first step. It fails when one of
        them has already left since it was told to stop; the others leave likewise."""
        try:
            yield
        except RuntimeError:
            for _ in range(20):  # two seconds: all are told, but not at the same moment
                if self.job.world_size == 1:
                    break
                if self.job.should_stop():
                    self.job.leave()
                time.sleep(0.1)
            raise

    def _forward_seen(self, *_: Any) -> None:
        self._forwards += 1
