package clusterspec

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/perf"
)

// Describe writes a short table of a cluster: its nodes by shape, its GPUs by
// type, its partitions and its places by level, how GPUs are linked in its nodes, and the network between these.
func Describe(w io.Writer, c *cluster.Cluster) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	total := 0
	for id := range cluster.NodeID(c.Nodes()) {
		total += c.NodeGPUs(id)
	}
	fmt.Fprintf(t, "%s, %s\n\n", unit.Count(c.Nodes(), "node"), unit.Count(total, "GPU"))
	describeShapes(t, c)
	describeTypes(t, c)
	describePartitions(t, c)
	describeLabelled(t, c)
	describePlaces(t, c)
	if err := t.Flush(); err != nil {
		return err
	}
	describeLinks(t, c)
	describeNetwork(t, c)
	return t.Flush()
}

// DescribeRest writes what a description says beside the cluster itself: nodes
// that arrive later, tenants with their quotas, and what transitions cost.
func DescribeRest(w io.Writer, s *Spec) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	describeArrivals(t, s)
	describeTenants(t, s)
	describeCosts(t, &s.Costs)
	return t.Flush()
}

func describeArrivals(w io.Writer, s *Spec) {
	head := "\nnodes\tGPUs\tarrive after"
	for i := range s.Nodes {
		if g := &s.Nodes[i]; g.At > 0 {
			if head != "" {
				fmt.Fprintln(w, head)
			}
			head = ""
			fmt.Fprintf(w, "%d\t%d\t%s\n", g.Count, g.Count*g.gpus(), unit.Human(g.At))
		}
	}
}

func describeTenants(w io.Writer, s *Spec) {
	if len(s.Tenants) == 0 {
		return
	}
	all := unitMilli(s.GPUs())
	share := func(q Share, none string) string {
		if q == (Share{}) {
			return none
		}
		return q.Of(all).String()
	}
	fmt.Fprintln(w, "\ntenant\tof\tguarantee\tlimit\tweight")
	for _, t := range s.Tenants {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%g\n", t.Name, cmp.Or(t.Parent, "-"), share(t.Guarantee, "0"), share(t.Limit, "none"), cmp.Or(t.Weight, 1))
	}
	if s.HalfLife > 0 {
		fmt.Fprintf(w, "usage loses half of its weight in %s\n", unit.Human(s.HalfLife))
	}
}

func describeCosts(w io.Writer, c *perf.Costs) {
	if c.Base.Zero() && len(c.Tiers) == 0 {
		return
	}
	fmt.Fprintln(w, "\ncosts of jobs\tstart\tcheckpoint\trestore\tmigrate\tresize\tin place\ttime-sliced")
	line := func(who string, x perf.Cost) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", who, unit.Human(x.Start), unit.Human(x.Checkpoint),
			unit.Human(x.Restore), unit.Human(x.Migrate), unit.Human(x.Resize), unit.Human(x.InPlace), unit.Human(x.TimeSliced))
	}
	line("all", c.Base)
	for _, t := range c.Tiers {
		line(unit.Count(t.GPUs, "GPU")+" or more", t.Cost)
	}
}

// tally counts things by name, in the order of their first appearance.
type tally[K comparable] struct {
	order []K
	count map[K]int
}

func (t *tally[K]) add(k K, n int) {
	if t.count == nil {
		t.count = map[K]int{}
	}
	if _, ok := t.count[k]; !ok {
		t.order = append(t.order, k)
	}
	t.count[k] += n
}

// shape is what makes nodes alike in a table.
type shape struct{ gpus, cpu, memory, state string }

func shapeOf(c *cluster.Cluster, id cluster.NodeID) shape {
	n := c.Node(id)
	var gpus, state []string
	for _, g := range n.GPUs {
		if g.Count > 0 {
			gpus = append(gpus, fmt.Sprintf("%d x %s", g.Count, c.Type(g.Type).Name))
		}
	}
	s := shape{gpus: strings.Join(gpus, " + "), cpu: "-", memory: "-"}
	if s.gpus == "" {
		s.gpus = "none"
	}
	if n.CPU > 0 {
		s.cpu = n.CPU.String()
	}
	if n.Memory > 0 {
		s.memory = n.Memory.String()
	}
	if slots := slotsOf(c, &n.Slots); slots != "" {
		state = append(state, strings.ReplaceAll(string(slots), "|", ", "))
	}
	if n.Pooled {
		state = append(state, "pooled")
	}
	if c.Health(id) != cluster.Up {
		state = append(state, c.Health(id).String())
	}
	if c.Power(id) != cluster.Awake {
		state = append(state, c.Power(id).String())
	}
	s.state = strings.Join(state, ", ")
	return s
}

