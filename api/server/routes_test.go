package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
)

// refused asserts that an error is a refusal of a kind.
func refused(t testing.TB, err error, kind api.ErrorKind, part string) {
	t.Helper()
	var r *api.Error
	if !errors.As(err, &r) || r.Kind != kind || !strings.Contains(r.Text, part) {
		t.Errorf("have %v (%T), want a refusal of kind %d with %q", err, err, kind, part)
	}
}

// ok fails the test at an error.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A submission arrives as the user wrote it, with her as the caller.
func TestSubmit(t *testing.T) {
	r, ctx := start(t, nil), context.Background()
	spec := api.JobSpec{
		Name: "train", Tenant: "vision", App: "lr", Rungs: "4x8+1x2.5", Command: []string{"python3", "train.py", "--note", "ä<b>&\"\\\n"}, Dir: "/home/a b",
		Env: map[string]string{"PATH": "/bin", "Path": "other", "EMPTY": ""}, GPUs: api.Range{Least: 1, Most: 4, Ask: 2}, Tasks: api.Tasks{PerGPU: true},
		CPUs: 1.5, Memory: 4 << 30, GPUMem: 1 << 20, Types: []string{"NVIDIA H200"}, Priority: -3,
		After: []api.After{{Job: "3", Any: true}, {Job: "4_1"}}, Array: "1-3", Estimate: 90.5, Limit: 3600,
		Deadline: time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC), Held: true,
		Stop:  api.Stop{Mode: "checkpoint", Signal: "USR1", Command: []string{"save"}, Grace: 30, CRIU: true, Again: []int{75, 0}},
		Retry: api.Retry{Limit: -1, Backoff: 5}, Kind: "training", Model: "m", Backbone: "b", Dataset: "d", Share: true, Plan: "pipeline", Batch: 64, Units: 1e6, Unit: "steps",
	}
	ids, err := r.client.Submit(ctx, spec)
	ok(t, err)
	if !slices.Equal(ids, []string{"1"}) {
		t.Errorf("numbers %q", ids)
	}
	if have := r.fake.jobs[0].spec; !reflect.DeepEqual(have, spec) {
		t.Errorf("arrived as\n%+v\nwas\n%+v", have, spec)
	}
	want := Caller{User: me(t), UID: uint32(os.Getuid()), Local: true, Operator: true}
	groups, err := os.Getgroups()
	ok(t, err)
	want.GID, want.Grouped = uint32(os.Getgid()), true
	for _, g := range groups {
		want.Groups = append(want.Groups, uint32(g))
	}
	slices.Sort(want.Groups)
	have := r.fake.lastCaller()
	slices.Sort(have.Groups)
	if !reflect.DeepEqual(have, want) {
		t.Errorf("caller %+v, want %+v", have, want)
	}
	resp, err := r.http.Post("http://norn/v1/jobs", "application/json", strings.NewReader(`{"command":["true"],"gpus":"1-4:2","mem":"2GiB","limit":"1h30m"}`))
	ok(t, err)
	resp.Body.Close()
	if have := r.fake.jobs[1].spec; resp.StatusCode != http.StatusCreated || resp.Header.Get("Location") != "/v1/jobs/2" ||
		have.GPUs != (api.Range{Least: 1, Most: 4, Ask: 2}) || have.Memory != 2<<30 || have.Limit != 5400 {
		t.Errorf("%s %s: %+v", resp.Status, resp.Header, have)
	}
	if id := resp.Header.Get("X-Request-Id"); id == "" || !strings.Contains(r.log.String(), "request="+id) {
		t.Errorf("the log does not know request %q", id)
	}
}

// Text that JSON cannot carry is refused before it becomes something else.
func TestSubmitNoText(t *testing.T) {
	r := start(t, nil)
	for _, spec := range []api.JobSpec{
		{Command: []string{"cat", "\xff"}}, {Command: []string{"a"}, Dir: "/\xfe"}, {Command: []string{"a"}, Env: map[string]string{"A": "\xff"}},
	} {
		_, err := r.client.Submit(context.Background(), spec)
		refused(t, err, api.Invalid, "no UTF-8")
	}
}

