package lucid

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/internal/published/harness"
)

// traits are what was measured of a job alone.
type traits struct {
	model  string
	sort   string // of the measurement: model, dataset, batch size, mixed precision
	score  int
	memory float64 // MiB of a GPU
}

// packedInput is what lucid reads beside the log.
type packedInput struct {
	forecast forecast
	pairs    pairs
}

// forecast is what is predicted to come in each period, from the beginning of the
// window on.
type forecast []struct{ jobs, gpus float64 }

// mean is the mean of one column over the five periods that begin after now; NaN
// behind the last one.
func (f forecast) mean(now int64, gpus bool) float64 {
	first := int((now-windowBegin)/period) + 1
	sum, n := 0.0, 0.0
	for i := first; i < min(first+5, len(f)); i++ {
		n++
		if gpus {
			sum += f[i].gpus
		} else {
			sum += f[i].jobs
		}
	}
	return sum / n
}

func (f forecast) gpus(now int64) float64 { return f.mean(now, true) }

// packs tells whether jobs share now.
func (f forecast) packs(now int64) bool { return !(f.mean(now, false) <= quiet) }

// next is the next moment at which that changes.
func (f forecast) next(now int64) int64 {
	was := f.packs(now)
	for i := (now-windowBegin)/period + 1; i <= int64(len(f)); i++ {
		if at := windowBegin + i*period; f.packs(at) != was {
			return at
		}
	}
	return math.MaxInt64
}

// pairs are the speeds of two sorts beside each other, relative to alone.
type pairs map[[2]string][2]float64

// unmeasured are the models of which no pairs were measured: the published code has
// them disturb nobody.
var unmeasured = []string{"NeuMF", "ResNet50", "BERT", "Transformer"}

// of are the speeds of two jobs on one GPU.
func (p pairs) of(a, b *packedJob) ([2]float64, error) {
	if slices.Contains(unmeasured, a.traits.model) || slices.Contains(unmeasured, b.traits.model) {
		return [2]float64{1, 1}, nil
	}
	if s, ok := p[[2]string{a.traits.sort, b.traits.sort}]; ok {
		return s, nil
	}
	if s, ok := p[[2]string{b.traits.sort, a.traits.sort}]; ok {
		return [2]float64{s[1], s[0]}, nil
	}
	return [2]float64{}, fmt.Errorf("jobs %s and %s share a GPU, but no speeds were measured of %s beside %s", a.key, b.key, a.traits.sort, b.traits.sort)
}

// rows calls visit for each row of a file with the columns named.
func rows(path, what string, columns []string, visit func(t *harness.Table, at []int) error) error {
	if path == "" {
		return errors.New("lucid needs " + what + " (columns " + strings.Join(columns, ", ") + ")")
	}
	t, err := harness.OpenTable(path)
	if err != nil {
		return err
	}
	at, err := t.Need(columns...)
	if err != nil {
		return err
	}
	for {
		more, err := t.Next()
		if err != nil || !more {
			return err
		}
		if err := visit(t, at); err != nil {
			return err
		}
	}
}

// sortOf is the name of a measurement.
func sortOf(t *harness.Table, at []int) string {
	return t.Field(at[0]) + " " + t.Field(at[1]) + " " + t.Field(at[2]) + " " + t.Field(at[3])
}

func readPairs(path string) (pairs, error) {
	p := pairs{}
	return p, rows(path, "speeds of pairs of jobs", []string{"model1", "dataset1", "batchsize1", "amp1", "model2", "dataset2", "batchsize2", "amp2", "speed1", "speed2"},
		func(t *harness.Table, at []int) error {
			a, err := t.Float(at[8])
			if err != nil {
				return err
			}
			b, err := t.Float(at[9])
			if err != nil {
				return err
			}
			if !(a > 0 && b > 0) {
				return t.Errorf("speeds must be above 0")
			}
			p[[2]string{sortOf(t, at), sortOf(t, at[4:])}] = [2]float64{a, b}
			return nil
		})
}

