package reproduce

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/sim"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/gen"
)

// The world of ONES: its trace on 16 nodes of four GPUs. Jobs train for as long as they ran under
// Tiresias in the run that is shipped, at the size that they ask for. Their samples in a second are
// those of a job in the training history that is shipped. Which of those trains what, follows from
// the sizes of epochs and batches, learning rates and first losses.

// onesSorts are the jobs of the history, by what is trained and the samples of an epoch, and the
// millions of parameters of the models.
var onesSorts = map[string]struct {
	parameters float64
	history    map[string]string
}{
	"resnet50 imagenet":     {25.6, map[string]string{"10000": "17", "20000": "8"}},
	"inception_v3 imagenet": {27.2, map[string]string{"10000": "19", "20000": "9"}},
	"vgg16 imagenet":        {138, map[string]string{"10000": "18", "20000": "7"}},
	"alexnet imagenet":      {61, map[string]string{"10000": "16", "20000": "6"}},
	"resnet18 cifar":        {11.2, map[string]string{"20000": "13", "40000": "3"}},
	"googlenet cifar":       {6.2, map[string]string{"20000": "15", "40000": "5"}},
	"vgg16 cifar":           {15, map[string]string{"20000": "14", "40000": "4"}},
	"bert cola":             {110, map[string]string{"5000": "10", "8000": "10"}},
	"bert mrpc":             {110, map[string]string{"3600": "1"}},
	"bert sst2":             {110, map[string]string{"10000": "12", "20000": "2"}},
}

// Bytes of gradients that are exchanged in a second, on one node and between nodes: by the links of
// the machines, of which NVLink is taken to reach a third. In the history BERT takes 0.31 s for 16
// samples on two GPUs and 0.59 s for 32 on eight, which leaves 0.04 s at most for the exchange.
const (
	onesNear = 25e9
	onesFar  = 12.5e9
)

// onesTrain is the time in seconds of a sample on 1 to 64 GPUs, by the rule of the batch: as many
// samples on each GPU as asked, but no more in all than the learning rate may grow. rate is samples in a
// second on asked GPUs.
func onesTrain(parameters, local, grows, rate float64, asked int) []float64 {
	exchange := func(n int) float64 {
		way := onesNear
		if n > 4 {
			way = onesFar
		}
		return 2 * float64(n-1) / float64(n) * 4e6 * parameters / way
	}
	step := local * float64(asked) / rate
	sample := max(0.2*step, step-exchange(asked)) / local
	var out []float64
	for n := 1; n <= 64; n++ {
		each := local * min(1, grows/float64(n))
		out = append(out, (sample*each+exchange(n))/(each*float64(n)))
	}
	return out
}

