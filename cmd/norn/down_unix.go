//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/norn-scheduler/norn/local/rundir"
)

// startDetached starts this program in a session of its own. ended is closed when
// it ends.
func startDetached(args []string, messages io.Writer) (ended <-chan struct{}, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, args...)
	cmd.Stdout, cmd.Stderr = messages, messages
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		cmd.Wait()
	}()
	return done, nil
}

// down ends the daemon of a state folder and waits until it has let go of it.
func down(ctx context.Context, state string) error {
	if free, err := unlocked(state); err != nil || free {
		return fmt.Errorf("%s: %w", state, errors.Join(err, errNotUp))
	}
	b, err := os.ReadFile(filepath.Join(state, pidFile))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return fmt.Errorf("%s does not name a process", filepath.Join(state, pidFile))
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending process %d: %w", pid, err)
	}
	for {
		if free, err := unlocked(state); free || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// unlocked tells whether no daemon holds a state folder.
func unlocked(state string) (bool, error) {
	if _, err := os.Stat(filepath.Join(state, rundir.LockFile)); errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	lock, err := rundir.Lock(state)
	if errors.Is(err, rundir.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, lock.Close()
}
