package gate

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/policy/tokens"
)

// A stream comes through token by token, as soon as each is there; the server sees neither the client's key nor its other
// headers, and the usage for which only the gate has asked does not come through.
func TestStream(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr+"/v1", Options{UpstreamKey: "of-the-server"}, "alice")
	r := h.request(t.Context(), "alice", "POST", "/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"one two three"}],"max_tokens":3,"stream":true,"seed":1e2}`)
	r.Header.Set("Cookie", "a=b")
	r.Header.Set("X-Request-Id", "mine")
	resp, err := h.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" || resp.Header.Get("Norn-Request") != "0" || resp.Header.Get("Norn-Waited") == "" {
		t.Errorf("%d, %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	next := func() string {
		for lines.Scan() {
			if lines.Text() != "" {
				return lines.Text()
			}
		}
		return "end"
	}
	if got := next(); !strings.Contains(got, "assistant") {
		t.Errorf("first comes %s", got)
	}
	for range 3 {
		f.steps(1)
		if got := next(); !strings.Contains(got, `"x "`) { // before the server may go on
			t.Errorf("then comes %s", got)
		}
	}
	if got := next() + next(); got != "data: [DONE]end" {
		t.Errorf("in the end comes %s", got)
	}
	q := f.requests()[0]
	if q.header.Get("Authorization") != "Bearer of-the-server" || q.header.Get("Cookie") != "" || q.header.Get("X-Request-Id") != "mine" || !q.Options.Usage || !strings.Contains(q.text, `"seed":1e2`) {
		t.Errorf("the server was sent %v %s", q.header, q.text)
	}
	if c := *h.boardOf("alice").Clients[0].Counter; c != 3+2*3 {
		t.Errorf("alice was charged %v, want 9", c)
	}
}

// Who asks for the usage gets it, and one who knows no usage is not asked for it.
func TestUsage(t *testing.T) {
	f := newFake(t)
	h := newHouse(t, "http://"+f.addr, Options{}, "alice")
	a := h.post("alice", `{"prompt":"one two","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`)
	if !strings.Contains(a.text, `"completion_tokens":2`) {
		t.Errorf("the usage is missing: %s", a.text)
	}
	h = newHouse(t, "http://"+f.addr, Options{NoUsage: true}, "alice")
	a = h.post("alice", `{"prompt":"one two","max_tokens":2,"stream":true}`)
	n, done := tokensOf(a.text)
	if last := f.requests()[1]; n != 2 || !done || last.Options.Usage {
		t.Errorf("%s: asked with %s", a.text, last.text)
	}
	// 7 bytes are taken to be 2 tokens, and 2 tokens were counted.
	if c := *h.boardOf("alice").Clients[0].Counter; c != 2+2*2 {
		t.Errorf("alice was charged %v, want 6", c)
	}
}

// Answers that come as a whole are charged by what the server says; what it refuses costs nothing; models need no place in the
// line; and what is no work for the model is not let through.
func TestWhole(t *testing.T) {
	f := newFake(t)
	h := newHouse(t, "http://"+f.addr, Options{}, "alice", "bob")
	a := h.post("alice", `{"prompt":"one two three","max_tokens":5}`)
	if a.status != 200 || !strings.Contains(a.text, "x x x x x") || a.header.Get("Norn-Request") != "0" {
		t.Errorf("%+v", a)
	}
	if c := *h.boardOf("alice").Clients[0].Counter; c != 3+2*5 {
		t.Errorf("alice was charged %v, want 13", c)
	}
	f.answer = func(w http.ResponseWriter, _ *http.Request, _ asked) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":{"message":"no such model"}}`)
	}
	a = h.post("bob", `{"prompt":"one two three","stream":true}`)
	if b := h.boardOf("bob"); a.status != 400 || !strings.Contains(a.text, "no such model") || *b.Clients[0].Counter > 13 || b.InFlight != 0 {
		t.Errorf("%+v, %+v", a, b)
	}
	if a := h.get("bob", "/v1/models"); a.status != 200 || !strings.Contains(a.text, "tiny") {
		t.Errorf("%+v", a)
	}
	for _, path := range []string{"/v1/load_lora_adapter", "/v1/models/../load_lora_adapter", "/shutdown", "/health", "/"} {
		if a := h.do(h.request(t.Context(), "bob", "POST", path, "{}")); a.status != 404 && a.status != 405 {
			t.Errorf("POST %s: %+v", path, a)
		}
	}
	for _, path := range []string{"/v1/models/%2e%2e/x", "/v1/models/a%2f..%2f..%2fx"} {
		if a := h.get("bob", path); a.status != 404 {
			t.Errorf("GET %s: %+v", path, a)
		}
	}
	if n := len(f.requests()); n != 2 {
		t.Errorf("the server has seen %d requests, want 2", n)
	}
}

