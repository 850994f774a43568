package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/grid"
)

// nodePick is the flags that select nodes.
type nodePick struct {
	names, pools, types, states []string
	where                       string
}

func (p *nodePick) flags(cmd *cobra.Command, s *shell) {
	f := cmd.Flags()
	f.StringArrayVar(&p.pools, "pool", nil, "nodes of these pools, separated by commas")
	f.StringArrayVar(&p.types, "type", nil, "nodes with GPUs of these types")
	f.StringArrayVar(&p.states, "state", nil, "nodes in these states: "+strings.Join(api.NodeStates(), ", "))
	f.StringVar(&p.where, "where", "", `nodes whose labels meet this condition, as in "zone in (a,b), !spot"`)
	complete(cmd, map[string]completer{"state": completeList(api.NodeStates)})
}

func (p *nodePick) query() (api.NodeQuery, error) {
	q := api.NodeQuery{Names: listed(p.names), Pools: listed(p.pools), Types: listed(p.types), States: listed(p.states), Where: p.where}
	for _, st := range q.States {
		if !slices.Contains(api.NodeStates(), st) {
			return q, misused("--state %s: write one of %s", st, strings.Join(api.NodeStates(), ", "))
		}
	}
	return q, nil
}

// nodeListing is what norn nodes was asked.
type nodeListing struct {
	*shell
	format
	nodePick
	sort string
}

// nodeOrders are the ways to sort nodes.
var nodeOrders = map[string]func(a, b *api.Node) int{
	"name":  func(*api.Node, *api.Node) int { return 0 }, // as they come
	"free":  func(a, b *api.Node) int { return cmp.Compare(b.GPUsFree, a.GPUsFree) },
	"type":  func(a, b *api.Node) int { return strings.Compare(a.Type, b.Type) },
	"state": func(a, b *api.Node) int { return rankOfState(a) - rankOfState(b) },
}

// rankOfState has nodes with trouble come first.
func rankOfState(n *api.Node) int {
	rank := -2 * slices.Index(api.NodeStates(), n.State())
	if n.GPUsBroken > 0 {
		rank--
	}
	return rank
}

func (s *shell) nodesCommand() *cobra.Command {
	f := &nodeListing{shell: s}
	orders := slices.Sorted(maps.Keys(nodeOrders))
	cmd := &cobra.Command{
		Use:   "nodes [NODE...]",
		Short: "List the nodes of the cluster with what is free",
		Long: `Nodes lists the nodes that Norn shares out, by name, with their GPUs, cores, memory and
jobs, and above them what there is of each GPU type. * in a name stands for any letters.
FREE is what new work may have: nothing of a node that is drained or down. OTHERS is what
is used by whoever is no job of Norn. One machine is a list of one.`,
		Example: `  norn nodes
  norn nodes 'a-*' --state draining,down
  norn nodes --where 'zone in (a,b), !spot' --sort free
  norn nodes -o wide
  norn nodes -o csv`,
		ValidArgsFunction: s.completeNodes,
		RunE:              s.asked(f.run),
	}
	cmd.Flags().StringVar(&f.sort, "sort", "name", "order: "+strings.Join(orders, ", ")+"; state has trouble first")
	complete(cmd, map[string]completer{"sort": words(orders...)})
	f.nodePick.flags(cmd, s)
	f.format.flags(cmd, "wide", "csv", "name")
	whereFlags(cmd)
	return cmd
}

func (f *nodeListing) run(cmd *cobra.Command, d daemon, names []string) error {
	f.names = names
	q, err := f.query()
	if err != nil {
		return err
	}
	order, known := nodeOrders[f.sort]
	if !known {
		return misused("--sort %s: write one of %s", f.sort, strings.Join(slices.Sorted(maps.Keys(nodeOrders)), ", "))
	}
	list, err := d.Nodes(cmd.Context(), q)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b api.Node) int { return order(&a, &b) })
	if err := writeNodes(cmd.OutOrStdout(), list, f.name, widthOf(cmd)); err != nil {
		return err
	}
	if len(list) == 0 && len(names) == 0 && f.name == "text" {
		remark(cmd, "no node is like that")
	}
	if len(q.Pools)+len(q.Types)+len(q.States) == 0 && q.Where == "" {
		return unfoundNode(names, list)
	}
	return nil
}

// unfoundNode is the error of nodes that were named and are not there.
func unfoundNode(names []string, list []api.Node) error {
	for _, name := range names {
		if !slices.ContainsFunc(list, func(n api.Node) bool { is, _ := path.Match(name, n.Name); return is || n.Name == name }) {
			return fmt.Errorf("there is no node %s", name)
		}
	}
	return nil
}

