// Command norn schedules deep-learning jobs: it replays the history of a
// cluster under any policy and says who waited, who ran, and what it cost.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/live/planner"
	"github.com/norn-scheduler/norn/local/fidelity"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/local/selftest"
	"github.com/norn-scheduler/norn/policy/param"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == runner.Verb { // what watches over a job, launched by norn up
		os.Exit(runner.Main(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == planner.Verb { // a what-if of norn up
		os.Exit(planner.Main(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == fidelity.Verb { // a job of norn fidelity
		os.Exit(fidelity.Main(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == selftest.Verb { // a job of norn selftest
		os.Exit(selftest.Main(os.Args[2]))
	}
	// A run is short and makes little garbage: collecting it less often halves
	// the time of small runs and bounds large ones all the same.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The exit codes of norn.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// execute runs one command line and returns the exit code. Every failure is told
// in one message.
func execute(ctx context.Context, args []string, out, errOut io.Writer) int {
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	called, err := cmd.ExecuteContextC(ctx)
	return fate(called, err, errOut)
}

// fate tells what an error is, and returns the exit code for it.
func fate(called *cobra.Command, err error, errOut io.Writer) int {
	errOut = &harmless{w: errOut}
	var usage *usageError
	var panicked *engine.PanicError
	var ofJob exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ofJob):
		return int(ofJob)
	case errors.Is(err, errQuiet):
		return exitFailed
	case errors.Is(err, syscall.EPIPE): // whoever read the output has seen enough
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(errOut, "norn: %v\n%s --help says more.\n", err, called.CommandPath())
		return exitUsage
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(errOut, "norn:", strings.Replace(err.Error(), context.Canceled.Error(), "interrupted", 1))
		return exitInterrupted
	case errors.As(err, &panicked):
		fmt.Fprintf(errOut, "norn: %v\nThis is a mistake in the policy, not in your input. NORN_DEBUG=1 shows where it happened.\n", err)
		if os.Getenv("NORN_DEBUG") != "" {
			errOut.Write(panicked.Stack)
		}
		return exitFailed
	}
	fmt.Fprintln(errOut, "norn:", err)
	return exitFailed
}

// errQuiet ends the program with a failure that has been told already.
var errQuiet = errors.New("")

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// misused is the error of a command line that cannot be understood.
func misused(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "norn",
		Short: "One scheduling engine for deep-learning clusters",
		Long: `Norn replays the history of a GPU cluster under scheduling policies of the literature.
It shows with figures and charts which jobs waited, which ran, and at what cost. It also
schedules the jobs of one machine, with norn up.`,
		Example: `  norn sim                                     the built-in trace under a few policies
  norn sim jobs.csv --cluster 16x8:V100 --policy fifo,srtf,tiresias --out results
  norn policies --suggest jobs.csv --cluster 16x8:V100
  norn up                                      share this machine among jobs
  norn docs live                               the guide to that`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetVersionTemplate("norn {{.Version}}\n")
	cmd.AddCommand(simCommand(), sweepCommand(), tuneCommand(), traceCommand(), clusterCommand(), policiesCommand(), policyCommand(), explainCommand(), validateCommand(), reproduceCommand(), plotCommand(), docsCommand(), versionCommand())
	s := theShell()
	cmd.AddCommand(upCommand(), downCommand(s), configCommand())
	cmd.AddCommand(fidelityCommand(), selftestCommand(), kubeCommand(), gateCommand(), modelCommand(), gnnCommand(), trainCommand())
	cmd.AddCommand(s.commands()...)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misused("%w%s", err, nearFlag(flagNames(cmd), err)) })
	arrange(cmd)
	strict(cmd)
	return cmd
}

// strict makes every wrong number of arguments a usage error, and every unknown
// command one that says which command may be meant. A command that does something by
// itself may have commands below it (norn cluster).
func strict(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		strict(c)
	}
	alone := cmd.RunE != nil
	if len(cmd.Commands()) > 0 && (!alone || cmd.Args(cmd, []string{"x"}) != nil) { // it takes nothing but a command
		cmd.Args = unknownCommand
		if !alone {
			cmd.FParseErrWhitelist.UnknownFlags = true // the unknown command is told first
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
		return
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return misused("%w; the usage is %s", err, cmd.UseLine())
			}
			return nil
		}
	}
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return misused("unknown command %q of %s%s", args[0], cmd.CommandPath(), param.Near(args[0], names))
}

// nearFlag says which flag may be meant by one that is not known.
func nearFlag(known []string, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	near := param.Near(unknown.GetSpecifiedName(), known)
	return strings.NewReplacer("mean ", "mean --", " or ", " or --").Replace(near)
}
