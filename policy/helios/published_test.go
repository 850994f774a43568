package helios_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/helios"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// data is a file of published data.
func data(t testing.TB, path string) string { return shared.Path(t, "data/"+path) }

// asked asks for a prediction of every job as it arrives.
type asked struct {
	sched.Policy
	both, rolling []float64 // seconds, by job
	err           error
}

func (a *asked) Decide(v *sched.View, p *sched.Plan) {
	for _, ch := range v.Changes() {
		if ch.Kind != sched.Arrived || a.err != nil {
			continue
		}
		both, rolling, err := helios.Predict(a.Policy, v, v.Job(ch.Job).Spec())
		a.both, a.rolling, a.err = append(a.both, both), append(a.rolling, rolling), err
	}
	a.Policy.Decide(v, p)
}

// predictions replays a log, the attempts of each job merged, on a cluster that is
// large enough for it, and returns what was predicted of each job at its arrival.
func predictions(t *testing.T, file, cluster string) (*asked, *state.State) {
	t.Helper()
	r, err := trace.Open(data(t, file), trace.Options{Merge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	spec, err := clusterspec.Load(cluster)
	if err != nil {
		t.Fatal(err)
	}
	site, err := spec.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := helios.NewConfig().Policy()
	if err != nil {
		t.Fatal(err)
	}
	a := &asked{Policy: p}
	world := sim.New(sim.Config{Source: trace.ByKey(r)})
	e := engine.New(engine.Config{Cluster: site.Cluster, Policy: a, PolicyName: "qssf", Seed: 1}, world)
	if err := world.Attach(e.State()); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a, e.State()
}

// accuracy is how near predictions come to the truth.
type accuracy struct {
	n     int
	ratio float64 // median of predicted / true
	twice float64 // share within a factor 2
	tenth float64 // share within a factor 10
	order float64 // share of random pairs that are put in the right order; equal predictions count half
}

func (a accuracy) String() string {
	return fmt.Sprintf("%d jobs | %.2f | %.1f %% | %.1f %% | %.1f %%", a.n, a.ratio, 100*a.twice, 100*a.tenth, 100*a.order)
}

func measure(predicted, truth []float64) accuracy {
	a := accuracy{n: len(truth)}
	var ratios []float64
	n := float64(a.n)
	for i := range truth {
		r := max(predicted[i], 1) / max(truth[i], 1)
		ratios = append(ratios, r)
		if math.Abs(math.Log(r)) <= math.Ln2 {
			a.twice += 1 / n
		}
		if math.Abs(math.Log(r)) <= math.Ln10 {
			a.tenth += 1 / n
		}
	}
	slices.Sort(ratios)
	a.ratio = ratios[len(ratios)/2]
	rnd, right, pairs := rand.New(rand.NewPCG(1, 1)), 0.0, 0.0
	for range 200_000 {
		i, k := rnd.IntN(a.n), rnd.IntN(a.n)
		if truth[i] == truth[k] {
			continue
		}
		pairs++
		switch {
		case predicted[i] == predicted[k]:
			right += 0.5
		case (truth[i] < truth[k]) == (predicted[i] < predicted[k]):
			right++
		}
	}
	a.order = right / pairs
	return a
}

// TestAccuracy measures what docs/estimators.md tells of predictions from
// history. The test asserts that they order jobs better than chance (0.5), and
// well if users are known. The blended ones must be nearer to the truth in the
// middle.
func TestAccuracy(t *testing.T) {
	longtest.Skip(t)
	for _, c := range []struct {
		name, cluster, file string
		all, told           float64 // order at least: of all jobs, of those whose user is told
	}{
		{"Philly", "philly", "philly/philly_jobs_reconstructed.csv.gz", 0.60, 0.70},
		{"Venus", "venus", "helios/venus_gpu_jobs.csv.gz", 0.52, 0.60},
	} {
		a, s := predictions(t, c.file, c.cluster)
		for _, subset := range []struct {
			name string
			has  func(j *job.Job) bool
		}{
			{"all", func(*job.Job) bool { return true }},
			{"user told", func(j *job.Job) bool { return j.User != "" }},
			{"ranked", func(j *job.Job) bool { return j.Hints != nil && j.Hints.HasRank }},
		} {
			var truth, both, rolling, rank, group []float64
			for i := range s.Jobs() {
				r := s.Record(job.ID(i))
				if !subset.has(r.Job) {
					continue
				}
				truth = append(truth, r.AllocatedTime.Seconds())
				both, rolling = append(both, a.both[i]), append(rolling, a.rolling[i])
				if h := r.Job.Hints; h != nil && h.HasRank {
					rank, group = append(rank, h.Rank), append(group, h.GroupEstimate.Seconds())
				}
			}
			if len(truth) == 0 {
				continue
			}
			x, y := measure(rolling, truth), measure(both, truth)
			t.Logf("%s, %s: rolling | %v", c.name, subset.name, x)
			t.Logf("%s, %s: blended | %v", c.name, subset.name, y)
			if subset.name == "ranked" {
				t.Logf("%s, %s: published QSSF | %v", c.name, subset.name, measure(rank, truth))
				t.Logf("%s, %s: published Lucid | %v", c.name, subset.name, measure(group, truth))
			}
			least := map[string]float64{"all": c.all, "user told": c.told, "ranked": 0.5}[subset.name]
			if x.order < least || y.order < least || math.Abs(math.Log(y.ratio)) > math.Abs(math.Log(x.ratio)) {
				t.Errorf("%s, %s: %v and %v, want pairs in order at least %v", c.name, subset.name, x, y, least)
			}
		}
	}
}