// readRows reads a CSV file as one map for each row. Rows may end before the header does.
func readRows(path string) (rows []map[string]string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1
	all, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, fields := range all[1:] {
		row := map[string]string{}
		for i := range min(len(fields), len(all[0])) {
			row[all[0][i]] = fields[i]
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// onesJob is a row of a file. Its first error is kept.
type onesJob struct {
	key   string
	row   map[string]string
	fails *error
}

// number is a field of the row.
func (s onesJob) number(name string) float64 {
	x, err := strconv.ParseFloat(s.row[name], 64)
	if err != nil && *s.fails == nil {
		*s.fails = fmt.Errorf("%s of job %s: %w", name, s.key, err)
	}
	return x
}

// onesHistory is the mean of the samples in a second of each job of the history.
func onesHistory(path string) (map[string]float64, error) {
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	sums, out := map[string][2]float64{}, map[string]float64{}
	for _, row := range rows {
		j := onesJob{key: row["id"], row: row, fails: &err}
		s := sums[row["id"]]
		s[0], s[1] = s[0]+j.number("throughput"), s[1]+1
		sums[row["id"]] = s
		out[row["id"]] = s[0] / s[1]
	}
	return out, err
}

// onesWorld is the first 50 jobs of the trace of ONES, submitted so many times as fast. Jobs scale in
// place at a cost under ones, and by a checkpoint and a restart of a quarter of a minute under others.
func onesWorld(load float64, inPlace time.Duration) World {
	const jobs50, history, lengths = "data/ones/trace_1.csv", "data/ones/job_history.csv", "data/ones/TIRESIAS_profile.csv"
	return World{Needs: []string{jobs50, history, lengths}, Make: func(data string, c experiment.Choice) (*experiment.Experiment, trace.Source, error) {
		rows, err := readRows(filepath.Join(data, filepath.FromSlash(jobs50)))
		if err != nil {
			return nil, nil, err
		}
		of, err := onesHistory(filepath.Join(data, filepath.FromSlash(history)))
		if err != nil {
			return nil, nil, err
		}
		runs, err := readRows(filepath.Join(data, filepath.FromSlash(lengths)))
		if err != nil {
			return nil, nil, err
		}
		x, err := plain("16x4")
		if err != nil {
			return nil, nil, err
		}
		speeds, epochs := curves{}, map[string][2]float64{}
		var jobs []trace.Entry
		for i, row := range rows[:min(len(runs), len(rows))] {
			row["seconds"] = runs[i]["execution_time"]
			e, size, times := onesEntry(i, row, of, load, speeds, &err)
			if c.Policy == "ones" {
				e.Job.Resize = job.InPlace
			}
			epochs[e.Job.Key] = [2]float64{size, times}
			jobs = append(jobs, e)
		}
		x.Model = speeds
		const restart = 15 * time.Second
		x.Costs = &perf.Costs{Base: perf.Cost{Start: 10 * time.Second, Restore: restart, Migrate: restart, Resize: restart, InPlace: inPlace}}
		x.World = func(w *sim.Config) {
			w.Meter = experiment.Losses(gen.QualityMeter{Seed: 1, Epochs: func(j *job.Job) (float64, float64) { return epochs[j.Key][0], epochs[j.Key][1] }})
		}
		return x, trace.FromMemory(jobs), err
	}}
}

// onesEntry is a job of the trace, with the samples and the number of its epochs. The times of
// what it trains are added to speeds.
func onesEntry(i int, row map[string]string, of map[string]float64, load float64, speeds curves, fails *error) (e trace.Entry, size, epochs float64) {
	j := onesJob{key: fmt.Sprint(i), row: row, fails: fails}
	sort := row["model"] + " " + row["task"]
	s := onesSorts[sort]
	rate, known := of[s.history[row["epoch_size"]]]
	if !known {
		*fails = fmt.Errorf("job %d: no job of the history trains %s with epochs of %s samples", i, sort, row["epoch_size"])
		return e, 1, 1
	}
	asked := int(j.number("num_gpus"))
	size = j.number("epoch_size")
	epochs = j.number("seconds") * rate / size
	name := sort + " " + row["epoch_size"]
	if speeds[name] == nil {
		speeds[name] = onesTrain(s.parameters, j.number("batch_size"), math.Round(j.number("max_lr")/j.number("lr")), rate, asked)
	}
	d := job.GPUs(asked)
	d.Roles[0].Min, d.Roles[0].Max = 1, 64
	e = trace.Entry{
		Job:   job.Job{ID: job.ID(i), Key: fmt.Sprintf("job%d", i), Name: sort, Model: name, Submit: time.Duration(j.number("time") / load * float64(time.Second)), Demand: &d},
		Truth: trace.Truth{Work: time.Duration(j.number("seconds") * float64(time.Second))},
	}
	return e, size, epochs
}

// ones: mean completion 214 s, Optimus 453 and Tiresias 502, as shipped for 50 jobs.
func ones() []Study {
	const fits = "optimus(learn=losses)"
	s := Study{
		System: "ones", Name: "trace", CPU: 20, Policy: "ones",
		About: "the first 50 jobs of the authors' trace on 16x4 GPUs, lengths from their run of Tiresias, speeds from their history; 2 s to scale in place, 15 s for a restart",
		Claims: []Claim{
			{Baseline: "optimus", Metric: meanJCT(), Published: exactly(2.12), Tolerance: 0.25, Place: "shipped profiles: 214 s, 453 s"},
			{Baseline: "tiresias", Metric: meanJCT(), Published: atLeast(1 / 0.7), Place: "specification, acceptance 6; 2.35 in the shipped profiles"},
			{Baseline: fits, Metric: meanJCT(), Published: exactly(2.12), Tolerance: 0.25, Place: "shipped profiles: 214 s, 453 s"},
			{Policy: fits, Baseline: "tiresias", Metric: meanJCT(), Published: exactly(1.11), Tolerance: 0.25, Place: "shipped profiles: 453 s, 502 s"},
		},
	}
	for _, load := range []float64{1, 0.98, 1.02} {
		s.Worlds = append(s.Worlds, onesWorld(load, 2*time.Second))
	}
	slow := Study{
		System: "ones", Name: "slow", CPU: 20, Policy: "ones",
		About: "the same, 60 s to scale in place",
		Claims: []Claim{
			{Baseline: "optimus", Metric: meanJCT(), Published: between(0.1, 2.12), Place: "specification, acceptance 6: the gain shrinks"},
		},
	}
	for _, load := range []float64{1, 0.98, 1.02} {
		slow.Worlds = append(slow.Worlds, onesWorld(load, time.Minute))
	}
	return []Study{s, slow}
}
