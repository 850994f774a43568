package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/experiment/tune"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/policy/param"
)

// tuneFlags is what norn tune was asked, beside what norn sim knows.
type tuneFlags struct {
	simFlags
	trials    int
	objective string
	later     float64
	explain   bool
	json      bool
}

// untuned are the flags of norn sim that are of no use to norn tune.
func untuned() []string {
	return []string{"grow", "baseline", "set", "out", "table", "log", "decisions", "from-summary", "server"}
}

func tuneCommand() *cobra.Command {
	f := &tuneFlags{}
	cmd := f.command()
	cmd.Use = "tune [TRACE]"
	cmd.Short = "Find settings of a policy that are good for the jobs of a trace or log"
	cmd.Long = `Tune simulates a policy with other settings on the earlier jobs of a trace, and tries the best
on the later ones, which were not looked at. A setting stays as it is by default unless it is
worth half a per cent. TRACE may be an event log of norn, so this cluster's own history.

Settings are proposed at random at first, then around the best: numbers by an estimated
gradient, words by weights. A model of what settings do to waits, preemptions and utilisation,
and these to the objective, tells which proposals need not be simulated (AutoSched, ICS 2024).

Settings that you write behind the policy stay: --policy 'tiresias(promote=8)'. The flags about
the trace, the cluster and the world are those of norn sim.`
	cmd.Example = `  norn tune --policy tiresias
  norn tune jobs.csv --cluster 16x8:V100 --policy tiresias --trials 100 --explain
  norn tune results/fifo/events.log.zst --policy maxmin --objective worst-rho
  norn tune jobs.csv --cluster 16x8 --policy 'themis(variant=greedy)' --json`
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.tune(cmd, args) }
	fl := cmd.Flags()
	for _, name := range untuned() {
		if fl.Lookup(name) != nil {
			_ = fl.MarkHidden(name) // it exists
		}
	}
	var names, about []string
	for _, o := range tune.Objectives() {
		names, about = append(names, o.Name), append(about, o.Name+": "+o.Text)
	}
	fl.IntVar(&f.trials, "trials", 40, "simulations")
	fl.StringVar(&f.objective, "objective", names[0], "what is to become less: "+strings.Join(about, "; "))
	fl.Float64Var(&f.later, "later", 0.3, "part of the jobs, the last ones, on which the best settings are tried; 0: none")
	fl.BoolVar(&f.explain, "explain", false, "show all trials, too, and what each changed setting is worth")
	fl.BoolVar(&f.json, "json", false, "print one JSON object")
	complete(cmd, map[string]completer{"objective": words(names...)})
	return cmd
}

func (f *tuneFlags) tune(cmd *cobra.Command, args []string) error {
	defer endInTime(cmd.Context())()
	t, choice, err := f.tuner(cmd, args)
	if err != nil {
		return err
	}
	var made, spared atomic.Int64
	if file, ok := cmd.ErrOrStderr().(*os.File); ok && !f.quiet && !f.json && term.IsTerminal(int(file.Fd())) {
		shown := newStatusLine(file, func(time.Time) string {
			return fmt.Sprintf("%d of %d simulations, %d more were not needed", made.Load(), f.trials, spared.Load())
		})
		defer shown.End()
	}
	t.Told = func(trial *tune.Trial, _ float64) {
		if trial.Measured != nil {
			made.Add(1)
		} else {
			spared.Add(1)
		}
	}
	r, err := t.Search(cmd.Context(), choice)
	if err != nil {
		return err
	}
	if f.json {
		return writeJSON(cmd.OutOrStdout(), tunedJSON(r, t))
	}
	return writeTuned(cmd.OutOrStdout(), r, t, f.explain, widthOf(cmd))
}

// objectiveOf is the objective of a name that a user wrote.
func objectiveOf(name string) (tune.Objective, error) {
	var names []string
	for _, o := range tune.Objectives() {
		if o.Name == name {
			return o, nil
		}
		names = append(names, o.Name)
	}
	return tune.Objective{}, misused("--objective %s: write one of %s%s", name, strings.Join(names, ", "), param.Near(name, names))
}

