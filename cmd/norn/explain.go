package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/perf"
)

func explainCommand() *cobra.Command {
	asJSON, learnt, most := false, false, 0
	cmd := &cobra.Command{
		Use:   "explain LOG [JOB]",
		Short: "Tell the life of one job: why it waited, where it ran, which job preempted it",
		Long: `Explain reads an event log and tells the life of one job. It gives the reason for
every wait and every preemption, the obstacles at that moment, and the moment at which
the job would have fitted, and what a policy that learns believed of it in the end. JOB is the job's name in the trace, or # and its number.
Without a JOB, explain lists the jobs, those that waited longest first. With --learnt
it lists what the scheduler has learnt about models that share a GPU.

LOG is the file, or the folder that norn sim --out made for a policy. Several logs in
one file, as norn events --log writes them, count as one. A log may break off because
norn was killed or still writes it; explain then tells it as far as it goes.`,
		Example: `  norn explain results/fifo
  norn explain results/fifo 1234
  norn explain results/tiresias/events.log.zst '#17' --json
  norn explain results/bsbf --learnt`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := eventlog.Open(args[0])
			if err != nil {
				return err
			}
			defer log.Close()
			if !asJSON {
				cmd.SetOut(&harmless{w: cmd.OutOrStdout()})
			}
			switch {
			case learnt && len(args) == 2:
				return misused("--learnt is about all jobs: leave %s out", args[1])
			case learnt:
				return lessons(cmd, log, asJSON)
			case len(args) == 1:
				return list(cmd, log, asJSON, most)
			}
			life, err := replay.Explain(log.Reader, args[1])
			if err != nil {
				return err
			}
			h := &log.Reader.Header
			if believe := (experiment.Choice{Policy: h.Policy, Settings: h.Settings}).Believe(); believe != nil {
				life.Believed(believe(perf.Prior{Told: h.World != "sim"}))
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), life.JSON())
			}
			return life.Write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.Flags().BoolVar(&learnt, "learnt", false, "list what was learnt about models that share a GPU")
	cmd.Flags().IntVar(&most, "limit", 20, "without a JOB: list at most so many (0: all)")
	return cmd
}

// lessons lists what was learnt in a log.
func lessons(cmd *cobra.Command, log *eventlog.File, asJSON bool) error {
	all, torn, err := replay.Lessons(log.Reader)
	if err != nil {
		return err
	}
	if torn {
		fmt.Fprintln(cmd.ErrOrStderr(), "norn: the log breaks off; this was learnt until then")
	}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), all)
	}
	if len(all) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "norn: nothing was learnt: the scheduler did not learn (norn sim --sharing none+learn), or no two jobs shared a GPU")
		return nil
	}
	return replay.WriteLessons(cmd.OutOrStdout(), all)
}

// list lists the jobs of a log.
func list(cmd *cobra.Command, log *eventlog.File, asJSON bool, most int) error {
	l, err := replay.Jobs(log.Reader)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), briefs(l, most))
	}
	if err := l.Write(cmd.OutOrStdout(), most); err != nil {
		return err
	}
	if l.Torn {
		fmt.Fprintln(cmd.ErrOrStderr(), "norn: the log breaks off; jobs are shown as they stood then")
	}
	if l.Gaps > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "norn: %s before another one goes on; the events in between are missing\n", breaks(l.Gaps))
	}
	if more := len(l.Jobs) - most; most > 0 && more > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "norn: %d more jobs (--limit 0 lists all); norn explain %s JOB tells the life of one\n", more, log.Path)
	}
	return nil
}

// breaks says of some logs that they break off.
func breaks(n int) string {
	if n == 1 {
		return "a log breaks off"
	}
	return fmt.Sprintf("%d logs break off", n)
}

// briefJSON is one job of the list for other programs; times are in seconds.
type briefJSON struct {
	Job         string  `json:"job"`
	Number      int     `json:"number"`
	Tenant      string  `json:"tenant,omitempty"`
	GPUs        int     `json:"gpus"`
	SubmitS     float64 `json:"submit_s"`
	WaitS       float64 `json:"wait_s"`
	RunS        float64 `json:"run_s"`
	Preemptions int     `json:"preemptions"`
	State       string  `json:"state"`
}

func briefs(l *replay.List, most int) []briefJSON {
	out := []briefJSON{}
	for _, b := range l.Jobs[:min(cmp.Or(most, len(l.Jobs)), len(l.Jobs))] {
		out = append(out, briefJSON{
			Job: b.Job, Number: int(b.ID), Tenant: b.Tenant, GPUs: b.GPUs, SubmitS: b.Submit.Seconds(),
			WaitS: b.Wait.Seconds(), RunS: b.Run.Seconds(), Preemptions: b.Preemptions, State: b.State,
		})
	}
	return out
}
