package experiment_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/job"
)

// advice is what is suggested for a trace.
func advice(t *testing.T, x *experiment.Experiment, jobs experiment.Jobs) *experiment.Advice {
	t.Helper()
	p, err := experiment.Prepare(jobs.Source(), x.Preparation())
	if err != nil {
		t.Fatal(err)
	}
	a, err := x.Suggest(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestSuggest: what a trace tells decides what is suggested for it first. The last of three
// orders jobs of any kind, and no two rest on the same thing.
func TestSuggest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, spec string
		assume     experiment.Assumption
		jobs       func(int, *job.Job)
		want       string
	}{
		{name: "sizes alone", want: "tiresias,srtf,fifo(mode=easy)"},
		{name: "names", jobs: func(_ int, j *job.Job) { j.Name = "bert" }, want: "tiresias,qssf,srtf"},
		{name: "tenants", jobs: func(i int, j *job.Job) { j.Tenant = string(rune('a' + i%3)) }, want: "drf,tiresias,srtf"},
		{name: "elastic", assume: experiment.AssumeGoodput, want: "pollux,tiresias,srtf"},
		{name: "elastic, unlike GPUs", spec: "sia", assume: experiment.AssumeGoodput, want: "sia,"},
		{name: "tuning", assume: experiment.AssumeTuning, want: "ymir,afs,tiresias"},
		{name: "stages", assume: experiment.AssumeStages, want: "muri-s,"},
		{name: "use", assume: experiment.AssumeUse, want: "lucid,tiresias,srtf"},
		{name: "services", assume: experiment.AssumeServices, want: "muxflow,lucid,tiresias"},
		{name: "nobody can be stopped", jobs: func(_ int, j *job.Job) { j.Stop = job.Pinned }, want: "fifo(mode=easy),fifo(mode=skip)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			jobs := bare(t, 100)
			for i := range jobs {
				if c.jobs != nil {
					c.jobs(i, &jobs[i].Job)
				}
			}
			x := &experiment.Experiment{Spec: spec(t, cmp.Or(c.spec, "2x8")), Seed: 1, Assume: c.assume}
			a := advice(t, x, jobs)
			list := strings.TrimPrefix(a.List(), "fifo,")
			if !strings.HasPrefix(list, c.want) || len(a.Policies) > 3 {
				t.Errorf("%s, want %s", list, c.want)
			}
			if _, err := experiment.ParseChoices(a.List()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestShort: a cluster with idle GPUs for every job is said not to be short of them, and one
// in which jobs wait is.
func TestShort(t *testing.T) {
	t.Parallel()
	jobs := bare(t, 100)
	for cluster, short := range map[string]bool{"1x8": true, "1000x8": false} {
		a := advice(t, &experiment.Experiment{Spec: spec(t, cluster), Seed: 1}, jobs)
		if said := strings.Contains(a.Waits(), "not short of GPUs"); a.Short != short || said == short {
			t.Errorf("%s: %v, %s", cluster, a.Short, a.Waits())
		}
	}
	if a := advice(t, &experiment.Experiment{Spec: spec(t, "1x1"), Seed: 1}, jobs[:0]); a.First.JCT.Mean != time.Duration(0) || a.Waits() != "No job ends under fifo." {
		t.Errorf("%s", a.Waits())
	}
}
