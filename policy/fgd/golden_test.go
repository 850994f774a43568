package fgd_test

import (
	"errors"
	"io"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/fgd"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// usual is the default workload of the paper.
const usual = "openb_pod_list_default"

// workload is the pods and nodes of the published experiment.
type workload struct {
	spec *clusterspec.Spec
	pods []trace.Entry
	gpus int64 // milli of all nodes
}

func load(t testing.TB, name string) *workload {
	t.Helper()
	dir := shared.Path(t, "data/alibaba_openb2023")
	spec, err := clusterspec.ReadFile(filepath.Join(dir, "openb_node_list_gpu_node.csv"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := trace.Open(filepath.Join(dir, name+".csv.gz"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := &workload{spec: spec, gpus: 6212_000}
	for {
		var e trace.Entry
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		w.pods = append(w.pods, e)
	}
	slices.SortFunc(w.pods, func(a, b trace.Entry) int { return strings.Compare(a.Job.Key, b.Job.Key) })
	return w
}

// drawn are the pods as the published experiment lets them come for a seed: all of
// them shuffled, and drawn ones behind them until 1.3 times the GPUs are asked for.
// They stay for ever. The nodes come in a drawn order, too, which breaks ties.
func (w *workload) drawn(t testing.TB, seed int64) ([]trace.Entry, *cluster.Cluster) {
	r := rand.New(rand.NewSource(seed))
	r.Int() // for a message of the published program
	pods := slices.Clone(w.pods)
	r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	asked := int64(0)
	for i := range pods {
		asked += int64(pods[i].Job.Demand.Milli(1))
	}
	for n := 0; ; n++ {
		e := w.pods[r.Intn(len(w.pods))]
		if asked += int64(e.Job.Demand.Milli(1)); float64(asked) > 1.3*float64(w.gpus) {
			break
		}
		pods = append(pods, e)
	}
	for i := range pods {
		j := &pods[i].Job
		j.ID, j.Submit = job.ID(i), time.Duration(i)*time.Second
		pods[i].Truth = trace.Truth{Work: 1000 * 24 * time.Hour}
	}
	return pods, w.ordered(t, r.Perm)
}

// ordered is the cluster with its nodes in another order.
func (w *workload) ordered(t testing.TB, perm func(n int) []int) *cluster.Cluster {
	t.Helper()
	site, err := w.spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	nodes := make([]cluster.NodeSpec, site.Cluster.Nodes())
	for i := range nodes {
		nodes[i] = *site.Cluster.Node(cluster.NodeID(i))
	}
	slices.SortFunc(nodes, func(a, b cluster.NodeSpec) int { return strings.Compare(a.Name, b.Name) })
	ordered := make([]cluster.NodeSpec, len(nodes))
	for i, place := range perm(len(nodes)) {
		ordered[place] = nodes[i]
	}
	c := cluster.New()
	for i := range cluster.TypeID(site.Cluster.Types()) {
		if _, err := c.AddType(site.Cluster.Type(i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range ordered {
		if _, err := c.AddNode(n); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// curve notes what is allocated, and what of the rest is a fragment, when so much was
// asked for, in per cent of the GPUs.
type curve struct {
	target            *fgd.Target
	gpus, asked, held int64
	at, fragment      [131]float64
	next              int
}

// Event implements engine.Sink.
func (c *curve) Event(ev *eventlog.Event, s *state.State) {
	switch ev.Kind {
	case eventlog.Submit:
		for c.next < len(c.at) && c.asked*100 >= int64(c.next)*c.gpus { // before this one
			c.at[c.next] = 100 * float64(c.held) / float64(c.gpus)
			if v := sched.NewView(s, nil, false); c.next%50 == 0 {
				c.fragment[c.next] = 100 * c.target.Fragment(&v) / float64(c.gpus)
			}
			c.next++
		}
		c.asked += int64(ev.Spec.Demand.Milli(1))
	case eventlog.Start:
		c.held += int64(s.Record(ev.Job).Milli)
	}
}

// play lets the pods come and returns the curve.
func (w *workload) play(t testing.TB, cfg fgd.Config, pods []trace.Entry, on *cluster.Cluster, seed uint64) *curve {
	t.Helper()
	p, err := cfg.Policy()
	if err != nil {
		t.Fatal(err)
	}
	c := &curve{gpus: w.gpus, target: w.target(on)}
	world := sim.New(sim.Config{Source: trace.FromMemory(pods)})
	e := engine.New(engine.Config{Cluster: on, Policy: p, PolicyName: "fgd", Seed: seed, Sinks: []engine.Sink{c}}, world)
	if err := world.Attach(e.State()); err != nil {
		t.Fatal(err)
	}
	for e.State().Jobs() < len(pods) {
		if err := e.Step(); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.State().Cluster.Check(); err != nil {
		t.Error(err)
	}
	return c
}

// target is that of all pods, as the published experiment knows it beforehand.
func (w *workload) target(c *cluster.Cluster) *fgd.Target {
	counts := map[job.Demand]float64{}
	for i := range w.pods {
		counts[*w.pods[i].Job.Demand]++
	}
	var demands []*job.Demand
	var types []cluster.TypeMask
	var often []float64
	for d, n := range counts {
		mask, ok := d.TypeMask(c)
		if !ok {
			continue
		}
		demands, types, often = append(demands, &d), append(types, mask), append(often, n)
	}
	return fgd.NewTarget(demands, types, often, 0.95)
}

// published are the curves of the authors for a workload, by score and seed from 42 on:
// of what is allocated (allo), or of what is a fragment (frag).
func published(t testing.TB, what, name string) map[string][][]float64 {
	t.Helper()
	rows := shared.Rows(t, "data/alibaba_openb2023/expected_results/analysis_"+what+"_discrete.csv.gz")
	of, by := slices.Index(rows[0], "workload"), slices.Index(rows[0], "sc_policy")
	out := map[string][][]float64{}
	for _, row := range rows[1:] {
		if row[of] != name {
			continue
		}
		var line []float64
		for _, cell := range row[len(row)-131:] { // from 0 to 130 per cent asked for
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				v = math.NaN()
			}
			line = append(line, v)
		}
		out[row[by]] = append(out[row[by]], line)
	}
	return out
}

// The default workload of the paper's evaluation: mean allocation at 100 % of
// the GPUs asked for, and how much of the rest is a fragment. Both are within
// 0.5 points over the same seeds, of which NORN_SEEDS=10 takes all [ATC 2023,
// figure 7a].
func TestPublished(t *testing.T) {
	longtest.Skip(t)
	w, want, fragments := load(t, usual), published(t, "allo", usual), published(t, "frag", usual)
	seeds := 2
	if n, err := strconv.Atoi(os.Getenv("NORN_SEEDS")); err == nil {
		seeds = min(n, 10)
	}
	scores := []struct {
		name  string
		score fgd.Score
	}{
		{"01-Random", fgd.Random}, {"02-DotProd", fgd.DotProduct}, {"03-GpuClustering", fgd.Clustering},
		{"04-GpuPacking", fgd.Packing}, {"05-BestFit", fgd.BestFit}, {"06-FGD", fgd.Gradient},
	}
	for _, s := range scores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			ours, theirs, largest := 0.0, 0.0, 0.0
			var fragment, expected [3]float64
			for i, line := range want[s.name][:seeds] {
				cfg := fgd.NewConfig()
				cfg.Score, cfg.Whole = s.score, true
				pods, on := w.drawn(t, int64(42+i))
				cfg.Target = w.target(on)
				c := w.play(t, *cfg, pods, on, uint64(i))
				ours, theirs = ours+c.at[100]/float64(seeds), theirs+line[100]/float64(seeds)
				largest = max(largest, math.Abs(c.at[100]-line[100]))
				for k := range fragment {
					fragment[k] += c.fragment[50*k] / float64(seeds)
					expected[k] += fragments[s.name][i][50*k] / float64(seeds)
				}
			}
			t.Logf("%d seeds: %.2f %%, published %.2f %%; a seed at most %.2f apart", seeds, ours, theirs, largest)
			if math.Abs(ours-theirs) > 0.5 {
				t.Errorf("allocation at full load is %.2f %%, published %.2f %%", ours, theirs)
			}
			t.Logf("fragments at 0, 50 and 100 %% asked for: %.2f %%, published %.2f %%", fragment, expected)
			for k := range fragment {
				if math.Abs(fragment[k]-expected[k]) > 0.5 {
					t.Errorf("fragments when %d %% are asked for: %.2f %%, published %.2f %%", 50*k, fragment[k], expected[k])
				}
			}
		})
	}
}

// Four of the other workloads: all pods share GPUs, more ask for several, more
// name GPU types, and more ask for none. What FGD has allocated at full load
// with the first seed is within 0.5 points of what the authors have.
func TestOtherWorkloads(t *testing.T) {
	longtest.Skip(t)
	for _, name := range []string{"gpushare100", "multigpu50", "gpuspec33", "cpu250"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := load(t, "openb_pod_list_"+name)
			cfg := fgd.NewConfig()
			cfg.Whole = true
			pods, on := w.drawn(t, 42)
			cfg.Target = w.target(on)
			got, want := w.play(t, *cfg, pods, on, 0).at[100], published(t, "allo", "openb_pod_list_"+name)["06-FGD"][0][100]
			if t.Logf("%.2f %%, published %.2f %%", got, want); math.Abs(got-want) > 0.5 {
				t.Errorf("allocation at full load is %.2f %%, published %.2f %%", got, want)
			}
		})
	}
}

// As Norn runs it, FGD is not told the workload beforehand and its scores are no whole
// numbers; it has as much allocated.
func TestLearned(t *testing.T) {
	longtest.Skip(t)
	w, want := load(t, usual), published(t, "allo", usual)["06-FGD"]
	ours, theirs := 0.0, 0.0
	for i, line := range want[:2] {
		pods, on := w.drawn(t, int64(42+i))
		ours, theirs = ours+w.play(t, *fgd.NewConfig(), pods, on, 0).at[100]/2, theirs+line[100]/2
	}
	if t.Logf("%.2f %%, published %.2f %%", ours, theirs); math.Abs(ours-theirs) > 0.5 {
		t.Errorf("allocation at full load is %.2f %%, published %.2f %%", ours, theirs)
	}
}

// BenchmarkPods is the time for one pod of the published workload, until 1.3 times
// all GPUs are asked for.
func BenchmarkPods(b *testing.B) {
	w := load(b, usual)
	cfg := fgd.NewConfig()
	cfg.Whole = true
	pods := 0
	for b.Loop() {
		drawn, on := w.drawn(b, 42)
		cfg.Target = w.target(on)
		pods += len(drawn)
		w.play(b, *cfg, drawn, on, 0)
	}
	b.ReportMetric(float64(pods)/b.Elapsed().Seconds(), "pods/s")
}
