package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
)

func dial(t testing.TB, socket string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", socket)
	ok(t, err)
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// statusLine reads the status of an answer, 0 where there is none.
func statusLine(t testing.TB, c net.Conn) int {
	t.Helper()
	line, err := bufio.NewReader(c).ReadString('\n')
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		t.Fatal("no answer came, and no end of the connection")
	}
	words := strings.Fields(line)
	if err != nil || len(words) < 2 {
		return 0
	}
	code, _ := strconv.Atoi(words[1])
	return code
}

// until waits for a condition that nobody announces.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never happened: " + what)
		}
	}
}

// short are times that a test can wait for.
func short(c *Config) {
	c.times = defaultTimes()
	c.Header = 300 * time.Millisecond
	c.times.body, c.times.write, c.times.idle = 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
}

// Clients that send their requests a byte at a time, or never, are cut off, and
// keep nobody waiting.
func TestSlowSenders(t *testing.T) {
	r := start(t, short)
	var slow []net.Conn
	for i := range 60 {
		c := dial(t, r.Socket)
		defer c.Close()
		slow = append(slow, c)
		switch i % 4 {
		case 0: // nothing at all
		case 1:
			io.WriteString(c, "GET /v1/status HTT")
		case 2:
			io.WriteString(c, "GET /v1/status HTTP/1.1\r\nHost: norn\r\nX-A: ")
		case 3:
			io.WriteString(c, "POST /v1/jobs HTTP/1.1\r\nHost: norn\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"comm")
		}
	}
	for range 20 {
		if _, err := r.client.Status(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range slow {
		code := statusLine(t, c)
		if code != 0 && code != 408 && code != 400 {
			t.Errorf("client %d is told %d", i, code)
		}
		io.Copy(io.Discard, c) // to the end, which comes
	}
	if len(r.fake.jobs) != 0 {
		t.Error("half a request was carried out")
	}
}

// A client that dribbles its body does not get beyond the time for it.
func TestDribble(t *testing.T) {
	r := start(t, short)
	c := dial(t, r.Socket)
	defer c.Close()
	io.WriteString(c, "POST /v1/jobs/1/cancel HTTP/1.1\r\nHost: norn\r\nContent-Length: 100000\r\n\r\n")
	ended := make(chan int)
	go func() { ended <- statusLine(t, c) }()
	for i := 0; ; i++ {
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
			c.Write([]byte("x"))
		}
		if i > 1500 {
			t.Fatal("still dribbling")
		}
	}
}

// A client that does not read its answer is given up, and what it holds with it.
func TestSlowReader(t *testing.T) {
	r := start(t, short)
	r.fake.add("anna", 1)
	r.fake.change(func() { r.fake.jobs[0].output = make([]byte, 64<<20) })
	c := dial(t, r.Socket)
	defer c.Close()
	io.WriteString(c, "GET /v1/jobs/1/logs HTTP/1.1\r\nHost: norn\r\n\r\n")
	until(t, "the answer is broken off", func() bool { return strings.Contains(r.log.String(), "broken_off=true") })
	n, err := io.Copy(io.Discard, c)
	if n >= 64<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// Thousands of clients at once are all answered, each of them.
func TestThousands(t *testing.T) {
	n := min(2000, openFiles()/4)
	r := start(t, func(c *Config) { c.MaxConns = 2*n + 100; quiet(c) })
	var all sync.WaitGroup
	conns, failed := make([]net.Conn, n), make(chan error, n)
	for i := range conns {
		conns[i] = dial(t, r.Socket)
		defer conns[i].Close()
	}
	body := `{"command":["true"]}`
	for _, c := range conns {
		all.Go(func() {
			fmt.Fprintf(c, "POST /v1/jobs HTTP/1.1\r\nHost: norn\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			if code := statusLine(t, c); code != 201 {
				failed <- fmt.Errorf("a client is told %d", code)
			}
		})
	}
	all.Wait()
	if len(failed) > 0 || len(r.fake.jobs) != n {
		t.Fatalf("%d of %d clients failed, %d jobs were taken in", len(failed), n, len(r.fake.jobs))
	}
	open, refusedOnes, shed := r.conns.count()
	if open < n || refusedOnes != 0 || shed != 0 {
		t.Errorf("%d open, %d refused, %d shed", open, refusedOnes, shed)
	}
	t.Logf("%d connections", n)
}

// Where there is no room, connections without a request give way, the oldest
// first; requests in progress do not.
func TestRoom(t *testing.T) {
	token := "s3cret"
	r := start(t, func(c *Config) {
		c.MaxConns = 20
		c.TCP = &TCP{Addr: "127.0.0.1:0", Tokens: []Token{{Name: "a", SHA256: hashToken(token), User: "anna"}}}
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var idle []net.Conn
	for range 30 { // more than one user may hold: the first ones go
		c := dial(t, r.Socket)
		defer c.Close()
		idle = append(idle, c)
	}
	for _, c := range idle[:20] {
		if code := statusLine(t, c); code != 0 {
			t.Errorf("a connection that gave way is told %d", code)
		}
	}
	watching := func() *http.Response {
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://norn/v1/events", nil)
		resp, err := (&http.Client{Transport: r.http.Transport.(*http.Transport).Clone()}).Do(req)
		ok(t, err)
		return resp
	}
	var streams []*http.Response
	for range 10 { // each of them a request in progress
		s := watching()
		defer s.Body.Close()
		if s.StatusCode != 200 {
			t.Fatal(s.Status)
		}
		streams = append(streams, s)
	}
	_, err := r.client.Status(ctx)
	refused(t, err, api.Unavailable, "too many connections")
	url := "http://" + r.Addr().String() + "/v1/status"
	if code, body := ask(t, &http.Client{Timeout: patience}, "GET", url, "", token); code != 200 {
		t.Errorf("one user keeps another out: %d %s", code, body)
	}
	streams[0].Body.Close()
	until(t, "there is room again", func() bool { open, _, _ := r.conns.count(); return open < 11 })
	if s := watching(); s.StatusCode != 200 {
		t.Error(s.Status)
	} else {
		s.Body.Close()
	}
}

// The books of connections are right whatever happens to them.
func TestLimitsBooks(t *testing.T) {
	l := newLimits(6)
	mine := func(o owner) *conn {
		a, b := net.Pipe()
		t.Cleanup(func() { b.Close() })
		return &conn{Conn: a, owner: o, limits: l}
	}
	var one []*conn
	for range 3 {
		c := mine(1)
		if !l.enter(c) {
			t.Fatal("no room")
		}
		one = append(one, c)
	}
	l.state(one[0], http.StateActive)
	if c := mine(1); !l.enter(c) || one[1].quiet != nil || one[2].quiet == nil {
		t.Error("not the oldest without a request gave way")
	}
	two := mine(2)
	if !l.enter(two) {
		t.Error("another owner is kept out")
	}
	for range 2 {
		if c := mine(3); !l.enter(c) {
			t.Error("there is room for six")
		}
	}
	if c := mine(4); !l.enter(c) { // all six are taken: of the largest crowd one gives way
		t.Error("the seventh finds no room")
	}
	if open, refusedOnes, shed := l.count(); open != 6 || refusedOnes != 0 || shed != 2 {
		t.Errorf("%d open, %d refused, %d shed", open, refusedOnes, shed)
	}
	one[0].Close()
	one[0].Close()
	two.Close()
	if open, _, _ := l.count(); open != 4 {
		t.Errorf("%d open", open)
	}
	l.close()
	if open, _, _ := l.count(); open != 0 || len(l.of) != 0 {
		t.Errorf("%d open, of %d owners", open, len(l.of))
	}
	if l.enter(mine(1)) {
		t.Error("it is closed")
	}
}

// A socket that a dead process left is replaced; whatever else is there stays.
func TestSocket(t *testing.T) {
	path := socketPath(t)
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	ok(t, err)
	old.SetUnlinkOnClose(false)
	old.Close()
	r := start(t, func(c *Config) { c.Socket = path })
	if _, err := r.client.Status(context.Background()); err != nil {
		t.Error(err)
	}
	info, err := os.Lstat(path)
	ok(t, err)
	if info.Mode().Perm() != 0o666 {
		t.Errorf("mode %v", info.Mode())
	}
	_, err = New(Config{Backend: newFake(), Socket: path})
	if err == nil || !strings.Contains(err.Error(), "another norn answers on it") {
		t.Errorf("have %v", err)
	}
	if _, err := r.client.Status(context.Background()); err != nil {
		t.Errorf("the first one is harmed: %v", err)
	}
	ok(t, r.stop())
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays behind: %v", err)
	}
	dir := filepath.Dir(path)
	ok(t, os.WriteFile(filepath.Join(dir, "file"), []byte("precious"), 0o600))
	ok(t, os.Symlink("file", filepath.Join(dir, "link")))
	for _, name := range []string{"file", "link", ".", "missing/norn.sock", strings.Repeat("long", 40)} {
		if _, err := New(Config{Backend: newFake(), Socket: filepath.Join(dir, name)}); err == nil || !strings.Contains(err.Error(), name) && name != "." {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "link")); err != nil || string(b) != "precious" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// A server that stops lets requests in progress end, and is gone at once where
// there are none, whoever is connected.
func TestStop(t *testing.T) {
	r := start(t, func(c *Config) { c.times = defaultTimes(); c.times.stop = time.Hour })
	c := dial(t, r.Socket) // connected, and silent
	defer c.Close()
	r.fake.add("anna", 1)
	body, err := r.client.Logs(context.Background(), "1", followAll)
	ok(t, err)
	defer body.Close()
	until(t, "both are accepted", func() bool { open, _, _ := r.conns.count(); return open == 2 })
	stopped := make(chan error)
	go func() { stopped <- r.stop() }()
	select {
	case err := <-stopped:
		ok(t, err)
	case <-time.After(patience):
		t.Fatal("it waits for clients that have nothing to wait for")
	}
	if _, err := io.ReadAll(body); err == nil {
		t.Error("output that was broken off looks whole")
	}
	if _, err := r.client.Status(context.Background()); err == nil {
		t.Error("it still answers")
	}
}
