package api

import "time"

// WhatIf asks what other policies would have made of the past of this Norn.
type WhatIf struct {
	Policies []string  `json:"policies" maxItems:"4" nullable:"false" doc:"To try, each written as in norn sim, such as tiresias(limits=3600). There may be none where grow is told."`
	Grow     string    `json:"grow,omitempty" maxLength:"200" doc:"Machines of other sizes on which all is tried, too, four at most, as in norn plan --grow: 1,2,-1 nodes of those that there are most of, 4x8:H100, or 2gpus of one machine."`
	Since    time.Time `json:"since,omitzero" doc:"Begin of the part of the past that is played again; none: its first event."`
	Until    time.Time `json:"until,omitzero" doc:"Its end; none: now."`
}

// Plan is the answer to a WhatIf: what happened, and what the simulator makes of the same
// jobs under other policies. All figures are of the jobs that have ended after they ran.
type Plan struct {
	From        time.Time    `json:"from,omitzero"`
	To          time.Time    `json:"to,omitzero"`
	Submitted   int          `json:"submitted" doc:"Jobs of that time."`
	Compared    int          `json:"compared" doc:"Of them, those that have ended after they ran: all figures are of these."`
	InForce     []string     `json:"in_force" nullable:"false" doc:"Policies that were in force, one after the other."`
	Verdict     string       `json:"verdict" doc:"What it comes to, in a sentence."`
	Trust       string       `json:"trust,omitempty" doc:"How far the simulation of what was in force is from what happened."`
	Runs        []PlanRun    `json:"runs" nullable:"false" doc:"First what happened, then the simulation of what was in force, then what was tried."`
	Growths     []PlanGrowth `json:"growths,omitempty" doc:"Where other sizes were asked for: how waits change with them, by policy."`
	Instead     string       `json:"instead,omitempty" doc:"Which policy on the machine as it is does what another one needs more GPUs for; none where none does."`
	Users       []PlanGroup  `json:"users" nullable:"false" doc:"The users of most jobs, 20 at most."`
	Assumptions []string     `json:"assumptions" nullable:"false" doc:"What the figures rest on, a sentence each."`
}

// PlanRun is what happened, or what would have.
type PlanRun struct {
	Name        string    `json:"name"`
	Kind        string    `json:"kind" enum:"real,check,plan" doc:"real: what happened; check: what was in force, simulated; plan: what was tried."`
	Ended       int       `json:"ended" doc:"Jobs; the means are over these."`
	JCT         Seconds   `json:"jct_mean" doc:"From submission to end."`
	JCTMedian   Seconds   `json:"jct_median"`
	JCT90       Seconds   `json:"jct_p90"`
	Wait        Seconds   `json:"wait_mean" doc:"Of that, without devices."`
	WaitMedian  Seconds   `json:"wait_median"`
	Wait90      Seconds   `json:"wait_p90"`
	Makespan    Seconds   `json:"makespan"`
	Preemptions int       `json:"preemptions"`
	Utilisation float64   `json:"gpu_utilisation" doc:"Of the time of all GPUs, 0 to 1; of all jobs."`
	Change      float64   `json:"jct_change" doc:"Of the mean against what happened: -0.1 is a tenth less."`
	Left        int       `json:"jobs_left,omitempty" doc:"Jobs that never end in it."`
	Gain        []PlanJob `json:"gain_most,omitempty"`
	Lose        []PlanJob `json:"lose_most,omitempty"`
	Remarks     []string  `json:"remarks,omitempty" doc:"What to know before believing the figures."`
}

// PlanJob is a job that gains or loses.
type PlanJob struct {
	Job   string  `json:"job"`
	Name  string  `json:"name,omitempty"`
	User  string  `json:"user,omitempty"`
	Was   Seconds `json:"jct" doc:"From its submission to its end."`
	Would Seconds `json:"would_be"`
}

// PlanGrowth is how waits change with the size of the machine, under one policy.
type PlanGrowth struct {
	Policy   string     `json:"policy"`
	Sentence string     `json:"sentence" doc:"How many nodes or GPUs are worth their place."`
	Points   []PlanSize `json:"points" nullable:"false" doc:"In order of GPUs; one of them is the machine as it is."`
}

// PlanSize is a machine of one size. Its times are of the jobs that end on all sizes.
type PlanSize struct {
	Growth string  `json:"growth,omitempty" doc:"What it has more or fewer, such as +2 GPUs; none: it is as it is."`
	GPUs   int     `json:"gpus"`
	Jobs   int     `json:"jobs_compared" doc:"The times are of these."`
	Left   int     `json:"jobs_left,omitempty" doc:"Jobs that end on the machine as it is, and not here."`
	Wait   Seconds `json:"wait_mean"`
	JCT    Seconds `json:"jct_mean"`
	Saved  float64 `json:"wait_saved" doc:"The part of all waiting that is saved: 0.5 is half; below 0 there is more."`
}

// PlanGroup is the jobs of a user.
type PlanGroup struct {
	Name string     `json:"name"`
	Jobs int        `json:"jobs"`
	JCT  []*Seconds `json:"jct_mean" nullable:"false" doc:"In the order of the runs; null: none has ended."`
}

// Policy is one that this Norn knows.
type Policy struct {
	Name   string   `json:"name"`
	Title  string   `json:"title" doc:"What it does, in a line."`
	Source string   `json:"source" doc:"Paper or system."`
	Acts   []string `json:"acts,omitempty" doc:"What it does besides starting jobs: preempts, shares, resizes, merges."`
}

// Forecast is when waiting jobs are expected to start under the present policy, if estimates
// hold and nobody comes.
type Forecast struct {
	At     time.Time `json:"at" doc:"When it was made."`
	Policy string    `json:"policy"`
	Starts []Start   `json:"starts" nullable:"false" doc:"Waiting jobs, in the order in which they start."`
	Whole  bool      `json:"whole" doc:"It was played to its end: of the waiting jobs that are not told, no start is known. Otherwise they start later."`
}

// Start is an expected start.
type Start struct {
	Job string    `json:"job"`
	At  time.Time `json:"at"`
}
