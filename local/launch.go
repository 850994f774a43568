package local

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
)

// tokens finds the job that a task belongs to by the secret of its run. It may
// be used by any goroutine.
type tokens struct {
	mu   sync.Mutex
	runs map[string]string // key of the job
}

func (t *tokens) set(token, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs[token] = key
}

func (t *tokens) drop(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, token)
}

func (t *tokens) get(token string) (key string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, ok = t.runs[token]
	return key, ok
}

// newToken is a new secret that cannot be guessed.
func newToken() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// describe describes the next run of a job for its runner.
func (d *Daemon) describe(l *entry, a *cluster.Alloc) *rundir.Run {
	spec, def := l.Spec, &d.opt.Defaults
	l.limits = d.limits(l, a)
	run := &rundir.Run{
		Job: l.Key, Run: l.Run, Name: spec.Name, Command: spec.Command, Dir: spec.Dir, User: l.cred,
		Limits: l.limits, Period: api.Of(def.Period), Stop: spec.Stop, LogBytes: def.LogBytes, LogKeep: def.LogKeep,
		Notify: d.watch.path, Env: d.environment(l, a), On: new(cluster.Alloc),
		Umask: spec.Umask, ULimits: d.opt.ulimits(l), Owner: l.User, Log: spec.Log, PTY: spec.PTY,
	}
	run.On.CopyFrom(a)
	if def.Cgroup != "" {
		run.Parent, run.Cgroup = def.Cgroup, fmt.Sprintf("job-%s-%d", l.Key, l.Run)
	}
	if spec.Limit > 0 {
		run.Limit = max(min(1, spec.Limit), spec.Limit-api.Of(d.State().Record(l.ID).AllocatedAt(d.State().Now)))
	}
	devices := d.opt.Machine.devices(a)
	for i := range d.opt.Machine.Devices {
		files := d.opt.Machine.Devices[i].Files
		if slices.Contains(devices, i) {
			run.Devices = append(run.Devices, files...)
		} else {
			run.Hidden = append(run.Hidden, files...)
		}
	}
	run.Tasks = d.opt.Machine.tasks(spec, a)
	if spec.Stop.CRIU {
		run.Images = filepath.Join(d.store.runDir(l.Key, l.Run), "images")
		run.Restore = d.lastImages(l)
	}
	return run
}

// lastImages is the last whole checkpoint that CRIU wrote of a job, if that is
// where it has to go on from.
func (d *Daemon) lastImages(l *entry) string {
	for run := l.Run - 1; run > 0 && !l.undone; run-- {
		dir := d.store.runDir(l.Key, run)
		var exit rundir.Exit
		switch ok, err := rundir.Read(dir, rundir.ExitFile, &exit); {
		case !ok || err != nil:
			return ""
		case exit.Images:
			return filepath.Join(dir, "images")
		case exit.Cause != rundir.RunnerLost && exit.Cause != rundir.Left: // the restored run has failed, or could not be restored
			return ""
		}
	}
	return ""
}

// ulimits are the limits on the processes of a job: what was submitted, and how many there
// may be of its user.
func (o *Options) ulimits(l *entry) map[string]string {
	most := uint64(api.Unlimited)
	if q := &o.Limits.Quotas; !l.Exempt {
		for _, n := range []int{q.User.PIDs, q.Tenant.PIDs} {
			if n > 0 {
				most = min(most, uint64(n))
			}
		}
	}
	if most == api.Unlimited {
		return l.Spec.ULimits
	}
	out := maps.Clone(l.Spec.ULimits)
	if out == nil {
		out = map[string]string{}
	}
	soft, hard := most, most
	if s, h, err := api.ParseULimit(out["nproc"]); err == nil {
		soft, hard = min(s, most), min(h, most)
	}
	out["nproc"] = api.FormatULimit(soft, hard)
	return out
}

// tasks deals devices out to the tasks of a gang, evenly and in order.
func (m *Machine) tasks(spec *api.JobSpec, a *cluster.Alloc) []rundir.Task {
	devices := m.devices(a)
	n := spec.Tasks.Of(len(devices))
	if spec.GPUs.Ask == 0 {
		n = spec.Tasks.Of(0)
	}
	out := make([]rundir.Task, n)
	for rank := range out {
		mine := devices
		switch g := len(devices); {
		case g >= n && n > 1:
			mine = devices[rank*g/n : (rank+1)*g/n]
		case g > 0 && n > g:
			mine = devices[rank*g/n : rank*g/n+1]
		}
		out[rank].Env = append(m.visible(mine), m.caps(spec, a, mine)...)
	}
	return out
}

