package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/local"
	"github.com/norn-scheduler/norn/local/rundir"
)

// A job that is submitted exists for everybody else from the moment on at which the
// engine has its record, also when both are asked for in the same instant.
func TestSeenInTheInstantOfItsSubmission(t *testing.T) {
	t.Parallel()
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Limits.Jobs = 3 })
	errs := make(chan error, 16)
	var asked sync.WaitGroup
	ask := func(f func() error) func() {
		asked.Add(1)
		return func() { defer asked.Done(); errs <- f() }
	}
	see := func(f func() error) func() {
		return ask(func() error {
			err := f()
			if err != nil && !strings.Contains(err.Error(), "there is no job 1") {
				return err
			}
			return nil
		})
	}
	array := h.sh(1, "true")
	array.Array = "0-2"
	h.Together(
		ask(func() error {
			ids, err := h.Submit(background, h.me, array)
			if err == nil && !slices.Equal(ids, []string{"1", "1_0", "1_1", "1_2"}) {
				err = fmt.Errorf("submitted as %v", ids)
			}
			return err
		}),
		ask(func() error { _, err := h.Jobs(background, h.me, api.Query{}); return err }),
		ask(func() error { _, err := h.Status(background); return err }),
		ask(func() error { _, err := h.Metrics(background); return err }),
		ask(func() error { _, err := h.Node(background); return err }),
		see(func() error { _, err := h.Why(background, h.me, "1"); return err }),
		see(func() error { _, err := h.Output(background, h.me, "1_1", 0); return err }),
		see(func() error { return h.Do(background, h.me, server.Hold, "1_0") }),
		see(func() error { return h.Resize(background, h.me, "1_2", api.Resize{GPUs: 1}) }),
		ask(func() error { // those that are taken in at this moment count
			_, err := h.Submit(background, h.me, h.sh(1, "true"))
			if err == nil || !strings.Contains(err.Error(), "there are 3 jobs that have not ended, at most 3 are taken") {
				return fmt.Errorf("a fourth job: %v", err)
			}
			return nil
		}),
	)
	asked.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{"1_0", "1_1", "1_2"} {
		h.until(id, api.Done)
	}
}

