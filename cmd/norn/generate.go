package main

import (
	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
	"github.com/norn-scheduler/norn/unit"
)

// likeDLRM is what a user writes for a batch of recommendation jobs, which is no log
// but made from a list of models.
const likeDLRM = "dlrm"

// dlrmFlags are the flags of generate that are of such a batch alone.
type dlrmFlags struct {
	list, gap string
	outliers  int
}

func (d *dlrmFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.list, "list", "memory", "like dlrm: the task list: memory, balance, bandwidth or computing")
	f.StringVar(&d.gap, "gap", "0s", "like dlrm: mean time between submissions (0: all at once)")
	f.IntVar(&d.outliers, "outliers", 0, "like dlrm: jobs that take 1.4 times the memory that they are estimated to take")
}

// source makes the batch; jobs 0 is 24 of them.
func (d *dlrmFlags) source(jobs int, seed uint64) (trace.Source, error) {
	o := gen.DLRM{Jobs: jobs, Seed: seed, Outliers: d.outliers}
	var err error
	if o.List, err = gen.ParseTaskList(d.list); err != nil {
		return nil, misused("--list: %w", err)
	}
	if o.Gap, err = unit.ParseSeconds(d.gap); err != nil {
		return nil, misused("--gap: %w", err)
	}
	entries, err := gen.NewDLRM(o)
	if err != nil {
		return nil, err
	}
	return trace.FromMemory(entries), nil
}
