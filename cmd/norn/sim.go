package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/clusterspec"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/run"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
	"github.com/norn-scheduler/norn/unit"
)

// simFlags is what norn sim was asked.
type simFlags struct {
	reading
	cluster   string
	policies  []string
	settings  []string
	estimates string
	seed      uint64
	out       string
	format    string // of the table
	packing   string // of the event log
	whole     bool
	cost      []string
	spread    float64
	nodeMTBF  string
	repair    string
	jobMTBF   string
	snapshot  string
	quiet     bool
}

func simCommand() *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use:   "sim [TRACE]",
		Short: "Replay a trace under one or several policies and compare them",
		Long: `Sim replays a trace of jobs on a cluster under each policy and prints one table.
Without a TRACE it uses the built-in one, 1,500 jobs of five tenants for a
cluster of 8 nodes with 8 GPUs. With --out it writes for each policy the jobs,
the figures and the event log, and one page with charts, report.html, for all.`,
		Example: `  norn sim
  norn sim jobs.csv --cluster 16x8:V100 --policy fifo,srtf,tiresias
  norn sim philly_jobs.csv.gz --cluster philly --policy tiresias --set tiresias.limits=3600,36000 --out results
  norn sim jobs.csv --cluster cluster.yaml --policy fifo --set fifo.mode=easy --estimates user
  norn sim results/fifo/events.log.zst --cluster 16x8:V100 --policy srtf      what if, on a log`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.simulate(cmd, args) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.cluster, "cluster", "c", "", "cluster: 16x8:V100, a preset, or a file (see norn cluster)")
	fl.StringSliceVarP(&f.policies, "policy", "p", nil, "policies to compare (see norn policies)")
	fl.StringArrayVar(&f.settings, "set", nil, "a parameter of a policy: policy.param=value; may be repeated")
	fl.StringVar(&f.estimates, "estimates", "oracle", "what policies know of run times: oracle, user, history or none, perhaps with an error (oracle+50%)")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of everything random")
	fl.StringVarP(&f.out, "out", "o", "", "folder for jobs.csv, summary.json, the event log and report.html")
	fl.StringVar(&f.format, "table", "text", "format of the table: text, markdown, csv or json")
	fl.StringVar(&f.packing, "log", "zst", "event log in --out: plain, gz, zst or none")
	fl.BoolVar(&f.whole, "whole", false, "ignore the partitions of the cluster: every job may use all of it")
	fl.StringSliceVar(&f.cost, "cost", nil, "what transitions cost: start=10s,checkpoint=5s,restore=20s,migrate=30s,resize=30s")
	fl.Float64Var(&f.spread, "spread", 1, "speed factor of a gang on several nodes, for each step that they are apart in the topology")
	fl.StringVar(&f.nodeMTBF, "node-mtbf", "", "mean time between failures of a node (default: never)")
	fl.StringVar(&f.repair, "repair", "1h", "mean time to repair a node")
	fl.StringVar(&f.jobMTBF, "job-mtbf", "", "mean time between failures of a running job (default: never)")
	fl.StringVar(&f.snapshot, "snapshot", "30m", "how often jobs save their work, for when they fail")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	f.reading.flags(fl)
	_ = cmd.RegisterFlagCompletionFunc("policy", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return policyNames(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func (f *simFlags) simulate(cmd *cobra.Command, args []string) error {
	choices, err := f.choices()
	if err != nil {
		return err
	}
	x, err := f.experiment()
	if err != nil {
		return err
	}
	src, total, err := f.source(args, x)
	if err != nil {
		return err
	}
	if closer, ok := src.(*trace.Reader); ok {
		defer closer.Close()
	}
	if f.out != "" {
		if err := f.prepare(x, choices); err != nil {
			return err
		}
	}
	errOut, isTerminal := cmd.ErrOrStderr(), false
	if file, ok := errOut.(*os.File); ok {
		isTerminal = term.IsTerminal(int(file.Fd()))
	}
	var show *progress
	if isTerminal && !f.quiet {
		show = newProgress(errOut, choices, total)
		x.Watch = show.watch
	}
	outcomes, err := f.run(cmd.Context(), x, choices, src)
	show.end()
	if err != nil {
		return err
	}
	if r, ok := src.(*trace.Reader); ok {
		remarks(errOut, r.Info())
	}
	if err := f.table(cmd, outcomes); err != nil {
		return err
	}
	return f.page(cmd, x, outcomes)
}

func (f *simFlags) run(ctx context.Context, x *run.Experiment, choices []run.Choice, src trace.Source) ([]*run.Outcome, error) {
	var failed error
	outcomes, err := x.All(ctx, choices, src, func(o *run.Outcome) {
		if f.out != "" && failed == nil {
			failed = f.files(o)
		}
		o.State, o.Sim = nil, nil // the figures are enough from here on
	})
	if err == nil {
		err = failed
	}
	return outcomes, err
}

// choices turns --policy and --set into the policies to compare.
func (f *simFlags) choices() ([]run.Choice, error) {
	names := f.policies
	if len(names) == 0 {
		names = []string{"fifo", "srtf", "tiresias"}
	}
	choices := make([]run.Choice, len(names))
	for i, name := range names {
		choices[i].Policy = strings.TrimSpace(name)
	}
	for _, s := range f.settings {
		target, value, ok := strings.Cut(s, "=")
		name, param, dotted := strings.Cut(target, ".")
		if !ok || !dotted {
			return nil, fmt.Errorf("--set %s: write policy.param=value", s)
		}
		used := false
		for i := range choices {
			if choices[i].Policy == name {
				choices[i].Settings = append(choices[i].Settings, run.Setting{Name: param, Value: value})
				used = true
			}
		}
		if !used {
			return nil, fmt.Errorf("--set %s: policy %s is not among those that are run (%s)", s, name, strings.Join(names, ", "))
		}
	}
	for _, c := range choices {
		if _, err := c.Make(); err != nil {
			return nil, err
		}
	}
	return choices, nil
}

// experiment turns the flags about the world into an experiment.
func (f *simFlags) experiment() (*run.Experiment, error) {
	if f.cluster == "" {
		f.cluster = gen.SampleCluster
	}
	spec, err := clusterspec.Load(f.cluster)
	if err != nil {
		return nil, err
	}
	x := &run.Experiment{Spec: spec, Whole: f.whole, Seed: f.seed, Model: perf.Analytic{Scaling: 1, Spread: f.spread}}
	x.Header.Cluster = f.cluster
	if x.Estimate, err = run.ParseEstimate(f.estimates); err != nil {
		return nil, fmt.Errorf("--estimates: %w", err)
	}
	if x.Costs, err = f.costs(); err != nil {
		return nil, err
	}
	x.World, err = f.failures()
	return x, err
}

// costs reads --cost; nil leaves the costs of the cluster.
func (f *simFlags) costs() (*perf.Costs, error) {
	if len(f.cost) == 0 {
		return nil, nil
	}
	c := &perf.Costs{}
	fields := map[string]*time.Duration{
		"start": &c.Base.Start, "checkpoint": &c.Base.Checkpoint, "restore": &c.Base.Restore,
		"migrate": &c.Base.Migrate, "resize": &c.Base.Resize,
	}
	for _, s := range f.cost {
		name, value, _ := strings.Cut(s, "=")
		to := fields[strings.TrimSpace(name)]
		d, err := unit.ParseSeconds(value)
		if to == nil || err != nil || d < 0 {
			return nil, fmt.Errorf("--cost %s: write start, checkpoint, restore, migrate or resize, = and a duration", s)
		}
		*to = d
	}
	return c, nil
}

// failures reads the flags about failures.
func (f *simFlags) failures() (func(*sim.Config), error) {
	var node, repair, job, snapshot time.Duration
	for _, v := range []struct {
		flag, text string
		to         *time.Duration
	}{{"node-mtbf", f.nodeMTBF, &node}, {"repair", f.repair, &repair}, {"job-mtbf", f.jobMTBF, &job}, {"snapshot", f.snapshot, &snapshot}} {
		if v.text == "" {
			continue
		}
		d, err := unit.ParseSeconds(v.text)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("--%s: %q is not a duration", v.flag, v.text)
		}
		*v.to = d
	}
	return func(c *sim.Config) {
		c.NodeMTBF, c.NodeRepair, c.JobMTBF, c.Snapshot = node, repair, job, snapshot
	}, nil
}

// source opens the trace, and says how many jobs it has where that is known.
func (f *simFlags) source(args []string, x *run.Experiment) (trace.Source, int, error) {
	if len(args) == 0 {
		g, err := gen.Sample()
		x.Header.Trace = "built-in sample"
		return g, gen.SampleOptions().Jobs, err
	}
	r, err := f.open(args[0])
	if err != nil {
		return nil, 0, err
	}
	x.Header.Trace = filepath.Base(args[0])
	return r, 0, nil
}

// prepare makes the output folders and says where the event logs go.
func (f *simFlags) prepare(x *run.Experiment, choices []run.Choice) error {
	x.Report = report.Options{Series: true, Intervals: true}
	for _, c := range choices {
		if err := os.MkdirAll(f.folder(c), 0o777); err != nil {
			return err
		}
	}
	ending, packing := "", eventlog.Plain
	switch f.packing {
	case "none":
		return nil
	case "plain":
	case "gz":
		ending, packing = ".gz", eventlog.Gzip
	case "zst":
		ending, packing = ".zst", eventlog.Zstd
	default:
		return fmt.Errorf("--log %s: write plain, gz, zst or none", f.packing)
	}
	x.Log = func(c run.Choice) (run.Log, error) {
		file, err := os.Create(filepath.Join(f.folder(c), "events.log"+ending))
		return run.Log{WriteCloser: file, Compression: packing}, err
	}
	return nil
}

// folder is where the files of a choice go.
func (f *simFlags) folder(c run.Choice) string {
	safe := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) {
			return '_'
		}
		return r
	}, c.String())
	return filepath.Join(f.out, safe)
}

