package report

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/tenant"
)

// Summary is the figures of a run. A job is counted as ended when it has left
// for good after it had devices at least once, whatever its outcome.
type Summary struct {
	Jobs       Counts `json:"jobs"`
	JCT        Stats  `json:"jct_s"`         // of jobs that ended: submission to end
	Wait       Stats  `json:"wait_s"`        // of jobs that ended: time without devices
	FirstStart Stats  `json:"first_start_s"` // of jobs that started: submission to first start

	Makespan            time.Duration `json:"-"`               // first submission to last end; written as makespan_s
	Utilisation         float64       `json:"gpu_utilisation"` // GPU time allocated / available
	UtilisationArrivals float64       `json:"gpu_utilisation_until_last_arrival"`
	GPU                 GPUTime       `json:"gpu_hours"`

	Starts      int `json:"starts"`
	Preemptions int `json:"preemptions"` // evictions included
	Migrations  int `json:"migrations"`
	Resizes     int `json:"resizes"`
	Failures    int `json:"failed_attempts"`

	Borrowed *Borrowed `json:"borrowed,omitempty"` // nil: no node was ever borrowed
	Promises Promises  `json:"deadlines,omitzero"`
	Tiers    []Tiered  `json:"tiers,omitempty"` // from the highest; nil: no job is promised anything
	Kinds    []Kinded  `json:"kinds,omitempty"` // nil: all jobs are of one kind, and none has a target
	Fairness Fairness  `json:"fairness"`
	Waiting  Waiting   `json:"wait_job_hours"`
	Causes   Causes    `json:"wait_causes_job_hours"`
	Energy   *Energy   `json:"energy,omitempty"` // nil: no node was ever there
	Losses   *Losses   `json:"losses,omitempty"` // nil: no job that ended reported its loss
}

// Counts is what became of the jobs.
type Counts struct {
	Submitted    int `json:"submitted"`
	Finished     int `json:"finished"`
	Failed       int `json:"failed"`
	Cancelled    int `json:"cancelled"`
	Running      int `json:"running"`       // at the end of the run
	Waiting      int `json:"waiting"`       // at the end of the run
	Held         int `json:"held"`          // at the end of the run
	NeverStarted int `json:"never_started"` // of all of them
	Impossible   int `json:"impossible"`    // of those waiting: can never run here
	Refused      int `json:"refused"`       // of those waiting: the policy did not admit them
}

// Left is the jobs that had not left when the run ended.
func (c Counts) Left() int { return c.Running + c.Waiting + c.Held }

// GPUTime is GPU time in GPU-hours.
type GPUTime struct {
	Available float64 `json:"available"`
	Held      float64 `json:"held"`
	Lost      float64 `json:"lost"`             // in transitions and in work done twice
	Failed    float64 `json:"lost_to_failures"` // of that, work of failed attempts and of jobs on lost nodes
}

// Transitions is what transitions cost: starts, stops, moves, resizes, and work
// that jobs lost when they were stopped.
func (g GPUTime) Transitions() float64 { return max(0, g.Lost-g.Failed) }

// Fairness is finish-time fairness: rho is the JCT of a job by what it would be
// with its share of the cluster.
type Fairness struct {
	Rated    int     `json:"rated_jobs"` // jobs for which rho is known
	Mean     float64 `json:"rho_mean"`
	Worst    float64 `json:"rho_worst"`
	WorstJob string  `json:"rho_worst_job"`
	Unfair   float64 `json:"rho_above_1_share"`
	Jain     float64 `json:"jain_tenants"` // of the mean rho of each tenant
}

// Kind is what sort of delay a wait is.
type Kind string

// The kinds of delay, as in the analysis of the Philly cluster (Jeon et al.,
// ATC 2019). Fairness delay is because of a quota. Fragmentation delay is when
// enough GPUs are free but not where they are needed. All others are other.
const (
	FairnessDelay      Kind = "fairness"
	FragmentationDelay Kind = "fragmentation"
	Other              Kind = "other"
)

