package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
)

// named is a Norn whose jobs have names.
func named() *fake {
	jobs := sampleJobs()[:5]
	for i, id := range []string{"team-a/bert", "team-a/bert-2", "team-b/eval.x", "team-b/urgent", "team-a/resnet"} {
		jobs[i].ID = id
	}
	f := busy()
	f.list = jobs
	return f
}

// Jobs with names are named by them in every verb, and completed.
func TestNamesOfJobs(t *testing.T) {
	f := named()
	out, _ := liveWorks(t, f, "ps", "team-a/bert", "-o", "name")
	if out != "team-a/bert\n" {
		t.Errorf("%q", out)
	}
	for _, line := range [][]string{
		{"hold", "team-a/resnet"}, {"release", "team-a/resnet"}, {"cancel", "team-a/resnet"}, {"requeue", "team-a/bert"}, {"resize", "team-a/bert", "2"}, {"why", "team-a/bert"},
	} {
		liveWorks(t, f, line...)
		if want := strings.Join(line, " "); !slices.Contains(f.asked, want) {
			t.Errorf("%s: asked %q", want, f.asked)
		}
	}
	f.events = []api.Event{{Seq: 1, Job: "team-a/bert", Text: "starts"}, {Seq: 2, Job: "team-a/bert-2", Text: "waits"}}
	f.status.Events = 2
	if out, _ := liveWorks(t, f, "events", "team-a/bert"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "job team-a/bert") {
		t.Errorf("%q", out)
	}
	if out, _ := liveWorks(t, f, "__complete", "why", "team-b/"); !strings.HasPrefix(out, "team-b/eval.x\teval stopping\nteam-b/urgent\turgent assigned\n:4\n") {
		t.Errorf("%q", out)
	}
	liveWorks(t, f, "submit", "--after", "team-a/bert:any", "true")
	if have := f.submitted[0].After; len(have) != 1 || have[0] != (api.After{Job: "team-a/bert", Any: true}) {
		t.Errorf("%+v", have)
	}
}
