package pai_test

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// Section 2 of the spec, pai-sjf and FIFO: on one big node the policy starts and
// ends each of 10,000 jobs when the published simulator does.
func TestPublished(t *testing.T) {
	dir := shared.Path(t, "golden")
	spec, err := clusterspec.Load("g300")
	if err != nil {
		t.Fatal(err)
	}
	for by, published := range map[string]string{"estimate": "SJF", "submit": "FIFO"} {
		r, err := trace.Open(filepath.Join(dir, "inputs", "pai_synth10k.csv.gz"), trace.Options{AnyType: true})
		if err != nil {
			t.Fatal(err)
		}
		x := experiment.Experiment{Spec: spec, Seed: 1}
		o, err := x.Run(context.Background(), experiment.Choice{Policy: "pai", Settings: []experiment.Setting{{Name: "by", Value: by}}}, r)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := results(t, "golden/pai/synth10k-g300-"+published+".csv.gz")
		// Norn counts from the first submission of the file.
		zero := want[o.State.Record(0).Job.Key].submit - o.State.Record(0).Job.Submit
		if o.State.Jobs() != len(want) {
			t.Errorf("%s: %d jobs, want %d", published, o.State.Jobs(), len(want))
		}
		wrong := 0
		for i := range o.State.Jobs() {
			rec := o.State.Record(job.ID(i))
			if w := want[rec.Job.Key]; rec.FirstStart+zero != w.start || rec.End+zero != w.end {
				if wrong++; wrong < 5 {
					t.Errorf("%s: job %s runs from %v to %v, want %v to %v", published, rec.Job.Key, rec.FirstStart+zero, rec.End+zero, w.start, w.end)
				}
			}
		}
		if wrong > 0 {
			t.Errorf("%s: %d jobs differ", published, wrong)
		}
	}
}

type times struct{ submit, start, end time.Duration }

// results reads submission, start and end of each job.
func results(t *testing.T, path string) map[string]times {
	t.Helper()
	rows := shared.Rows(t, path)
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	at := func(row []string, name string) time.Duration {
		s, err := strconv.ParseFloat(row[column[name]], 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(s * 1e9)
	}
	all := map[string]times{}
	for _, row := range rows[1:] {
		all[row[column["job_id"]]] = times{at(row, "submit"), at(row, "start"), at(row, "end")}
	}
	return all
}
