package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/experiment/energy"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/perf"
)

// modelEnergyFlags is what norn model energy was asked.
type modelEnergyFlags struct {
	work     energy.Work
	machine  energy.Machine
	gpus     []int
	gpu      string
	deadline string
	cap      float64
	held     bool
	speeds   string
	asJSON   bool
	asCSV    bool
}

func modelEnergyCommand() *cobra.Command {
	var f modelEnergyFlags
	cmd := &cobra.Command{
		Use:   "energy MEASURED",
		Short: "Predict times and energy of training on any number of GPUs, from a few measured steps",
		Long: `Energy reads measured steps (CSV: model, gpu, gpus, nodes, batch, step_s, watts, or the table
that is published with Zeus), fits a model of the time of a step and of the power of a GPU to
them, and tells what training takes on each number of GPUs. Batch is that of each GPU. Three
batches on one GPU and one on two and four GPUs are enough. Where no power was measured, that
of the data sheet of the GPU counts.

With --deadline the number of GPUs that needs least energy and is in time is named, with
--power-cap the fastest that needs no more watts. --held-out fits every other measurement and
says how far off the others are. --speeds writes what norn sim --speeds reads.`,
		Example: `  norn model energy steps.csv --samples 50000 --epochs 90 --batch 128 --gpus 1,2,4,8,16
  norn model energy steps.csv --samples 50000 --batch 128 --gpus 1,2,4,8 --deadline 2h --power-cap 1500
  norn model energy steps.csv --batch 128 --gpus 1,2,4,8 --speeds speeds.json
  norn model energy summary_power_v100.csv --gpu V100 --held-out`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.gpu, "gpu", "V100", "GPU type, where the file does not tell")
	fl.IntVar(&f.work.Samples, "samples", energy.ZeusEpoch, "samples of an epoch")
	fl.Float64Var(&f.work.Epochs, "epochs", 1, "epochs")
	fl.IntVar(&f.work.Batch, "batch", 32, "samples of a step, for each GPU")
	fl.Float64Var(&f.work.Startup, "startup", 30, "seconds before the first step")
	fl.IntSliceVar(&f.gpus, "gpus", []int{1, 2, 4, 8}, "numbers of GPUs")
	fl.IntVar(&f.machine.GPUs, "node-gpus", 8, "GPUs of a node")
	fl.Float64Var(&f.machine.Beside, "node-watts", 8*perf.DrawBesideGPU, "power of a node beside its GPUs")
	fl.Float64Var(&f.machine.PUE, "pue", 1, "watts of the building for each watt of its machines")
	fl.StringVar(&f.deadline, "deadline", "", "name the number of GPUs that needs least energy of those that are in time, such as 2h")
	fl.Float64Var(&f.cap, "power-cap", 0, "name the fastest number of GPUs that needs no more watts")
	fl.BoolVar(&f.held, "held-out", false, "fit every other measurement, and say how far off the others are")
	fl.StringVar(&f.speeds, "speeds", "", "write the steps per second to this file, for norn sim --speeds")
	fl.BoolVar(&f.asJSON, "json", false, "write JSON")
	fl.BoolVar(&f.asCSV, "csv", false, "write CSV")
	complete(cmd, map[string]completer{"speeds": files})
	return cmd
}

// energyRow is a row of the result.
type energyRow struct {
	Model string `json:"model"`
	GPU   string `json:"gpu"`
	energy.Outlook
}

// heldRow is what a fit is off.
type heldRow struct {
	Model    string  `json:"model"`
	GPU      string  `json:"gpu"`
	Fitted   int     `json:"fitted"`
	Held     int     `json:"held_out"`
	Step     float64 `json:"step_error"`
	Watts    float64 `json:"power_error"`
	KWh      float64 `json:"energy_error"`
	Residual float64 `json:"residual"`
}

func (f *modelEnergyFlags) run(cmd *cobra.Command, path string) error {
	if err := f.check(); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	samples, err := energy.Read(file, f.gpu)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.held {
		return f.heldOut(cmd, path, energy.ByModel(samples))
	}
	var fits []*energy.Fit
	for _, of := range energy.ByModel(samples) {
		fit, err := energy.New(of)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		fits = append(fits, fit)
	}
	if err := f.outlook(cmd, fits); err != nil || f.speeds == "" {
		return err
	}
	return f.writeSpeeds(fits)
}

// check says what is wrong with the flags.
func (f *modelEnergyFlags) check() error {
	for _, n := range append([]int{f.work.Samples, f.work.Batch, f.machine.GPUs, len(f.gpus)}, f.gpus...) {
		if n < 1 || n > 1<<30 {
			return misused("--samples, --batch, --node-gpus and --gpus are numbers from 1 to %d", 1<<30)
		}
	}
	switch {
	case f.asJSON && f.asCSV:
		return misused("--json or --csv, not both")
	case !(f.work.Epochs > 0 && f.work.Startup >= 0 && f.machine.Beside >= 0 && f.machine.PUE >= 1 && f.cap >= 0):
		return misused("--epochs above 0; --startup, --node-watts and --power-cap of 0 or more; --pue of 1 or more")
	}
	return nil
}

