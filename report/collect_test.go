package report

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// tape is a run in which events follow each other without end.
type tape struct {
	s   *state.State
	c   *Collector
	ev  eventlog.Event
	gpu cluster.Alloc
}

// newTape has n jobs waiting for two GPUs each.
func newTape(tb testing.TB, n int, opt Options) *tape {
	tb.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}}); err != nil {
		tb.Fatal(err)
	}
	w := &tape{s: state.New(c, tenant.NewTree(0)), c: NewCollector(opt)}
	w.gpu = cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 2, Shares: 2}}, Shares: []cluster.Share{{Device: 0, Milli: 1000}, {Device: 1, Milli: 1000}}}
	demand := job.GPUs(2)
	jobs := make([]job.Job, n)
	for i := range jobs {
		jobs[i] = job.Job{ID: job.ID(i), Demand: &demand, Tenant: []string{"a", "b", "c"}[i%3]}
		w.tell(tb, eventlog.Event{Kind: eventlog.Submit, Job: job.ID(i), Spec: &jobs[i], Estimate: -1})
	}
	return w
}

func (w *tape) tell(tb testing.TB, ev eventlog.Event) {
	w.ev = ev
	w.ev.Time = w.s.Now + time.Second
	if err := engine.Apply(w.s, &w.ev); err != nil {
		tb.Fatal(err)
	}
	if w.c != nil {
		w.c.Event(&w.ev, w.s)
	}
}

// turn starts a job, moves it, preempts it, and tells why it waits.
func (w *tape) turn(tb testing.TB, id job.ID) {
	w.tell(tb, eventlog.Event{Kind: eventlog.Start, Job: id, Alloc: &w.gpu, Delay: time.Second, Speed: 1})
	w.tell(tb, eventlog.Event{Kind: eventlog.Move, Job: id, Alloc: &w.gpu, Speed: 1})
	w.tell(tb, eventlog.Event{Kind: eventlog.Preempt, Job: id, Kept: time.Second, Reason: job.Reason{Code: job.UsedShare}})
	w.tell(tb, eventlog.Event{Kind: eventlog.Gone, Job: id})
	w.tell(tb, eventlog.Event{Kind: eventlog.Wait, Job: id, Reason: job.Reason{Code: job.NeedGPUs, Need: 2}})
	w.tell(tb, eventlog.Event{Kind: eventlog.NodeSet, Health: cluster.Cordoned})
	w.tell(tb, eventlog.Event{Kind: eventlog.NodeSet})
}

func TestEventsDoNotAllocate(t *testing.T) {
	w := newTape(t, 100, Options{Series: true})
	for id := range job.ID(100) {
		w.turn(t, id)
	}
	id := job.ID(0)
	if n := testing.AllocsPerRun(200, func() { w.turn(t, id%100); id++ }); n != 0 {
		t.Errorf("%v allocations for seven events", n)
	}
}

// TestIntervalsAreBounded checks that keeping intervals allocates only what the
// limit asks for.
func TestIntervalsAreBounded(t *testing.T) {
	w := newTape(t, 10, Options{Intervals: true, MaxIntervals: 50})
	for i := range job.ID(1000) {
		w.turn(t, i%10)
	}
	d := &w.c.allocs.done
	if len(d.intervals) > 100 || cap(d.intervals) > 200 || cap(d.spans) > 400 {
		t.Errorf("%d intervals (room for %d, %d spans) with a limit of 50", len(d.intervals), cap(d.intervals), cap(d.spans))
	}
	r := w.c.Result(w.s)
	if len(r.chart.bars) != 50 || r.chart.dropped != 1950 {
		t.Errorf("%d bars, %d dropped, want 50 and 1950", len(r.chart.bars), r.chart.dropped)
	}
}

func TestTrackIsSmall(t *testing.T) {
	var c Collector

	if size := unsafe.Sizeof(*c.track(0)); size > 32 {
		t.Errorf("a job costs %d bytes", size)
	}

}

// benchmarkToggle measures the collector alone: a job's record goes from
// waiting to running and back, without any fold.
func benchmarkToggle(b *testing.B, jobs int, opt Options) {
	w := newTape(b, jobs, opt)
	start := eventlog.Event{Kind: eventlog.Start}
	stop := eventlog.Event{Kind: eventlog.Preempt}
	r := rand.New(rand.NewPCG(1, 2))
	order := make([]job.ID, 1<<16)
	for i := range order {
		order[i] = job.ID(r.IntN(jobs))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += 2 {
		id := order[i/2%len(order)]
		rec := w.s.Record(id)
		w.s.Now += time.Second
		rec.Phase, start.Job = job.Running, id
		w.c.Event(&start, w.s)
		w.s.Now += time.Second
		rec.Phase, stop.Job = job.Waiting, id
		w.c.Event(&stop, w.s)
	}
}

func BenchmarkEvent(b *testing.B)       { benchmarkToggle(b, 1000, Options{}) }
func BenchmarkEventSeries(b *testing.B) { benchmarkToggle(b, 1000, Options{Series: true}) }

func BenchmarkResultMillion(b *testing.B) {
	w := newTape(b, 1_000_000, Options{})
	r := rand.New(rand.NewPCG(1, 2))
	for id := range job.ID(1_000_000) {
		rec := w.s.Record(id)
		rec.Phase, rec.Starts = job.Done, 1
		rec.FirstStart = rec.Job.Submit + time.Duration(r.Int64N(1e15))
		rec.AllocatedTime = time.Duration(r.Int64N(1e14))
		rec.Progress = rec.AllocatedTime
		rec.End = rec.FirstStart + rec.AllocatedTime
		w.c.Event(&eventlog.Event{Kind: eventlog.End, Job: id}, w.s)
	}
	b.ResetTimer()
	for b.Loop() {
		w.c.Result(w.s)
	}
}
