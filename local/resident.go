package local

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
	"github.com/norn-scheduler/norn/perf"
)

// trainers is the daemon as it keeps resident trainers.
type trainers struct{ *Daemon }

// resident is a process that keeps a backbone loaded on some devices, for the jobs of
// one user that hand it their work. It has a runner and a folder as a run has, and
// outlives the daemon as that does.
type resident struct {
	note     residentNote
	dir      string
	proc     rundir.Proc   // its runner; zero: not known yet
	used     time.Duration // when a job last came or left
	ending   bool
	launched chan struct{} // closed when it was launched, or could not be
	gone     chan struct{} // closed when nothing of it is left
}

// residentNote describes the purpose of a resident. It is kept beside its run.
type residentNote struct {
	Number   int      `json:"number"`
	Backbone string   `json:"backbone"`
	User     string   `json:"user"`
	Dir      string   `json:"dir"`
	Command  []string `json:"command"`
	Devices  []string `json:"devices"`
	Socket   string   `json:"socket"`
}

const residentFile = "resident.json"

// serves tells whether a job that wants a resident can use this one.
func (n *residentNote) serves(want *residentNote) bool {
	return n.Backbone == want.Backbone && n.User == want.User && n.Dir == want.Dir && slices.Equal(n.Command, want.Command) && slices.Equal(n.Devices, want.Devices)
}

// alive tells whether it may still be there: it is being launched, or its process
// lives.
func (r *resident) alive() bool {
	var exit rundir.Exit
	var status rundir.Status
	if ok, _ := rundir.Read(r.dir, rundir.ExitFile, &exit); ok {
		return false
	}
	if r.proc.PID != 0 && !runner.Alive(r.proc) {
		return false
	}
	rundir.Read(r.dir, rundir.StatusFile, &status)
	return !slices.ContainsFunc(status.Tasks, func(p rundir.Proc) bool { return !runner.Alive(p) })
}

// inUse tells whether a run hands its work to a resident.
func (d trainers) inUse(r *resident) bool {
	return d.any(func(l *entry) bool { return l.resident == r && l.stage.there() })
}

// makeWay finds the resident that the next run of a job is to use, or makes it.
// It ends other residents on these devices that no job uses, since they would
// keep memory there. The function that it returns is called before the run is
// launched.
func (d trainers) makeWay(l *entry, a *cluster.Alloc, run *rundir.Run) func() error {
	var fresh *resident
	var leaving []*resident
	names, want := d.opt.Machine.names(a), d.wanted(l, a)
	l.resident = nil
	for _, r := range d.residents {
		shared := slices.ContainsFunc(r.note.Devices, func(name string) bool { return slices.Contains(names, name) })
		switch {
		case want != nil && !r.ending && r.note.serves(want) && r.alive():
			l.resident = r
		case shared && (r.ending || !d.inUse(r)):
			d.dismiss(r)
			leaving = append(leaving, r)
		}
	}
	if l.warm = l.resident != nil; want != nil && !l.warm {
		fresh = d.newResident(want)
		l.resident = fresh
	}
	var made *rundir.Run
	if l.resident != nil {
		l.resident.used = d.Loop.Now()
		run.Env = append(run.Env, rundir.EnvResident+"="+l.resident.note.Socket)
	}
	if fresh != nil {
		made = d.describeResident(l, a, fresh)
		made.Tasks = run.Tasks // with the settings for MPS
	}
	return func() error {
		for _, r := range leaving {
			select {
			case <-r.gone:
			case <-d.Loop.Stopped():
				return live.ErrAway
			}
		}
		if fresh == nil {
			return nil
		}
		return d.launchResident(fresh, made)
	}
}

// wanted is the resident that a job wants on devices; nil: none.
func (d trainers) wanted(l *entry, a *cluster.Alloc) *residentNote {
	spec := l.Spec
	if len(spec.Resident.Command) == 0 {
		return nil
	}
	return &residentNote{Backbone: spec.Backbone, User: l.User, Dir: spec.Dir, Command: spec.Resident.Command, Devices: d.opt.Machine.names(a)}
}