// A query arrives as it was asked.
func TestQuery(t *testing.T) {
	r := start(t, nil)
	want := api.Query{
		IDs: []string{"1", "2_3"}, States: []api.State{api.Running, api.Waiting}, Users: []string{"anna", "b.c"}, Tenant: "a b", Name: "x&y=z,ä",
		All: true, Since: time.Date(2026, 3, 1, 12, 0, 0, 7, time.UTC), Until: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), Limit: 5,
	}
	_, err := r.client.Jobs(context.Background(), want)
	ok(t, err)
	if !reflect.DeepEqual(r.fake.query, want) {
		t.Errorf("asked\n%+v\nwant\n%+v", r.fake.query, want)
	}
	_, err = r.client.Jobs(context.Background(), api.Query{States: []api.State{api.Done}})
	ok(t, err)
	if !r.fake.query.All {
		t.Error("who asks for jobs that are done means those that have ended")
	}
	if _, body := r.ask(t, "GET", "/v1/jobs", ""); body != `{"jobs":[]}`+"\n" {
		t.Errorf("no jobs are %s", body)
	}
}

// One job is told, and what is done to it.
func TestOneJob(t *testing.T) {
	r, ctx := start(t, nil), context.Background()
	r.fake.add("anna", 3)
	j, err := r.client.Job(ctx, "2")
	ok(t, err)
	if !reflect.DeepEqual(j, r.fake.jobs[1].Job) {
		t.Errorf("have %+v", j)
	}
	why, err := r.client.Why(ctx, "2")
	ok(t, err)
	if why.Job.ID != "2" || why.Reason != "needs 2 GPUs, 1 is free" || why.Policy != "fifo" {
		t.Errorf("have %+v", why)
	}
	for _, step := range []struct {
		verb string
		want api.State
	}{{"hold", api.Held}, {"release", api.Waiting}, {"requeue", api.Waiting}, {"cancel", api.Cancelled}} {
		ok(t, r.client.Do(ctx, step.verb, "2"))
		if have := r.fake.jobs[1].State; have != step.want {
			t.Errorf("after %s it is %s", step.verb, have)
		}
	}
	refused(t, r.client.Do(ctx, "cancel", "2"), api.Conflict, "job 2 has ended")
	refused(t, r.client.Do(ctx, "explode", "2"), api.Unknown, "")
	ok(t, r.client.Resize(ctx, "3", api.Resize{GPUs: 3}))
	if r.fake.jobs[2].size != 3 {
		t.Errorf("resized to %v", r.fake.jobs[2].size)
	}
	_, err = r.client.Job(ctx, "99")
	refused(t, err, api.Unknown, "there is no job 99")
	r.fake.change(func() { r.fake.jobs[0].ID, r.fake.jobs[1].ID = "7_1", "7_2" })
	_, err = r.client.Job(ctx, "7")
	refused(t, err, api.Conflict, "an array of 2 jobs")
}

// The machine, the whole, the policy, the log.
func TestMachine(t *testing.T) {
	r, ctx := start(t, nil), context.Background()
	n, err := r.client.Node(ctx)
	ok(t, err)
	if !reflect.DeepEqual(n, fakeNode()) {
		t.Errorf("have %+v", n)
	}
	d := api.Drain{Devices: []string{"gpu1"}, Undo: true, Why: "repair"}
	ok(t, r.client.Drain(ctx, d))
	if !reflect.DeepEqual(r.fake.drained, d) {
		t.Errorf("have %+v", r.fake.drained)
	}
	taken := api.Reclaim{Devices: []string{"gpu0"}, Notice: new(api.Seconds(90)), Why: "peak"}
	meant, err := r.client.Reclaim(ctx, taken)
	ok(t, err)
	if len(meant) != 1 || meant[0] != "gpu0" || !reflect.DeepEqual(r.fake.reclaimed, taken) {
		t.Errorf("have %+v", r.fake.reclaimed)
	}
	ok(t, r.client.SetPolicy(ctx, "tiresias(limits=3600)"))
	st, err := r.client.Status(ctx)
	ok(t, err)
	if st.Policy != "tiresias(limits=3600)" || len(st.Tenants) != 1 {
		t.Errorf("have %+v", st)
	}
	refused(t, r.client.SetPolicy(ctx, "nonsense"), api.Invalid, "there is no policy nonsense")
	var log bytes.Buffer
	ok(t, r.client.EventLog(ctx, &log))
	if log.String() != "a log\x00and another" {
		t.Errorf("have %q", log.String())
	}
	r.fake.change(func() { r.fake.policy = "broken" })
	if err := r.client.EventLog(ctx, io.Discard); err == nil {
		t.Error("a log that broke off looks whole")
	}
}