// outlook tells what training takes on each number of GPUs.
func (f *modelEnergyFlags) outlook(cmd *cobra.Command, fits []*energy.Fit) error {
	var rows []energyRow
	var said []string
	for _, fit := range fits {
		var all []energy.Outlook
		for _, n := range f.gpus {
			o := fit.Of(f.work, n, f.machine)
			all, rows = append(all, o), append(rows, energyRow{fit.Model, fit.GPU, o})
		}
		best, err := f.best(fit, all)
		if err != nil {
			return err
		}
		said = append(said, best...)
		if fit.Told {
			said = append(said, fmt.Sprintf("The power of %s on %s was not measured: it is that of the data sheet.", fit.Model, fit.GPU))
		}
	}
	header := []string{"model", "gpu", "gpus", "nodes", "step_s", "time_s", "speedup", "efficiency", "use", "gpu_w", "watts", "kwh"}
	var cells [][]string
	for _, r := range rows {
		cells = append(cells, []string{r.Model, r.GPU, strconv.Itoa(r.GPUs), strconv.Itoa(r.Nodes), digits(r.Step, 4), digits(r.Time, 0), digits(r.Speedup, 2), digits(r.Efficiency, 3), digits(r.Use, 3), digits(r.Watts, 1), digits(r.Power, 0), digits(r.KWh, 3)})
	}
	if err := f.write(cmd, header, cells, rows); err != nil || f.asJSON || f.asCSV {
		return err
	}
	for _, s := range said {
		fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", s)
	}
	return nil
}

// best are sentences about the numbers of GPUs that were asked for.
func (f *modelEnergyFlags) best(fit *energy.Fit, all []energy.Outlook) (said []string, err error) {
	if f.deadline != "" {
		due, err := unit.ParseSeconds(f.deadline)
		if err != nil || due <= 0 {
			return nil, misused("--deadline: %q is not a duration (write seconds, or 90s, 1h30m, 2d)", f.deadline)
		}
		if o, ok := energy.Least(all, due.Seconds()); ok {
			said = append(said, fmt.Sprintf("%s on %s: in time with least energy on %s (%.3f kWh, %s).", fit.Model, fit.GPU, unit.Count(o.GPUs, "GPU"), o.KWh, unit.Human(time.Duration(o.Time*float64(time.Second)))))
		} else {
			said = append(said, fmt.Sprintf("%s on %s: on none of these numbers of GPUs it is done in %s.", fit.Model, fit.GPU, unit.Human(due)))
		}
	}
	if f.cap > 0 {
		if o, ok := energy.Fastest(all, f.cap); ok {
			said = append(said, fmt.Sprintf("%s on %s: fastest below %g W on %s (%.0f W, %s).", fit.Model, fit.GPU, f.cap, unit.Count(o.GPUs, "GPU"), o.Power, unit.Human(time.Duration(o.Time*float64(time.Second)))))
		} else {
			said = append(said, fmt.Sprintf("%s on %s: each of these numbers of GPUs needs more than %g W.", fit.Model, fit.GPU, f.cap))
		}
	}
	return said, nil
}

// heldOut fits every other measurement, and tells how far off the others are.
func (f *modelEnergyFlags) heldOut(cmd *cobra.Command, path string, all [][]energy.Sample) error {
	var rows []heldRow
	for _, of := range all {
		some, held := energy.Halves(of)
		fit, err := energy.New(some)
		if err != nil {
			return fmt.Errorf("%s: every other measurement: %w", path, err)
		}
		r := heldRow{Model: fit.Model, GPU: fit.GPU, Fitted: len(some), Held: len(held), Residual: fit.Off}
		r.Step, r.Watts, r.KWh = fit.Errors(held)
		rows = append(rows, r)
	}
	header := []string{"model", "gpu", "fitted", "held_out", "step_error", "power_error", "energy_error", "residual"}
	var cells [][]string
	var sum [3]float64
	for _, r := range rows {
		cells = append(cells, []string{r.Model, r.GPU, strconv.Itoa(r.Fitted), strconv.Itoa(r.Held), digits(r.Step, 3), digits(r.Watts, 3), digits(r.KWh, 3), digits(r.Residual, 3)})
		for i, e := range []float64{r.Step, r.Watts, r.KWh} {
			sum[i] += e / float64(len(all))
		}
	}
	if err := f.write(cmd, header, cells, rows); err != nil || f.asJSON || f.asCSV {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "\nOn average over models, steps are %.1f %% off, power %.1f %% and energy %.1f %%.\n", 100*sum[0], 100*sum[1], 100*sum[2])
	return err
}

// write tells rows as a table, JSON or CSV.
func (f *modelEnergyFlags) write(cmd *cobra.Command, header []string, cells [][]string, rows any) error {
	out := cmd.OutOrStdout()
	if f.asJSON || f.asCSV {
		return forPrograms(out, f.asJSON, header, cells, rows)
	}
	t := planTable(header, cells)
	t.Cols[0].Right, t.Cols[1].Right = false, false
	return t.Write(out, widthOf(cmd))
}

// writeSpeeds writes steps per second by GPU type and number of GPUs, for jobs that are called like the
// models.
func (f *modelEnergyFlags) writeSpeeds(fits []*energy.Fit) error {
	all := speedTable{}
	for _, fit := range fits {
		for _, n := range f.gpus {
			all.add(fit.GPU, fit.Model, n, 1/fit.Of(f.work, n, f.machine).Step)
		}
	}
	return fileio.Create(f.speeds, func(w io.Writer) error { return json.NewEncoder(w).Encode(all) })
}

// speedTable is throughputs as Gavel publishes them: GPU type, job and GPUs, "null".
type speedTable map[string]map[string]map[string]float64

func (t speedTable) add(gpu, name string, gpus int, rate float64) {
	gpu = strings.ToLower(gpu)
	if t[gpu] == nil {
		t[gpu] = map[string]map[string]float64{}
	}
	t[gpu][fmt.Sprintf("('%s', %d)", name, gpus)] = map[string]float64{"null": rate}
}

func digits(v float64, n int) string { return strconv.FormatFloat(v, 'f', n, 64) }
