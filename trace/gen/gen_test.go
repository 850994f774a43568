package gen

import (
	"errors"
	"io"
	"math"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/trace"
	"pgregory.net/rapid"
)

// each visits the jobs of a trace.
func each(t testing.TB, o Options, visit func(*trace.Entry)) {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var e trace.Entry
	for {
		err := g.Next(&e)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		visit(&e)
	}
}

// all makes a whole trace.
func all(t testing.TB, o Options) []trace.Entry {
	t.Helper()
	var out []trace.Entry
	each(t, o, func(e *trace.Entry) { out = append(out, *e) })
	return out
}

// anyOptions draws options that may or may not be sensible.
func anyOptions(r *rapid.T) Options {
	return Options{
		Like:    Like(rapid.IntRange(0, int(likes)-1).Draw(r, "like")),
		Jobs:    rapid.IntRange(0, 300).Draw(r, "jobs"),
		Seed:    rapid.Uint64().Draw(r, "seed"),
		GPUs:    rapid.SampledFrom([]int{0, 1, 7, 64, 100_000}).Draw(r, "gpus"),
		Load:    rapid.SampledFrom([]float64{0, 1e-6, 0.7, 30}).Draw(r, "load"),
		Span:    rapid.SampledFrom([]time.Duration{0, 1, time.Hour, 20 * time.Hour}).Draw(r, "span"),
		MaxGPUs: rapid.SampledFrom([]int{0, 1, 5, 500}).Draw(r, "max GPUs"),
		MaxRun:  rapid.SampledFrom([]time.Duration{0, 10 * time.Second, time.Hour, 2000 * time.Hour}).Draw(r, "max run"),
		Tenants: rapid.SampledFrom([]int{0, 1, 3, 40}).Draw(r, "tenants"),
	}
}

// TestEveryTraceIsSound: whatever the options, a trace is in order, numbered,
// within its limits, and the same again from the same seed.
func TestEveryTraceIsSound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := anyOptions(r)
		g, err := New(o)
		if err != nil {
			return
		}
		again, err := New(o)
		if err != nil {
			r.Fatal(err)
		}
		var e, e2 trace.Entry
		var last time.Duration
		for n := 0; n < 3000; n++ { // the most that is looked at of a span without a number of jobs
			err := g.Next(&e)
			if err2 := again.Next(&e2); err != err2 || !reflect.DeepEqual(e, e2) {
				r.Fatalf("job %d: equal seeds give %+v and %+v", n, e, e2)
			}
			if err == io.EOF {
				if o.Jobs > 0 && n != o.Jobs {
					r.Fatalf("%d jobs instead of %d", n, o.Jobs)
				}
				return
			}
			sound(r, o, &e, n, last)
			last = e.Job.Submit
		}
	})
}

// sound checks one job of a trace.
func sound(r *rapid.T, o Options, e *trace.Entry, n int, last time.Duration) {
	j := &e.Job
	switch {
	case int(j.ID) != n || j.Key != strconv.Itoa(n):
		r.Fatalf("job %d is numbered %d and called %q", n, j.ID, j.Key)
	case n == 0 && j.Submit != 0:
		r.Fatalf("the first job is submitted at %v", j.Submit)
	case j.Submit < last || j.Submit%time.Second != 0:
		r.Fatalf("job %d is submitted at %v, the one before it at %v", n, j.Submit, last)
	case o.Jobs == 0 && j.Submit > o.Span:
		r.Fatalf("job %d is submitted at %v", n, j.Submit)
	case j.Demand.Check() != nil:
		r.Fatalf("job %d: %v", n, j.Demand.Check())
	case o.MaxGPUs > 0 && int(j.Demand.Roles[0].Tasks) > o.MaxGPUs:
		r.Fatalf("job %d asks for %v", n, j.Demand)
	case j.User == "" || j.Name == "":
		r.Fatalf("job %d has no user or name", n)
	case o.Tenants > 1 && j.Tenant == "":
		r.Fatalf("job %d has no tenant", n)
	}
	total := e.Truth.Total()
	switch {
	case e.Truth.Work < time.Second || total%time.Second != 0:
		r.Fatalf("job %d runs for %v", n, e.Truth.Work)
	case o.MaxRun > 0 && total > o.MaxRun+time.Second/2:
		r.Fatalf("job %d runs for %v", n, total)
	case j.Estimate < total:
		r.Fatalf("job %d runs for %v, its user said %v", n, total, j.Estimate)
	}
	for _, a := range e.Truth.Attempts {
		if a < time.Second {
			r.Fatalf("job %d has an attempt of %v", n, a)
		}
	}
}

