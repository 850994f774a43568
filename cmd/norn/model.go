package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/fileio"
	"github.com/norn-scheduler/norn/internal/grid"
	"github.com/norn-scheduler/norn/perf/parallel"
	"github.com/norn-scheduler/norn/trace/planfile"
)

// modelFlags is what norn model was asked.
type modelFlags struct {
	model     parallel.Model
	space     parallel.Space
	gpus      []int
	gpu       []string
	nodeGPUs  int
	between   float64
	memory    float64
	recompute string
	schedule  string
	top       int
	tokens    float64
	price     float64
	speeds    string
	name      string
	asJSON    bool
	asCSV     bool
}

func modelCommand() *cobra.Command {
	var f modelFlags
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Tell how long an iteration of a large language model takes, and its best parallel plan",
		Long: `Model simulates one iteration of a transformer for every way to split it over GPUs: tensor,
data and pipeline ranks, size of micro-batches, with and without recomputation. It lists the
fastest plans that fit into the memory of the GPUs. It follows vTrain (MICRO 2024).

ITERATION is the time of an iteration. BUBBLE is the part of the pipeline's time in which
ranks wait. MEMORY is that of the GPU that needs most. MFU is what the model needs in FLOPs
over what the GPUs could do. With several numbers of GPUs, the best plan of each is listed.

The program has a profile of the A100. norn model fit makes one from measured iterations,
norn model check compares a profile with them. docs/limits.md says how near estimates come.`,
		Example: `  norn model --layers 48 --hidden 8192 --heads 64 --batch 1536 --gpus 512
  norn model --layers 40 --hidden 6144 --heads 48 --batch 1024 --gpus 64,128,256 --tokens 300e9 --price 2.5
  norn model --layers 105 --hidden 20480 --heads 128 --batch 1920 --gpus 3360 --tensor 8 --data 12 --pipeline 35 --micro-batch 1
  norn model --layers 24 --hidden 2048 --heads 16 --batch 64 --gpus 1,2,4,8 --speeds speeds.json --name gpt-1.3b`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.IntVar(&f.model.Layers, "layers", 0, "layers of the model")
	fl.IntVar(&f.model.Hidden, "hidden", 0, "width of a layer")
	fl.IntVar(&f.model.Heads, "heads", 0, "heads of attention")
	fl.IntVar(&f.model.Sequence, "sequence", 2048, "tokens of a sequence")
	fl.IntVar(&f.model.Vocabulary, "vocabulary", planfile.Vocabulary, "tokens that the model tells apart")
	fl.IntVar(&f.space.GlobalBatch, "batch", 0, "global batch, in sequences")
	fl.IntSliceVar(&f.gpus, "gpus", nil, "numbers of GPUs")
	fl.StringSliceVar(&f.gpu, "gpu", []string{"a100"}, "GPU type: "+strings.Join(planfile.Names(), ", ")+", or the file of a profile; several for --speeds")
	fl.IntVar(&f.nodeGPUs, "node-gpus", 0, "GPUs of a node (default: as in the profile)")
	fl.Float64Var(&f.between, "bandwidth", 0, "link of a node to others, in Gbit/s (default: as in the profile)")
	fl.Float64Var(&f.memory, "memory", 0, "memory of a GPU in GiB (default: as in the profile)")
	fl.IntVar(&f.space.Tensor, "tensor", 0, "tensor-parallel ranks (default: all that are possible)")
	fl.IntVar(&f.space.Data, "data", 0, "data-parallel ranks (default: all that are possible)")
	fl.IntVar(&f.space.Pipeline, "pipeline", 0, "pipeline ranks (default: all that are possible)")
	fl.IntVar(&f.space.MicroBatch, "micro-batch", 0, "sequences of a micro-batch (default: all that are possible, up to 64)")
	fl.StringVar(&f.recompute, "recompute", "auto", "compute activations a second time instead of keeping them: on, off, or auto (both are tried)")
	fl.StringVar(&f.schedule, "schedule", "1f1b", "order in a pipeline: 1f1b or gpipe")
	fl.BoolVar(&f.space.Overlap, "overlap", false, "gradients are exchanged while others are computed")
	fl.IntVar(&f.top, "top", 10, "number of plans to list for one number of GPUs; 0: all")
	fl.Float64Var(&f.tokens, "tokens", 0, "tokens to train with, such as 300e9: adds the days that it takes")
	fl.Float64Var(&f.price, "price", 0, "price of a GPU hour: adds the cost of training with --tokens")
	fl.StringVar(&f.speeds, "speeds", "", "write the iterations per second of the best plans to this file, for norn sim --speeds")
	fl.StringVar(&f.name, "name", "", "with --speeds: name of the jobs that train the model")
	fl.BoolVar(&f.asJSON, "json", false, "write JSON")
	fl.BoolVar(&f.asCSV, "csv", false, "write CSV")
	complete(cmd, map[string]completer{"speeds": files})
	cmd.AddCommand(modelFitCommand(), modelCheckCommand(), modelEnergyCommand())
	return cmd
}

