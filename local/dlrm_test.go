package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/local"
)

// torchPython is a Python that has PyTorch; a test without one is skipped.
func torchPython(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("real trainings take a minute: -short")
	}
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)").Run() == nil {
			return name
		}
	}
	t.Skip("PyTorch is missing (Debian: python3-torch)")
	return ""
}

// served has the API of a daemon served for the processes of jobs.
func (h *here) served() {
	h.t.Helper()
	srv, err := server.New(server.Config{Backend: h, Socket: filepath.Join(h.setup.State, "norn.sock"), Operators: func(uint32, string) bool { return true }})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx) }()
	h.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			h.t.Errorf("the API: %v", err)
		}
	})
}

// Six real trainings of examples/dlrm, one by one and then under RMixer on a slot
// and the processors: all end, and each has the same result.
func TestDLRM(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	python := torchPython(t)
	program, err := filepath.Abs("../examples/dlrm/dlrm.py")
	if err != nil {
		t.Fatal(err)
	}
	const trainings = 6
	batch := func(h *here) (results map[string]string, took time.Duration, hosted int) {
		h.served()
		began := time.Now()
		var ids []string
		for i := range trainings {
			model := []string{"widedeep", "deepfm", "din"}[i%3]
			ids = append(ids, h.submit(api.JobSpec{
				Command: []string{python, program, model, "--steps", "20", "--seed", fmt.Sprint(i / 3), "--result", "."}, Dir: h.work, GPUs: api.Fixed(1),
				Name: model, Kind: "recommendation", Model: model, Estimate: 5, CPUEst: 5,
				Env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
			}))
		}
		for _, id := range ids {
			var j api.Job
			for deadline := time.Now().Add(5 * time.Minute); !j.State.Over() && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
				j = h.job(id)
			}
			if j.State != api.Done || j.Progress == nil || !j.Progress.Finished || j.Progress.Quality["auc"] == 0 {
				t.Fatalf("training %s: %+v, %+v", id, j, j.Progress)
			}
			if j.GPUTime == 0 {
				hosted++
			}
		}
		took, results = time.Since(began), map[string]string{}
		files, _ := filepath.Glob(filepath.Join(h.work, "*.json"))
		for _, f := range files {
			results[filepath.Base(f)] = h.text(filepath.Base(f))
		}
		return results, took, hosted
	}
	unseen := func(o *local.Options) { o.Machine.Devices[0].Env = "" } // trainings here never look for a GPU
	want, alone, _ := batch(newHere(t, "fifo", 1, unseen))
	have, together, hosted := batch(newHere(t, "rmixer(gpu-workers=2,cpu-workers=2,beta=2,batch-size=6)", 1, func(o *local.Options) {
		unseen(o)
		withHosts(1, 1)(o)
	}))
	t.Logf("%d trainings: one by one %v, under RMixer %v, %d of them on host devices", trainings, alone.Round(time.Millisecond), together.Round(time.Millisecond), hosted)
	if len(want) != trainings || fmt.Sprint(want) != fmt.Sprint(have) {
		t.Errorf("one by one\n%v\nunder RMixer\n%v", want, have)
	}
	if hosted == 0 || hosted == trainings {
		t.Errorf("%d of %d trainings ran on host devices", hosted, trainings)
	}
	if !strings.Contains(want["din-0.json"], "auc") {
		t.Errorf("%q", want["din-0.json"])
	}
}
