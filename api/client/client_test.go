package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// to makes a client of a server that answers as the test says.
func to(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c, err := New(s.URL, "secret", "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A refusal of a server becomes a refusal of the right kind. If the server is
// not a norn, the client reports the answer.
func TestRefusal(t *testing.T) {
	problem := "application/problem+json"
	for _, c := range []struct {
		status      int
		media, body string
		kind        int // -1: no refusal
		text        string
	}{
		{400, problem, `{"detail":"a sentence"}`, int(api.Invalid), "a sentence"},
		{401, problem, `{"detail":"a sentence"}`, int(api.NoToken), "a sentence"},
		{403, "application/json; charset=utf-8", `{"detail":"a sentence"}`, int(api.Denied), "a sentence"},
		{404, problem, `{"detail":"a sentence"}`, int(api.Unknown), "a sentence"},
		{405, problem, `{"detail":"a sentence"}`, int(api.Invalid), "a sentence"},
		{409, problem, `{"detail":"a sentence"}`, int(api.Conflict), "a sentence"},
		{413, problem, `{"detail":"a sentence"}`, int(api.Invalid), "a sentence"},
		{503, problem, `{"detail":"a sentence"}`, int(api.Unavailable), "a sentence"},
		{500, problem, `{"detail":"a sentence"}`, -1, "a sentence"},
		{404, "text/html", "<h1>not here</h1>", int(api.Unknown), "answers 404 Not Found"},
		{404, problem, `{"detail":`, int(api.Unknown), "answers 404 Not Found"},
		{404, problem, `[]`, int(api.Unknown), "answers 404 Not Found"},
		{302, "text/html", "", -1, "answers 302 Found"},
		{200, "text/html", "<h1>hello</h1>", -1, "does not answer as norn does"},
		{200, "application/json", `{"jobs":7}`, -1, "does not answer as norn does"},
	} {
		client := to(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the token was carried elsewhere")
			}
			w.Header().Set("Content-Type", c.media)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		})
		_, err := client.Jobs(context.Background(), api.Query{})
		var refusal *api.Error
		is := errors.As(err, &refusal)
		if err == nil || is != (c.kind >= 0) || is && int(refusal.Kind) != c.kind || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%d %s %s: have %v (%T)", c.status, c.media, c.body, err, err)
		}
	}
}

// The token goes with every request, and job numbers stay where they belong.
func TestRequests(t *testing.T) {
	var path, token string
	c := to(t, func(w http.ResponseWriter, r *http.Request) {
		path, token = r.Method+" "+r.RequestURI, r.Header.Get("Authorization")
		io.WriteString(w, "{}")
	})
	ctx := context.Background()
	for want, call := range map[string]func() error{
		"GET /v1/jobs/1%2F..%2F2": func() error { _, err := c.Job(ctx, "1/../2"); return err },
		"GET /v1/jobs/1%3Fx/why":  func() error { _, err := c.Why(ctx, "1?x"); return err },
		"POST /v1/jobs/1/cancel":  func() error { return c.Do(ctx, "cancel", "1") },
		"GET /v1/jobs":            func() error { _, err := c.Jobs(ctx, api.Query{}); return err },
		"GET /v1/jobs?all=true&id=1%2C2&limit=3": func() error {
			_, err := c.Jobs(ctx, api.Query{IDs: []string{"1", "2"}, All: true, Limit: 3})
			return err
		},
		"GET /v1/jobs/7/logs?follow=true&run=2&tail=-1": func() error {
			b, err := c.Logs(ctx, "7", LogOptions{Run: 2, Tail: -1, Follow: true})
			if err == nil {
				b.Close()
			}
			return err
		},
	} {
		if err := call(); err != nil || path != want || token != "Bearer secret" {
			t.Errorf("asked %s with %q, %v; want %s", path, token, err, want)
		}
	}
}

