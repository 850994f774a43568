package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/trace/gen"
)

// loansCommand is norn trace loans.
func loansCommand() *cobra.Command {
	var (
		r                         reading
		out, span, every, atLeast string
		idle                      gen.Idle
	)
	day := gen.NewDiurnal()
	cmd := &cobra.Command{
		Use:   "loans [LOG]",
		Short: "Make a file of what the owners of borrowed nodes lend, for norn sim --loans",
		Long: `Loans writes what the owners of borrowed nodes lend, for norn sim --loans.

With a LOG of jobs that tells when they started, it writes when each node of that machine
was idle. Without one it writes the load of an inference cluster, which is low at night;
the nodes of that lender have the label lender=NAME.`,
		Example: `  norn trace loans --span 15d --seed 1 -o load.csv
  norn trace loans data_thetagpu.csv.gz --nodes 24 -o idle.csv`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var write func(io.Writer) error
			if len(args) > 0 {
				if idle.Least, err = spanFlag("least", atLeast); err != nil {
					return err
				}
				src, err := r.open(args[0])
				if err != nil {
					return err
				}
				defer src.Close()
				write = func(to io.Writer) error { return idle.Write(to, src) }
			} else {
				if day.Span, err = spanFlag("span", span); err != nil {
					return err
				}
				if day.Every, err = spanFlag("every", every); err != nil {
					return err
				}
				write = day.Write
			}
			if out == "" || out == "-" {
				return write(cmd.OutOrStdout())
			}
			return fileio.Create(out, write)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "file to write (default: standard output)")
	f.IntVar(&idle.Nodes, "nodes", 24, "with a LOG: nodes of the machine, called n0, n1, ...")
	f.IntVar(&idle.GPUs, "gpus-per-node", 1, "with a LOG: GPUs of a node; jobs take whole nodes")
	f.StringVar(&atLeast, "least", "0s", "with a LOG: leave out nodes that are idle for less")
	f.StringVar(&day.Lender, "lender", day.Lender, "name of the lender")
	f.Float64Var(&day.Low, "low", day.Low, "part of its nodes that the lender uses at the quietest hour")
	f.Float64Var(&day.High, "high", day.High, "the same at the busiest hour")
	f.Float64Var(&day.Noise, "noise", day.Noise, "standard deviation of what comes on top")
	f.StringVar(&span, "span", "15d", "length of the file")
	f.StringVar(&every, "every", "5m", "time from a value to the next")
	f.Uint64Var(&day.Seed, "seed", 0, "equal seeds give equal files")
	r.flags(cmd)
	return cmd
}
