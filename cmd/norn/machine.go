package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/grid"
)

func (s *shell) statusCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:     "status",
		Aliases: []string{"info"},
		Short:   "Show the machine, the policy, and any trouble",
		Long: `Status shows a running Norn at one glance: its policy, jobs by state, any trouble, the
devices with their jobs, how jobs are confined here, and the tenants.`,
		Example: `  norn status
  norn status --json`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, _ []string) error {
		st, err := d.Status(cmd.Context())
		if err != nil {
			return err
		}
		n, nodes, err := sharedOut(cmd.Context(), d, st, api.NodeQuery{})
		if err != nil {
			return err
		}
		if f.name == "json" {
			return writeJSON(cmd.OutOrStdout(), struct {
				Status api.Status `json:"status"`
				Node   api.Node   `json:"node"`
				Nodes  []api.Node `json:"nodes,omitempty"`
			}{st, n, nodes})
		}
		return writeStatus(cmd.OutOrStdout(), st, n, nodes, widthOf(cmd))
	})
	f.flags(cmd)
	whereFlags(cmd)
	return cmd
}

// sharedOut is the machine, or a cluster as if it were one and those of its nodes that a
// query asks for, which it then is the sum of.
func sharedOut(ctx context.Context, d daemon, st api.Status, q api.NodeQuery) (api.Node, []api.Node, error) {
	n, err := d.Node(ctx)
	if err != nil || st.Nodes == 0 {
		return n, nil, err
	}
	nodes, err := d.Nodes(ctx, q)
	w := api.Whole(n.Name, nodes)
	w.Health, w.Note, w.Isolation, w.Disk = n.Health, n.Note, n.Isolation, n.Disk
	return w, nodes, err
}

// writeStatus tells of a machine, or of a cluster with its nodes, for a reader.
func writeStatus(out io.Writer, st api.Status, n api.Node, nodes []api.Node, width int) error {
	p := &pageOf{width: width}
	p.line("", fmt.Sprintf("%s: norn %s, up for %s", n.Name, st.Version, span(st.Now.Sub(st.Up))))
	p.line("policy   ", st.Policy)
	if st.Defrag > 0 {
		p.line("moves    ", fmt.Sprintf("jobs together for a gang, where that wins %g times what it costs", st.Defrag))
	}
	p.line("jobs     ", tally(st))
	p.line(map[bool]string{false: "machine  ", true: "cluster  "}[st.Nodes > 0], machineText(n, nodes))
	if n.Health != "up" && n.Health != "" {
		p.line("drained  ", joined("the machine takes no new work", n.Note))
	}
	for _, t := range st.Trouble {
		p.line("trouble  ", t)
	}
	for i, text := range n.Isolation {
		lead := "         "
		if i == 0 {
			lead = "isolated "
		}
		p.line(lead, text)
	}
	if _, err := io.WriteString(out, strings.Join(p.lines, "\n")+"\n"); err != nil {
		return err
	}
	if len(n.Devices) > 0 {
		fmt.Fprintln(out)
		if err := deviceTable(n).Write(out, width); err != nil {
			return err
		}
	}
	if len(nodes) > 0 {
		fmt.Fprintln(out)
		if err := typeTable(nodes).Write(out, width); err != nil {
			return err
		}
	}
	if len(st.Tenants) > 0 {
		fmt.Fprintln(out)
		return tenantTable(st.Tenants).Write(out, width)
	}
	return nil
}

// joined is a text with what else is known of it.
func joined(text, more string) string {
	if more == "" {
		return text
	}
	return text + ": " + more
}

