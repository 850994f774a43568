package perf

import "github.com/norn-scheduler/norn/job"

// Traits is all by which a Sharing may tell jobs apart.
type Traits struct {
	Sort     string // see SortOf
	Model    string
	Backbone string
	Batch    int
	Kind     job.Kind
	Demand   *job.Demand
	Hints    job.Hints
}

// TraitsOf are the traits of a job.
func TraitsOf(j *job.Job) Traits {
	t := Traits{Sort: SortOf(j), Model: j.Model, Backbone: j.Backbone, Batch: j.Batch, Kind: j.Kind, Demand: j.Demand}
	if j.Hints != nil {
		t.Hints = *j.Hints
	}
	return t
}
