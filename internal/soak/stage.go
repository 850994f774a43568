//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// slots is how many devices the Norn of a stage has.
const slots = 4

// room is the size of the file system of a state folder, where one can be mounted.
const room = 64 << 20

// stage is a Norn under one policy.
type stage struct {
	program, policy string
	state, socket   string
	truth           string // what jobs write down
	mounted         bool   // the state folder is a file system of its own
	http            *http.Client
	script          string
	began           time.Time
	mu              sync.Mutex // what follows is guarded by it, but for what only the chaos touches
	rng             *rand.Rand
	jobs            map[string]*told // by number, whose submission was answered
	names           int
	breaches        []string
	counts          map[string]int
	ended           chan error // of the daemon that runs; nil: none does
	daemon          *exec.Cmd
}

// told is what a client was told of a job.
type told struct {
	name      string
	steps     int
	stop      string
	held      bool // submitted with a hold
	released  time.Time
	cancelled time.Time
}

func newStage(program, dir, policy string, rng *rand.Rand) (*stage, error) {
	s := &stage{
		program: program, policy: policy, state: filepath.Join(dir, "state"), truth: filepath.Join(dir, "truth"),
		socket: filepath.Join(dir, "sock"), rng: rng, jobs: map[string]*told{}, counts: map[string]int{}, began: time.Now(),
	}
	for _, d := range []string{s.state, s.truth} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			return nil, err
		}
	}
	s.mounted = syscall.Mount("tmpfs", s.state, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", room)) == nil
	s.script = filepath.Join(s.truth, "job.sh")
	s.http = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
		},
	}}
	config := fmt.Sprintf("state: %s\nsocket: %s\ndevices: %d\npolicy: %q\ndisk: {reserve: 2MiB, refuse: 1MiB}\nhealth: {sample: 1s}\nhistory: {jobs: 100000, compact: 1000}\n", s.state, s.socket, slots, policy)
	if err := os.WriteFile(s.config(), []byte(config), 0o666); err != nil {
		return nil, err
	}
	return s, os.WriteFile(s.script, []byte(script), 0o755)
}

// script is a job: it counts its steps, and writes down when it runs. A frozen job still
// has its locks, and so takes none on its slots.
const script = `#!/bin/sh
# job.sh NAME STEPS STOP
T=$(dirname "$0"); name=$1 steps=$2 stop=$3 i=0
exec 9>>"$T/$name.lock"
flock -n 9 || echo "job $name ($NORN_JOB) runs twice at once" >>"$T/breaches"
take() { flock -n "$1" || echo "job $name ($NORN_JOB) runs on slot $2 beside another one" >>"$T/breaches"; }
if [ "$stop" != freeze ]; then
  case ,$CUDA_VISIBLE_DEVICES, in *,0,*) exec 3>>"$T/slot0"; take 3 0;; esac
  case ,$CUDA_VISIBLE_DEVICES, in *,1,*) exec 4>>"$T/slot1"; take 4 1;; esac
  case ,$CUDA_VISIBLE_DEVICES, in *,2,*) exec 5>>"$T/slot2"; take 5 2;; esac
  case ,$CUDA_VISIBLE_DEVICES, in *,3,*) exec 6>>"$T/slot3"; take 6 3;; esac
fi
echo "start $(date +%s%N)" >>"$T/$name.life"
if [ "$stop" = checkpoint ]; then
  trap 'exit 75' TERM
  [ -s "$T/$name.step" ] && i=$(cat "$T/$name.step")
fi
while [ "$i" -lt "$steps" ]; do
  sleep 0.05
  i=$((i + 1))
  [ "$stop" = checkpoint ] && echo $i >"$T/$name.new" && mv "$T/$name.new" "$T/$name.step"
done
echo "end $i $(date +%s%N)" >>"$T/$name.life"
`

// count counts what has happened.
func (s *stage) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// breach notes a promise that was not kept.
func (s *stage) breach(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaches = append(s.breaches, text)
	fmt.Println("BREACH:", text)
}

// draw is a number below n.
func (s *stage) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// config is the configuration of the Norn.
func (s *stage) config() string { return filepath.Join(filepath.Dir(s.truth), "norn.yaml") }