func readForecast(path string) (forecast, error) {
	var f forecast
	return f, errors.Join(rows(path, "a forecast of what comes in each ten minutes", []string{"pred_gpu_job", "pred_gpu_num"}, func(t *harness.Table, at []int) error {
		jobs, err := t.Float(at[0])
		if err != nil {
			return err
		}
		gpus, err := t.Float(at[1])
		f = append(f, struct{ jobs, gpus float64 }{jobs, gpus})
		return err
	}))
}

// readScores reads how much each sort of job disturbs others.
func readScores(path string) (map[string]int, error) {
	scores := map[string]int{}
	return scores, rows(path, "measurements of jobs alone", []string{"model", "dataset", "batchsize", "amp", "label"}, func(t *harness.Table, at []int) error {
		v, err := t.Int(at[4])
		if err != nil {
			return err
		}
		if _, twice := scores[sortOf(t, at)]; !twice {
			scores[sortOf(t, at)] = int(v)
		}
		return nil
	})
}

// readTraits reads what the log tells of each job beside what the other policies
// need.
func readTraits(path string, scores map[string]int) (map[string]traits, error) {
	known := map[string]traits{}
	return known, rows(path, "a log", []string{"model", "dataset", "batchsize", "amp", "job_id", "gmem"}, func(t *harness.Table, at []int) error {
		memory, err := t.Float(at[5])
		if err != nil {
			return err
		}
		sort := sortOf(t, at)
		score, ok := scores[sort]
		if !ok {
			return t.Errorf("job %s: %s was not measured alone", t.Field(at[4]), sort)
		}
		known[t.Field(at[4])] = traits{strings.Clone(t.Field(at[0])), sort, score, memory}
		return nil
	})
}

// negative is the run time in seconds that is believed where a negative one is
// predicted.
const negative = 1000

func readRanks(path string) (map[string]float64, error) {
	ranks := map[string]float64{}
	return ranks, rows(path, "predicted run times", []string{"job_id", "priority"}, func(t *harness.Table, at []int) error {
		v, err := t.Float(at[1])
		if v < 0 {
			v = negative
		}
		if _, twice := ranks[t.Field(at[0])]; !twice {
			ranks[strings.Clone(t.Field(at[0]))] = v
		}
		return err
	})
}

// runPacked carries out a run of lucid itself.
func runPacked(ctx context.Context, tracePath string, vcs []vc, jobs harness.Jobs, o Options) (*harness.Result, error) {
	scores, err := readScores(o.Scores)
	if err != nil {
		return nil, err
	}
	known, err := readTraits(tracePath, scores)
	if err != nil {
		return nil, err
	}
	ranks, err := readRanks(o.Priorities)
	if err != nil {
		return nil, err
	}
	p := packed{in: &packedInput{}}
	if p.in.pairs, err = readPairs(o.Pairs); err != nil {
		return nil, err
	}
	if p.in.forecast, err = readForecast(o.Forecast); err != nil {
		return nil, err
	}
	all := make([]*packedJob, len(jobs))
	for i := range jobs {
		e := &jobs[i]
		j := &packedJob{
			key: e.Job.Key, vc: e.Job.Tenant, gpus: e.Job.Demand.GPUs(), submit: secs(e.Job.Submit), duration: secs(e.Truth.Work), traits: known[e.Job.Key],
		}
		rank, ok := ranks[j.key]
		if !ok {
			return nil, fmt.Errorf("%s: has no prediction for job %s", o.Priorities, j.key)
		}
		if j.gpus > nodeGPUs && j.gpus%nodeGPUs != 0 {
			return nil, fmt.Errorf("job %s: %d GPUs: policy lucid knows jobs of up to %d GPUs and multiples of that alone", j.key, j.gpus, nodeGPUs)
		}
		j.rank = rank * float64(j.gpus)
		all[i] = j
	}
	return p.play(ctx, vcs, all)
}