func (d trainers) newResident(want *residentNote) *resident {
	r := &resident{note: *want, launched: make(chan struct{}), gone: make(chan struct{})}
	for _, other := range d.residents {
		r.note.Number = max(r.note.Number, other.note.Number)
	}
	r.note.Number++
	r.note.Socket = filepath.Join(os.TempDir(), "norn-resident-"+newToken()[:12], "socket") // its user must get there, and paths of sockets are short
	r.dir = filepath.Join(d.store.dir, "residents", strconv.Itoa(r.note.Number))
	d.residents = append(d.residents, r)
	return r
}

// describeResident describes the launch of a resident, with the environment,
// devices and limits of the first job that uses it.
func (d trainers) describeResident(l *entry, a *cluster.Alloc, r *resident) *rundir.Run {
	run := d.describe(l, a)
	run.Job, run.Run, run.Name, run.Command = residentJob(r.note.Number), 1, "resident", r.note.Command
	if run.Cgroup != "" {
		run.Cgroup = run.Job + "-1"
	}
	run.Stop, run.Limit, run.Notify = api.Stop{Mode: "restart", Signal: "TERM"}, 0, ""
	run.Env = nil
	for name, value := range l.Spec.Env {
		run.Env = append(run.Env, name+"="+value)
	}
	slices.Sort(run.Env)
	run.Env = append(run.Env, rundir.EnvJob+"="+run.Job, rundir.EnvRun+"=1", rundir.EnvName+"=resident", rundir.EnvResident+"="+r.note.Socket,
		rundir.EnvToken+"="+newToken()) // it opens nothing: it marks the processes of this one
	return run
}

// residentJob is the job that the processes of a resident are marked with.
func residentJob(number int) string { return fmt.Sprint("resident-", number) }

// launchResident launches the runner of a resident.
func (d trainers) launchResident(r *resident, run *rundir.Run) error {
	defer close(r.launched)
	folder := filepath.Dir(r.note.Socket)
	err := os.Mkdir(folder, 0o700)
	if err == nil && run.User != nil {
		err = os.Chown(folder, int(run.User.UID), int(run.User.GID))
	}
	if err == nil {
		err = os.MkdirAll(r.dir, 0o700)
	}
	if err == nil {
		err = rundir.Write(r.dir, residentFile, r.note)
	}
	if err == nil {
		err = rundir.Begin(r.dir, run, rundir.Want{State: rundir.Go})
	}
	pid := 0
	if err == nil {
		pid, err = d.spare.Launch(r.dir)
	}
	if err != nil {
		return fmt.Errorf("its resident trainer: %w", err)
	}
	if start, err := runner.StartTime(pid); err == nil {
		d.Loop.Post(func() error {
			r.proc = rundir.Proc{PID: pid, Start: start}
			return nil
		})
	}
	return nil
}

// dismiss ends a resident, once the decision for that is durable.
func (d trainers) dismiss(r *resident) {
	if r.ending {
		return
	}
	r.ending = true
	d.Loop.Act(nil, func() { d.endResident(r) })
}

// endResident tells a resident to leave, and waits until nothing of it is left.
func (d trainers) endResident(r *resident) {
	select {
	case <-r.launched:
	case <-d.Loop.Stopped(): // the next daemon finds it
		return
	}
	d.write(r.dir, rundir.Want{Seq: 1, State: rundir.End, Grace: d.opt.Defaults.CancelGrace, Why: "its devices are needed, or nobody needs it"})
	for wait := 5 * time.Millisecond; !r.cleared(); wait = min(2*wait, 100*time.Millisecond) {
		select {
		case <-time.After(wait):
		case <-d.Loop.Stopped():
			return
		}
	}
	close(r.gone)
	d.Loop.Post(func() error {
		d.residents = slices.DeleteFunc(d.residents, func(o *resident) bool { return o == r })
		return nil
	})
}

