package backlog

import (
	"math"
	"slices"
)

// NumQueues is the number of queues of Queues.
const NumQueues = 3

// Queues are the queues of a discretized policy. At every event they are walked
// from the first on, each from its head, and whoever fits into the free GPUs
// runs; after that, in each queue, the running jobs stand before the pending
// ones, in unchanged order.
//
// The published code keeps lists. Here running and pending jobs are apart, the
// pending ones by size, in chains: what is taken is always the first of its
// size. Their place in the list is a number. The zero Queues is empty.
type Queues struct {
	jobs   []queued
	queues [NumQueues]queue
	sizes  []int64 // GPUs of the classes
	moved  []int32 // since the last Walk

	stops, starts []int32
}

type queued struct {
	place      int64 // pending: in the list
	prev, next int32 // pending: in the chain of its class
	gpus       int32
	class      int16
	queue      int8
	state      state
}

// state is what a job does.
type state uint8

const (
	gone state = iota
	waits
	runs
	sank // runs, but stands behind the pending jobs of its queue until the next Walk
)

// Runner is a running job.
type Runner struct {
	Mark int64 // what the policy noted when the job came into its queue to run
	Due  int64 // when it leaves the queue, unless it stops before
	GPUs int64
	ID   int32
}

type queue struct {
	runners []Runner // in order
	sum     int64    // their GPUs
	due     int64    // none of them leaves before
	chains  []chain  // pending jobs by class
	pending int
	lo, hi  int64 // places in use
}

// chain is a doubly linked list of jobs.
type chain struct {
	first      int64 // place of the head
	head, tail int32
}

const nobody = -1

// Arrive makes a job pending, the last of the first queue.
func (q *Queues) Arrive(id int32, gpus int) {
	for int(id) >= len(q.jobs) {
		q.jobs = append(q.jobs, make([]queued, max(256, int(id)+1-len(q.jobs), len(q.jobs)))...)
	}
	q.jobs[id] = queued{gpus: int32(gpus), class: q.class(int64(gpus)), state: waits}
	q.behind(id)
}

func (q *Queues) class(gpus int64) int16 {
	if c := slices.Index(q.sizes, gpus); c >= 0 {
		return int16(c)
	}
	q.sizes = append(q.sizes, gpus)
	for i := range q.queues {
		q.queues[i].chains = append(q.queues[i].chains, chain{head: nobody, tail: nobody})
	}
	return int16(len(q.sizes) - 1)
}

// Remove takes a job out.
func (q *Queues) Remove(id int32) {
	if q.jobs[id].state == runs {
		q.leave(id)
	} else {
		q.drop(id)
	}
	q.jobs[id].state = gone
}

// Waits tells whether a job is pending.
func (q *Queues) Waits(id int32) bool { return q.jobs[id].state == waits }

// Queue is the queue of a job.
func (q *Queues) Queue(id int32) int { return int(q.jobs[id].queue) }

// GPUs is the size of a job.
func (q *Queues) GPUs(id int32) int { return int(q.jobs[id].gpus) }

// Runners are the running jobs of a queue, in order. The slice is valid until
// the next change.
func (q *Queues) Runners(i int) []Runner { return q.queues[i].runners }

// LeaveDue takes the running jobs of a queue that are due off their places and
// appends them to out. Each must be given to Sink next.
func (q *Queues) LeaveDue(i int, now int64, out []int32) []int32 {
	u := &q.queues[i]
	if now < u.due {
		return out
	}
	u.due = math.MaxInt64
	kept := u.runners[:0]
	for _, r := range u.runners {
		if r.Due > now {
			u.due = min(u.due, r.Due)
			kept = append(kept, r)
			continue
		}
		u.sum -= r.GPUs
		out = append(out, r.ID)
	}
	u.runners = kept
	return out
}

// Leave takes a running job off its place. It must be given to Sink next.
func (q *Queues) Leave(id int32) { q.leave(id) }

// Sink puts a running job that has left its place behind all others of the next
// queue.
func (q *Queues) Sink(id int32) {
	j := &q.jobs[id]
	j.queue++
	j.state = sank
	q.behind(id)
	q.moved = append(q.moved, id)
}

// Rise puts a pending job behind all others of the first queue.
func (q *Queues) Rise(id int32) {
	q.drop(id)
	q.jobs[id].queue = 0
	q.behind(id)
}