// tally counts jobs by state.
func tally(st api.Status) string {
	parts := []string{fmt.Sprintf("%d running", st.Running), fmt.Sprintf("%d waiting", st.Waiting)}
	if st.Stopping > 0 {
		parts = append(parts, fmt.Sprintf("%d stopping", st.Stopping))
	}
	if st.Held > 0 {
		parts = append(parts, fmt.Sprintf("%d held", st.Held))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d ended", st.Ended)), ", ")
}

// machineText is what a machine or a cluster has, and what of it is held.
func machineText(n api.Node, nodes []api.Node) string {
	var parts []string
	if len(nodes) > 0 {
		parts = append(parts, unit.CountOrNo(len(nodes), "node"), fmt.Sprintf("%s of %s GPUs allocated", trimmed(n.GPUsAllocated), trimmed(n.GPUs)))
	}
	if held := allocatedDevices(n); len(n.Devices) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d devices allocated", held, len(n.Devices)))
	}
	parts = append(parts, fmt.Sprintf("%s of %s CPU cores", trimmed(n.CPUsAllocated), trimmed(n.CPUs)), fmt.Sprintf("%s of %s memory", memory(n.MemAllocated), memory(n.Memory)))
	if n.NUMA > 1 {
		parts = append(parts, fmt.Sprintf("%d NUMA nodes", n.NUMA))
	}
	if n.Disk.Path != "" {
		parts = append(parts, fmt.Sprintf("%s free of %s at %s", memory(n.Disk.Free), memory(n.Disk.Size), n.Disk.Path))
	}
	return strings.Join(parts, ", ")
}

func allocatedDevices(n api.Node) int {
	held := 0
	for _, d := range n.Devices {
		if len(d.Jobs) > 0 {
			held++
		}
	}
	return held
}

// memory is an amount of memory with three digits at most: 1.5G, 141G, 80M.
func memory(b api.Bytes) string {
	for _, u := range []struct {
		size api.Bytes
		name string
	}{{api.Bytes(unit.TiB), "T"}, {api.Bytes(unit.GiB), "G"}, {api.Bytes(unit.MiB), "M"}, {api.Bytes(unit.KiB), "K"}} {
		if b >= u.size {
			v := float64(b) / float64(u.size)
			if v >= 9.95 {
				return fmt.Sprintf("%.0f%s", v, u.name)
			}
			return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + u.name
		}
	}
	return fmt.Sprintf("%d", b)
}

func deviceTable(n api.Node) *grid.Table {
	g := &grid.Table{Cols: []grid.Column{
		{Title: "DEVICE"}, {Title: "TYPE", Least: 6, Rank: 2}, {Title: "UTIL", Right: true, Bare: true}, {Title: "MEMORY", Right: true, Bare: true},
		{Title: "TEMP", Right: true, Rank: 3, Bare: true}, {Title: "POWER", Right: true, Rank: 4, Bare: true}, {Title: "NUMA", Right: true, Rank: 1, Bare: true},
		{Title: "JOBS", Least: 8}, {Title: "NOTE", Least: 10, Bare: true},
	}}
	for _, d := range n.Devices {
		util, mem, temp, power, numa := "", "", "", "", ""
		if d.Memory > 0 {
			mem = memory(d.Memory)
		}
		if d.Measured {
			util, temp, power = percent(d.Util), fmt.Sprintf("%.0f°C", d.Celsius), fmt.Sprintf("%.0f W", d.Watts)
			mem = memory(d.Used) + "/" + memory(d.Memory)
		}
		if d.NUMA >= 0 && n.NUMA > 1 {
			numa = fmt.Sprint(d.NUMA)
		}
		note := d.Note
		if d.Broken {
			note = joined("takes no new work", d.Note)
		}
		if slow := d.SlowText(); slow != "" {
			note = strings.TrimPrefix(note+"; "+slow, "; ")
		}
		g.Add(d.Name, d.Type, util, mem, temp, power, numa, strings.Join(d.Jobs, " "), note)
	}
	return g
}

func tenantTable(list []api.Tenant) *grid.Table {
	g := &grid.Table{Cols: []grid.Column{
		{Title: "TENANT", Least: 8}, {Title: "GPUS", Right: true}, {Title: "GUARANTEE", Right: true, Bare: true}, {Title: "LIMIT", Right: true, Bare: true},
		{Title: "WEIGHT", Right: true}, {Title: "WAITING", Right: true}, {Title: "USED GPU-H", Right: true},
	}}
	for _, t := range list {
		g.Add(t.Name, trimmed(t.Allocated), some(t.Guarantee), some(t.Limit), trimmed(t.Weight), fmt.Sprint(t.Waiting), fmt.Sprintf("%.1f", t.Usage))
	}
	return g
}

