// Package server speaks HTTP for a running Norn: jobs, the machine, events,
// metrics, and the protocol of training processes.
//
// Nouns: a Backend is the running Norn; a Caller is who asks, as told by the
// socket or by a token; an Operator may touch what is not hers.
package server

import (
	"context"
	"io"

	"github.com/norn-scheduler/norn/api"
)

// Caller is who asks.
type Caller struct {
	User     string
	UID      uint32
	Local    bool // came over the Unix socket: UID is what the kernel says
	Operator bool // may see and touch everything
	// GID and Groups are those that the process had which asks, which may be fewer than
	// its user has; they are known where Grouped says so.
	GID     uint32
	Groups  []uint32
	Grouped bool
	// Identity is what TCP.Authenticate knows besides of who asks; nil: nothing.
	Identity any
}

// Verb is what can be done to a job without saying more.
type Verb string

// The verbs.
const (
	Cancel  Verb = "cancel"
	Hold    Verb = "hold"
	Release Verb = "release"
	Requeue Verb = "requeue"
)

// Backend is the running Norn. Its methods may be called at any time from any
// goroutine. Refusals are *api.Error. A change is durable when the call
// returns. Jobs that a caller may not see do not exist for her.
type Backend interface {
	// Submit takes in a job, or an array of them, and returns their numbers in
	// order; of an array the first is that of the whole, such as 17.
	Submit(ctx context.Context, c Caller, spec api.JobSpec) (ids []string, err error)
	// Jobs lists jobs by number.
	Jobs(ctx context.Context, c Caller, q api.Query) ([]api.Job, error)
	// Why explains a job.
	Why(ctx context.Context, c Caller, id string) (api.Why, error)
	// Forecast tells when waiting jobs start, the first ones first.
	Forecast(ctx context.Context, c Caller) (api.Forecast, error)
	// Do carries out a verb; on an array without an index, for all of its jobs.
	Do(ctx context.Context, c Caller, v Verb, id string) error
	// Resize gives a running job another size, and returns when that is decided.
	Resize(ctx context.Context, c Caller, id string, r api.Resize) error
	// Input types at the terminal of a running job.
	Input(ctx context.Context, c Caller, id string, in api.Input) error
	// Output opens what a run of a job wrote; run 0 is the last one.
	Output(ctx context.Context, c Caller, id string, run int) (Output, error)

	// Node tells of the machine, or of a cluster as if it were one.
	Node(ctx context.Context) (api.Node, error)
	// Nodes lists the nodes that a query asks for, by name: of one machine, itself.
	Nodes(ctx context.Context, c Caller, q api.NodeQuery) ([]api.Node, error)
	Status(ctx context.Context) (api.Status, error)
	// Drain needs an operator, Reclaim, SetPolicy, Log and Fsck too.
	Drain(ctx context.Context, c Caller, d api.Drain) error
	// Reclaim has what runs on devices or nodes leave, or lets jobs start there again. It returns their names; none:
	// the whole machine.
	Reclaim(ctx context.Context, c Caller, r api.Reclaim) ([]string, error)
	// SetPolicy changes the policy, written as in norn sim: tiresias(limits=3600).
	SetPolicy(ctx context.Context, c Caller, choice string) error
	// Plan plays the past again under other policies, and needs an operator. It ends with the
	// context.
	Plan(ctx context.Context, c Caller, q api.WhatIf) (api.Plan, error)
	// Log copies the event log: whole logs, one behind the other, oldest first.
	Log(ctx context.Context, c Caller, w io.Writer) error
	// Fsck holds what is kept against itself, and with repair mends what can be mended.
	Fsck(ctx context.Context, c Caller, repair bool) (api.Fsck, error)
	// Watch tells events from number since on, as far back as they are kept,
	// until the context ends. A watcher that is too slow is told so by the end of
	// the channel.
	Watch(ctx context.Context, c Caller, since int64) (<-chan api.Event, error)

	// TaskOf finds the run that a token belongs to.
	TaskOf(token string) (Task, error)

	// Metrics appends what is measured.
	Metrics(ctx context.Context) (Metrics, error)
	// Ready is nil when the daemon has recovered and can take work.
	Ready() error
}

// Task is the running job behind a token: what its processes may say and ask.
type Task interface {
	Allocation(ctx context.Context) (api.Allocation, error)
	// Report takes in progress and answers with what the task shall do.
	Report(ctx context.Context, r api.Report) (api.Order, error)
	// Order is what the task shall do, told at once when it is not go-on, or when
	// it changes, and at the end of the context otherwise.
	Order(ctx context.Context) (api.Order, error)
}

// Output reads what a run writes, across the files it is put aside in.
type Output interface {
	// Read reads on. At the end of what is there it returns io.EOF; more may
	// follow while the run is not over.
	io.ReadCloser
	// Tail moves to the last n lines of what is there.
	Tail(n int) error
	// Wait returns when more may be there, or with io.EOF when the run is over and
	// all was read.
	Wait(ctx context.Context) error
}

// Metrics is what is measured of a running Norn, for Prometheus.
type Metrics struct {
	Status    api.Status
	Node      api.Node
	Nodes     []api.Node        // of a cluster of several
	ByState   map[api.State]int // jobs that have not ended
	Totals    Totals
	Decisions Histogram // time of one decision of the policy, seconds
	Starts    Histogram // from the submission of a job to its first start, seconds
	Launches  Histogram // from the decision to start a job to its processes running, seconds
	Events    int64     // written to the log
	LogBytes  int64     // of the present log
}

// Totals count since the daemon's log began.
type Totals struct {
	Submitted, Done, Failed, Cancelled, Starts, Preemptions, Failures, Evictions int64
	GPUSeconds, LostGPUSeconds                                                   float64
}

// Histogram counts observations up to each bound.
type Histogram struct {
	Bounds []float64 // seconds, rising
	Counts []uint64  // of observations up to each bound; cumulative
	Count  uint64
	Sum    float64
}
