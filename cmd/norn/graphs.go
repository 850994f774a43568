package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/policy/stages"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/sim/dag"
)

// graphFlags are the flags of norn sim that are of traces of graphs of stages alone.
type graphFlags struct {
	executors       int
	moving, weights string
}

func (g *graphFlags) add(f *pflag.FlagSet) {
	o := dag.Defaults()
	f.IntVar(&g.executors, "executors", o.Executors, "a trace of graphs of stages: number of executors")
	f.StringVar(&g.moving, "moving", "2s", "a trace of graphs of stages: how long an executor takes to move to another job")
	f.StringVar(&g.weights, "weights", "", "a trace of graphs of stages: weights of decima, from norn train decima (default: those that norn comes with)")
}

// options are what a run is made with.
func (g *graphFlags) options(seed uint64) (dag.Options, error) {
	o := dag.Defaults()
	var err error
	if o.Moving, err = spanFlag("moving", g.moving); err != nil {
		return o, err
	}
	if o.Executors, o.Seed = g.executors, seed; o.Executors < 1 || o.Executors > 10_000 {
		return o, misused("--executors %d: write 1 to 10000", g.executors)
	}
	return o, nil
}

// ofGraphs are the flags that a trace of graphs of stages knows.
var ofGraphs = []string{"policy", "set", "out", "table", "quiet", "seed", "executors", "moving", "weights"}

// defaultStagePolicies are compared where none is named.
var defaultStagePolicies = []string{"fifo", "fair", "weighted", "decima"}

// runGraphs replays a trace of graphs of stages.
func (f *simFlags) runGraphs(cmd *cobra.Command, path string) error {
	if len(f.seeds) > 1 {
		return misused("--seed: a trace of graphs of stages is run with one seed")
	}
	o, err := f.graphs.options(f.seeds[0])
	if err != nil {
		return err
	}
	choices, policies, err := f.stagePolicies()
	if err != nil {
		return err
	}
	trace, err := dag.Open(path)
	if err != nil {
		return err
	}
	var results []*dag.Summary
	for i, p := range policies {
		name := choices[i].String()
		r, err := dag.Run(cmd.Context(), o, trace, p)
		if err != nil {
			return fmt.Errorf("policy %s: %w", name, err)
		}
		s := r.Summary(name, o)
		results = append(results, s)
		if f.to == nil {
			continue
		}
		if err := f.to.WriteGraphs(name, r, s); err != nil {
			return err
		}
	}
	if !f.quiet && f.format == "text" {
		fmt.Fprintf(cmd.OutOrStdout(), "%s of stages, on %s; a move to another job takes %s\n\n", unit.Count(len(trace), "graph"), unit.Count(o.Executors, "executor"), unit.Human(o.Moving))
	}
	return writeGraphed(cmd.OutOrStdout(), f.format, widthOf(cmd), results)
}

// stagePolicies are the policies that were named.
func (f *simFlags) stagePolicies() ([]experiment.Choice, []stages.Policy, error) {
	named := f.policies
	if len(named) == 0 {
		named = defaultStagePolicies
	}
	choices, err := parsed(named, f.settings)
	if err != nil {
		return nil, nil, err
	}
	policies, err := f.graphs.policies(choices)
	return choices, policies, err
}

// policies are the policies of stages that were named.
func (g *graphFlags) policies(choices []experiment.Choice) ([]stages.Policy, error) {
	shipped := dag.Shipped
	if g.weights != "" {
		shipped = func() (*dag.Checkpoint, error) { return readWeights(g.weights) }
	}
	trained, err := shipped()
	if err != nil {
		return nil, fmt.Errorf("--weights: %w", err)
	}
	weights, err := trained.Weights()
	if err != nil {
		return nil, fmt.Errorf("--weights: %w", err)
	}
	policies, err := experiment.StagePolicies(choices, weights)
	if err != nil {
		return nil, misused("--policy %w", err)
	}
	return policies, nil
}

