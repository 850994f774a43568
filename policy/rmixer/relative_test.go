package rmixer_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/rmixer"
	"github.com/norn-scheduler/norn/policy/rmixer/memory"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// way is a way to run a batch.
type way struct {
	name    string
	jobs    rmixer.JobPolicy
	devices rmixer.DevicePolicy
	host    bool // two workers on processors besides
	mps     bool // no cost of switching between processes
}

var ways = []way{
	{"dyMix", rmixer.DyMix, rmixer.LeastBooked, true, false},
	{"dyMix, GPUs only", rmixer.DyMix, rmixer.LeastBooked, false, false},
	{"dyType", rmixer.DyType, rmixer.LeastBooked, false, false},
	{"dyMemo", rmixer.DyMemo, rmixer.MostFree, false, false},
	{"dyArin", rmixer.DyArin, rmixer.LeastUse, false, false},
	{"dySequ", rmixer.DySequ, rmixer.InOrder, false, false},
	{"static", rmixer.Static, rmixer.LeastBooked, false, false},
	{"cognn", rmixer.CoGNN, rmixer.MostFree, false, false},
	{"mps", rmixer.MPS, rmixer.InOrder, false, true},
	{"monolithic", rmixer.Monolithic, rmixer.InOrder, false, false},
}

// outcome is what became of a batch.
type outcome struct {
	makespan float64 // seconds
	ooms     int
	balance  float64 // most over mean use of the GPUs
	use      float64 // mean use of the GPUs over the makespan, percent
	onHost   int     // jobs that ran on processors
}

// meter counts what ran out of memory, and how much each GPU was used.
type meter struct {
	ooms, host int
	use        []float64 // of each GPU now, percent, at most 100
	total      []float64 // percent x seconds
	last       time.Duration
}

// Event implements engine.Sink.
func (m *meter) Event(ev *eventlog.Event, s *state.State) {
	if ev.Kind == eventlog.Evict && ev.Reason.Code == job.OutOfMemory {
		m.ooms++
	}
	for d := range m.use {
		m.total[d] += min(100, m.use[d]) * (ev.Time - m.last).Seconds()
		m.use[d] = 0
	}
	m.last = ev.Time
	for id := range s.Running(0).All() {
		if d := int(s.Alloc(job.ID(id)).Shares[0].Device); d < len(m.use) {
			m.use[d] += 100 * s.Record(job.ID(id)).Job.Hints.GPUUse
		}
	}
	if ev.Kind == eventlog.Start && int(s.Alloc(ev.Job).Shares[0].Device) >= len(m.use) {
		m.host++
	}
}

// play runs a batch on one node in one of the ways.
func play(t testing.TB, jobs []trace.Entry, gpus int, w way, change func(*rmixer.Config), sharing perf.Sharing) outcome {
	t.Helper()
	return playOn(t, jobs, gpus, 16160, w, change, sharing)
}

// playOn is play on GPUs of so many MiB.
func playOn(t testing.TB, jobs []trace.Entry, gpus int, mib int64, w way, change func(*rmixer.Config), sharing perf.Sharing) outcome {
	t.Helper()
	m := &meter{use: make([]float64, gpus), total: make([]float64, gpus)}
	if sharing == nil {
		sharing = perf.Demands{Switch: 0.03}
	}
	if d, ok := sharing.(perf.Demands); ok && w.mps {
		d.Switch = 0
		sharing = d
	}
	r := simtest.Go(t, simtest.Config{
		Cluster: node(t, 1, gpus, mib, w.host), Shared: true, Unchecked: true, Sinks: []engine.Sink{m},
		Make: config(func(c *rmixer.Config) {
			c.Jobs, c.Devices = w.jobs, w.devices
			if change != nil {
				change(c)
			}
		}),
		World: func(c *sim.Config) {
			c.Source, c.Measure, c.Sharing = trace.FromMemory(slices.Clone(jobs)), true, sharing
		},
	})
	out := outcome{ooms: m.ooms, onHost: m.host}
	for i := range jobs {
		end := r.End(jobs[i].Job.Key)
		if end < 0 {
			t.Fatalf("%s: job %s does not end: %v", w.name, jobs[i].Job.Key, r.Record(jobs[i].Job.Key).Reason)
		}
		out.makespan = max(out.makespan, end)
	}
	sum := 0.0
	for _, u := range m.total {
		sum += u
	}
	out.balance, out.use = slices.Max(m.total)/(sum/float64(gpus)), sum/float64(gpus)/out.makespan
	return out
}