// tuner checks the flags and reads the jobs.
func (f *tuneFlags) tuner(cmd *cobra.Command, args []string) (*tune.Tuner, experiment.Choice, error) {
	var none experiment.Choice
	for _, name := range untuned() {
		if fl := cmd.Flags().Lookup(name); fl != nil && fl.Changed {
			return nil, none, misused("--%s is a flag of norn sim and not of norn tune", name)
		}
	}
	if f.trials < 1 || f.trials > 100_000 {
		return nil, none, misused("--trials %d: write 1 to 100000", f.trials)
	}
	if !(f.later >= 0 && f.later < 1) {
		return nil, none, misused("--later %v: write a part of the jobs, from 0 to less than 1", f.later)
	}
	objective, err := objectiveOf(f.objective)
	if err != nil {
		return nil, none, err
	}
	t := &tune.Tuner{Trials: f.trials, Seed: f.seeds[0], Objective: objective}
	choices, err := simulated(f.policies, nil)
	if err != nil {
		return nil, none, err
	}
	if len(f.policies) == 0 || len(choices) != 1 {
		return nil, none, misused("name the policy that is to be tuned: --policy tiresias")
	}
	if err := f.words(); err != nil {
		return nil, none, err
	}
	if _, err := f.findCluster(args); err != nil {
		return nil, none, err
	}
	x, src, err := f.opened(cmd, args)
	if err != nil {
		return nil, none, err
	}
	defer src.Close()
	all, err := experiment.ReadAll(src)
	if err != nil {
		return nil, none, err
	}
	if !f.quiet {
		remarks(cmd.ErrOrStderr(), src.Info())
	}
	t.Experiment = x
	t.Jobs, t.Later = tune.Split(all, f.later)
	if len(t.Jobs) == 0 {
		return nil, none, fmt.Errorf("there are no jobs")
	}
	return t, choices[0], nil
}

