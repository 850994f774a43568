package kube

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/tenant"
)

// queues is the Queues of the cluster, as they are in force. Where there are none, a label may
// name any queue.
type queues struct {
	all  map[string]*convert.Queue
	tree []*convert.Queue // those that are tenants, parents first
	lost map[string]error // why the others are none
	told map[string]queueStatus
	lane live.Lane
	next time.Duration // until then changes are collected, also those of PriorityClasses
	late bool          // there are some
}

// rulesEvery is how often changes of Queues and PriorityClasses are taken in at most.
const rulesEvery = time.Second

// queueStatus is what Norn says of a Queue. Numbers count those below it, too.
type queueStatus struct {
	ObservedGeneration int64          `json:"observedGeneration"`
	Used               int64          `json:"used"` // GPUs
	Running            int            `json:"running"`
	Waiting            int            `json:"waiting"`
	GPUHours           float64        `json:"gpuHours"`
	Conditions         []v1.Condition `json:"conditions"`
}

// readQueues takes in the Queues as they are, and tells whether that changes the tenants.
func (d *Daemon) readQueues() (changed bool) {
	was := d.queues.tree
	d.queues.all = map[string]*convert.Queue{}
	for _, o := range d.view.extras.list(queueObjects) {
		q, err := convert.ReadQueue(o.Object)
		if err != nil {
			d.opt.Log.Warn("a Queue cannot be read", "error", err)
			continue
		}
		d.queues.all[q.Name] = q
	}
	d.queues.tree, d.queues.lost = convert.Arrange(d.queues.all)
	maps.DeleteFunc(d.queues.told, func(name string, _ queueStatus) bool { return d.queues.all[name] == nil })
	return !slices.EqualFunc(was, d.queues.tree, (*convert.Queue).Same)
}

// tenants makes a tree of tenants of the Queues that are in force.
func (d *Daemon) tenants() (*tenant.Tree, error) {
	t, err := d.opt.Tenants()
	if err != nil {
		return nil, err
	}
	return t, convert.AddTo(t, d.queues.tree)
}

// denied says why a job may not use its queue; empty: it may.
func (q *queues) denied(a *ask, namespace string) string {
	is := q.all[a.tenant]
	switch {
	case is == nil && a.queued && len(q.all) > 0:
		return fmt.Sprintf("there is no Queue %s", a.tenant)
	case is == nil:
		return ""
	case q.lost[a.tenant] != nil:
		return fmt.Sprintf("Queue %s cannot be used: %v", a.tenant, q.lost[a.tenant])
	case !is.Admits(namespace):
		return fmt.Sprintf("namespace %s may not use Queue %s", namespace, a.tenant)
	}
	return ""
}

// lineUp holds a job that may not use its queue, and lets it go on once it may. It tells
// whether the job has to wait for that.
func (d looker) lineUp(l *entry) bool {
	why, phase := d.queues.denied(&l.ask, l.namespace), d.State().Record(l.ID).Phase
	switch {
	case why != "" && phase == job.Waiting:
		l.denied = why
		d.Hold(&l.Job, why)
	case why != "" && phase == job.Held && l.denied != "" && l.denied != why:
		l.denied = why
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Wait, Job: l.ID, Reason: job.Reason{Code: job.OnHold, Job: job.None, Text: why}})
	case why == "" && l.denied != "":
		l.denied = ""
		if phase == job.Held {
			live.Release(d.Daemon.Daemon, &l.Job)
			d.Loop.Later(func() error { return d.look(l.Key) })
		}
	}
	return l.denied != ""
}

// rulesDue tells whether Queues and PriorityClasses are looked at now, with all jobs that wait.
// Changes that follow soon on others are looked at together, a little later.
func (d looker) rulesDue() bool {
	if now := d.Loop.Now(); now >= d.queues.next {
		d.queues.next, d.queues.late = now+rulesEvery, false
		return true
	}
	if !d.queues.late {
		d.queues.late = true
		d.Loop.At(d.queues.next, func() { d.view.mark(subject{waiting: true}) })
	}
	return false
}

// lookAtQueues takes in Queues that have changed: other guarantees and limits begin with a new
// log.
func (d looker) lookAtQueues() {
	if !d.readQueues() {
		return
	}
	d.opt.Log.Info("queues have changed", "queues", len(d.queues.all), "unusable", len(d.queues.lost))
	d.Renew()
}

// statuses is what there is to say of Queues at present.
func (d *Daemon) statuses() map[string]queueStatus {
	t, now := d.State().Tenants, max(d.Loop.Now(), d.State().Now)
	out := map[string]queueStatus{}
	for name, q := range d.queues.all {
		s := queueStatus{ObservedGeneration: q.Generation, GPUHours: q.GPUHours}
		if id, known := t.Lookup(name); known {
			s.Used = int64(t.At(id).Used.GPU / unit.One)
			s.GPUHours = math.Round(t.Usage(id, now)/3.6) / 1000
		}
		c := v1.Condition{Type: "Ready", Status: v1.ConditionTrue, Reason: "InForce", ObservedGeneration: q.Generation}
		if err := d.queues.lost[name]; err != nil {
			c.Status, c.Reason, c.Message = v1.ConditionFalse, "NoPlace", err.Error()
		}
		s.Conditions = []v1.Condition{c}
		out[name] = s
	}
	for j := range d.All() {
		r := d.State().Record(j.ID)
		for id := r.Tenant; id > tenant.Root; id = t.At(id).Parent {
			s, is := out[t.At(id).Name]
			if !is {
				continue
			}
			if r.Phase.HasDevices() {
				s.Running++
			} else {
				s.Waiting++
			}
			out[t.At(id).Name] = s
		}
	}
	return out
}

// news tells whether something of a status should be written: GPU hours alone once they have
// grown by a tenth.
func (s *queueStatus) news(was *queueStatus) bool {
	return s.ObservedGeneration != was.ObservedGeneration || s.Used != was.Used || s.Running != was.Running || s.Waiting != was.Waiting ||
		math.Abs(s.GPUHours-was.GPUHours) > was.GPUHours/10+0.1 || len(was.Conditions) == 0 || s.Conditions[0].Message != was.Conditions[0].Message
}

// dueStatuses are the changes of Queues that should be written, which count as written.
func (d *Daemon) dueStatuses(last bool) (out []func()) {
	if len(d.queues.all) == 0 {
		return nil
	}
	now := d.statuses()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		s, was := now[name], d.queues.told[name]
		if !s.news(&was) && !(last && s.GPUHours != was.GPUHours) {
			continue
		}
		at := v1.Now()
		if len(was.Conditions) > 0 && was.Conditions[0].Status == s.Conditions[0].Status {
			at = was.Conditions[0].LastTransitionTime
		}
		s.Conditions[0].LastTransitionTime = at
		d.queues.told[name] = s
		uid := d.queues.all[name].UID
		out = append(out, func() {
			if err := d.write.status(queueObjects, "", name, metadata{UID: uid}, &s); err != nil {
				d.opt.Log.Debug("how a Queue stands cannot be told", "queue", name, "error", err)
			}
		})
	}
	return out
}

// tellQueues writes how Queues stand.
func (d *Daemon) tellQueues() {
	for _, write := range d.dueStatuses(false) {
		d.Loop.Act(&d.queues.lane, write)
	}
}
