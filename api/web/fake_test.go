package web_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/api/web"
	"github.com/norn-scheduler/norn/live"
)

// began is when the jobs of the tests were submitted.
var began = time.Now().Add(-90 * time.Minute).Truncate(time.Second)

// norn is a Backend in memory: jobs are what tests make of them. Its feed is that of a real
// one.
type norn struct {
	server.Backend // what the page does not ask for: a call fails the test
	live.Feed

	mu      sync.Mutex
	jobs    []api.Job
	node    api.Node
	nodes   []api.Node
	tenants []api.Tenant
	trouble []string
	expect  map[string]time.Time // expected starts
	orders  []string
	lists   int               // how often all jobs were asked for
	outputs map[string]string // by number
	course  map[string][]api.Stretch
	losses  map[string][]api.LossPoint
}

func newNorn() *norn {
	n := &norn{expect: map[string]time.Time{}, outputs: map[string]string{}, course: map[string][]api.Stretch{}, losses: map[string][]api.LossPoint{}}
	n.Begin(1)
	n.node = api.Node{Name: "box", Health: "up", CPUs: 64, Memory: 512 << 30, Disk: api.Disk{Path: "/var/lib/norn", Free: 1 << 40, Size: 2 << 40}}
	for i := range 4 {
		n.node.Devices = append(n.node.Devices, api.Device{Name: fmt.Sprintf("gpu%d", i), Index: i, Type: "NVIDIA H200", NUMA: -1, Memory: 141 << 30})
	}
	return n
}

