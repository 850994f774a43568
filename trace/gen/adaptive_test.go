package gen

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/trace"
)

// columns reads columns of a CSV file with a header.
func columns(t *testing.T, path string, names ...string) (rows [][]float64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	head, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	for {
		line, err := r.Read()
		if err == io.EOF {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		var row []float64
		for _, name := range names {
			x, err := strconv.ParseFloat(line[slices.Index(head, name)], 64)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, x)
		}
		rows = append(rows, row)
	}
}

// measuredModel is what the profiles of Pollux say of a model: the fit of its step times
// on T4, its batch sizes and its noise, halfway.
func measuredModel(t *testing.T, dir, name string) (perf.Goodput, []perf.Measurement) {
	t.Helper()
	return measuredOn(t, dir, name, "")
}

// measuredOn is the same on another GPU type.
func measuredOn(t *testing.T, dir, name, gpu string) (perf.Goodput, []perf.Measurement) {
	t.Helper()
	if gpu != "" {
		gpu = "-" + gpu
	}
	var g perf.Goodput
	var seen []perf.Measurement
	g.Batches = perf.Batches{LocalMin: math.MaxInt, Accumulate: true}
	for _, row := range columns(t, filepath.Join(dir, name, "placements"+gpu+".csv"), "placement", "local_bsz", "step_time", "sync_time") {
		where := strconv.Itoa(int(row[0]))
		k := 0
		for _, d := range where {
			k += int(d - '0')
		}
		seen = append(seen, perf.Measurement{Replicas: k, Spread: len(where) > 1, Local: int(row[1]), Pass: row[2] - row[3], Step: row[2]})
		g.Batches.LocalMin, g.Batches.LocalMost = min(g.Batches.LocalMin, int(row[1])), max(g.Batches.LocalMost, int(row[1]))
	}
	if name == "yolov3" && gpu == "" { // as in the published code
		g.Batches.LocalMost = 8
	}
	files, err := filepath.Glob(filepath.Join(dir, name, "validation-*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	g.Batches.First = math.MaxInt
	for _, f := range files {
		m, err := strconv.Atoi(strings.TrimSuffix(f[strings.LastIndex(f, "-")+1:], ".csv"))
		if err != nil {
			t.Fatal(err)
		}
		g.Batches.First, g.Batches.Most = min(g.Batches.First, m), max(g.Batches.Most, m)
	}
	var noise []float64
	for _, row := range columns(t, filepath.Join(dir, name, fmt.Sprintf("validation-%d.csv", g.Batches.First)), "grad_sqr", "grad_var") {
		noise = append(noise, row[1]/row[0])
	}
	slices.Sort(noise)
	g.Noise = perf.Noise{Sqr: 1, Var: noise[len(noise)/2]}
	g.Time = perf.Fit(seen)
	return g, seen
}

// The table of models is what the published profiles say.
func TestAdaptiveModelsAreThoseMeasured(t *testing.T) {
	dir := shared.Path(t, "data/pollux_sia/profiles")
	for name, files := range map[string]string{"resnet18": "cifar10", "neumf": "ncf", "deepspeech2": "deepspeech2", "bert": "bert", "yolov3": "yolov3", "resnet50": "imagenet"} {
		i := slices.IndexFunc(adaptiveModels, func(m adaptive) bool { return m.model == name })
		ours := adaptiveModels[i].Goodput
		want, seen := measuredModel(t, dir, files)
		if ours.Batches != want.Batches || math.Abs(ours.Noise.Var/want.Noise.Var-1) > 1e-3 || ours.Noise.Sqr != 1 {
			t.Errorf("%s: %+v, %+v, want %+v, %+v", name, ours.Batches, ours.Noise, want.Batches, want.Noise)
		}
		off, refit := 0.0, 0.0
		for _, m := range seen {
			step := ours.Time.Step(m.Replicas, m.Spread, m.Local)
			off += math.Abs(step/m.Step-1) / float64(len(seen))
			refit = max(refit, math.Abs(step/want.Time.Step(m.Replicas, m.Spread, m.Local)-1))
		}
		if off > 0.095 || refit > 0.01 {
			t.Errorf("%s: steps are %.3f off on average, %.3f at most from a new fit", name, off, refit)
		}
	}
}

// So are those of further GPU types.
func TestAdaptiveTypesAreThoseMeasured(t *testing.T) {
	dir := shared.Path(t, "data/pollux_sia/profiles")
	for gpu, all := range adaptiveTypes {
		if len(all) != len(adaptiveModels) {
			t.Errorf("%s has %d models", gpu, len(all))
		}
		for i, m := range adaptiveModels {
			files := m.also
			if files == "" {
				files = m.model
			}
			ours := m.on(&all[i])
			want, seen := measuredOn(t, dir, files, gpu)
			if all[i].model != m.model || ours.Batches != want.Batches {
				t.Errorf("%s on %s: %+v, want %+v", m.model, gpu, ours.Batches, want.Batches)
			}
			off, refit := 0.0, 0.0
			for _, s := range seen {
				step := ours.Time.Step(s.Replicas, s.Spread, s.Local)
				off += math.Abs(step/s.Step-1) / float64(len(seen))
				refit = max(refit, math.Abs(step/want.Time.Step(s.Replicas, s.Spread, s.Local)-1))
			}
			if off > 0.26 || refit > 0.01 {
				t.Errorf("%s on %s: steps are %.3f off on average, %.3f at most from a new fit", m.model, gpu, off, refit)
			}
		}
	}
}

// noiseOf is the noise over the training that the profiles of Pollux tell, as noises has it.
func noiseOf(t *testing.T, path string, epochs, first int) (all [][2]float64) {
	rows := columns(t, path, "progress", "grad_sqr", "grad_var")[:epochs]
	last := rows[epochs-1][0]
	parts := min(20, epochs)
	for i := range parts {
		a, b := i*epochs/parts, (i+1)*epochs/parts
		from, sqr, vaR := 0.0, 0.0, 0.0
		if a > 0 {
			from = rows[a-1][0] / last
		}
		for _, r := range rows[a:b] {
			sqr, vaR = sqr+r[1], vaR+r[2]
		}
		noise := 1e9
		if sqr > 0 {
			noise = float64(first) * vaR / sqr
		}
		all = append(all, [2]float64{from, noise})
	}
	return all
}

// The noise over a training is what the published profiles say, up to the epochs after
// which the models are done.
func TestNoisesAreThoseMeasured(t *testing.T) {
	dir := shared.Path(t, "data/pollux_sia/profiles")
	done := map[string]int{"resnet18": 100, "neumf": 10, "deepspeech2": 80, "bert": 2, "yolov3": 50, "resnet50": 90}
	for _, m := range adaptiveModels {
		files := m.also
		if files == "" {
			files = m.model
		}
		want := noiseOf(t, filepath.Join(dir, files, fmt.Sprintf("validation-%d.csv", m.Batches.First)), done[m.model], m.Batches.First)
		ours := m.stages()
		if len(ours) != len(want) {
			t.Errorf("%s has %d parts, want %d", m.model, len(ours), len(want))
			continue
		}
		for i, s := range ours {
			if math.Abs(s.From-want[i][0]) > 1e-3 || math.Abs(s.Noise/want[i][1]-1) > 6e-3 {
				t.Errorf("%s: part %d is %+v, want %v", m.model, i, s, want[i])
			}
		}
	}
}

// Jobs get the noise of their model as they go on, and a batch that is tuned for what they
// ask for unless they tell their own.
func TestAdaptiveJobsReport(t *testing.T) {
	four := job.GPUs(4)
	a := AssumedAdaptive{Source: trace.FromMemory([]trace.Entry{
		{Job: job.Job{Key: "a", Model: "bert", Demand: &four}, Truth: trace.Truth{Work: time.Hour}},
		{Job: job.Job{ID: 1, Key: "b", Model: "bert", Batch: 96, Demand: &four}, Truth: trace.Truth{Work: time.Hour, Course: []trace.Turn{{}}}},
	})}
	var e trace.Entry
	if err := a.Next(&e); err != nil {
		t.Fatal(err)
	}
	want := []trace.Turn{{Reported: job.Reported{Noise: 423}}, {From: 30 * time.Minute, Reported: job.Reported{Noise: 1120}}}
	if !slices.Equal(e.Truth.Course, want) || e.Job.Batch != 48 { // which fits in a pass, 12 on each GPU
		t.Errorf("a trains with %d, %+v", e.Job.Batch, e.Truth.Course)
	}
	if err := a.Next(&e); err != nil {
		t.Fatal(err)
	}
	if e.Job.Batch != 96 || len(e.Truth.Course) != 1 {
		t.Errorf("b, which tells both, trains with %d, %+v", e.Job.Batch, e.Truth.Course)
	}
}

// Jobs of whole GPUs train one of six models, by their shares; what they tell stays.
func TestAssumedAdaptive(t *testing.T) {
	four, many, half := job.GPUs(4), job.GPUs(100), job.GPUs(1)
	half.Roles[0].GPU /= 2
	var jobs []trace.Entry
	for i := range 2000 {
		jobs = append(jobs, trace.Entry{Job: job.Job{ID: job.ID(i), Key: strconv.Itoa(i), Demand: &four}})
	}
	jobs[0].Job.Demand, jobs[1].Job.Demand, jobs[2].Job.Model, jobs[3].Job.Model, jobs[4].Job.Name, jobs[5].Job.Name = &half, &many, "ResNet50", "mine", "x", "x"
	a := AssumedAdaptive{Source: trace.FromMemory(jobs), Seed: 1}
	var got []trace.Entry
	for e := (trace.Entry{}); a.Next(&e) == nil; {
		got = append(got, e)
	}
	if a.Jobs != 1997 || got[0].Job.Model != "" || got[1].Job.Demand != &many || got[3].Job.Model != "mine" || got[3].Job.Demand.Elastic() {
		t.Errorf("%d jobs were given a model", a.Jobs)
	}
	if least, most := got[2].Job.Demand.Roles[0].Range(); least != 1 || most != 64 || got[2].Job.Batch != 800 || got[4].Job.Model != got[5].Job.Model {
		t.Errorf("got %+v and %+v", got[2].Job, got[5].Job)
	}
	if a.Others != 0 {
		t.Errorf("%d elastic jobs train other models", a.Others)
	}
	drawn := map[string]float64{}
	for _, e := range got[6:] {
		drawn[e.Job.Model] += 1. / 1994
	}
	speeds := AdaptiveSpeeds()
	for _, m := range adaptiveModels {
		if math.Abs(drawn[m.model]-m.share) > 0.03 {
			t.Errorf("%.3f of the jobs train %s, want %v", drawn[m.model], m.model, m.share)
		}
		if !speeds.Knows(&job.Job{Model: strings.ToUpper(m.model)}) {
			t.Errorf("%s is not known", m.model)
		}
	}
}

// TestAdaptiveNames: the jobs of Pollux' own workloads, which tell their application, train
// its model. An elastic job with another model is counted.
func TestAdaptiveNames(t *testing.T) {
	elastic := job.GPUs(4)
	elastic.Roles[0].Min, elastic.Roles[0].Max = 1, 64
	var jobs []trace.Entry
	for i, name := range []string{"cifar10", "ncf", "deepspeech2", "bert", "yolov3", "ImageNet", "gpt"} {
		jobs = append(jobs, trace.Entry{Job: job.Job{ID: job.ID(i), Key: name, Model: name, Batch: 1, Demand: &elastic}})
	}
	a := AssumedAdaptive{Source: trace.FromMemory(jobs), Seed: 1}
	speeds := AdaptiveSpeeds()
	for e := (trace.Entry{}); a.Next(&e) == nil; {
		if known := speeds.Knows(&e.Job); known != (e.Job.Model != "gpt") || known == (e.Job.Batch == 1) {
			t.Errorf("%s: known %v, batch %d", e.Job.Model, known, e.Job.Batch)
		}
	}
	if a.Jobs != 6 || a.Others != 1 || a.Other != "gpt" {
		t.Errorf("%d jobs, %d others (%s)", a.Jobs, a.Others, a.Other)
	}
}
