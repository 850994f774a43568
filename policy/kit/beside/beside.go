// Package beside is for policies that put jobs beside each other on devices. It
// finds the devices of a node that come into question, and the jobs that
// another one may join there. It also says what each of them has, and what a
// job gets back that is left alone.
//
// Who is on a device is known to the view (View.On) and to the plan (Plan.On). The plan
// follows what it starts and stops, so that a policy keeps no account of that.
//
// Nouns: a part is what a job holds of a device, in thousandths (Share.Milli).
// A job is alone if it has all of its devices and no other job has any of
// them. It is settled if it began before this moment and goes on.
package beside

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
)

// The parts of a device: all of it, and what each of two has.
const (
	Whole = int32(unit.One)
	Half  = Whole / 2
)

// Plain tells whether a job is a gang of a fixed number of tasks of one whole GPU each,
// in one role, wherever in the topology they are.
func Plain(j sched.Job) bool {
	d := j.Spec().Demand
	return d.Roles[0].GPU == unit.One && d.Roles[1].Tasks == 0 && !d.Elastic() && d.Within == ""
}

// Settled tells whether others may join a job, and what it has can be changed: it has
// begun before this moment, is not only measured, and goes on.
func Settled(v *sched.View, p *sched.Plan, id job.ID) bool {
	j := v.Job(id)
	return j.Phase() == job.Running && j.Since() < v.Now && !j.Profiling() && p.Alloc(id) != nil
}

// Alone tells whether somebody who has an alloc has each of its devices for itself, and
// all of it.
func Alone(p *sched.Plan, a *cluster.Alloc) bool {
	return !slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return s.Milli != Whole || len(p.On(s.Device)) > 1 })
}

// Divisible tells whether jobs can be beside each other on a device: those of a node that
// only counts its GPUs are one device, of which each has its own.
func Divisible(v *sched.View, d cluster.DeviceID) bool {
	return !v.Cluster().Node(v.Cluster().NodeOf(d)).Pooled
}

// Devices yields the devices of a node of which a task of a job may have a
// part, whatever jobs are on them. They are of a type and on a node
// that it accepts, take new work, and are told apart.
func Devices(v *sched.View, n cluster.NodeID, j sched.Job) iter.Seq[cluster.DeviceID] {
	return func(yield func(cluster.DeviceID) bool) {
		c, class := v.Cluster(), v.Class(j.Class())
		if !c.Usable(n) || c.Node(n).Pooled || class.NoType || !c.In(n, class.Scope) {
			return
		}
		first, count := c.DeviceRange(n)
		for d := first; d < first+cluster.DeviceID(count); d++ {
			if !c.Broken(d) && class.Mask.Has(c.TypeOf(d)) && !yield(d) {
				return
			}
		}
	}
}

// Change changes what a running job holds of a device. When that cannot be, it keeps what
// it has, and the result is false.
func Change(p *sched.Plan, id job.ID, d cluster.DeviceID, change func(*cluster.Share)) bool {
	return p.Adjust(id, func(a *cluster.Alloc) {
		for i := range a.Shares {
			if a.Shares[i].Device == d {
				change(&a.Shares[i])
			}
		}
	})
}

// Give gives a running job so many thousandths of a device, as Change does.
func Give(p *sched.Plan, id job.ID, d cluster.DeviceID, milli int32) bool {
	return Change(p, id, d, func(s *cluster.Share) { s.Milli = milli })
}

// Join starts a waiting job on the devices of an alloc, whoever is there: those have in
// equal parts what it leaves of each device, and are not throttled. When one of them
// cannot be changed, nothing is, and the result is false.
func Join(p *sched.Plan, id job.ID, a *cluster.Alloc) bool {
	return p.Try(func() bool { return makeRoom(p, a) && p.StartOn(id, a) })
}

// makeRoom gives those who are on the devices of an alloc in equal parts what it leaves.
func makeRoom(p *sched.Plan, a *cluster.Alloc) bool {
	rest := map[cluster.DeviceID]int32{} // of devices that one job has for itself so far
	for i := range a.Shares {
		if s := &a.Shares[i]; len(p.On(s.Device)) == 1 {
			rest[s.Device] = Whole - s.Milli
		}
	}
	narrow := func(o *cluster.Alloc) {
		for i := range o.Shares {
			if left, ok := rest[o.Shares[i].Device]; ok {
				o.Shares[i].Milli, o.Shares[i].Throttle = left, 0
				delete(rest, o.Shares[i].Device)
			}
		}
	}
	for i := range a.Shares {
		s := &a.Shares[i]
		if _, ok := rest[s.Device]; ok { // all of its devices at once
			if !p.Adjust(p.On(s.Device)[0], narrow) {
				return false
			}
			continue
		}
		there := Largest(p, s.Device)
		if len(there) == 1 {
			continue // changed with another device of it
		}
		for _, other := range there {
			part := (Whole - s.Milli) / int32(len(there))
			if !Change(p, other, s.Device, func(o *cluster.Share) { o.Milli, o.Throttle = part, 0 }) {
				return false
			}
		}
	}
	return true
}

