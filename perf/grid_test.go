package perf

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
)

func cores(n float64) unit.Milli { return unit.Milli(n * 1000) }

// The profiles of the spec, section 2.5: best ration and speed-up.
func TestMeasuredGrids(t *testing.T) {
	all := MeasuredGrids()
	for name, want := range map[string]struct{ cpu, memory, speed float64 }{
		"alexnet": {12, 125, 2.94}, "shufflenet": {12, 125, 2.89}, "resnet18": {9, 62.5, 2.4}, "mobilenet": {6, 62.5, 1.55},
		"resnet50": {4, 62.5, 1.15}, "m5": {6, 187.5, 2.5}, "deepspeech": {3, 62.5, 1}, "transformer": {1, 62.5 / 3, 1},
		"gnmt": {1, 62.5 / 3, 1}, "lstm": {1, 62.5 / 3, 1},
	} {
		g := all[name]
		if err := g.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if b := g.Best(); b != (Ration{cores(want.cpu), gib(want.memory)}) || g.Most() != want.speed || g.Rate(b) != want.speed {
			t.Errorf("%s: best %+v at %v", name, b, g.Rate(b))
		}
		if g.Rate(FairShare()) != 1 {
			t.Errorf("%s: %v at the fair share", name, g.Rate(FairShare()))
		}
	}
	row := []float64{.37, .72, 1, 1.3, 1.53, 1.75, 2.4, 2.4, 2.4}
	for i, c := range []float64{1, 2, 3, 4, 5, 6, 9, 12, 24} {
		if got := all["resnet18"].Rate(Ration{cores(c), gib(62.5)}); got != row[i] {
			t.Errorf("resnet18 with %v cores: %v", c, got)
		}
	}
	for _, c := range []struct{ cpu, memory, want float64 }{{12, 124.9, 2.94}, {12, 62.5, 2}, {9, 250, 2}, {12, 500, 2.94}, {100, 125, 2.94}, {12, 62.5 / 3, 0.1}} {
		if got := all["alexnet"].Rate(Ration{cores(c.cpu), gib(c.memory)}); math.Abs(got-c.want) > 2e-3 {
			t.Errorf("alexnet with %v cores and %v GiB: %v, want %v", c.cpu, c.memory, got, c.want)
		}
	}
}

// Between measurements the rate is a straight line, below the fewest cores it falls in
// proportion, and with the least memory it is what it is there.
func TestGridBetween(t *testing.T) {
	g := &Grid{CPUs: []unit.Milli{2000, 4000}, Memory: []unit.Bytes{10, 20}, Rates: [][]float64{{1, 2}, {3, 5}}}
	for _, c := range []struct {
		r    Ration
		want float64
	}{
		{Ration{2000, 10}, 1}, {Ration{3000, 10}, 2}, {Ration{2000, 15}, 1.5}, {Ration{3000, 15}, 2.75}, {Ration{1000, 10}, 0.5}, {Ration{1000, 20}, 1},
		{Ration{0, 20}, 0}, {Ration{4000, 5}, 3}, {Ration{9000, 90}, 5},
	} {
		if got := g.Rate(c.r); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v, want %v", c.r, got, c.want)
		}
	}
}

// Acceptance C, by what was measured: what a demand is worth that is cut to what a server
// has. Synergy's simulator draws a straight line instead, see published/synergy.
func TestCappedDemand(t *testing.T) {
	for _, c := range []struct {
		model             string
		gpus              int
		cpu, memory, want float64
	}{
		{"resnet18", 4, 24, 250, 1.75},     // wants 36 cores of 24
		{"alexnet", 2, 24, 250, 2.94},      // has all that it wants
		{"alexnet", 4, 24, 500, 1.75},      // wants 48
		{"resnet18", 16, 48, 1000, 1},      // two servers: its share
		{"m5", 4, 24, 500, 2},              // cut in memory alone
		{"resnet18", 1, 2, 62.5, 0.72},     // less than its share
		{"resnet18", 1, 3, 62.5 / 3, 0.1},  // in memory
		{"mobilenet", 6, 24, 375, 1.3},     // 4 cores for each GPU
		{"alexnet", 1, 10.5, 62.5, 2},      // the memory counts
		{"resnet18", 1, 7.5, 62.5, 2.075},  // half way
		{"alexnet", 1, 10.5, 125, 2.47},    // between 2 and 2.94
		{"alexnet", 1, 10.5, 93.75, 2.235}, // in both directions
		{"gnmt", 8, 8, 8 * 62.5 / 3, 1},    // nothing makes it faster
	} {
		r := Ration{cores(c.cpu / float64(c.gpus)), gib(c.memory / float64(c.gpus))}
		if got := MeasuredGrids()[c.model].Rate(r); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s on %d GPUs: %v, want %v", c.model, c.gpus, got, c.want)
		}
	}
}