// TestWhatWasGivenIsKept: what an entry points to is not changed by later ones.
func TestWhatWasGivenIsKept(t *testing.T) {
	kept := all(t, Options{Like: Philly, Jobs: 5000, Seed: 2})
	g, err := New(Options{Like: Philly, Jobs: 5000, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range kept {
		var e trace.Entry
		if err := g.Next(&e); err != nil || !reflect.DeepEqual(e, kept[i]) {
			t.Fatalf("job %d: %+v, kept %+v (%v)", i, e, kept[i], err)
		}
	}
}

// TestLoadIsMet: the GPU time demanded is the load wanted, times the GPUs, times
// the time: in expectation always, and on average over many jobs.
func TestLoadIsMet(t *testing.T) {
	for l := range likes {
		for _, o := range []Options{
			{Like: l, Load: 0.9, GPUs: 256, MaxRun: 12 * time.Hour, Jobs: 200_000, Seed: 1},
			{Like: l, Load: 0.5, Jobs: 1},
			{Like: l, GPUs: 500, MaxGPUs: 8, Jobs: 1},
			{Like: l, Jobs: 1},
		} {
			g, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			gpus, load := float64(o.GPUs), o.Load
			if gpus == 0 {
				gpus = profiles[l].gpus
			}
			if load == 0 {
				load = profiles[l].load()
			}
			if got := g.Rate() * g.Work() / gpus; math.Abs(got-load) > 1e-9 {
				t.Errorf("%v: expected load %v instead of %v", l, got, load)
			}
			if o.Jobs == 1 {
				continue
			}
			work, last := 0.0, time.Duration(0)
			each(t, o, func(e *trace.Entry) {
				work += e.Truth.Total().Seconds() * float64(e.Job.Demand.Milli(e.Job.Demand.Roles[0].Tasks)) / 1000
				last = e.Job.Submit
			})
			if got := work / float64(o.Jobs); math.Abs(got/g.Work()-1) > .05 {
				t.Errorf("%v: a job demands %.0f GPU seconds instead of %.0f", l, got, g.Work())
			}
			if got := work / last.Seconds() / gpus; math.Abs(got/load-1) > .05 {
				t.Errorf("%v: load %.3f instead of %.3f", l, got, load)
			}
		}
	}
}

// TestSpan: jobs and span together set the rate.
func TestSpan(t *testing.T) {
	const span = 100 * 24 * time.Hour
	jobs := all(t, Options{Like: Venus, Jobs: 50_000, Span: span, Seed: 1})
	if last := jobs[len(jobs)-1].Job.Submit; math.Abs(last.Hours()/span.Hours()-1) > .05 {
		t.Errorf("the last job is submitted at %v instead of %v", last, span)
	}
}

// TestDay: submissions follow the hours of the day of the log.
func TestDay(t *testing.T) {
	for _, l := range []Like{Philly, Venus, ITP, PAI} {
		p := profiles[l]
		g, err := New(Options{Like: l, Jobs: 300_000, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float64, len(p.hours))
		var e trace.Entry
		for range 300_000 {
			if err := g.Next(&e); err != nil {
				t.Fatal(err)
			}
			got[int((g.origin+e.Job.Submit.Seconds())/3600)%len(got)] += float64(len(got)) / 300_000
		}
		for h := range got {
			if math.Abs(got[h]-p.hours[h]) > .12*p.hours[h]+.02 {
				t.Errorf("%v, hour %d: %.3f instead of %.3f", l, h, got[h], p.hours[h])
			}
		}
	}
}

// TestRecurrence: at least 65 % of the PAI tasks recur at least five times
// (Weng et al., NSDI 22), and those of one name ask for the same.
func TestRecurrence(t *testing.T) {
	longtest.Skip(t)
	jobs := all(t, Options{Like: PAI, Jobs: 100_000, Seed: 1})
	count := map[string]int{}
	shape := map[string]trace.Entry{}
	for _, e := range jobs {
		count[e.Job.Name]++
		if first, ok := shape[e.Job.Name]; !ok {
			shape[e.Job.Name] = e
		} else if first.Job.Demand != e.Job.Demand || first.Job.User != e.Job.User {
			t.Fatalf("%s: %v and %v", e.Job.Name, first.Job, e.Job)
		}
	}
	often := 0
	for _, e := range jobs {
		if count[e.Job.Name] >= 5 {
			often++
		}
	}
	if share := float64(often) / float64(len(jobs)); share < .65 {
		t.Errorf("%.3f of the tasks recur at least five times", share)
	}
}

// TestPAIRequests: the mean request of an instance is 0.68 GPU and the median
// 0.5, as published.
func TestPAIRequests(t *testing.T) {
	longtest.Skip(t)
	sum, half, n := 0.0, 0, 0
	for _, e := range all(t, Options{Like: PAI, Jobs: 100_000, Seed: 1}) {
		r := e.Job.Demand.Roles[0]
		sum += float64(r.GPU) / 1000
		if n++; r.GPU <= 500 {
			half++
		}
	}
	if mean := sum / float64(n); math.Abs(mean-.68) > .02 {
		t.Errorf("mean request of %.3f GPU", mean)
	}
	if share := float64(half) / float64(n); share < .5 || share > .58 {
		t.Errorf("%.3f of the requests are for at most half a GPU", share)
	}
}

// TestTenants: each user belongs to one tenant, and the tenants of the log have
// about their shares.
func TestTenants(t *testing.T) {
	longtest.Skip(t)
	for _, l := range []Like{Philly, Venus, ITP} {
		count := map[string]float64{}
		of := map[string]string{}
		for _, e := range all(t, Options{Like: l, Jobs: 100_000, Seed: 4}) {
			count[e.Job.Tenant] += 1.0 / 100_000
			if was, ok := of[e.Job.User]; ok && was != e.Job.Tenant {
				t.Fatalf("%v: %s belongs to %s and %s", l, e.Job.User, was, e.Job.Tenant)
			}
			of[e.Job.User] = e.Job.Tenant
		}
		for _, want := range profiles[l].tenants {
			if got := count[want.name]; math.Abs(got-want.part) > .12 {
				t.Errorf("%v: tenant %s has %.3f of the jobs instead of %.3f", l, want.name, got, want.part)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"nothing":      {},
		"like":         {Like: likes, Jobs: 1},
		"negative":     {Jobs: -1},
		"both":         {Jobs: 1, Span: 1, Load: 1},
		"not a number": {Jobs: 1, Load: math.NaN()},
		"overload":     {Jobs: 1, Load: math.Inf(1)},
		"no size":      {Like: Pollux, Jobs: 1, MaxGPUs: 1, MaxRun: time.Second},
		"tenants":      {Jobs: 1, Tenants: 1 << 30},
		"jobs":         {Jobs: 1 << 40},
		"cluster":      {Jobs: 1, GPUs: 1 << 40},
		"ages":         {Jobs: 1000, GPUs: 1, Load: 1e-6},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSample(t *testing.T) {
	o := SampleOptions()
	work, jobs := 0.0, all(t, o)
	tenants := map[string]bool{}
	for _, e := range jobs {
		work += e.Truth.Total().Seconds() * float64(e.Job.Demand.GPUs())
		tenants[e.Job.Tenant] = true
	}
	last := jobs[len(jobs)-1].Job.Submit
	if load := work / last.Seconds() / float64(o.GPUs); load < .85 || load > 1.05 {
		t.Errorf("the load of the sample is %.3f", load)
	}
	if len(jobs) != 1500 || len(tenants) < 4 || last > 10*24*time.Hour {
		t.Errorf("%d jobs of %d tenants, the last after %v", len(jobs), len(tenants), last)
	}
}

func BenchmarkNext(b *testing.B) {
	for l := range likes {
		b.Run(l.String(), func(b *testing.B) {
			g, err := New(Options{Like: l, Jobs: 1 << 28, GPUs: 1_000_000, Load: 1})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var e trace.Entry
			for b.Loop() {
				if err := g.Next(&e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(Options{Like: PAI, Jobs: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
