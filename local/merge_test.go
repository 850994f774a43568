package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// once is a policy that does one thing, once.
type once struct {
	sync.Once
	f func(v *sched.View, p *sched.Plan)
}

func (o *once) Decide(v *sched.View, p *sched.Plan) { o.Do(func() { o.f(v, p) }) }

// orders has a plan carried out.
func (h *here) orders(f func(v *sched.View, p *sched.Plan)) {
	h.t.Helper()
	if err := h.MistakeNow(&once{f: f}); err != nil {
		h.t.Fatal(err)
	}
}

// half is a half of the first device.
func half() *cluster.Alloc {
	return &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Milli: 500}}}
}

// A job that goes on from another one's work is told where that is. Two jobs
// that are trained together are told so and run on halves of a device. When
// they are split, each begins its run anew, by itself.
func TestMerge(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) {
		task := perf.Task{Backbone: "llama"}
		o.Transfer = perf.NewGains(nil, []perf.Gain{{From: task, To: task, After: 4}})
	})
	h.orders(func(*sched.View, *sched.Plan) {})
	submit := func(i int) string {
		spec := h.sh(1, fmt.Sprintf(`trap "exit 75" TERM; echo >> up%d; `, i)+awaits(fmt.Sprint("end", i)))
		spec.Backbone, spec.Stop.Mode, spec.Estimate = "llama", "checkpoint", 400
		return h.submit(spec)
	}
	told := func(id string, run int) api.Merge {
		t.Helper()
		h.running(id, run)
		until(t, fmt.Sprintf("run %d of job %s minds its signal", run, id), func() bool {
			b, _ := os.ReadFile(filepath.Join(h.work, "up"+id))
			return len(b) == run
		})
		a, err := h.task(id, run).Allocation(background)
		if err != nil {
			t.Fatal(err)
		}
		return a.Merge
	}
	a, b := submit(1), submit(2)
	h.orders(func(v *sched.View, p *sched.Plan) { p.Start(0, place.Pack); p.Merge(1, 0, job.After) })
	if m := told(a, 1); m != (api.Merge{}) {
		t.Errorf("the first job is told %+v", m)
	}
	if _, err := h.task(a, 1).Report(background, api.Report{Step: 3, Checkpoint: &api.Checkpoint{Step: 3, Path: "/a.pt"}}); err != nil {
		t.Fatal(err)
	}
	h.make("end1")
	h.until(a, api.Done)
	h.orders(func(v *sched.View, p *sched.Plan) { p.Start(1, place.Pack) })
	if m := told(b, 1); m != (api.Merge{How: "after", With: a, Checkpoint: "/a.pt"}) {
		t.Errorf("the second job is told %+v", m)
	}
	if j := h.job(b); j.ExpectEnd.Sub(j.Started).Seconds() > 200 { // its estimate is 400 s, a quarter of which is left to learn
		t.Errorf("it is expected to end at %v, started %v", j.ExpectEnd, j.Started)
	}
	h.learnsNothing(b)
	h.make("end2")
	h.until(b, api.Done)

	c, d := submit(3), submit(4)
	h.orders(func(v *sched.View, p *sched.Plan) { p.Start(2, place.Pack) })
	if m := told(c, 1); m != (api.Merge{}) {
		t.Errorf("the third job is told %+v", m)
	}
	h.orders(func(v *sched.View, p *sched.Plan) {
		p.Merge(3, 2, job.Together)
		p.Stop(2, job.Reason{Code: job.Resized, Job: job.None})
		p.StartOn(2, half())
		p.StartOn(3, half())
	})
	if m := told(d, 1); m != (api.Merge{How: "together", With: c}) {
		t.Errorf("the fourth job is told %+v", m)
	}
	if m := told(c, 2); m != (api.Merge{How: "together", With: d}) {
		t.Errorf("the third job is told %+v when it comes back", m)
	}
	if x, y := h.job(c), h.job(d); x.Allocated != 0.5 || y.Allocated != 0.5 {
		t.Errorf("they hold %v and %v", x.Allocated, y.Allocated)
	}
	h.orders(func(v *sched.View, p *sched.Plan) { p.Split(2) })
	if m := told(c, 3); m != (api.Merge{}) {
		t.Errorf("the third job is told %+v when it is split", m)
	}
	if m := told(d, 2); m != (api.Merge{}) {
		t.Errorf("the fourth job is told %+v when it is split", m)
	}
	h.make("end3")
	h.make("end4")
	h.until(c, api.Done)
	h.until(d, api.Done)
}

// learnsNothing has a merged job report that it gets no better: once it has gone
// through two epochs so, it counts as slower than by itself; not before.
func (h *here) learnsNothing(id string) {
	h.t.Helper()
	tell := func(epoch, accuracy float64) {
		if _, err := h.task(id, 1).Report(background, api.Report{Epoch: epoch, Quality: map[string]float64{"accuracy": accuracy}}); err != nil {
			h.t.Fatal(err)
		}
	}
	tell(1, 0.5)
	tell(2, 0.5)
	tell(2.5, 0.4)
	if n := len(h.life(id, eventlog.Speed)); n != 0 {
		h.t.Errorf("it is told to be slow %d times before two epochs are over", n)
	}
	tell(3, 0.5)
	until(h.t, "it is told to be slow", func() bool { return len(h.life(id, eventlog.Speed)) == 1 })
	if e := h.last(id, eventlog.Speed); e.Speed != 0.5 {
		h.t.Errorf("its speed is %v", e.Speed)
	}
}
