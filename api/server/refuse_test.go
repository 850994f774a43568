package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

var deep = strings.Repeat("[", 200)

// badRequests make no sense, each in one way.
var badRequests = []struct {
	method, path, body string
	status             int
	want               string // in the sentence
}{
	{"POST", "/v1/jobs", `{"comand":["a"]}`, 400, "there is no field comand; did you mean command?"},
	{"POST", "/v1/jobs", `{"COMMAND":["a"]}`, 400, "there is no field COMMAND"},
	{"POST", "/v1/jobs", `{"stop":{"grase":1}}`, 400, "there is no field stop.grase; did you mean grace?"},
	{"POST", "/v1/jobs", `{"after":[{"job":"1","al":true}]}`, 400, "there is no field after[0].al"},
	{"POST", "/v1/jobs", `{"after":[{}]}`, 400, "after[0]: job is missing"},
	{"POST", "/v1/jobs", `{"gpus":true}`, 400, "gpus: expected a number of GPUs"},
	{"POST", "/v1/jobs", `{"gpus":"two"}`, 400, "gpus: expected a number of GPUs"},
	{"POST", "/v1/jobs", `{"gpus":-1}`, 400, "gpus: expected"},
	{"POST", "/v1/jobs", `{"gpus":"4-1"}`, 400, `"4-1" is not a number of GPUs`},
	{"POST", "/v1/jobs", `{"gpus":"1-2-3"}`, 400, "gpus: expected"},
	{"POST", "/v1/jobs", `{"gpus":2.5}`, 400, "more than one GPU must be a whole number"},
	{"POST", "/v1/jobs", `{"tasks":"many"}`, 400, "tasks: expected a number of processes, or per-gpu"},
	{"POST", "/v1/jobs", `{"tasks":0}`, 400, "tasks: expected"},
	{"POST", "/v1/jobs", `{"limit":-5}`, 400, "limit: expected seconds, or text such as 90s"},
	{"POST", "/v1/jobs", `{"limit":"-5s"}`, 400, "limit: expected seconds"},
	{"POST", "/v1/jobs", `{"limit":"5 weeks"}`, 400, `"5 weeks" is not a duration`},
	{"POST", "/v1/jobs", `{"mem":"lots"}`, 400, "mem: expected a number of bytes"},
	{"POST", "/v1/jobs", `{"mem":-1}`, 400, "mem: expected"},
	{"POST", "/v1/jobs", `{"cpus":-1}`, 400, "cpus: expected number >= 0"},
	{"POST", "/v1/jobs", `{"cpus":"1"}`, 400, "cpus: expected number"},
	{"POST", "/v1/jobs", `{"cpus":1e400}`, 400, "out of range"},
	{"POST", "/v1/jobs", `{"priority":1e30}`, 400, "priority: number 1e30"},
	{"POST", "/v1/jobs", `{"priority":0.5}`, 400, "priority: expected integer"},
	{"POST", "/v1/jobs", `{"command":"ls -l"}`, 400, "command: expected array"},
	{"POST", "/v1/jobs", `{"command":[1]}`, 400, "command[0]: expected string"},
	{"POST", "/v1/jobs", `{"env":["A=b"]}`, 400, "env: expected object"},
	{"POST", "/v1/jobs", `{"deadline":"tomorrow"}`, 400, "deadline: expected string to be RFC 3339"},
	{"POST", "/v1/jobs", `{"stop":{"mode":"maybe"}}`, 400, "checkpoint, freeze, restart, never, last-save"},
	{"POST", "/v1/jobs", `{"name":"` + strings.Repeat("n", 201) + `"}`, 400, "name: expected length <= 200"},
	{"POST", "/v1/jobs", `{"limit":1,"limit":-5}`, 400, "the field limit is there twice"},
	{"POST", "/v1/jobs", `{"stop":{"grace":-5},"stop":{}}`, 400, "the field stop is there twice"},
	{"POST", "/v1/jobs", `{"command":["a\u0000b"]}`, 400, "NUL"},
	{"POST", "/v1/jobs", "{\"command\":[\"\xff\"]}", 400, "no UTF-8"},
	{"POST", "/v1/jobs", `{"command":`, 400, "ends in the middle"},
	{"POST", "/v1/jobs", `{"command":["a"],}`, 400, "is no JSON"},
	{"POST", "/v1/jobs", `command=a`, 400, "is no JSON"},
	{"POST", "/v1/jobs", `{} {}`, 400, "is no JSON"},
	{"POST", "/v1/jobs", `[]`, 400, "expected object"},
	{"POST", "/v1/jobs", `null`, 400, "expected object"},
	{"POST", "/v1/jobs", ` `, 400, "ends in the middle"},
	{"POST", "/v1/jobs", ``, 400, "needs a body"},
	{"POST", "/v1/jobs", deep, 400, "nested deeper than 32"},
	{"POST", "/v1/jobs", `{"env":` + deep + `}`, 400, "nested deeper than 32"},
	{"POST", "/v1/jobs", `{"name":"` + strings.Repeat("n", 5000) + `"}`, 413, "larger than 4096 bytes"},
	{"POST", "/v1/jobs/1/hold", strings.Repeat("n", 5000), 413, "larger than 4096 bytes"},
	{"POST", "/v1/jobs/1/resize", `{}`, 400, "gpus is missing"},
	{"POST", "/v1/jobs/1/resize", `{"gpus":"all"}`, 400, "gpus: expected number"},
	{"POST", "/v1/node/reclaim", `{"notice":-1}`, 400, "notice"},
	{"POST", "/v1/node/reclaim", `{"notice":4e7}`, 400, "notice"},
	{"POST", "/v1/node/reclaim", `{"count":-1}`, 400, "count"},
	{"POST", "/v1/node/drain", `{"device":"gpu0"}`, 400, "did you mean devices?"},
	{"PUT", "/v1/policy", `{"policy":""}`, 400, "policy: expected length >= 1"},
	{"POST", "/v1/task/report", `{"step":-1}`, 400, "step: expected number >= 0"},
	{"POST", "/v1/task/report", `{"loss":NaN}`, 400, "is no JSON"},
	{"GET", "/v1/jobs?stat=x", "", 400, "there is no parameter stat; did you mean state?"},
	{"GET", "/v1/jobs?state=runing", "", 400, "held, waiting, assigned, running"},
	{"GET", "/v1/jobs?since=yesterday", "", 400, "since: expected a moment such as"},
	{"GET", "/v1/jobs?limit=-1", "", 400, "limit: expected number >= 0"},
	{"GET", "/v1/jobs?limit=x", "", 400, "limit: invalid integer"},
	{"GET", "/v1/jobs?all=perhaps", "", 400, "all: invalid boolean"},
	{"GET", "/v1/jobs?id=1,../2", "", 400, "id[1]: expected string to be the number of a job"},
	{"GET", "/v1/jobs/1/logs?tail=-2", "", 400, "tail: expected number >= -1"},
	{"GET", "/v1/jobs/1/logs?run=-1", "", 400, "run: expected number >= 0"},
	{"GET", "/v1/jobs/1/logs?run=2", "", 404, "has no run 2"},
	{"GET", "/v1/events?since=-1", "", 400, "since: expected number >= 0"},
	{"GET", "/v1/task/order?wait=301", "", 400, "wait: expected number <= 300"},
	{"GET", "/v1/nothing", "", 404, "there is nothing at"},
	{"GET", "/docs", "", 404, "there is nothing at"},
	{"DELETE", "/v1/jobs/1", "", 405, "what does is GET"},
	{"PATCH", "/v1/policy", "", 405, "what does is PUT"},
}

