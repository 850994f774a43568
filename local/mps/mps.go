// Package mps runs NVIDIA's Multi-Process Service, under which the processes of several
// jobs compute on one GPU at the same time instead of in turns.
//
// Nouns:
//   - The control program is nvidia-cuda-mps-control.
//   - A Server is one control daemon. It serves one GPU to one user, since it
//     lets the clients of two users wait for each other.
//   - A client is a process that finds its pipe folder in its environment.
//
// # Folders
//
// A Server has a folder of its own with two below it, pipe (through which clients find
// it) and log. It outlives who started it: as long as it answers it is not started again.
//
// Units: shares are thousandths of a GPU's multiprocessors, memory is bytes.
//
// Source: NVIDIA, Multi-Process Service, release 12: sections on environment variables,
// on the control utility, and on limits of resources.
package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/local/rundir"
)

// Program is the control program, as it is looked for in PATH.
const Program = "nvidia-cuda-mps-control"

// Variables of clients and servers.
const (
	EnvPipe     = "CUDA_MPS_PIPE_DIRECTORY"
	envLog      = "CUDA_MPS_LOG_DIRECTORY"
	envThreads  = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	envMemory   = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	envPriority = "CUDA_MPS_CLIENT_PRIORITY"
)

// Find is the path of the control program; empty: it is not there.
func Find() string {
	path, err := exec.LookPath(Program)
	if err != nil {
		return ""
	}
	return path
}

// Server is one control daemon.
type Server struct {
	Program string       `json:"program"` // path of the control program
	Folder  string       `json:"folder"`  // an absolute path
	UUID    string       `json:"uuid"`    // of its GPU
	User    *rundir.User `json:"user,omitempty"`
}

func (s *Server) pipe() string { return filepath.Join(s.Folder, "pipe") }
func (s *Server) log() string  { return filepath.Join(s.Folder, "log") }

// maxFolder is how long the path of a pipe folder may be: sockets are made in it.
const maxFolder = 80

// patience is how long the control program may take.
const patience = 10 * time.Second

// Start starts the server, unless it answers already.
func (s *Server) Start(ctx context.Context) error {
	if len(s.pipe()) > maxFolder {
		return fmt.Errorf("%s is too long a path for the sockets of MPS, which has room for %d bytes", s.pipe(), maxFolder)
	}
	if s.Alive(ctx) {
		return nil
	}
	if err := s.prepare(); err != nil {
		return err
	}
	return s.call(ctx, "", "-d")
}

// prepare makes the folders. That of another user becomes hers last, and is not touched
// again: what she puts there instead must not become hers by this.
func (s *Server) prepare() error {
	if s.User == nil {
		return errors.Join(os.MkdirAll(s.pipe(), 0o700), os.MkdirAll(s.log(), 0o700))
	}
	if err := os.Mkdir(s.Folder, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	if err := errors.Join(os.Mkdir(s.pipe(), 0o700), os.Mkdir(s.log(), 0o700)); err != nil {
		return err
	}
	for _, dir := range []string{s.pipe(), s.log(), s.Folder} {
		if err := os.Lchown(dir, int(s.User.UID), int(s.User.GID)); err != nil {
			return err
		}
	}
	return nil
}

// Alive tells whether the server answers.
func (s *Server) Alive(ctx context.Context) bool {
	if _, err := os.Stat(s.pipe()); err != nil {
		return false
	}
	return s.call(ctx, "get_server_list\n") == nil
}

// Quit ends the server. Processes that compute through it end with an error.
func (s *Server) Quit(ctx context.Context) error { return s.call(ctx, "quit\n") }

// call runs the control program.
func (s *Server) call(ctx context.Context, input string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := exec.CommandContext(ctx, s.Program, args...)
	c.Stdin = strings.NewReader(input)
	c.Dir = "/"
	c.WaitDelay = time.Second // what it leaves running may keep its output
	c.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES="+s.UUID, EnvPipe+"="+s.pipe(), envLog+"="+s.log())
	if err := as(c, s.User); err != nil {
		return err
	}
	out, err := os.CreateTemp("", "norn-mps-*") // a daemon keeps a pipe open
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	if err := c.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w: %s", Program, err, strings.TrimSpace(string(text[:min(len(text), 500)])))
	}
	return nil
}

// Client is what the environment of a process has that computes through the server,
// with so many thousandths of the GPU and so much of its memory. A packed guest, which
// holds no part, gets what others leave over; 0 bytes are no limit.
func (s *Server) Client(milli int, memory api.Bytes) []string {
	env := []string{EnvPipe + "=" + s.pipe(), envLog + "=" + s.log()}
	switch {
	case milli <= 0:
		env = append(env, envPriority+"=1")
	case milli < 1000:
		env = append(env, envThreads+"="+strconv.Itoa((milli+9)/10))
	}
	if memory > 0 { // the only GPU that it sees is its first
		env = append(env, fmt.Sprintf("%s=0=%dM", envMemory, max(1, memory>>20)))
	}
	return env
}

// Without is an environment without what Client adds.
func Without(env []string) []string {
	var out []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "CUDA_MPS_") {
			out = append(out, kv)
		}
	}
	return out
}
