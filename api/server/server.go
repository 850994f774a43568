package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Config is what a Server is made of. Zero values are defaults.
type Config struct {
	Backend Backend

	Socket string // path of the Unix socket; empty: none
	TCP    *TCP   // nil: none
	// Operators tells who is an operator, of those who come over the socket; nil:
	// nobody.
	Operators func(uid uint32, user string) bool

	MaxBody  int64         // bytes of a request's body; default 4 MiB
	MaxConns int           // connections at once, of which one user may hold half; default 4096, or half of the files that may be open
	Header   time.Duration // within which a connection must have sent the head of a request; default 10 s

	Version string       // of Norn
	Metrics bool         // serve /metrics
	Log     *slog.Logger // nil: nothing is logged

	times times // zero: the default
}

// TCP is where the API is served to other machines.
type TCP struct {
	Addr      string // host:port
	Cert, Key string // PEM files; may be empty on a loopback address alone
	Tokens    []Token
	// Authenticate tells who sends a token that is none of Tokens; nil: nobody does. A refusal
	// is an *api.Error.
	Authenticate func(ctx context.Context, token string) (Caller, error)
}

// Token is who may call over TCP. The token itself is kept nowhere.
type Token struct {
	Name     string // for the log
	SHA256   string // of the token, in hex
	User     string // as whom its bearer acts
	Operator bool
}

// times are limits on time, against clients that are slow on purpose or by
// mischance.
type times struct {
	body  time.Duration // to send its body
	write time.Duration // to take a piece of the answer
	idle  time.Duration // between two requests
	stop  time.Duration // for requests in progress when the server stops
	beat  time.Duration // between signs of life in a stream of events
}

func defaultTimes() times {
	return times{
		body: 20 * time.Second, write: 30 * time.Second, idle: 2 * time.Minute, stop: 5 * time.Second, beat: 15 * time.Second,
	}
}

// Other limits.
const (
	maxHeader    = 64 << 10 // bytes of the head of a request
	maxDepth     = 32       // of a body in JSON
	maxStreams   = 64       // requests at once on one connection of HTTP/2
	metricsTime  = 10 * time.Second
	metricsQueue = 4 // scrapes at once
)

// Server serves the API. It listens from New on and answers from Serve on.
type Server struct {
	Config
	http      *http.Server
	mux       *http.ServeMux
	api       huma.API
	listeners []listener
	conns     *limits
	tokens    []hashed
	counts    *counts
	closing   context.Context // ends when the server stops: so do streams and long polls
	close     context.CancelFunc
}

// New checks a configuration and listens. A Config that would let in whom it
// should not is refused. Serve must be called, if only with a context that has
// ended, to give up what is listened on.
func New(c Config) (*Server, error) {
	s := &Server{Config: c}
	if err := s.setDefaults(); err != nil {
		return nil, err
	}
	s.conns = newLimits(s.MaxConns)
	s.counts = newCounts(s.conns)
	s.closing, s.close = context.WithCancel(context.Background())
	if err := s.routes(); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.Header,
		IdleTimeout:       s.times.idle,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       withConn,
		ConnState:         s.conns.state,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	if err := s.listen(); err != nil {
		for _, l := range s.listeners {
			l.Close()
		}
		return nil, err
	}
	return s, nil
}

func (s *Server) setDefaults() error {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.times == (times{}) {
		s.times = defaultTimes()
	}
	if s.MaxBody == 0 {
		s.MaxBody = 4 << 20
	}
	if s.Header == 0 {
		s.Header = 10 * time.Second
	}
	if s.MaxConns == 0 {
		s.MaxConns = min(4096, openFiles()/2)
	}
	if s.Operators == nil {
		s.Operators = func(uint32, string) bool { return false }
	}
	switch {
	case s.Backend == nil:
		return errors.New("server: no backend")
	case s.MaxBody < 0 || s.MaxConns < 1 || s.Header < 0:
		return fmt.Errorf("a limit of %d bytes a request, %d connections and %v for the head of a request makes no sense", s.MaxBody, s.MaxConns, s.Header)
	case s.Socket == "" && s.TCP == nil:
		return errors.New("nowhere to listen: name a socket or a TCP address")
	}
	return nil
}

// Addr is the TCP address that is listened on, or nil.
func (s *Server) Addr() net.Addr {
	i := slices.IndexFunc(s.listeners, func(l listener) bool { return l.tcp })
	if i < 0 {
		return nil
	}
	return s.listeners[i].Addr()
}

// Serve answers requests until the context ends or listening fails. It lets
// requests in progress end, for a few seconds, and ends streams.
func (s *Server) Serve(ctx context.Context) error {
	ended := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { ended <- s.serve(l) }()
	}
	left := len(s.listeners)
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
		left--
	}
	s.stop()
	for range left {
		err = errors.Join(err, <-ended)
	}
	return err
}

func (s *Server) serve(l listener) error {
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("listening on %s: %w", l.Addr(), err)
}

// stop ends the server: first streams and connections without a request, then
// requests in progress.
func (s *Server) stop() {
	s.close()
	ctx, cancel := context.WithTimeout(context.Background(), s.times.stop)
	defer cancel()
	s.conns.close()
	if err := s.http.Shutdown(ctx); err != nil {
		s.Log.Warn("requests did not end in time", "after", s.times.stop)
		s.http.Close()
	}
}

// lasting is a context for what goes on for long: it ends with the request, and
// when the server stops.
func (s *Server) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.closing, cancel)
	return ctx, func() { unhook(); cancel() }
}

// loadTLS reads certificate and key.
func (t *TCP) loadTLS() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("the certificate for TCP cannot be used: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

// hashed is a token as requests are checked against it.
type hashed struct {
	Token
	sum [sha256.Size]byte
}

// hashes checks the tokens of a configuration.
func (t *TCP) hashes() ([]hashed, error) {
	if len(t.Tokens) == 0 && t.Authenticate == nil {
		return nil, fmt.Errorf("TCP on %s is refused without tokens: anybody could start jobs", t.Addr)
	}
	out := make([]hashed, len(t.Tokens))
	for i, k := range t.Tokens {
		sum, err := hex.DecodeString(strings.TrimSpace(k.SHA256))
		switch {
		case k.Name == "" || k.User == "":
			return nil, fmt.Errorf("token %d of TCP needs a name and a user", i+1)
		case err != nil || len(sum) != sha256.Size:
			return nil, fmt.Errorf("token %s: what stands for its SHA-256 is not one: write 64 hex digits", k.Name)
		}
		out[i] = hashed{Token: k, sum: [sha256.Size]byte(sum)}
		if slices.ContainsFunc(out[:i], func(o hashed) bool { return o.sum == out[i].sum || o.Name == k.Name }) {
			return nil, fmt.Errorf("token %s is there twice", k.Name)
		}
	}
	return out, nil
}
