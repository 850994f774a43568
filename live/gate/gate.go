// Package gate is a fair gateway before a server of a language model that speaks the HTTP API of OpenAI: vLLM, llama.cpp,
// TGI and others. It is the live world of the policies of package policy/tokens, as sim/serve is their simulated one.
//
// Nouns:
//   - A client has a name, a weight and one key or several, of which a file has the SHA-256 (Client).
//   - A request waits in the line until the policy says that it is next and its tokens fit beside those in flight. Then it is
//     sent to the server, once.
//   - Tokens in flight are those of prompts that the server has, and of their answers. A request has the estimate of its
//     prompt there, and as much output as it may have, at most Options.Reserve. What it produces beyond that counts as it comes.
//   - The charge of a request is that of the policy: its prompt when it is sent, and each token when it comes. What the server
//     says in the end about its usage corrects both.
//   - The meter counts the tokens of a stream: one for each piece with text in it, and what the server says about its usage.
//
// All times of the policy are since the gate began. Sizes are in bytes.
//
// Source of the policies: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024.
package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/policy/tokens"
)

// Options are what a Gate is made of. Zero values are defaults.
type Options struct {
	Upstream    string // URL of the server, such as http://127.0.0.1:8000
	UpstreamKey string // the key that the server asks for, if any
	Keys        string // path of the file of keys
	Listen      string // address and port; default 127.0.0.1:7079
	Cert, Key   string // PEM files; may be empty on a loopback address alone

	Policy   tokens.Config // default vtc
	InFlight int           // tokens in flight; default 16,384
	Reserve  int           // tokens of output for which there must be room when a request begins; default 1,024, at most an eighth of InFlight
	Waiting  int           // requests of a client that wait at once, where the file of keys says nothing; default 100
	WaitAll  int           // requests that wait at once in all; default 10,000
	NoUsage  bool          // do not ask the server for the usage at the end of streams

	MaxBody  int64         // bytes of a body; default 8 MiB
	Bodies   int64         // bytes of all bodies that are kept; default 256 MiB
	Buffer   int           // bytes of an answer that its client has not taken yet; default 256 KiB
	MaxConns int           // connections at once; default 4,096
	Stall    time.Duration // for which the server may send nothing; default 10 min
	Grace    time.Duration // for requests in progress when the gate ends; default 30 s

	Log   *slog.Logger // nil: nothing is logged
	times times        // zero: the default
}

// times are limits on time against clients that are slow on purpose or by mischance, and those between looks at something.
type times struct {
	head  time.Duration // to send the head of a request
	body  time.Duration // to send its body
	write time.Duration // to take a piece of the answer
	idle  time.Duration // between two requests
	hint  time.Duration // between two words about the place in the line
	look  time.Duration // between two looks at the file of keys
	probe time.Duration // between two attempts to reach a server that is down
}

func usualTimes() times {
	return times{head: 10 * time.Second, body: 30 * time.Second, write: 30 * time.Second, idle: 2 * time.Minute, hint: 5 * time.Second, look: 2 * time.Second, probe: time.Second}
}

// retryDown is after which time a client is told to try again while the server is down.
const retryDown = 5 * time.Second

// maxHead is the largest head of a request, in bytes.
const maxHead = 32 << 10