// More of anything is never slower, and the smallest ration that reaches a rate reaches
// it.
func TestGridMonotone(t *testing.T) {
	all := MeasuredGrids()
	names := []string{"alexnet", "shufflenet", "resnet18", "mobilenet", "resnet50", "m5", "deepspeech", "gnmt"}
	rapid.Check(t, func(t *rapid.T) {
		g := all[rapid.SampledFrom(names).Draw(t, "model")]
		r := Ration{unit.Milli(rapid.IntRange(0, 30_000).Draw(t, "cpu")), unit.Bytes(rapid.IntRange(0, 300).Draw(t, "memory")) * unit.GiB}
		more := Ration{r.CPU + unit.Milli(rapid.IntRange(0, 5000).Draw(t, "more")), r.Memory + unit.Bytes(rapid.IntRange(0, 50).Draw(t, "more memory"))*unit.GiB}
		if a, b := g.Rate(r), g.Rate(more); b < a-1e-12 || a < 0 || b > g.Most() {
			t.Fatalf("%+v: %v, %+v: %v", r, a, more, b)
		}
		want := rapid.Float64Range(0.1, g.Most()).Draw(t, "rate")
		if e := g.Enough(want); g.Rate(e) < want-1e-12 {
			t.Fatalf("%+v is not enough for %v: %v", e, want, g.Rate(e))
		}
	})
}

func grids(t *testing.T) (*Grids, *cluster.Cluster, func(nodes []int, cpu, memory float64) *cluster.Alloc) {
	c := cluster.New()
	typ, err := c.AddType(cluster.GPUType{Name: "V100", Speed: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.AddNode(cluster.NodeSpec{GPUs: []cluster.GPUs{{Type: typ, Count: 8}}, CPU: cores(24), Memory: gib(500)}); err != nil {
			t.Fatal(err)
		}
	}
	return &Grids{Of: Analytic{Scaling: 1, Spread: 0.5}, Models: MeasuredGrids()}, c, func(gpus []int, cpu, memory float64) *cluster.Alloc {
		a := &cluster.Alloc{}
		for n, k := range gpus {
			a.Pieces = append(a.Pieces, cluster.Piece{Node: cluster.NodeID(n), Tasks: int32(k), Shares: int32(k), CPU: cores(cpu), Memory: gib(memory)})
			for i := range k {
				a.Shares = append(a.Shares, cluster.Share{Device: cluster.DeviceID(8*n + i), Milli: 1000})
			}
		}
		return a
	}
}

func TestGridsSpeed(t *testing.T) {
	m, c, alloc := grids(t)
	for _, x := range []struct {
		model string
		a     *cluster.Alloc
		want  float64
	}{
		{"resnet18", alloc([]int{1}, 9, 62.5), 2 * 2.4},
		{"ResNet18", alloc([]int{1}, 3, 62.5), 2},
		{"res18", alloc([]int{2}, 12, 125), 2 * 1.75},
		{"resnet18", alloc([]int{1}, 0, 0), 2},                 // nothing is booked: it has its share
		{"resnet18", alloc([]int{1}, 9, 0), 2 * 2.4},           // of memory
		{"gnmt", alloc([]int{1}, 0.1, 1), 2 * 0.1},             // below a core
		{"vgg16", alloc([]int{1}, 0.1, 1), 2},                  // no grid
		{"", alloc([]int{1}, 0.1, 1), 2},                       // no name
		{"resnet18", alloc([]int{1, 3}, 9, 187.5), 2 * .5 * 1}, // 9 and 3 cores for each GPU, on two nodes
	} {
		j := &job.Job{Model: x.model, Demand: &job.Demand{}}
		if got := m.Speed(j, c, x.a); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%q on %+v: %v, want %v", x.model, x.a.Pieces, got, x.want)
		}
	}
	m.Share = Ration{cores(6), gib(62.5)}
	if got := m.Speed(&job.Job{Model: "resnet18", Demand: &job.Demand{}}, c, alloc([]int{1}, 9, 62.5)); math.Abs(got-2*2.4/1.75) > 1e-9 {
		t.Errorf("relative to another share: %v", got)
	}
	d := job.GPUs(1)
	if got := m.On(&job.Job{Model: "resnet18", Demand: &d}, c, 0, 1, true); got != 1 {
		t.Errorf("with its share on several nodes: %v, want 2 x 0.5", got)
	}
	var _ Sensitive = m
}

