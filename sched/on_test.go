package sched_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// onDevices lists the jobs on each device as a plan stands. It fails if they
// are not exactly the jobs that hold a part of the device.
func onDevices(p *sched.Plan, b *table) string {
	var out strings.Builder
	for d := range cluster.DeviceID(b.s.Cluster.Devices()) {
		on := p.On(d)
		fmt.Fprint(&out, on)
		for id := range job.ID(b.s.Jobs()) {
			a := p.Alloc(id)
			holds := a != nil && slices.ContainsFunc(a.Shares, func(s cluster.Share) bool { return s.Device == d })
			if n := count(on, id); n > 1 || (n == 1) != holds {
				b.t.Fatalf("jobs %v are on device %d, and job %d holds %+v", on, d, id, a)
			}
		}
	}
	return out.String()
}

func count(on []job.ID, id job.ID) (n int) {
	for _, other := range on {
		if other == id {
			n++
		}
	}
	return n
}

// TestPlanOn: jobs that stay on a device come in order of arrival, then new
// ones in the order in which the plan brings them. Taking the plan back
// restores the list.
func TestPlanOn(t *testing.T) {
	b := newTable(t, 2)
	part := func(devices ...cluster.DeviceID) *cluster.Alloc {
		a := &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: int32(len(devices))}}}
		for _, d := range devices {
			a.Shares = append(a.Shares, cluster.Share{Device: d, Milli: 100})
		}
		return a
	}
	for range 5 {
		b.submit(job.GPUs(1), -1)
	}
	for _, id := range []job.ID{2, 1} {
		b.s.Now++
		if err := b.s.Begin(id, part(0, 1), 0); err != nil {
			t.Fatal(err)
		}
	}
	p := b.open()
	defer p.Discard()
	is := func(when string, d cluster.DeviceID, want ...job.ID) {
		t.Helper()
		if got := p.On(d); !slices.Equal(got, want) {
			t.Errorf("%s: %v are on device %d, want %v", when, got, d, want)
		}
	}
	p.StartOn(4, part(0)) // before the first call of On
	is("one comes", 0, 2, 1, 4)
	is("one comes", 1, 2, 1)
	p.StartOn(0, part(0, 0))
	is("two come", 0, 2, 1, 4, 0)
	p.Try(func() bool {
		p.Stop(2, because)
		is("the first leaves", 0, 1, 4, 0)
		p.Try(func() bool {
			p.Stop(4, because)
			p.StartOn(2, part(0))
			is("it comes again", 0, 1, 0, 2)
			is("it comes again", 1, 1)
			return false
		})
		is("that is taken back", 0, 1, 4, 0)
		return false
	})
	is("all is taken back", 0, 2, 1, 4, 0)
	is("all is taken back", 1, 2, 1)
	p.Adjust(2, func(a *cluster.Alloc) { a.Shares[0].Milli = 50 })
	is("one has less", 0, 2, 1, 4, 0)
	p.Stop(2, because)
	p.StartOn(2, part(0, 1))
	is("one comes again", 0, 1, 4, 0, 2)
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
}
