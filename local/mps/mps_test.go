//go:build unix

package mps_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/mps"
	"github.com/norn-scheduler/norn/local/rundir"
)

// server is one of the fake control program, which is found in PATH.
func server(t *testing.T) *mps.Server {
	t.Helper()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	folder, err := os.MkdirTemp("", "mps") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	s := &mps.Server{Program: mps.Find(), Folder: filepath.Join(folder, "gpu0"), UUID: "GPU-1"}
	t.Cleanup(func() {
		s.Quit(context.Background())
		os.RemoveAll(folder)
	})
	return s
}

func asked(t *testing.T, s *mps.Server) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.Folder, "log", "control.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A server is started once, however often it is asked for, again when it has died, and
// ended.
func TestServer(t *testing.T) {
	s, ctx := server(t), context.Background()
	if s.Alive(ctx) {
		t.Fatal("it answers before it was started")
	}
	for range 2 {
		if err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if !s.Alive(ctx) {
			t.Fatal("it does not answer")
		}
	}
	if have := asked(t, s); strings.Count(have, "start GPU-1") != 1 {
		t.Error(have)
	}
	if err := s.Quit(ctx); err != nil || s.Alive(ctx) {
		t.Errorf("it goes on: %v", err)
	}
	if err := s.Start(ctx); err != nil || !s.Alive(ctx) {
		t.Errorf("it is not started again: %v", err)
	}
}

// The output of the control program goes to the log.
func TestRefused(t *testing.T) {
	s, ctx := server(t), context.Background()
	s.UUID = "GPU-broken"
	if err := s.Start(ctx); err == nil || !strings.Contains(err.Error(), "exit status 1: no such device") {
		t.Error(err)
	}
	s.Folder = filepath.Join(s.Folder, strings.Repeat("x", 80))
	if err := s.Start(ctx); err == nil || !strings.Contains(err.Error(), "too long a path") {
		t.Error(err)
	}
	none := &mps.Server{Program: "/no/such/program", Folder: filepath.Dir(s.Folder)}
	if err := none.Start(ctx); err == nil {
		t.Error("a program that is not there was started")
	}
}

// The server of another user runs as that user, in folders that are hers.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	s, ctx := server(t), context.Background()
	s.User = &rundir.User{UID: 65534, GID: 65534}
	if err := os.Chmod(filepath.Dir(s.Folder), 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(s.Folder), mps.Program) // where she may read it
	if b, err := os.ReadFile(s.Program); err != nil || os.WriteFile(program, b, 0o755) != nil {
		t.Fatal(err)
	}
	s.Program = program
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if have := asked(t, s); have != "start GPU-1 65534\n" {
		t.Error(have)
	}
}

func TestClient(t *testing.T) {
	s := mps.Server{Folder: "/s/gpu0"}
	where := "CUDA_MPS_PIPE_DIRECTORY=/s/gpu0/pipe CUDA_MPS_LOG_DIRECTORY=/s/gpu0/log"
	for _, c := range []struct {
		milli  int
		memory int64
		want   string
	}{
		{1000, 0, ""},
		{500, 20 << 30, " CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=20480M"},
		{333, 1, " CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=34 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1M"},
		{0, 0, " CUDA_MPS_CLIENT_PRIORITY=1"},
	} {
		env := s.Client(c.milli, api.Bytes(c.memory))
		if have := strings.Join(env, " "); have != where+c.want {
			t.Errorf("%d, %d: %s", c.milli, c.memory, have)
		}
		if left := mps.Without(append(env, "A=b")); len(left) != 1 || left[0] != "A=b" {
			t.Errorf("%v", left)
		}
	}
}
