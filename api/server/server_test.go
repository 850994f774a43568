package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api/client"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// running is a server that answers, and ways to ask it.
type running struct {
	*Server
	fake   *fake
	client *client.Client // over the socket
	http   *http.Client   // over the socket, whatever the URL says
	log    *buffer
	stop   func() error
}

// buffer collects what is logged.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// start serves a fake backend on a socket, and on whatever else the test asks
// for, until the test ends. The user of the test is an operator unless the test
// says otherwise.
func start(t testing.TB, with func(*Config)) *running {
	t.Helper()
	f, log := newFake(), &buffer{}
	c := Config{
		Backend: f, Socket: socketPath(t), Metrics: true, Version: "v1.2.3",
		Operators: func(uint32, string) bool { return true },
		Log:       slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if with != nil {
		with(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	cl, err := client.New(c.Socket, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return &running{Server: s, fake: f, client: cl, http: overSocket(c.Socket), log: log, stop: stop}
}

// socketPath is a short path: those of sockets are limited.
func socketPath(t testing.TB) string {
	dir, err := os.MkdirTemp("", "norn")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "norn.sock")
}

func overSocket(path string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: patience}
}

// ask sends a request over the socket and returns status and body.
func (r *running) ask(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	return ask(t, r.http, method, "http://norn"+path, body, "")
}

func ask(t testing.TB, c *http.Client, method, url, body, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body, req.ContentLength = nil, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// me is the name of the user who runs the test.
func me(t testing.TB) string {
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}
