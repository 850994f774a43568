package topoaware

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

// starts judges the place of each job when it starts.
type starts struct {
	judge
	layout *layout
	wrong  string
}

func (w *starts) Event(ev *eventlog.Event, s *state.State) {
	if ev.Kind != eventlog.Start {
		return
	}
	set := func(a *cluster.Alloc) (out fabric.Set) {
		first, _ := s.Cluster.DeviceRange(a.Pieces[0].Node)
		for _, x := range a.Shares {
			out |= 1 << (x.Device - first)
		}
		return out
	}
	j, a := s.Record(ev.Job).Job, s.Alloc(ev.Job)
	n := node{layout: w.layout, free: 0b1111}
	for id := range job.ID(s.Jobs()) {
		if o := s.Alloc(id); o != nil && id != ev.Job && o.Pieces[0].Node == a.Pieces[0].Node {
			n.free &^= set(o)
			n.running = append(n.running, neighbour{perf.SizedOf(s.Record(id).Job, len(o.Shares)), w.layout.uses(set(o))})
		}
	}
	c := w.of(perf.SizedOf(j, len(a.Shares)), &n, set(a))
	if own := w.own(&c); len(a.Pieces) != 1 || own < j.Hints.LeastUtility-1e-9 {
		w.wrong += fmt.Sprintf("at %v %s starts on %b of %d nodes, beside %v: it is worth %.3f to it, it asks for %.3f\n", s.Now, j.Key, set(a), len(a.Pieces), n.running, own, j.Hints.LeastUtility)
	}
}

// TestAsked is acceptance E: with postponing no job starts where its place is worth less to it than it asks for, and
// none is on several nodes; all run in the end. On random jobs and measurements, with restarts of the policy.
func TestAsked(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		known := &perf.Sockets{}
		for a := range 3 {
			known.Alone(alexnet(1, a+1), 100, float64(rapid.SampledFrom([]int{0, 100, 140}).Draw(r, "across")))
			for b := range 3 {
				known.Beside(alexnet(1, a+1), alexnet(1, b+1), float64(rapid.SampledFrom([]int{0, 90, 101, 130, 300}).Draw(r, "beside")))
			}
		}
		cfg := NewConfig()
		cfg.Patience, cfg.Reading = 0, Reading(rapid.IntRange(0, 1).Draw(r, "reading"))
		w := &starts{judge: judge{Neutral.Weights(), cfg.Reading, known}, layout: minsky(t)}
		var jobs []simtest.Job
		at := 0.0
		for i := range rapid.IntRange(1, 15).Draw(r, "jobs") {
			at += float64(rapid.IntRange(0, 5).Draw(r, "gap"))
			asks := float64(rapid.IntRange(0, 10).Draw(r, "asks")) / 10
			jobs = append(jobs, of(fmt.Sprint("j", i), at, float64(rapid.IntRange(1, 30).Draw(r, "run")), 1, rapid.IntRange(1, 3).Draw(r, "gpus"), asks))
		}
		run, err := simtest.Try(simtest.Config{
			Cluster: machines(t, rapid.IntRange(1, 3).Draw(r, "nodes")), Make: cfg.Policy, Sockets: known, Sinks: []engine.Sink{w}, Restart: true, Seed: rapid.Uint64Range(0, 100).Draw(r, "seed"),
		}, jobs...)
		if err != nil {
			r.Fatalf("%v\n%v", err, run.Log)
		}
		if w.wrong != "" {
			r.Fatal(w.wrong)
		}
		for _, j := range jobs {
			if run.End(j.Key) < 0 {
				r.Fatalf("%s does not end", j.Key)
			}
		}
	})
}
