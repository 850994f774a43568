package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/sweep"
)

// sweepFlags is what norn sweep was asked.
type sweepFlags struct {
	out, format string
	atOnce      int
	memory      string
	list, quiet bool
}

func sweepCommand() *cobra.Command {
	f := &sweepFlags{}
	cmd := &cobra.Command{
		Use:   "sweep FILE",
		Short: "Simulate policies times parameters, seeds, loads, traces and clusters",
		Long: `Sweep makes all simulations that a file asks for, side by side on all cores, and compares
policies over seeds: means with 95 % confidence intervals, and paired tests against a
baseline. In the file, a list in place of a value makes runs for each of its entries:

  trace: {like: philly, jobs: 500}     # each seed makes another trace
  cluster: [8x8, 16x8]
  policy:
    - fifo
    - srtf
    - tiresias: {promote: [2, 8]}
  baseline: fifo
  seed: 1-10
  load: [0.8, 1, 1.2]
  estimates: oracle+50%                # and any other flag of norn sim

Each run is kept in the folder of results under a hash of all that it was made from: the
contents of files, the settings, the seed, and the build of norn. A sweep that is
interrupted, or whose file asks for more, makes only what is missing. The folder has
results.csv and results.parquet (a line for each figure of each run) and summary.json
(the comparison). norn docs formats describes them.`,
		Example: `  norn sweep exp.yaml
  norn sweep exp.yaml --list                 how many runs it asks for
  norn sweep exp.yaml --out results --table csv > results.csv`,
		Args: cobra.ExactArgs(1),
		RunE: f.run,
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.out, "out", "o", "", "folder of results, in which runs are kept (default: FILE with .results in place of its ending)")
	fl.StringVar(&f.format, "table", "text", "format of what is printed: text, csv (a line for each figure of each run) or json (the comparison)")
	fl.IntVar(&f.atOnce, "at-once", 0, "simulations at a time (0: as many as there are processors)")
	fl.StringVar(&f.memory, "memory", "", "memory that simulations may take together, as in 8GiB; fewer go on at a time where traces are large (default: four fifths of what is free)")
	fl.BoolVar(&f.list, "list", false, "say how many runs the file asks for and how many are there, and make none")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress and no remarks, only results and errors")
	complete(cmd, map[string]completer{"table": words("text", "csv", "json")})
	return cmd
}

func (f *sweepFlags) run(cmd *cobra.Command, args []string) error {
	defer endInTime(cmd.Context())()
	if !slices.Contains(sweepTables(), f.format) {
		return misused("--table %s: write one of %s", f.format, strings.Join(sweepTables(), ", "))
	}
	memory, err := memoryOf(f.memory)
	if err != nil {
		return err
	}
	if f.atOnce < 0 {
		return misused("--at-once %d: write 0 or more", f.atOnce)
	}
	lab := newLab(filepath.Dir(args[0]), nil)
	plan, err := sweep.Load(args[0], lab.words())
	if err != nil {
		return err
	}
	out := f.out
	if out == "" {
		out = strings.TrimSuffix(args[0], filepath.Ext(args[0])) + ".results"
	}
	s := &sweep.Sweep{Plan: plan, Lab: lab, AtOnce: f.atOnce, Memory: memory}
	if f.list {
		s.Store = &sweep.Store{Path: out} // which is looked at alone, perhaps while it is written
		p, err := s.Count(cmd.Context())
		if err == nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, of which %d are there\n", args[0], unit.Count(p.Total, "run"), p.Done)
		}
		return err
	}
	store, err := sweep.OpenStore(out)
	if err != nil {
		return err
	}
	defer store.Close()
	s.Store = store
	results, err := watched(cmd, s, f.quiet)
	if err != nil && results != nil {
		return fmt.Errorf("%w: %d of %d runs are kept in %s, and the same command makes the others", err, len(results.Runs), len(plan.Worlds())*len(plan.Policies), out)
	}
	if err != nil {
		return err
	}
	if err := store.Write(results); err != nil {
		return err
	}
	if err := printSweep(cmd, results, f.format, f.quiet); err != nil || f.quiet {
		return err
	}
	remark(cmd, "wrote %s, %s and %s", filepath.Join(out, sweep.CSVName), sweep.ParquetName, sweep.SummaryName)
	return nil
}

// sweepTables are the formats in which a sweep is printed.
func sweepTables() []string { return []string{"text", "csv", "json"} }

// watched carries a sweep out, with its progress on a terminal.
func watched(cmd *cobra.Command, s *sweep.Sweep, quiet bool) (*sweep.Results, error) {
	file, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || quiet || !term.IsTerminal(int(file.Fd())) {
		return s.Run(cmd.Context())
	}
	var last atomic.Pointer[sweepState]
	s.Watch = func(p sweep.Progress) { last.Store(&sweepState{p, time.Now()}) }
	line := newStatusLine(file, func(now time.Time) string { return last.Load().line(now) })
	defer line.End()
	return s.Run(cmd.Context())
}

// sweepState is how far a sweep had come at a moment.
type sweepState struct {
	sweep.Progress
	at time.Time
}