// cleared removes the folders and processes of a resident that no longer has a
// runner, and tells whether it could.
func (r *resident) cleared() bool {
	lock, err := rundir.Lock(r.dir)
	if os.IsNotExist(err) {
		return true
	}
	if err != nil {
		return false
	}
	defer lock.Close()
	if runner.Clean(r.dir, rundir.EnvJob+"="+residentJob(r.note.Number), rundir.EnvResident+"="+r.note.Socket) != nil {
		return false
	}
	if r.note.Socket != "" {
		os.RemoveAll(filepath.Dir(r.note.Socket))
	}
	return os.RemoveAll(r.dir) == nil
}

// lookAtResidents ends residents that no job has used for long enough, whose
// devices must not be used, or that have ended by themselves.
func (d trainers) lookAtResidents() {
	for _, r := range d.residents {
		if r.ending {
			continue
		}
		if r.proc.PID == 0 {
			var s rundir.Status
			rundir.Read(r.dir, rundir.StatusFile, &s)
			r.proc = rundir.Proc{PID: s.PID, Start: s.Start}
		}
		switch {
		case !r.alive():
			d.log.Warn("a resident trainer has ended by itself", "backbone", r.note.Backbone, "user", r.note.User, "devices", r.note.Devices)
			d.dismiss(r)
		case d.inUse(r):
			r.used = d.Loop.Now()
		case d.Loop.Now()-r.used >= d.opt.Defaults.ResidentIdle, slices.ContainsFunc(r.note.Devices, d.unusable):
			d.dismiss(r)
		}
	}
}

// unusable tells whether a device is not there, or not to be used.
func (d trainers) unusable(name string) bool {
	i := slices.IndexFunc(d.opt.Machine.Devices, func(dev Device) bool { return dev.Name == name })
	return i < 0 || d.health.out() || condition(d).deviceNote(i) != ""
}

// findResidents finds the residents of the last daemon. It removes the folders
// of those that no longer live.
func (d trainers) findResidents() {
	dirs, _ := filepath.Glob(filepath.Join(d.store.dir, "residents", "*"))
	for _, dir := range dirs {
		r := &resident{dir: dir, launched: make(chan struct{}), gone: make(chan struct{}), used: d.State().Now}
		close(r.launched)
		if r.cleared() || !recovery(d).readFile(dir, residentFile, &r.note, "no job uses that trainer any more; end it yourself") {
			continue
		}
		d.residents = append(d.residents, r)
	}
	slices.SortFunc(d.residents, func(a, b *resident) int { return cmp.Compare(a.note.Number, b.note.Number) })
}

// residentAt finds a resident by its socket, as the environment of a run names it.
func (d trainers) residentAt(socket string) *resident {
	i := slices.IndexFunc(d.residents, func(r *resident) bool { return r.note.Socket == socket })
	if i < 0 {
		return nil
	}
	return d.residents[i]
}

// switched measures how long it took from the decision for a run until it made
// progress: warm when a resident was there already, else cold.
func (d trainers) switched(l *entry) {
	if l.resident == nil || l.measured {
		return
	}
	l.measured = true
	s := d.Costs().Switch[l.Spec.Backbone]
	which := &s.Cold
	if l.warm {
		which = &s.Warm
	}
	live.Average(which, d.Loop.Now()-l.Decided)
	if s.Warm == 0 {
		s.Warm = s.Cold
	}
	if s.Cold == 0 {
		s.Cold = s.Warm
	}
	next := map[string]perf.Switch{l.Spec.Backbone: s} // a forecast may read the one before
	for backbone, other := range d.Costs().Switch {
		if backbone != l.Spec.Backbone {
			next[backbone] = other
		}
	}
	d.Costs().Switch = next
}
