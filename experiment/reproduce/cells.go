package reproduce

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// The world of HiveD: virtual clusters of Philly in October and November 2017, each with the nodes of 8 GPUs
// that Helios gives it, as cells of one cluster. The paper's own trace and cells are not published.

// phillyCells are the virtual clusters and their nodes.
const phillyCells = "6214e9=64 7f04ca=32 11cb48=16 b436b2=64 ee9e8c=64 e13805=16 6c71a0=32 2869ce=16 ed69ec=8 103959=8 0e4a51=32"

// The policies that are compared: both have the same order and the same places inside, and no guests.
const (
	byCells = "hived(beyond=false)"
	byQuota = "hived(guarantee=quota,beyond=false)"
)

// cellsWorld is the first jobs of Philly that fit into the cells of their tenants, with arrivals so many times
// as fast.
func cellsWorld(first int, load float64) World {
	const path = "data/philly/philly_jobs_reconstructed.csv.gz"
	return World{Needs: []string{path}, Make: func(data string, _ experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		spec := &strings.Builder{}
		nodes, total := map[string]int{}, 0
		var names []string
		for _, field := range strings.Fields(phillyCells) {
			name, count, _ := strings.Cut(field, "=")
			n := 0
			if _, err := fmt.Sscan(count, &n); err != nil {
				return nil, nil, err
			}
			nodes[name] = n
			names = append(names, name)
			total += n
			fmt.Fprintf(spec, "  - {name: '%s', cells: node=%d}\n", name, n)
		}
		x := &experiment.Experiment{Whole: true, Seed: 1}
		var err error
		if x.Spec, err = clusterspec.ParseYAML("cells", fmt.Appendf(nil, "nodes: [{count: %d, gpus: 8}]\ntenants:\n%s", total, spec)); err != nil {
			return nil, nil, err
		}
		all, err := openTrace(data, path, trace.Options{
			Merge: true, Sort: true, Limit: first, Tenants: names, Rebase: true, Load: load, GPUJobs: true, GPUOnly: true,
			FromTime: time.Date(2017, 10, 1, 0, 0, 0, 0, time.UTC), ToTime: time.Date(2017, 12, 1, 0, 0, 0, 0, time.UTC),
		})
		if err != nil {
			return nil, nil, err
		}
		var jobs experiment.Jobs
		for _, e := range all {
			if e.Job.Demand.GPUs() <= 8*nodes[e.Job.Tenant] {
				jobs = append(jobs, e)
			}
		}
		return x, renumbered(jobs).Source(), nil
	}}
}

// anomalies is how many tenants wait longer on average than in a cluster of their own, which has the cells
// that they are promised and the same policy. One is added, so that none is a figure, too.
func anomalies() Metric {
	return Metric{Key: "anomalies", Name: "1 + tenants that wait longer than in a cluster of their own", Of: func(o *experiment.Outcome) float64 {
		n := 1.0
		for t := tenant.ID(1); int(t) < o.State.Tenants.Len(); t++ {
			shared, alone := waitsOf(o, t)
			if shared > alone {
				n++
			}
		}
		return n
	}}
}

// waitsOf are the mean waits of the jobs of a tenant: as they were, and in a cluster of its own.
func waitsOf(o *experiment.Outcome, t tenant.ID) (shared, alone time.Duration) {
	var jobs experiment.Jobs
	for _, r := range records(o, 0, o.State.Jobs()) {
		if r.Tenant == t {
			shared += r.WaitAt(r.End)
			jobs = append(jobs, trace.Entry{Job: *r.Job, Truth: trace.Truth{Work: r.Progress}})
		}
	}
	if len(jobs) == 0 {
		return 0, 0
	}
	nodes := 0
	for e := range o.State.Tenants.At(t).Cells.All() {
		nodes += e.Count
	}
	x, err := plain(fmt.Sprintf("%dx8", nodes))
	if err != nil {
		return shared, 0
	}
	c, err := experiment.ParseChoice(byCells)
	if err != nil {
		return shared, 0
	}
	private, err := x.Run(context.Background(), c, renumbered(jobs).Source())
	if err != nil {
		return shared, 0
	}
	for _, r := range records(private, 0, private.State.Jobs()) {
		alone += r.WaitAt(r.End)
	}
	n := time.Duration(len(jobs))
	return shared / n, alone / n
}

// hivedCells: the paper's figures are of a trace that is not published. It claims that no tenant waits longer than
// in a cluster of its own, and that tenants do under quotas.
func hivedCells() []Study {
	s := Study{
		System: "hived", Name: "philly", CPU: 15, Policy: byCells,
		About:  "October and November of Philly on 352x8 GPUs, of which 11 virtual clusters are guaranteed 8 to 64 nodes each; a baseline of quotas has the same order and places",
		Worlds: []World{cellsWorld(0, 1), cellsWorld(0, 0.98), cellsWorld(0, 1.02)},
		Claims: []Claim{
			{Metric: anomalies(), Published: exactly(1), Place: "section 2: none with cells"},
			{Policy: byQuota, Metric: anomalies(), Published: atLeast(2), Place: "section 2: some under quotas"},
		},
	}
	return []Study{s}
}