// visible lists the environment variables that show a process its devices and
// hide the others.
func (m *Machine) visible(devices []int) []string {
	var names []string
	values := map[string][]string{}
	for i := range m.Devices {
		dev := &m.Devices[i]
		if dev.Env == "" {
			continue
		}
		if !slices.Contains(names, dev.Env) {
			names = append(names, dev.Env)
		}
		if slices.Contains(devices, i) && dev.Visible != "" {
			values[dev.Env] = append(values[dev.Env], dev.Visible)
		}
	}
	var out []string
	for _, name := range names {
		out = append(out, name+"="+strings.Join(values[name], ","))
	}
	return out
}

// environment is that of the submission with what a task must know of Norn.
func (d *Daemon) environment(l *entry, a *cluster.Alloc) []string {
	var out []string
	for name, value := range l.Spec.Env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	out = append(out,
		rundir.EnvJob+"="+l.Key,
		rundir.EnvRun+"="+strconv.Itoa(l.Run),
		rundir.EnvName+"="+l.Spec.Name,
		rundir.EnvGPUs+"="+strconv.FormatFloat(float64(d.State().Cluster.GPUMilli(a))/1000, 'f', -1, 64),
		rundir.EnvSocket+"="+d.opt.Socket,
		rundir.EnvToken+"="+l.token,
	)
	if _, said := l.Spec.Env[envThreads]; !said && d.opt.Machine.onHost(a) {
		out = append(out, envThreads+"="+strconv.Itoa(d.opt.Machine.threads(a)))
	}
	if j := d.State().Record(l.ID).Job; j.Resize == job.TimeSliced {
		out = append(out, rundir.EnvWorkers+"="+strconv.Itoa(int(j.Demand.Roles[0].Tasks)))
	}
	if l.Array != "" {
		out = append(out, rundir.EnvArrayID+"="+l.Array, rundir.EnvArrayIndex+"="+strings.TrimPrefix(l.Key, l.Array+"_"))
	}
	return out
}

// envThreads is how many threads numerical libraries use on processors; without it
// they take all that the machine has.
const envThreads = "OMP_NUM_THREADS"

// threads is how many processors a job on host devices has for itself.
func (m *Machine) threads(a *cluster.Alloc) int {
	cores := 0.0
	for i := range a.Shares {
		if s := &a.Shares[i]; int(s.Device) < len(m.Devices) {
			cores += m.Devices[s.Device].Cores * float64(s.Milli) / 1000
		}
	}
	return max(1, int(cores))
}

// launcher launches runs, writes their want.json, and reads what their runners
// wrote. It may be used by any goroutine.
type launcher struct {
	log    *slog.Logger
	store  *store
	socket string // of the daemon, which the processes of its jobs know
	spare  *runner.Spare
	watch  *watcher
	loop   *live.Loop
	taken  func(notice) error // takes in the files of a runner, in the goroutine of the loop
}

// launch makes way for a run, makes its folder, and launches its runner. It may be
// repeated: the run is launched once.
func (d *launcher) launch(dir string, run *rundir.Run, want rundir.Want, saved rundir.Saved, ways []func() error) {
	var err error
	for _, way := range ways {
		if err == nil {
			err = way()
		}
	}
	if err == nil {
		err = rundir.Begin(dir, run, want)
	}
	if err == nil && saved.Progress > 0 {
		err = rundir.Write(dir, rundir.SavedFile, saved)
	}
	if err == nil {
		err = d.spawn(dir, run.Job, run.Run)
	}
	if err != nil {
		d.log.Error("a run cannot be launched", "job", run.Job, "run", run.Run, "error", err)
		d.report(notice{key: run.Job, run: run.Run, exit: notStarted("norn could not launch it: " + err.Error())})
	}
}

// notStarted is the end of a run that could not be launched.
func notStarted(why string) *rundir.Exit {
	return &rundir.Exit{Ended: rundir.Now(), Cause: rundir.NotStarted, Error: why, Exit: api.Exit{Code: runner.CannotRun}}
}

// spawn launches the runner of a run and watches over it.
func (d *launcher) spawn(dir, key string, run int) error {
	pid, err := d.spare.Launch(dir)
	if err != nil {
		return err
	}
	d.follow(pid, key, run)
	return nil
}

