package fidelity

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/trace"
)

// TestMain lets this program stand in for norn: as a runner, and as a job.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case runner.Verb:
			os.Exit(runner.Main(os.Args[2]))
		case Verb:
			os.Exit(Main(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// separated are jobs between whose moments there is so much time, under FIFO and
// SRTF, that no launch can turn two of them around.
func separated() experiment.Jobs {
	const ms = time.Millisecond
	var out experiment.Jobs
	for i, j := range []struct {
		submit, work time.Duration
		gpus         int
	}{{0, 2000, 2}, {400, 2500, 1}, {800, 800, 1}, {1200, 1000, 2}, {2000, 250, 1}} {
		demand := job.GPUs(j.gpus)
		out = append(out, trace.Entry{
			Job: job.Job{
				ID: job.ID(i), Key: strconv.Itoa(i + 1), Submit: j.submit * ms, Demand: &demand, Tenant: "t", Estimate: j.work * ms,
			},
			Truth: trace.Truth{Work: j.work * ms},
		})
	}
	return out
}

// TestAgreement: of jobs that are well separated every decision is the same live
// and simulated, and they end in the same order.
func TestAgreement(t *testing.T) {
	longtest.Skip(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		policy        string
		mode          job.StopMode
		starts, stops int
	}{
		{"fifo", job.Checkpoint, 5, 0},
		{"srtf", job.Checkpoint, 9, 4},
		{"srtf", job.Freeze, 9, 4},
	} {
		t.Run(c.policy+" "+c.mode.String(), func(t *testing.T) {
			t.Parallel()
			trial := Trial{
				Policy: experiment.Choice{Policy: c.policy}, Jobs: separated(), Factor: 1000, Devices: 2, Stop: c.mode,
				Exe: exe, Dir: t.TempDir(),
			}
			r, err := trial.Run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("mean JCT %v live, %v simulated; start %v, restore %v, checkpoint %v",
				r.Live.MeanJCT, r.Sim.MeanJCT, r.Costs.Start.Mean, r.Costs.Restore.Mean, r.Costs.Checkpoint.Mean)
			if r.Sim.Starts != c.starts || r.Sim.Stops != c.stops {
				t.Errorf("%d starts and %d stops are simulated, want %d and %d", r.Sim.Starts, r.Sim.Stops, c.starts, c.stops)
			}
			if r.Starts != (Matched{Both: c.starts}) || r.Stops != (Matched{Both: c.stops}) || r.InOrder != c.starts+c.stops || len(r.Odd) > 0 {
				t.Errorf("starts %+v, stops %+v, %d in order, odd %v: %+v", r.Starts, r.Stops, r.InOrder, r.Odd, r.Difference)
			}
			if r.Tau != 1 || r.FirstEnd != nil {
				t.Errorf("they end in another order: %v, %+v", r.Tau, r.FirstEnd)
			}
			if r.Costs.Start.N != len(trial.Jobs) || r.Costs.Checkpoint.N != c.stops || r.Costs.Restore.N != c.stops {
				t.Errorf("measured were %d starts, %d checkpoints, %d restores", r.Costs.Start.N, r.Costs.Checkpoint.N, r.Costs.Restore.N)
			}
		})
	}
}

// TestRefusals: what cannot be tried says why.
func TestRefusals(t *testing.T) {
	ctx := context.Background()
	if _, err := (&Trial{Policy: experiment.Choice{Policy: "fifo"}, Stop: job.Restart}).Run(ctx); err == nil {
		t.Error("jobs that lose their work are tried")
	}
	if _, err := (&Trial{Policy: experiment.Choice{Policy: "fofi"}}).Run(ctx); err == nil {
		t.Error("an unknown policy is tried")
	}
}
