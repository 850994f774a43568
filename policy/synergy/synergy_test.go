package synergy

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
)

func gib(v float64) unit.Bytes { return unit.Bytes(v * float64(unit.GiB)) }

// nodes are n nodes of so many GPUs, cores and GiB.
func nodes(t testing.TB, n, gpus int, cores, memory float64) *cluster.Cluster {
	t.Helper()
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100"})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		spec := cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: gpus}}, CPU: unit.Milli(cores * 1000), Memory: gib(memory)}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// small is the server of the spec's worked examples.
func small(t testing.TB) *cluster.Cluster { return nodes(t, 1, 4, 12, 250) }

// books notes what each job has been given last.
type books struct {
	alloc map[string]*cluster.Alloc
	speed map[string]float64
	moves map[string]int
	first map[string]string // what it was given first
}

func (b *books) Event(ev *eventlog.Event, s *state.State) {
	switch ev.Kind {
	case eventlog.Start, eventlog.Move:
		key := s.Record(ev.Job).Job.Key
		a := &cluster.Alloc{}
		a.CopyFrom(s.Alloc(ev.Job))
		b.alloc[key], b.speed[key] = a, ev.Speed
		if ev.Kind == eventlog.Move {
			b.moves[key]++
		}
		if b.first[key] == "" {
			b.first[key] = b.given(key)
		}
	}
}

// given is the cores, the memory in GiB and the speed of a job.
func (b *books) given(key string) string {
	var cpu unit.Milli
	var memory unit.Bytes
	for _, p := range b.alloc[key].Pieces {
		cpu, memory = cpu+p.CPU, memory+p.Memory
	}
	return fmt.Sprintf("%v %.4g x%.4g", cpu, float64(memory)/float64(unit.GiB), b.speed[key])
}

func newBooks() *books {
	return &books{map[string]*cluster.Alloc{}, map[string]float64{}, map[string]int{}, map[string]string{}}
}

// play runs jobs under a policy, where speeds are as measured and known.
func play(t testing.TB, cl *cluster.Cluster, cfg *Config, jobs ...simtest.Job) (*simtest.Run, *books) {
	t.Helper()
	b := newBooks()
	m := &perf.Grids{Models: perf.MeasuredGrids()}
	run := simtest.Go(t, simtest.Config{
		Cluster: cl, Make: func() (sched.Policy, error) { return cfg.Policy() }, Model: m, Speeds: m, Sinks: []engine.Sink{b},
	}, jobs...)
	return run, b
}

func with(order Order, share Share) *Config {
	c := NewConfig()
	c.Order, c.Share = order, share
	return c
}

func one(model string, run float64) simtest.Job {
	return simtest.Job{Key: model, Model: model, GPUs: 1, Run: run}
}

// Acceptance A: all demands fit.
func TestAllFit(t *testing.T) {
	jobs := []simtest.Job{one("resnet18", 720), one("gnmt", 300), one("lstm", 300), one("transformer", 300)}
	run, b := play(t, small(t), with(FIFO, Tune), jobs...)
	for key, want := range map[string]string{"resnet18": "9 62.5 x2.4", "gnmt": "1 20.83 x1", "lstm": "1 20.83 x1", "transformer": "1 20.83 x1"} {
		if got := b.first[key]; got != want {
			t.Errorf("%s is given %s, want %s", key, got, want)
		}
	}
	if run.End("resnet18") != 300 || run.End("gnmt") != 300 {
		t.Errorf("resnet18 ends at %v, gnmt at %v", run.End("resnet18"), run.End("gnmt"))
	}
	run, b = play(t, small(t), with(FIFO, Proportional), jobs...)
	for _, j := range jobs {
		if got := b.first[j.Key]; got != "3 62.5 x1" {
			t.Errorf("in proportion %s is given %s", j.Key, got)
		}
	}
	if run.End("resnet18") != 720 {
		t.Errorf("resnet18 ends at %v", run.End("resnet18"))
	}
	// A round does 1125 iterations of 0.64 s / 2.4 instead of 468 of 0.64 s.
	speed := perf.MeasuredGrids()["resnet18"].Most()
	if fast, slow := math.Floor(300/(0.64/speed)), math.Floor(300/0.64); fast != 1125 || slow != 468 {
		t.Errorf("%v and %v iterations", fast, slow)
	}
}

// Acceptance B: a job that came first took everything, and gives back what it has beyond
// its share. The sums of speeds: in proportion 4.0, tune 4.0, greedy 2.94, opt 5.0.
func TestReverted(t *testing.T) {
	jobs := []simtest.Job{one("alexnet", 300), one("gnmt", 300), one("lstm", 300), one("transformer", 300)}
	for _, c := range []struct {
		share   Share
		surplus bool
		want    map[string]string
		sum     float64
	}{
		{Tune, true, map[string]string{"alexnet": "9 125 x2"}, 5}, // what it gave back is not lost
		{Proportional, false, map[string]string{"alexnet": "3 62.5 x1", "gnmt": "3 62.5 x1"}, 4},
		{Tune, false, map[string]string{"alexnet": "3 62.5 x1", "gnmt": "1 20.83 x1", "lstm": "1 20.83 x1", "transformer": "1 20.83 x1"}, 4},
		{Greedy, false, map[string]string{"alexnet": "12 125 x2.94"}, 2.94},
		{Opt, false, map[string]string{"alexnet": "9 62.5 x2", "gnmt": "1 20.83 x1"}, 5},
	} {
		cfg := with(FIFO, c.share)
		cfg.Fill, cfg.Surplus = false, c.surplus
		run, b := play(t, small(t), cfg, jobs...)
		sum := 0.0
		for _, j := range jobs {
			if run.Start(j.Key) > 0 {
				continue
			}
			var speed float64
			if _, err := fmt.Sscanf(b.first[j.Key][strings.Index(b.first[j.Key], "x"):], "x%g", &speed); err != nil {
				t.Fatal(err)
			}
			sum += speed
			if want := c.want[j.Key]; want != "" && b.first[j.Key] != want {
				t.Errorf("share %d: %s is given %s, want %s", c.share, j.Key, b.first[j.Key], want)
			}
		}
		if math.Abs(sum-c.sum) > 1e-9 {
			t.Errorf("share %d: the speeds sum up to %v, want %v", c.share, sum, c.sum)
		}
		if waits := run.Start("gnmt") > 0; waits != (c.share == Greedy) {
			t.Errorf("share %d: gnmt starts at %v", c.share, run.Start("gnmt"))
		}
	}
}

// A running job's ration is changed where it runs: it neither stops nor pauses.
func TestInPlace(t *testing.T) {
	jobs := []simtest.Job{one("alexnet", 2940), {Key: "later", Model: "gnmt", GPUs: 1, Run: 300, At: 310}}
	cfg := with(FIFO, Tune)
	cfg.Fill = false
	// 600 s at 2.94, while gnmt waits for its round, then 3 cores for 300 s, then 12 again.
	run, b := play(t, small(t), cfg, jobs...)
	if run.Start("later") != 600 || run.Preemptions() != 0 {
		t.Errorf("gnmt starts at %v; %d preemptions", run.Start("later"), run.Preemptions())
	}
	if got, want := run.End("alexnet"), 900+(2940-1764-300)/2.94; math.Abs(got-want) > 1e-6 || b.moves["alexnet"] != 2 {
		t.Errorf("alexnet ends at %v, want %v; it is changed %d times", got, want, b.moves["alexnet"])
	}
}

// Acceptance E: a job that does not fit lets smaller ones ahead; gangs are placed before
// smaller jobs under tune.
func TestBestEffort(t *testing.T) {
	gang := func(key string, gpus int, run, at float64) simtest.Job {
		return simtest.Job{Key: key, Model: "gnmt", GPUs: gpus, Run: run, At: at}
	}
	run, _ := play(t, nodes(t, 1, 8, 24, 500), with(FIFO, Tune), gang("a", 4, 900, 0), gang("eight", 8, 300, 1), gang("b", 2, 300, 2), gang("c", 2, 300, 3))
	if run.Start("b") > 300 || run.Start("c") > 300 || run.Start("eight") < 900 {
		t.Errorf("b starts at %v, c at %v, the gang of eight at %v", run.Start("b"), run.Start("c"), run.Start("eight"))
	}
	// Two nodes of 4: the pair came first, but the gang of four is placed first, so that
	// it has a node of its own, and the others share the other one.
	run, b := play(t, nodes(t, 2, 4, 12, 250), with(FIFO, Tune), gang("pair", 2, 300, 0), gang("single", 1, 300, 0), gang("four", 4, 300, 0))
	if run.Start("four") != 0 || b.alloc["four"].Pieces[0].Node != 0 || b.alloc["pair"].Pieces[0].Node != 1 || b.alloc["single"].Pieces[0].Node != 1 {
		t.Errorf("four on %+v, pair on %+v, single on %+v", b.alloc["four"].Pieces, b.alloc["pair"].Pieces, b.alloc["single"].Pieces)
	}
}

// Acceptance C, in the policy: what a gang wants is cut to its node, and to its share where
// it needs several.
func TestCapped(t *testing.T) {
	for _, c := range []struct {
		model string
		gpus  int
		want  string
	}{
		{"resnet18", 4, "24 250 x1.75"}, {"alexnet", 2, "24 250 x2.94"}, {"alexnet", 4, "24 500 x1.75"}, {"resnet18", 16, "48 1000 x1"}, {"gnmt", 16, "16 333.3 x1"},
	} {
		_, b := play(t, nodes(t, 2, 8, 24, 500), with(FIFO, Tune), simtest.Job{Key: "j", Model: c.model, GPUs: c.gpus, Run: 300})
		if b.first["j"] != c.want {
			t.Errorf("%s on %d GPUs is given %s, want %s", c.model, c.gpus, b.first["j"], c.want)
		}
	}
}

// The job that goes first.
func TestOrders(t *testing.T) {
	jobs := []simtest.Job{
		{Key: "long", Model: "gnmt", GPUs: 4, Run: 1500},
		{Key: "hungry", Model: "resnet18", GPUs: 1, Run: 1200, At: 1},
		{Key: "short", Model: "lstm", GPUs: 4, Run: 600, At: 2},
	}
	for _, c := range []struct {
		order Order
		share Share
		want  string // who runs in the round from 300 to 600
	}{
		{FIFO, Tune, "long"}, {LAS, Tune, "hungry"},
		{SRTF, Tune, "hungry"}, {SRTF, Proportional, "short"}, // 500 s at 2.4, or 1200
		{FTF, Tune, "short"}, {FTF, Proportional, "short"}, // 1, 0.67 or 1.25, 1.5
		{LeastFTF, Tune, "hungry"}, {LeastFTF, Proportional, "long"},
		{DRF, Tune, "hungry"}, // 1, 9 of 12 cores, 1
		{Tetris, Tune, "hungry"},
	} {
		cfg := with(c.order, c.share)
		cfg.Fill = false
		seen := ""
		b := newBooks()
		m := &perf.Grids{Models: perf.MeasuredGrids()}
		simtest.Go(t, simtest.Config{
			Cluster: small(t), Make: func() (sched.Policy, error) { return cfg.Policy() }, Model: m, Speeds: m,
			Sinks: []engine.Sink{b, sinkFunc(func(_ *eventlog.Event, s *state.State) {
				if now := s.Now.Seconds(); now != 300 || s.Jobs() < 3 {
					return
				}
				for i := range 3 {
					if r := s.Record(job.ID(i)); r.Phase == job.Running {
						seen = r.Job.Key
						break
					}
				}
			})},
		}, jobs...)
		if seen != c.want {
			t.Errorf("order %d, share %d: %s runs, want %s", c.order, c.share, seen, c.want)
		}
	}
}

type sinkFunc func(*eventlog.Event, *state.State)

func (f sinkFunc) Event(ev *eventlog.Event, s *state.State) { f(ev, s) }

// The policy goes by what it believes, jobs run by what is true: here it believes what the
// cheap way to measure told of a job, to which more than 6 cores made no difference. Where it
// believes nothing, jobs have what they ask for.
func TestBelief(t *testing.T) {
	p := perf.GridProfile{GPUs: 1, Cores: 12, Iterations: 1000, Dataset: 50 * unit.GiB, Cache: 1e12, Disk: 1e12}
	points := p.Explore(func(cores int) time.Duration { return time.Duration(float64(time.Second) / float64(min(cores, 6))) })
	grid, err := p.Grid(points, []unit.Bytes{gib(62.5)})
	if err != nil {
		t.Fatal(err)
	}
	asks := job.GPUs(1)
	asks.Roles[0].CPU = 2000
	for _, c := range []struct {
		believes map[string]*perf.Grid
		want     string
	}{{map[string]*perf.Grid{"alexnet": grid}, "6 62.5 x1.75"}, {perf.MeasuredGrids(), "12 125 x2.94"}, {nil, "2 0 x0.66"}} {
		b := newBooks()
		simtest.Go(t, simtest.Config{
			Cluster: small(t), Make: func() (sched.Policy, error) { return NewConfig().Policy() }, Sinks: []engine.Sink{b},
			Model: &perf.Grids{Models: perf.MeasuredGrids()}, Speeds: &perf.Grids{Models: c.believes},
		}, simtest.Job{Key: "j", Model: "alexnet", Demand: &asks, Run: 300})
		if b.first["j"] != c.want {
			t.Errorf("it is given %s, want %s", b.first["j"], c.want)
		}
	}
}

// A job whose gang pays for being apart is not torn apart for the sake of more cores.
func TestNotTornApart(t *testing.T) {
	m := &perf.Grids{Of: perf.Analytic{Scaling: 1, Spread: 0.3}, Models: perf.MeasuredGrids()}
	jobs := []simtest.Job{
		{Key: "x", Model: "alexnet", GPUs: 1, Run: 600}, {Key: "y", Model: "alexnet", GPUs: 1, Run: 600}, {Key: "pair", Model: "alexnet", GPUs: 2, Run: 600},
	}
	b := newBooks()
	simtest.Go(t, simtest.Config{
		Cluster: nodes(t, 2, 4, 12, 250), Make: func() (sched.Policy, error) { return with(FIFO, Tune).Policy() }, Model: m, Speeds: m, Sinks: []engine.Sink{b},
	}, jobs...)
	if n := b.alloc["pair"].Nodes(); n != 1 || b.speed["pair"] < 1 {
		t.Errorf("the pair is on %d nodes, at %v", n, b.speed["pair"])
	}
}

func TestSettings(t *testing.T) {
	c := NewConfig()
	c.Round = 0
	if _, err := c.Policy(); err == nil || !strings.Contains(err.Error(), "round") {
		t.Errorf("error %v", err)
	}
}