func describeShapes(w io.Writer, c *cluster.Cluster) {
	var shapes tally[shape]
	for id := range cluster.NodeID(c.Nodes()) {
		shapes.add(shapeOf(c, id), 1)
	}
	slices.SortStableFunc(shapes.order, func(a, b shape) int { return cmp.Compare(shapes.count[b], shapes.count[a]) })
	fmt.Fprintln(w, "nodes\tGPUs\tCPUs\tmemory")
	for _, s := range shapes.order {
		line := fmt.Sprintf("%d\t%s\t%s\t%s", shapes.count[s], s.gpus, s.cpu, s.memory)
		if s.state != "" {
			line += "\t" + s.state
		}
		fmt.Fprintln(w, line)
	}
}

func describeTypes(w io.Writer, c *cluster.Cluster) {
	count := make([]int, c.Types())
	for id := range cluster.NodeID(c.Nodes()) {
		for _, g := range c.Node(id).GPUs {
			count[g.Type] += g.Count
		}
	}
	if len(count) == 0 {
		return
	}
	fmt.Fprintln(w, "\nGPUs\ttype\tmemory\tspeed")
	for i, n := range count {
		t := c.Type(cluster.TypeID(i))
		memory, speed := "-", t.Speed
		if t.Memory > 0 {
			memory = t.Memory.String()
		}
		if speed == 0 {
			speed = 1
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%g\n", n, t.Name, memory, speed)
	}
}

func describePartitions(w io.Writer, c *cluster.Cluster) {
	if c.Pools() == 1 {
		return
	}
	fmt.Fprintln(w, "\nnodes\tGPUs\tpartition")
	for p := range cluster.PoolID(c.Pools()) {
		nodes, gpus, name := c.PoolNodes(p), 0, c.PoolName(p)
		for _, id := range nodes {
			gpus += c.NodeGPUs(id)
		}
		if p == 0 {
			if name = "(none)"; len(nodes) == 0 {
				continue
			}
		}
		fmt.Fprintf(w, "%d\t%d\t%s\n", len(nodes), gpus, name)
	}
}

func describePlaces(w io.Writer, c *cluster.Cluster) {
	if c.Domains() == 1 {
		return
	}
	inside := make([]int, c.Domains())
	for d := cluster.DomainID(c.Domains() - 1); d >= 0; d-- { // children come after their parents
		inside[d] += len(c.DomainNodes(d))
		if _, _, parent := c.Domain(d); parent >= 0 {
			inside[parent] += inside[d]
		}
	}
	var levels tally[string]
	sizes := map[string][]int{}
	for d := 1; d < c.Domains(); d++ {
		level, _, _ := c.Domain(cluster.DomainID(d))
		levels.add(level, 1)
		sizes[level] = append(sizes[level], inside[d])
	}
	fmt.Fprintln(w, "\nplaces\tlevel\tnodes in each")
	for _, level := range levels.order {
		all := sizes[level]
		sort.Ints(all)
		each := fmt.Sprint(all[0])
		if all[0] != all[len(all)-1] {
			each = fmt.Sprintf("%d to %d", all[0], all[len(all)-1])
		}
		fmt.Fprintf(w, "%d\t%s\t%s\n", levels.count[level], level, each)
	}
}

// describeLabelled lists the partitions that labels of nodes tell. They may overlap.
func describeLabelled(w io.Writer, c *cluster.Cluster) {
	type size struct{ nodes, gpus int }
	all := map[string]size{}
	for id := range cluster.NodeID(c.Nodes()) {
		for _, l := range c.Node(id).Labels {
			if name, is := strings.CutPrefix(l.Key, PartitionLabel); is {
				s := all[name]
				all[name] = size{s.nodes + 1, s.gpus + c.NodeGPUs(id)}
			}
		}
	}
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w, "\nnodes\tGPUs\tpartition (label)")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(w, "%d\t%d\t%s\n", all[name].nodes, all[name].gpus, name)
	}
}