// Signs of life.
func TestHealth(t *testing.T) {
	r := start(t, nil)
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if code, body := r.ask(t, "GET", path, ""); code != 200 || body != want {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	r.fake.change(func() { r.fake.notReady = errors.New("the log is being read: 40 % of it") })
	if code, body := r.ask(t, "GET", "/readyz", ""); code != 503 || !strings.Contains(body, "40 % of it") {
		t.Errorf("%d %q", code, body)
	}
	if code, _ := r.ask(t, "GET", "/healthz", ""); code != 200 {
		t.Error("a daemon that reads its log is alive")
	}
}

// A task speaks for its run, with the run's token.
func TestTask(t *testing.T) {
	r := start(t, nil)
	r.fake.add("anna", 1)
	do := func(method, path, body, token string) (int, string) {
		return ask(t, r.http, method, "http://norn/v1/task/"+path, body, token)
	}
	var a api.Allocation
	code, body := do("GET", "allocation", "", "token-1")
	if err := json.Unmarshal([]byte(body), &a); code != 200 || err != nil || a.Job != "1" || a.StopMode != "checkpoint" {
		t.Errorf("%d %s", code, body)
	}
	report := `{"step":12,"loss":0.5,"step_time":"250ms","compute_time":null,"stages":{"cpu":1.5},"quality":{"accuracy":0.25},"memory":"1GiB","checkpoint":{"step":10,"path":"/c"}}`
	if code, body = do("POST", "report", report, "token-1"); code != 200 || !strings.Contains(body, `"kind":"go-on"`) {
		t.Errorf("%d %s", code, body)
	}
	want := api.Report{Step: 12, Loss: 0.5, StepTime: 0.25, Stages: map[string]api.Seconds{"cpu": 1.5}, Quality: map[string]float64{"accuracy": 0.25},
		Memory: 1 << 30, Checkpoint: &api.Checkpoint{Step: 10, Path: "/c"}}
	if have := r.fake.jobs[0].report; !reflect.DeepEqual(have, want) {
		t.Errorf("have %+v", have)
	}
	if code, body = do("GET", "order?wait=0", "", "token-1"); code != 200 || !strings.Contains(body, "go-on") {
		t.Errorf("%d %s", code, body)
	}
	told := make(chan string)
	go func() {
		_, body := do("GET", "order?wait=60", "", "token-1")
		told <- body
	}()
	r.fake.change(func() {
		r.fake.jobs[0].order = api.Order{Kind: api.StopNow, Grace: 30, Size: 2, Why: "a more urgent job"}
	})
	select {
	case body := <-told:
		if !strings.Contains(body, `"kind":"stop"`) || !strings.Contains(body, `"grace":30`) {
			t.Error(body)
		}
	case <-time.After(patience):
		t.Fatal("the order was not told")
	}
	for _, token := range []string{"", "token-2", "token-1 x", "Token-1"} {
		for _, path := range []string{"allocation", "order"} {
			if code, body := do("GET", path, "", token); code != 401 || !strings.Contains(body, "token") {
				t.Errorf("token %q: %d %s", token, code, body)
			}
		}
		if code, _ := do("POST", "report", "{}", token); code != 401 {
			t.Errorf("token %q may report: %d", token, code)
		}
	}
}

// Each kind of refusal has a status, and the client gets it back.
func TestKinds(t *testing.T) {
	r := start(t, nil)
	for kind, status := range map[api.ErrorKind]int{
		api.Invalid: 400, api.Unknown: 404, api.Denied: 403, api.Conflict: 409, api.Unavailable: 503, api.NoToken: 401,
	} {
		text := fmt.Sprintf("a sentence for kind %d", kind)
		r.fake.change(func() { r.fake.failure = fmt.Errorf("wrapped: %w", api.Refuse(kind, "%s", text)) })
		if code, body := r.ask(t, "GET", "/v1/node", ""); code != status || !strings.Contains(body, text) {
			t.Errorf("kind %d: %d %s", kind, code, body)
		}
		_, err := r.client.Node(context.Background())
		refused(t, err, kind, text)
	}
}

// An internal error is logged, and its text is not sent to the client.
func TestMishaps(t *testing.T) {
	r := start(t, nil)
	r.fake.change(func() {
		r.fake.failure, r.fake.boom = errors.New("write /secret/place: broken"), "an index out of range"
	})
	for _, path := range []string{"/v1/node", "/v1/status"} {
		code, body := r.ask(t, "GET", path, "")
		if code != 500 || strings.Contains(body, "secret") || strings.Contains(body, "range") || !strings.Contains(body, "something went wrong") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for _, part := range []string{"write /secret/place: broken", "an index out of range", "fake_test.go"} {
		if !strings.Contains(r.log.String(), part) {
			t.Errorf("the log lacks %q", part)
		}
	}
	r.fake.change(func() { r.fake.failure, r.fake.boom = nil, nil })
	if _, err := r.client.Status(context.Background()); err != nil {
		t.Error(err)
	}
}

// Without a norn, the client says so.
func TestNobodyListens(t *testing.T) {
	path := socketPath(t)
	c, err := client.New(path, "", "")
	ok(t, err)
	_, err = c.Status(context.Background())
	var gone *client.NotRunning
	if !errors.As(err, &gone) || err.Error() != "no norn is running here (socket "+path+"): start it with norn up" {
		t.Errorf("have %v", err)
	}
	err = c.Watch(context.Background(), 0, func(api.Event) error { return nil })
	if !errors.As(err, &gone) {
		t.Errorf("have %v", err)
	}
}

// A job with a name is meant by it in every route, the slash included.
func TestNamedJob(t *testing.T) {
	r, ctx := start(t, nil), context.Background()
	r.fake.add("anna", 3)
	const id = "team-a/bert.x-1"
	r.fake.change(func() {
		for i := range 2 { // the first one has ended, and its name came again
			r.fake.jobs[i].ID, r.fake.jobs[i].Name = id, fmt.Sprint(i)
		}
		r.fake.jobs[0].State, r.fake.jobs[1].Run, r.fake.jobs[0].output, r.fake.jobs[1].output = api.Done, 1, []byte("a\n"), []byte("b\n")
	})
	if j, err := r.client.Job(ctx, id); err != nil || j.ID != id || j.Name != "1" {
		t.Errorf("%+v, %v", j, err)
	}
	r.fake.change(func() { r.fake.jobs = r.fake.jobs[1:] })
	if jobs, err := r.client.Jobs(ctx, api.Query{IDs: []string{id, "3"}}); err != nil || len(jobs) != 2 {
		t.Errorf("%+v, %v", jobs, err)
	}
	w, err := r.client.Why(ctx, id)
	ok(t, err)
	if w.Job.ID != id {
		t.Errorf("%+v", w)
	}
	for verb, state := range map[string]api.State{"hold": api.Held, "release": api.Waiting, "requeue": api.Waiting} {
		if ok(t, r.client.Do(ctx, verb, id)); r.fake.jobs[0].State != state {
			t.Errorf("%s: it is %s", verb, r.fake.jobs[0].State)
		}
	}
	ok(t, r.client.Resize(ctx, id, api.Resize{GPUs: 2}))
	ok(t, r.client.Input(ctx, id, api.Input{Data: []byte("x")}))
	logs, err := r.client.Logs(ctx, id, client.LogOptions{Tail: -1})
	ok(t, err)
	defer logs.Close()
	var out bytes.Buffer
	_, err = out.ReadFrom(logs)
	ok(t, err)
	if r.fake.jobs[0].size != 2 || string(r.fake.typed) != "x" || out.String() != "b\n" {
		t.Errorf("%v, %q, %q", r.fake.jobs[0].size, r.fake.typed, out.String())
	}
	ok(t, r.client.Do(ctx, "cancel", id))
	for _, id := range []string{"bert", "team-a/", "a/../b", "a/b/../c", "a//b", ".a/b", "a/b?c"} {
		_, err := r.client.Job(ctx, id)
		refused(t, err, api.Invalid, "expected string to be the number of a job, such as 17 or 17_3, or its name, such as team-a/bert")
	}
}

// A list of nodes is asked for as the user selects it, and arrives whole.
func TestNodes(t *testing.T) {
	r, ctx := start(t, nil), context.Background()
	q := api.NodeQuery{Names: []string{"a-1", "a-2"}, Pools: []string{"main"}, Types: []string{"NVIDIA H200"}, States: []string{"up", "draining"}, Where: "zone in (a,b), !spot", Devices: true}
	list, err := r.client.Nodes(ctx, q)
	ok(t, err)
	want, err := r.fake.Nodes(ctx, Caller{}, q)
	ok(t, err)
	if !reflect.DeepEqual(list, want) {
		t.Errorf("have\n%+v\nwant\n%+v", list, want)
	}
	if _, err := r.client.Nodes(ctx, q); err != nil || !reflect.DeepEqual(r.fake.nodes, q) {
		t.Errorf("asked for %+v, %v", r.fake.nodes, err)
	}
	if _, err := r.client.Nodes(ctx, api.NodeQuery{}); err != nil || !reflect.DeepEqual(r.fake.nodes, api.NodeQuery{}) {
		t.Errorf("asked for %+v, %v", r.fake.nodes, err)
	}
	_, err = r.client.Nodes(ctx, api.NodeQuery{States: []string{"lost"}})
	refused(t, err, api.Invalid, "up, draining, drained, down")
}
