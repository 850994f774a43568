package reproduce

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// The world of PAL: eight traces of 160 jobs on 16x4 GPUs, with scores that were measured on V100s of
// Longhorn. The artifact has several measurements of each of 136 to 336 GPUs, and does not tell which of
// them its 64 GPUs have. So these have 64 quantiles of all measurements of a class, dealt in an order
// that is drawn. Of those of class A 1.4 % are above 2, so that one GPU is.

// palFiles are the measurements by class. B and C have the same ones, as in the artifact.
var palFiles = []struct{ class, path string }{
	{"A", "data/pal/sim/resnet-longhorn-agg.csv.gz"}, {"B", "data/pal/sim/bert-longhorn-agg.csv.gz"},
	{"C", "data/pal/sim/bert-longhorn-agg.csv.gz"}, {"D", "data/pal/sim/pagerank-longhorn-agg.csv"},
}

// palSticky is the baseline of the paper, and palFirst the policy that knows scores alone.
const (
	palPolicy = "pal(fill=false)"
	palFirst  = "pal(place=pm-first,fill=false)"
	palSticky = "pal(place=packed,sticky=true,fill=false)"
)

// palWorld is a trace in which a gang on several nodes takes so many times as long. Draws differ in which
// GPU has which score.
func palWorld(number int, penalty float64, draw uint64) World {
	const nodes, each = 16, 4
	path := fmt.Sprintf("data/pal/traces/philly_workload-%d.csv", number)
	w := World{Needs: []string{path}, Make: func(data string, _ experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		jobs, err := openTrace(data, path, trace.Options{})
		if err != nil {
			return nil, nil, err
		}
		x, err := plain(fmt.Sprintf("%dx%d", nodes, each))
		if err != nil {
			return nil, nil, err
		}
		x.Model = perf.Analytic{Scaling: 1, Spread: 1 / penalty}
		x.Variability = &perf.Variability{Scores: map[perf.Seat][]float64{}}
		r := rand.New(rand.NewPCG(uint64(number), draw))
		var order []int // the same for B and C, which have the same scores
		for i, f := range palFiles {
			all, err := readPerf(filepath.Join(data, filepath.FromSlash(f.path)))
			if err != nil {
				return nil, nil, err
			}
			if i == 0 || f.path != palFiles[i-1].path {
				order = r.Perm(nodes * each)
			}
			x.Variability.Classes = append(x.Variability.Classes, f.class)
			for gpu, at := range order {
				seat := perf.Seat{Node: fmt.Sprint("n", gpu/each), Index: gpu % each}
				score := all[(2*at+1)*len(all)/(2*nodes*each)] / all[len(all)/2]
				x.Variability.Scores[seat] = append(x.Variability.Scores[seat], score)
			}
		}
		return x, jobs.Source(), nil
	}}
	for _, f := range palFiles {
		w.Needs = append(w.Needs, f.path)
	}
	return w
}

// readPerf reads the column perf of a file, which may be packed, in order of size: times of an iteration.
func readPerf(path string) (all []float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var text io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	rows, err := csv.NewReader(text).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	at := slices.Index(rows[0], "perf")
	for i, row := range rows[1:] {
		if at < 0 {
			return nil, fmt.Errorf("%s: has no column perf", path)
		}
		x, err := strconv.ParseFloat(row[at], 64)
		if err != nil || !(x > 0) {
			return nil, fmt.Errorf("%s: line %d: perf %q", path, i+2, row[at])
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: has no measurements", path)
	}
	slices.Sort(all)
	return all, nil
}

// pal: the mean JCT of PAL is 43 % and that of PM-First 40 % below that of Packed-Sticky, in the geometric
// mean over the traces. Without a penalty of gangs over nodes both gain 30 %, with one of 3 they gain 20 % and 9 %.
func pal() (all []Study) {
	for _, k := range []struct {
		name           string
		penalty        float64
		byPAL, byFirst float64 // published: how much less the mean JCT is
		place          string
	}{
		{"sia-philly", 1.7, 0.43, 0.40, "abstract, section 5: 43 % and 40 % less than Packed-Sticky"},
		{"near", 1, 0.30, 0.30, "locality penalty 1.0: 30 % less than Packed-Sticky"},
		{"far", 3, 0.20, 0.09, "locality penalty 3.0: 20 % and 9 % less than Packed-Sticky"},
	} {
		s := Study{
			System: "pal", Name: k.name, CPU: 40, Policy: palPolicy,
			About: fmt.Sprintf("traces of 160 jobs on 16x4 GPUs with measured scores of V100s, gangs over nodes %g times as slow", k.penalty),
			Claims: []Claim{
				{Baseline: palSticky, Metric: meanJCT(), Published: exactly(1 / (1 - k.byPAL)), Tolerance: 0.25, Place: k.place},
				{Policy: palFirst, Baseline: palSticky, Metric: meanJCT(), Published: exactly(1 / (1 - k.byFirst)), Tolerance: 0.25, Place: k.place},
			},
		}
		if k.penalty > 1 {
			s.Claims = append(s.Claims, Claim{Baseline: palFirst, Metric: meanJCT(), Published: better(), Place: "acceptance 6: PAL is no worse than PM-First"})
		}
		for draw := range uint64(3) {
			for number := range 8 {
				s.Worlds = append(s.Worlds, palWorld(number+1, k.penalty, draw))
			}
		}
		s.Quick = []World{s.Worlds[0], s.Worlds[2], s.Worlds[5]} // of the others some last for months
		all = append(all, s)
	}
	return append(all, palLearnt(all[0]))
}

// palLearnt is the worlds of a study in which PAL is not told the scores and learns them from how fast jobs go.
func palLearnt(of Study) Study {
	s := Study{
		System: "pal", Name: "learnt", CPU: 40, Policy: palPolicy,
		About:  of.About + ", which policies must learn from how fast jobs go",
		Claims: []Claim{{Baseline: palSticky, Metric: meanJCT(), Published: better(), Place: "ours: the paper has scores measured beforehand"}},
	}
	learns := func(worlds []World) (out []World) {
		for _, w := range worlds {
			told := w.Make
			w.Make = func(data string, c experiment.Choice) (*experiment.Experiment, trace.Source, error) {
				x, jobs, err := told(data, c)
				if err == nil {
					x.LearnVariability = true
				}
				return x, jobs, err
			}
			out = append(out, w)
		}
		return out
	}
	s.Worlds, s.Quick = learns(of.Worlds), learns(of.Quick)
	return s
}