// follow watches over a runner that was launched.
func (d *launcher) follow(pid int, key string, run int) {
	if err := d.watch.add(pid, key, run); err != nil {
		d.log.Error("a runner cannot be watched; looking at its run from time to time instead", "job", key, "run", run, "error", err)
		d.watch.gone(key, run) // waits until it has ended
	}
}

// write replaces the want.json of a run.
func (d *launcher) write(dir string, w rundir.Want) { d.tellRun(dir, rundir.WantFile, w) }

// tellRun replaces a file of a run, and has its runner look.
func (d *launcher) tellRun(dir, file string, v any) {
	err := rundir.Write(dir, file, v)
	if err == nil {
		err = runner.Poke(dir)
	}
	if err != nil {
		d.log.Error("a run cannot be told what is wanted of it", "run", dir, "error", err)
	}
}

// report hands a notice to the goroutine of Run, unless that has ended: the next
// daemon finds it out itself.
func (d *launcher) report(n notice) {
	d.loop.Post(func() error { return d.taken(n) })
}

// look reads the files of a runner, and reports them.
func (d *launcher) look(key string, run int) {
	dir := d.store.runDir(key, run)
	var exit rundir.Exit
	if ok, err := rundir.Read(dir, rundir.ExitFile, &exit); ok {
		d.report(notice{key: key, run: run, exit: &exit})
		return
	} else if err != nil {
		d.log.Error("how a run ended cannot be read", "run", dir, "error", err)
	}
	var status rundir.Status
	if ok, err := rundir.Read(dir, rundir.StatusFile, &status); ok {
		d.report(notice{key: key, run: run, status: &status})
	} else if err != nil {
		d.log.Error("where a run stands cannot be read", "run", dir, "error", err)
	}
}

// lost handles a run whose runner has ended. It tries again until it knows how
// the run ended.
func (d *launcher) lost(key string, run int, why string) {
	dir := d.store.runDir(key, run)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		lock, err := rundir.Lock(dir)
		switch {
		case err == nil:
			exit, err := d.exitOf(key, run, why)
			lock.Close()
			if err == nil {
				d.report(notice{key: key, run: run, exit: exit})
				return
			}
			d.log.Error("how a run ended cannot be read", "run", dir, "error", err)
		case !errors.Is(err, rundir.ErrHeld):
			d.log.Error("a run cannot be looked at", "run", dir, "error", err)
		case d.successor(dir, key, run):
			return
		}
		select {
		case <-time.After(wait):
		case <-d.loop.Stopped():
			return
		}
	}
}

// successor watches over the other runner of a run whose first runner has
// ended, if that one has written its number yet. A launch that was repeated
// after a crash has two runners.
func (d *launcher) successor(dir, key string, run int) bool {
	var s rundir.Status
	ok, err := rundir.Read(dir, rundir.StatusFile, &s)
	return ok && err == nil && runner.Alive(rundir.Proc{PID: s.PID, Start: s.Start}) && d.watch.add(s.PID, key, run) == nil
}

// exitOf tells how a run without a runner ended. The runner has written it, or
// was killed; then exitOf also kills the processes that it left behind.
func (d *launcher) exitOf(key string, run int, why string) (*rundir.Exit, error) {
	dir := d.store.runDir(key, run)
	var exit rundir.Exit
	if ok, err := rundir.Read(dir, rundir.ExitFile, &exit); ok || err != nil && !errors.Is(err, rundir.ErrDamaged) {
		return &exit, err
	}
	exit = rundir.Exit{}
	marks := []string{rundir.EnvJob + "=" + key, rundir.EnvRun + "=" + strconv.Itoa(run), rundir.EnvSocket + "=" + d.socket}
	if err := runner.Clean(dir, marks...); err != nil { // it is not over before that is gone
		return nil, fmt.Errorf("the processes of a lost run cannot be ended: %w", err)
	}
	var want rundir.Want
	rundir.Read(dir, rundir.WantFile, &want)
	exit = rundir.Exit{Ended: rundir.Now(), Cause: rundir.RunnerLost, Error: why, Seq: want.Seq}
	exit.Exit.Signal, exit.Exit.Code = "SIGKILL", 128+9
	if err := rundir.Write(dir, rundir.ExitFile, exit); err != nil {
		d.log.Error("the end of a lost run cannot be written", "run", dir, "error", err)
	}
	return &exit, nil
}

// stopModeOf is the way to stop of a job that has one.
func stopModeOf(s *api.JobSpec) job.StopMode {
	mode, _ := job.ParseStopMode(s.Stop.Mode)
	return mode
}