// graphWorld is norn sim on a trace of graphs of stages, for norn reproduce.
func (f *simFlags) graphWorld(ctx context.Context, path string, choices []experiment.Choice, done func(*experiment.Outcome) error) error {
	o, err := f.graphs.options(f.seeds[0])
	if err != nil {
		return err
	}
	policies, err := f.graphs.policies(choices)
	if err != nil {
		return err
	}
	trace, err := dag.Open(path)
	if err != nil {
		return err
	}
	for i, p := range policies {
		r, err := dag.Run(ctx, o, trace, p)
		if err != nil {
			return err
		}
		out := &experiment.Outcome{Choice: choices[i], Result: &report.Result{}}
		out.Result.JCT.Mean = time.Duration(r.Summary("", o).Mean * 1e9)
		if err := done(out); err != nil {
			return err
		}
	}
	return nil
}

// writeGraphed writes the table of results.
func writeGraphed(out io.Writer, format string, width int, all []*dag.Summary) error {
	if format == "json" {
		return writeJSON(out, all)
	}
	titles := []string{"policy", "JCT mean", "p50", "p90", "p99", "ended", "busy", "moves"}
	rows := make([][]string, len(all))
	for i, s := range all {
		seconds := func(v float64) string {
			if format == "csv" {
				return strconv.FormatFloat(v, 'f', -1, 64)
			}
			return unit.Human(time.Duration(v * 1e9).Round(10 * time.Millisecond))
		}
		rows[i] = []string{s.Policy, seconds(s.Mean), seconds(s.P50), seconds(s.P90), seconds(s.P99), seconds(s.Ended), strconv.FormatFloat(100*s.Busy, 'f', 1, 64) + " %", strconv.Itoa(s.Moves)}
	}
	switch format {
	case "csv":
		w := csv.NewWriter(out)
		if err := w.Write([]string{"policy", "jct_mean_s", "jct_p50_s", "jct_p90_s", "jct_p99_s", "ended_s", "busy", "moves"}); err != nil {
			return err
		}
		return w.WriteAll(rows)
	case "markdown":
		fmt.Fprintf(out, "| %s |\n|%s\n", strings.Join(titles, " | "), strings.Repeat(" --- |", len(titles)))
		for _, row := range rows {
			if _, err := fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | ")); err != nil {
				return err
			}
		}
		return nil
	}
	t := grid.Table{Cols: columns(titles...)}
	for _, row := range rows {
		t.Add(row...)
	}
	return t.Write(out, width)
}

// likeTPCH is what a user writes for graphs of stages.
const likeTPCH = "tpch"

// graphLoad are the flags of norn trace generate that are of graphs of stages alone.
type graphLoad struct {
	initial   int
	templates string
}

func (g *graphLoad) add(f *pflag.FlagSet) {
	f.IntVar(&g.initial, "initial", 0, "like tpch: so many of the jobs are there at once")
	f.StringVar(&g.templates, "templates", "", "like tpch: measured queries (tpch_dags.json.gz, as converted from Decima's artifact) instead of those that resemble them")
}

// generateGraphs makes the graphs of --like tpch.
func (g *generateFlags) generateGraphs(cmd *cobra.Command, to string) error {
	all, err := templates(g.graphs.templates)
	if err != nil {
		return err
	}
	gap := 25 * time.Second
	if cmd.Flags().Changed("gap") {
		if gap, err = spanFlag("gap", g.dlrm.gap); err != nil {
			return err
		}
	}
	if g.opt.Jobs == 0 {
		return misused("name the number of jobs: --jobs N")
	}
	jobs, err := (&dag.Workload{Templates: all, Initial: g.graphs.initial, Streamed: g.opt.Jobs - g.graphs.initial, Gap: gap, Seed: g.opt.Seed}).Make()
	if err != nil {
		return misused("--like tpch: %w", err)
	}
	if to == "" {
		return dag.Write(cmd.OutOrStdout(), jobs)
	}
	if filepath.Ext(to) != ".jsonl" {
		return misused("--output %s: graphs of stages are written as .jsonl", to)
	}
	return fileio.CreateWhole(to, func(w io.Writer) error { return dag.Write(w, jobs) })
}

// listStages lists the policies of stages, or the parameters of one.
func listStages(out io.Writer, args []string, asJSON bool) error {
	var all []otherPolicy
	for _, e := range stages.Table(nil) {
		all = append(all, otherPolicy{e.Name, e.About, e.New().Params()})
	}
	return listOthers(out, "stages", "Mao et al., SIGCOMM 2019", all, args, asJSON)
}
