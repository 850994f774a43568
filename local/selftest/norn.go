package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
	"github.com/norn-scheduler/norn/local/cgroup"
	"github.com/norn-scheduler/norn/local/config"
	"github.com/norn-scheduler/norn/local/rundir"
)

// norn is a daemon of a check, as norn up starts it, with a state folder of its own.
type norn struct {
	*client.Client
	exe    string
	dir    string // of everything of this check
	config string
	cmd    *exec.Cmd
	ended  chan error // of the daemon; it has room for one
}

// lines is what all configurations of checks say. The folder is that of the check.
const lines = `state: %[1]s/state
socket: %[1]s/norn.sock
policy: srtf
estimates: [user]
health: {sample: 1s}
jobs: {resident-idle: 1s, cancel-grace: 2s}
disk: {reserve: 16MiB, refuse: 8MiB}
isolation: {parent: /norn-selftest}
`

// up starts a daemon for a check, with more lines of configuration, and waits until it
// answers.
func (b *bench) up(ctx context.Context, name, more string) (*norn, error) {
	n := &norn{exe: b.Exe, dir: filepath.Join(b.Dir, name)}
	n.config = filepath.Join(n.dir, "norn.yaml")
	if err := os.MkdirAll(n.notes(), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(n.config, fmt.Appendf(nil, lines+more+"\n", n.dir), 0o600); err != nil {
		return nil, err
	}
	var err error
	if n.Client, err = client.New(filepath.Join(n.dir, "norn.sock"), "", ""); err != nil {
		return nil, err
	}
	return n, n.start(ctx)
}

func (n *norn) notes() string { return filepath.Join(n.dir, "notes") }

// start starts the daemon, and waits until it answers.
func (n *norn) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(n.dir, "norn.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd = exec.Command(n.exe, "up", "--config", n.config)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	detach(n.cmd)
	if err := n.cmd.Start(); err != nil {
		return err
	}
	n.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan<- error) { ended <- cmd.Wait() }(n.cmd, n.ended)
	return until(ctx, "norn up answers", func() (bool, error) {
		select {
		case err := <-n.ended:
			n.ended <- err
			text, _ := os.ReadFile(log.Name())
			return false, fmt.Errorf("norn up ended (%v): %s", err, strings.TrimSpace(string(text[max(0, len(text)-500):])))
		default:
		}
		_, err := n.Status(ctx)
		return err == nil, nil
	})
}

// kill kills the daemon.
func (n *norn) kill() error {
	if err := n.cmd.Process.Kill(); err != nil {
		return err
	}
	<-n.ended
	return nil
}

// down ends all jobs, and then the daemon.
func (n *norn) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := n.clear(ctx)
	if serr := n.cmd.Process.Signal(syscall.SIGTERM); serr != nil {
		return errors.Join(err, serr)
	}
	select {
	case <-n.ended:
	case <-ctx.Done():
		err = errors.Join(err, errors.New("norn up does not end when it is told to"), n.kill())
	}
	return errors.Join(err, n.removeCgroup())
}

// removeCgroup removes the folder in which the daemon has made cgroups.
func (n *norn) removeCgroup() error {
	c, _, err := config.Load(n.config)
	if err != nil {
		return err
	}
	return cgroup.Find(c.CgroupParent()).Remove()
}

// clear ends all jobs, and waits until the last servers of CUDA MPS are gone.
func (n *norn) clear(ctx context.Context) error {
	return until(ctx, "all jobs of the check have ended", func() (bool, error) {
		all, err := n.Jobs(ctx, api.Query{})
		if err != nil {
			return false, err
		}
		for _, j := range all {
			if err := n.Do(ctx, "cancel", j.ID); err != nil && !over(err) {
				return false, err
			}
		}
		servers, _ := filepath.Glob(filepath.Join(n.dir, "state", "mps", "*"))
		return len(all)+len(servers) == 0, nil
	})
}

// over tells whether a job had ended when something was to be done to it.
func over(err error) bool {
	var refused *api.Error
	return errors.As(err, &refused) && (refused.Kind == api.Conflict || refused.Kind == api.Unknown)
}

// jobOf is a job of a check.
type jobOf struct {
	*norn
	task
	id string
}

// submit hands in a job that does a task. Fields that spec leaves out have the
// usual values: no GPU, the environment of this process.
func (n *norn) submit(ctx context.Context, t task, spec api.JobSpec) (*jobOf, error) {
	t.Notes = n.notes()
	arg, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	spec.Command = []string{n.exe, Verb, string(arg)}
	return n.submitAs(ctx, t, spec)
}

