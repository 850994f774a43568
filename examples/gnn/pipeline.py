"""Sampling and training side by side on the cores of a job, by the rules of package
policy/bytegnn/pipeline: cores go from one phase to the other by the queue between them,
and operators run by the age of their batch and the way that is left to its end.

Cores are thousandths here. A phase may use so many core-seconds of CPU time in a second as
it has cores, measured by the clock of its threads, so that a split of 1.3 to 0.7 on two
processors is kept.
"""

import heapq
import threading
import time

SAMPLING, TRAINING = 0, 1
WEIGHT = 0.2  # of a new measurement in the averages of the cost of a batch


def balanced(cores, step, sampling, training):
    """How many thousandths of cores sample where both phases keep pace."""
    if sampling + training <= 0:
        return max(step, cores // 2 // step * step)
    want = round(cores * sampling / (sampling + training) / step) * step
    return min(max(step, want), cores - step)


class Controller:
    """Divides cores between sampling and training, and limits the batches in flight."""

    def __init__(self, cores, step=50, low=2, high=4, in_flight=8):
        self.step, self.low, self.high, self.in_flight, self.most = step, low, high, in_flight, 4 * in_flight
        self.cost = [0.0, 0.0]  # core-seconds of a batch
        self.split = 0
        self.resize(cores)

    def resize(self, cores):
        """The job has other cores from now on; the parts of both phases stay."""
        cores = max(2 * self.step, int(cores))
        part = self.split / self.cores if self.split else 0.5
        self.cores = cores
        self.split = min(max(self.step, round(part * cores / self.step) * self.step), cores - self.step)

    def took(self, phase, seconds):
        self.cost[phase] += (WEIGHT if self.cost[phase] else 1) * (seconds - self.cost[phase])

    def adjust(self, queue, in_flight, idle):
        want = balanced(self.cores, self.step, *self.cost)
        known = min(self.cost) > 0
        if queue > self.high:
            if self.split == self.step:
                self.in_flight = max(1, self.in_flight - 1)
            self.move(-self.step)
        elif queue < self.low and idle and in_flight >= self.in_flight and self.in_flight < self.most:
            self.in_flight += 1
        elif queue < self.low and not (known and self.split > want):
            self.move(self.step)
        elif known and want != self.split:
            self.move(self.step if want > self.split else -self.step)

    def move(self, by):
        self.split = min(max(self.step, self.split + by), self.cores - self.step)


class Operator:
    """One operator of a batch: the function that does it, and those that wait for it."""

    def __init__(self, name, phase, run, needs=(), level=1.0, wait=0.0):
        self.name, self.phase, self.run, self.needs, self.level = name, phase, run, needs, level
        self.wait = wait  # seconds until another server answers, for which it is on no core


class Pipeline:
    """Runs the DAGs of batches, each made by make(number, state), on threads.

    Training is one batch after the other in the order of their numbers, so that the result is
    that of one batch at a time."""

    def __init__(self, make, first, last, cores, controller, threads, period=0.1):
        self.make, self.next_batch, self.last, self.controller, self.period = make, first, last, controller, period
        self.cores = cores  # asked once a period: thousandths
        self.turn = first  # the batch that is trained on next
        self.ready = ([], [])
        self.waiting = []  # operators that wait for another server, by when it answers
        self.flight, self.queued, self.active = 0, 0, [0, 0]
        self.credit, self.filled = [0.05, 0.05], time.monotonic()
        self.left, self.spent = {}, {}
        self.stop = False
        self.error = None
        self.splits = []
        self.lock = threading.Condition()
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(threads)]

    def run(self, each):
        """Until the last batch is trained on, or each(number) answers False after a batch."""
        self.each = each
        with self.lock:
            self.admit()
        for t in self.threads:
            t.start()
        while any(t.is_alive() for t in self.threads):
            cores = self.cores()
            with self.lock:
                if abs(cores - self.controller.cores) >= 1:
                    self.controller.resize(cores)
                idle = self.active[SAMPLING] * 1000 < self.controller.split and not self.ready[SAMPLING]
                self.controller.adjust(self.queued, self.flight, idle)
                self.splits.append((self.controller.split, self.controller.cores))
                self.lock.notify_all()
            self.threads[0].join(self.period)
        if self.error:
            raise self.error
        return self.turn

    def admit(self):
        # None begins while the queue is above its band: with the least of cores and one batch in
        # flight, sampling may still be faster than training.
        while self.next_batch < self.last and self.flight < self.controller.in_flight and self.queued <= self.controller.high:
            number, state = self.next_batch, {}
            ops = self.make(number, state)
            self.next_batch += 1
            self.flight += 1
            self.left[number] = (ops, {o.name: set(o.needs) for o in ops}, state)
            self.spent[number] = [0.0, 0.0]
            for o in ops:
                if not o.needs:
                    self.free(number, o)

    def free(self, number, op):
        """Nothing that an operator needs is missing."""
        if op.wait > 0:
            heapq.heappush(self.waiting, (time.monotonic() + op.wait, number, op.name, op))
        else:
            self.enter(number, op)

    def answered(self):
        """Operators whose servers have answered are ready. Returns how long the next one takes."""
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            _, number, _, op = heapq.heappop(self.waiting)
            self.enter(number, op)
        return min(0.05, self.waiting[0][0] - now) if self.waiting else 0.05

    def enter(self, number, op):
        # The older batch first, then the longer way to the end of its batch.
        heapq.heappush(self.ready[op.phase], (number, -op.level, op.name, op))

    def refill(self):
        now = time.monotonic()
        for phase, cores in enumerate((self.controller.split, self.controller.cores - self.controller.split)):
            most = max(0.05, cores / 1000 * 0.1)
            self.credit[phase] = min(most, self.credit[phase] + (now - self.filled) * cores / 1000)
        self.filled = now

    def startable(self, phase):
        if not self.ready[phase]:
            return False
        number, _, name, _ = self.ready[phase][0]
        return phase == SAMPLING or self.active[TRAINING] == 0 and number == self.turn

    def choose(self):
        self.refill()
        for phase in (TRAINING, SAMPLING):
            if not self.startable(phase):
                continue
            # What the other phase has no use for may be borrowed, where the queue allows it.
            lends = not self.startable(1 - phase) and (phase == TRAINING or self.queued <= self.controller.high)
            if self.credit[phase] > 0 or lends and sum(self.credit) > 0:
                return phase
        return None

    def work(self):
        while True:
            with self.lock:
                while True:
                    if self.stop or self.turn >= self.last:
                        self.stop = True
                        self.lock.notify_all()
                        return
                    pause = self.answered()
                    phase = self.choose()
                    if phase is not None:
                        break
                    self.lock.wait(0.002 if self.startable(0) or self.startable(1) else pause)
                number, _, _, op = heapq.heappop(self.ready[phase])
                if phase == TRAINING and op.name == "train":
                    self.queued -= 1
                    self.admit()
                self.active[phase] += 1
                state = self.left[number][2]
            began = time.thread_time()
            try:
                op.run(state)
            except BaseException as err:  # told to whoever runs the pipeline
                with self.lock:
                    self.error, self.stop = err, True
                    self.lock.notify_all()
                return
            self.end(number, op, time.thread_time() - began)

    def end(self, number, op, seconds):
        last = False
        with self.lock:
            self.active[op.phase] -= 1
            self.credit[op.phase] -= seconds
            self.spent[number][op.phase] += seconds
            ops, needs, _ = self.left[number]
            for o in ops:
                if op.name in needs[o.name]:
                    needs[o.name].remove(op.name)
                    if not needs[o.name]:
                        self.free(number, o)
            if op.name == "assemble":
                self.flight -= 1
                self.queued += 1
                self.controller.took(SAMPLING, self.spent[number][SAMPLING])
            elif op.name == "train":
                self.controller.took(TRAINING, self.spent[number][TRAINING])
                del self.left[number], self.spent[number]
                self.turn = number + 1
                last = True
            self.admit()
            self.lock.notify_all()
        if last and not self.each(number):
            with self.lock:
                self.stop = True
                self.lock.notify_all()
