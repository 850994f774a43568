package local_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
)

// A real training of examples/gnn under policy bytegnn, on two slots of a machine that counts two
// cores. It has the 1.5 that it needs, gives up a half in place while a job is there that gains more
// by it, and has it back afterwards. It runs once, hears of each change, and comes to the same
// loss as one batch after the other, to the last digit.
func TestGNN(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	if runtime.NumCPU() < 2 {
		t.Skip("two processors are divided here")
	}
	python := torchPython(t)
	program, err := filepath.Abs("../examples/gnn/gnn.py")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{program, "--vertices", "2000", "--edges", "20000", "--batches", "150", "--batch", "64"}
	h := newHere(t, "bytegnn", 2, func(o *local.Options) {
		o.Machine.Devices[0].Env, o.Machine.Devices[1].Env = "", ""
		o.Machine.Node.CPU = 2 * unit.One
	})
	h.served()
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
	id := h.submit(api.JobSpec{
		Command: append(append([]string{python}, args...), "--wait", "go", "--remote", "0.005", "--result", "piped.json"), Dir: h.work, GPUs: api.Fixed(1), Kind: "graph", PerGPU: 1.5, Env: env,
	})
	cores := func(want float64) {
		t.Helper()
		until(t, fmt.Sprintf("the training has %v cores", want), func() bool {
			a, err := h.task(id, 1).Allocation(t.Context())
			return err == nil && a.CPUs == want
		})
	}
	h.running(id, 1)
	cores(1.5)
	h.made("heard-1500")
	other := h.submit(api.JobSpec{Command: []string{"sh", "-c", awaits("enough")}, Dir: h.work, GPUs: api.Fixed(1), PerGPU: 1})
	cores(1)
	h.made("heard-1000")
	h.make("enough")
	h.until(other, api.Done)
	cores(1.5)
	h.make("go")
	j := h.until(id, api.Done)
	if j.Run != 1 || j.Progress == nil || !j.Progress.Finished {
		t.Errorf("%+v, %+v", j, j.Progress)
	}
	type figures struct {
		Loss, Accuracy float64
		Batches        int
		Least          int `json:"least_cores"`
		Most           int `json:"most_cores"`
	}
	read := func(text string) (f figures) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return f
	}
	piped := read(h.text("piped.json"))
	if piped.Least != 1000 || piped.Most != 1500 || piped.Batches != 150 || piped.Accuracy < 0.2 {
		t.Errorf("%+v", piped)
	}
	cmd := exec.CommandContext(t.Context(), python, append(args, "--mode", "coupled", "--result", "coupled.json")...)
	cmd.Dir = h.work
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if coupled := read(h.text("coupled.json")); coupled.Loss != piped.Loss || coupled.Accuracy != piped.Accuracy {
		t.Errorf("one after the other %+v, side by side %+v", coupled, piped)
	}
}