func (o *Options) setDefaults() error {
	set := func(v *int, usual int) {
		if *v == 0 {
			*v = usual
		}
	}
	set(&o.InFlight, 16384)
	set(&o.Reserve, max(1, min(1024, o.InFlight/8)))
	set(&o.Waiting, 100)
	set(&o.WaitAll, 10_000)
	set(&o.Buffer, 256<<10)
	set(&o.MaxConns, 4096)
	if o.Listen == "" {
		o.Listen = "127.0.0.1:7079"
	}
	if o.MaxBody == 0 {
		o.MaxBody = 8 << 20
	}
	if o.Bodies == 0 {
		o.Bodies = max(256<<20, 2*o.MaxBody)
	}
	if o.Stall == 0 {
		o.Stall = 10 * time.Minute
	}
	if o.Grace == 0 {
		o.Grace = 30 * time.Second
	}
	if o.times == (times{}) {
		o.times = usualTimes()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Policy == nil {
		o.Policy = tokens.NewVTC()
	}
	switch {
	case o.InFlight < 1 || o.Reserve < 1 || o.Waiting < 1 || o.WaitAll < 1 || o.Buffer < 1 || o.MaxConns < 1 || o.MaxBody < 1 || o.Stall < 0 || o.Grace < 0:
		return errors.New("limits are positive numbers")
	case o.Bodies < 2*o.MaxBody:
		return fmt.Errorf("of %d bytes for all bodies one client may have half, which is less than the %d that one body may have", o.Bodies, o.MaxBody)
	}
	return nil
}

// Gate is a gateway. It listens from New on, and answers from Serve on.
type Gate struct {
	Options
	line   *line
	up     *upstream
	keys   atomic.Pointer[map[Hash]caller]
	cert   atomic.Pointer[tls.Certificate]
	http   *http.Server
	listen net.Listener
	meters *meters
	mux    *http.ServeMux
	looked [3]stamp // files when they were last read: keys, certificate, its key
	asides chan struct{}
}

// New checks the options, reads the keys and listens. Options that would let in whom they should not are refused.
func New(o Options) (*Gate, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	switch v, ok := o.Policy.(*tokens.VTC); {
	case ok && v.Predict == tokens.Oracle:
		return nil, errors.New("predict=oracle: nobody knows the length of an answer before it is there; use predict=mean")
	case ok && len(v.Weights) > 0:
		return nil, errors.New("weights: those of a gate stand in the file of keys")
	}
	base, err := baseOf(o.Upstream)
	if err != nil {
		return nil, err
	}
	clients, err := LoadKeys(o.Keys)
	if err != nil {
		return nil, fmt.Errorf("the keys cannot be used: %w", err)
	}
	policy, err := o.Policy.Policy(tokens.Setup{Pool: o.InFlight})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	g := &Gate{Options: o, asides: make(chan struct{}, mostAsides)}
	g.line = &line{
		now: func() time.Duration { return time.Since(began) }, limit: o.InFlight, reserve: o.Reserve, most: o.WaitAll, each: o.Waiting,
		policy: policy, numbers: map[string]*account{}, tickets: map[int]*ticket{},
	}
	g.meters = newMeters(g.line)
	g.up = newUpstream(base, o.UpstreamKey, g.line, o.Log, o.times.probe)
	g.look()
	g.install(clients)
	g.routes()
	if err := g.open(); err != nil {
		return nil, err
	}
	return g, nil
}

// baseOf reads the address of the server.
func baseOf(text string) (*url.URL, error) {
	base, err := url.Parse(strings.TrimSuffix(strings.TrimRight(text, "/"), "/v1"))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, fmt.Errorf("%q is no address of a server: write one such as http://127.0.0.1:8000", text)
	}
	return base, nil
}

// open listens.
func (g *Gate) open() error {
	addr, err := net.ResolveTCPAddr("tcp", g.Listen)
	if err != nil {
		return fmt.Errorf("%q is no address to listen on: %w", g.Listen, err)
	}
	secure := g.Cert != "" || g.Key != ""
	switch {
	case secure:
		err = g.loadCert()
	case !addr.IP.IsLoopback():
		err = fmt.Errorf("listening on %s is refused without TLS: keys would cross the network in the clear; name a certificate and a key, or listen on 127.0.0.1", g.Listen)
	}
	if err != nil {
		return err
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	g.http = &http.Server{
		Handler: g, ReadHeaderTimeout: g.times.head, IdleTimeout: g.times.idle, MaxHeaderBytes: maxHead,
		ErrorLog: slog.NewLogLogger(g.Log.Handler(), slog.LevelDebug), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250},
	}
	g.listen = server.Bound(g.http, l, g.MaxConns, secure)
	if secure {
		g.listen = tls.NewListener(g.listen, &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return g.cert.Load(), nil },
		})
	}
	return nil
}

func (g *Gate) loadCert() error {
	cert, err := tls.LoadX509KeyPair(g.Cert, g.Key)
	if err != nil {
		return fmt.Errorf("the certificate cannot be used: %w", err)
	}
	g.cert.Store(&cert)
	return nil
}

// Addr is the address that is listened on.
func (g *Gate) Addr() net.Addr { return g.listen.Addr() }

// Serve answers requests until the context ends. Then those who wait are told to come again, and requests in progress may
// end within Options.Grace. again, if not nil, has the keys and the certificate read anew whenever it gives something.
func (g *Gate) Serve(ctx context.Context, again <-chan os.Signal) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g.up.begin(ctx)
	ended := make(chan error, 1)
	go func() { ended <- g.http.Serve(g.listen) }()
	ticks := time.NewTicker(g.times.look)
	defer ticks.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("listening on %s: %w", g.Addr(), err)
		case <-again:
			g.reload()
		case <-ticks.C:
			if g.look() {
				g.reload()
			}
		case <-ctx.Done():
			g.line.close(&problem{http.StatusServiceUnavailable, serverError, "ending", "the gate ends: try again", retryDown})
			last, cancel := context.WithTimeout(context.Background(), g.Grace)
			defer cancel()
			if err := g.http.Shutdown(last); err != nil {
				g.Log.Warn("requests did not end in time and are cancelled", "after", g.Grace)
				g.http.Close()
			}
			return nil
		}
	}
}

