package local

import (
	"context"
	"log/slog"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/live/planner"
	"github.com/norn-scheduler/norn/local/rundir"
	"github.com/norn-scheduler/norn/local/runner"
)

// Daemon is this machine as a live world, with all that such a world has. Its fields
// belong to the goroutine of the loop, but for those that say otherwise.
type Daemon struct {
	*live.Daemon
	*launcher
	opt Options

	entries   map[string]*entry // jobs that have not ended
	residents []*resident
	packers   []*packer
	health    health

	tokens tokens
}

var (
	_ live.World     = (*Daemon)(nil)
	_ server.Backend = (*Daemon)(nil)
)

// Open takes over the state folder. It reads what the last daemon left there,
// begins a new epoch, and finds the runs that still go on. Nothing is started
// before Run.
func Open(opt Options) (*Daemon, error) {
	d, err := newDaemon(opt)
	if err != nil {
		return nil, err
	}
	if d.watch, err = newWatcher(d.launcher); err == nil {
		err = d.Recover()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	if d.MayChange() != nil { // the daemon does not look for runs then, but knows their jobs
		for l := range d.all() {
			if l.token != "" {
				d.tokens.set(l.token, l.Key)
			}
		}
	}
	return d, nil
}

// newDaemon makes a daemon that has a state folder for itself, and has read nothing of it.
func newDaemon(opt Options) (*Daemon, error) {
	s, err := openStore(opt.State)
	if err != nil {
		return nil, err
	}
	d := &Daemon{opt: opt, launcher: &launcher{log: opt.Log, store: s, socket: opt.Socket, spare: runner.NewSpare(opt.Exe)}, entries: map[string]*entry{}}
	d.tokens.runs = map[string]string{}
	d.health.sick = make([]string, len(opt.Machine.Devices))
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.Daemon = live.New(d.config())
	d.loop, d.taken = d.Loop, d.notice
	return d, nil
}

// config is what is common to all live worlds, for this machine.
func (d *Daemon) config() live.Config {
	opt := &d.opt
	return live.Config{
		World: d, Planner: planner.New(opt.Exe, planner.Limits{}, d.log), Journal: d.store.Journal, Log: d.log, Version: opt.Version, Kind: "local", Name: opt.Machine.Name,
		Cluster: d.cluster, Tenants: opt.Tenants, Names: opt.Machine.name,
		Policy: opt.Policy, Estimator: opt.Estimator, Estimates: opt.Estimates, Speeds: d.speeds(), Transfer: opt.Transfer,
		Compact: opt.Limits.Compact, Recent: opt.Limits.Recent, Jobs: opt.Limits.Jobs, Quotas: opt.Limits.Quotas,
		Folded: func() { trainers{d}.findResidents(); packing{d}.findPackers() }, Recall: recovery{d}.recaller(), Refit: recovery{d}.fitDevices, Exclude: recovery{d}.takeOut,
		Ordered: condition{d}.ordered, Orders: condition{d}.orders, Node: condition{d}.describe,
		Folders: d.store.folders, Remains: recovery{d}.remains, SetAside: d.store.setAside, SendOff: recovery{d}.sendAway,
		Find: func(j *live.Job) { recovery{d}.find(d.entries[j.Key]) }, Ended: d.ended, Stray: recovery{d}.endStray, Closed: d.closed, Trouble: condition{d}.trouble,
	}
}

// cluster is this machine as a cluster, with all of it in working order.
func (d *Daemon) cluster() (*cluster.Cluster, error) {
	c := cluster.New()
	for _, t := range d.opt.Machine.Types {
		if _, err := c.AddType(t); err != nil {
			return nil, err
		}
	}
	node := d.opt.Machine.Node
	for name, n := range d.opt.Machine.Counted.All() {
		at, err := c.AddSlot(name)
		if err != nil {
			return nil, err
		}
		node.Slots[at] = n
	}
	_, err := c.AddNode(node)
	return c, err
}

// Close lets go of the state folder. Jobs go on.
func (d *Daemon) Close() {
	if d.watch != nil {
		d.watch.close()
	}
	d.spare.Close()
	d.Daemon.Close()
	d.store.close()
}

// Run schedules until the context ends, or until the log cannot be written. Jobs
// go on afterwards, and the next daemon finds them again.
func (d *Daemon) Run(ctx context.Context) error {
	return d.Daemon.Run(ctx, func() {
		d.spare.Ready()
		condition{d}.everySoOften()
	})
}

// Next implements engine.World.
func (d *Daemon) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	return d.Loop.Next(wake, out)
}

// Leave implements live.World.
func (d *Daemon) Leave(j *live.Job, p live.Purpose, why string) {
	l, r := d.entries[j.Key], d.State().Record(j.ID)
	if p != live.Cancelled {
		d.throwOff(l, r, p, why)
		return
	}
	grace := d.opt.Defaults.CancelGrace
	if r.Phase != job.Running && r.Phase != job.Stopping { // its processes are frozen
		grace = 0
	}
	d.end(l, p, seqCancel, rundir.End, grace, why)
}

// There implements live.World.
func (d *Daemon) There(j *live.Job) bool { return d.entries[j.Key].stage.there() }

// Describe implements live.World.
func (d *Daemon) Describe(j *live.Job, out *api.Job) {
	l := d.entries[j.Key]
	if l.exit != nil && !l.stage.there() {
		exit := l.exit.Exit
		out.Exit = &exit
	}
	if out.State == api.Running && out.Reason == "" && l.stage == launching {
		out.Reason = "is being launched"
	}
}

// Explain implements live.World.
func (d *Daemon) Explain(j *live.Job, out *api.Why) {
	l := d.entries[j.Key]
	out.Stop = d.stopText(l, d.State().Record(j.ID))
	if l.stage.there() {
		out.Isolation = l.status.Isolation
	}
}

// ended forgets a job that has ended.
func (d *Daemon) ended(j *live.Job) {
	l := d.entries[j.Key]
	if l.token != "" {
		d.tokens.drop(l.token)
	}
	delete(d.entries, j.Key)
}

// closed is the reason for which no new run is started, or empty, and the verb that ends that.
func (d *Daemon) closed() (why, frees string) {
	if d.State().Cluster.Health(0) == cluster.Up {
		return "", ""
	}
	frees = "norn undrain"
	if _, taken := d.health.drained.Reclaimed[wholeMachine]; taken {
		frees = "norn lend"
	}
	return "the machine takes no new work: " + d.health.note(), frees
}

// Metrics implements server.Backend.
func (d *Daemon) Metrics(ctx context.Context) (m server.Metrics, err error) {
	err = d.Loop.Ask(ctx, func() error {
		m = d.Measures()
		m.Node = condition{d}.node()
		return nil
	})
	return m, err
}
