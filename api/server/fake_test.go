package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// fake is a Backend in memory: jobs do not run, they are what tests make of them.
type fake struct {
	mu        sync.Mutex
	changed   chan struct{} // closed at every change, and replaced
	jobs      []*fakeJob
	events    []api.Event
	callers   []Caller  // of all calls that have one
	query     api.Query // the last one
	nodes     api.NodeQuery
	cluster   []api.Node // of Metrics
	failure   error      // of Node
	policy    string
	drained   api.Drain
	reclaimed api.Reclaim
	notReady  error
	typed     []byte
	slow      int  // so many events a watcher is told before she is cut off; 0: all
	boom      any  // Status panics with it
	gaveUp    bool // Plan was given up
}

type fakeJob struct {
	api.Job
	spec   api.JobSpec
	token  string
	output []byte
	order  api.Order
	report api.Report
	size   float64
}

func newFake() *fake { return &fake{changed: make(chan struct{}), policy: "fifo"} }

// change does something under the lock, and wakes whoever waits for changes.
func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// wait waits until a condition holds, or the context ends.
func (f *fake) wait(ctx context.Context, until func() bool) error {
	for {
		f.mu.Lock()
		ok, changed := until(), f.changed
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fake) tell(kind, job, user, text string) {
	f.events = append(f.events, api.Event{Seq: int64(len(f.events) + 1), Kind: kind, Job: job, User: user, Text: text})
}

func (f *fake) called(c Caller) { f.callers = append(f.callers, c) }

// find is a job that the caller may see.
func (f *fake) find(c Caller, id string) (*fakeJob, error) {
	for _, j := range f.jobs {
		if j.ID == id && (c.Operator || j.User == c.User) {
			return j, nil
		}
	}
	return nil, api.Refuse(api.Unknown, "there is no job %s", id)
}

func (f *fake) Submit(ctx context.Context, c Caller, spec api.JobSpec) (ids []string, err error) {
	if len(spec.Command) == 0 {
		return nil, api.Refuse(api.Invalid, "the job has no command")
	}
	if spec.User != "" && spec.User != c.User && !c.Operator {
		return nil, api.Refuse(api.Denied, "%s may not submit as %s", c.User, spec.User)
	}
	f.change(func() {
		f.called(c)
		id := strconv.Itoa(len(f.jobs) + 1)
		j := &fakeJob{spec: spec, token: "token-" + id, order: api.Order{Kind: api.GoOn}}
		j.Job = api.Job{ID: id, Name: spec.Name, User: cmp.Or(spec.User, c.User), Tenant: spec.Tenant, State: api.Waiting,
			GPUs: spec.GPUs, Tasks: spec.Tasks, Memory: spec.Memory, Limit: spec.Limit, Command: spec.Command, Dir: spec.Dir, Run: 1}
		f.jobs = append(f.jobs, j)
		f.tell("submit", id, j.User, "submitted\nby "+c.User)
		ids = []string{id}
	})
	return ids, nil
}

func (f *fake) Jobs(_ context.Context, c Caller, q api.Query) ([]api.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.called(c)
	f.query = q
	out := make([]api.Job, 0, len(f.jobs))
	for _, j := range f.jobs {
		array, _, _ := strings.Cut(j.ID, "_")
		switch {
		case !c.Operator && j.User != c.User:
		case len(q.IDs) > 0 && !slices.Contains(q.IDs, j.ID) && !slices.Contains(q.IDs, array):
		case len(q.States) > 0 && !slices.Contains(q.States, j.State):
		case len(q.Users) > 0 && !slices.Contains(q.Users, j.User):
		case q.Tenant != "" && q.Tenant != j.Tenant, q.Name != "" && q.Name != j.Name:
		case j.State.Over() && !q.All:
		case !q.Since.IsZero() && j.Ended.Before(q.Since), !q.Until.IsZero() && !j.Submitted.Before(q.Until):
		default:
			out = append(out, j.Job)
		}
	}
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[len(out)-q.Limit:]
	}
	if i := slices.IndexFunc(out, func(j api.Job) bool { return j.ID == q.After.ID }); q.Page > 0 {
		out = out[i+1 : min(len(out), i+1+q.Page)]
	}
	return out, nil
}

func (f *fake) Why(_ context.Context, c Caller, id string) (api.Why, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(c, id)
	if err != nil {
		return api.Why{}, err
	}
	return api.Why{Job: j.Job, Reason: "needs 2 GPUs, 1 is free", Policy: f.policy}, nil
}

func (f *fake) Forecast(_ context.Context, c Caller) (out api.Forecast, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out.Starts = []api.Start{}
	for _, j := range f.jobs {
		if c.Operator || j.User == c.User {
			out.Starts = append(out.Starts, api.Start{Job: j.ID})
		}
	}
	return out, nil
}