// Walk lets jobs run that fit into the free GPUs. It returns the running jobs
// that have to stop and the pending ones that start. Of each that starts, or
// runs on in another queue, enter is asked for what its Runner is to say.
func (q *Queues) Walk(free int64, enter func(id int32, queue int, starts bool) (mark, due int64)) (stops, starts []int32) {
	q.stops, q.starts = q.stops[:0], q.starts[:0]
	for i := range q.queues {
		u := &q.queues[i]
		from := len(q.stops)
		q.stops = u.squeeze(&free, q.stops)
		to := len(q.stops)
		for free > 0 && u.pending > 0 {
			c := u.first(q.sizes, free)
			if c == nobody {
				break
			}
			free -= q.sizes[c]
			q.run(i, c, enter)
		}
		for k := to - 1; k >= from; k-- {
			q.jobs[q.stops[k]].state = waits
			q.before(q.stops[k])
		}
	}
	// A job that sank behind others may have run without a break until now.
	for _, id := range q.moved {
		if q.jobs[id].state == sank {
			q.jobs[id].state = waits
			q.stops = append(q.stops, id)
		}
	}
	q.moved = q.moved[:0]
	return q.stops, q.starts
}

// run lets the first pending job of a class run.
func (q *Queues) run(i, class int, enter func(id int32, queue int, starts bool) (mark, due int64)) {
	u := &q.queues[i]
	id := u.chains[class].head
	q.drop(id)
	j := &q.jobs[id]
	if j.state == waits {
		q.starts = append(q.starts, id)
	}
	mark, due := enter(id, i, j.state == waits)
	j.state = runs
	u.runners = append(u.runners, Runner{Mark: mark, Due: due, GPUs: q.sizes[class], ID: id})
	u.sum += q.sizes[class]
	u.due = min(u.due, due)
}

// behind makes a job pending, behind all others of its queue.
func (q *Queues) behind(id int32) {
	j := &q.jobs[id]
	u := &q.queues[j.queue]
	c := &u.chains[j.class]
	u.hi++
	u.pending++
	j.place, j.prev, j.next = u.hi, c.tail, nobody
	if c.tail == nobody {
		c.head, c.first = id, u.hi
	} else {
		q.jobs[c.tail].next = id
	}
	c.tail = id
}

// before makes a job pending, before all others of its queue.
func (q *Queues) before(id int32) {
	j := &q.jobs[id]
	u := &q.queues[j.queue]
	c := &u.chains[j.class]
	u.lo--
	u.pending++
	j.place, j.prev, j.next = u.lo, nobody, c.head
	if c.head == nobody {
		c.tail = id
	} else {
		q.jobs[c.head].prev = id
	}
	c.head, c.first = id, u.lo
}

// drop takes a pending job out of its chain.
func (q *Queues) drop(id int32) {
	j := &q.jobs[id]
	u := &q.queues[j.queue]
	c := &u.chains[j.class]
	u.pending--
	if j.prev == nobody {
		c.head = j.next
		if j.next != nobody {
			c.first = q.jobs[j.next].place
		}
	} else {
		q.jobs[j.prev].next = j.next
	}
	if j.next == nobody {
		c.tail = j.prev
	} else {
		q.jobs[j.next].prev = j.prev
	}
}

// leave takes a running job out.
func (q *Queues) leave(id int32) {
	u := &q.queues[q.jobs[id].queue]
	at := slices.IndexFunc(u.runners, func(r Runner) bool { return r.ID == id })
	u.sum -= u.runners[at].GPUs
	u.runners = slices.Delete(u.runners, at, at+1)
}

// first is the class of the first pending job that needs no more than free
// GPUs, or nobody.
func (u *queue) first(sizes []int64, free int64) int {
	best := nobody
	for c := range u.chains {
		if k := &u.chains[c]; k.head != nobody && sizes[c] <= free && (best == nobody || k.first < u.chains[best].first) {
			best = c
		}
	}
	return best
}

// squeeze keeps the running jobs that fit into the free GPUs. It takes the
// others out and appends them to stops.
func (u *queue) squeeze(free *int64, stops []int32) []int32 {
	if u.sum <= *free {
		*free -= u.sum
		return stops
	}
	kept := u.runners[:0]
	u.sum = 0
	for _, r := range u.runners {
		if r.GPUs > *free {
			stops = append(stops, r.ID)
			continue
		}
		*free -= r.GPUs
		u.sum += r.GPUs
		kept = append(kept, r)
	}
	u.runners = kept
	return stops
}