// writeNodes writes a list of nodes.
func writeNodes(out io.Writer, list []api.Node, format string, width int) error {
	switch format {
	case "json":
		return asJSON(out, list)
	case "csv":
		return writeNodesCSV(out, list)
	case "name":
		for i := range list {
			if _, err := fmt.Fprintln(out, list[i].Name); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) > 1 {
		if err := typeTable(list).Write(out, width); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	if format == "wide" {
		return wideNodes(list).Write(out, 0)
	}
	return nodeTable(list).Write(out, width)
}

// ofType is what there is of a GPU type.
type ofType struct {
	name   string
	states map[string]int
	whole  api.Node
}

// byType adds nodes up by their GPU types, those with most GPUs first.
func byType(list []api.Node) []ofType {
	group := map[string][]api.Node{}
	for _, n := range list {
		group[n.Type] = append(group[n.Type], n)
	}
	var out []ofType
	for _, name := range slices.Sorted(maps.Keys(group)) {
		t := ofType{cmp.Or(name, "no GPU"), map[string]int{}, api.Whole(name, group[name])}
		for i := range group[name] {
			t.states[group[name][i].State()]++
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b ofType) int { return cmp.Compare(b.whole.GPUs, a.whole.GPUs) })
	return out
}

// typeTable has a line for each GPU type.
func typeTable(list []api.Node) *grid.Table {
	g := &grid.Table{Cols: []grid.Column{
		{Title: "TYPE", Least: 6}, {Title: "NODES", Right: true}, {Title: "UP", Right: true}, {Title: "DRAINED", Right: true, Bare: true}, {Title: "DOWN", Right: true, Bare: true},
		{Title: "GPUS", Right: true, Bare: true}, {Title: "HELD", Right: true, Bare: true}, {Title: "FREE", Right: true, Bare: true}, {Title: "BROKEN", Right: true, Bare: true, Rank: 1}, {Title: "OTHERS", Right: true, Bare: true, Rank: 2},
	}}
	for _, t := range byType(list) {
		nodes := 0
		for _, n := range t.states {
			nodes += n
		}
		gpus := func(v float64) string { return map[bool]string{true: trimmed(v)}[t.whole.GPUs > 0] }
		others := 0.0
		if t.whole.Foreign != nil {
			others = t.whole.Foreign.GPUs
		}
		g.Add(t.name, strconv.Itoa(nodes), strconv.Itoa(t.states["up"]), some(float64(t.states["draining"]+t.states["drained"])), some(float64(t.states["down"])),
			gpus(t.whole.GPUs), gpus(t.whole.GPUsAllocated), gpus(t.whole.GPUsFree), some(t.whole.GPUsBroken), some(others))
	}
	return g
}

// some is a number, or nothing for 0.
func some(v float64) string {
	if v == 0 {
		return ""
	}
	return trimmed(v)
}

// nodeTable has a line for each node.
func nodeTable(list []api.Node) *grid.Table {
	g := &grid.Table{Cols: []grid.Column{
		{Title: "NODE"}, {Title: "TYPE", Least: 4, Rank: 3, Bare: true}, {Title: "STATE"}, {Title: "GPUS", Right: true, Bare: true}, {Title: "FREE", Right: true, Bare: true}, {Title: "OTHERS", Right: true, Bare: true, Rank: 5},
		{Title: "CPUS", Right: true, Rank: 4, Bare: true}, {Title: "MEMORY", Right: true, Rank: 2, Bare: true}, {Title: "JOBS", Least: 8, Rank: 6, Bare: true}, {Title: "NOTE", Least: 8, Rank: 1, Bare: true},
	}}
	for i := range list {
		n := &list[i]
		g.Add(n.Name, n.Type, n.State(), allocatedGPUs(n), freeGPUs(n), foreignGPUs(n), allocatedOf(trimmed(n.CPUsAllocated), trimmed(n.CPUs)), allocatedOf(memory(n.MemAllocated), memory(n.Memory)), jobsThere(n), nodeNote(n))
	}
	return g
}

// allocatedGPUs are the GPUs of a node: held of all.
func allocatedGPUs(n *api.Node) string {
	if n.GPUs == 0 {
		return ""
	}
	return allocatedOf(trimmed(n.GPUsAllocated), trimmed(n.GPUs))
}

func freeGPUs(n *api.Node) string {
	if n.GPUs == 0 {
		return ""
	}
	return trimmed(n.GPUsFree)
}

func foreignGPUs(n *api.Node) string {
	if n.Foreign == nil {
		return ""
	}
	return some(n.Foreign.GPUs)
}

func allocatedOf(held, all string) string {
	if all == "0" {
		return ""
	}
	return held + "/" + all
}

// maxJobsThere is how many jobs of a node a line names.
const maxJobsThere = 3

// jobsThere names jobs on a node, as many as a line has room for.
func jobsThere(n *api.Node) string {
	more := n.Others + max(0, len(n.Jobs)-maxJobsThere)
	text := strings.Join(n.Jobs[:min(len(n.Jobs), maxJobsThere)], " ")
	switch {
	case more > 0 && text == "":
		return fmt.Sprintf("%d of others", more)
	case more > 0:
		return fmt.Sprintf("%s +%d", text, more)
	}
	return text
}

// nodeNote says what is wrong with a node.
func nodeNote(n *api.Node) string {
	if n.GPUsBroken > 0 {
		return strings.TrimSuffix(trimmed(n.GPUsBroken)+" broken; "+n.Note, "; ")
	}
	return n.Note
}

func wideNodes(list []api.Node) *grid.Table {
	g := &grid.Table{}
	for _, t := range []string{"NODE", "POOL", "TYPE", "STATE", "GPUS", "FREE", "BROKEN", "CPUS", "MEMORY", "SLOTS FREE", "TASKS", "JOBS", "OTHERS", "LABELS", "TAINTS", "NOTE"} {
		g.Cols = append(g.Cols, grid.Column{Title: t})
	}
	for i := range list {
		n := &list[i]
		var slots []string
		for _, x := range n.Slots {
			slots = append(slots, fmt.Sprintf("%s=%d/%d", x.Name, x.Free, x.Amount))
		}
		g.Add(n.Name, n.Pool, n.Type, n.State(), allocatedGPUs(n), freeGPUs(n), some(n.GPUsBroken), allocatedOf(trimmed(n.CPUsAllocated), trimmed(n.CPUs)), allocatedOf(memory(n.MemAllocated), memory(n.Memory)),
			strings.Join(slots, " "), some(float64(n.Tasks)), jobsThere(n), foreignText(n.Foreign), labelsText(n.Labels), strings.Join(n.Taints, " "), n.Note)
	}
	return g
}

// foreignText is what others use of a node.
func foreignText(f *api.Foreign) string {
	if f == nil {
		return ""
	}
	var parts []string
	if f.GPUs > 0 {
		parts = append(parts, gpusOf(f.GPUs))
	}
	if f.CPUs > 0 {
		parts = append(parts, trimmed(f.CPUs)+" CPUs")
	}
	if f.Memory > 0 {
		parts = append(parts, memory(f.Memory))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Slots)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, f.Slots[name]))
	}
	return strings.Join(parts, ", ")
}