// A request that makes no sense is refused with a sentence that says where the
// mistake is.
func TestRefusals(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxBody = 4096 })
	r.fake.add("anna", 1)
	for _, c := range badRequests {
		code, body := ask(t, r.http, c.method, "http://norn"+c.path, c.body, "token-1")
		var p struct {
			Title, Detail string
			Status        int
		}
		err := json.Unmarshal([]byte(body), &p)
		if code != c.status || p.Status != c.status || !strings.Contains(p.Detail, c.want) || p.Title != http.StatusText(c.status) {
			t.Errorf("%s %s %.60s:\n have %d %s (%v)\n want %d with %q", c.method, c.path, c.body, code, body, err, c.status, c.want)
		}
		if len(body) > 4000 {
			t.Errorf("%s %s %.60s: the answer is %d bytes long", c.method, c.path, c.body, len(body))
		}
	}
	if n := len(r.fake.jobs); n != 1 {
		t.Errorf("%d jobs were taken in", n-1)
	}
}

// A name of a job is a number; no way leads from it to a file or another route.
func TestPathTricks(t *testing.T) {
	r := start(t, nil)
	r.fake.add("anna", 1)
	for _, id := range []string{
		"..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "1%2f..%2f2", "1%00", "1%0a", "%31%2e", "-1", "+1", "1_", "_1", "1__2", "1_2_3", "0x1", "1e3", "1.0",
		"*", "{id}", "1;2", "1,2", "１", "%ef%bc%91", "a", strings.Repeat("1", 33), "1%20", "%201", "%", "%zz", "..;",
		"1\\..\\2", "~", "$HOME", "1?", "1#", "C:", "file:%2f%2f%2fetc%2fpasswd", "1%252f", "'", "\"", "<script>",
	} {
		for _, tail := range []string{"/why", "/logs", "/cancel", "/resize"} {
			method, body := "GET", ""
			if tail == "/cancel" || tail == "/resize" {
				method, body = "POST", `{"gpus":1}`
			}
			code := raw(t, r.Socket, method, "/v1/jobs/"+id+tail, body)
			if code != 400 && code != 404 && code != 405 && !(code/100 == 3) && !strings.ContainsAny(id, "?#") {
				t.Errorf("%s of job %q: %d", tail, id, code)
			}
		}
	}
	for _, path := range []string{
		"/../etc/passwd", "//etc/passwd", "/v1/../../etc/passwd", "/v1/jobs/../../../etc/passwd", "/v1//jobs", "/./v1/jobs/./1", "/v1/jobs/1/logs/../../../x",
		"/%2e%2e/etc/passwd", "/openapi.json/../../x", "/v1/jobs/1/logs/x", "/v1/jobs/1/logs%2fx", "/v1/log/x", "/metrics/x", "*", "http://other/etc/passwd",
		"/v1/%74ask/allocation", "//v1/task/allocation", "/v1/task/../jobs", "/v1/task/..%2fjobs", "/v1%2ftask/allocation", "/v1/./task/order",
	} {
		if code := raw(t, r.Socket, "GET", path, ""); code/100 == 2 || code >= 500 {
			t.Errorf("%s: %d", path, code)
		}
	}
	if s := r.fake.jobs[0].State; s != "waiting" {
		t.Errorf("the job is %s now", s)
	}
	if strings.Contains(r.log.String(), "panic") {
		t.Error(r.log)
	}
}