// While the server has as many tokens as may be in flight, requests wait in the order of the policy, and not in the one in which
// they came.
func TestOrder(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr, Options{InFlight: 12, Reserve: 8}, "flood", "ann", "bob:2")
	var all []<-chan answer
	send := func(client string, n int) {
		for range n {
			all = append(all, h.later(t.Context(), client, fmt.Sprintf(`{"prompt":"a b c","max_tokens":8,"user":%q}`, client)))
			until(t, "the request is in the line", func() bool {
				h.line.mu.Lock()
				defer h.line.mu.Unlock()
				return h.line.next == len(all)
			})
		}
	}
	send("flood", 6)
	send("ann", 2)
	send("bob", 3)
	f.steps(8 * len(all))
	for _, a := range all {
		if got := <-a; got.status != 200 {
			t.Errorf("%+v", got)
		}
	}
	var order []string
	for _, q := range f.requests() {
		order = append(order, q.User)
	}
	// Each request costs 3 + 2*8 = 19, of bob half of that. All are lifted to the 2 that flood has for a prompt of some 2 tokens when
	// they come.
	if got := strings.Join(order, " "); got != "flood ann bob bob flood ann bob flood flood flood flood" {
		t.Errorf("the order is %s", got)
	}
}

// Whoever waits is told where she stands, ahead of the answer where she asks for that, and at /gate/queue. Nobody is shown the
// requests of others.
func TestWhy(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr, Options{InFlight: 12, Reserve: 8}, "alice", "bob", "root!")
	warm := h.later(t.Context(), "alice", `{"prompt":"a","max_tokens":4,"stream":true}`) // from which the pace is learnt
	f.steps(4)
	<-warm
	var all []<-chan answer
	for range 3 {
		all = append(all, h.later(t.Context(), "alice", `{"prompt":"a b c","max_tokens":8,"model":"tiny"}`))
	}
	until(t, "alice waits", func() bool { b := h.boardOf("alice").Clients[0]; return b.Running == 1 && b.Waiting == 2 })

	hints := make(chan textproto.MIMEHeader, 100)
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, header textproto.MIMEHeader) error { hints <- header; return nil }})
	r := h.request(ctx, "bob", "POST", "/v1/completions", `{"prompt":"a b c","max_tokens":8}`)
	r.Header.Set("Norn-Hints", "1")
	bob := make(chan answer, 1)
	go func() { bob <- h.do(r) }()
	hint := <-hints
	for hint.Get("Norn-Expected-Start") == "" { // the forecast was older than the request
		hint = <-hints
	}
	if hint.Get("Norn-Position") == "" || hint.Get("Norn-Expected-Start") == "" || hint.Get("Norn-Counter") == "" || hint.Get("Norn-Request") != "4" {
		t.Errorf("bob is told %v", hint)
	}
	until(t, "bob is in the forecast", func() bool { return h.boardOf("bob").Requests[0].Expected != nil })
	b := h.boardOf("bob")
	if len(b.Requests) != 1 || len(b.Clients) != 1 || b.Waiting != 3 || b.Limit != 12 {
		t.Fatalf("%+v", b)
	}
	if p := b.Requests[0]; p.Client != "bob" || p.State != "waiting" || !strings.Contains(p.Why, "of 12, ") || p.Expected == nil || p.Counter == nil || strings.Contains(p.Why, "alice") {
		t.Errorf("%+v", p)
	}
	b = h.boardOf("root")
	positions := map[int]bool{}
	for _, p := range b.Requests {
		if p.State == "waiting" {
			positions[*p.Position] = true
			if (*p.Position == 0) != strings.HasPrefix(p.Why, "it is expected to go next") {
				t.Errorf("%+v", p)
			}
		}
	}
	if len(b.Requests) != 4 || len(b.Clients) != 3 || !positions[0] || !positions[1] || !positions[2] {
		t.Errorf("%+v", b)
	}
	f.steps(8 * 4)
	if a := <-bob; a.status != 200 || a.header.Get("Norn-Position") != "" {
		t.Errorf("%+v", a)
	}
	for _, a := range all {
		<-a
	}
}