// line tells it some time later.
func (s *sweepState) line(now time.Time) string {
	if s == nil {
		return "reading what is to be done"
	}
	text := fmt.Sprintf("%d of %s done", s.Done, unit.Count(s.Total, "run"))
	if s.Kept > 0 {
		text += fmt.Sprintf(" (%d were there)", s.Kept)
	}
	if s.Left > 0 {
		text += ", " + unit.Human(max(time.Second, s.Left-now.Sub(s.at)).Round(time.Second)) + " left"
	}
	return text
}

// printSweep prints what came of a sweep, and what has to be known of it.
func printSweep(cmd *cobra.Command, r *sweep.Results, format string, quiet bool) error {
	if !quiet {
		tellSweep(cmd.ErrOrStderr(), r)
	}
	switch format {
	case "csv":
		return r.WriteCSV(cmd.OutOrStdout())
	case "json":
		return r.WriteJSON(cmd.OutOrStdout())
	}
	return r.WriteText(cmd.OutOrStdout(), widthOf(cmd))
}

// tellSweep tells remarks once: those of other runs, which differ in their numbers alone, are
// left out.
func tellSweep(w io.Writer, r *sweep.Results) {
	var all []told
	seen := map[string]bool{}
	first := func(what, text string) bool {
		key := what + "\x00" + strings.Map(func(c rune) rune {
			if c >= '0' && c <= '9' || c == '.' {
				return -1
			}
			return c
		}, text)
		was := seen[key]
		seen[key] = true
		return !was
	}
	for _, run := range r.Runs {
		name := run.World.Trace.Name
		for _, text := range run.Notes {
			if first(name, text) {
				fmt.Fprintf(w, "norn: %s: %s\n", name, strings.TrimPrefix(text, name+": "))
			}
		}
		for _, text := range run.Remarks {
			if first(run.Choice.String(), text) {
				all = append(all, told{run.Choice.String(), text})
			}
		}
	}
	tell(w, all)
}

// overSeeds simulates several seeds, and compares policies over them.
func (f *simFlags) overSeeds(cmd *cobra.Command, args []string) error {
	for _, not := range []struct {
		flag string
		set  bool
	}{{"--out", f.out != ""}, {"--grow", f.grow != ""}, {"--baseline " + experiment.AsWas, f.baseline == experiment.AsWas}, {"--table markdown", f.format == "markdown"}, {"a trace from standard input", len(args) > 0 && args[0] == "-"}} {
		if not.set {
			return misused("--seed %s: several seeds do not go with %s: name one, or see norn sweep, which keeps what it makes", &f.seeds, not.flag)
		}
	}
	compared, err := f.against()
	if err != nil {
		return err
	}
	plan := &sweep.Plan{Policies: compared, Seeds: f.seeds}
	if f.beside != "" {
		plan.Baseline = slices.IndexFunc(compared, func(c experiment.Choice) bool { return c.String() == f.beside })
	}
	if len(args) > 0 {
		plan.Traces = []sweep.Trace{{Name: args[0], File: args[0]}}
	}
	var fixed []eventlog.Setting
	for _, s := range given(cmd, append(unrecorded(), "seed")) {
		if s.Name == sweep.AxisCluster || s.Name == sweep.AxisLoad {
			plan.Axes = append(plan.Axes, sweep.Axis{Name: s.Name, Values: []string{s.Value}})
		} else {
			fixed = append(fixed, s)
		}
	}
	memory, err := memoryOf("")
	if err != nil {
		return err
	}
	results, err := watched(cmd, &sweep.Sweep{Plan: plan, Lab: newLab(".", fixed), Memory: memory}, f.quiet)
	if err != nil {
		return err
	}
	return printSweep(cmd, results, f.format, f.quiet)
}

// seedList is the value of --seed.
type seedList []uint64

// Set implements pflag.Value.
func (s *seedList) Set(text string) (err error) {
	*s, err = sweep.ParseSeeds(text)
	return err
}

// String implements pflag.Value.
func (s *seedList) String() string {
	parts := make([]string, len(*s))
	for i, n := range *s {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (s *seedList) Type() string { return "seeds" }

// memoryOf is what --memory says: by default, a part of what the machine has left. 0: it is
// not known.
func memoryOf(text string) (int64, error) {
	if text == "" {
		return freeMemory() / 5 * 4, nil
	}
	b, err := unit.ParseBytes(text)
	if err != nil || b <= 0 {
		return 0, misused("--memory %s: write an amount of memory above 0, such as 8GiB", text)
	}
	return int64(b), nil
}

// freeMemory is what Linux says can be had without swapping, no more than the cgroup may have; 0
// where it is not known.
func freeMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	free := int64(0)
	for line := range strings.SplitSeq(string(text), "\n") {
		if n, err := fmt.Sscanf(line, "MemAvailable: %d kB", &free); n == 1 && err == nil {
			free *= 1024
			break
		}
	}
	var limit int64
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := fmt.Sscan(string(text), &limit); n == 1 && err == nil && limit > 0 {
			free = min(free, limit)
		}
	}
	return free
}
