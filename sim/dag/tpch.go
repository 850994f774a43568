package dag

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"
)

// Workload is how jobs arrive: so many at once, and then more as a Poisson process.
type Workload struct {
	Templates []*Template // of each, jobs are equally likely
	Initial   int
	Streamed  int
	Gap       time.Duration // mean time between two that are streamed
	Seed      uint64
}

// Make draws the jobs.
func (w *Workload) Make() ([]Job, error) {
	if w.Initial < 0 || w.Streamed < 0 || w.Initial+w.Streamed < 1 || w.Initial+w.Streamed > 1e6 || w.Gap < 0 {
		return nil, fmt.Errorf("%d jobs at once and %d with %s between them; write at least one job, and no negative time", w.Initial, w.Streamed, w.Gap)
	}
	rng := rand.New(rand.NewPCG(w.Seed, 0x79c8))
	var all []Job
	at := time.Duration(0)
	for i := range w.Initial + w.Streamed {
		if i >= w.Initial {
			at += time.Duration(rng.ExpFloat64() * float64(w.Gap))
		}
		t := w.Templates[rng.IntN(len(w.Templates))]
		all = append(all, Job{ID: fmt.Sprintf("%d-%s", i, t.Name), Arrived: at, Template: t})
	}
	return all, nil
}

// The queries of TPC-H on Spark, as measured: stages of each query, and sizes of its data.
var (
	queryStages = []int{4, 18, 6, 6, 14, 2, 13, 18, 14, 9, 11, 6, 7, 4, 7, 9, 6, 8, 4, 12, 16, 8}
	sizesGB     = []float64{2, 5, 10, 20, 50, 80, 100}
	levelsOf    = []int{2, 5, 10, 20, 40, 50, 60, 80, 100}
)

// TPCH are templates that resemble the measured queries in their stages, tasks, run times and loss of speed by parallelism.
// They are the same in each call.
func TPCH() ([]*Template, error) {
	var all []*Template
	for q, count := range queryStages {
		rng := rand.New(rand.NewPCG(uint64(q), 0x7ec8))
		shape := drawShape(rng, count)
		work := math.Exp(0.5 * rng.NormFloat64()) // of the query, beside others
		for _, gb := range sizesGB {
			t, err := NewTemplate(fmt.Sprintf("q%d-%gg", q+1, gb), shape.sized(gb, work*(125+18.5*gb)))
			if err != nil {
				return nil, err
			}
			all = append(all, t)
		}
	}
	return all, nil
}

// shape is a query without a size.
type shape []shapeStage

type shapeStage struct {
	parents  []int
	scan     float64 // tasks for each GB; 0: not a scan
	weight   float64 // of its part of the work
	constant float64 // part of that which does not grow with the size
}

// drawShape draws a tree of stages: of those measured, 39 % are scans; half of the others have two parents.
func drawShape(rng *rand.Rand, count int) shape {
	s := make(shape, count)
	var ends []int // stages without a child
	scans := max(1, int(math.Round(0.39*float64(count))))
	for i := range s {
		s[i].weight = math.Exp(1.3 * rng.NormFloat64())
		if i < scans {
			s[i].scan = []float64{0.02, 0.2, 1.3, 5.8}[rng.IntN(4)]
			s[i].weight *= s[i].scan
			ends = append(ends, i)
			continue
		}
		s[i].constant = 0.5
		take := min(len(ends), 1+rng.IntN(2))
		if need := len(ends) - (count - i); need > 0 {
			take = min(len(ends), max(take, need/(count-i)+2))
		}
		if i == count-1 {
			take = len(ends)
		}
		rng.Shuffle(len(ends), func(a, b int) { ends[a], ends[b] = ends[b], ends[a] })
		s[i].parents = slices.Sorted(slices.Values(ends[:take]))
		ends = append(slices.Clone(ends[take:]), i)
	}
	return s
}

