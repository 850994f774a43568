// Package reproduce holds the policies that users run against the figures of their
// papers. norn reproduce prints what comes of it.
//
// Nouns:
//   - A World is a workload on a cluster, as norn sim is told of it.
//   - A Claim is one comparison of a paper: a policy, a baseline, a figure, and the
//     ratio of the baseline's figure to the policy's that is published.
//   - A Study is the worlds in which some claims of one system are tried, three or more.
//   - A Row is what came of a claim.
//   - A form is how large the worlds are: full, or quick for a few minutes.
//
// Ratios are above 1 where the policy is better than its baseline. Ours is the
// geometric mean over the worlds, and the interval is from the smallest to the largest
// of them. An interval by Student's t would be wider: with three worlds it is 4.3
// standard errors to either side, and would meet nearly any tolerance.
//
// Worlds of a study differ by the seed of what is drawn, or are different workloads. A
// published trace under a policy without chance is also played with arrivals 2 % slower
// and 2 % faster.
package reproduce

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/trace"
)

// World is one workload on one cluster. The zero value of each field means none.
type World struct {
	// Sim is the arguments of norn sim but the policies. Words of it and of Generate that begin with data/ or
	// golden/ are paths below the data folder.
	Sim string

	Generate string // arguments of norn trace generate but the output, which Sim names jobs.jsonl
	Cluster  string // text of a cluster file, which Sim names cluster.yaml

	// Make makes the run of a policy that norn sim cannot make, from files below the data
	// folder. Sim is empty then, and Needs names the files. Command is another command that
	// makes the same run, with POLICY in the place of the policies; empty: there is none.
	Make    func(data string, c experiment.Choice) (*experiment.Experiment, trace.Source, error)
	Needs   []string
	Command string
}

// The names by which a command calls the files of a world.
const (
	TraceFile   = "jobs.jsonl"
	ClusterFile = "cluster.yaml"
)

// Files are the paths below the data folder that a world reads; of a file in a ZIP archive,
// that of the archive.
func (w *World) Files() []string {
	out := slices.Clone(w.Needs)
	for _, word := range append(strings.Fields(w.Sim), strings.Fields(w.Generate)...) {
		if archive, _, in := strings.Cut(word, ".zip/"); InData(word) && in {
			out = append(out, archive+".zip")
		} else if InData(word) {
			out = append(out, word)
		}
	}
	return out
}

// InData tells whether a word of a command is a path below the data folder.
func InData(word string) bool {
	return strings.HasPrefix(word, "data/") || strings.HasPrefix(word, "golden/")
}

// Shell is the commands that simulate the world under some policies, where NORN_DATA
// is the data folder.
func (w *World) Shell(policies []string) string {
	list := strings.Join(policies, ",")
	switch {
	case w.Make != nil && w.Command == "":
		return "norn sim cannot make this run: norn reproduce does"
	case w.Make != nil:
		return strings.ReplaceAll(w.Command, "POLICY", strings.Join(policies, " "))
	}
	var b strings.Builder
	if w.Cluster != "" {
		fmt.Fprintf(&b, "printf '%s' > %s; ", strings.ReplaceAll(w.Cluster, "\n", `\n`), ClusterFile)
	}
	if w.Generate != "" {
		fmt.Fprintf(&b, "norn trace generate%s -o %s; ", shellWords(w.Generate), TraceFile)
	}
	b.WriteString("norn sim" + shellWords(w.Sim))
	fmt.Fprintf(&b, " --policy '%s'", list)
	return b.String()
}

// shellWords are the words of a command, each behind a space.
func shellWords(text string) string {
	var b strings.Builder
	for _, word := range strings.Fields(text) {
		if InData(word) {
			word = "$NORN_DATA/" + word
		}
		b.WriteString(" " + word)
	}
	return b.String()
}

// Published is what a paper reports: a figure where From is To, otherwise a range. A
// To of +Inf stands for at least From.
type Published struct{ From, To float64 }

// exactly, between and atLeast are the ways to report.
func exactly(x float64) Published         { return Published{x, x} }
func between(low, high float64) Published { return Published{low, high} }
func atLeast(x float64) Published         { return Published{x, math.Inf(1)} }

