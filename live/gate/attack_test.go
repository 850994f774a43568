package gate

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/policy/tokens"
)

// Nobody gets through without a key, and a refusal says nothing of keys that there are.
func TestNoKey(t *testing.T) {
	f := newFake(t)
	h := newHouse(t, "http://"+f.addr, Options{}, "alice")
	for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer norn_", "Basic " + h.keys["alice"], h.keys["alice"], "Bearer " + h.keys["alice"] + "x", "Bearer " + HashOf(h.keys["alice"]).String()} {
		for _, path := range []string{"/v1/completions", "/v1/models", "/gate/queue", "/metrics"} {
			r := h.request(t.Context(), "alice", map[bool]string{true: "POST", false: "GET"}[path == "/v1/completions"], path, `{"prompt":"a"}`)
			r.Header.Set("Authorization", auth)
			if a := h.do(r); a.status != 401 || a.header.Get("WWW-Authenticate") == "" || strings.Contains(a.text, "alice") {
				t.Errorf("%q, %s: %+v", auth, path, a)
			}
		}
	}
	if len(f.requests()) != 0 {
		t.Error("something has reached the server")
	}
}

// Bodies that make no sense are refused, and none of them reaches the server.
func TestBodies(t *testing.T) {
	f := newFake(t)
	h := newHouse(t, "http://"+f.addr, Options{InFlight: 1000, MaxBody: 10_000}, "alice")
	for body, want := range map[string]int{
		"":                                   400,
		"{":                                  400,
		"[]":                                 400,
		"null":                               400,
		"{}{}":                               400,
		`{"prompt":"a\xff"}` + "\xff":        400,
		`{"prompt":7}`:                       400,
		`{"prompt":"a","n":65}`:              400,
		`{"prompt":"a","n":-1}`:              400,
		`{"prompt":"a","n":1.5}`:             400,
		`{"prompt":"a","max_tokens":"many"}`: 400,
		`{"prompt":"a","max_tokens":1e300}`:  400,
		`{"prompt":"a","stream":"yes"}`:      400,
		`{"prompt":"a","stream":true,"stream_options":7}`:                              400,
		`{"prompt":"a","x":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`: 400,
		`{"prompt":"` + strings.Repeat("a", 5000) + `"}`:                               400, // 1,250 tokens
		`{"prompt":"` + strings.Repeat("a", 10_000) + `"}`:                             413,
	} {
		if a := h.post("alice", body); a.status != want || !strings.HasPrefix(a.text, `{"error":{`) {
			t.Errorf("%.60s: %+v", body, a)
		}
	}
	r := h.request(t.Context(), "alice", "POST", "/v1/completions", "")
	r.Body, r.ContentLength = io.NopCloser(io.LimitReader(endless{}, 1<<30)), -1
	if a := h.do(r); a.status != 413 && a.err == nil {
		t.Errorf("a body without end: %+v", a)
	}
	if len(f.requests()) != 0 || h.boardOf("alice").InFlight != 0 {
		t.Errorf("something has reached the server: %v", f.requests())
	}
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	if n := h.line.numbers["alice"].bodies; n != 0 {
		t.Errorf("%d bytes of bodies are still counted", n)
	}
}

// endless is a body of letters.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

// The server reads what the gate has read: a key that is there twice cannot have one value here and another there. Nobody tells the
// server another order.
func TestKeyTwice(t *testing.T) {
	f := newFake(t)
	h := newHouse(t, "http://"+f.addr, Options{}, "alice")
	h.post("alice", `{"max_tokens":100000,"prompt":"long long long","prompt":"a","max_tokens":1,"MAX_TOKENS":7,"priority":-9,"kv_transfer_params":{}}`)
	if q := f.requests()[0].text; strings.Count(q, `"max_tokens"`) != 1 || strings.Contains(q, "long") || strings.Contains(q, "priority") || strings.Contains(q, "kv_") {
		t.Errorf("the server was sent %s", q)
	}
}