// plan is a row of the result.
type planRow struct {
	GPU         string  `json:"gpu"`
	GPUs        int     `json:"gpus"`
	Tensor      int     `json:"tensor"`
	Data        int     `json:"data"`
	Pipeline    int     `json:"pipeline"`
	MicroBatch  int     `json:"micro_batch"`
	MicroCount  int     `json:"micro_batches"`
	Recompute   bool    `json:"recompute"`
	Iteration   float64 `json:"iteration_s"`
	Passes      float64 `json:"pipeline_s"`
	TensorTime  float64 `json:"tensor_exchange_s"`
	Gradients   float64 `json:"gradient_exchange_s"`
	Bubble      float64 `json:"bubble"`
	Memory      float64 `json:"memory_gib"`
	Fits        bool    `json:"fits"`
	Utilisation float64 `json:"mfu"`
	Days        float64 `json:"days,omitempty"`
	Cost        float64 `json:"cost,omitempty"`
}

func (f *modelFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	var rows []planRow
	dropped := 0
	best := map[string]map[int]parallel.Choice{}
	for _, name := range f.gpu {
		p, err := f.profile(name)
		if err != nil {
			return err
		}
		best[p.GPU] = map[int]parallel.Choice{}
		for _, n := range f.gpus {
			f.space.GPUs = n
			choices, err := p.Search(f.model, f.space)
			if err != nil {
				return fmt.Errorf("%d GPUs: %w", n, err)
			}
			best[p.GPU][n] = choices[0]
			fits := slices.IndexFunc(choices, func(c parallel.Choice) bool { return !c.Fits })
			if fits > 0 {
				dropped += len(choices) - fits
				choices = choices[:fits]
			}
			top := f.top
			if len(f.gpus)*len(f.gpu) > 1 {
				top = 1
			}
			for i, c := range choices {
				if top > 0 && i == top {
					break
				}
				rows = append(rows, f.row(p, c))
			}
		}
	}
	if err := f.write(cmd.OutOrStdout(), widthOf(cmd), rows, dropped); err != nil {
		return err
	}
	if f.speeds == "" {
		return nil
	}
	return f.writeSpeeds(best)
}

// check says what is wrong with the flags, and puts together the space.
func (f *modelFlags) check() error {
	for _, must := range []struct {
		flag  string
		value int
	}{{"layers", f.model.Layers}, {"hidden", f.model.Hidden}, {"heads", f.model.Heads}, {"batch", f.space.GlobalBatch}, {"gpus", len(f.gpus)}} {
		if must.value == 0 {
			return misused("--%s is missing", must.flag)
		}
	}
	switch {
	case f.asJSON && f.asCSV:
		return misused("--json or --csv, not both")
	case (f.speeds == "") != (f.name == ""):
		return misused("--speeds and --name go together: jobs of that name run at these speeds")
	case f.price != 0 && f.tokens == 0:
		return misused("--price needs --tokens, the number of tokens to train with")
	case f.tokens < 0 || f.price < 0 || f.top < 0 || f.space.Tensor < 0 || f.space.Data < 0 || f.space.Pipeline < 0 || f.space.MicroBatch < 0 || f.nodeGPUs < 0 || f.between < 0 || f.memory < 0:
		return misused("write numbers from 0")
	case len(f.gpu) > 1 && f.speeds == "":
		return misused("several GPU types are for --speeds, which norn sim reads; give one --gpu")
	}
	switch f.recompute {
	case "on":
		f.space.Recompute = []bool{true}
	case "off":
		f.space.Recompute = []bool{false}
	case "auto":
	default:
		return misused("--recompute %s: write on, off or auto", f.recompute)
	}
	switch f.schedule {
	case "1f1b":
	case "gpipe":
		f.space.Schedule = parallel.AllForward
	default:
		return misused("--schedule %s: write 1f1b or gpipe", f.schedule)
	}
	return nil
}

// profile is that of a GPU type, with what the flags change.
func (f *modelFlags) profile(name string) (*parallel.Profile, error) {
	p, err := planfile.Open(name)
	if err != nil {
		return nil, err
	}
	if f.nodeGPUs > 0 {
		p.Network.NodeGPUs = f.nodeGPUs
	}
	if f.between > 0 {
		p.Network.Between = f.between * (1 << 30) / 8
	}
	if f.memory > 0 {
		p.Memory = f.memory * (1 << 30)
	}
	return p, nil
}

