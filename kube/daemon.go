package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
)

// Daemon is a Kubernetes cluster as a live world, with all that such a world has. Its
// fields belong to the goroutine of the loop, but for those that say otherwise.
type Daemon struct {
	*live.Daemon
	opt   Options
	view  *watcher
	write *writer // any goroutine
	fresh fresh   // any goroutine
	nodes *table

	queues queues

	entries   map[string]*entry    // jobs that have not ended, by key
	partial   map[string]error     // jobs of which something is missing without which nobody knows what they ask for
	dismissed map[string]types.UID // owners of jobs that have ended, as long as they are there
	parting   map[types.UID]bool   // pods that are being taken out of their gang
	crowded   map[string][]string  // jobs for whose pods a node has no room yet, by node
	logged    int                  // the number of the present log
	growing   bool                 // a new log is about to begin, for a node of a new sort

	end context.CancelFunc
}

var (
	_ live.World     = (*Daemon)(nil)
	_ server.Backend = (*Daemon)(nil)
)

// Open lists what there is in the cluster, finds the jobs of an earlier Norn again, and
// begins a new log. Nothing is written to the API before Run. ctx ends all watching.
func Open(ctx context.Context, opt Options) (*Daemon, error) {
	opt.fill()
	if err := os.MkdirAll(opt.State, 0o700); err != nil {
		return nil, fmt.Errorf("the state folder: %w", err)
	}
	journal, err := live.OpenJournal(opt.State)
	if err != nil {
		return nil, fmt.Errorf("the state folder: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	d := &Daemon{
		opt: opt, end: end, entries: map[string]*entry{}, partial: map[string]error{}, dismissed: map[string]types.UID{}, parting: map[types.UID]bool{}, crowded: map[string][]string{}, queues: queues{told: map[string]queueStatus{}},
		write: &writer{ctx: ctx, client: opt.Client, free: make(chan struct{}, opt.Workers), extra: opt.Dynamic, leads: opt.Leads, timeout: opt.Timeout, log: opt.Log},
	}
	d.Daemon = live.New(d.config(journal))
	err = d.begin(ctx)
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// begin watches the cluster and recalls its jobs.
func (d *Daemon) begin(ctx context.Context) error {
	var err error
	if d.view, err = newWatcher(&d.opt, func() { go d.Loop.Post((looker{d}).lookAtMarked) }); err != nil {
		return err
	}
	if err := d.view.start(ctx); err != nil {
		return err
	}
	d.nodes = newTable(d.view.allNodes(), d.opt.Levels, func(node string, err error) {
		d.opt.Log.Warn("a node cannot be used", "node", node, "error", err)
	})
	d.readQueues()
	if d.opt.Origin.IsZero() {
		d.opt.Origin = time.Now()
	}
	if err := d.Recover(); err != nil {
		return err
	}
	d.logged = d.Epoch()
	return nil
}

// config is what is common to all live worlds, for this cluster.
func (d *Daemon) config(journal *live.Journal) live.Config {
	opt := &d.opt
	return live.Config{
		World: d, Planner: opt.Planner, Journal: journal, Log: opt.Log, Version: opt.Version, Kind: "kube", Name: opt.Name,
		Cluster: func() (*cluster.Cluster, error) { return d.nodes.build() }, Tenants: d.tenants, Names: d.deviceName,
		Policy: opt.Policy, Defrag: opt.Defrag, Estimator: opt.Estimator, Estimates: opt.Estimates, Speeds: opt.Speeds,
		Compact: opt.Compact, Recent: opt.Recent,
		Tell: recovery{d}.recall, Folded: func() {}, Recall: d.known, Refit: func() (bool, error) { return false, nil }, Exclude: func(*cluster.Cluster) {},
		Ordered: func([]eventlog.Event) (func() error, error) { return nil, nil }, Orders: func() []eventlog.Event { return nil },
		Correct: d.acceptsNew, Find: recovery{d}.find, Ended: d.jobEnded, Stands: d.stands, Stray: func(*live.Job) {}, SendOff: d.sendOff, Node: d.nodeNote, Closed: func() (why, frees string) { return "", "" }, Trouble: d.trouble,
	}
}

// deviceName is what a device is called: its node, and its number there.
func (d *Daemon) deviceName(id cluster.DeviceID) string {
	c := d.State().Cluster
	n := c.NodeOf(id)
	return fmt.Sprintf("%s/%d", d.nodes.names[n], id-d.nodes.first[n])
}

// known is a job that was recalled.
func (d *Daemon) known(r *job.Record) (*live.Job, error) {
	if l := d.entries[r.Job.Key]; l != nil {
		return &l.Job, nil
	}
	return nil, nil
}

// acceptsNew has a job that is carried over accept the GPU types that have come since it was
// made, as far as its owner lets it.
func (d *Daemon) acceptsNew(ev *eventlog.Event) {
	l := d.entries[ev.Spec.Key]
	if l == nil || l.unfit != "" {
		return
	}
	s := d.view.see(l.Key)
	if s == nil || s.uid != l.uid {
		return
	}
	a, err := d.asks(s)
	if err != nil || a.demand.Types == l.ask.demand.Types {
		return
	}
	l.ask.demand.Types = a.demand.Types
	l.Spec.Types = l.ask.spec().Types
	demand := *ev.Spec.Demand
	demand.Types = a.demand.Types
	ev.Spec.Demand = d.Shape(demand)
}

// sendOff has a job leave whose place is not there any more.
func (d *Daemon) sendOff(key string) error {
	if l := d.entries[key]; l != nil && l.stage != leaving {
		l.stage, l.told, l.drains = leaving, false, false
	}
	return nil
}

// jobEnded forgets a job that has ended. Of one that a person has cancelled the owner is
// deleted.
func (d *Daemon) jobEnded(j *live.Job) {
	l := d.entries[j.Key]
	delete(d.entries, j.Key)
	if !l.retaken {
		d.dismissed[j.Key] = l.uid
	}
	d.fresh.drop(l.uid)
	if l.gone || d.State().Record(j.ID).Phase != job.Cancelled {
		return
	}
	pods := d.view.podsOf(l.Key, l.uid)
	d.Loop.Act(&l.Lane, func() {
		if err := d.delete(l, pods); err != nil && !errors.Is(err, errConflict) {
			d.opt.Log.Warn("a job that was cancelled cannot be deleted", "job", l.Key, "error", err)
		}
	})
}

// delete deletes the owner of a job.
func (d *Daemon) delete(l *entry, pods []*core.Pod) error {
	if l.kind == aJob {
		how := meta.DeletePropagationBackground
		options := meta.DeleteOptions{PropagationPolicy: &how, Preconditions: &meta.Preconditions{UID: &l.uid}}
		return d.write.do(func(ctx context.Context) error {
			if l.of != nil {
				return d.opt.Dynamic.Resource(resourceOf(l.of)).Namespace(l.namespace).Delete(ctx, l.name, options)
			}
			return d.opt.Client.BatchV1().Jobs(l.namespace).Delete(ctx, l.name, options)
		})
	}
	var err error
	for _, p := range pods {
		err = errors.Join(err, d.write.remove(p.Namespace, p.Name, p.UID, nil))
	}
	return err
}

// Close ends watching and writing. Jobs go on.
func (d *Daemon) Close() {
	d.end()
	if d.view != nil {
		d.view.stop()
	}
	d.Daemon.Close()
}

// Run schedules until the context ends, or until the log cannot be written. Jobs go on
// afterwards, and the next Norn finds them again.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.write.report()
	defer func() { // what they have used is known to the next Norn
		for _, write := range d.dueStatuses(true) {
			write()
		}
	}()
	return d.Daemon.Run(ctx, func() {
		for name := range d.nodes.byName {
			d.view.mark(subject{node: true, name: name})
		}
		d.Loop.Post(looker{d}.lookAtMarked)
		d.Loop.Every(relookEvery, fleet{d}.relook)
		d.Loop.Every(reasonsEvery, looker{d}.tellReasons)
		d.Loop.Every(d.opt.Summary, d.tellQueues)
	})
}

// Next implements engine.World.
func (d *Daemon) Next(wake time.Duration, out []eventlog.Event) (time.Duration, []eventlog.Event, error) {
	if d.logged != d.Epoch() {
		fleet{d}.newLog()
	}
	return d.Loop.Next(wake, out)
}

// of is the entry of a job by its number.
func (d *Daemon) of(id job.ID) *entry {
	j := d.Of(id)
	if j == nil {
		return nil
	}
	return d.entries[j.Key]
}

// trouble is what is wrong, one sentence each.
func (d *Daemon) trouble() []string {
	var out []string
	down := 0
	for _, n := range d.nodes.nodes {
		if n.state == cluster.Down && !n.gone {
			down++
			out = append(out, "node "+n.is.Name+" is lost: "+n.why)
		}
	}
	if len(out) > 3 {
		out = append(out[:2], fmt.Sprintf("%d more nodes are lost", down-2))
	}
	for key, part := range d.partial {
		if len(out) > 6 {
			break
		}
		if name := strings.Replace(key, gangPrefix, "", 1); name != key {
			out = append(out, "gang "+name+" waits: "+part.Error())
		} else {
			out = append(out, part.Error())
		}
	}
	return out
}

// TaskOf implements server.Backend: tasks of a cluster tell what they have to tell by their
// exit code and termination message.
func (d *Daemon) TaskOf(string) (server.Task, error) {
	return nil, api.Refuse(api.NoToken, "tasks of a Kubernetes cluster have no token of Norn")
}
