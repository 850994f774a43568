package experiment

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

func TestDueText(t *testing.T) {
	for text, want := range map[string]string{"0.5-1.5": "0.5-1.5", "2": "2-2", "1-3,soft=30%,none=0.2": "1-3,soft=0.3,none=0.2"} {
		var d Due
		if err := d.Set(text); err != nil || d.String() != want {
			t.Errorf("%s: %v, %v", text, d.String(), err)
		}
	}
	for _, text := range []string{"", "0-1", "2-1", "1-2000", "a-b", "1-2,soft=2", "1-2,none", "1-2,x=1", "NaN-1", "1-NaN"} {
		if d := (Due{Least: 1, Most: 2}); d.Set(text) == nil || d != (Due{Least: 1, Most: 2}) {
			t.Errorf("%q is taken for %v", text, d)
		}
	}
}

// TestDueJobs draws deadlines within their range, in the shares that are asked for, and leaves
// those of the trace.
func TestDueJobs(t *testing.T) {
	one := job.GPUs(1)
	all := make([]trace.Entry, 2000)
	for i := range all {
		all[i] = trace.Entry{Job: job.Job{ID: job.ID(i), Submit: time.Duration(i) * time.Second, Demand: &one}, Truth: trace.Truth{Work: 100 * time.Second}}
	}
	all[7].Job.Deadline = 12345
	src, remark := Due{Least: 0.5, Most: 1.5, Soft: 0.3, None: 0.2}.jobs(trace.FromMemory(all), 1)
	soft, none, sum := 0, 0, 0.0
	for i := 0; ; i++ {
		var e trace.Entry
		if err := src.Next(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		after := (e.Job.Deadline - e.Job.Submit).Seconds()
		switch {
		case i == 7:
			if e.Job.Deadline != 12345 || e.Job.Soft {
				t.Errorf("the trace has another deadline: %+v", e.Job)
			}
		case e.Job.Deadline == 0:
			none++
		case after < 50 || after > 150:
			t.Errorf("a deadline after %v s", after)
		default:
			sum += after
			if e.Job.Soft {
				soft++
			}
		}
	}
	due := float64(1999 - none)
	if none < 340 || none > 460 || float64(soft)/due < 0.26 || float64(soft)/due > 0.34 || sum/due < 97 || sum/due > 103 {
		t.Errorf("%d without, %d soft, mean %v", none, soft, sum/due)
	}
	if remark() == "" {
		t.Error("nothing is said of it")
	}
}
