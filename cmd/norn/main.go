// Command norn schedules deep-learning jobs: it replays the history of a
// cluster under any policy and says who waited, who ran, and what it cost.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// A run is short and makes little garbage: collecting it less often halves
	// the time of small runs and bounds large ones all the same.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "norn: interrupted")
		os.Exit(130)
	case errors.Is(err, errQuiet):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "norn:", err)
		os.Exit(1)
	}
}

// errQuiet ends the program with a failure that has been told already.
var errQuiet = errors.New("")

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "norn",
		Short: "One scheduling engine for deep-learning clusters",
		Long: `Norn replays the history of a GPU cluster under any scheduling policy of the
literature, and says with figures and pictures who waited, who ran, and what it
cost.`,
		Example: `  norn sim                                     the built-in trace under a few policies
  norn sim jobs.csv --cluster 16x8:V100 --policy fifo,srtf,tiresias --out results
  norn trace summary jobs.csv
  norn policies tiresias`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetErrPrefix("norn:")
	cmd.AddCommand(simCommand(), traceCommand(), clusterCommand(), policiesCommand(), explainCommand(), versionCommand())
	return cmd
}