func (f *modelFlags) row(p *parallel.Profile, c parallel.Choice) planRow {
	r := planRow{GPU: p.GPU, GPUs: c.Plan.GPUs(), Tensor: c.Plan.Tensor, Data: c.Plan.Data, Pipeline: c.Plan.Pipeline, MicroBatch: c.Plan.MicroBatch, MicroCount: c.Plan.MicroBatches(),
		Recompute: c.Plan.Recompute, Iteration: c.Iteration, Passes: c.Pipeline, TensorTime: c.Tensor, Gradients: c.Gradients, Bubble: c.Bubble, Memory: c.Memory / (1 << 30), Fits: c.Fits, Utilisation: c.Utilisation}
	if f.tokens > 0 {
		iterations := math.Ceil(f.tokens / (float64(f.space.GlobalBatch) * float64(f.model.Sequence)))
		r.Days = iterations * c.Iteration / 86400
		r.Cost = r.Days * 24 * float64(r.GPUs) * f.price
	}
	return r
}

// write tells the rows as a table, JSON or CSV.
func (f *modelFlags) write(out io.Writer, width int, rows []planRow, dropped int) error {
	header, cells := f.cells(rows)
	if f.asJSON || f.asCSV {
		return forPrograms(out, f.asJSON, header, cells, rows)
	}
	fmt.Fprintf(out, "%.4g billion parameters, a batch of %d sequences of %d tokens\n\n", f.model.Parameters()/1e9, f.space.GlobalBatch, f.model.Sequence)
	if err := planTable(header, cells).Write(out, width); err != nil {
		return err
	}
	if dropped > 0 {
		_, err := fmt.Fprintf(out, "\n%s more, left out: they do not fit into the memory of the GPU.\n", unit.Count(dropped, "plan"))
		return err
	}
	for _, r := range rows {
		if !r.Fits {
			_, err := fmt.Fprintf(out, "\nNo plan for %d GPUs fits into the memory of the GPU.\n", r.GPUs)
			return err
		}
	}
	return nil
}

// forPrograms writes rows as JSON, or else as CSV.
func forPrograms(out io.Writer, asJSON bool, header []string, cells [][]string, rows any) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(rows)
	}
	w := csv.NewWriter(out)
	_ = w.Write(header) // Flush's error is that of all
	_ = w.WriteAll(cells)
	return w.Error()
}

// planTable is a table whose header is in capitals.
func planTable(header []string, cells [][]string) *grid.Table {
	var t grid.Table
	for _, h := range header {
		t.Cols = append(t.Cols, grid.Column{Title: strings.ToUpper(strings.ReplaceAll(h, "_", "-")), Right: true})
	}
	for _, c := range cells {
		t.Add(c...)
	}
	return &t
}

func (f *modelFlags) cells(rows []planRow) (header []string, cells [][]string) {
	header = []string{"gpus", "tensor", "data", "pipe", "micro", "recompute", "iteration_s", "bubble", "memory_gib", "fits", "mfu"}
	if f.tokens > 0 {
		header = append(header, "days")
	}
	if f.price > 0 {
		header = append(header, "cost")
	}
	for _, r := range rows {
		line := []string{strconv.Itoa(r.GPUs), strconv.Itoa(r.Tensor), strconv.Itoa(r.Data), strconv.Itoa(r.Pipeline), strconv.Itoa(r.MicroBatch), yes(r.Recompute),
			strconv.FormatFloat(r.Iteration, 'f', 4, 64), strconv.FormatFloat(r.Bubble, 'f', 3, 64), strconv.FormatFloat(r.Memory, 'f', 1, 64), yes(r.Fits), strconv.FormatFloat(r.Utilisation, 'f', 3, 64)}
		if f.tokens > 0 {
			line = append(line, strconv.FormatFloat(r.Days, 'f', 1, 64))
		}
		if f.price > 0 {
			line = append(line, strconv.FormatFloat(r.Cost, 'f', 0, 64))
		}
		cells = append(cells, line)
	}
	return header, cells
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// writeSpeeds writes iterations per second by GPU type and number of GPUs, as Gavel
// publishes throughputs; 0 where no plan fits.
func (f *modelFlags) writeSpeeds(best map[string]map[int]parallel.Choice) error {
	all := speedTable{}
	for gpu, of := range best {
		for n, c := range of {
			rate := 0.0
			if c.Fits {
				rate = 1 / c.Iteration
			}
			all.add(gpu, f.name, n, rate)
		}
	}
	return fileio.Create(f.speeds, func(w io.Writer) error { return json.NewEncoder(w).Encode(all) })
}
