package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// lines is an output that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestGateServes makes a key, opens a gate, asks a model through it, and ends it as SIGTERM does.
func TestGateServes(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices":[{"text":"hello"}],"usage":{"prompt_tokens":3,"completion_tokens":1},"key":"`+r.Header.Get("Authorization")+`"}`)
	}))
	defer model.Close()
	dir := t.TempDir()
	keys, secret := filepath.Join(dir, "keys.yaml"), file(t, "key", "of-the-server\n")
	key, told := works(t, "gate", "key", "alice", "--weight", "2", "--keys", keys)
	if !strings.Contains(told, "alice was added") {
		t.Errorf("%q", told)
	}
	ctx, stop := context.WithCancel(t.Context())
	errOut := &lines{more: make(chan struct{}, 1)}
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"gate", "--upstream", model.URL, "--upstream-key", secret, "--keys", keys, "--listen", "127.0.0.1:0", "--policy", "vtc(predict=mean)", "--max-body", "1KiB"}, io.Discard, errOut)
	}()
	address := regexp.MustCompile(`address=(\S+)`)
	for address.FindString(errOut.String()) == "" {
		select {
		case <-errOut.more:
		case code := <-ended:
			t.Fatalf("exit code %d: %s", code, errOut)
		}
	}
	url := "http://" + address.FindStringSubmatch(errOut.String())[1] + "/v1/completions"
	ask := func(body string) (int, string) {
		r, err := http.NewRequest("POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(key))
		resp, err := http.DefaultClient.Do(r)
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
	if status, text := ask(`{"prompt":"a b c"}`); status != 200 || !strings.Contains(text, "hello") || !strings.Contains(text, "Bearer of-the-server") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask(`{"prompt":"` + strings.Repeat("a", 2000) + `"}`); status != 413 {
		t.Errorf("%d %s", status, text)
	}
	stop()
	if code := <-ended; code != 0 || !strings.Contains(errOut.String(), "the gate has ended") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

// TestGateKey prints a key and its line, which a file of keys can have.
func TestGateKey(t *testing.T) {
	out, _ := works(t, "gate", "key", "ops", "--operator", "--weight", "0.5")
	key, line, _ := strings.Cut(out, "\n")
	if !strings.HasPrefix(key, "norn_") || !strings.HasPrefix(line, "- {name: ops, hash: ") || !strings.Contains(line, "weight: 0.5, role: operator}") || strings.Contains(line, key) {
		t.Errorf("%q", out)
	}
}

// TestGateRefuses says what is wrong with a command line.
func TestGateRefuses(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	works(t, "gate", "key", "alice", "--keys", keys)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := os.WriteFile(keys+".open", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(keys+".open", 0o666); err != nil {
		t.Fatal(err)
	}
	base := []string{"gate", "--upstream", "http://127.0.0.1:1", "--keys", keys}
	for want, args := range map[string][]string{
		"--upstream is missing":       {"gate", "--keys", keys},
		"--keys is missing":           {"gate", "--upstream", "http://127.0.0.1:1"},
		"a gate knows fcfs":           append(base, "--policy", "fifo"),
		"only one policy":             append(base, "--policy", "vtc,fcfs"),
		"use predict=mean":            append(base, "--policy", "vtc(predict=oracle)"),
		"--max-body x":                append(base, "--max-body", "x"),
		"--buffer 0":                  append(base, "--buffer", "0"),
		"refused without TLS":         append(base, "--listen", ":0"),
		"address already in use":      append(base, "--listen", taken.Addr().String()),
		"no such file":                {"gate", "--upstream", "http://127.0.0.1:1", "--keys", keys + ".none"},
		"chmod 600":                   {"gate", "--upstream", "http://127.0.0.1:1", "--keys", keys + ".open"},
		"unknown command \"kee\"":     {"gate", "kee"},
		"letters, digits and":         {"gate", "key", "a b"},
		"alice\" is there twice":      {"gate", "key", "alice", "--keys", keys},
		"a weight is a number":        {"gate", "key", "bob", "--weight", "-1"},
		"the certificate cannot be":   append(base, "--tls-cert", "x", "--tls-key", "y"),
		"--upstream-key: open x: no ": append(base, "--upstream-key", "x"),
	} {
		_, errOut, code := norn(t, args...)
		if code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, errOut, want)
		}
	}
}