// start starts the daemon, and returns at once.
func (s *stage) start() error {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(s.truth), "norn.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.program, "up", "--config", s.config())
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.daemon, s.ended = cmd, ended
	s.count("daemons started")
	return nil
}

// kill kills the daemon, and returns when it is gone.
func (s *stage) kill() {
	s.daemon.Process.Kill()
	<-s.ended
	s.ended = nil
	s.count("daemons killed")
}

// gone waits for a while for the daemon to end by itself, and tells whether it has.
func (s *stage) gone(wait time.Duration) (err error, gone bool) {
	select {
	case err := <-s.ended:
		s.ended = nil
		return err, true
	case <-time.After(wait):
		return nil, false
	}
}

// ready waits until the daemon takes work.
func (s *stage) ready() error {
	until := time.Now().Add(30 * time.Second)
	for time.Now().Before(until) {
		if err, gone := s.gone(20 * time.Millisecond); gone {
			return fmt.Errorf("the daemon has ended by itself: %w", err)
		}
		if code, _, err := s.ask("GET", "/readyz", ""); err == nil && code == 200 {
			return nil
		}
	}
	return errors.New("the daemon is not ready after 30 s")
}

// ask makes a request. An answer of 500 is a breach.
func (s *stage) ask(method, path, body string) (code int, text []byte, err error) {
	req, err := http.NewRequest(method, "http://norn"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	s.count("requests")
	if resp.StatusCode == 500 {
		s.breach("%s %s is answered with 500: %s", method, path, text)
	}
	return resp.StatusCode, text, err
}

// command runs norn with arguments, and returns what it wrote and whether it succeeded.
func (s *stage) command(args ...string) (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Env = append(os.Environ(), "NORN_SERVER="+s.socket)
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		s.note(problem.String())
	}
	return strings.TrimSpace(string(out)), err == nil
}

// note writes down why a command has failed, for whoever looks into it.
func (s *stage) note(text string) {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(s.truth), "refused.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err == nil {
		f.WriteString(text)
		f.Close()
	}
}

// row is a job as the daemon lists it.
type row struct{ ID, Name, State string }

// list lists all jobs, those that have ended too, by number.
func (s *stage) list() (map[string]row, error) {
	code, text, err := s.ask("GET", "/v1/jobs?all=true", "")
	if err != nil {
		return nil, err
	}
	var list struct{ Jobs []row }
	if err := json.Unmarshal(text, &list); code != 200 || err != nil {
		return nil, fmt.Errorf("the list of jobs is answered with %d: %w", code, err)
	}
	out := map[string]row{}
	for _, r := range list.Jobs {
		if _, twice := out[r.ID]; twice {
			s.breach("job %s is listed twice", r.ID)
		}
		out[r.ID] = r
	}
	return out, nil
}

// numbers are those of the jobs that a client was told of, in order of their names.
func (s *stage) numbers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for id := range s.jobs {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// runners are the processes that watch over jobs.
func (s *stage) runners() (out []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range dirs {
		text, err := os.ReadFile(path)
		args := strings.Split(string(text), "\x00")
		if err == nil && len(args) > 2 && args[1] == "runner" && strings.HasPrefix(args[2], s.state) {
			pid := 0
			fmt.Sscanf(path, "/proc/%d/", &pid)
			out = append(out, pid)
		}
	}
	return out
}

// end takes down what is left of the stage.
func (s *stage) end() {
	if s.ended != nil {
		s.kill()
	}
	for range 50 {
		left := s.runners()
		for _, pid := range left {
			syscall.Kill(pid, syscall.SIGTERM)
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if s.mounted && len(s.breaches) == 0 {
		syscall.Unmount(s.state, syscall.MNT_DETACH)
	}
}

// summary says what has happened.
func (s *stage) summary() string {
	var parts []string
	for what := range s.counts {
		parts = append(parts, what)
	}
	slices.Sort(parts)
	for i, what := range parts {
		parts[i] = fmt.Sprintf("%s %d", what, s.counts[what])
	}
	return fmt.Sprintf("%s, %d s: %s; breaches %d", s.policy, int(time.Since(s.began).Seconds()), strings.Join(parts, ", "), len(s.breaches))
}