// better is the claim that the policy is better, by whatever.
func better() Published { return atLeast(1) }

// String is how tables show what is published.
func (p Published) String() string {
	switch {
	case math.IsInf(p.To, 1):
		return ">= " + number(p.From)
	case p.From == p.To:
		return number(p.From)
	}
	return number(p.From) + " to " + number(p.To)
}

// Claim is one comparison of a paper.
type Claim struct {
	Policy    string // with its settings; empty: that of the study
	Baseline  string // with its settings; empty: the figure of the policy itself is published
	Metric    Metric
	Place     string // where in the paper, or in the specification that was made from it
	Published Published
	Tolerance float64 // part of what is published, 0 to 1
}

// Study is the worlds in which claims of one system are tried.
type Study struct {
	System string // as docs/policies calls it
	Name   string // different for each study of the system
	About  string // workload and cluster in words
	Policy string // of claims that name none, with its settings
	Worlds []World
	Quick  []World // of the quick form; nil: Worlds
	Claims []Claim
	CPU    float64 // seconds of one core that the full form takes, roughly
}

// Form is Worlds or Quick.
func (s *Study) Form(quick bool) []World {
	if quick && s.Quick != nil {
		return s.Quick
	}
	return s.Worlds
}

// Of is the policy that a claim of the study is about.
func (s *Study) Of(c *Claim) string {
	if c.Policy != "" {
		return c.Policy
	}
	return s.Policy
}

// Compared are all policies that the claims need, in their order.
func (s *Study) Compared() []string {
	var out []string
	for i := range s.Claims {
		for _, p := range []string{s.Of(&s.Claims[i]), s.Claims[i].Baseline} {
			if p != "" && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// ID names a claim of the study for ever: records of earlier results are found by it.
func (s *Study) ID(c *Claim) string {
	id := s.System + "/" + s.Name + "/" + c.Metric.Key + "/" + s.Of(c)
	if c.Baseline != "" {
		id += "/" + c.Baseline
	}
	return id
}

// text says in words what a claim compares.
func (s *Study) text(c *Claim) string {
	if c.Baseline == "" {
		return fmt.Sprintf("%s of %s", c.Metric.Name, s.Of(c))
	}
	if c.Metric.Higher {
		return fmt.Sprintf("%s: %s over %s", c.Metric.Name, s.Of(c), c.Baseline)
	}
	return fmt.Sprintf("%s: %s over %s", c.Metric.Name, c.Baseline, s.Of(c))
}

// Systems are the systems of some studies, in their order.
func Systems(all []Study) []string {
	var out []string
	for i := range all {
		if !slices.Contains(out, all[i].System) {
			out = append(out, all[i].System)
		}
	}
	return out
}

// seeded is worlds that differ by a seed: 1 to n are put into the texts for %d.
func seeded(n int, w World) []World {
	var out []World
	for seed := 1; seed <= n; seed++ {
		v := w
		v.Sim, v.Generate = seedIn(w.Sim, seed), seedIn(w.Generate, seed)
		out = append(out, v)
	}
	return out
}

func seedIn(text string, seed int) string { return strings.ReplaceAll(text, "%d", fmt.Sprint(seed)) }

// loads is the world of a published trace: as it is, and with arrivals 2 % slower and
// 2 % faster than load, which is 1 for the trace as it is.
func loads(load float64, sim string) []World {
	var out []World
	for _, factor := range []float64{1, 0.98, 1.02} {
		w := World{Sim: sim}
		if l := load * factor; l != 1 {
			w.Sim += fmt.Sprintf(" --load %.4g", l)
		}
		out = append(out, w)
	}
	return out
}

// limits is the world of a published trace of n jobs in which all come at once: as it
// is, and without its last 2 and 4 %.
func limits(n int, sim string) []World {
	return []World{{Sim: sim}, {Sim: fmt.Sprintf("%s --limit %d", sim, n*98/100)}, {Sim: fmt.Sprintf("%s --limit %d", sim, n*96/100)}}
}

// each is a world for each of some names, put into the text for %s.
func each(sim string, names ...string) []World {
	var out []World
	for _, n := range names {
		out = append(out, World{Sim: strings.ReplaceAll(sim, "%s", n)})
	}
	return out
}