// sized is a query on so much data, with so much work in seconds on 40 executors.
func (s shape) sized(gb, work float64) []Stage {
	out := make([]Stage, len(s))
	sum := 0.0
	for i := range s {
		sum += s[i].share(gb)
	}
	for i := range s {
		st := &out[i]
		st.Parents, st.Tasks = s[i].parents, 200
		switch {
		case s[i].scan > 0:
			st.Tasks = max(1, int(math.Round(s[i].scan*gb)))
		case i == len(s)-1:
			st.Tasks = 10
		}
		slower := 3.4 * math.Pow(gb/2, -0.12) // on 100 executors, beside 5
		ratio := 1 + 3.3*math.Pow(gb/2, -0.37)
		if s[i].scan > 0 {
			slower, ratio = 1.4, 1.25
		}
		perTask := work * s[i].share(gb) / sum / float64(st.Tasks)
		for _, n := range levelsOf {
			rest := perTask * math.Pow(float64(n)/40, math.Log(slower)/math.Log(20))
			st.Levels = append(st.Levels, Level{Executors: n, Fresh: spread(1.05*ratio*rest, 0.2), First: spread(ratio*rest, 0.2), Rest: spread(rest, 0.35)})
		}
	}
	return out
}

func (s *shapeStage) share(gb float64) float64 {
	return s.weight * (s.constant*20 + (1-s.constant)*gb)
}

// spread is eight run times with a mean and a coefficient of variation, in milliseconds exact.
func spread(mean, cv float64) []float64 {
	out := make([]float64, 0, 8)
	for _, z := range []float64{-1.53, -0.89, -0.49, -0.16, 0.16, 0.49, 0.89, 1.53} {
		out = append(out, max(0.001, math.Round(mean*math.Exp(cv*z-cv*cv/2)*1000)/1000))
	}
	return out
}

// published is a query as the published simulator has it, in JSON.
type published struct {
	Adjacent [][]int         `json:"adj"`
	Stages   json.RawMessage `json:"stages"`
}

type publishedStage struct {
	Fresh map[string][]float64 `json:"fresh_durations"`
	First map[string][]float64 `json:"first_wave"`
	Rest  map[string][]float64 `json:"rest_wave"`
}

// OpenTemplates reads measured queries: a JSON object of sizes, of queries, with the matrix adj of stages and their
// children, and run times in milliseconds by wave and executors. It may be compressed by gzip.
func OpenTemplates(path string) ([]*Template, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var sizes map[string]map[string]published
	if err := json.NewDecoder(body).Decode(&sizes); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all []*Template
	for _, size := range slices.Sorted(maps.Keys(sizes)) {
		for _, query := range slices.Sorted(maps.Keys(sizes[size])) {
			p := sizes[size][query]
			t, err := p.template("q" + query + "-" + size)
			if err != nil {
				return nil, fmt.Errorf("%s: size %s, query %s: %w", path, size, query, err)
			}
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: has no queries", path)
	}
	return all, nil
}

func (p *published) template(name string) (*Template, error) {
	var list []publishedStage
	if err := json.Unmarshal(p.Stages, &list); err != nil {
		var named map[string]publishedStage
		if err := json.Unmarshal(p.Stages, &named); err != nil {
			return nil, err
		}
		for i := range len(named) {
			list = append(list, named[strconv.Itoa(i)])
		}
	}
	if len(p.Adjacent) != len(list) {
		return nil, fmt.Errorf("%d rows of adj, and %d stages", len(p.Adjacent), len(list))
	}
	out := make([]Stage, len(list))
	for i := range list {
		out[i] = list[i].stage()
		for k, row := range p.Adjacent {
			if i < len(row) && row[i] != 0 {
				out[i].Parents = append(out[i].Parents, k)
			}
		}
	}
	return NewTemplate(name, out)
}

// stage has as many tasks as the first level measured.
func (p *publishedStage) stage() Stage {
	var s Stage
	levels := slices.SortedFunc(maps.Keys(p.First), func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return cmp.Compare(x, y)
	})
	for _, name := range levels {
		n, _ := strconv.Atoi(name)
		l := Level{Executors: n, Fresh: toSeconds(p.Fresh[name]), First: toSeconds(p.First[name]), Rest: toSeconds(p.Rest[name])}
		if len(l.Fresh)+len(l.First)+len(l.Rest) == 0 {
			continue
		}
		if s.Tasks == 0 {
			s.Tasks = len(l.First) + len(l.Rest)
		}
		s.Levels = append(s.Levels, l)
	}
	return s
}

func toSeconds(ms []float64) []float64 {
	out := make([]float64, len(ms))
	for i, v := range ms {
		out[i] = max(1, v) / 1000
	}
	return out
}