// files writes the files of one choice but the event log.
func (f *simFlags) files(o *run.Outcome) error {
	jobs, err := os.Create(filepath.Join(f.folder(o.Choice), "jobs.csv"))
	if err != nil {
		return err
	}
	defer jobs.Close()
	if err := report.WriteJobs(jobs, o.State); err != nil {
		return err
	}
	summary, err := os.Create(filepath.Join(f.folder(o.Choice), "summary.json"))
	if err != nil {
		return err
	}
	defer summary.Close()
	return o.Result.WriteSummary(summary)
}

func named(outcomes []*run.Outcome) []report.Named {
	var out []report.Named
	for _, o := range outcomes {
		out = append(out, report.Named{Name: o.Choice.String(), Result: o.Result})
	}
	return out
}

func (f *simFlags) table(cmd *cobra.Command, outcomes []*run.Outcome) error {
	t, out := report.Compare(named(outcomes)), cmd.OutOrStdout()
	switch f.format {
	case "text":
		opt := report.TextOptions{Width: 120}
		if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
			opt.Color = os.Getenv("NO_COLOR") == ""
			if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 0 {
				opt.Width = w
			}
		}
		return t.WriteText(out, opt)
	case "markdown":
		return t.WriteMarkdown(out)
	case "csv":
		return t.WriteCSV(out)
	case "json":
		return t.WriteJSON(out)
	}
	return fmt.Errorf("--table %s: write text, markdown, csv or json", f.format)
}

// page writes report.html.
func (f *simFlags) page(cmd *cobra.Command, x *run.Experiment, outcomes []*run.Outcome) error {
	if f.out == "" {
		return nil
	}
	path := filepath.Join(f.out, "report.html")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	meta := report.Meta{
		Title: "Norn: " + x.Header.Trace, Trace: x.Header.Trace, Cluster: x.Header.Cluster,
		Seed: fmt.Sprint(f.seed),
	}
	if err := report.WriteHTML(file, meta, named(outcomes)); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "norn: wrote %s\n", path)
	return nil
}
