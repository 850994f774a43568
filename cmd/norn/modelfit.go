package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/perf/parallel"
	"github.com/norn-scheduler/norn/trace/planfile"
)

// modelFitFlags is what norn model fit was asked.
type modelFitFlags struct {
	from      string
	gpu       string
	reduces   []string
	rows      string
	recompute bool
	peak      float64
	memory    float64
	out       string
}

func modelFitCommand() *cobra.Command {
	var f modelFitFlags
	cmd := &cobra.Command{
		Use:   "fit MEASURED",
		Short: "Make the profile of a GPU type from measured iterations",
		Long: `Fit finds the times of operators, and the rates by which those of other shapes follow, by
which the simulation comes nearest to measured iterations (CSV, with the columns that vTrain
publishes; docs/formats.md). It starts at a profile that is there (--from). With --rows odd
or even it looks at every second row only, and compares the profile with the other half.`,
		Example: `  norn model fit ground_truth_single.csv --rows odd --all-reduce 'lut/a100_*' --gpu A100 --out a100.json`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", "a100", "profile to start from: "+strings.Join(planfile.Names(), ", ")+", or a file")
	fl.StringVar(&f.gpu, "gpu", "", "name of the GPU type (default: as in --from)")
	fl.StringArrayVar(&f.reduces, "all-reduce", nil, "measured all-reduces within a node, a file for each number of GPUs; a pattern names several")
	fl.StringVar(&f.rows, "rows", "all", "rows to fit to, counted from 1: all, odd or even")
	fl.BoolVar(&f.recompute, "recompute", false, "the iterations were measured with recomputation, where no column tells")
	fl.Float64Var(&f.peak, "peak", 0, "peak of the GPU in TFLOPS (default: as in --from)")
	fl.Float64Var(&f.memory, "memory", 0, "memory of the GPU in GiB (default: as in --from)")
	fl.StringVarP(&f.out, "out", "o", "", "write the profile to this file")
	complete(cmd, map[string]completer{"out": files, "all-reduce": files, "from": files})
	return cmd
}

func (f *modelFitFlags) run(cmd *cobra.Command, path string) error {
	p, err := f.start()
	if err != nil {
		return err
	}
	all, err := readMeasured(path, f.recompute)
	if err != nil {
		return err
	}
	fitted, held := all, []parallel.Measured(nil)
	switch f.rows {
	case "all":
	case "odd", "even":
		fitted, held = everySecond(all, f.rows == "odd")
	default:
		return misused("--rows %s: write all, odd or even", f.rows)
	}
	if len(fitted) == 0 {
		return fmt.Errorf("%s: has no %s rows", path, f.rows)
	}
	p.Rates = p.FitRates(fitted)
	p.Timed = p.FitOperators(fitted)
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%d shapes of operators were timed.\n\n", len(p.Timed))
	sets := []measuredSet{{f.rows + " rows, fitted", fitted}}
	if len(held) > 0 {
		sets = append(sets, measuredSet{"the other rows", held})
	}
	if err := writeAccuracy(out, widthOf(cmd), p, sets, false); err != nil || f.out == "" {
		return err
	}
	source := fmt.Sprintf("norn model fit %s --rows %s", filepath.Base(path), f.rows)
	return planfile.Write(f.out, p, source)
}

// start is the profile at which the search begins.
func (f *modelFitFlags) start() (*parallel.Profile, error) {
	p, err := planfile.Open(f.from)
	if err != nil {
		return nil, err
	}
	if f.gpu != "" {
		p.GPU = f.gpu
	}
	if f.peak > 0 {
		p.Peak = f.peak * 1e12
	}
	if f.memory > 0 {
		p.Memory = f.memory * (1 << 30)
	}
	if len(f.reduces) > 0 {
		p.Network.Measured = nil
	}
	for _, pattern := range f.reduces {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			return nil, misused("--all-reduce %s: there is no such file", pattern)
		}
		for _, path := range paths {
			if err := planfile.ReadAllReduce(path, p); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// everySecond divides rows, counted from 1, into those of odd number and the others, or the
// other way round.
func everySecond(all []parallel.Measured, odd bool) (one, other []parallel.Measured) {
	for i, m := range all {
		if (i%2 == 0) == odd {
			one = append(one, m)
		} else {
			other = append(other, m)
		}
	}
	return one, other
}

// readMeasured reads measured iterations. With again all were measured with recomputation.
func readMeasured(path string, again bool) ([]parallel.Measured, error) {
	all, err := planfile.ReadMeasured(path)
	for i := range all {
		all[i].Plan.Recompute = all[i].Plan.Recompute || again
	}
	return all, err
}

func modelCheckCommand() *cobra.Command {
	var gpu string
	var again, asJSON bool
	cmd := &cobra.Command{
		Use:   "check MEASURED",
		Short: "Compare a profile with measured iterations",
		Long: `Check estimates every measured iteration (CSV, with the columns that vTrain publishes;
docs/formats.md) by a profile. It tells the mean and the largest of the relative errors, and
the rank correlation, of all rows and of each model.`,
		Example: `  norn model check ground_truth_multi.csv --recompute
  norn model check mine.csv --gpu profile.json --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := planfile.Open(gpu)
			if err != nil {
				return err
			}
			all, err := readMeasured(args[0], again)
			if err != nil {
				return err
			}
			return writeAccuracy(cmd.OutOrStdout(), widthOf(cmd), p, byModel(all), asJSON)
		},
	}
	cmd.Flags().StringVar(&gpu, "gpu", "a100", "GPU type: "+strings.Join(planfile.Names(), ", ")+", or the file of a profile")
	cmd.Flags().BoolVar(&again, "recompute", false, "the iterations were measured with recomputation, where no column tells")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// measuredSet is measured iterations that are looked at together.
type measuredSet struct {
	name string
	rows []parallel.Measured
}

// byModel is all rows, and then those of each model, in the order in which models come.
func byModel(all []parallel.Measured) []measuredSet {
	sets := []measuredSet{{"all", all}}
	at := map[parallel.Model]int{}
	for _, m := range all {
		k, known := at[m.Model]
		if !known {
			k = len(sets)
			at[m.Model] = k
			sets = append(sets, measuredSet{name: fmt.Sprintf("%.3gB, %d layers", m.Model.Parameters()/1e9, m.Model.Layers)})
		}
		sets[k].rows = append(sets[k].rows, m)
	}
	if len(sets) == 2 {
		sets = sets[:1]
	}
	return sets
}

// accuracyRow is how near a profile comes to some rows.
type accuracyRow struct {
	Rows  string   `json:"rows"`
	Count int      `json:"count"`
	Mean  float64  `json:"mean_error"`
	Worst float64  `json:"largest_error"`
	Rank  *float64 `json:"rank_correlation"` // null for fewer than two rows
}

func writeAccuracy(out io.Writer, width int, p *parallel.Profile, sets []measuredSet, asJSON bool) error {
	var rows []accuracyRow
	var cells [][]string
	for _, s := range sets {
		a, err := p.Accuracy(s.rows)
		if err != nil {
			return err
		}
		r := accuracyRow{Rows: s.name, Count: a.Rows, Mean: a.Mean, Worst: a.Worst}
		rank := "-"
		if !math.IsNaN(a.Rank) {
			r.Rank, rank = &a.Rank, strconv.FormatFloat(a.Rank, 'f', 4, 64)
		}
		rows = append(rows, r)
		cells = append(cells, []string{s.name, strconv.Itoa(a.Rows), fmt.Sprintf("%.1f%%", 100*a.Mean), fmt.Sprintf("%.1f%%", 100*a.Worst), rank})
	}
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(rows)
	}
	t := planTable([]string{"measured", "rows", "mean_error", "largest_error", "rank_correlation"}, cells)
	t.Cols[0].Right = false
	return t.Write(out, width)
}
