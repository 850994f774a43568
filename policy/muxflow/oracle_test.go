package muxflow_test

import (
	"cmp"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/muxflow"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// task is an offline job: when it comes, what is left of it (of all its attempts), what it
// uses, and on which GPU it is; -1: it waits.
type task struct {
	at, left       time.Duration
	use, bandwidth float64
	on             int
}

// oracle is GPUs of services as a matching would have them: nobody fails, makes room or
// costs anything, and all speeds are known.
type oracle struct {
	services     []*job.Job
	curve        gen.Load
	peak, before []float64 // use in this half day, and the one before
	tasks        []task
	fixed        bool // half a GPU for each
}

func newOracle(t *testing.T, gpus int, span time.Duration, load float64, seed uint64) *oracle {
	src, services := offline(t, gpus, span, load, seed)
	o := &oracle{curve: services.Load(), peak: make([]float64, gpus), before: make([]float64, gpus)}
	for {
		var e trace.Entry
		if err := src.Next(&e); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if h := e.Job.Hints; e.Job.Kind == job.Inference {
			o.services = append(o.services, &e.Job)
		} else {
			o.tasks = append(o.tasks, task{e.Job.Submit, e.Truth.Total(), h.GPUUse, h.MemoryUse, -1})
		}
	}
	slices.SortStableFunc(o.tasks, func(a, b task) int { return cmp.Compare(a.at, b.at) })
	return o
}

// look notes what services use at a moment.
func (o *oracle) look(now time.Duration) {
	if now > 0 && now%(12*time.Hour) == 0 {
		copy(o.before, o.peak)
		clear(o.peak)
	}
	for i, s := range o.services {
		times, _ := o.curve.At(s, now)
		o.peak[i] = max(o.peak[i], min(1, times*s.Hints.GPUUse))
	}
}

func (o *oracle) worth(gpu int, x *task) float64 {
	cfg := muxflow.NewConfig()
	share := cfg.Shares.For(max(o.peak[gpu], o.before[gpu]), x.use, cfg.Guard.Use)
	if o.fixed {
		share = 500
	}
	return muxflow.Worth(x.use, x.bandwidth, share, o.services[gpu].Hints.MemoryUse)
}

// match puts tasks on GPUs, and leaves those alone that are on one already.
func (o *oracle) match(t *testing.T, how muxflow.Matching, live []*task) {
	var rows []int
	var cols []*task
	for i := range o.services {
		if !slices.ContainsFunc(live, func(x *task) bool { return x.on == i }) {
			rows = append(rows, i)
		}
	}
	for _, x := range live {
		if x.on < 0 {
			cols = append(cols, x)
		}
	}
	var worth []float64
	for _, i := range rows {
		for _, x := range cols {
			worth = append(worth, o.worth(i, x))
		}
	}
	of, err := muxflow.Pairs(how, len(rows), len(cols), worth, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range of {
		if c >= 0 {
			cols[c].on = rows[i]
		}
	}
}

// run is the work done in a time, in hours; anew: everybody is matched anew in each round,
// those too that run already.
func (o *oracle) run(t *testing.T, span time.Duration, how muxflow.Matching, anew bool) (work float64) {
	const step, round = 5 * time.Minute, 15 * time.Minute
	for now := time.Duration(0); now < span; now += step {
		var live []*task
		o.look(now)
		for i := range o.tasks {
			x := &o.tasks[i]
			if x.at > now {
				break
			}
			if x.left == 0 || anew && now%round == 0 {
				x.on = -1
			}
			if x.left > 0 {
				live = append(live, x)
			}
		}
		o.match(t, how, live)
		for _, x := range live {
			if x.on >= 0 {
				done := min(x.left, time.Duration(o.worth(x.on, x)*float64(step)))
				x.left -= done
				work += done.Hours()
			}
		}
	}
	return work
}

// The gain of matching over the best GPU job by job with half of it for each,
// if nothing else counts: speeds are known, everybody is matched anew every
// quarter of an hour, and moving costs nothing.
func TestOracle(t *testing.T) {
	longtest.Skip(t)
	const gpus, span = 48, 30 * time.Hour
	for _, load := range []float64{1.2, 2} {
		var best, greedy, offered float64
		for seed := range uint64(3) {
			o := newOracle(t, gpus, span, load, seed+1)
			for _, x := range o.tasks {
				offered += min(x.left, span-x.at).Hours() / 3
			}
			best += o.run(t, span, muxflow.Exact, true) / 3
			o = newOracle(t, gpus, span, load, seed+1)
			o.fixed = true
			greedy += o.run(t, span, muxflow.Greedy, false) / 3
		}
		t.Logf("load %v: %.0f h of %.0f h that could be done at full speed, greedily %.0f h: %.3f times", load, best, offered, greedy, best/greedy)
		if best > offered || greedy > best {
			t.Errorf("load %v: the best is %v, greedily %v, of %v", load, best, greedy, offered)
		}
	}
}
