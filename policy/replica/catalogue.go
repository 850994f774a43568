// Package replica decides in which regions data is kept, beside any policy: the slow path of MAST. Jobs run only
// where their data is, so that this decides which regions can take which load.
//
// Nouns:
//   - A catalogue is the data sets, how large they are and where they are at first, and how much each region can
//     store.
//   - A replica is a data set in a region: its nodes have the label data/NAME (sched.DataLabel).
//   - A class is jobs that read the same data sets and may run on the same GPU types. What it asks for is the GPUs of
//     its jobs that were there, waiting or running, on average over the last period.
//   - The load of a region is what is asked for of its GPUs of a type, over their number.
//
// At the end of each period the replicas are improved step by step (Problem.Solve, "Tetris" in the paper), and those
// that are new are copied. A job whose data is together nowhere has it copied at once.
//
// Source: Choudhury et al., "MAST: Global Scheduling of ML Training across Geo-Distributed Datacenters at
// Hyperscale", OSDI 2024. The constants of the penalty are those of the specification, which reconstructs them.
package replica

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
)

// Level is the level of the topology whose places keep data.
const Level = "region"

// Catalogue is the data of a cluster.
type Catalogue struct {
	Data    []Data
	Storage map[string]unit.Bytes // by region; none where it is not bounded
	GBps    float64               // at which data comes into a region, one copy after the other; 0: at once
}

// Data is a data set.
type Data struct {
	Name string
	Size unit.Bytes
	In   []string // regions, at first
}

// Check says what is wrong with a catalogue, or nil. Errors name the data set that they are about.
func (c *Catalogue) Check() error {
	if !(c.GBps >= 0 && c.GBps <= 1e9) {
		return fmt.Errorf("copies at %v GB/s: write a number from 0 on", c.GBps)
	}
	seen := map[string]bool{}
	for _, d := range c.Data {
		switch {
		case strings.ContainsAny(d.Name, "|,") || (label.Label{Key: sched.DataLabel + d.Name}).Check() != nil:
			return fmt.Errorf("data %q: write a name of letters, digits, - and _", d.Name)
		case seen[d.Name]:
			return fmt.Errorf("data %q is told twice", d.Name)
		case len(d.In) == 0:
			return fmt.Errorf("data %q is in no region", d.Name)
		}
		seen[d.Name] = true
	}
	return nil
}

// Apply labels the nodes of a cluster with the data that is there at first. It fails where a region is not known, or
// cannot store what it is to have.
func (c *Catalogue) Apply(cl *cluster.Cluster) error {
	at, used := regions(cl), map[string]unit.Bytes{}
	on := map[cluster.DomainID][]label.Label{}
	for _, d := range c.Data {
		for _, name := range d.In {
			i := slices.IndexFunc(at, func(r cluster.DomainID) bool { return nameOf(cl, r) == name })
			if i < 0 {
				return fmt.Errorf("data %q is in %s, which is no region of the cluster", d.Name, name)
			}
			on[at[i]] = append(on[at[i]], label.Label{Key: sched.DataLabel + d.Name})
			used[name] += d.Size
			if most, bounded := c.Storage[name]; bounded && used[name] > most {
				return fmt.Errorf("region %s stores %v at most, and is to have %v or more at first", name, most, used[name])
			}
		}
	}
	for r, labels := range on {
		for _, id := range cluster.NodesIn(cl, r, nil) {
			n := cl.Node(id)
			if err := cl.SetLabels(id, slices.Concat(n.Labels, labels), n.Taints); err != nil {
				return err
			}
		}
	}
	return nil
}

// regions are the regions of a cluster, by number.
func regions(cl *cluster.Cluster) (out []cluster.DomainID) {
	for d := range cluster.DomainID(cl.Domains()) {
		if level, _, _ := cl.Domain(d); level == Level {
			out = append(out, d)
		}
	}
	return out
}

func nameOf(cl *cluster.Cluster, d cluster.DomainID) string {
	_, name, _ := cl.Domain(d)
	return name
}

// Reads are the data sets of the catalogue that a job reads, by number: those of its Dataset, which names them with
// | between.
func (c *Catalogue) Reads(j *job.Job) (out []int) {
	if j.Dataset == "" {
		return nil
	}
	for name := range strings.SplitSeq(j.Dataset, "|") {
		name = strings.TrimSpace(name)
		if i := slices.IndexFunc(c.Data, func(d Data) bool { return d.Name == name }); i >= 0 && !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return out
}

// storage is what a region can store, in TB.
func (c *Catalogue) storage(name string) float64 {
	if most, bounded := c.Storage[name]; bounded {
		return float64(most) / 1e12
	}
	return math.Inf(1)
}
