package experiment

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// typed is a trace whose jobs ask for GPUs in the terms of the cluster: types
// are called as it calls them. Slurm writes a100, Kubernetes NVIDIA-A100-SXM4-80GB, and
// a person A100: with one spelling alone, the jobs of the others would wait for ever.
type typed struct {
	trace.Source
	names   []string // of the cluster's types
	unnamed bool     // the cluster does not tell its types
	demands job.Interner
	known   map[*job.Demand]*job.Demand
	taken   []string // "a100 for A100", each once
	dropped []string // types that were left out, because the cluster names none
}

func newTyped(src trace.Source, c *cluster.Cluster) *typed {
	t := &typed{Source: src, known: map[*job.Demand]*job.Demand{}}
	for i := range cluster.TypeID(c.Types()) {
		t.names = append(t.names, c.Type(i).Name)
	}
	t.unnamed = len(t.names) == 1 && t.names[0] == clusterspec.UnnamedType
	return t
}

// Next implements trace.Source.
func (t *typed) Next(e *trace.Entry) error {
	err := t.Source.Next(e)
	if err != nil || e.Job.Demand == nil || e.Job.Demand.Plain() {
		return err
	}
	d, ok := t.known[e.Job.Demand]
	if !ok {
		d = t.demands.Get(t.fit(*e.Job.Demand))
		t.known[e.Job.Demand] = d
	}
	e.Job.Demand = d
	return nil
}

// fit puts a demand into the terms of the cluster.
func (t *typed) fit(d job.Demand) job.Demand {
	if d.Types != "" {
		d.Types = t.rename(d.Types)
	}
	return d
}

// rename puts the names of the cluster in the place of those of the job. A type
// that the cluster does not have is left as it is.
func (t *typed) rename(types string) string {
	var out []string
	for name := range strings.SplitSeq(types, "|") {
		name = strings.TrimSpace(name)
		same := t.same(name)
		if len(same) == 0 {
			if t.unnamed {
				note(&t.dropped, name)
				return ""
			}
			same = []string{name}
		}
		for _, s := range same {
			if s != name {
				note(&t.taken, name+" for "+s)
			}
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return strings.Join(out, "|")
}

// same finds the types of the cluster that a name means: the one of that name,
// or else those that differ in upper and lower case alone, or else those whose
// name is a part of it, word by word.
func (t *typed) same(name string) []string {
	if slices.Contains(t.names, name) {
		return []string{name}
	}
	var folded, parts []string
	for _, n := range t.names {
		switch {
		case strings.EqualFold(n, name):
			folded = append(folded, n)
		case within(words(n), words(name)):
			parts = append(parts, n)
		}
	}
	if len(folded) > 0 {
		return folded
	}
	return parts
}

// words are the runs of letters and digits of a name, in lower case.
func words(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// within tells whether the few stand one after the other among the many.
func within(few, many []string) bool {
	for i := 0; len(few) > 0 && i+len(few) <= len(many); i++ {
		if slices.Equal(few, many[i:i+len(few)]) {
			return true
		}
	}
	return false
}

func note(all *[]string, text string) {
	if !slices.Contains(*all, text) {
		*all = append(*all, text)
	}
}

// remarks says what became of the types.
func (t *typed) remarks() []string {
	var out []string
	if len(t.taken) > 0 {
		out = append(out, "GPU types of jobs are taken for those of the cluster: "+some(t.taken))
	}
	if len(t.dropped) > 0 {
		out = append(out, fmt.Sprintf("jobs ask for GPU types (%s), and the cluster names none: any GPU will do (16x8:%s names one)", some(t.dropped), t.dropped[0]))
	}
	return out
}

// some is the first of many, with commas.
func some(all []string) string {
	const most = 5
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}