// Optimistic profiling: where an iteration takes as long with half the cores these are
// halved, otherwise there is one less for each GPU; the first run is a warm-up.
func TestExplore(t *testing.T) {
	p := &GridProfile{GPUs: 2, Cores: 24}
	var asked []int
	points := p.Explore(func(n int) time.Duration {
		asked = append(asked, n)
		return time.Second * 12 / time.Duration(min(n, 12)) // cores count up to 12
	})
	if want := []int{24, 24, 12, 6, 4, 2}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	if len(points) != len(asked)-1 || points[0] != (GridPoint{24, time.Second}) || points[4] != (GridPoint{2, 6 * time.Second}) {
		t.Errorf("points %v", points)
	}
	asked = asked[:0]
	slow := true
	p.Explore(func(n int) time.Duration { // a cold start is no measurement
		asked = append(asked, n)
		if slow {
			slow = false
			return 10 * time.Second
		}
		return time.Second
	})
	if want := []int{24, 24, 22, 11, 5, 2, 1}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
}

// Memory is computed: 100 iterations an epoch over 100 GiB, 10 GiB a second from memory
// and 0.5 from the disk.
func TestGridProfile(t *testing.T) {
	const gibs = float64(unit.GiB)
	p := &GridProfile{GPUs: 2, Cores: 24, Iterations: 100, Dataset: 100 * unit.GiB, Cache: 10 * gibs, Disk: 0.5 * gibs}
	for _, c := range []struct{ memory, seconds, speed float64 }{
		{0, 200, 0.5}, {50, 105, 0.5}, {100, 10, 0}, {500, 10, 0}, {60, 86, 40.0 / 94},
	} {
		m := gib(c.memory)
		if got := p.Fetch(m).Seconds(); math.Abs(got-c.seconds) > 1e-6 {
			t.Errorf("with %v GiB the data takes %v s, want %v", c.memory, got, c.seconds)
		}
		if got := p.Storage(100*time.Second, m) / gibs; math.Abs(got-c.speed) > 1e-6 {
			t.Errorf("with %v GiB it needs %v GiB/s, want %v", c.memory, got, c.speed)
		}
	}
	points := p.Explore(func(n int) time.Duration { return time.Second * 12 / time.Duration(min(n, 12)) })
	g, err := p.Grid(points, []unit.Bytes{0 + unit.GiB, 25 * unit.GiB, 50 * unit.GiB})
	if err != nil {
		t.Fatal(err)
	}
	// To within 10 % it is as fast with half of the data in memory.
	if b := g.Best(); b != (Ration{cores(6), 25 * unit.GiB}) || g.Most() != 1 {
		t.Errorf("best %+v at %v", b, g.Most())
	}
	if got, want := g.Rate(Ration{cores(6), 25 * unit.GiB}), 100.0/105; math.Abs(got-want) > 1e-9 {
		t.Errorf("with half the data in memory: %v, want %v", got, want)
	}
	if got := g.Rate(Ration{cores(3), 25 * unit.GiB}); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("with half the cores: %v", got)
	}
	if b := g.Enough(g.Most()); b != (Ration{cores(6), 50 * unit.GiB}) {
		t.Errorf("the fastest is %+v", b)
	}
	drifts, err := p.Grid([]GridPoint{{2, 2 * time.Second}, {4, time.Second}, {12, 980 * time.Millisecond}, {24, 950 * time.Millisecond}}, []unit.Bytes{200 * unit.GiB})
	if b := drifts.Best(); err != nil || b != (Ration{cores(2), 200 * unit.GiB}) {
		t.Errorf("where more than 4 cores make a difference of 5 %%: %+v, %v", b, err)
	}
	noisy, err := p.Grid([]GridPoint{{4, time.Second}, {8, 2 * time.Second}}, []unit.Bytes{200 * unit.GiB})
	if err != nil || noisy.Rates[1][0] != noisy.Rates[0][0] {
		t.Errorf("a noisy measurement: %+v, %v", noisy, err)
	}
	for _, bad := range []*GridProfile{{}, {GPUs: 1}} {
		if _, err := bad.Grid(points, []unit.Bytes{1}); err == nil {
			t.Errorf("%+v makes a grid", bad)
		}
	}
	if _, err := p.Grid(points, nil); err == nil {
		t.Error("a grid without memory")
	}
	if _, err := p.Grid([]GridPoint{{1, 0}}, []unit.Bytes{1}); err == nil {
		t.Error("a grid of nothing")
	}
}

