// Package clusterimport makes the description of a cluster out of what the programs of
// that cluster print and are configured with.
//
// Nouns:
//   - A File is the output of one program, or a file of configuration.
//   - The inventory is what all files tell together: nodes, partitions, accounts,
//     QOSs, and settings of the scheduler.
//   - A Result is the description, the policy that does what the scheduler of the
//     cluster does, and what could not be taken over.
//   - A Loss is something that was told and has no counterpart, counted by its name.
//
// Units: GPUs and cores in thousandths, memory in bytes.
//
// Sources: the manual pages of Slurm's scontrol, sinfo, sacctmgr and slurm.conf;
// docs/slurm.md says what becomes of each field. What kubectl writes is read by package
// kubespec, and docs/clusters.md says what becomes of that.
package clusterimport

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/trace/clusterspec"
	"github.com/norn-scheduler/norn/trace/clusterspec/kubespec"
)

// File is something to import.
type File struct {
	Name string // for messages
	Text []byte
}

// Options say how the description is made.
type Options struct {
	Pools bool // partitions become pools, each with a policy of its own; they must not overlap
}

// Result is what was imported.
type Result struct {
	Spec   *clusterspec.Spec
	Policy string   // a policy with its settings, as norn sim takes it; empty: no file tells of the scheduler
	Stop   string   // what a preemption costs jobs there, as norn sim --stop takes it; empty: not told
	Read   []string // what was read of each file
	Notes  []string // what was assumed
	Lost   []Loss   // by name
}

// Loss is what was told so many times and could not be taken over.
type Loss struct {
	What  string
	Times int
}

// reader is one line of the table of what can be imported.
type reader struct {
	name string                                   // of the program, or of the file
	is   func(text []byte) bool                   // whether a text is of this kind
	read func(in *inventory, text []byte) error   // takes it in
	told func(before, after counts) (what string) // what was read
}

// readers is the table. Files are read in its order, whatever the order of the command
// line, and what an earlier one tells of a node counts. To add a kind, add a line.
func readers() []reader {
	return []reader{
		{"scontrol show node --json", isNodesJSON, (*inventory).nodesJSON, nodesTold},
		{"scontrol show node", begins("NodeName=", " CPUTot="), (*inventory).nodesText, nodesTold},
		{"sinfo", isSinfo, (*inventory).sinfo, nodesTold},
		{"scontrol show partition", begins("PartitionName=", " TotalNodes="), (*inventory).configuration, partitionsTold},
		{"sacctmgr show assoc", hasColumns("account", "share"), (*inventory).associations, accountsTold},
		{"sacctmgr show qos", hasColumns("name", "priority"), (*inventory).qualities, qosesTold},
		{"slurm.conf", isConfiguration, (*inventory).configuration, settingsTold},
	}
}

// Import makes one description of all files. It fails on a file of no known kind, with its
// name, on what makes no sense in one, with its line, and where no file tells of nodes.
func Import(files []File, opt Options) (*Result, error) {
	if slices.ContainsFunc(files, func(f File) bool { return kubespec.Is(f.Text) }) {
		return kubernetes(files, opt)
	}
	in := newInventory()
	table := readers()
	kinds := make([]int, len(files))
	for i, f := range files {
		files[i].Text = bytes.TrimPrefix(f.Text, []byte("\xef\xbb\xbf"))
		if kinds[i] = slices.IndexFunc(table, func(r reader) bool { return r.is(files[i].Text) }); kinds[i] < 0 {
			return nil, fmt.Errorf("%s: is nothing that can be imported; known are %s", f.Name, names(table))
		}
	}
	out := &Result{}
	for k, r := range table {
		for i, f := range files {
			if kinds[i] != k {
				continue
			}
			before := in.counts()
			if err := r.read(in, f.Text); err != nil {
				return nil, fmt.Errorf("%s (%s): %w", f.Name, r.name, err)
			}
			out.Read = append(out.Read, fmt.Sprintf("%s: %s, %s", f.Name, r.name, r.told(before, in.counts())))
		}
	}
	if len(in.order) == 0 {
		return nil, errors.New("no file tells of nodes: add scontrol show node, sinfo -N, or slurm.conf")
	}
	if err := in.build(out, opt); err != nil {
		return nil, err
	}
	in.policy(out)
	out.Notes = append(out.Notes, in.notes...)
	out.Lost = in.losses()
	return out, nil
}

func names(table []reader) string {
	var all []string
	for _, r := range table {
		all = append(all, r.name)
	}
	return strings.Join(append(all, "kubectl get -o json"), ", ")
}

// counts are what an inventory has.
type counts struct{ nodes, partitions, accounts, qoses, settings int }

func (in *inventory) counts() counts {
	return counts{len(in.order), len(in.partitions), len(in.accounts), len(in.qoses), len(in.settings)}
}

func nodesTold(a, b counts) string      { return more(b.nodes-a.nodes, "node") }
func partitionsTold(a, b counts) string { return more(b.partitions-a.partitions, "partition") }
func accountsTold(a, b counts) string   { return more(b.accounts-a.accounts, "account") }
func qosesTold(a, b counts) string      { return more(b.qoses-a.qoses, "QOS") }
func settingsTold(a, b counts) string {
	return more(b.nodes-a.nodes, "node") + ", " + more(b.partitions-a.partitions, "partition") + ", " + more(b.settings-a.settings, "setting")
}

// more is a number of things that were not known before.
func more(n int, noun string) string {
	switch {
	case n == 0:
		return "no new " + noun
	case noun == "QOS" && n > 1:
		return fmt.Sprintf("%d QOSs", n)
	}
	return unit.Count(n, noun)
}
