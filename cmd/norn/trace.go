package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

func traceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Summarise, generate, convert and fetch job traces",
		Long: `Trace works on job traces. It summarises a trace, generates synthetic ones, converts one
format into another, and fetches published ones. docs/traces.md describes the formats.`,
		Example: `  norn trace summary jobs.csv.gz
  norn trace generate --like philly --jobs 10000 -o jobs.csv
  norn trace convert sacct.txt jobs.jsonl.zst
  norn trace formats`,
	}
	cmd.AddCommand(summaryCommand(), generateCommand(), convertCommand(), loansCommand(), formatsCommand(), fetchCommand())
	return cmd
}

// reading is the flags that say how a trace is read.
type reading struct {
	opt      trace.Options
	from, to string
	attempts string
	stop     string
}

func (r *reading) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.opt.Format, "format", "", "format of the trace (default: recognised by its content; see norn trace formats)")
	f.StringVar(&r.opt.Profile, "profile", "", "file or folder of measured speeds, for traces without run times")
	f.BoolVar(&r.opt.SkipBad, "skip-bad", false, "leave out rows with errors, and count and list them")
	f.BoolVar(&r.opt.Sort, "sort", false, "keep the trace in memory and sort it, if the file is not in order of submission although its format should be")
	f.StringVar(&r.attempts, "attempts", "replay", "failed attempts of a job: replay each, or merge all into one run")
	f.StringVar(&r.stop, "stop", "", "how jobs leave their GPUs that do not tell: checkpoint (default), freeze, restart, never or last-save")
	f.BoolVar(&r.opt.GPUOnly, "gpu-only", false, "leave CPU and memory out of the demands")
	f.BoolVar(&r.opt.AnyType, "any-type", false, "leave GPU types out of the demands")
	f.IntVar(&r.opt.NodeGPUs, "node-gpus", 0, "GPUs per node, for traces that count nodes (0: 1)")
	f.BoolVar(&r.opt.GPUJobs, "gpu-jobs", false, "only jobs that ask for GPUs")
	f.StringSliceVar(&r.opt.Tenants, "tenant", nil, "only jobs of these tenants")
	f.StringVar(&r.from, "from", "", "only jobs submitted at or after this moment: seconds, 1d12h, or 2017-10-01")
	f.StringVar(&r.to, "to", "", "only jobs submitted before this moment")
	f.IntVar(&r.opt.Limit, "limit", 0, "at most so many jobs (0: all)")
	f.Float64Var(&r.opt.Load, "load", 0, "factor on the arrival rate of jobs (0: as in the trace)")
	complete(cmd, map[string]completer{"format": words(formatNames()...), "attempts": words("replay", "merge"), "stop": words(stopModes...)})
}

func (r *reading) options() (trace.Options, error) {
	opt := r.opt
	opt.SomeJob = true
	switch r.attempts {
	case "replay":
	case "merge":
		opt.Merge = true
	default:
		return opt, misused("--attempts %s: write replay or merge", r.attempts)
	}
	var ok bool
	if opt.Stop, ok = job.ParseStopMode(r.stop); !ok {
		return opt, misused("--stop %s: write one of %s", r.stop, strings.Join(stopModes, ", "))
	}
	var err error
	if opt.From, opt.FromTime, err = moment(r.from); err != nil {
		return opt, misused("--from: %w", err)
	}
	if opt.To, opt.ToTime, err = moment(r.to); err != nil {
		return opt, misused("--to: %w", err)
	}
	if err := opt.Check(); err != nil {
		return opt, misused("%w", err)
	}
	return opt, nil
}

// moment reads a time of day or a time since the start of a trace.
func moment(s string) (time.Duration, time.Time, error) {
	if s == "" {
		return 0, time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return 0, t, nil
		}
	}
	d, err := unit.ParseSeconds(s)
	if err != nil || d < 0 {
		return 0, time.Time{}, fmt.Errorf("%q is not a moment: write seconds or 1d12h since the start, or a time of day such as 2017-10-01 or 2017-10-01 08:00:00", s)
	}
	return d, time.Time{}, nil
}

func (r *reading) open(path string) (*trace.Reader, error) {
	opt, err := r.options()
	if err != nil {
		return nil, err
	}
	return experiment.OpenTrace(path, opt)
}