// Whoever sends a lot is told to stop, and takes no room from others.
func TestTooMany(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr, Options{InFlight: 12, Reserve: 8, Waiting: 2, WaitAll: 3, MaxBody: 1000, Bodies: 4000}, "flood", "bob", "carol")
	var all []<-chan answer
	for range 3 {
		all = append(all, h.later(t.Context(), "flood", `{"prompt":"a b c","max_tokens":8}`))
	}
	until(t, "flood waits", func() bool { return h.boardOf("bob").Waiting == 2 })
	if a := h.post("flood", `{"prompt":"a b c"}`); a.status != 429 || a.header.Get("Retry-After") == "" || !strings.Contains(a.text, "rate_limit_exceeded") {
		t.Errorf("%+v", a)
	}
	all = append(all, h.later(t.Context(), "bob", `{"prompt":"a b c","max_tokens":8}`))
	until(t, "bob waits", func() bool { return h.boardOf("bob").Waiting == 3 })
	if a := h.post("carol", `{"prompt":"a b c"}`); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("%+v", a)
	}
	// Of 4,000 bytes of bodies flood may have half: 800 and 800 more, and not a third time.
	kept := []func(){}
	for i := range 3 {
		r, _ := http.NewRequest("POST", "/", strings.NewReader(strings.Repeat("a", 800)))
		w := discard{http.Header{}}
		_, done, p := h.body(w, r, h.line.find("carol"))
		if (p != nil) != (i == 2) {
			t.Errorf("body %d: %+v", i, p)
		}
		if done != nil {
			kept = append(kept, done)
		}
	}
	for _, done := range kept {
		done()
	}
	f.steps(8 * len(all))
	for _, a := range all {
		if got := <-a; got.status != 200 {
			t.Errorf("%+v", got)
		}
	}
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header       { return d.h }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// A client who does not read its answer is cut off when too much of it waits, and its place is free before that. Others are
// served meanwhile.
func TestSlowReader(t *testing.T) {
	f := newFake(t)
	gone := make(chan struct{})
	f.answer = func(w http.ResponseWriter, r *http.Request, q asked) {
		if q.User != "slow" {
			f.speak(w, r, q)
			return
		}
		defer close(gone)
		w.Header().Set("Content-Type", "text/event-stream")
		piece := `data: {"choices":[{"text":"` + strings.Repeat("x", 10_000) + `"}]}` + "\n\n"
		for range 10_000 { // 100 MB
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
			http.NewResponseController(w).Flush()
		}
	}
	h := newHouse(t, "http://"+f.addr, Options{InFlight: 20, Reserve: 16, Buffer: 100_000}, "slow", "bob")
	resp, err := h.http.Do(h.request(t.Context(), "slow", "POST", "/v1/completions", `{"prompt":"a","user":"slow","stream":true,"max_tokens":16}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-gone // the request was cancelled at the server
	if a := h.post("bob", `{"prompt":"a","stream":true,"max_tokens":16}`); a.status != 200 {
		t.Errorf("%+v", a)
	}
	if b := h.boardOf("slow"); b.InFlight != 0 || len(b.Requests) != 0 {
		t.Errorf("%+v", b)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the answer looks whole to the slow client")
	}
}

// A client who takes nothing at all of an answer that fits into the buffer loses its connection, and not the place of anybody.
func TestIdleReader(t *testing.T) {
	f := newFake(t)
	f.answer = func(w http.ResponseWriter, _ *http.Request, _ asked) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"x":"`+strings.Repeat("x", 32<<20)+`"}`)
	}
	o := Options{times: usualTimes()}
	o.times.write = 50 * time.Millisecond
	h := newHouse(t, "http://"+f.addr, o, "slow")
	c, err := net.Dial("tcp", h.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := `{"prompt":"a"}`
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", h.keys["slow"], len(body), body)
	until(t, "the answer was given up", func() bool {
		return strings.Contains(metricsOf(h), `norn_gate_requests_total{client="slow",code="200"} 1`)
	})
	if n, err := io.Copy(io.Discard, c); n > 30<<20 {
		t.Errorf("%d bytes came, %v", n, err)
	}
}

// metricsOf are the metrics, without a key.
func metricsOf(h *house) string {
	w := &recorder{h: http.Header{}}
	h.meters.handler().ServeHTTP(w, &http.Request{Method: "GET", Header: http.Header{}})
	return w.text.String()
}

type recorder struct {
	h    http.Header
	text strings.Builder
}

func (r *recorder) Header() http.Header         { return r.h }
func (r *recorder) Write(b []byte) (int, error) { return r.text.Write(b) }
func (r *recorder) WriteHeader(int)             {}

// Senders who are slow on purpose are cut off: in the head, in the body, and in a body that nobody wants.
func TestSlowSenders(t *testing.T) {
	f := newFake(t)
	o := Options{times: usualTimes()}
	o.times.head, o.times.body = 30*time.Millisecond, 30*time.Millisecond
	h := newHouse(t, "http://"+f.addr, o, "slow")
	auth := "Authorization: Bearer " + h.keys["slow"] + "\r\n"
	for name, text := range map[string]string{
		"head":     "POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + auth,
		"body":     "POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + auth + "Content-Length: 100\r\n\r\n{",
		"chunks":   "POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"unwanted": "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
	} {
		c, err := net.Dial("tcp", h.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, text)
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil { // until the gate closes it
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
	if len(f.requests()) != 0 {
		t.Error("something has reached the server")
	}
}

// Connections without a request make room for new ones, so that nobody can keep others out with them.
func TestThousands(t *testing.T) {
	f := newFake(t)
	h := newHouse(t, "http://"+f.addr, Options{MaxConns: 20}, "alice")
	var idle []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", h.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	if a := h.post("alice", `{"prompt":"a"}`); a.status != 200 {
		t.Errorf("%+v", a)
	}
	for _, c := range idle {
		c.Close()
	}
}

// Nobody makes the gate go on as the server pleases: headers of the server are passed on but for those of one connection, cookies, and
// those that are the gate's own.
func TestHeaders(t *testing.T) {
	f := newFake(t)
	f.answer = func(w http.ResponseWriter, _ *http.Request, _ asked) {
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Norn-Counter", "7")
		w.Header().Set("X-Model", "tiny")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"usage":{"prompt_tokens":-5,"completion_tokens":-5}}`)
	}
	h := newHouse(t, "http://"+f.addr, Options{}, "alice")
	r := h.request(t.Context(), "alice", "POST", "/v1/completions", `{"prompt":"a"}`)
	r.Header.Set("X-Request-Id", strings.Repeat("x", 1000))
	a := h.do(r)
	if a.header.Get("Set-Cookie") != "" || a.header.Get("Norn-Counter") == "7" || a.header.Get("X-Model") != "tiny" {
		t.Errorf("%+v", a)
	}
	if c := *h.boardOf("alice").Clients[0].Counter; c != 1 {
		t.Errorf("a usage below 0 makes a counter of %v", c)
	}
	r = h.request(t.Context(), "alice", "GET", "/v1/models", "")
	r.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	if a := h.do(r); a.status != 431 {
		t.Errorf("a head of 64 KiB: %+v", a)
	}
}

// Over TLS all is as without; a new certificate comes into force without a restart; old versions of TLS are refused.
func TestTLS(t *testing.T) {
	f := newFake(t)
	dir := t.TempDir()
	o := Options{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	first := certify(t, o.Cert, o.Key)
	h := newHouse(t, "http://"+f.addr, o, "alice")
	h.url = strings.Replace(h.url, "http:", "https:", 1)
	pool := x509.NewCertPool()
	pool.AddCert(first)
	ask := func() (answer, *x509.Certificate) {
		h.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
		resp, err := h.http.Do(h.request(t.Context(), "alice", "POST", "/v1/completions", `{"prompt":"a","stream":true,"max_tokens":3}`))
		if err != nil {
			return answer{err: err}, nil
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return answer{resp.StatusCode, resp.Header, string(text), err}, resp.TLS.PeerCertificates[0]
	}
	if a, _ := ask(); a.status != 200 {
		t.Fatalf("%+v", a)
	} else if n, done := tokensOf(a.text); n != 3 || !done {
		t.Errorf("%+v", a)
	}
	second := certify(t, o.Cert, o.Key)
	pool.AddCert(second)
	until(t, "the new certificate is in force", func() bool { _, c := ask(); return c != nil && c.Equal(second) })
	if c, err := tls.Dial("tcp", h.Addr().String(), &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}); err == nil {
		c.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

// A stream may rest for longer than a client may take to read a piece, also over HTTP/2.
func TestRests(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	dir := t.TempDir()
	o := Options{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), times: usualTimes()}
	o.times.write = 20 * time.Millisecond
	pool := x509.NewCertPool()
	pool.AddCert(certify(t, o.Cert, o.Key))
	h := newHouse(t, "http://"+f.addr, o, "alice")
	for _, second := range []bool{false, true} {
		h.url = "https://" + h.Addr().String()
		h.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: second}}
		a := h.later(t.Context(), "alice", `{"prompt":"a","stream":true,"max_tokens":3}`)
		for range 3 {
			time.Sleep(3 * o.times.write)
			f.steps(1)
		}
		got := <-a
		if n, done := tokensOf(got.text); got.err != nil || n != 3 || !done {
			t.Errorf("HTTP/2 %v: %+v", second, got)
		}
		h.http.CloseIdleConnections()
	}
}

// certify writes a certificate for 127.0.0.1.
func certify(t *testing.T, cert, key string) *x509.Certificate {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	c := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "gate"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, pair.Public(), pair)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{key: {Type: "EC PRIVATE KEY", Bytes: secret}, cert: {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// When a client leaves, what waits is taken out of the line, and what runs is cancelled at the server; its place goes to the next.
func TestLeaves(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr, Options{InFlight: 12, Reserve: 8}, "alice", "bob")
	ctx, leave := context.WithCancel(t.Context())
	runs := h.later(ctx, "alice", `{"prompt":"a b c","max_tokens":8,"stream":true}`)
	f.steps(1)
	wctx, leaveWaiting := context.WithCancel(t.Context())
	waits := h.later(wctx, "alice", `{"prompt":"a b c","max_tokens":8,"stream":true}`)
	until(t, "alice waits", func() bool { return h.boardOf("alice").Waiting == 1 })
	bob := h.later(t.Context(), "bob", `{"prompt":"a b c","max_tokens":8,"stream":true}`)
	until(t, "bob waits", func() bool { return h.boardOf("bob").Waiting == 2 })
	leaveWaiting()
	<-waits
	until(t, "alice waits no more", func() bool { return h.boardOf("alice").Waiting == 1 })
	leave()
	<-runs
	until(t, "the server is told", func() bool { return f.cancelled() == 1 })
	f.steps(8)
	if a := <-bob; a.status != 200 {
		t.Errorf("%+v", a)
	}
	if b := h.boardOf("alice"); b.InFlight != 0 || *b.Clients[0].Counter != 2+2 { // a prompt of some 2 tokens, and one of output
		t.Errorf("%+v, %v", b, *b.Clients[0].Counter)
	}
	if n := len(f.requests()); n != 2 {
		t.Errorf("%d requests have reached the server, want 2", n)
	}
}

// Whoever has the server work on an answer that is to come as a whole, and leaves just before it comes, pays for it: as much as the
// server makes in that time, at most what was asked for.
func TestLeavesWhole(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr, Options{Policy: tokens.NewLCF()}, "warm", "alice")
	for _, client := range []string{"alice", "warm", "alice"} { // before and after the pace of the server is known
		before := *h.boardOf(client).Clients[0].Counter
		ctx, leave := context.WithCancel(t.Context())
		a := h.later(ctx, client, fmt.Sprintf(`{"prompt":"a b c","max_tokens":6,"stream":%v}`, client == "warm"))
		f.steps(5)
		if client == "warm" {
			f.steps(1)
		} else {
			leave()
		}
		<-a
		leave()
		until(t, "it is over", func() bool { return h.boardOf(client).InFlight == 0 })
		if got := *h.boardOf(client).Clients[0].Counter - before; client == "alice" && (got < 2+2*1 || got > 2+2*6) {
			t.Errorf("alice was charged %v", got)
		}
	}
}

// A client that leaves while the server is being reached says nothing of the server, and others go on.
func TestLeavesEarly(t *testing.T) {
	f := newFake(t)
	h := newHouse(t, "http://"+f.addr, Options{}, "alice")
	l := h.line
	k, p := l.enter(l.find("alice"), ask{exact: 5, choices: 1}, "")
	if p != nil {
		t.Fatal(p)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	h.unanswered(discard{http.Header{}}, h.request(ctx, "alice", "POST", "/", ""), k, ctx.Err(), &net.OpError{Op: "dial", Err: ctx.Err()})
	if b := h.boardOf("alice"); b.Server != "up" || *b.Clients[0].Counter != 0 || b.InFlight != 0 {
		t.Errorf("%+v", b)
	}
}

// A request that may have reached the server is not sent again, whatever headers its client sets; and its client is told.
func TestOnce(t *testing.T) {
	f := newFake(t)
	cut := func(w http.ResponseWriter) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	}
	f.answer = func(w http.ResponseWriter, _ *http.Request, q asked) {
		if q.User == "stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, `data: {"choices":[{"text":"x "}]}`+"\n\n")
			http.NewResponseController(w).Flush()
		}
		cut(w)
	}
	h := newHouse(t, "http://"+f.addr, Options{}, "alice")
	for i := range 5 {
		r := h.request(t.Context(), "alice", "POST", "/v1/completions", `{"prompt":"a"}`)
		r.Header.Set("Idempotency-Key", "7")
		r.GetBody = nil
		if a := h.do(r); a.status != 502 || !strings.Contains(a.text, "was not sent again") {
			t.Errorf("%+v", a)
		}
		if n := len(f.requests()); n != i+1 {
			t.Fatalf("%d requests have reached the server, want %d", n, i+1)
		}
	}
	a := h.post("alice", `{"prompt":"a","stream":true,"user":"stream"}`)
	if n, done := tokensOf(a.text); n != 1 || done || !strings.Contains(a.text, `data: {"error":{"code":"server_lost"`) || a.err == nil {
		t.Errorf("%+v", a)
	}
	if n := len(f.requests()); n != 6 {
		t.Errorf("%d requests have reached the server, want 6", n)
	}
}

// When the server goes away, those who wait and those who come are told to come again, counters stay, and when it is back
// all goes on.
func TestServerRestarts(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr, Options{InFlight: 12, Reserve: 8}, "alice", "bob")
	runs := h.later(t.Context(), "alice", `{"prompt":"a b c","max_tokens":8,"stream":true}`)
	f.steps(1)
	until(t, "a token was charged", func() bool { return *h.boardOf("alice").Clients[0].Counter == 4 })
	waits := h.later(t.Context(), "bob", `{"prompt":"a b c","max_tokens":8,"stream":true}`)
	until(t, "bob waits", func() bool { return h.boardOf("bob").Waiting == 1 })
	f.http.Close()
	if a := <-runs; a.err == nil || !strings.Contains(a.text, "server_lost") {
		t.Errorf("%+v", a)
	}
	if a := <-waits; a.status != 503 || a.header.Get("Retry-After") != "5" || !strings.Contains(a.text, "server_down") {
		t.Errorf("%+v", a)
	}
	for range 3 {
		if a := h.post("bob", `{"prompt":"a"}`); a.status != 503 || a.header.Get("Retry-After") != "5" {
			t.Errorf("%+v", a)
		}
	}
	if a := h.get("", "/readyz"); a.status != 503 {
		t.Errorf("%+v", a)
	}
	if b := h.boardOf("alice"); *b.Clients[0].Counter != 4 || b.InFlight != 0 || b.Server == "up" {
		t.Errorf("%+v", b)
	}
	f.step = nil
	f.listen(f.addr)
	until(t, "the server is back", func() bool { return h.get("", "/readyz").status == 200 })
	if a := h.post("bob", `{"prompt":"a","stream":true}`); a.status != 200 {
		t.Errorf("%+v", a)
	}
	if n := len(f.requests()); n != 2 {
		t.Errorf("%d requests have reached the server, want 2", n)
	}
}

// A server that says nothing any more does not keep its places.
func TestStalled(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr, Options{Stall: 50 * time.Millisecond}, "alice")
	if a := h.post("alice", `{"prompt":"a"}`); a.status != 504 || !strings.Contains(a.text, "server_stalled") {
		t.Errorf("%+v", a)
	}
	if a := h.post("alice", `{"prompt":"a","stream":true}`); a.err == nil || !strings.Contains(a.text, "server_stalled") {
		t.Errorf("%+v", a)
	}
	until(t, "the server is told", func() bool { return f.cancelled() == 2 })
	if b := h.boardOf("alice"); b.InFlight != 0 {
		t.Errorf("%+v", b)
	}
}

// A request that asks for much and uses little does not keep others out for what it has asked.
func TestAsksForMuch(t *testing.T) {
	f := newFake(t)
	f.step = make(chan struct{})
	h := newHouse(t, "http://"+f.addr, Options{InFlight: 40, Reserve: 8}, "much", "bob")
	ctx, leave := context.WithCancel(t.Context())
	much := h.later(ctx, "much", `{"prompt":"a b c","max_tokens":1000000000,"n":8}`)
	until(t, "it runs", func() bool { return h.boardOf("much").InFlight == 10 })
	bob := h.later(t.Context(), "bob", `{"prompt":"a b c","max_tokens":8}`)
	until(t, "bob runs beside it", func() bool { return h.boardOf("bob").InFlight == 20 })
	leave()
	<-much
	for f.cancelled() == 0 || len(bob) == 0 {
		select {
		case f.step <- struct{}{}:
		default:
		}
	}
	// What is produced beyond the reserve counts as it comes.
	s := h.later(t.Context(), "much", `{"prompt":"a b c","max_tokens":20,"stream":true}`)
	f.steps(20)
	if a := <-s; a.status != 200 {
		t.Errorf("%+v", a)
	}
	if b := h.boardOf("bob"); b.InFlight != 0 {
		t.Errorf("%+v", b)
	}
}

// Pieces of streams in every form that servers have are counted, and none is lost on its way.
func TestMeter(t *testing.T) {
	text := "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n" + // nothing yet
		": a comment\r\n\r\n" +
		"event: x\ndata:{\"choices\":[{\"delta\":{\"content\":\"a\"}},{\"delta\":{\"content\":\"b\"}}]}\n\n" + // two answers
		"data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"a\"}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":[{\"function\":{\"arguments\":\"x\"}}]}}]}\r\n\r\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":[7]}}]}\n\n" + // of another type
		"data: {\"choices\":[{\"text\":\"two tokens\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":8}}\n\n" + // as it goes on
		"data: {\"choices\":\ndata: [{\"text\":\"a\"}]}\n\n" + // over two lines
		"data: {broken\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":10}}\n\n" +
		"data: [DONE]"
	want := []int{0, 0, 2, 1, 1, 1, 3, 1, 0, 1, 0}
	in, m := newEvents(strings.NewReader(text)), meter{}
	var out strings.Builder
	for i := 0; ; i++ {
		raw, data, err := in.next()
		if err == io.EOF {
			if i != len(want) {
				t.Errorf("%d pieces", i)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		out.Write(raw)
		if more, drop := m.look(data, true); more != want[i] || drop != (i == 9) {
			t.Errorf("piece %d, %s: %d tokens, drop %v", i, data, more, drop)
		}
	}
	if out.String() != text || m.counted != 10 || *m.used != (usage{9, 10}) {
		t.Errorf("%d, %+v, %q", m.counted, m.used, out.String())
	}
	if _, _, err := newEvents(endless{}).next(); err != errLargeEvent {
		t.Errorf("a piece without end: %v", err)
	}
}

// FuzzEvents: whatever a server sends comes through as it is.
func FuzzEvents(f *testing.F) {
	f.Add("data: {\"choices\":[{\"text\":\"x\"}]}\n\ndata: [DONE]\n\n")
	f.Add("\r\n\r\n\n:")
	f.Fuzz(func(t *testing.T, text string) {
		in, m := newEvents(bufio.NewReader(strings.NewReader(text))), meter{}
		var out strings.Builder
		for {
			raw, data, err := in.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if more, _ := m.look(data, true); more < 0 {
				t.Fatalf("%q has %d tokens", data, more)
			}
			out.Write(raw)
		}
		if out.String() != text {
			t.Fatalf("%q became %q", text, out.String())
		}
	})
}

// FuzzParse: no body ends the gate, and what is sent on is read in the same way again.
func FuzzParse(f *testing.F) {
	f.Add(byte(0), `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}],"max_tokens":3,"stream":true}`)
	f.Add(byte(1), `{"prompt":[[1,2],[3]],"n":2}`)
	f.Add(byte(2), `{"input":["a","b"]}`)
	f.Fuzz(func(t *testing.T, k byte, text string) {
		q, p := parse(kind(k%3), []byte(text), true)
		if p != nil {
			return
		}
		again, p := parse(kind(k%3), q.body, false)
		if p != nil {
			t.Fatalf("%s: %+v", q.body, p)
		}
		if q.input(1) < 1 || q.outputs(100) < 0 || q.outputs(100) > 100 || q.believed(5) < 1 {
			t.Fatalf("%s: %+v", text, q)
		}
		again.body, q.body, q.strip = nil, nil, false
		if fmt.Sprint(again) != fmt.Sprint(q) {
			t.Fatalf("%s: %+v, then %+v", text, q, again)
		}
	})
}