// A request in which norn has a mistake is answered with an error, and the log says
// where; everybody else goes on.
func TestMistakeInARequest(t *testing.T) {
	t.Parallel()
	var log journal
	h := newHere(t, "fifo", 1, func(o *local.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	if err := h.Panics(); err == nil || !strings.Contains(err.Error(), "a mistake of a test") {
		t.Errorf("%v", err)
	}
	if text := log.String(); !strings.Contains(text, "a mistake of a test") || !strings.Contains(text, "export_test.go") {
		t.Errorf("the log says %q", text)
	}
	a := h.submit(h.sh(1, "true"))
	h.until(a, api.Done)
	if all, err := h.Jobs(background, h.me, api.Query{All: true}); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// journal is a log that a test reads while it is written.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *journal) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *journal) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// storm is a daemon behind its server, and those who ask for all that there is.
type storm struct {
	*here
	http *http.Client
	last atomic.Int64 // number of the last job that was submitted
	seen sync.Map     // answers that there were, by operation and the first digit of their status
}

// newStorm starts a daemon and its server.
func newStorm(t *testing.T, log io.Writer) *storm {
	s := &storm{here: newHere(t, "srtf", 3, func(o *local.Options) {
		o.Log = slog.New(slog.NewTextHandler(log, nil))
		o.Limits.Compact = 500 // so that epochs end meanwhile
	})}
	socket := filepath.Join(s.setup.State, "norn.sock")
	srv, err := server.New(server.Config{
		Backend: s.Daemon, Socket: socket, Metrics: true, Log: slog.New(slog.NewTextHandler(log, nil)),
		Operators: func(uint32, string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(background)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	s.http = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	return s
}

// any is the number of a job that was submitted not long ago.
func (s *storm) any(r *rand.Rand) string {
	return strconv.FormatInt(max(2, s.last.Load()-r.Int64N(6)), 10)
}

// submission is a job that lasts for a moment.
func (s *storm) submission(r *rand.Rand) api.JobSpec {
	spec := s.sh(1, "trap 'exit 75' TERM; sleep 0.0"+strconv.Itoa(r.IntN(10)))
	spec.Stop = api.Stop{Mode: []string{"checkpoint", "freeze", "restart", "never"}[r.IntN(4)], Grace: 5}
	spec.Estimate = api.Of(time.Duration(1+r.IntN(100)) * time.Millisecond)
	switch r.IntN(8) {
	case 0:
		spec.Array = "0-2"
	case 1:
		spec.After = []api.After{{Job: s.any(r), Any: true}}
	case 2:
		spec.Held = true
	case 3:
		spec.GPUs = api.Range{Least: 1, Most: 2, Ask: 1}
	case 4:
		spec.Command = []string{"/no/such/program"}
	}
	return spec
}

// ask makes the request of an operation, ok is false where there is none of that name.
func (s *storm) ask(r *rand.Rand, operation string) (method, path string, body any, ok bool) {
	job := "/v1/jobs/" + s.any(r)
	switch operation {
	case "submit":
		return "POST", "/v1/jobs", s.submission(r), true
	case "jobs":
		return "GET", "/v1/jobs" + []string{"", "?all=true&limit=20", "?state=running,held", "?id=" + s.any(r)}[r.IntN(4)], nil, true
	case "job":
		return "GET", job, nil, true
	case "why":
		return "GET", job + "/why", nil, true
	case "cancel", "hold", "release", "requeue":
		return "POST", job + "/" + operation, nil, true
	case "resize":
		return "POST", job + "/resize", api.Resize{GPUs: float64(1 + r.IntN(2))}, true
	case "logs":
		return "GET", job + "/logs?follow=" + strconv.FormatBool(r.IntN(2) == 0), nil, true
	case "log":
		return "GET", "/v1/log", nil, true
	case "events":
		return "GET", "/v1/events?since=" + strconv.Itoa(r.IntN(2)), nil, true
	case "plan":
		return "POST", "/v1/plan", api.WhatIf{Policies: []string{"srtf"}}, true
	case "node", "status", "me", "policies", "forecast":
		return "GET", "/v1/" + operation, nil, true
	case "nodes":
		return "GET", "/v1/nodes" + []string{"", "?devices=true", "?state=up,draining&where=!spot"}[r.IntN(3)], nil, true
	case "reclaim":
		return "POST", "/v1/node/reclaim", api.Reclaim{Devices: []string{"slot0"}, Lend: r.IntN(3) > 0, Notice: new(api.Seconds(0.1)), Why: "a trial"}, true
	case "drain":
		return "POST", "/v1/node/drain", api.Drain{Devices: []string{"slot0"}, Undo: r.IntN(3) > 0, Why: "a trial"}, true
	case "input":
		return "POST", job + "/input", api.Input{Data: []byte("x"), Rows: 3, Cols: 4}, true
	case "fsck":
		return "GET", "/v1/fsck", nil, true
	case "repair":
		return "POST", "/v1/fsck", nil, true
	case "set-policy":
		return "PUT", "/v1/policy", server.Choice{Policy: []string{"fifo", "srtf", "tiresias", "las"}[r.IntN(4)]}, true
	case "allocation", "report":
		return map[string]string{"allocation": "GET", "report": "POST"}[operation], "/v1/task/" + operation, map[string]any{"allocation": nil, "report": api.Report{Step: 1}}[operation], true
	case "order":
		return "GET", "/v1/task/order?wait=1", nil, true
	case "healthz", "readyz", "metrics":
		return "GET", "/" + operation, nil, true
	}
	return "", "", nil, false
}

// tokenOf is the token of the first job's run, which lasts, or of a late one.
func (s *storm) tokenOf(r *rand.Rand) string {
	id := "1"
	if r.IntN(2) == 0 {
		id = s.any(r)
	}
	var run rundir.Run
	rundir.Read(s.runDir(id, 1), rundir.RunFile, &run)
	for _, v := range run.Env {
		if token, is := strings.CutPrefix(v, rundir.EnvToken+"="); is {
			return token
		}
	}
	return "none"
}

// fire sends the request of an operation, and returns what is wrong with its answer.
func (s *storm) fire(r *rand.Rand, operation string) error {
	method, path, body, _ := s.ask(r, operation)
	ctx, cancel := context.WithTimeout(background, 30*time.Second)
	defer cancel()
	if operation == "events" || operation == "order" || operation == "plan" && r.IntN(4) > 0 || strings.Contains(path, "follow=true") { // whoever watches leaves some time
		var leave context.CancelFunc
		ctx, leave = context.WithTimeout(ctx, time.Duration(1+r.IntN(20))*time.Millisecond)
		defer leave()
	}
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://norn"+path, text)
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(path, "/v1/task/") {
		q.Header.Set("Authorization", "Bearer "+s.tokenOf(r))
	}
	a, err := s.http.Do(q)
	if err != nil {
		if ctx.Err() != nil && background.Err() == nil && operation != "submit" {
			return nil
		}
		return err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if a.StatusCode >= 500 && a.StatusCode != http.StatusServiceUnavailable || err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s %s: %s, %s, %v", method, path, a.Status, b, err)
	}
	s.seen.Store(operation+" "+strconv.Itoa(a.StatusCode/100), true)
	var taken server.Submitted
	if operation == "submit" && a.StatusCode == http.StatusCreated {
		if err := json.Unmarshal(b, &taken); err != nil || len(taken.IDs) == 0 {
			return fmt.Errorf("%s: %w", b, err)
		}
		n, err := strconv.ParseInt(taken.IDs[0], 10, 64)
		for was := s.last.Load(); was < n && !s.last.CompareAndSwap(was, n); was = s.last.Load() {
		}
		return err
	}
	return nil
}

// operations are those that the server documents.
func (s *storm) operations() []string {
	s.t.Helper()
	a, err := s.http.Get("http://norn/openapi.json")
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.NewDecoder(a.Body).Decode(&doc); err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if _, _, _, ok := s.ask(rand.New(rand.NewPCG(1, 1)), op.OperationID); !ok {
				s.t.Fatalf("nobody asks for %s %s (%s)", method, path, op.OperationID)
			}
			out = append(out, op.OperationID)
		}
	}
	slices.Sort(out)
	return out
}

// TestEveryRouteAtOnce has every route of the server asked at the same moment as every
// other one, in thousands of rounds, while jobs come, run, are stopped and end and the
// policy changes. No request makes norn panic, and afterwards it schedules as before.
// NORN_ROUNDS says how often each pair is asked.
func TestEveryRouteAtOnce(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("NORN_ROUNDS"))
	if rounds = max(rounds, 5); testing.Short() {
		rounds = 1
	}
	var log journal
	s := newStorm(t, &log)
	operations := s.operations()
	long := s.submit(s.sh(1, "touch up; "+awaits("enough")))
	s.made("up")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	type pair [2]string
	work := make(chan pair)
	var asking sync.WaitGroup
	for lane := range uint64(6) {
		r := [2]*rand.Rand{rand.New(rand.NewPCG(seed, 2*lane)), rand.New(rand.NewPCG(seed, 2*lane+1))}
		asking.Go(func() {
			for p := range work {
				var both sync.WaitGroup
				for i, operation := range p {
					both.Go(func() {
						if err := s.fire(r[i], operation); err != nil {
							t.Errorf("%s beside %s: %v", operation, p[1-i], err)
						}
					})
				}
				both.Wait()
			}
		})
	}
	asked := 0
	for range rounds {
		for i, a := range operations {
			for _, b := range operations[i:] {
				if t.Failed() {
					break
				}
				work <- pair{a, b}
				asked++
			}
		}
	}
	close(work)
	asking.Wait()
	if text := log.String(); strings.Contains(text, "panic") {
		t.Errorf("the log tells of a panic:\n%s", text[strings.Index(text, "panic"):])
	}
	if t.Failed() {
		return
	}
	for _, verb := range []string{"submit 2", "jobs 2", "why 2", "cancel 2", "hold 2", "release 2", "allocation 2", "report 2", "resize 4"} {
		if _, ok := s.seen.Load(verb); !ok && !testing.Short() {
			t.Errorf("no %sxx among the answers", verb)
		}
	}
	if err := s.Drain(background, s.me, api.Drain{Devices: []string{"slot0"}, Undo: true}); err != nil {
		t.Fatal(err)
	}
	s.make("enough")
	s.finishAll()
	s.until(s.submit(s.sh(1, "true")), api.Done)
	if all, err := s.Jobs(background, s.me, api.Query{IDs: []string{long}}); err != nil || all[0].State != api.Done {
		t.Errorf("the job that lasted: %+v, %v", all, err)
	}
	t.Logf("%d pairs of %d operations", asked, len(operations))
}

// finishAll releases what is held and waits until every job has ended.
func (s *storm) finishAll() {
	s.t.Helper()
	until(s.t, "every job has ended", func() bool {
		all, err := s.Jobs(background, s.me, api.Query{})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, j := range all {
			if j.State == api.Held {
				s.Do(background, s.me, server.Release, j.ID)
			}
		}
		return len(all) == 0
	})
}