func (s *shell) drainCommand() *cobra.Command {
	return s.drainingCommand(false, &cobra.Command{
		Use:   "drain [DEVICE|NODE...]",
		Short: "Put devices, nodes, or the whole machine out of use",
		Long: `Drain lets no new job start on the named devices or nodes, or on the whole machine if you
name none. In a cluster --where selects nodes by their labels. Jobs that run there go on to
their end. Drain needs the rights of an operator. norn undrain reverses it.`,
		Example: `  norn drain gpu3 --why "fan is loud"
  norn drain --why maintenance
  norn drain a-17 a-18 --why "new fans"
  norn drain --where 'rack=r7'`,
	})
}

func (s *shell) undrainCommand() *cobra.Command {
	return s.drainingCommand(true, &cobra.Command{
		Use:   "undrain [DEVICE|NODE...]",
		Short: "Put devices, nodes, or the whole machine back into use",
		Long: `Undrain lets new jobs start again on the named devices or nodes, or on the whole machine
if you name none. In a cluster --where selects nodes by their labels. It needs the rights of
an operator.`,
		Example: `  norn undrain gpu3
  norn undrain
  norn undrain --where 'rack=r7'`,
	})
}

func (s *shell) drainingCommand(undo bool, cmd *cobra.Command) *cobra.Command {
	var f format
	why, where := "", ""
	cmd.ValidArgsFunction = s.completeDevices
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, names []string) error {
		order := api.Drain{Devices: names, Where: where, Undo: undo, Why: why}
		if where != "" && len(names) > 0 {
			return misused("name what is meant or write a condition with --where, not both")
		}
		if err := d.Drain(cmd.Context(), order); err != nil {
			return err
		}
		if f.name == "json" {
			return writeJSON(cmd.OutOrStdout(), order)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), drained(order))
		return err
	})
	if !undo {
		cmd.Flags().StringVar(&why, "why", "", "the reason, which norn status shows")
	}
	cmd.Flags().StringVar(&where, "where", "", `nodes whose labels meet this condition, as in "zone in (a,b), !spot"`)
	f.flags(cmd)
	whereFlags(cmd)
	return cmd
}

// drained says what has become of devices, of nodes or of the machine.
func drained(d api.Drain) string {
	what, many := ordered(d.Devices, d.Where)
	verb := "takes"
	if many {
		verb = "take"
	}
	if d.Undo {
		return what + " " + verb + " new work again"
	}
	return what + " " + verb + " no new work; running jobs go on"
}

// ordered names the devices or nodes that an order is about, and tells whether they are several.
func ordered(names []string, where string) (what string, many bool) {
	switch {
	case where != "":
		return "nodes with " + where, true
	case len(names) > 0:
		return devices(names), len(names) > 1
	}
	return "the machine", false
}

func (s *shell) useCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "use POLICY",
		Short: "Switch the scheduling policy",
		Long: `Use puts the machine under another policy, at once and for all waiting and running jobs.
Write the settings of the policy behind its name; norn policies lists them. @FILE stands
for what a file holds. Use needs the rights of an operator. norn plan shows beforehand what would change.`,
		Example: `  norn use srtf
  norn use 'tiresias(limits=3600,36000)'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completePolicyNames,
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, args []string) error {
		text, err := experiment.ListOf(args[0])
		if err != nil {
			return misused("%w", err)
		}
		if err := d.SetPolicy(cmd.Context(), text); err != nil {
			return err
		}
		st, err := d.Status(cmd.Context())
		if err != nil {
			return err
		}
		if f.name == "json" {
			return writeJSON(cmd.OutOrStdout(), map[string]string{"policy": st.Policy})
		}
		for _, text := range st.Lacks {
			remark(cmd, "%s: %s", st.Policy, text)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "the policy is %s\n", st.Policy)
		return err
	})
	f.flags(cmd)
	whereFlags(cmd)
	return cmd
}
