package report

import (
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestRoom: two nodes of four GPUs have two idle GPUs each.
func TestRoom(t *testing.T) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 4}}}); err != nil {
			t.Fatal(err)
		}
	}
	s := state.New(c, tenant.NewTree(0))
	col := NewCollector(Options{Series: true})
	sizes := []job.Demand{job.GPUs(4), job.GPUs(8), job.GPUs(4), job.GPUs(2), job.GPUs(0)}
	elastic := job.GPUs(8)
	elastic.Roles[0].Min, elastic.Roles[0].Max = 2, 8
	sizes = append(sizes, elastic)
	jobs := make([]job.Job, len(sizes))
	happen := func(ev eventlog.Event) {
		t.Helper()
		if ev.Job >= 0 && ev.Kind == eventlog.Submit {
			jobs[ev.Job] = job.Job{ID: ev.Job, Demand: &sizes[ev.Job]}
			ev.Spec, ev.Estimate = &jobs[ev.Job], -1
		}
		if err := engine.Apply(s, &ev); err != nil {
			t.Fatal(err)
		}
		col.Event(&ev, s)
	}
	want := func(what string, now room, idle, beside, scattered, unfit, asked float64) {
		t.Helper()
		v := col.level()
		if col.waiters.now != now || v.idle != idle || v.beside != beside || v.scattered != scattered || v.unfit != unfit || v.asked != asked {
			t.Errorf("%s: %d, %+v", what, col.waiters.now, v.gpus)
		}
	}
	split := &cluster.Alloc{Pieces: []cluster.Piece{{Node: 0, Tasks: 2, Shares: 2}, {Node: 1, Tasks: 2, Shares: 2}}}
	for _, d := range []cluster.DeviceID{0, 1, 4, 5} {
		split.Shares = append(split.Shares, cluster.Share{Device: d, Milli: 1000})
	}
	happen(eventlog.Event{Kind: eventlog.Submit, Job: 0})
	want("a job of four, all idle", roomy, 8, 8, 0, 0, 4)
	happen(eventlog.Event{Kind: eventlog.Start, Job: 0, Alloc: split, Speed: 1})
	want("nobody waits", calm, 4, 0, 0, 0, 0)
	happen(eventlog.Event{Kind: eventlog.Submit, Job: 1})
	want("a job of eight", tight, 4, 4, 0, 4, 8)
	happen(eventlog.Event{Kind: eventlog.Submit, Job: 2})
	want("and one of four", scattered, 4, 4, 4, 0, 12)
	happen(eventlog.Event{Kind: eventlog.Submit, Job: 3})
	want("and one of two", roomy, 4, 4, 0, 0, 14)
	happen(eventlog.Event{Kind: eventlog.Hold, Job: 3, Reason: job.Reason{Code: job.OnHold, Job: job.None}})
	want("which is held", scattered, 4, 4, 4, 0, 12)
	happen(eventlog.Event{Kind: eventlog.Cancel, Job: 2})
	want("that of four is cancelled", tight, 4, 4, 0, 4, 8)
	happen(eventlog.Event{Kind: eventlog.Wait, Job: 1, Reason: job.Reason{Code: job.TooLarge, Job: job.None}})
	want("that of eight can never run", calm, 4, 0, 0, 0, 0)
	happen(eventlog.Event{Kind: eventlog.Submit, Job: 4})
	want("one without GPUs", calm, 4, 4, 0, 0, 0)
	happen(eventlog.Event{Kind: eventlog.Submit, Job: 5})
	want("one of two to eight", roomy, 4, 4, 0, 0, 8)
	happen(eventlog.Event{Kind: eventlog.End, Job: 0, Outcome: job.Done})
	want("all is idle again", roomy, 8, 8, 0, 0, 8)
}

// TestRoomAnew holds what is followed event by event against what is counted anew, whenever
// all has happened that happens at a moment.
func TestRoomAnew(t *testing.T) {
	var seen [tight + 1]int
	for seed := range uint64(6) {
		play(t, setup{jobs: 120, seed: seed, gap: 200, calm: seed%2 == 0, opt: Options{Series: true}, settled: func(c *Collector, s *state.State) {
			fresh, kept := newWaiters(), c.waiters
			for id := range job.ID(s.Jobs()) {
				if r := s.Record(id); !r.Past && asks(modeOf(r)) {
					fresh.add(r.Class, 1, s)
				}
			}
			if fresh.jobs != kept.jobs || fresh.asked != kept.asked {
				t.Fatalf("at %v %d jobs wait for %v GPUs, want %d and %v", s.Now, kept.jobs, kept.asked, fresh.jobs, fresh.asked)
			}
			if now := fresh.room(s, c.idle()); now != kept.now {
				t.Fatalf("at %v there is room %d, want %d", s.Now, kept.now, now)
			}
			seen[kept.now]++
		}})
	}
	for i, n := range seen {
		if n == 0 {
			t.Errorf("room %d never came up", i)
		}
	}
}
