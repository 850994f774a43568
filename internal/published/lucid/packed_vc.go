package lucid

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// packedVC is a virtual cluster.
type packedVC struct {
	in       *packedInput
	free     []int // of each node, -1: it is lent
	names    []int // by which the published code picks a node to lend
	idle     int   // free GPUs
	lent     bool  // a node was lent before
	starts   int64
	line     []*packedJob
	running  []*packedJob // in order of their starts
	alone    [nodeGPUs + 1][]*packedJob
	arrivals []*packedJob
	temps    []change
}

// run plays a virtual cluster to its end.
func (v *packedVC) run(ctx context.Context) error {
	again := false
	for now := windowBegin; ; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.finish(now)
		for len(v.arrivals) > 0 && v.arrivals[0].submit == now {
			v.line, v.arrivals = append(v.line, v.arrivals[0]), v.arrivals[1:]
		}
		slices.SortStableFunc(v.line, func(a, b *packedJob) int { return cmp.Compare(a.rank, b.rank) })
		var err error
		if again, err = v.allocate(now); err != nil {
			return err
		}
		for len(v.temps) > 0 && v.temps[0].at <= now {
			if v.temps[0].at == now {
				v.lend(v.temps[0].by)
				again = true
			}
			v.temps = v.temps[1:]
		}
		next := v.next(now, again)
		if next == math.MaxInt64 {
			return nil
		}
		now = next
	}
}

// next is the next tick at which something can change.
func (v *packedVC) next(now int64, again bool) int64 {
	if again && len(v.line) > 0 {
		return now + 1
	}
	at := int64(math.MaxInt64)
	for _, j := range v.running {
		at = min(at, j.end)
	}
	if len(v.arrivals) > 0 {
		at = min(at, v.arrivals[0].submit)
	}
	if len(v.line) > 0 {
		at = min(at, v.in.forecast.next(now))
	}
	if (at < math.MaxInt64 || len(v.line) > 0) && len(v.temps) > 0 {
		at = min(at, v.temps[0].at)
	}
	return at
}

// finish takes away who has nothing left.
func (v *packedVC) finish(now int64) {
	for i := 0; i < len(v.running); {
		j := v.running[i]
		if j.end != now {
			i++
			continue
		}
		v.running = slices.Delete(v.running, i, i+1)
		v.leave(j, now)
	}
}

// leave frees the GPUs of a job. The published code looks for the partner by the
// list of GPUs, and the first entry that it finds is that of the host, even when it
// is the host that leaves: then nobody gets its speed back.
func (v *packedVC) leave(j *packedJob, now int64) {
	if j.partner == nil {
		if j.gpus <= nodeGPUs {
			v.alone[j.gpus] = slices.DeleteFunc(v.alone[j.gpus], func(o *packedJob) bool { return o == j })
		}
		v.give(j, 1)
		return
	}
	other := j.partner
	j.partner, other.partner = nil, nil
	if j.guest {
		other.setRate(1, now)
		other.end = other.due()
		at, _ := slices.BinarySearchFunc(v.alone[other.gpus], other, func(a, b *packedJob) int { return cmp.Compare(a.order, b.order) })
		v.alone[other.gpus] = slices.Insert(v.alone[other.gpus], at, other)
	}
}

// give gives the GPUs of a job back, or takes them where sign is -1.
func (v *packedVC) give(j *packedJob, sign int) {
	first := j.gpus
	if len(j.more) > 0 {
		first = nodeGPUs
	}
	v.free[j.node] += sign * first
	for _, n := range j.more {
		v.free[n] += sign * nodeGPUs
	}
	v.idle += sign * j.gpus
}

// allocate is the published loop over those who wait. again tells that the next
// tick may start more: who waited may share with one that started behind it.
func (v *packedVC) allocate(now int64) (again bool, err error) {
	packs := v.in.forecast.packs(now)
	least := math.MaxInt // of at most a node, that found no room
	rest := v.line[:0]
	for i, j := range v.line {
		if packs && j.gpus <= nodeGPUs {
			if host := v.host(j); host != nil {
				if err := v.join(j, host, now); err != nil {
					return false, err
				}
				again = true
				continue
			}
		}
		if (j.gpus > nodeGPUs || j.gpus < least) && v.place(j) {
			v.start(j, now)
			again = true
			continue
		}
		if !packs {
			v.line = append(rest, v.line[i:]...)
			return false, nil
		}
		if j.gpus <= nodeGPUs {
			least = min(least, j.gpus)
		}
		rest = append(rest, j)
	}
	v.line = rest
	return again && packs, nil
}

// host is the first job, in order of starts, that a job may share with.
func (v *packedVC) host(j *packedJob) *packedJob {
	for _, h := range v.alone[j.gpus] {
		if h.traits.memory < cardMemory-j.traits.memory && j.traits.score+h.traits.score <= mostScore && j.rank <= 2*h.rank {
			return h
		}
	}
	return nil
}

// join starts a job on the GPUs of another one.
func (v *packedVC) join(j, host *packedJob, now int64) error {
	rates, err := v.in.pairs.of(j, host)
	if err != nil {
		return err
	}
	j.node, j.guest, j.partner = host.node, true, host
	v.begin(j, rates[0], now)
	host.partner = j
	host.setRate(rates[1], now)
	host.end = host.due()
	v.alone[host.gpus] = slices.DeleteFunc(v.alone[host.gpus], func(o *packedJob) bool { return o == host })
	return nil
}

// start starts a job on GPUs of its own.
func (v *packedVC) start(j *packedJob, now int64) {
	v.give(j, -1)
	v.begin(j, 1, now)
	if j.gpus <= nodeGPUs {
		v.alone[j.gpus] = append(v.alone[j.gpus], j)
	}
}

func (v *packedVC) begin(j *packedJob, rate float64, now int64) {
	v.starts++
	j.start, j.seen, j.left, j.rate, j.order = now, now, float64(j.duration), rate, v.starts
	j.end = j.due()
	v.running = append(v.running, j)
}

// place finds the node of a job, or several.
func (v *packedVC) place(j *packedJob) bool {
	if v.idle < j.gpus {
		return false
	}
	if j.gpus <= nodeGPUs {
		j.node = bestFit(v.free, j.gpus)
		return j.node >= 0
	}
	j.node, j.more = -1, j.more[:0]
	need := j.gpus / nodeGPUs
	for n, f := range v.free {
		if f != nodeGPUs {
			continue
		}
		if j.node < 0 {
			j.node = n
		} else {
			j.more = append(j.more, n)
		}
		if need--; need == 0 {
			return true
		}
	}
	return false
}

// spare is the name of a node that was borrowed and came back.
const spare = 9999

// lend lends the profiler an idle node, if there is one, or takes it back.
func (v *packedVC) lend(by int) {
	if by < 0 {
		if !slices.Contains(v.names, spare) {
			v.free, v.names, v.idle = append(v.free, nodeGPUs), append(v.names, spare), v.idle+nodeGPUs
		}
		return
	}
	best := -1
	for n, f := range v.free {
		if f == nodeGPUs && (best < 0 || v.names[n] > v.names[best]) {
			best = n
		}
	}
	if best < 0 {
		return // nothing is lent, and yet the profiler has it
	}
	if old := slices.Index(v.names, spare); v.lent && old >= 0 {
		v.names[old] = v.names[best]
	}
	v.free[best], v.names[best], v.idle, v.lent = -1, -1, v.idle-nodeGPUs, true
}
