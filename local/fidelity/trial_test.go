package fidelity

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
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
// SRTF, that no launch can turn two of them around. On a slow machine all times are as
// many times as long.
func separated(slow time.Duration) experiment.Jobs {
	ms := slow * time.Millisecond
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
			// What is well separated on a quiet machine may not be on a busy one, whose jobs are told
			// to save before they can.
			var odd []string
			for _, slow := range []time.Duration{1, 2, 4} {
				trial := Trial{
					Policy: experiment.Choice{Policy: c.policy}, Jobs: separated(slow), Factor: 1000 / float64(slow), Devices: 2, Stop: c.mode,
					Exe: exe, Dir: t.TempDir(),
				}
				r, err := trial.Run(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("mean JCT %v live, %v simulated; start %v, restore %v, checkpoint %v",
					r.Live.MeanJCT, r.Sim.MeanJCT, r.Costs.Start.Mean, r.Costs.Restore.Mean, r.Costs.Checkpoint.Mean)
				if odd = disagreements(r, len(trial.Jobs), c.starts, c.stops); odd == nil {
					return
				}
				t.Logf("with times %d times as long: %s", slow, strings.Join(odd, "; "))
			}
			t.Error(strings.Join(odd, "; "))
		})
	}
}

// disagreements are what differs between a live run and a simulated one of so many jobs.
func disagreements(r *Result, jobs, starts, stops int) (out []string) {
	if r.Sim.Starts != starts || r.Sim.Stops != stops {
		out = append(out, fmt.Sprintf("%d starts and %d stops are simulated, want %d and %d", r.Sim.Starts, r.Sim.Stops, starts, stops))
	}
	if r.Starts != (Matched{Both: starts}) || r.Stops != (Matched{Both: stops}) || r.InOrder != starts+stops || len(r.Odd) > 0 {
		out = append(out, fmt.Sprintf("starts %+v, stops %+v, %d in order, odd %v: %+v", r.Starts, r.Stops, r.InOrder, r.Odd, r.Difference))
	}
	if r.Tau != 1 || r.FirstEnd != nil {
		out = append(out, fmt.Sprintf("they end in another order: %v, %+v", r.Tau, r.FirstEnd))
	}
	if r.Costs.Start.N != jobs || r.Costs.Checkpoint.N != stops || r.Costs.Restore.N != stops {
		out = append(out, fmt.Sprintf("measured were %d starts, %d checkpoints, %d restores", r.Costs.Start.N, r.Costs.Checkpoint.N, r.Costs.Restore.N))
	}
	return out
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