// A connection that is refused, or cut, has a sentence.
func TestGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := "http://" + l.Addr().String()
	l.Close()
	c, err := New(addr, "secret", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Status(context.Background())
	var gone *NotRunning
	if !errors.As(err, &gone) || !strings.HasPrefix(err.Error(), "no norn answers at "+addr) {
		t.Errorf("have %v", err)
	}
	c = to(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err = c.Status(context.Background())
	if err == nil || errors.As(err, &gone) || !strings.Contains(err.Error(), "stopped answering") {
		t.Errorf("have %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("interrupted")
	cancel(reason)
	if _, err = c.Status(ctx); err != reason {
		t.Errorf("have %v", err)
	}
	if os.Getuid() == 0 {
		return // may open everything
	}
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(dir, 0); err != nil {
		t.Fatal(err)
	}
	c, err = New(filepath.Join(dir, "norn.sock"), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Status(context.Background()); err == nil || !strings.Contains(err.Error(), "no right to open") {
		t.Errorf("have %v", err)
	}
}

// A stream that breaks off is taken up behind the last event that was told,
// refusals for now are waited out, and others end the watch.
func TestWatch(t *testing.T) {
	var asked atomic.Int64
	c := to(t, func(w http.ResponseWriter, r *http.Request) {
		from := r.Header.Get("Last-Event-ID") + "/" + r.URL.Query().Get("since")
		send := func(seq int) {
			fmt.Fprintf(w, "id: %d\nevent: start\ndata:{\"seq\":%d,\ndata: \"job\":\"7\"}\n\n", seq, seq)
		}
		switch n := asked.Add(1); n {
		case 1:
			if from != "/5" {
				t.Errorf("began with %s", from)
			}
			io.WriteString(w, "retry: 1000\n\n: hello\n\n")
			send(5)
			send(6)
			io.WriteString(w, "id: 7\ndata: {\"seq\":") // half an event
		case 2:
			if from != "6/7" {
				t.Errorf("went on with %s", from)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			panic(http.ErrAbortHandler)
		case 4:
			if from != "6/7" {
				t.Errorf("went on with %s", from)
			}
			send(7)
		default:
			if from != "7/8" {
				t.Errorf("went on with %s", from)
			}
			w.WriteHeader(http.StatusForbidden)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var told []int64
	err := c.Watch(ctx, 5, func(e api.Event) error {
		if told = append(told, e.Seq); e.Job != "7" {
			t.Errorf("have %+v", e)
		}
		return nil
	})
	var refusal *api.Error
	if !errors.As(err, &refusal) || refusal.Kind != api.Denied || !reflect.DeepEqual(told, []int64{5, 6, 7}) {
		t.Errorf("told %v, ended with %v", told, err)
	}
	c = to(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if err := c.Watch(ctx, 0, nil); !errors.As(err, &refusal) || refusal.Kind != api.Unavailable {
		t.Errorf("a norn that is not ready at first: %v", err)
	}
}

// A list is read as package json would read it, as an older or a later norn writes it, too.
func TestJobs(t *testing.T) {
	var text string
	c := to(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text) })
	for _, text = range []string{
		`{"jobs":[{"id":"1","name":"a \"b\"\n","gpus":"1-4","tasks":"per-gpu","wait":1.5,"since":"2026-03-01T12:00:00.5Z","command":["a",""],"exit":{"code":1},"after":[{"job":"2"}]}]}`,
		`{"jobs":[{"id":"1","a field of a later version":{"x":[1]}}],"more":true}`, `{"jobs":null}`, `{"jobs":[{"id":"1","devices":null,"wait":null,"name":null}]}`,
		` { "jobs" : [ { "id" : "1" , "wait" : 1e2 } ] } `, `{"jobs":[{"gpus":"2","tasks":"3","mem":"4GiB"}]}`, `{}`, `{"jobs":[{"wait":"1h"}]}`,
	} {
		var want struct{ Jobs []api.Job }
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		have, err := c.Jobs(t.Context(), api.Query{})
		if err != nil || len(have) != len(want.Jobs) || len(have) > 0 && !reflect.DeepEqual(have, want.Jobs) {
			t.Errorf("%s is read as %+v, %v", text, have, err)
		}
	}
	for _, text = range []string{``, `[`, `{"jobs":[{]}`, `{"jobs":[{"id":1}]}`, `{"jobs":[]} x`, `{"jobs":[{"since":"today"}]}`, `{"jobs":[{"gpus":"x"}]}`} {
		if _, err := c.Jobs(t.Context(), api.Query{}); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