// raw sends a request line as it is, unlike package http, and returns the status.
func raw(t *testing.T, socket, method, target, body string) int {
	t.Helper()
	c := dial(t, socket)
	defer c.Close()
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: norn\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, target, len(body), body)
	return statusLine(t, c)
}

// A body without a length is bounded, too, whatever route it is sent to.
func TestEndlessBody(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxBody = 1 << 16 })
	r.fake.add("anna", 1)
	for _, path := range []string{"/v1/jobs", "/v1/jobs/1/cancel", "/v1/task/report"} {
		req, err := http.NewRequest("POST", "http://norn"+path, io.LimitReader(endless{}, 1<<30))
		ok(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer token-1")
		resp, err := r.http.Do(req)
		if err != nil {
			continue // the connection was closed before all was sent: as good
		}
		resp.Body.Close()
		if resp.StatusCode != 413 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	if s := r.fake.jobs[0].State; s != "waiting" {
		t.Errorf("the job is %s now", s)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Bodies take up so much memory in all, half of it for one user, and give it back.
func TestManyLargeBodies(t *testing.T) {
	token := "s3cret"
	r := start(t, func(c *Config) {
		c.TCP = &TCP{Addr: "127.0.0.1:0", Tokens: []Token{{Name: "a", SHA256: hashToken(token), User: "anna"}}}
	})
	bodies := func() int64 {
		r.conns.mu.Lock()
		defer r.conns.mu.Unlock()
		return r.conns.bodies
	}
	half := dial(t, r.Socket)
	defer half.Close()
	io.WriteString(half, "POST /v1/jobs HTTP/1.1\r\nHost: norn\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat(" ", 3*bodyPiece))
	until(t, "half a body is on its way", func() bool { return bodies() >= 2*bodyPiece })
	mine := &conn{owner: owner(os.Getuid())}
	r.conns.hold(mine, bodiesAtOnce*r.MaxBody/2, 0) // as if she had sent as much as she may
	if code, text := r.ask(t, "POST", "/v1/jobs", `{"command":["true"]}`); code != 503 || !strings.Contains(text, "try again") {
		t.Errorf("one too many is told %d %s", code, text)
	}
	if code, text := ask(t, &http.Client{Timeout: patience}, "POST", "http://"+r.Addr().String()+"/v1/jobs", `{"command":["true"]}`, token); code != 201 {
		t.Errorf("one user keeps another out: %d %s", code, text)
	}
	r.conns.hold(mine, -bodiesAtOnce*r.MaxBody/2, 0)
	if code, text := r.ask(t, "POST", "/v1/jobs", `{"command":["true"]}`); code != 201 {
		t.Errorf("%d %s", code, text)
	}
	half.Close()
	until(t, "all memory is given back", func() bool { return bodies() == 0 })
	if len(r.fake.jobs) != 2 {
		t.Errorf("%d jobs were taken in", len(r.fake.jobs))
	}
}

// A body of exactly the limit is taken.
func TestLargestBody(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxBody = 5000 })
	for size, want := range map[int]int{4999: 201, 5000: 201, 5001: 413} {
		body := `{"command":["true"]}`
		body += strings.Repeat(" ", size-len(body))
		if code, text := r.ask(t, "POST", "/v1/jobs", body); code != want {
			t.Errorf("%d bytes: %d %s", size, code, text)
		}
	}
}

// Other sorts of bodies are refused by name.
func TestContentType(t *testing.T) {
	r := start(t, nil)
	for media, want := range map[string]int{
		"application/json": 201, "application/json; charset=utf-8": 201, "": 201,
		"application/x-www-form-urlencoded": 415, "text/plain": 415, "application/cbor": 415, "a;b+c": 415,
	} {
		req, err := http.NewRequest("POST", "http://norn/v1/jobs", strings.NewReader(`{"command":["true"]}`))
		ok(t, err)
		req.Header.Set("Content-Type", media)
		resp, err := r.http.Do(req)
		ok(t, err)
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q: %s %s", media, resp.Status, text)
		}
	}
}

// FuzzJobSpec holds what a body can do to the server: it is taken as a job that
// is told again in the same words, or refused with a sentence; nothing breaks.
func FuzzJobSpec(f *testing.F) {
	for _, seed := range []string{
		`{"command":["true"]}`, `{"command":["a"],"gpus":"1-4:2","tasks":"per-gpu","mem":"4GiB","limit":"1h30m","deadline":"2026-03-01T12:00:00Z"}`,
		`{"command":["a"],"gpus":0.5,"tasks":2,"env":{"A":"b"},"after":[{"job":"1","any":true}],"stop":{"mode":"freeze","grace":"30s"},"retry":{"limit":-1}}`,
		`{"command":null,"gpus":null,"env":{}}`, `{"a":`, `[[[[`, `{"command":["\u0000"]}`, `{"limit":1e308}`, `"x"`, `{"gpus":{"Least":1}}`, `{"":""}`, "{\"a\":1}\x00",
	} {
		f.Add([]byte(seed))
	}
	back := newFake()
	s, err := New(Config{Backend: back, Socket: socketPath(f)})
	if err != nil {
		f.Fatal(err)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	f.Cleanup(func() { s.Serve(over) })
	post := func(body []byte) *httptest.ResponseRecorder {
		req := httptest.NewRequest("POST", "/v1/jobs", strings.NewReader(string(body)))
		req = req.WithContext(context.WithValue(req.Context(), connKey{}, &conn{limits: s.conns, caller: func() Caller { return Caller{User: "anna", Local: true} }}))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		return w
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		back.jobs, back.events, back.callers = nil, nil, nil
		w := post(body)
		if w.Code == http.StatusCreated {
			spec := back.jobs[0].spec
			text, err := json.Marshal(spec)
			if err != nil {
				t.Fatalf("%s was taken as what cannot be told: %v", body, err)
			}
			if w = post(text); w.Code != http.StatusCreated {
				t.Fatalf("%s was taken, and told again as %s refused: %s", body, text, w.Body)
			}
			again, _ := json.Marshal(back.jobs[1].spec)
			if string(again) != string(text) {
				t.Fatalf("%s was taken as\n%s, and that as\n%s", body, text, again)
			}
			return
		}
		var p struct{ Detail string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Detail == "" || w.Code/100 != 4 || len(back.jobs) != 0 {
			t.Fatalf("%s: %d %s", body, w.Code, w.Body)
		}
	})
}