// submitAs hands in a job with a command of its own.
func (n *norn) submitAs(ctx context.Context, t task, spec api.JobSpec) (*jobOf, error) {
	spec.Name, spec.Dir, spec.Env = t.Name, n.notes(), environment()
	ids, err := n.Submit(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("job %s was not taken: %w", t.Name, err)
	}
	return &jobOf{n, t, ids[0]}, nil
}

// environment is that of this process, without what Norn tells jobs.
func environment() map[string]string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if name != "" && !strings.HasPrefix(name, "NORN_") && name != rundir.EnvVisible {
			env[name] = value
		}
	}
	return env
}

// look is how the job stands.
func (j *jobOf) look(ctx context.Context) (api.Job, error) { return j.Job(ctx, j.id) }

// works waits until a run of the job has taken so many steps more than it began with.
func (j *jobOf) works(ctx context.Context, run, steps int) (n note, err error) {
	return j.noted(ctx, run, fmt.Sprintf("run %d of job %s works", run, j.Name), func(n note) bool { return n.Steps >= n.From+steps })
}

// noted waits for a note of a run. It fails at once when the job has failed.
func (j *jobOf) noted(ctx context.Context, run int, what string, enough func(note) bool) (n note, err error) {
	err = until(ctx, what, func() (bool, error) {
		failed := j.failed(ctx) // looked at first: its last note is there when it has failed
		var ok bool
		if n, ok, err = noteOf(j.notes(), j.Name, run); err != nil || ok && enough(n) {
			return ok, err
		}
		if n.Error != "" {
			return false, fmt.Errorf("job %s: %s", j.Name, n.Error)
		}
		return false, failed
	})
	return n, err
}

// failed is the error of a job that has failed.
func (j *jobOf) failed(ctx context.Context) error {
	now, err := j.look(ctx)
	if err != nil || now.State != api.Failed && now.State != api.Held {
		return err
	}
	return fmt.Errorf("job %s: %s: %s: %s", j.Name, now.State, now.Reason, j.wrote(ctx))
}

// wrote is the end of what the last run of the job wrote.
func (j *jobOf) wrote(ctx context.Context) string {
	body, err := j.Logs(ctx, j.id, client.LogOptions{Tail: 3})
	if err != nil {
		return err.Error()
	}
	defer body.Close()
	var b strings.Builder
	buffer := make([]byte, 1000)
	for {
		k, err := body.Read(buffer)
		b.Write(buffer[:k])
		if err != nil || b.Len() > 1000 {
			return strings.Join(strings.Fields(b.String()), " ")
		}
	}
}

// becomes waits until the job is in a state, and returns how it stands.
func (j *jobOf) becomes(ctx context.Context, state api.State) (now api.Job, err error) {
	err = until(ctx, fmt.Sprintf("job %s is %s", j.Name, state), func() (bool, error) {
		if now, err = j.look(ctx); err != nil || now.State == state {
			return err == nil, err
		}
		return false, j.failed(ctx)
	})
	return now, err
}

// finish lets the job end, and returns its last note. Its result and the memory that it
// held must be right.
func (j *jobOf) finish(ctx context.Context, run int) (note, error) {
	if err := os.WriteFile(filepath.Join(j.notes(), j.Name+".end"), nil, 0o600); err != nil {
		return note{}, err
	}
	if _, err := j.becomes(ctx, api.Done); err != nil {
		return note{}, err
	}
	n, _, err := noteOf(j.notes(), j.Name, run)
	if err != nil {
		return n, err
	}
	words, rounds := cpuWords, cpuRounds
	if j.GPU {
		words, rounds = gpuWords, gpuRounds
	}
	switch want := expected(words, rounds, n.Steps); {
	case !n.Over:
		return n, fmt.Errorf("job %s ended, and not in run %d", j.Name, run)
	case n.Digest != want:
		return n, fmt.Errorf("job %s: its result after %d steps is %08x; %08x would be right", j.Name, n.Steps, n.Digest, want)
	case !n.Intact:
		return n, fmt.Errorf("job %s: its memory of %d MiB was changed", j.Name, n.Held>>20)
	}
	return n, nil
}

// until waits until something is so.
func until(ctx context.Context, what string, so func() (bool, error)) error {
	for began := time.Now(); ; {
		ok, err := so()
		if ok || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for %v until %s: %w", time.Since(began).Round(time.Second), what, context.Cause(ctx))
		case <-time.After(interval):
		}
	}
}

const (
	interval = 50 * time.Millisecond
	patience = time.Minute // of a check, unless it says otherwise
)