// list is one of the task lists.
func list(t testing.TB, l gen.TaskList, jobs, outliers int, seed uint64) []trace.Entry {
	t.Helper()
	out, err := gen.NewDLRM(gen.DLRM{List: l, Jobs: jobs, Outliers: outliers, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var lists = []gen.TaskList{gen.BalanceList, gen.BandwidthList, gen.ComputingList, gen.MemoryList}

// recordedBeta is beta of the recorded run.
func recordedBeta(c *rmixer.Config) { c.Beta = 4 }

// TestTable prints what docs/policies/rmixer.md shows: makespan, throughput over that
// of monolithic execution on one GPU, balance and mean use of the GPUs, for each list,
// way, and number of GPUs.
func TestTable(t *testing.T) {
	for _, jobs := range []int{24, 72} {
		for _, gpus := range []int{1, 4} {
			var b strings.Builder
			fmt.Fprintf(&b, "%d jobs, %d GPUs\n%-18s", jobs, gpus, "")
			for _, l := range lists {
				fmt.Fprintf(&b, "%26v", l)
			}
			for _, w := range ways {
				fmt.Fprintf(&b, "\n%-18s", w.name)
				for _, l := range lists {
					batch := list(t, l, jobs, 0, 1)
					mono := play(t, batch, 1, monolithic, nil, nil)
					o := play(t, batch, gpus, w, recordedBeta, nil)
					fmt.Fprintf(&b, "%7.0fs %5.2fx %4.2f %4.1f%%", o.makespan, mono.makespan/o.makespan, o.balance, o.use)
					if o.ooms > 0 {
						t.Errorf("%s, %v, %d GPUs: memory ran out %d times", w.name, l, gpus, o.ooms)
					}
				}
			}
			t.Log(b.String())
		}
	}
}

// Acceptance 6, on each list of 24 jobs and for several seeds. On one GPU dyMix
// is no slower than dyType (to a thousandth), that than dyMemo, that than CoGNN
// and static, those than MPS rounds, and those than monolithic execution. dyMix
// with two workers on processors is 3 to 5.3 times as fast as monolithic
// execution, and on four GPUs at least 7 times. Memory never runs out where it
// is what admission counts with.
func TestRelative(t *testing.T) {
	for _, l := range lists {
		for seed := range uint64(5) {
			batch := list(t, l, 24, 0, seed)
			at := map[rmixer.JobPolicy]float64{}
			for _, w := range ways {
				if w.name == "dyMix, GPUs only" {
					continue
				}
				o := play(t, batch, 1, w, nil, nil)
				if at[w.jobs] = o.makespan; o.ooms > 0 {
					t.Errorf("%v, seed %d, %s: memory ran out %d times", l, seed, w.name, o.ooms)
				}
			}
			order := []rmixer.JobPolicy{rmixer.DyMix, rmixer.DyType, rmixer.DyMemo, rmixer.Static, rmixer.MPS, rmixer.Monolithic}
			for i := range order[1:] {
				if at[order[i]] > 1.001*at[order[i+1]] {
					t.Errorf("%v, seed %d: %v s under policy %d, %v s under %d", l, seed, at[order[i]], order[i], at[order[i+1]], order[i+1])
				}
			}
			if at[rmixer.DyMemo] > at[rmixer.CoGNN] || at[rmixer.CoGNN] > at[rmixer.Monolithic] {
				t.Errorf("%v, seed %d: %v s under CoGNN", l, seed, at[rmixer.CoGNN])
			}
			one, four := at[rmixer.Monolithic]/at[rmixer.DyMix], at[rmixer.Monolithic]/play(t, batch, 4, ways[0], nil, nil).makespan
			if one < 3 || one > 5.3 || four < 7 {
				t.Errorf("%v, seed %d: %.2f times monolithic on one GPU, %.2f on four", l, seed, one, four)
			}
		}
	}
}

// TestBeta prints by how much less time dyMix takes than without processors, for each
// list and beta, and for jobs that take other times on processors than is assumed. With
// the default it is never behind dyType. With 2, as in the authors' code, it is behind
// on the bandwidth list, where the last job on processors ends after all others.
func TestBeta(t *testing.T) {
	usual := rmixer.NewConfig().Beta
	for _, slower := range []float64{0.75, 1, 1.5, 2} {
		for _, l := range lists {
			mean, kinds := map[float64]float64{}, 0.0
			for seed := range uint64(5) {
				batch := onProcessors(list(t, l, 24, 0, seed), slower)
				alone, kind := play(t, batch, 1, ways[1], nil, nil).makespan, play(t, batch, 1, ways[2], nil, nil).makespan
				kinds += kind / alone / 5
				for _, beta := range []float64{2, 2.5, 3, usual, 4, 5} {
					at := play(t, batch, 1, ways[0], func(c *rmixer.Config) { c.Beta = beta }, nil).makespan
					if mean[beta] += at / alone / 5; beta == usual && at > 1.001*kind {
						t.Errorf("%v x %g, seed %d: %.0f s, dyType %.0f s", l, slower, seed, at, kind)
					}
				}
			}
			t.Logf("processors x %-4g %-9v over GPUs only: beta 2 %.2f, 2.5 %.2f, 3 %.2f, 3.5 %.2f, 4 %.2f, 5 %.2f; dyType %.2f", slower, l, mean[2], mean[2.5], mean[3], mean[usual], mean[4], mean[5], kinds)
			if slower == 1 && (mean[2] > kinds) != (l == gen.BandwidthList) {
				t.Errorf("%v: beta 2 %.2f, dyType %.2f", l, mean[2], kinds)
			}
		}
	}
}

// onProcessors is a batch whose jobs take so many times as long on processors.
func onProcessors(batch []trace.Entry, slower float64) []trace.Entry {
	for i := range batch {
		h := *batch[i].Job.Hints
		h.CPUTime = time.Duration(slower * float64(h.CPUTime))
		batch[i].Job.Hints = &h
	}
	return batch
}

// The generated memory list is the recorded run in the simulator: as many jobs on
// processors, and a makespan within 3 % of the 463.6 s without process starts.
func TestCalibration(t *testing.T) {
	for seed := range uint64(5) {
		if o := play(t, list(t, gen.MemoryList, 24, 0, seed), 1, ways[0], recordedBeta, nil); o.onHost != 5 || math.Abs(o.makespan/463.6-1) > 0.03 {
			t.Errorf("seed %d: %d jobs on processors, makespan %.1f s", seed, o.onHost, o.makespan)
		}
	}
}

// With 72 jobs no GPU of four is used more than a quarter above the mean.
func TestBalance(t *testing.T) {
	for _, l := range lists {
		if o := play(t, list(t, l, 72, 0, 1), 4, ways[0], recordedBeta, nil); o.balance > 1.25 {
			t.Errorf("%v: the most used GPU has %.2f times the mean", l, o.balance)
		}
	}
}

// Jobs take 1.4 times their estimate on GPUs that are full. A few of them are
// made up for by the others, which take less than is booked. If two of three
// jobs do so, memory runs out, and all jobs end nevertheless. Without them it
// never does.
func TestOutliers(t *testing.T) {
	ran := map[int]int{}
	for _, l := range lists {
		for seed := range uint64(4) {
			for _, outliers := range []int{0, 4, 48} {
				o := play(t, list(t, l, 72, outliers, seed), 2, ways[0], func(c *rmixer.Config) { c.GPUWorkers, c.Guard = 8, 1<<20 }, nil)
				if outliers == 0 && o.ooms > 0 {
					t.Errorf("%v, seed %d: memory ran out %d times with truth inside the factor", l, seed, o.ooms)
				}
				ran[outliers] += o.ooms
			}
		}
	}
	if ran[48] == 0 {
		t.Error("outliers never ran out of memory: the test shows nothing")
	}
	t.Logf("memory ran out so many times in 16 batches of 72 jobs, by the number of outliers: %v", ran)
}

// How much of the gain depends on the model of interference: switching between
// processes that costs nothing to ten per cent each, demands half as large to twice as
// large, and speeds drawn at random for each pair. RMixer stays ahead of rounds and of
// one job at a time in all of them.
func TestSensitivity(t *testing.T) {
	scaled := func(by float64) perf.Demands {
		return perf.Demands{Switch: 0.03, Of: func(j *job.Job) perf.Demand {
			d, _ := perf.Hinted(j)
			for i := range d {
				d[i] *= by
			}
			return d
		}}
	}
	models := []struct {
		name string
		m    perf.Sharing
	}{
		{"nobody disturbs", perf.Demands{}}, {"switching 3 %", perf.Demands{Switch: 0.03}}, {"switching 10 %", perf.Demands{Switch: 0.1}},
		{"demands x 0.5", scaled(0.5)}, {"demands x 1.5", scaled(1.5)}, {"demands x 2", scaled(2)}, {"random pairs", randomPairs(3)},
	}
	for _, x := range models {
		line := fmt.Sprintf("%-16s", x.name)
		for _, l := range lists {
			batch := list(t, l, 24, 0, 1)
			mono := play(t, batch, 1, monolithic, nil, x.m).makespan
			mix, kind := play(t, batch, 1, ways[0], recordedBeta, x.m).makespan, play(t, batch, 1, ways[2], nil, x.m).makespan
			bmc, mps := play(t, batch, 1, cognn, nil, x.m).makespan, play(t, batch, 1, mpsRounds, nil, x.m).makespan
			line += fmt.Sprintf("   %v: dyMix %.2f dyType %.2f cognn %.2f mps %.2f", l, mono/mix, mono/kind, mono/bmc, mono/mps)
			if mix > bmc || mix > mps || mix > mono {
				t.Errorf("%s, %v: dyMix takes %.0f s, CoGNN %.0f, MPS rounds %.0f, one at a time %.0f", x.name, l, mix, bmc, mps, mono)
			}
		}
		t.Log(line)
	}
}

var (
	cognn, mpsRounds, monolithic = ways[len(ways)-3], ways[len(ways)-2], ways[len(ways)-1]
)

// randomPairs is a table of measured pairs of all models, from 0.75 to 1.
func randomPairs(seed uint64) perf.Pairs {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := perf.Pairs{Speed: map[perf.Pair]float64{}}
	models := memory.Models()
	for i := range models {
		for j := range models {
			m.Speed[perf.Pair{Job: models[i].Name, Beside: models[j].Name}] = 0.75 + 0.25*rng.Float64()
		}
	}
	return m
}

// shapeOnly is a batch whose jobs tell the shapes of their models in the place of their
// memory and of their names, by which the policy would know what was measured of them.
func shapeOnly(t testing.TB, batch []trace.Entry) []trace.Entry {
	t.Helper()
	models, plain := memory.Models(), job.GPUs(1)
	out := slices.Clone(batch)
	for i := range out {
		m, ok := memory.Find(models, out[i].Job.Model)
		if !ok {
			t.Fatalf("no model %s", out[i].Job.Model)
		}
		s, h := m.Shape(), *out[i].Job.Hints
		h.GPUMemory, h.Shape = 0, &s
		out[i].Job.Demand, out[i].Job.Hints, out[i].Job.Model = &plain, &h, ""
	}
	return out
}

// TestShapeBelief prints what is lost when memory is believed from shapes, for
// docs/policies/rmixer.md: jobs take 0.8 to 1.19 times what was measured of their models,
// on GPUs of 16 and 8 GB. By default at most 5 % of the throughput is lost on GPUs of 16
// GB, memory never runs out there, and a factor of 1.2 is worse on each list.
func TestShapeBelief(t *testing.T) {
	for _, gpu := range []int64{16160, 8080} {
		for _, l := range lists {
			line := fmt.Sprintf("%d MiB, %-9v", gpu, l)
			at := map[float64]outcome{}
			for _, factor := range []float64{0, 1.2, 1.5, 2, 2.6} { // 0: what was measured is known
				var sum outcome
				for seed := range uint64(3) {
					batch := list(t, l, 72, 0, seed)
					if factor > 0 {
						batch = shapeOnly(t, batch)
					}
					o := playOn(t, batch, 1, gpu, ways[0], func(c *rmixer.Config) { c.Beta, c.ShapeFactor = 4, max(1, factor) }, nil)
					sum.makespan, sum.ooms = sum.makespan+o.makespan/3, sum.ooms+o.ooms
				}
				at[factor] = sum
				line += fmt.Sprintf("  factor %.1f: %5.0f s, out of memory %d times", factor, sum.makespan, sum.ooms)
			}
			t.Log(line)
			usual := at[rmixer.NewConfig().ShapeFactor]
			if gpu == 16160 && (usual.makespan > 1.05*at[0].makespan || usual.ooms > 0 || usual.makespan >= at[1.2].makespan) {
				t.Errorf("%v: %.0f s, memory ran out %d times; %.0f s when it is known, %.0f s with 1.2", l, usual.makespan, usual.ooms, at[0].makespan, at[1.2].makespan)
			}
		}
	}
}