func kindOf(c job.ReasonCode) Kind {
	switch {
	case c == job.Quota || c == job.OverShare || c == job.Reclaimed:
		return FairnessDelay
	case job.Reason{Code: c}.Fragmentation():
		return FragmentationDelay
	}
	return Other
}

// Waiting is time without devices by kind, in job-hours, of all jobs.
type Waiting struct {
	Fairness      float64 `json:"fairness"`
	Fragmentation float64 `json:"fragmentation"`
	Other         float64 `json:"other"`
}

func (w *Waiting) add(k Kind, hours float64) {
	switch k {
	case FairnessDelay:
		w.Fairness += hours
	case FragmentationDelay:
		w.Fragmentation += hours
	default:
		w.Other += hours
	}
}

// Total is the time of all kinds.
func (w Waiting) Total() float64 { return w.Fairness + w.Fragmentation + w.Other }

// Wait is the time that all jobs together waited for one reason.
type Wait struct {
	Reason string  `json:"reason"` // name of the job.ReasonCode, or "handover"
	Kind   Kind    `json:"kind"`
	Cause  Cause   `json:"cause"`
	Hours  float64 `json:"job_hours"`
}

// MarshalText writes the cause as its field of Causes.
func (c Cause) MarshalText() ([]byte, error) { return []byte(causeNames[c].field), nil }

// Group is the figures of the jobs of one tenant or of one size.
type Group struct {
	Name     string
	Jobs     int           // submitted
	Ended    int           // the JCT and Wait are of these
	JCT      time.Duration // mean
	Wait     time.Duration // mean
	GPUHours float64       // held
	Rated    int           // the Rho is of these
	Rho      float64       // mean
	Waiting  Waiting
	Causes   Causes

	tenant tenant.ID
	size   int
}

// waited adds hours for which jobs of the group waited for a reason.
func (g *Group) waited(w *Wait, hours float64) {
	g.Waiting.add(w.Kind, hours)
	g.Causes[w.Cause] += hours
}

// MarshalJSON writes times in seconds; a mean of no jobs is null.
func (g Group) MarshalJSON() ([]byte, error) {
	type group struct {
		Name     string          `json:"name"`
		Jobs     int             `json:"jobs"`
		Ended    int             `json:"ended"`
		JCT      json.RawMessage `json:"jct_mean_s"`
		Wait     json.RawMessage `json:"wait_mean_s"`
		GPUHours float64         `json:"gpu_hours"`
		Rated    int             `json:"rated_jobs"`
		Rho      *float64        `json:"rho_mean"`
		Waiting  Waiting         `json:"wait_job_hours"`
		Causes   Causes          `json:"wait_causes_job_hours"`
	}
	out := group{Name: g.Name, Jobs: g.Jobs, Ended: g.Ended, GPUHours: g.GPUHours, Rated: g.Rated, Waiting: g.Waiting, Causes: g.Causes}
	if g.Ended > 0 {
		out.JCT, out.Wait = unit.AppendSeconds(nil, g.JCT), unit.AppendSeconds(nil, g.Wait)
	}
	if g.Rated > 0 {
		out.Rho = &g.Rho
	}
	return json.Marshal(out)
}

func sortGroups(gs []Group) {
	slices.SortFunc(gs, func(a, b Group) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.tenant, b.tenant)) })
}

// sizes is the number of sizes of jobs that are told apart.
const sizes = 6

var sizeNames = [sizes]string{"0", "1", "2-4", "5-8", "9-16", ">16"}

// sizeOf is the size of a job that asks for so many GPUs, a part counting as
// one.
func sizeOf(gpus int32) uint8 {
	switch {
	case gpus <= 1:
		return uint8(max(0, gpus))
	case gpus <= 4:
		return 2
	case gpus <= 8:
		return 3
	case gpus <= 16:
		return 4
	}
	return 5
}