func (f *fake) Do(_ context.Context, c Caller, v Verb, id string) (err error) {
	f.change(func() {
		var j *fakeJob
		if j, err = f.find(c, id); err != nil {
			return
		}
		if j.State.Over() {
			err = api.Refuse(api.Conflict, "job %s has ended", id)
			return
		}
		j.State = map[Verb]api.State{Cancel: api.Cancelled, Hold: api.Held, Release: api.Waiting, Requeue: api.Waiting}[v]
		f.tell(string(v), id, j.User, string(v))
	})
	return err
}

func (f *fake) Resize(_ context.Context, c Caller, id string, r api.Resize) (err error) {
	f.change(func() {
		var j *fakeJob
		if j, err = f.find(c, id); err == nil {
			j.size = r.GPUs
		}
	})
	return err
}

func (f *fake) Output(_ context.Context, c Caller, id string, run int) (Output, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(c, id)
	if err != nil {
		return nil, err
	}
	if run > j.Run {
		return nil, api.Refuse(api.Unknown, "job %s has no run %d", id, run)
	}
	return &fakeOutput{f: f, j: j}, nil
}

// fakeOutput reads what a test has given a job as its output.
type fakeOutput struct {
	f  *fake
	j  *fakeJob
	at int
}

func (o *fakeOutput) Read(p []byte) (int, error) {
	o.f.mu.Lock()
	defer o.f.mu.Unlock()
	n := copy(p, o.j.output[o.at:])
	o.at += n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (o *fakeOutput) Tail(n int) error {
	o.f.mu.Lock()
	defer o.f.mu.Unlock()
	lines := bytes.SplitAfter(o.j.output, []byte("\n"))
	lines = lines[:len(lines)-1] // behind the last line break
	o.at = len(o.j.output) - len(bytes.Join(lines[max(0, len(lines)-n):], nil))
	return nil
}

func (o *fakeOutput) Wait(ctx context.Context) error {
	over := false
	err := o.f.wait(ctx, func() bool {
		over = o.j.State.Over() && o.at == len(o.j.output)
		return over || o.at < len(o.j.output)
	})
	if err == nil && over {
		return io.EOF
	}
	return err
}

func (o *fakeOutput) Close() error { return nil }

func (f *fake) Node(context.Context) (api.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil {
		return api.Node{}, f.failure
	}
	return fakeNode(), nil
}

func (f *fake) Nodes(_ context.Context, c Caller, q api.NodeQuery) ([]api.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.called(c)
	f.nodes = q
	n := fakeNode()
	n.Pool, n.Type, n.GPUs, n.GPUsFree, n.Labels, n.Taints, n.Tasks, n.Jobs = "main", "NVIDIA H200", 2, 1, map[string]string{"zone": "a"}, []string{"spot:NoSchedule"}, 1, []string{"1"}
	n.Slots, n.Foreign = []api.Slot{{Name: "rdma", Amount: 8, Free: 7}}, &api.Foreign{CPUs: 0.5, Slots: map[string]int64{"pods": 3}}
	return []api.Node{n}, nil
}

func fakeNode() api.Node {
	return api.Node{Name: "box", Health: "up", CPUs: 8, CPUsAllocated: 2, Memory: 64 << 30, Devices: []api.Device{
		{Name: "gpu0", Type: "NVIDIA H200", NUMA: -1, Memory: 141 << 30, Used: 3 << 30, Util: 0.5, Celsius: 40, Watts: 120, Measured: true, Jobs: []string{"1"}},
		{Name: "gpu1", Type: "NVIDIA H200", NUMA: -1, Index: 1, Memory: 141 << 30},
	}, Disk: api.Disk{Path: "/var/lib/norn", Free: 1 << 30, Size: 2 << 30}, Isolation: []string{"memory by cgroup v2"}}
}

func (f *fake) Status(context.Context) (api.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err, ok := f.boom.(error); ok {
		return api.Status{}, err
	}
	if f.boom != nil {
		panic(f.boom)
	}
	return api.Status{Version: "test", Policy: f.policy, Waiting: len(f.jobs), Events: int64(len(f.events)),
		Tenants: []api.Tenant{{Name: "vision", Guarantee: 1, Weight: 1, Allocated: 0.5, Waiting: 2, Usage: 1.5}}}, nil
}

func (f *fake) Drain(_ context.Context, c Caller, d api.Drain) error {
	f.change(func() { f.drained = d })
	return nil
}

func (f *fake) Reclaim(_ context.Context, c Caller, r api.Reclaim) ([]string, error) {
	f.change(func() { f.reclaimed = r })
	return r.Devices, nil
}

func (f *fake) SetPolicy(_ context.Context, c Caller, choice string) error {
	if choice == "nonsense" {
		return api.Refuse(api.Invalid, "there is no policy nonsense")
	}
	f.change(func() { f.policy = choice })
	return nil
}

func (f *fake) Input(ctx context.Context, c Caller, id string, in api.Input) error {
	if _, err := f.find(c, id); err != nil {
		return err
	}
	f.change(func() { f.typed = append(f.typed, in.Data...) })
	return nil
}

func (f *fake) Fsck(_ context.Context, c Caller, repair bool) (api.Fsck, error) {
	out := api.Fsck{Folder: "/state", Logs: 1, Findings: []api.Finding{{File: "history.jsonl", Text: "line 3 is damaged"}}}
	if repair {
		out.Findings[0].Done = "set aside"
	}
	return out, nil
}

// Plan is a plan of the policies that are asked for; one called slow lasts until the client
// leaves.
func (f *fake) Plan(ctx context.Context, c Caller, q api.WhatIf) (p api.Plan, err error) {
	f.change(func() { f.called(c) })
	if slices.Contains(q.Policies, "slow") {
		<-ctx.Done()
		f.change(func() { f.gaveUp = true })
		return p, ctx.Err()
	}
	for _, name := range q.Policies {
		p.Runs = append(p.Runs, api.PlanRun{Name: name, Kind: "plan"})
	}
	p.From, p.To = q.Since, q.Until
	return p, nil
}

func (f *fake) Log(_ context.Context, c Caller, w io.Writer) error {
	_, err := io.WriteString(w, "a log\x00and another")
	if err == nil && f.policy == "broken" {
		err = errors.New("the disk is gone")
	}
	return err
}

func (f *fake) Watch(ctx context.Context, c Caller, since int64) (<-chan api.Event, error) {
	out := make(chan api.Event, 16)
	go func() {
		defer close(out)
		told := 0
		for next := max(1, since); ; next++ {
			if err := f.wait(ctx, func() bool { return int64(len(f.events)) >= next }); err != nil {
				return
			}
			f.mu.Lock()
			e, slow := f.events[next-1], f.slow
			f.mu.Unlock()
			if slow > 0 && told >= slow {
				return
			}
			if e.User != c.User && !c.Operator {
				continue
			}
			select {
			case out <- e:
				told++
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (f *fake) TaskOf(token string) (Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		if j.token == token && !j.State.Over() {
			return &fakeTask{f, j}, nil
		}
	}
	return nil, api.Refuse(api.NoToken, "the token belongs to no run")
}

type fakeTask struct {
	f *fake
	j *fakeJob
}

func (t *fakeTask) Allocation(context.Context) (api.Allocation, error) {
	return api.Allocation{Job: t.j.ID, Run: t.j.Run, Tasks: 1, Devices: []string{"gpu0"}, GPUs: 1, StopMode: "checkpoint"}, nil
}

func (t *fakeTask) Report(_ context.Context, r api.Report) (o api.Order, err error) {
	t.f.change(func() { t.j.report, o = r, t.j.order })
	return o, nil
}

func (t *fakeTask) Order(ctx context.Context) (o api.Order, err error) {
	err = t.f.wait(ctx, func() bool { o = t.j.order; return o.Kind != api.GoOn })
	return o, err
}

func (f *fake) Metrics(ctx context.Context) (Metrics, error) {
	status, err := f.Status(ctx)
	return Metrics{
		Node: fakeNode(), Nodes: f.cluster, Status: status, ByState: map[api.State]int{api.Waiting: 3, api.Running: 1},
		Totals:    Totals{Submitted: 9, Done: 4, Failed: 1, Starts: 7, Preemptions: 2, Failures: 1, GPUSeconds: 12.5, LostGPUSeconds: 0.5},
		Decisions: Histogram{Bounds: []float64{0.001, 0.01}, Counts: []uint64{5, 7}, Count: 8, Sum: 0.1},
		Starts:    Histogram{Bounds: []float64{1, 10}, Counts: []uint64{2, 3}, Count: 3, Sum: 7},
		Launches:  Histogram{Bounds: []float64{0.01, 0.1}, Counts: []uint64{6, 7}, Count: 7, Sum: 0.2},
		Events:    int64(len(f.events)), LogBytes: 4096,
	}, err
}

func (f *fake) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notReady
}

// lastCaller is who called last.
func (f *fake) lastCaller() Caller {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.callers) == 0 {
		return Caller{}
	}
	return f.callers[len(f.callers)-1]
}

// add puts jobs of a user into the queue without asking anybody.
func (f *fake) add(user string, n int) {
	f.change(func() {
		for range n {
			id := strconv.Itoa(len(f.jobs) + 1)
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			j := &fakeJob{token: "token-" + id, order: api.Order{Kind: api.GoOn}}
			j.Job = api.Job{ID: id, Name: fmt.Sprintf("train-%s", id), User: user, State: api.Waiting, Reason: "waits for 2 GPUs, 1 is free", Run: 1,
				GPUs: api.Fixed(2), Tasks: api.Tasks{N: 1}, StopMode: "checkpoint", Submitted: now, Since: now, Wait: 12.25,
				Command: []string{"python3", "train.py", "--epochs", "90"}, Dir: "/home/" + user + "/project"}
			f.jobs = append(f.jobs, j)
			f.tell("submit", id, user, "submitted")
		}
	})
}
