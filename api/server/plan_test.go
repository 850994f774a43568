package server

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The policies are told to everybody, what-ifs are for operators, and one that makes no
// sense is refused with the place.
func TestPlan(t *testing.T) {
	r := start(t, func(c *Config) { c.TCP = &TCP{Addr: "127.0.0.1:0", Tokens: tokens} })
	code, body := r.ask(t, "GET", "/v1/policies", "")
	if code != 200 || !strings.Contains(body, `{"name":"srtf","title":"shortest remaining time first","source":"classic","acts":["preempts"]}`) {
		t.Errorf("%d %s", code, body)
	}
	for _, c := range []struct{ body, word string }{
		{`{}`, "policies is missing"}, {`{"policies":[],"grow":5}`, "grow"}, {`{"policies":["a","b","c","d","e"]}`, "policies"}, {`{"policy":"srtf"}`, "there is no field policy"},
		{`{"policies":["srtf"],"since":"yesterday"}`, "since"},
	} {
		if code, body := r.ask(t, "POST", "/v1/plan", c.body); code != 400 || !strings.Contains(body, c.word) {
			t.Errorf("%s: %d %s", c.body, code, body)
		}
	}
	if code, body := r.ask(t, "POST", "/v1/plan", `{"policies":["srtf"],"since":"2026-03-01T12:00:00Z"}`); code != 200 || !strings.Contains(body, `"name":"srtf"`) || !strings.Contains(body, `"from":"2026-03-01T12:00:00Z"`) {
		t.Errorf("%d %s", code, body)
	}
	url, plain := "http://"+r.Addr().String(), &http.Client{Timeout: patience}
	for token, want := range map[string]int{"": 401, "anna's token": 403, "the robot's token": 200} {
		if code, body := ask(t, plain, "POST", url+"/v1/plan", `{"policies":["srtf"]}`, token); code != want {
			t.Errorf("token %q: %d %s", token, code, body)
		}
	}
}

// A what-if is given up when its client leaves.
func TestPlanGivenUp(t *testing.T) {
	r := start(t, nil)
	ctx, leave := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", "http://norn/v1/plan", bytes.NewReader([]byte(`{"policies":["slow"]}`)))
	ok(t, err)
	req.Header.Set("Content-Type", "application/json")
	ended := make(chan error, 1)
	go func() {
		_, err := r.http.Do(req)
		ended <- err
	}()
	within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ok(t, r.fake.wait(within, func() bool { return len(r.fake.callers) > 0 }))
	leave()
	if err := <-ended; err == nil {
		t.Error("it was answered")
	}
	ok(t, r.fake.wait(within, func() bool { return r.fake.gaveUp }))
}
