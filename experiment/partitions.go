package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// placed is a trace whose jobs keep to the nodes of their partitions, on a cluster whose
// nodes tell by labels in which partitions they are (clusterspec.PartitionLabel). Slurm's
// partitions overlap, which the pools of a cluster do not.
type placed struct {
	trace.Source
	labels  map[string]bool // partitions that nodes are labelled with
	pools   []string
	demands narrowed
	astray  map[string]int // jobs of partitions that the cluster does not have
	names   []string       // of those, in order
}

// newPlaced returns the trace itself on a cluster that has no partitions.
func newPlaced(src trace.Source, spec *clusterspec.Spec, whole bool) (trace.Source, func() string) {
	p := &placed{Source: src, labels: map[string]bool{}, astray: map[string]int{}}
	if !whole {
		p.pools = spec.Partitions
		for i := range spec.Nodes {
			for _, l := range spec.Nodes[i].Labels {
				if name, is := strings.CutPrefix(l.Key, clusterspec.PartitionLabel); is {
					p.labels[name] = true
				}
			}
		}
	}
	if len(p.labels) == 0 && len(p.pools) == 0 {
		return src, nothingToTell
	}
	return p, p.remark
}

// Next implements trace.Source.
func (p *placed) Next(e *trace.Entry) error {
	err := p.Source.Next(e)
	if err != nil || e.Job.Partition == "" || e.Job.Demand == nil {
		return err
	}
	name := e.Job.Partition
	if !p.labels[name] {
		if !slices.Contains(p.pools, name) {
			p.stray(name)
		}
		return nil
	}
	if e.Job.Demand, err = p.demands.get(e.Job.Demand, name, clusterspec.PartitionLabel+name); err != nil {
		return fmt.Errorf("job %s: %w", e.Job.Key, err)
	}
	return nil
}

// narrowed are demands for nodes that have labels as well, each made once.
type narrowed struct {
	demands job.Interner
	known   map[narrowedKey]*job.Demand
}

// narrowedKey is a demand, and what it is narrowed by.
type narrowedKey struct {
	demand *job.Demand
	by     string
}

// get is a demand for nodes that have some labels as well, which are the same for the same word.
func (n *narrowed) get(d *job.Demand, by string, labels ...string) (*job.Demand, error) {
	key := narrowedKey{d, by}
	if made, known := n.known[key]; known {
		return made, nil
	}
	made := *d
	for _, l := range labels {
		if err := narrow(&made, l); err != nil {
			return nil, err
		}
	}
	if n.known == nil {
		n.known = map[narrowedKey]*job.Demand{}
	}
	n.known[key] = n.demands.Get(made)
	return n.known[key], nil
}

// narrow adds to the condition of a demand that nodes have a label.
func narrow(d *job.Demand, key string) error {
	w, err := label.ParseWhere(d.Where)
	if err != nil {
		return err
	}
	has := label.Requirement{Key: key, Op: label.Exists}
	if len(w) == 0 {
		w = label.Where{nil}
	}
	all := make(label.Where, len(w))
	for i := range w {
		all[i] = append(slices.Clone(w[i]), has)
	}
	return d.SetWhere(all.String())
}

func (p *placed) stray(name string) {
	if p.astray[name]++; p.astray[name] == 1 {
		p.names = append(p.names, name)
	}
}

// remark says which partitions the cluster does not have.
func (p *placed) remark() string {
	if len(p.names) == 0 {
		return ""
	}
	told := make([]string, len(p.names))
	for i, name := range p.names {
		told[i] = fmt.Sprintf("%s of %s", unit.CountOrNo(p.astray[name], "job"), name)
	}
	return "the cluster does not have the partitions of some jobs, which go where their tenants would: " + some(told)
}