// caller is who sends a request.
type caller struct {
	*account
	operator bool
}

// stamp tells whether a file has changed.
type stamp struct {
	time time.Time
	size int64
}

// look tells whether a file has changed since the last look.
func (g *Gate) look() (changed bool) {
	for i, path := range []string{g.Keys, g.Cert, g.Options.Key} {
		info, err := os.Stat(path)
		if path == "" || err != nil { // it is being replaced, or will be
			continue
		}
		if s := (stamp{info.ModTime(), info.Size()}); s != g.looked[i] {
			g.looked[i], changed = s, true
		}
	}
	return changed
}

// reload reads keys and certificate anew. Where they cannot be used, those that there were stay in force.
func (g *Gate) reload() {
	clients, err := LoadKeys(g.Keys)
	if err != nil {
		g.Log.Error("the keys have changed and cannot be used; those from before stay in force", "error", err)
	} else {
		g.install(clients)
		g.Log.Info("keys were read", "clients", len(clients))
	}
	if g.Cert != "" {
		if err := g.loadCert(); err != nil {
			g.Log.Error("the certificate from before stays in force", "error", err)
		}
	}
}

// install has clients in the place of those that there were.
func (g *Gate) install(clients []Client) {
	g.line.take(clients, g.meters.of)
	byHash := map[Hash]caller{}
	weighted := false
	for _, c := range clients {
		weighted = weighted || c.Weight != 1
		for _, h := range c.Hashes {
			byHash[h] = caller{g.line.find(c.Name), c.Operator}
		}
	}
	g.keys.Store(&byHash)
	if weighted && !slices.Contains(g.Policy.Params().Names(), "weights") {
		g.Log.Warn("the file of keys has weights, and the policy knows none: vtc and lcf do")
	}
}

// routes says what is answered.
func (g *Gate) routes() {
	g.mux = http.NewServeMux()
	post := func(path string, k kind) {
		g.mux.HandleFunc("POST "+path, g.known(func(w http.ResponseWriter, r *http.Request, c caller) { g.ask(w, r, c.account, k) }))
	}
	post("/v1/chat/completions", chat)
	post("/v1/completions", completion)
	post("/v1/embeddings", embedding)
	g.mux.HandleFunc("GET /v1/models", g.known(g.aside))
	g.mux.HandleFunc("GET /v1/models/{model...}", g.known(g.aside))
	g.mux.HandleFunc("GET /gate/queue", g.known(g.queue))
	metrics := g.meters.handler()
	g.mux.HandleFunc("GET /metrics", g.known(func(w http.ResponseWriter, r *http.Request, c caller) {
		if !c.operator {
			wrong(http.StatusForbidden, "metrics are for keys with the role operator").write(w)
			return
		}
		metrics.ServeHTTP(w, r)
	}))
	g.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	g.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if p := g.line.trouble(); p != nil {
			p.write(w)
			return
		}
		io.WriteString(w, "ok\n")
	})
	g.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		wrong(http.StatusNotFound, "%.100q is not let through by this gate: it knows POST /v1/chat/completions, /v1/completions and /v1/embeddings, and GET /v1/models", r.Method+" "+r.URL.Path).write(w)
	})
}

// ServeHTTP answers a request.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 { // also for a body that nobody wants to read
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.times.body))
	}
	g.mux.ServeHTTP(w, r)
}

// known lets through who has a key.
func (g *Gate) known(then func(http.ResponseWriter, *http.Request, caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		who, known := (*g.keys.Load())[HashOf(strings.TrimSpace(key))]
		if !known || !strings.EqualFold(scheme, "Bearer") {
			g.meters.strangers.Inc()
			(&problem{http.StatusUnauthorized, badRequest, "invalid_api_key", "a key is needed that this gate knows: Authorization: Bearer KEY", 0}).write(w)
			return
		}
		c := &counted{ResponseWriter: w}
		defer func() { g.meters.answers.WithLabelValues(who.name, c.code()).Inc() }()
		then(c, r, who)
	}
}

// counted is a ResponseWriter that knows what was answered.
type counted struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status, unless it is one of those that come ahead of the answer.
func (c *counted) WriteHeader(status int) {
	if c.status == 0 && status >= 200 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *counted) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// code is the status as a label: 499 where the client left before there was any.
func (c *counted) code() string {
	if c.status == 0 {
		return "499"
	}
	return fmt.Sprint(c.status)
}

var _ prometheus.Collector = (*meters)(nil)
