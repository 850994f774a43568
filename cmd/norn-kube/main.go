// Command norn-kube schedules a Kubernetes cluster with the policies of Norn. norn kube
// starts it from beside itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/live/planner"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == planner.Verb { // a what-if
		os.Exit(planner.Main(os.Args[2]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, out, errOut io.Writer) int {
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	called, err := cmd.ExecuteContextC(ctx)
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return 0
	case errors.Is(err, errFound):
		return 1
	case errors.As(err, new(*misuse)):
		fmt.Fprintf(errOut, "%s: %v\n%s --help says more.\n", called.CommandPath(), err, called.CommandPath())
		return 2
	}
	fmt.Fprintf(errOut, "%s: %v\n", called.CommandPath(), err)
	return 1
}

// misuse is the error of a command line that makes no sense.
type misuse struct{ text string }

func (m *misuse) Error() string { return m.text }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use: "norn-kube", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "norn kube"}, Short: "Schedule a Kubernetes cluster with the policies of Norn",
		Long: `Norn-kube decides about Jobs, pods and gangs of pods of a Kubernetes cluster, by any of the
policies of norn. It writes its decisions to the API of the cluster, where the next
norn-kube finds it again. norn kube starts it, too.`,
		SilenceUsage: true, SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &misuse{fmt.Sprintf("there is no verb %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &misuse{err.Error()} })
	cmd.AddCommand(upCommand(), runCommand(), manifestsCommand(), checkCommand(), uninstallCommand())
	return cmd
}
