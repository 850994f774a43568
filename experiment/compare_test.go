package experiment_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/report"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// TestWaitsAreForReports: what a trace tells of waits changes nothing of what a policy does,
// and is the line of what really happened.
func TestWaitsAreForReports(t *testing.T) {
	spec, err := clusterspec.Parse("1x2")
	if err != nil {
		t.Fatal(err)
	}
	x := experiment.Experiment{Spec: spec, Seed: 1}
	all := must(experiment.ParseChoices("srtf,tiresias,qssf"))
	play := func(wait func(i int) time.Duration) (*experiment.Prepared, []*experiment.Outcome) {
		var jobs experiment.Jobs
		for i := range 20 {
			d := job.GPUs(1 + i%2)
			e := trace.Entry{Job: job.Job{ID: job.ID(i), Key: fmt.Sprint(i), Submit: time.Duration(i) * time.Minute, Demand: &d}, Truth: trace.Truth{Work: time.Duration(1+i*7%9) * time.Minute}}
			if wait != nil {
				e.Truth.Wait, e.Truth.HasWait = wait(i), true
			}
			jobs = append(jobs, e)
		}
		p := must(experiment.Prepare(jobs.Source(), x.Preparation()))
		return p, must(x.All(context.Background(), all, p, nil))
	}
	untold, silent := play(nil)
	told, outcomes := play(func(i int) time.Duration { return time.Duration(i) * time.Hour })
	for i := range outcomes {
		if !reflect.DeepEqual(outcomes[i].Fates, silent[i].Fates) || len(outcomes[i].Fates) != 20 {
			t.Errorf("%s decides otherwise where the trace tells waits", all[i])
		}
	}
	c := must(told.Compare(outcomes, experiment.AsWas, report.Options{}))
	if c.Base != 0 || len(c.All) != 4 || c.All[0].Name != report.AsItWas || c.Versus(0).Here.Wait.Mean != 19*time.Hour/2 {
		t.Errorf("%+v", c.All)
	}
	if c = must(told.Compare(outcomes, "qssf", report.Options{})); c.Base != 3 {
		t.Errorf("the baseline is run %d", c.Base)
	}
	if _, err := told.Compare(outcomes, "las", report.Options{}); err == nil || !strings.Contains(err.Error(), "none of the runs") {
		t.Error(err)
	}
	if _, err := untold.Compare(silent, experiment.AsWas, report.Options{}); !errors.Is(err, experiment.ErrUntold) {
		t.Error(err)
	}
	if c = must(untold.Compare(silent, "", report.Options{})); c.Base != 0 || len(c.Runs) != 3 {
		t.Errorf("%d of %d", c.Base, len(c.Runs))
	}
	if _, err := untold.Compare([]*experiment.Outcome{nil}, "", report.Options{}); err == nil {
		t.Error("runs that did not end are compared")
	}
}
