package gate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a server of a language model for tests. Each word of a prompt is a token, and each token of an answer is "x ".
type fake struct {
	t    testing.TB
	http *http.Server
	addr string
	// answer, if not nil, answers instead.
	answer func(w http.ResponseWriter, r *http.Request, q asked)
	// step, if not nil, is received from before each token.
	step chan struct{}

	mu   sync.Mutex
	seen []asked
	left int // requests that were cancelled
}

// asked is a request as the server has read it.
type asked struct {
	path   string
	header http.Header
	text   string // body
	Model  string
	Stream bool
	Max    int `json:"max_tokens"`
	User   string
	Prompt string
	// Messages of a chat.
	Messages []struct{ Content string }
	Options  struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// words is how many tokens the prompt has.
func (q *asked) words() int {
	n := len(strings.Fields(q.Prompt))
	for _, m := range q.Messages {
		n += len(strings.Fields(m.Content))
	}
	return n
}

// newFake starts a server.
func newFake(t testing.TB) *fake {
	f := &fake{t: t}
	f.listen("127.0.0.1:0")
	t.Cleanup(func() { f.http.Close() })
	return f
}

// listen begins to answer, also once more on an address that it has had.
func (f *fake) listen(addr string) {
	f.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.addr = l.Addr().String()
	f.http = &http.Server{Handler: f}
	go f.http.Serve(l)
}

// ServeHTTP answers.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		return
	}
	if r.Method == http.MethodGet {
		io.WriteString(w, `{"object":"list","data":[{"id":"tiny"}]}`)
		return
	}
	text, err := io.ReadAll(r.Body)
	q := asked{path: r.URL.Path, header: r.Header, text: string(text), Max: 4}
	if err != nil || json.Unmarshal(text, &q) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.seen = append(f.seen, q)
	f.mu.Unlock()
	answer := f.answer
	if answer == nil {
		answer = f.speak
	}
	answer(w, r, q)
	if r.Context().Err() != nil {
		f.mu.Lock()
		f.left++
		f.mu.Unlock()
	}
}

// speak answers as long as it is asked to.
func (f *fake) speak(w http.ResponseWriter, r *http.Request, q asked) {
	used := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, q.words(), q.Max)
	if !q.Stream {
		for range q.Max {
			if !f.wait(r.Context()) {
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"text":%q}],"usage":%s}`, strings.Repeat("x ", q.Max), used)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	if q.path == "/v1/chat/completions" {
		io.WriteString(w, `data: {"choices":[{"delta":{"role":"assistant"}}]}`+"\n\n")
	}
	http.NewResponseController(w).Flush()
	for range q.Max {
		if !f.wait(r.Context()) {
			return
		}
		piece := `data: {"choices":[{"text":"x "}]}`
		if q.path == "/v1/chat/completions" {
			piece = `data: {"choices":[{"delta":{"content":"x "}}],"usage":null}`
		}
		if _, err := io.WriteString(w, piece+"\n\n"); err != nil {
			return
		}
		http.NewResponseController(w).Flush()
	}
	if q.Options.Usage {
		fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":%s}\n\n", used)
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

// wait is over with the next step; it is false when the client has left.
func (f *fake) wait(ctx context.Context) bool {
	if f.step == nil {
		return ctx.Err() == nil
	}
	select {
	case <-f.step:
		return true
	case <-ctx.Done():
		return false
	}
}

// steps has the server produce so many tokens, of whichever requests it answers.
func (f *fake) steps(n int) {
	f.t.Helper()
	for range n {
		select {
		case f.step <- struct{}{}:
		case <-time.After(30 * time.Second):
			f.t.Fatal("the server answers nobody")
		}
	}
}

// requests are those that have come so far.
func (f *fake) requests() []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]asked(nil), f.seen...)
}

func (f *fake) cancelled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left
}

// house is a gate with its clients.
type house struct {
	*Gate
	t    testing.TB
	url  string
	keys map[string]string
	path string // of the file of keys
	stop context.CancelFunc
	over chan error
	http *http.Client
}

// newHouse opens a gate before a server, with keys for clients that are written name, name:weight, or name! for an operator.
func newHouse(t testing.TB, upstream string, o Options, clients ...string) *house {
	t.Helper()
	h := &house{t: t, keys: map[string]string{}, path: filepath.Join(t.TempDir(), "keys.yaml"), over: make(chan error, 1), http: &http.Client{Transport: &http.Transport{}}}
	for _, c := range clients {
		h.add(c)
	}
	o.Upstream, o.Keys = upstream, h.path
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.times == (times{}) {
		o.times = usualTimes()
		o.times.probe, o.times.look, o.times.hint = 5*time.Millisecond, 5*time.Millisecond, 20*time.Millisecond
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h.Gate, h.url = g, "http://"+g.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() { h.over <- g.Serve(ctx, nil) }()
	t.Cleanup(func() {
		h.http.CloseIdleConnections()
		g.Grace = time.Millisecond
		stop()
		<-h.over
	})
	return h
}

// add makes a key.
func (h *house) add(client string) {
	h.t.Helper()
	c := Client{Weight: 1}
	name, weight, ok := strings.Cut(client, ":")
	if ok {
		fmt.Sscan(weight, &c.Weight)
	}
	c.Name = strings.TrimSuffix(name, "!")
	c.Operator = c.Name != name
	key := NewKey()
	c.Hashes = []Hash{HashOf(key)}
	if err := AddKey(h.path, &c); err != nil {
		h.t.Fatal(err)
	}
	h.keys[c.Name] = key
}

// request makes a request of a client.
func (h *house) request(ctx context.Context, client, method, path, body string) *http.Request {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.keys[client])
	return r
}

// answer is what came of a request.
type answer struct {
	status int
	header http.Header
	text   string
	err    error
}

// do sends a request and reads its answer.
func (h *house) do(r *http.Request) answer {
	resp, err := h.http.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text), err}
}

// post sends a request to /v1/completions.
func (h *house) post(client, body string) answer {
	h.t.Helper()
	return h.do(h.request(h.t.Context(), client, "POST", "/v1/completions", body))
}

// later is post, whose answer comes on a channel.
func (h *house) later(ctx context.Context, client, body string) <-chan answer {
	h.t.Helper()
	r, out := h.request(ctx, client, "POST", "/v1/completions", body), make(chan answer, 1)
	go func() { out <- h.do(r) }()
	return out
}

// get asks the gate something.
func (h *house) get(client, path string) answer {
	h.t.Helper()
	return h.do(h.request(h.t.Context(), client, "GET", path, ""))
}

// board is what a client is told about the queue.
func (h *house) boardOf(client string) board {
	h.t.Helper()
	a := h.get(client, "/gate/queue")
	var b board
	if err := json.Unmarshal([]byte(a.text), &b); err != nil || a.status != 200 {
		h.t.Fatalf("%+v: %v", a, err)
	}
	return b
}

// until waits for something to be so.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// tokensOf are the pieces of a stream with text in them, and whether it has ended as it should.
func tokensOf(text string) (n int, done bool) {
	s := bufio.NewScanner(bytes.NewReader([]byte(text)))
	for s.Scan() {
		if strings.Contains(s.Text(), `"x "`) {
			n++
		}
		done = done || s.Text() == "data: [DONE]"
	}
	return n, done
}
