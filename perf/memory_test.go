package perf_test

import (
	"math"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
)

// shaped is a job that tells the shape of its model.
func shaped(t *testing.T, text string, batch, gpus int) *job.Job {
	t.Helper()
	s, err := job.ParseShape(text)
	if err != nil {
		t.Fatal(err)
	}
	d := job.GPUs(gpus)
	return &job.Job{Demand: &d, Batch: batch, Hints: &job.Hints{Shape: s}}
}

// dcn is the model of the worked example of the specification (acceptance 4), as a user
// writes it: 26 slots of 9 and 13 dense fields are 247 numbers wide.
const dcn = "table fields 1000001x9*26; layers deep 247x512x256x128; layers last 466x1; optimizer adam; params 247; kept 2223; once 466"

// The worked example, from the user's own words: 1041.33 MB. A demand and hints go
// before it, and gangs divide the batch.
func TestMemoryOfShape(t *testing.T) {
	j := shaped(t, dcn, 512, 1)
	if mb := float64(perf.MemoryOf(j)) / float64(unit.MiB); math.Round(100*mb) != 104133 {
		t.Errorf("%.3f MiB, want 1041.33", mb)
	}
	if one, four := perf.MemoryOf(j), perf.MemoryOf(shaped(t, dcn, 2048, 4)); one != four {
		t.Errorf("a gang of four with four times the batch takes %v, one %v", four, one)
	}
	want := "takes 1041.33 MiB of the memory of each GPU, estimated from the shapes of its layers with 512 samples a batch: " +
		"36 MiB of parameters, 72 MiB of optimizer state, 160 MiB of activations, 2 MiB of gradients, 34.33 MiB of dense gradients of tables, 2 MiB of input, 735 MiB of CUDA and framework"
	if got := perf.MemoryText(j); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if j.Hints.GPUMemory = 3 * unit.GiB; perf.MemoryOf(j) != 3*unit.GiB || perf.MemoryText(j) != "takes 3GiB of the memory of each GPU, as its hints tell" {
		t.Errorf("%v: %s", perf.MemoryOf(j), perf.MemoryText(j))
	}
	if j.Demand.Roles[0].GPUMemory = 2 * unit.GiB; perf.MemoryOf(j) != 2*unit.GiB || perf.MemoryText(j) != "takes 2GiB of the memory of each GPU, as it asks for" {
		t.Errorf("%v: %s", perf.MemoryOf(j), perf.MemoryText(j))
	}
	plain := job.GPUs(1)
	if got := perf.MemoryText(&job.Job{Demand: &plain}); got != "" {
		t.Errorf("of a job of which nothing is known: %s", got)
	}
}

// The largest shapes and batches that there can be have a memory above 0.
func TestPeakOfLargest(t *testing.T) {
	j := shaped(t, "table 1000000000x100000*1000000000; layers 100000x1000000000; optimizer adam", 1<<40, 1)
	if m := perf.MemoryOf(j); m <= 0 || m > 1<<60 {
		t.Errorf("%d bytes", m)
	}
}

// A job that tells its shape alone demands what the arithmetic of its steps does. Two
// models that only multiply share a GPU at half speed, and one beside one that only looks
// up is nearly as fast as alone. A demand that the job tells goes first.
func TestShapeDemands(t *testing.T) {
	multiplies := func() *job.Job { return shaped(t, "layers 8192x8192x8192; optimizer sgd", 1<<16, 1) }
	looksUp := shaped(t, "table 1000000x64*512; layers 1x1; optimizer sgd; sparse", 1<<16, 1)
	var m perf.Demands
	if f := m.Beside(multiplies(), []*job.Job{multiplies()}, cluster.GPUType{}); f < 0.5 || f > 0.53 {
		t.Errorf("two that multiply run at %v", f)
	}
	if f := m.Beside(multiplies(), []*job.Job{looksUp}, cluster.GPUType{}); f < 0.95 {
		t.Errorf("beside one that looks up it runs at %v", f)
	}
	told := multiplies()
	told.Hints.GPUUse = 0.1
	if f := m.Beside(told, []*job.Job{told}, cluster.GPUType{}); f != 1 {
		t.Errorf("two that tell that they need a tenth run at %v", f)
	}
}

// One step of a layer of 2 x 3 with 4 samples, by hand. There are 6 operations for each
// of 6 weights and 4 samples. Each of 9 parameters is read twice, and three times more
// to be updated, with two numbers of Adam read and written. Outputs are kept twice over.
func TestStepOf(t *testing.T) {
	j := shaped(t, "layers 2x3; optimizer adam", 4, 1)
	got := perf.StepOf(j.Hints.Shape, 4)
	want := perf.Iteration{Flops: 6 * 4 * 6, Memory: 4 * (2*4*2*3 + 2*9 + 9*(3+4))}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !strings.Contains(perf.MemoryText(j), "4 samples") {
		t.Errorf("%s", perf.MemoryText(j))
	}
}