// remarks tells what a reader assumed and left out.
func remarks(w io.Writer, info trace.Info) {
	if info.Nominal != "" {
		fmt.Fprintf(w, "norn: %s has no run times; they are taken from %s\n", info.File, info.Nominal)
	}
	for _, note := range info.Notes {
		fmt.Fprintf(w, "norn: %s: %s\n", info.File, note)
	}
	if len(info.Ignored) > 0 {
		fmt.Fprintf(w, "norn: %s: columns that are not used: %s\n", info.File, few(info.Ignored))
	}
	var why []string
	if info.LeftOut > 0 {
		why = append(why, fmt.Sprintf("%d because they are no jobs that ran", info.LeftOut))
	}
	if info.Bad > 0 {
		why = append(why, fmt.Sprintf("%d because of errors", info.Bad))
	}
	if len(why) == 0 {
		return
	}
	fmt.Fprintf(w, "norn: %s: of %s, some were left out, %s:\n", info.File, unit.CountOrNo(info.Rows, "row"), strings.Join(why, " and "))
	for _, r := range info.Reasons {
		if r.Rows == 1 {
			fmt.Fprintf(w, "  %v\n", r.First)
			continue
		}
		fmt.Fprintf(w, "  %s: %s; the first: %v\n", unit.Count(r.Rows, "row"), r.Why, r.First)
	}
}

// few is the first of a list that may be long.
func few(list []string) string {
	const most = 8
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

func summaryCommand() *cobra.Command {
	var r reading
	asJSON := false
	cmd := &cobra.Command{
		Use:   "summary FILE",
		Short: "Summarise a trace: jobs, sizes, run times, load, tenants",
		Long: `Summary reads a trace to its end. It shows the number of jobs, the time span, the sizes
and run times of the jobs, the load, and the tenants. FILE may be packed with gzip or
zstd; "-" is standard input.`,
		Example: `  norn trace summary jobs.csv.gz
  norn trace summary sacct.txt --skip-bad --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, err := r.open(args[0])
			if err != nil {
				return err
			}
			defer src.Close()
			sum, err := trace.Summarize(src)
			if err != nil {
				return err
			}
			info := src.Info()
			remarks(cmd.ErrOrStderr(), info)
			sum.File = info.Accounts()
			if asJSON {
				return sum.WriteJSON(cmd.OutOrStdout())
			}
			return sum.WriteTable(cmd.OutOrStdout())
		},
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// write writes a trace to a file, or as CSV to standard output.
func write(cmd *cobra.Command, path string, src trace.Source) error {
	var done trace.Written
	var err error
	if path == "" || path == "-" {
		done, err = trace.WriteCSV(cmd.OutOrStdout(), src)
	} else {
		done, err = trace.WriteFile(path, src)
	}
	if err != nil {
		return err
	}
	for _, l := range done.Lost {
		fmt.Fprintf(cmd.ErrOrStderr(), "norn: CSV cannot hold %s (%s); JSON Lines, .jsonl, can\n", l.What, unit.CountOrNo(l.Jobs, "job"))
	}
	if path != "" && path != "-" {
		fmt.Fprintf(cmd.ErrOrStderr(), "norn: wrote %d jobs to %s\n", done.Jobs, path)
	}
	return nil
}

func convertCommand() *cobra.Command {
	var r reading
	cmd := &cobra.Command{
		Use:   "convert FILE OUTPUT",
		Short: "Write a trace, or a part of it, as Norn's CSV or JSON Lines",
		Long: `Convert reads a trace of any known format and writes it in a format of Norn. CSV (.csv)
is easy to read and to write. JSON Lines (.jsonl) hold everything. .gz or .zst behind
the name packs the file. "-" is standard input, or CSV to standard output.`,
		Example: `  norn trace convert sacct.txt jobs.csv
  norn trace convert events.log.zst jobs.jsonl        a log of Norn's own
  norn trace convert philly.csv.gz october.jsonl.zst --from 2017-10-01 --to 2017-11-01`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, err := r.open(args[0])
			if err != nil {
				return err
			}
			defer src.Close()
			if fileio.Same(args[0], args[1]) {
				return misused("%s would be overwritten while it is read: name another file", args[1])
			}
			if err := write(cmd, args[1], src); err != nil {
				return err
			}
			remarks(cmd.ErrOrStderr(), src.Info())
			return nil
		},
	}
	r.flags(cmd)
	return cmd
}

func formatsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "formats",
		Short:   "List the formats of traces that can be read",
		Long:    "Formats lists the formats of traces that norn reads, with their other names. Norn recognises\nthe format of a file by its content; --format names it instead. docs/traces.md lists the fields.",
		Example: "  norn trace formats",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
			for _, f := range append(trace.Formats(), replay.Format()) {
				name := f.Name
				if len(f.Aliases) > 0 {
					name += " (" + strings.Join(f.Aliases, ", ") + ")"
				}
				fmt.Fprintf(w, "%s\t%s\n", name, f.Title)
			}
			return w.Flush()
		},
	}
}
