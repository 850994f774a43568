package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/report/plot/draw"
	"github.com/norn-scheduler/norn/sim/dag"
)

// trainFlags is what norn train decima was asked.
type trainFlags struct {
	out, templates, gap string
	curve               string // file of the drawing
	hours               float64
	quiet               bool
	t                   dag.Training
}

func trainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Train the policies that learn",
		Long: `Train makes the weights of policies that learn, in the simulator that norn sim runs them
in. decima is the only one so far.`,
		Example: `  norn train decima --out weights.json --hours 2`,
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(trainDecimaCommand())
	return cmd
}

func trainDecimaCommand() *cobra.Command {
	f := trainFlags{t: dag.Training{Options: dag.Defaults()}}
	cmd := &cobra.Command{
		Use:   "decima --out FILE",
		Short: "Train the graph network of decima",
		Long: `Train decima trains the graph network that shares executors among graphs of stages. It
imitates fair sharing first, and goes on by policy gradients, in episodes that grow
longer. Every 20 iterations the network is tried on four sequences of arrivals, and
the best one so far is kept. FILE has the weights and all that is needed to go on: the
same command continues where it ended. Equal seeds give equal weights after as many iterations,
whatever the number of workers.`,
		Example: `  norn train decima --out weights.json --hours 2
  norn train decima --out weights.json --hours 1 --templates tpch_dags.json.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.train(cmd) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.out, "out", "o", "", "file of weights, which is continued where it is there")
	fl.StringVar(&f.templates, "templates", "", "measured queries (tpch_dags.json.gz, as converted from Decima's artifact) instead of those that resemble them")
	fl.StringVar(&f.gap, "gap", "25s", "mean time between arrivals")
	fl.StringVar(&f.curve, "curve", "", "file to draw the curve of learning into: .svg or .pdf")
	fl.Float64Var(&f.hours, "hours", 1, "how long to train now, 0 to draw the curve alone; it also ends when the plan is done")
	fl.Uint64Var(&f.t.Seed, "seed", 0, "equal seeds give equal weights")
	fl.IntVar(&f.t.Executors, "executors", f.t.Executors, "number of executors")
	fl.IntVar(&f.t.Agents, "agents", 8, "runs of each arrival sequence")
	fl.IntVar(&f.t.Workers, "workers", 1, "runs at the same time")
	fl.IntVar(&f.t.Imitate, "imitate", 60, "iterations that imitate")
	fl.IntVar(&f.t.Plan, "iterations", 2000, "iterations by policy gradients, over which episodes grow and entropy falls")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	return cmd
}

func (f *trainFlags) train(cmd *cobra.Command) error {
	if f.out == "" {
		return misused("--out: name the file of weights")
	}
	if f.t.Executors < 1 || f.t.Agents < 2 || f.t.Workers < 1 || f.t.Imitate < 0 || f.t.Plan < 1 || !(f.hours >= 0) {
		return misused("write --executors and --workers of 1 at least, --agents of 2 at least, and --hours of 0 at least")
	}
	var err error
	if f.t.Gap, err = spanFlag("gap", f.gap); err != nil {
		return err
	}
	if f.t.Templates, err = templates(f.templates); err != nil {
		return err
	}
	c, err := readWeights(f.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c = f.t.Start()
	case err != nil:
		return err
	case c.Values == nil:
		return misused("--out %s: has weights, but not what is needed to go on with them", f.out)
	case c.Seed != f.t.Seed:
		return misused("--out %s: was begun with --seed %d", f.out, c.Seed)
	}
	if err := f.advance(cmd, c); err != nil || f.curve == "" {
		return err
	}
	return drawCurve(f.curve, c)
}

// drawCurve draws the curve of learning.
func drawCurve(path string, c *dag.Checkpoint) error {
	if len(c.Curve) == 0 {
		return fmt.Errorf("--curve %s: there are no points yet: there is one every 20 iterations", path)
	}
	format := draw.Format(strings.TrimPrefix(filepath.Ext(path), "."))
	if !format.Known() {
		return misused("--curve %s: write a name that ends in .%s", path, strings.ReplaceAll(draw.Words(draw.Formats()), ", ", ", ."))
	}
	episodes, validated := draw.Line{Look: 0}, draw.Line{Look: 1}
	for _, p := range c.Curve {
		x := float64(p.Iteration)
		episodes.X, episodes.Y = append(episodes.X, x), append(episodes.Y, p.Relative)
		validated.X, validated.Y = append(validated.X, x), append(validated.Y, p.Validated)
	}
	chart := draw.Chart{
		Panels: []draw.Panel{{X: draw.Axis{Title: "iteration"}, Y: draw.Axis{Title: "mean JCT, relative to fair"}, Lines: []draw.Line{episodes, validated}, Rules: []float64{1}}},
		Keys:   []draw.Key{{Name: "in episodes, drawn", Look: 0}, {Name: "in validation, best choice", Look: 1}},
	}
	return fileio.CreateWhole(path, func(w io.Writer) error { return chart.Write(w, format, draw.Style{}) })
}

// advance trains until the time is over.
func (f *trainFlags) advance(cmd *cobra.Command, c *dag.Checkpoint) error {
	begin, before := time.Now(), c.Hours
	save := func() error {
		return fileio.CreateWhole(f.out, func(w io.Writer) error { return json.NewEncoder(w).Encode(c) })
	}
	sum, n := 0.0, 0
	for c.Iteration < f.t.Imitate+f.t.Plan && time.Since(begin).Hours() < f.hours {
		r, err := f.t.Step(cmd.Context(), c)
		if errors.Is(err, context.Canceled) {
			return errors.Join(save(), err)
		}
		if err != nil {
			return err
		}
		sum, n = sum+r, n+1
		c.Hours = before + time.Since(begin).Hours()
		if c.Iteration%20 != 0 {
			continue
		}
		v, err := f.t.Validate(cmd.Context(), c)
		if err != nil {
			return err
		}
		c.Curve = append(c.Curve, dag.Point{Iteration: c.Iteration, Hours: c.Hours, Relative: sum / float64(n), Validated: v})
		if !f.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "norn: iteration %d of %d, %.2f h: mean JCT beside fair %.3f in episodes, %.3f in validation (best %.3f)\n", c.Iteration, f.t.Imitate+f.t.Plan, c.Hours, sum/float64(n), v, c.Lowest)
		}
		sum, n = 0, 0
		if err := save(); err != nil {
			return err
		}
	}
	return save()
}

// templates are measured queries of a file, or those that resemble them.
func templates(path string) ([]*dag.Template, error) {
	if path == "" {
		return dag.TPCH()
	}
	return dag.OpenTemplates(path)
}

// readWeights reads a checkpoint.
func readWeights(path string) (*dag.Checkpoint, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c, err := dag.ReadCheckpoint(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
