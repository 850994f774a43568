package gate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// upstream is the server.
type upstream struct {
	base      *url.URL
	key       string
	transport *http.Transport
	line      *line
	log       *slog.Logger
	every     time.Duration // between two attempts to reach it while it is down

	mu      sync.Mutex
	down    bool
	closing context.Context
}

// newUpstream is a server to which each request has a connection of its own. So no request is ever sent twice, as it may be
// where a connection that was kept turns out to be closed.
func newUpstream(base *url.URL, key string, l *line, log *slog.Logger, every time.Duration) *upstream {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	return &upstream{base: base, key: key, line: l, log: log, every: every, closing: context.Background(), transport: &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}}
}

// passed are the headers of a request that go on to the server; its key does not.
var passed = []string{"Accept", "X-Request-Id", "Traceparent", "Tracestate"}

// send sends a request, once.
func (u *upstream) send(ctx context.Context, in *http.Request, body []byte) (*http.Response, error) {
	to := u.base.JoinPath(in.URL.Path)
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	out, err := http.NewRequestWithContext(ctx, in.Method, to.String(), content)
	if err != nil {
		return nil, err
	}
	out.GetBody = nil // it could be sent a second time with that
	for _, name := range passed {
		if v := in.Header.Get(name); v != "" {
			out.Header.Set(name, v)
		}
	}
	if body != nil {
		out.Header.Set("Content-Type", "application/json")
	}
	if u.key != "" {
		out.Header.Set("Authorization", "Bearer "+u.key)
	}
	return u.transport.RoundTrip(out)
}

// unreached tells whether an error means that a request has not reached the server.
func unreached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// begin looks whether the server is there. From then on it is looked after until the context ends.
func (u *upstream) begin(ctx context.Context) {
	u.mu.Lock()
	u.closing = ctx
	u.mu.Unlock()
	u.suspect()
}

// suspect looks whether the server is there, and halts the line where it is not.
func (u *upstream) suspect() {
	if err := u.healthy(); err != nil {
		u.lost(err)
	}
}

// lost halts the line until the server answers again.
func (u *upstream) lost(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.down || u.closing.Err() != nil {
		return
	}
	u.down = true
	u.log.Warn("the server cannot be reached: those who wait are told to come again", "upstream", u.base.String(), "error", err)
	u.line.halt(&problem{http.StatusServiceUnavailable, serverError, "server_down", "the server behind this gate cannot be reached: try again", retryDown})
	go u.await()
}

// await asks the server until it answers.
func (u *upstream) await() {
	ticks := time.NewTicker(u.every)
	defer ticks.Stop()
	for {
		select {
		case <-u.closing.Done():
			return
		case <-ticks.C:
		}
		if u.healthy() == nil {
			u.log.Info("the server answers again", "upstream", u.base.String())
			u.mu.Lock()
			defer u.mu.Unlock()
			u.down = false
			u.line.resume()
			return
		}
	}
}

// healthy asks the server how it is. One that answers anything but a fault of its own is well: not each has /health.
func (u *upstream) healthy() error {
	ctx, cancel := context.WithTimeout(u.closing, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.base.JoinPath("/health").String(), nil)
	if err != nil {
		return err
	}
	resp, err := u.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode >= 500 {
		return errors.New("GET /health: " + resp.Status)
	}
	return nil
}
