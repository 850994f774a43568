package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api"
)

// deed is a verb that is carried out on jobs.
type deed struct {
	verb   string // as the daemon knows it
	past   string
	states []api.State // of the jobs that it makes sense for, when jobs are selected
}

var (
	cancelDeed  = deed{"cancel", "cancelled", activeStates}
	holdDeed    = deed{"hold", "held", []api.State{api.Waiting}}
	releaseDeed = deed{"release", "released", []api.State{api.Held}}
	requeueDeed = deed{"requeue", "requeued", []api.State{api.Running}}
)

func (s *shell) cancelCommand() *cobra.Command {
	return s.actCommand(cancelDeed, &cobra.Command{
		Short: "End jobs, whether they wait or run",
		Long: `Cancel ends jobs for good. A waiting job leaves the queue. A running job gets SIGTERM
and is killed after its grace time. The number of an array without an index
stands for all of its jobs.

Instead of numbers, flags select among your own jobs. --user and --everyone select
among the jobs of others, if you have the right to.`,
		Example: `  norn cancel 17 18
  norn cancel 20_3
  norn cancel --state waiting --name sweep
  norn cancel --all`,
	})
}

func (s *shell) holdCommand() *cobra.Command {
	return s.actCommand(holdDeed, &cobra.Command{
		Short: "Keep waiting jobs from starting",
		Long: `Hold keeps waiting jobs from starting until you release them. Flags select jobs as
with norn cancel.`,
		Example: `  norn hold 17
  norn hold --name sweep`,
	})
}

func (s *shell) releaseCommand() *cobra.Command {
	return s.actCommand(releaseDeed, &cobra.Command{
		Short: "Let held jobs start",
		Long:  `Release lets held jobs start. Flags select jobs as with norn cancel.`,
		Example: `  norn release 17
  norn release --all`,
	})
}

func (s *shell) requeueCommand() *cobra.Command {
	return s.actCommand(requeueDeed, &cobra.Command{
		Short: "Stop running jobs and let them wait again",
		Long: `Requeue takes running jobs off their GPUs, as a preemption would, and lets them wait
again. A job with a checkpoint goes on from there; any other begins anew. Flags select
jobs as with norn cancel.`,
		Example: `  norn requeue 17
  norn requeue --user ann --state running`,
	})
}

// acting is what a verb on jobs was asked.
type acting struct {
	*shell
	format
	selection
	deed     deed
	all      bool
	everyone bool
	quiet    bool
}

// actCommand makes the verb of a deed.
func (s *shell) actCommand(d deed, cmd *cobra.Command) *cobra.Command {
	f := &acting{shell: s, deed: d}
	cmd.Use = d.verb + " JOB... | --all | --name NAME ..."
	cmd.ValidArgsFunction = s.completeJobsAs(func(st api.State) bool { return slices.Contains(d.states, st) })
	cmd.RunE = s.asked(f.run)
	fl := cmd.Flags()
	fl.BoolVar(&f.all, "all", false, "all your jobs")
	fl.BoolVar(&f.everyone, "everyone", false, "select among the jobs of all users (operators)")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "print only errors")
	f.selection.flags(cmd, s)
	f.format.flags(cmd)
	whereFlags(cmd)
	return cmd
}

func (f *acting) run(cmd *cobra.Command, d daemon, ids []string) error {
	selected := len(ids) == 0
	if selected {
		q, err := f.chosen()
		if err != nil {
			return err
		}
		found, err := d.Jobs(cmd.Context(), q)
		if err != nil {
			return err
		}
		for _, j := range found {
			if slices.Contains(f.deed.states, j.State) {
				ids = append(ids, j.ID)
			}
		}
		if len(ids) == 0 && !f.quiet {
			remark(cmd, "no such job can be %s", f.deed.past)
		}
	} else if !f.empty() || f.all || f.everyone {
		return misused("name jobs or select them with flags, not both")
	}
	return f.carryOut(cmd, d, ids, selected)
}

// chosen is the query for the jobs that flags select: the caller's own, unless
// others are named.
func (f *acting) chosen() (api.Query, error) {
	if f.empty() && !f.all && !f.everyone {
		return api.Query{}, misused("name the jobs: by number, or by flags such as --name, --state or --all")
	}
	if len(f.users) == 0 && !f.everyone {
		f.me = true
	}
	return f.query(f.shell)
}

// deedJSON is what became of one job.
type deedJSON struct {
	Job   string `json:"job"`
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"`
}

// carryOut does it to each job; one that fails does not keep the others from it. Among jobs
// that flags have selected, one that ended meanwhile is no error.
func (f *acting) carryOut(cmd *cobra.Command, d daemon, ids []string, selected bool) error {
	var results []deedJSON
	var first error
	for _, id := range ids {
		err := d.Do(cmd.Context(), f.deed.verb, id)
		if cmd.Context().Err() != nil {
			return err
		}
		r := deedJSON{Job: id, Done: err == nil}
		if err != nil {
			r.Error = err.Error()
		}
		if selected && isConflict(err) {
			if !f.quiet {
				remark(cmd, "%v", err)
			}
			results = append(results, r)
			continue
		}
		if err != nil && first != nil {
			remark(cmd, "%v", first) // the last one is told as that of the program
		}
		if err != nil {
			first = err
		}
		results = append(results, r)
		if err == nil && !f.quiet && f.name == "text" {
			fmt.Fprintf(cmd.OutOrStdout(), "%s job %s\n", f.deed.past, id)
		}
	}
	if f.name == "json" {
		if err := asJSON(cmd.OutOrStdout(), results); err != nil {
			return err
		}
	}
	return first
}

func (s *shell) resizeCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "resize JOB GPUS",
		Short: "Give a running job another number of GPUs",
		Long: `Resize gives a running job another number of GPUs, within the range with which it was
submitted. The job is stopped as for a preemption and goes on at its new size. If that
costs work, norn why tells how much.`,
		Example:           `  norn resize 17 4`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: s.completeFirstJob(func(st api.State) bool { return st == api.Running }),
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, args []string) error {
		gpus, err := strconv.ParseFloat(args[1], 64)
		if err != nil || !(gpus > 0 && gpus <= 10000) {
			return misused("%q is not a number of GPUs: write norn resize %s 2", args[1], args[0])
		}
		if err := d.Resize(cmd.Context(), args[0], api.Resize{GPUs: gpus}); err != nil {
			return err
		}
		if f.name == "json" {
			return asJSON(cmd.OutOrStdout(), []deedJSON{{Job: args[0], Done: true}})
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "resized job %s to %s\n", args[0], gpusOf(gpus))
		return err
	})
	f.flags(cmd)
	whereFlags(cmd)
	return cmd
}

// gpusOf is a number of GPUs in words.
func gpusOf(v float64) string {
	switch v {
	case 0:
		return "no GPU"
	case 1:
		return "1 GPU"
	}
	return trimmed(v) + " GPUs"
}

// isConflict tells whether Norn refused something for how things stand, as with a job that
// has ended.
func isConflict(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Kind == api.Conflict
}