// with does something under the lock.
func (n *norn) with(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

// put takes in a job, or changes it, and tells of it.
func (n *norn) put(j api.Job, kind, text string) {
	n.with(func() {
		if j.Submitted.IsZero() {
			j.Submitted, j.Since = began, began
		}
		j.StopMode = cmp.Or(j.StopMode, "checkpoint")
		i := slices.IndexFunc(n.jobs, func(k api.Job) bool { return k.ID == j.ID })
		if i < 0 {
			n.jobs = append(n.jobs, j)
		} else {
			n.jobs[i] = j
		}
	})
	n.Publish(api.Event{Time: time.Now(), Kind: kind, Job: j.ID, User: j.User, Text: text})
}

// job is a job of a user.
func job(id, name, user string, state api.State) api.Job {
	return api.Job{ID: id, Name: name, User: user, State: state, GPUs: api.Fixed(2), Command: []string{"python3", "train.py"}, Dir: "/home/" + user}
}

func sees(c server.Caller, j *api.Job) bool { return c.Operator || c.User == j.User }

func (n *norn) Jobs(_ context.Context, c server.Caller, q api.Query) (out []api.Job, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(q.IDs) == 0 && len(q.States) == 0 && q.After.ID == "" {
		n.lists++
	}
	for i := range n.jobs {
		j := &n.jobs[i]
		switch {
		case !sees(c, j), j.State.Over() && !q.All, len(q.IDs) > 0 && !slices.Contains(q.IDs, j.ID), len(q.States) > 0 && !slices.Contains(q.States, j.State),
			!q.Since.IsZero() && !j.Ended.IsZero() && j.Ended.Before(q.Since):
		default:
			out = append(out, *j)
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

// find is a job that a caller may see, under the lock.
func (n *norn) find(c server.Caller, id string) (*api.Job, error) {
	for i := range n.jobs {
		if j := &n.jobs[i]; j.ID == id && sees(c, j) {
			return j, nil
		}
	}
	return nil, api.Refuse(api.Unknown, "there is no job %s", id)
}

func (n *norn) Why(_ context.Context, c server.Caller, id string) (w api.Why, err error) {
	n.with(func() {
		var j *api.Job
		if j, err = n.find(c, id); err == nil {
			w = api.Why{Job: *j, Reason: cmp.Or(j.Reason, "runs"), Policy: "srtf", Stop: "it saves and leaves within 30s", Expected: n.expect[id],
				Course: n.course[id], Losses: n.losses[id], Frees: []string{"the end of job 1"}, Life: []string{began.Format(time.DateTime) + " submitted: 2 GPUs", began.Add(time.Minute).Format(time.DateTime) + " starts on gpu0"}}
		}
	})
	return w, err
}

// Forecast has all jobs of expect start, the first one first.
func (n *norn) Forecast(_ context.Context, c server.Caller) (f api.Forecast, _ error) {
	f = api.Forecast{At: time.Now(), Policy: "srtf", Starts: []api.Start{}, Whole: true}
	n.with(func() {
		for i := range n.jobs {
			if j := &n.jobs[i]; sees(c, j) && !n.expect[j.ID].IsZero() && j.State == api.Waiting {
				f.Starts = append(f.Starts, api.Start{Job: j.ID, At: n.expect[j.ID]})
			}
		}
	})
	slices.SortFunc(f.Starts, func(a, b api.Start) int { return a.At.Compare(b.At) })
	return f, nil
}

func (n *norn) Do(_ context.Context, c server.Caller, v server.Verb, id string) error {
	n.mu.Lock()
	j, err := n.find(c, id)
	if err != nil {
		n.mu.Unlock()
		return err
	}
	if j.State.Over() {
		n.mu.Unlock()
		return api.Refuse(api.Conflict, "job %s has ended", id)
	}
	n.orders = append(n.orders, fmt.Sprintf("%s %s by %s", v, id, c.User))
	next := *j
	n.mu.Unlock()
	next.State = map[server.Verb]api.State{server.Cancel: api.Cancelled, server.Hold: api.Held, server.Release: api.Waiting, server.Requeue: api.Waiting}[v]
	n.put(next, string(v), string(v))
	return nil
}

func (n *norn) Output(_ context.Context, c server.Caller, id string, _ int) (server.Output, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.find(c, id); err != nil {
		return nil, err
	}
	return &output{n: n, id: id}, nil
}

// output reads what a job wrote, until it has ended.
type output struct {
	n  *norn
	id string
	at int
}

func (o *output) Read(p []byte) (k int, err error) {
	o.n.with(func() { k = copy(p, o.n.outputs[o.id][o.at:]) })
	o.at += k
	if k == 0 {
		err = io.EOF
	}
	return k, err
}
func (o *output) Tail(int) error { return nil }
func (o *output) Close() error   { return nil }
func (o *output) Wait(ctx context.Context) error {
	for {
		more, over := false, false
		o.n.with(func() {
			more = o.at < len(o.n.outputs[o.id])
			over = slices.ContainsFunc(o.n.jobs, func(j api.Job) bool { return j.ID == o.id && j.State.Over() })
		})
		switch {
		case more:
			return nil
		case over:
			return io.EOF
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (n *norn) Node(context.Context) (out api.Node, _ error) {
	n.with(func() {
		out = n.node
		out.Devices = slices.Clone(out.Devices)
	})
	return out, nil
}

func (n *norn) Nodes(context.Context, server.Caller, api.NodeQuery) (out []api.Node, _ error) {
	n.with(func() { out = slices.Clone(n.nodes) })
	return out, nil
}

func (n *norn) Status(context.Context) (s api.Status, _ error) {
	n.with(func() {
		s = api.Status{Version: "test", Now: time.Now(), Up: began, Policy: "srtf", Nodes: len(n.nodes), Tenants: n.tenants, Trouble: n.trouble}
		for i := range n.jobs {
			switch n.jobs[i].State {
			case api.Held:
				s.Held++
			case api.Waiting:
				s.Waiting++
			case api.Running, api.Assigned:
				s.Running++
			case api.Stopping:
				s.Stopping++
			case api.Done, api.Failed, api.Cancelled:
				s.Ended++
			}
		}
	})
	s.Events = n.Last()
	return s, nil
}

func (n *norn) Reclaim(context.Context, server.Caller, api.Reclaim) ([]string, error) {
	return nil, nil
}

func (n *norn) Drain(_ context.Context, c server.Caller, d api.Drain) error {
	n.with(func() {
		n.orders = append(n.orders, fmt.Sprintf("drain %v %v %q by %s", d.Devices, d.Undo, d.Why, c.User))
		for i := range n.node.Devices {
			if slices.Contains(d.Devices, n.node.Devices[i].Name) {
				n.node.Devices[i].Broken, n.node.Devices[i].Note = !d.Undo, d.Why
			}
		}
	})
	n.Publish(api.Event{Time: time.Now(), Kind: "device", Text: strings.Join(d.Devices, " ") + " takes no new work"})
	return nil
}

func (n *norn) Watch(ctx context.Context, c server.Caller, since int64) (<-chan api.Event, error) {
	return n.Feed.Watch(ctx, c, since), nil
}

func (n *norn) Ready() error { return nil }

// served is a Norn that answers: over a socket to whoever runs the test, over TCP to
// whoever has a token.
type served struct {
	*norn
	client *client.Client
	tcp    string // http://127.0.0.1:PORT
}

const annasToken, operatorsToken = "annas-token", "operators-token"

// serve serves a Norn until the test ends. Whoever runs the test is an operator.
func serve(t *testing.T) *served {
	t.Helper()
	n := newNorn()
	dir, err := os.MkdirTemp("", "norn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	hash := func(token string) string {
		sum := sha256.Sum256([]byte(token))
		return hex.EncodeToString(sum[:])
	}
	c := server.Config{
		Backend: n, Socket: filepath.Join(dir, "norn.sock"), Version: "test", Operators: func(uint32, string) bool { return true },
		TCP: &server.TCP{Addr: "127.0.0.1:0", Tokens: []server.Token{
			{Name: "anna", User: "anna", SHA256: hash(annasToken)}, {Name: "operator", User: "olga", Operator: true, SHA256: hash(operatorsToken)},
		}},
	}
	s, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	cl, err := client.New(c.Socket, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return &served{norn: n, client: cl, tcp: "http://" + s.Addr().String()}
}

// line is a handler that can be cut off from those who ask it.
type line struct {
	to http.Handler

	mu    sync.Mutex
	ctx   context.Context // of the requests that go on; ended: the line is cut
	sever context.CancelFunc
}

func newLine(to http.Handler) *line {
	l := &line{to: to}
	l.mend()
	return l
}

// cut breaks off what goes on, and refuses what comes.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sever()
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx, l.sever = context.WithCancel(context.Background())
}

func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	line := l.ctx
	l.mu.Unlock()
	if line.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(line, cancel)()
	l.to.ServeHTTP(w, r.WithContext(ctx))
	if line.Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

// gated serves a Norn behind a gate, as norn web does.
type gated struct {
	*served
	link, origin string
	line         *line
	clock        *clock
}

// clock is a time that a test may put forward.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func gate(t *testing.T) *gated {
	t.Helper()
	g := &gated{served: serve(t), clock: &clock{now: began}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handler, link := web.NewGate(l.Addr().String(), g.client.Proxy(), g.clock.time)
	g.link, g.origin, g.line = link, "http://"+l.Addr().String(), newLine(handler)
	srv := &http.Server{Handler: g.line}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return g
}

func clientOf(t *testing.T, addr, token string) *client.Client {
	t.Helper()
	c, err := client.New(addr, token, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Plan has srtf halve all times, for operators; a policy called gavel lasts until it is given
// up.
func (n *norn) Plan(ctx context.Context, _ server.Caller, q api.WhatIf) (p api.Plan, err error) {
	n.with(func() { n.orders = append(n.orders, strings.TrimSpace(fmt.Sprint("plan ", q.Policies, " ", q.Grow))) })
	if slices.Contains(q.Policies, "gavel") {
		<-ctx.Done()
		n.with(func() { n.orders = append(n.orders, "given up") })
		return p, ctx.Err()
	}
	p = api.Plan{
		From: began, To: began.Add(time.Hour), Submitted: 50, Compared: 46, InForce: []string{"fifo"}, Assumptions: []string{"Users would have submitted the same jobs at the same moments."},
		Verdict: "Under srtf jobs would have ended 47.1 % earlier on average; anna's large ones would have waited longer.", Trust: "The simulation of what was in force is off by +0.2% in mean JCT.",
		Runs: []api.PlanRun{
			{Name: "as it was", Kind: "real", Ended: 46, JCT: 5000, JCTMedian: 4000, JCT90: 9000, Wait: 4100, Utilisation: 0.73},
			{Name: "fifo, simulated", Kind: "check", Ended: 46, JCT: 5010, JCTMedian: 4000, JCT90: 9000, Wait: 4100, Utilisation: 0.73, Change: 0.002},
		},
		Users: []api.PlanGroup{{Name: "anna", Jobs: 40}, {Name: "boris", Jobs: 6}},
	}
	for _, name := range q.Policies {
		p.Runs = append(p.Runs, api.PlanRun{
			Name: name, Kind: "plan", Ended: 46, JCT: 2645, JCTMedian: 1500, JCT90: 6100, Wait: 2000, Utilisation: 0.92, Preemptions: 12, Change: -0.471,
			Gain: []api.PlanJob{{Job: "17", Name: "eval <b>", User: "boris", Was: 9000, Would: 60}}, Lose: []api.PlanJob{{Job: "3", Name: "bert", User: "anna", Was: 4000, Would: 6000}},
			Remarks: []string{"it knows no true run times"},
		})
	}
	if q.Grow != "" {
		p.Instead = "On the cluster as it is, jobs wait no longer under srtf (33m) than under fifo with +1 GPU (40m)."
		p.Growths = []api.PlanGrowth{{Policy: "fifo", Sentence: "fifo: +1 GPU would save 41% of the waiting: mean wait 40m instead of 1h8m.", Points: []api.PlanSize{
			{GPUs: 4, Jobs: 46, Wait: 4100, JCT: 5010}, {Growth: "+1 GPU", GPUs: 5, Jobs: 46, Left: 2, Wait: 2400, JCT: 3310, Saved: 0.41},
		}}}
	}
	for i := range p.Users {
		for range p.Runs {
			mean := api.Seconds(3600)
			p.Users[i].JCT = append(p.Users[i].JCT, &mean)
		}
	}
	return p, nil
}
