package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
)

// box is a daemon of its own: norn up as a process, on a state folder that is
// thrown away.
type box struct {
	*client.Client
	bin    string
	dir    string // the state folder
	policy string
	cmd    *exec.Cmd
	said   bytes.Buffer
	kept   []int // runners that are measured
}

// slots are the declared devices of a box.
const slots = 4

// newBox starts a daemon under a policy; all else is as the default has it, but for
// more lines of its configuration.
func newBox(bin, dir, policy string, more ...string) (*box, error) {
	b := &box{bin: bin, dir: filepath.Join(dir, "state"), policy: policy}
	var err error
	if b.Client, err = client.New(b.socket(), "", ""); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, err
	}
	config := fmt.Sprintf("state: %s\nsocket: %s\ndevices: %d\n%s", b.dir, b.socket(), slots, strings.Join(more, ""))
	if err := os.WriteFile(filepath.Join(dir, "norn.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	_, err = b.up()
	return b, err
}

func (b *box) socket() string { return filepath.Join(b.dir, "norn.sock") }

// up starts the daemon and returns after what time it answers that it is ready.
func (b *box) up() (time.Duration, error) {
	began := time.Now()
	args := []string{"up", "--config", filepath.Join(filepath.Dir(b.dir), "norn.yaml")}
	if b.policy != "" {
		args = append(args, "--policy", b.policy)
	}
	b.cmd = exec.Command(b.bin, args...)
	b.cmd.Stderr = &b.said
	if err := b.cmd.Start(); err != nil {
		return 0, err
	}
	for deadline := began.Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, err := b.Status(context.Background()); err == nil {
			return time.Since(began), nil
		}
		if st := readStat(b.cmd.Process.Pid); st.state == 'Z' {
			break
		}
	}
	b.cmd.Process.Kill()
	b.cmd.Wait()
	return 0, fmt.Errorf("norn up does not come up:\n%s", b.said.String())
}

// down ends the daemon; its jobs go on.
func (b *box) down() {
	b.cmd.Process.Signal(syscall.SIGTERM)
	b.cmd.Wait()
}

// close cancels what is left, and ends the daemon.
func (b *box) close() {
	ctx := context.Background()
	for range 50 {
		jobs, err := b.Jobs(ctx, api.Query{})
		if err != nil || len(jobs) == 0 {
			break
		}
		var groups []string
		for _, j := range jobs {
			base, _, _ := strings.Cut(j.ID, "_")
			if !slices.Contains(groups, base) {
				groups = append(groups, base)
			}
		}
		for _, id := range groups {
			b.Do(ctx, "cancel", id)
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.down()
}

// until waits for something that must come.
func until(what string, limit time.Duration, ok func() (bool, error)) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		switch is, err := ok(); {
		case err != nil:
			return err
		case is:
			return nil
		case time.Now().After(deadline):
			return errors.New("it did not come about within " + limit.String() + " that " + what)
		}
	}
}

// drained waits until no job is left that has not ended.
func (b *box) drained(limit time.Duration) error {
	return until("all jobs have ended", limit, func() (bool, error) {
		s, err := b.Status(context.Background())
		return s.Waiting+s.Running+s.Stopping+s.Held == 0, err
	})
}

// spec is a job of one device.
func spec(command ...string) api.JobSpec {
	return api.JobSpec{Command: command, Dir: "/", GPUs: api.Fixed(1), Env: map[string]string{"PATH": os.Getenv("PATH")}}
}

// stat is what the system says of a process.
type stat struct {
	state byte
	cpu   time.Duration // user and system
	rss   int64         // bytes
}

func readStat(pid int) stat {
	var s stat
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s
	}
	f := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(f) < 22 {
		return s
	}
	s.state = f[0][0]
	const ticks = 100 // in a second, as the kernel tells users everywhere
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	s.cpu = time.Duration(user+system) * (time.Second / ticks)
	pages, _ := strconv.ParseInt(f[21], 10, 64)
	s.rss = pages * int64(os.Getpagesize())
	return s
}

// cpuOf is the CPU time of a process to the nanosecond.
func cpuOf(pid int) time.Duration {
	var sum time.Duration
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	for _, t := range tasks {
		text, _ := os.ReadFile(t) // a thread may have ended
		ns, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(ns, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}