func labelsText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, " ")
}

// nodeColumns are the columns of a list of nodes as CSV; memory in bytes, several labels,
// taints and jobs with blanks between them.
var nodeColumns = []string{
	"node", "pool", "type", "state", "gpus", "gpus_held", "gpus_free", "gpus_broken", "cpus", "cpus_held", "mem_bytes", "mem_held_bytes", "tasks", "jobs", "jobs_of_others",
	"others_gpus", "others_cpus", "others_mem_bytes", "labels", "taints", "note",
}

func writeNodesCSV(out io.Writer, list []api.Node) error {
	w := csv.NewWriter(out)
	if err := w.Write(nodeColumns); err != nil {
		return err
	}
	whole := func(b api.Bytes) string { return strconv.FormatInt(int64(b), 10) }
	for i := range list {
		n, f := &list[i], api.Foreign{}
		if n.Foreign != nil {
			f = *n.Foreign
		}
		err := w.Write([]string{
			n.Name, n.Pool, n.Type, n.State(), trimmed(n.GPUs), trimmed(n.GPUsAllocated), trimmed(n.GPUsFree), trimmed(n.GPUsBroken), trimmed(n.CPUs), trimmed(n.CPUsAllocated), whole(n.Memory), whole(n.MemAllocated),
			strconv.Itoa(n.Tasks), strings.Join(n.Jobs, " "), strconv.Itoa(n.Others), trimmed(f.GPUs), trimmed(f.CPUs), whole(f.Memory), labelsText(n.Labels), strings.Join(n.Taints, " "), n.Note,
		})
		if err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// completeNodes completes the names of nodes.
func (s *shell) completeNodes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return s.nodeNames(cmd), cobra.ShellCompDirectiveNoFileComp
}

// nodeNames are the names of all nodes, with what they are.
func (s *shell) nodeNames(cmd *cobra.Command) (out []string) {
	ctx, stop := context.WithTimeout(context.Background(), completeWithin)
	defer stop()
	d, err := s.open(cmd)
	if err != nil {
		return nil
	}
	list, _ := d.Nodes(ctx, api.NodeQuery{}) // an older Norn has none
	for i := range list {
		out = append(out, cobra.CompletionWithDesc(list[i].Name, grid.Clean(strings.TrimSpace(list[i].Type+" "+list[i].State()))))
	}
	return out
}
