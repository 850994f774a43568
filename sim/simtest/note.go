package simtest

import (
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// Noted is a job with a note, as a policy finds it that starts anew: the note was
// written for the log, and is still to be read.
func Noted(t interface{ Fatal(...any) }, n sched.Note) sched.Job {
	written, err := sched.Written(n)
	if err != nil {
		t.Fatal(err)
	}
	s := state.New(cluster.New(), tenant.NewTree(0))
	d := job.Demand{Roles: [job.MaxRoles]job.Role{{Name: "worker", Tasks: 1, GPU: unit.One}}}
	if err := s.Submit(&job.Job{Key: "noted", Demand: &d}, -1); err != nil {
		t.Fatal(err)
	}
	s.Record(0).Note = written
	v := sched.NewView(s, nil, false)
	return v.Job(0)
}