func TestGridCheck(t *testing.T) {
	for _, g := range []Grid{
		{CPUs: []unit.Milli{1}, Memory: []unit.Bytes{1}, Rates: [][]float64{{1}}, Slack: 1},
		{}, {CPUs: []unit.Milli{1}, Memory: []unit.Bytes{1}}, {CPUs: []unit.Milli{1}, Memory: []unit.Bytes{1}, Rates: [][]float64{{}}},
		{CPUs: []unit.Milli{0}, Memory: []unit.Bytes{1}, Rates: [][]float64{{1}}}, {CPUs: []unit.Milli{1}, Memory: []unit.Bytes{1}, Rates: [][]float64{{0}}},
		{CPUs: []unit.Milli{1, 1}, Memory: []unit.Bytes{1}, Rates: [][]float64{{1}, {1}}}, {CPUs: []unit.Milli{1}, Memory: []unit.Bytes{1}, Rates: [][]float64{{math.NaN()}}},
		{CPUs: []unit.Milli{1, 2}, Memory: []unit.Bytes{1}, Rates: [][]float64{{2}, {1}}}, {CPUs: []unit.Milli{1}, Memory: []unit.Bytes{1, 2}, Rates: [][]float64{{2, 1}}},
	} {
		if g.Check() == nil {
			t.Errorf("%+v is a grid", g)
		}
	}
}

// The grids that are shipped are those of the authors' repository.
func TestMeasuredGridsAgainstSource(t *testing.T) {
	rows := shared.Rows(t, "data/synergy/throughput_matrix.csv")
	all, seen := MeasuredGrids(), 0
	for _, row := range rows[1:] { // table, model, gpus, cpu_row, mem_col, cpus_per_gpu, mem_gb, relative_throughput
		if row[0] != "models" || row[2] != "1" {
			continue
		}
		var n [5]float64
		for i := range n {
			v, err := strconv.ParseFloat(row[3+i], 64)
			if err != nil {
				t.Fatal(err)
			}
			n[i] = v
		}
		g := all[row[1]]
		if g == nil {
			t.Fatalf("%s is not there", row[1])
		}
		i, k := int(n[0]), int(n[1])
		if g.CPUs[i] != cores(n[2]) || math.Abs(float64(g.Memory[k])/float64(unit.GiB)-n[3]) > 0.01 || g.Rates[i][k] != n[4] {
			t.Errorf("%v: %v, %v, %v", row, g.CPUs[i], g.Memory[k], g.Rates[i][k])
		}
		seen++
	}
	if seen != 12*45 {
		t.Errorf("%d figures", seen)
	}
}

// A job that tells the cores that it needs for each GPU keeps pace with its GPUs from there on. With
// fewer it is slower in proportion. This is example 5 of section 5 of the specification of ByteGNN:
// 4 cores for each of two GPUs, which take 4 batches a second.
func TestNeeding(t *testing.T) {
	j := &job.Job{Model: "resnet18", Hints: &job.Hints{CPUPerGPU: 4 * unit.One}}
	g := (&Grids{Models: MeasuredGrids()}).Grid(j)
	for _, c := range []struct {
		cores unit.Milli // for both GPUs
		want  float64    // batches a second
	}{{6 * unit.One, 3}, {8 * unit.One, 4}, {12 * unit.One, 4}, {1 * unit.One, 0.5}} {
		if got := 4 * g.Rate(Ration{CPU: c.cores / 2, Memory: unit.GiB}); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v cores: %v batches a second, want %v", c.cores, got, c.want)
		}
	}
	if best := g.Best(); best.CPU != 4*unit.One || g.Check() != nil {
		t.Errorf("it wants %v, %v", best, g.Check())
	}
}
