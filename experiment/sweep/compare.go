package sweep

import (
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/report"
)

// Group is the runs that differ in seed and policy alone.
type Group struct {
	Trace, Cluster string
	Load           float64
	Varied         []Setting // values of the other axes with several values
	Seeds          []uint64  // those in which any policy has ended
	Policies       []*Policy // in the order of the plan, those with any run
	Base           *Policy   // with which the others are compared; nil: it has not ended
}

// Policy is what came of one policy in a group.
type Policy struct {
	Name, Params string
	Seeds        int               // in which it has ended
	Means        map[string]Mean   // by report.Measure.Field
	Versus       map[string]Paired // the same beside the baseline, in the seeds of both; nil for the baseline itself
	Unmoved      bool              // it has ended in several seeds, and they change no figure

	values map[string]map[uint64]float64
	of     *Run // the first
}

// Groups compares the runs.
func (r *Results) Groups() []*Group {
	var out []*Group
	at := map[string]*Group{}
	for _, run := range r.Runs {
		key := run.group(r.Plan)
		g := at[key]
		if g == nil {
			g = &Group{Trace: run.World.Trace.Name, Cluster: run.Cluster, Load: run.load()}
			for _, name := range r.Plan.Varied() {
				g.Varied = append(g.Varied, Setting{Name: name, Value: run.World.Value(name)})
			}
			at[key] = g
			out = append(out, g)
		}
		g.add(run)
	}
	for _, g := range out {
		g.compare(r.Plan.Policies[r.Plan.Baseline].String())
	}
	return out
}

// group is the same for all runs of a group.
func (r *Run) group(p *Plan) string {
	parts := []string{r.World.Trace.Name, r.Cluster, report.Exact(r.load())}
	for _, name := range p.Varied() {
		parts = append(parts, r.World.Value(name))
	}
	return strings.Join(parts, "\x00")
}

// add adds a run.
func (g *Group) add(run *Run) {
	if n := len(g.Seeds); n == 0 || g.Seeds[n-1] != run.World.Seed { // runs of a seed come one after the other
		g.Seeds = append(g.Seeds, run.World.Seed)
	}
	i := slices.IndexFunc(g.Policies, func(p *Policy) bool { return p.of.Choice.String() == run.Choice.String() })
	if i < 0 {
		i = len(g.Policies)
		g.Policies = append(g.Policies, &Policy{Name: run.Choice.Policy, Params: run.params(), values: map[string]map[uint64]float64{}, of: run})
	}
	p := g.Policies[i]
	p.Seeds++
	for field, v := range run.Figures {
		if p.values[field] == nil {
			p.values[field] = map[uint64]float64{}
		}
		p.values[field][run.World.Seed] = v
	}
}

// compare fills in what is computed over seeds.
func (g *Group) compare(base string) {
	for _, p := range g.Policies {
		if p.String() == base {
			g.Base = p
		}
	}
	for _, p := range g.Policies {
		p.Means, p.Unmoved = map[string]Mean{}, p.Seeds > 1
		if g.Base != nil && p != g.Base {
			p.Versus = map[string]Paired{}
		}
		for _, m := range report.Measures() {
			var own, both, beside []float64
			for _, seed := range g.Seeds {
				v, known := p.values[m.Field][seed]
				if !known {
					continue
				}
				own = append(own, v)
				if b, too := g.baseline(m.Field, seed); too {
					both, beside = append(both, v), append(beside, b)
				}
			}
			if len(own) == 0 {
				continue
			}
			mean := MeanOf(own)
			p.Means[m.Field] = mean
			p.Unmoved = p.Unmoved && len(own) == p.Seeds && mean.Min == mean.Max
			if p.Versus != nil && len(both) > 0 {
				p.Versus[m.Field] = PairedOf(both, beside)
			}
		}
	}
}

// baseline is a figure of the baseline.
func (g *Group) baseline(field string, seed uint64) (v float64, known bool) {
	if g.Base != nil {
		v, known = g.Base.values[field][seed]
	}
	return v, known
}

// String names the policy with its settings.
func (p *Policy) String() string { return p.of.Choice.String() }

// Title says what the runs of the group share.
func (g *Group) Title() string {
	title := g.Trace + " on " + g.Cluster
	if g.Load != 1 {
		title += ", load " + report.Exact(g.Load)
	}
	for _, s := range g.Varied {
		title += ", " + s.Name + " " + s.Value
	}
	return title
}

// Unmoved are sentences on the seeds that change nothing, each with the groups that it holds for.
func Unmoved(groups []*Group) []string {
	var texts []string
	where := map[string][]string{}
	for _, g := range groups {
		var names []string
		for _, p := range g.Policies {
			if p.Unmoved {
				names = append(names, p.String())
			}
		}
		if len(names) == 0 {
			continue
		}
		text := "seeds change nothing under " + strings.Join(names, ", ") + ": every figure is the same in each. Nothing that is drawn bears on these runs"
		if len(names) == len(g.Policies) {
			text = "seeds change nothing: every figure is the same in each. Nothing in these runs is drawn: a trace that is generated (like), a window of a real one, failures (node-mtbf, job-mtbf), errors of estimates and assumptions are"
		}
		if where[text] == nil {
			texts = append(texts, text)
		}
		where[text] = append(where[text], g.Title())
	}
	for i, text := range texts {
		texts[i] = strings.Join(where[text], "; ") + ": " + text
	}
	return texts
}