// Largest lists the jobs that have a part of a device as the plan stands. Those
// with the larger parts come first, ties by number. In this order parts can be
// made equal.
func Largest(p *sched.Plan, d cluster.DeviceID) []job.ID {
	return slices.SortedFunc(slices.Values(p.On(d)), func(a, b job.ID) int {
		return cmp.Or(-cmp.Compare(Of(p.Alloc(a), d).Milli, Of(p.Alloc(b), d).Milli), cmp.Compare(a, b))
	})
}

// Of is what an alloc has of a device; the zero Share where that is nothing.
func Of(a *cluster.Alloc, d cluster.DeviceID) cluster.Share {
	for i := range a.Shares {
		if a.Shares[i].Device == d {
			return a.Shares[i]
		}
	}
	return cluster.Share{}
}

// GiveEach gives a running job so many thousandths of each of its devices but those that
// are only counted, which nobody shares.
func GiveEach(p *sched.Plan, id job.ID, milli int32) bool {
	return p.Adjust(id, func(a *cluster.Alloc) {
		for i := range a.Shares {
			if s := &a.Shares[i]; s.Milli <= Whole {
				s.Milli = milli
			}
		}
	})
}

// Restore gives a running job all of those devices on which it has become alone, to use
// them for all of the time. One that the plan has stopped is left alone.
func Restore(p *sched.Plan, id job.ID) {
	lacks := func(s cluster.Share) bool { return (s.Milli < Whole || s.Throttle != 0) && len(p.On(s.Device)) == 1 }
	if a := p.Alloc(id); a == nil || !slices.ContainsFunc(a.Shares, lacks) { // most lack nothing
		return
	}
	p.Adjust(id, func(a *cluster.Alloc) {
		for i := range a.Shares {
			if s := &a.Shares[i]; lacks(*s) {
				s.Milli, s.Throttle = max(s.Milli, Whole), 0
			}
		}
	})
}

// Add adds a part of a device to an alloc, in the piece of its node, which it returns.
// Devices of one node must follow each other.
func Add(a *cluster.Alloc, n cluster.NodeID, s cluster.Share) *cluster.Piece {
	if k := len(a.Pieces); k == 0 || a.Pieces[k-1].Node != n {
		a.Pieces = append(a.Pieces, cluster.Piece{Node: n})
	}
	piece := &a.Pieces[len(a.Pieces)-1]
	piece.Shares++
	a.Shares = append(a.Shares, s)
	return piece
}

// AddTask adds a task of a role with a part of one device to an alloc, as Add does.
func AddTask(a *cluster.Alloc, n cluster.NodeID, role *job.Role, s cluster.Share) {
	piece := Add(a, n, s)
	piece.Tasks++
	piece.CPU, piece.Memory = piece.CPU+role.CPU, piece.Memory+role.Memory
}

// Evicted tells whether a job was evicted because the memory of its devices did
// not suffice. Either it waits for that reason, which is noted as mark, or was
// tells that it was noted before.
func Evicted[N any, P interface {
	*N
	sched.Note
}](p *sched.Plan, j sched.Job, mark N, was func(N) bool) bool {
	n, _ := sched.Recall[N, P](j)
	if j.OutOfMemory() && !was(n) {
		p.Remember(j.ID, P(&mark))
		return true
	}
	return was(n)
}

// Next is the next multiple of a time, or unit.Never.
func Next(now, every time.Duration) time.Duration {
	if every >= unit.Never-now {
		return unit.Never
	}
	return (now/every + 1) * every
}

// Because is a reason in words.
func Because(format string, args ...any) job.Reason {
	return job.Reason{Code: job.Because, Job: job.None, Text: fmt.Sprintf(format, args...)}
}

// NeedsGPUs is why a job waits for which nothing else is known.
func NeedsGPUs(v *sched.View, j sched.Job) job.Reason {
	return job.Reason{Code: job.NeedGPUs, Need: int32(j.GPUs()), Have: int32(v.Free()), Job: job.None}
}

// MemoryLeft is the memory of a device that nobody on it has, or where it has none says
// that it takes (perf.MemoryOf), and no frozen job keeps; ok is false where it is not known how much the
// device has.
func MemoryLeft(v *sched.View, p *sched.Plan, d cluster.DeviceID) (left unit.Bytes, ok bool) {
	c := v.Cluster()
	left = c.Type(c.TypeOf(d)).Memory
	if left == 0 {
		return 0, false
	}
	left -= v.Frozen(d)
	for _, id := range p.On(d) {
		if held := Of(p.Alloc(id), d).Memory; held > 0 {
			left -= held
		} else {
			left -= perf.MemoryOf(v.Job(id).Spec())
		}
	}
	return left, true
}
