package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
)

var followAll = client.LogOptions{Tail: -1, Follow: true}

// Output is told as it is written, until the run is over.
func TestLogs(t *testing.T) {
	r, ctx := start(t, nil), context.Background()
	r.fake.add("anna", 1)
	j := r.fake.jobs[0]
	write := func(text string) { r.fake.change(func() { j.output = append(j.output, text...) }) }
	write("one\ntwo\nthree\n")
	read := func(o client.LogOptions) string {
		body, err := r.client.Logs(ctx, "1", o)
		ok(t, err)
		defer body.Close()
		text, err := io.ReadAll(body)
		ok(t, err)
		return string(text)
	}
	for tail, want := range map[int]string{-1: "one\ntwo\nthree\n", 0: "", 1: "three\n", 2: "two\nthree\n", 9: "one\ntwo\nthree\n"} {
		if have := read(client.LogOptions{Tail: tail}); have != want {
			t.Errorf("the last %d lines are %q", tail, have)
		}
	}
	body, err := r.client.Logs(ctx, "1", client.LogOptions{Tail: 1, Follow: true, Run: 1})
	ok(t, err)
	defer body.Close()
	lines := bufio.NewReader(body)
	for _, want := range []string{"three\n", "four\n", "five\n"} {
		if have, err := lines.ReadString('\n'); have != want || err != nil {
			t.Fatalf("have %q, %v; want %q", have, err, want)
		}
		if want == "three\n" {
			write("four\n")
		} else if want == "four\n" {
			write("five\nsi")
		}
	}
	r.fake.change(func() { j.output, j.State = append(j.output, "x\n"...), api.Done })
	rest, err := io.ReadAll(lines)
	if string(rest) != "six\n" || err != nil {
		t.Errorf("have %q, %v", rest, err)
	}
	_, err = r.client.Logs(ctx, "1", client.LogOptions{Run: 7})
	refused(t, err, api.Unknown, "has no run 7")
	_, err = r.client.Logs(ctx, "2", client.LogOptions{})
	refused(t, err, api.Unknown, "there is no job 2")
}

// A client that stops listening leaves nothing behind.
func TestLogsLeft(t *testing.T) {
	r := start(t, nil)
	r.fake.add("anna", 1)
	ctx, cancel := context.WithCancel(context.Background())
	body, err := r.client.Logs(ctx, "1", followAll)
	ok(t, err)
	defer body.Close()
	cancel()
	if _, err := io.ReadAll(body); !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
	until(t, "the connection is given up", func() bool { open, _, _ := r.conns.count(); return open == 0 })
}

// sse reads server-sent events of a raw stream: id, kind and data of each.
func sse(t *testing.T, r io.Reader, n int) (ids, kinds, data []string) {
	t.Helper()
	lines := bufio.NewScanner(r)
	for len(data) < n && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			ids = append(ids, value)
		case "event":
			kinds = append(kinds, value)
		case "data":
			data = append(data, value)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return ids, kinds, data
}

// The stream of events is what the standard says: numbers, kinds, one line of
// data, signs of life, and Last-Event-ID to go on.
func TestEvents(t *testing.T) {
	r := start(t, func(c *Config) { c.times = defaultTimes(); c.times.beat = 20 * time.Millisecond })
	r.fake.add("anna", 3)
	r.fake.change(func() { r.fake.tell("bad\nid: 9", "1", "anna", "line\nline") })
	get := func(query, last string) *http.Response {
		req, err := http.NewRequest("GET", "http://norn/v1/events"+query, nil)
		ok(t, err)
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		resp, err := r.http.Do(req)
		ok(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	resp := get("", "")
	if have := resp.Header.Get("Content-Type"); have != "text/event-stream" {
		t.Errorf("it is %s", have)
	}
	ids, kinds, data := sse(t, resp.Body, 4)
	if !slices.Equal(ids, []string{"1", "2", "3", "4"}) || !slices.Equal(kinds, []string{"submit", "submit", "submit", "bad-id:-9"}) {
		t.Errorf("ids %q, kinds %q", ids, kinds)
	}
	if !strings.Contains(data[1], `"seq":2`) || !strings.Contains(data[1], `"job":"2"`) || !strings.Contains(data[3], `line\nline`) {
		t.Errorf("data %q", data)
	}
	if ids, _, _ := sse(t, get("?since=3", "").Body, 2); !slices.Equal(ids, []string{"3", "4"}) {
		t.Errorf("since 3: %q", ids)
	}
	if ids, _, _ := sse(t, get("?since=1", "2").Body, 2); !slices.Equal(ids, []string{"3", "4"}) {
		t.Errorf("behind 2: %q", ids)
	}
	beats := bufio.NewScanner(get("?since=99", "").Body)
	for n := 0; n < 3 && beats.Scan(); {
		if strings.HasPrefix(beats.Text(), ":") {
			n++
		}
	}
	if beats.Err() != nil {
		t.Error(beats.Err())
	}
	for _, last := range []string{"x", "-1", "9223372036854775807", "1 "} {
		want := 400
		if last == "1 " { // package http trims it
			want = 200
		}
		if have := get("", last).StatusCode; have != want {
			t.Errorf("Last-Event-ID %q: %d", last, have)
		}
	}
}

// A watcher is told every event once and in order, although she is cut off again
// and again for being slow, and although the server is started anew meanwhile.
func TestWatchGoesOn(t *testing.T) {
	r := start(t, nil)
	r.fake.slow = 7
	r.fake.add("anna", 20)
	enough := errors.New("enough")
	var seen []int64
	anew, told := make(chan bool), make(chan error, 1)
	go func() {
		told <- r.client.Watch(context.Background(), 3, func(e api.Event) error {
			if e.Kind == "submit" && e.Job != fmt.Sprint(e.Seq) {
				t.Errorf("event %d is about job %s", e.Seq, e.Job)
			}
			if seen = append(seen, e.Seq); len(seen) == 10 {
				close(anew)
			}
			if e.Seq == 40 {
				return enough
			}
			return nil
		})
	}()
	<-anew
	ok(t, r.stop())
	second, err := New(Config{Backend: r.fake, Socket: r.Socket, Operators: func(uint32, string) bool { return true }})
	ok(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- second.Serve(ctx) }()
	defer func() { cancel(); <-ended }()
	r.fake.add("anna", 20)
	select {
	case err := <-told:
		if err != enough {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("not all was told")
	}
	for i, seq := range seen {
		if seq != int64(i+3) {
			t.Fatalf("told %v", seen)
		}
	}
	if len(seen) != 38 {
		t.Errorf("told %d events", len(seen))
	}
}

// A watch ends with its context.
func TestWatchEnds(t *testing.T) {
	r := start(t, nil)
	r.fake.add("anna", 1)
	ctx, cancel := context.WithCancel(context.Background())
	err := r.client.Watch(ctx, 0, func(api.Event) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
}
