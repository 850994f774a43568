package fgd

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// part, whole and cpu are demands of one task.
func part(milli, cpu unit.Milli) *job.Demand {
	d := job.GPUs(1)
	d.Roles[0].GPU, d.Roles[0].CPU = milli, cpu
	return &d
}

func target(demands ...*job.Demand) *Target {
	counts := make([]float64, len(demands))
	for i := range counts {
		counts[i] = 1
	}
	return NewTarget(demands, make([]cluster.TypeMask, len(demands)), counts, 1)
}

func left(cpu unit.Milli, free ...int32) *node {
	n := &node{cpu: cpu, memory: plenty, free: free, total: int32(len(free)), tags: map[int32]int32{}, version: 1}
	for _, f := range free {
		n.idle += int64(f)
		n.spare, n.types = append(n.spare, plenty), append(n.types, 0)
	}
	return n
}

// Section 3.2: idle resources of a node are a fragment for a task as far as
// devices have too little left for it. They are a fragment wholly if the node
// cannot hold the task at all: too few devices, too little CPU, another type.
func TestFragment(t *testing.T) {
	other := shape{count: 1, milli: 500, types: 2}
	for _, c := range []struct {
		name string
		n    *node
		on   *Target
		want float64
	}{
		{"all of use", left(8000, 500, 1000), target(part(500, 1000)), 0},
		{"one device too full", left(8000, 400, 1000), target(part(500, 1000)), 400},
		{"half of the tasks need a whole device", left(8000, 500, 1000), target(part(500, 1000), part(1000, 1000)), 250},
		{"too few devices", left(8000, 500, 1000), target(part(2000, 1000)), 1500},
		{"too little CPU", left(900, 500, 1000), target(part(500, 1000)), 1500},
		{"another type", left(8000, 1000), &Target{shapes: []shape{other}, weights: []float64{1}}, 1000},
		{"tasks without a GPU use none", left(8000, 1000), target(part(0, 1000)), 1000},
		{"nothing idle", left(8000, 0), target(part(500, 1000)), 0},
	} {
		if got := c.on.fragment(c.n); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Section 4: a task goes where the fragment grows least: half a device is taken
// from a device that is half in use already, as whole ones are wanted, too.
func TestGradient(t *testing.T) {
	k := &scorer{by: Gradient, target: target(part(500, 0), part(1000, 0))}
	s, _ := shapeOf(part(500, 0), 0)
	n := left(8000, 1000, 500)
	score, device := k.score(n, &s)
	// Before, 250 are of no use in the mean; on device 1 it is nothing afterwards.
	if device != 1 || math.Abs(score-100/(1+math.Exp(-0.25))) > 1e-9 {
		t.Errorf("device %d at %v", device, score)
	}
	if whole, _ := k.score(left(8000, 1000), &s); whole >= score {
		t.Errorf("an idle device scores %v, one in use %v", whole, score)
	}
	if n.idle != 1500 || n.free[0] != 1000 || n.free[1] != 500 || n.cpu != 8000 {
		t.Errorf("scoring left %+v", n)
	}
}

// The target is the most frequent shapes that make up the popularity.
func TestTarget(t *testing.T) {
	ds := []*job.Demand{part(500, 1000), part(1000, 1000), part(250, 1000), part(0, 4000)}
	got := NewTarget(ds, make([]cluster.TypeMask, 4), []float64{50, 30, 15, 5}, 0.8)
	if len(got.shapes) != 2 || got.shapes[0].milli != 500 || math.Abs(got.weights[0]-50.0/80) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if got := NewTarget(ds, make([]cluster.TypeMask, 4), []float64{50, 30, 15, 5}, 0); len(got.shapes) != 1 || got.weights[0] != 1 {
		t.Errorf("of no popularity at all: %+v", got)
	}
}

// The scores that the paper compares with, worked out by hand after the published code;
// those of packing for two whole GPUs are the examples of its tests.
func TestScores(t *testing.T) {
	tagged := func(n *node, tags ...int32) *node {
		for _, tag := range tags {
			n.tags[tag]++
		}
		return n
	}
	four := func() *node { return left(64000, 200, 1000, 1000, 500) }
	idle := func(n int32) *node { return left(64000, slices.Repeat([]int32{1000}, int(n))...) }
	for _, c := range []struct {
		by     Score
		n      *node
		task   *job.Demand
		score  float64
		device int
	}{
		// 100 x (1 - (56 of 128 cores + 2 of 8 GPUs) / 2)
		{BestFit, idle(4), part(2000, 8000), 65.625, -1},
		{BestFit, left(plenty, 1000, 1000, 1000, 1000), part(2000, 8000), 87.5, -1}, // cores are not accounted
		{BestFit, four(), part(300, 64000), 100 * (1 - 2.4/16), 3},
		// 100 x (1 - (64/128 x 8/128 + 4/8 x 2/8) / 2)
		{DotProduct, idle(4), part(2000, 8000), 92.1875, -1},
		{DotProduct, left(plenty, 1000, 1000, 1000, 1000), part(2000, 8000), 93.75, -1},
		{Packing, four(), part(2000, 100), 48, -1},                // two idle devices of a node in use
		{Packing, idle(4), part(2000, 100), 29, -1},               // an idle node
		{Packing, idle(8), part(2000, 100), 25, -1},               // a larger one
		{Packing, four(), part(200, 100), 98, 0},                  // a device in use, of which a fifth is left
		{Packing, four(), part(450, 100), 95, 3},                  // one of which half is left
		{Packing, four(), part(600, 100), 49, 1},                  // only idle devices have enough
		{Packing, four(), part(0, 100), 0, -1},                    // no GPU at all
		{Clustering, tagged(four(), 0), part(500, 100), 91, 3},    // 5.3 of 8 GPUs in use or not there, the same sort alone
		{Clustering, tagged(four(), 0, 2), part(500, 100), 66, 3}, // and others
		{Clustering, four(), part(500, 100), 41, 3},               // nobody
		{Clustering, tagged(four(), 2), part(500, 100), 16, 3},    // others alone
		{Clustering, tagged(four(), 2), part(2000, 100), 91, -1},
		{Clustering, tagged(four(), 2), part(0, 100), 0, -1},
		{Random, four(), part(200, 100), 0, 0},
	} {
		k := &scorer{by: c.by}
		s, _ := shapeOf(c.task, 0)
		if score, device := k.score(c.n, &s); math.Abs(score-c.score) > 1e-9 || device != c.device {
			t.Errorf("score %d of %v for %+v: %v on device %d, want %v on %d", c.by, c.n.free, s, score, device, c.score, c.device)
		}
	}
}

// typed is a cluster of one node for each entry, with GPUs of one of the types A, B, ...
// and so many cores.
func typed(t *testing.T, cores int, nodes ...cluster.GPUs) *cluster.Cluster {
	c := cluster.New()
	for _, name := range []string{"A", "B"} {
		if _, err := c.AddType(cluster.GPUType{Name: name, Memory: 16 * unit.GiB}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AddType(cluster.GPUType{Name: "cores", Host: true}); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{n, {Type: 2, Count: 4}}, CPU: unit.Milli(cores) * unit.One}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// A gang of several tasks keeps to one GPU type where one has room for all of them, the
// best one for it first; only else types are mixed.
func TestGangKeepsToType(t *testing.T) {
	for _, c := range []struct {
		types string
		tasks int32
		want  string
	}{
		{"", 2, "n0[0]+n0[1]"}, {"", 4, "n1[0]+n1[1]+n1[2]+n1[3]"}, {"", 5, "n0[0]+n0[1]+n1[0]+n1[1]+n1[2]"}, {"B|A", 2, "n1[0]+n1[1]"}, {"A|B", 2, "n0[0]+n0[1]"},
	} {
		d := job.GPUs(1)
		d.Types, d.Roles[0].Tasks = c.types, c.tasks
		run := simtest.Go(t, simtest.Config{Cluster: typed(t, 64, cluster.GPUs{Type: 0, Count: 2}, cluster.GPUs{Type: 1, Count: 4}), Make: NewConfig().Policy},
			simtest.Job{Key: "a", Demand: &d, Run: 10})
		if want := "0 start a on " + c.want; !slices.Contains(run.Log, want) {
			t.Errorf("%d tasks on %q: %v, want %q", c.tasks, c.types, run.Log, want)
		}
	}
}

// A part of the processors of a node is no GPU and does not count as idle, nor
// does a broken GPU make a node look used; a job that does without a GPU runs
// there all the same.
func TestOnlyGPUsCount(t *testing.T) {
	c := typed(t, 64, cluster.GPUs{Type: 0, Count: 4})
	c.SetBroken(1, true)
	s := state.New(c, tenant.NewTree(0))
	v := sched.NewView(s, nil, false)
	var m mirror
	m.follow(&v)
	if n := &m.nodes[0]; n.idle != 3000 || n.total != 3 || n.packing(&shape{count: 1, milli: 1000}) != 100/3-3 {
		t.Errorf("%+v", n)
	}
	d := job.GPUs(1)
	d.Types = "cores"
	run := simtest.Go(t, simtest.Config{Cluster: typed(t, 64, cluster.GPUs{Type: 0, Count: 4}), Make: NewConfig().Policy}, simtest.Job{Key: "a", Demand: &d, Run: 10})
	if run.End("a") != 10 {
		t.Errorf("%v", run.Log)
	}
}

// A frozen job, left by another policy or held for a while, goes on where its memory is,
// and nothing is started there that has no room beside it; where it cannot, others of its
// sort go ahead.
func TestFrozen(t *testing.T) {
	for _, taken := range []bool{false, true} {
		s := state.New(typed(t, 64, cluster.GPUs{Type: 0, Count: 3}), tenant.NewTree(0))
		d := part(500, 0)
		d.Roles[0].GPUMemory = 10 * unit.GiB
		on := func(d cluster.DeviceID, milli int32) *cluster.Alloc {
			return &cluster.Alloc{Pieces: []cluster.Piece{{Tasks: 1, Shares: 1}}, Shares: []cluster.Share{{Device: d, Milli: milli, Memory: unit.GiB}}}
		}
		whole := job.GPUs(1)
		whole.Roles[0].GPUMemory = unit.GiB
		for id, demand := range []*job.Demand{d, &whole, d} {
			if err := s.Submit(&job.Job{ID: job.ID(id), Key: string(rune('a' + id)), Demand: demand, Stop: job.Freeze}, -1); err != nil {
				t.Fatal(err)
			}
		}
		err := s.Begin(0, on(1, 500), 0)
		s.Now = time.Second
		err = errors.Join(err, s.Preempt(0, time.Second, true, job.Reason{Code: job.MakesRoom, Job: job.None}))
		want := []cluster.DeviceID{1, 0}
		if taken {
			err, want[0] = errors.Join(err, s.Begin(1, on(1, 1000), 0)), -1
		}
		if err != nil {
			t.Fatal(err)
		}
		v := sched.NewView(s, []sched.Change{{Job: 0, Kind: sched.Arrived}, {Job: 2, Kind: sched.Arrived}}, true)
		var p sched.Plan
		p.Open(&v)
		f, _ := NewConfig().Policy()
		f.Decide(&v, &p)
		for i, id := range []job.ID{0, 2} {
			device := cluster.DeviceID(-1)
			if a := p.Alloc(id); a != nil {
				device = a.Shares[0].Device
			}
			if device != want[i] {
				t.Errorf("its place taken %v: job %d goes to device %d, want %d", taken, id, device, want[i])
			}
		}
		p.Discard()
	}
}

// An allocation that is given back leaves a node as it was, and scores change
// nothing.
func TestNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := left(unit.Milli(rapid.IntRange(0, 64).Draw(t, "cores"))*1000, rapid.SliceOfN(rapid.Int32Range(0, 1000), 1, 8).Draw(t, "free")...)
		gpu := unit.Milli(rapid.SampledFrom([]int{0, 100, 500, 1000, 2000, 4000}).Draw(t, "gpu"))
		s, ok := shapeOf(part(gpu, unit.Milli(rapid.IntRange(0, 16).Draw(t, "cpu"))*1000), 0)
		if !ok {
			t.Fatal("no shape")
		}
		was := *n
		was.free = append([]int32(nil), n.free...)
		if !n.fits(&s) {
			return
		}
		for by := Gradient; by <= Random; by++ {
			k := scorer{by: by, target: target(part(500, 1000), part(1000, 0)), whole: rapid.Bool().Draw(t, "whole")}
			_, device := k.score(n, &s)
			if part := gpu > 0 && gpu < unit.One; part != (device >= 0) {
				t.Fatalf("score %d names device %d for a task of %v", by, device, gpu)
			}
			devices := n.take(&s, device, nil)
			if int32(len(devices)) != s.count || n.idle != was.idle-int64(gpu) {
				t.Fatalf("score %d takes %v and leaves %d of %d", by, devices, n.idle, was.idle)
			}
			var shares []cluster.Share
			for _, d := range devices {
				shares = append(shares, cluster.Share{Device: cluster.DeviceID(d), Milli: s.milli})
			}
			n.giveBack(&s, shares)
			for d := range n.free {
				if n.free[d] != was.free[d] {
					t.Fatalf("device %d has %d left, not %d", d, n.free[d], was.free[d])
				}
			}
			if n.cpu != was.cpu || n.idle != was.idle || len(n.tags) > 0 {
				t.Fatalf("%+v, was %+v", n, was)
			}
		}
	})
}

// A policy whose memory of nodes is its own decides as one that starts anew: jobs
// come and go, gangs among them, on nodes of two types.
func TestRuns(t *testing.T) {
	for by := Gradient; by < Random; by++ {
		mk := func() (sched.Policy, error) {
			cfg := NewConfig()
			cfg.Score = by
			return cfg.Policy()
		}
		build := func() *cluster.Cluster {
			c := cluster.New()
			a, _ := c.AddType(cluster.GPUType{Name: "a", Memory: 16 * unit.GiB})
			b, _ := c.AddType(cluster.GPUType{Name: "b"})
			for i := range 4 {
				if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: []cluster.TypeID{a, b}[i%2], Count: 4}}, CPU: 16 * unit.One, Memory: 64 * unit.GiB}); err != nil {
					t.Fatal(err)
				}
			}
			return c
		}
		var jobs []simtest.Job
		for i := range 120 {
			d := part([]unit.Milli{250, 500, 1000, 2000, 0, 700}[i*7%6], unit.Milli(1000*(1+i%3)))
			d.Roles[0].GPUMemory = []unit.Bytes{0, 6 * unit.GiB}[i%2]
			if i%9 == 0 {
				d.Roles[0].Tasks = 3
			}
			if i%5 == 0 && d.Roles[0].GPU > 0 {
				d.Types = "b"
			}
			jobs = append(jobs, simtest.Job{Key: string(rune('a'+i%26)) + string(rune('a'+i/26)), At: float64(i), Demand: d, Run: float64(5 + i*13%40)})
		}
		once := simtest.Go(t, simtest.Config{Cluster: build(), Make: mk}, jobs...)
		again := simtest.Go(t, simtest.Config{Cluster: build(), Make: mk, Restart: true, Seed: 3}, jobs...)
		if a, b := decisions(once.Log), decisions(again.Log); !slices.Equal(a, b) {
			t.Errorf("score %d: restarted, it decides otherwise", by)
		}
		if len(once.State.Ended()) != len(jobs) {
			t.Errorf("score %d: %d of %d jobs ended", by, len(once.State.Ended()), len(jobs))
		}
	}
}

// decisions are the lines of a log but for the reasons to wait, which a policy that
// starts anew may tell anew.
func decisions(log []string) []string {
	return slices.DeleteFunc(slices.Clone(log), func(line string) bool { return strings.Contains(line, " wait ") })
}