// Metrics are for operators, and tell each client apart.
func TestMetrics(t *testing.T) {
	f := newFake(t)
	h := newHouse(t, "http://"+f.addr, Options{}, "alice", "root!")
	h.post("alice", `{"prompt":"one two three","max_tokens":5,"stream":true}`)
	h.post("nobody", `{}`)
	if a := h.get("alice", "/metrics"); a.status != 403 {
		t.Errorf("%+v", a)
	}
	a := h.get("root", "/metrics")
	for _, want := range []string{
		`norn_gate_requests_total{client="alice",code="200"} 1`, `norn_gate_tokens_total{client="alice",kind="input"} 3`, `norn_gate_tokens_total{client="alice",kind="output"} 5`,
		`norn_gate_wait_seconds_count{client="alice"} 1`, `norn_gate_first_token_seconds_count{client="alice"} 1`, `norn_gate_counter{client="alice"} 13`,
		`norn_gate_waiting{client="alice"} 0`, `norn_gate_tokens_in_flight_limit 16384`, `norn_gate_server_up 1`, `norn_gate_unknown_keys_total 1`,
	} {
		if !strings.Contains(a.text, want+"\n") {
			t.Errorf("%s is not in the metrics", want)
		}
	}
}

// Every policy of the table serves, and settings that make no sense before a real server are refused.
func TestPolicies(t *testing.T) {
	f := newFake(t)
	for _, e := range tokens.Table() {
		h := newHouse(t, "http://"+f.addr, Options{Policy: e.New()}, "alice", "bob:2")
		for _, client := range []string{"alice", "bob"} {
			if a := h.post(client, `{"prompt":"one","max_tokens":2,"stream":true}`); a.status != 200 {
				t.Errorf("%s: %+v", e.Name, a)
			}
		}
		if b := h.boardOf("bob"); b.InFlight != 0 || len(b.Requests) != 0 || (b.Clients[0].Counter == nil) != (e.Name != "vtc" && e.Name != "lcf") {
			t.Errorf("%s: %+v", e.Name, b)
		}
	}
	h := newHouse(t, "http://"+f.addr, Options{Policy: tokens.NewRPM()}, "alice")
	for i := range 6 {
		a := h.post("alice", `{"prompt":"one"}`)
		if i == 5 && (a.status != 429 || a.header.Get("Retry-After") == "" || !strings.Contains(a.text, "rate_limit_exceeded")) {
			t.Errorf("%+v", a)
		}
	}
	oracle, weights := tokens.NewVTC(), tokens.NewVTC()
	oracle.Predict, weights.Weights = tokens.Oracle, []string{"a:1"}
	for want, o := range map[string]Options{
		"nobody knows the length": {Policy: oracle}, "stand in the file": {Policy: weights}, "no address of a server": {Upstream: "127.0.0.1:80"},
		"refused without TLS": {Listen: "0.0.0.0:0"}, "positive": {InFlight: -1}, "one client may have half": {Bodies: 1}, "no address to listen": {Listen: "x"},
	} {
		o.Keys = h.path
		if o.Upstream == "" {
			o.Upstream = "http://127.0.0.1:1"
		}
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// When the gate ends, requests in progress end as they would, and those who wait are told to come again.
func TestEnds(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr, Options{InFlight: 12, Reserve: 8}, "alice")
	runs := h.later(t.Context(), "alice", `{"prompt":"a b c","max_tokens":8,"stream":true}`)
	f.steps(1)
	waits := h.later(t.Context(), "alice", `{"prompt":"a b c","max_tokens":8,"stream":true}`)
	until(t, "one waits", func() bool { return h.boardOf("alice").Waiting == 1 })
	h.stop()
	if a := <-waits; a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("%+v", a)
	}
	f.steps(7)
	a := <-runs
	if n, done := tokensOf(a.text); n != 8 || !done {
		t.Errorf("%+v", a)
	}
	if err := <-h.over; err != nil {
		t.Error(err)
	}
	h.over <- nil
}

// Errors are written as clients of the API read them.
func TestProblem(t *testing.T) {
	f := newFake(t)
	h := newHouse(t, "http://"+f.addr, Options{}, "alice")
	a := h.do(h.request(context.Background(), "nobody", "POST", "/v1/completions", `{}`))
	var got struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal([]byte(a.text), &got); err != nil || a.status != 401 || got.Error.Code != "invalid_api_key" || got.Error.Type != "invalid_request_error" || got.Error.Message == "" {
		t.Errorf("%+v: %+v, %v", a, got, err)
	}
}
