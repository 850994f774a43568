package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/api/client"
)

func (s *shell) logsCommand() *cobra.Command {
	var o client.LogOptions
	cmd := &cobra.Command{
		Use:   "logs JOB",
		Short: "Show the output of a job",
		Long: `Logs shows the output of the last run of a job, with all its tasks in one stream. With
--follow it goes on, through preemptions and restarts, until the job has ended. If the
job has not started yet, it waits for that.`,
		Example: `  norn logs 17
  norn logs 17 -f
  norn logs 17 --tail 50
  norn logs 17 --run 1     before it was preempted`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeFirstJob(anyState),
	}
	cmd.RunE = s.asked(func(cmd *cobra.Command, d daemon, args []string) error {
		switch {
		case o.Run < 0:
			return misused("--run %d: runs are counted from 1", o.Run)
		case o.Tail < -1:
			return misused("--tail %d: write a number of lines, or -1 for all", o.Tail)
		case o.Follow && o.Run == 0:
			return newFollower(cmd.Context(), d, cmd.ErrOrStderr()).show(cmd.Context(), args[0], o.Tail, cmd.OutOrStdout())
		case o.Follow:
			return newFollower(cmd.Context(), d, cmd.ErrOrStderr()).showRun(cmd.Context(), args[0], o.Run, o.Tail, cmd.OutOrStdout())
		}
		in, err := d.Logs(cmd.Context(), args[0], o)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(cmd.OutOrStdout(), in)
		return err
	})
	f := cmd.Flags()
	f.BoolVarP(&o.Follow, "follow", "f", false, "go on until the job has ended")
	f.IntVarP(&o.Tail, "tail", "n", -1, "show only the last so many lines (-1: all)")
	f.IntVar(&o.Run, "run", 0, "show this run, counted from 1 (0: the last one)")
	whereFlags(cmd)
	return cmd
}