// writeTuned writes what came of a search.
func writeTuned(out io.Writer, r *tune.Result, t *tune.Tuner, explain bool, width int) error {
	fmt.Fprintln(out, tunedSentence(r, t))
	g := grid.Table{Cols: []grid.Column{{Title: "settings", Least: 20}, {Title: fmt.Sprintf("%d jobs", len(t.Jobs)), Right: true}, {Title: fmt.Sprintf("%d later jobs", len(t.Later)), Right: true}}}
	row := func(c experiment.Choice, a, b *tune.Measure) {
		later := "-"
		if len(t.Later) > 0 {
			later = figure(t, b)
		}
		g.Add(c.String(), figure(t, a), later)
	}
	row(r.Default, &r.Was, &r.LaterWas)
	if r.Best.String() != r.Default.String() {
		row(r.Best, &r.Is, &r.LaterIs)
	}
	fmt.Fprintln(out)
	if err := g.Write(out, width); err != nil {
		return err
	}
	made := r.Simulated()
	fmt.Fprintf(out, "\n%d proposals simulated, %d passed over since a model foretold that they are worse.\n", made, len(r.Trials)-made)
	if !explain {
		return nil
	}
	if len(r.Effects) > 0 {
		fmt.Fprintf(out, "\nWhat each setting is worth: %s with its default.\n\n", t.Objective.Text)
		g := grid.Table{Cols: []grid.Column{{Title: "setting"}, {Title: "without it", Right: true}, {Title: "change", Right: true}}}
		for _, e := range r.Effects {
			g.Add(e.Setting.Name+"="+e.Setting.Value, figure(t, &e.Without), fmt.Sprintf("%+.1f%%", 100*(e.Without.Objective/r.Is.Objective-1)))
		}
		if err := g.Write(out, width); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\nProposals, in their order.\n\n")
	g = grid.Table{Cols: []grid.Column{{Title: "settings", Least: 20}, {Title: "foretold", Right: true}, {Title: t.Objective.Name, Right: true}, {Title: "mean wait", Right: true, Rank: 2}, {Title: "preempt", Right: true, Rank: 1}}}
	for i := range r.Trials {
		x := &r.Trials[i]
		foretold, cells := "-", []string{"passed over", "", ""}
		if x.Foretold > 0 {
			foretold = figure(t, &tune.Measure{Objective: r.Was.Objective / x.Foretold})
		}
		if m := x.Measured; m != nil {
			cells = []string{figure(t, m), unit.Human(timeOf(m.Metrics.Wait)), fmt.Sprint(int(m.Metrics.Preemptions))}
		}
		g.Add(append([]string{x.Choice.String(), foretold}, cells...)...)
	}
	return g.Write(out, width)
}

// tunedSentence is what came of a search in one sentence.
func tunedSentence(r *tune.Result, t *tune.Tuner) string {
	if r.Best.String() == r.Default.String() {
		return fmt.Sprintf("%s: no settings were found under which %s is less.", r.Default, t.Objective.Text)
	}
	text := fmt.Sprintf("%s: %s %s than with the settings that it has", r.Best, t.Objective.Text, lower(r.Gain()))
	gain, some := r.LaterGain()
	switch {
	case !some:
		return text + "; no later jobs were left to try it on."
	case r.LaterIs.Left > r.LaterWas.Left:
		return text + fmt.Sprintf(", but %s more of the later jobs never ended: keep the settings that it has.", strconv.Itoa(r.LaterIs.Left-r.LaterWas.Left))
	case gain <= 0:
		return text + fmt.Sprintf(", but %s on later jobs: keep the settings that it has.", lower(gain))
	}
	return text + fmt.Sprintf(", and %s on later jobs, which were not looked at.", lower(gain))
}

// lower says by how much a figure is less, or more.
func lower(gain float64) string {
	if gain < 0 {
		return fmt.Sprintf("%.0f%% higher", -100*gain)
	}
	return fmt.Sprintf("%.0f%% lower", 100*gain)
}

// figure is an objective as people read it.
func figure(t *tune.Tuner, m *tune.Measure) string {
	if t.Objective.Ratio {
		return fmt.Sprintf("%.2f", m.Objective)
	}
	return unit.Human(timeOf(m.Objective))
}

func timeOf(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// tunedObject is what came of a search, for programs. Objectives are in seconds, or ratios.
type tunedObject struct {
	Objective string        `json:"objective"`
	Default   string        `json:"default"`
	Best      string        `json:"best"`
	Jobs      int           `json:"jobs"`
	Later     int           `json:"later_jobs"`
	Was       float64       `json:"default_objective"`
	Is        float64       `json:"best_objective"`
	LaterWas  *float64      `json:"later_default_objective"` // null where no job is left for that
	LaterIs   *float64      `json:"later_best_objective"`
	Effects   []tunedEffect `json:"effects"`
	Trials    []tunedTrial  `json:"trials"`
}

type tunedEffect struct {
	Setting string  `json:"setting"`
	Without float64 `json:"objective_without"`
}

type tunedTrial struct {
	Policy   string   `json:"policy"`
	Foretold *float64 `json:"foretold_objective"`
	Measured *float64 `json:"objective"` // null: it was not simulated
}

func tunedJSON(r *tune.Result, t *tune.Tuner) tunedObject {
	out := tunedObject{
		Objective: t.Objective.Name, Default: r.Default.String(), Best: r.Best.String(), Jobs: len(t.Jobs), Later: len(t.Later),
		Was: r.Was.Objective, Is: r.Is.Objective, Effects: []tunedEffect{}, Trials: []tunedTrial{},
	}
	if len(t.Later) > 0 {
		out.LaterWas, out.LaterIs = &r.LaterWas.Objective, &r.LaterIs.Objective
	}
	for _, e := range r.Effects {
		out.Effects = append(out.Effects, tunedEffect{e.Setting.Name + "=" + e.Setting.Value, e.Without.Objective})
	}
	for i := range r.Trials {
		x := tunedTrial{Policy: r.Trials[i].Choice.String()}
		if f := r.Trials[i].Foretold; f > 0 {
			v := r.Was.Objective / f
			x.Foretold = &v
		}
		if m := r.Trials[i].Measured; m != nil {
			x.Measured = &m.Objective
		}
		out.Trials = append(out.Trials, x)
	}
	return out
}
