package kube

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/live"
)

// recovery is the daemon while it finds out what an earlier Norn had decided.
type recovery struct{ *Daemon }

// recall makes the jobs known of which the API tells: those that run where its objects say,
// and with the record that was noted on them.
func (d recovery) recall() (live.Told, error) {
	told := live.Told{Origin: d.opt.Origin}
	var all []*sight
	for _, key := range d.view.ownerKeys() {
		if s := d.view.see(key); s != nil { // else it is not for Norn
			all = append(all, s)
		}
	}
	seen := map[string]bool{}
	for _, o := range d.view.pods.GetStore().List() {
		key := d.view.keyOfPod(o.(*core.Pod))
		if key == "" || seen[key] {
			continue
		}
		seen[key] = true
		if s := d.view.see(key); s != nil && s.kind != aJob {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *sight) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key, b.key))
	})
	devices := d.claim(all)
	for _, s := range all {
		if ev, ok := d.recallOne(s, devices); ok {
			ev.Job = job.ID(len(told.Jobs))
			ev.Spec.ID = ev.Job
			told.Jobs = append(told.Jobs, ev)
		}
	}
	return told, nil
}

// claims are the devices of the nodes while jobs are recalled.
type claims struct {
	noted map[types.UID][]int // by pod: those that it is noted to have, by their numbers within its node
	kept  [][]bool            // by node and number: some pod is noted to have it
	used  [][]bool            // by node and number: a job that was recalled has it
}

// claim finds the devices that pods are noted to have. Of two with one device the older has it.
func (d recovery) claim(all []*sight) *claims {
	c := &claims{noted: map[types.UID][]int{}, kept: make([][]bool, len(d.nodes.nodes)), used: make([][]bool, len(d.nodes.nodes))}
	for i, n := range d.nodes.nodes {
		c.kept[i], c.used[i] = make([]bool, n.devices()), make([]bool, n.devices())
	}
	var pods []*core.Pod
	for _, s := range all {
		pods = append(pods, s.pods...)
	}
	slices.SortStableFunc(pods, func(a, b *core.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, p := range pods {
		n := d.nodes.byName[p.Spec.NodeName]
		if n == nil || over(p) {
			continue
		}
		told, ok := devicesOf(p.Annotations[names.Devices], n.devices())
		if !ok || slices.ContainsFunc(told, func(i int) bool { return c.kept[n.id][i] }) {
			continue
		}
		for _, i := range told {
			c.kept[n.id][i] = true
		}
		c.noted[p.UID] = told
	}
	return c
}

// choose chooses devices of a node: those that the pod which sits there is noted to have,
// else such as nobody has. pod may be nil.
func (c *claims) choose(n cluster.NodeID, count int, pod *core.Pod) (out []int) {
	used := c.used[n]
	if pod != nil && len(c.noted[pod.UID]) == count {
		out = slices.Clone(c.noted[pod.UID])
	}
	for _, kept := range []bool{false, true} {
		for i := 0; len(out) < count && i < len(used); i++ {
			if !used[i] && c.kept[n][i] == kept && !slices.Contains(out, i) {
				out = append(out, i)
			}
		}
	}
	for _, i := range out {
		used[i] = true
	}
	return out
}

// recallOne makes one job known; false: it is none, or it has ended.
func (d recovery) recallOne(s *sight, devices *claims) (eventlog.Event, bool) {
	a, err := d.asks(s)
	l := newEntry(s, &a)
	plan, planned := d.planOf(s)
	if planned && errors.As(err, new(*noClass)) { // its pods are there, and have their priority
		err = nil
	}
	if planned && s.kind == aGang && errors.As(err, new(*incomplete)) && len(plan.Nodes) == int(a.pods) { // it was complete when it began
		err = nil
	}
	if done, failed, _ := l.isOver(s); err != nil || s.deleted && len(s.pods) == 0 || (done || failed) && !d.active(s) {
		return eventlog.Event{}, false // what cannot be scheduled is found again as it was found first
	}
	now := max(0, time.Since(d.opt.Origin))
	spec := d.engineJob(s, &a, max(0, min(now, s.created.Sub(d.opt.Origin))))
	ev := eventlog.Event{Time: now, Kind: eventlog.Carry, Spec: &spec, Record: new(job.Record), Estimate: -1, Reason: job.Reason{Job: job.None}}
	ev.Record.Submit(&spec, spec.Submit)
	was := d.remember(s, &ev)
	l.Run = int(plan.Run)
	switch {
	case planned:
		d.goesOn(l, s, &ev, plan, devices)
	case d.active(s) || s.suspended() && (was.Record.Phase == job.Stopping || was.Record.Phase == job.Running):
		d.isLeaving(l, s, &ev, was)
	case was.Record.Phase == job.Held:
		ev.Record.Phase, ev.Reason, l.noted = job.Held, was.Reason, true
	case looker(d).amiss(l, s) != "":
		l.short, ev.Record.Phase = true, job.Held
		ev.Reason = job.Reason{Code: job.OnHold, Job: job.None, Text: looker(d).amiss(l, s)}
	default:
		ev.Record.Phase = job.Waiting
		if l.denied = d.queues.denied(&a, s.namespace); l.denied != "" {
			ev.Record.Phase, ev.Reason = job.Held, job.Reason{Code: job.OnHold, Job: job.None, Text: l.denied}
		}
	}
	if a.estimate > 0 && ev.Estimate < 0 {
		ev.Estimate = a.estimate
	}
	d.entries[s.key] = l
	return ev, true
}

// active tells whether pods of a job are on nodes where Norn has put them.
func (d recovery) active(s *sight) bool {
	return slices.ContainsFunc(s.pods, func(p *core.Pod) bool {
		return !over(p) && !isTheirs(p) && p.Spec.NodeName != "" && d.nodes.byName[p.Spec.NodeName] != nil
	})
}

// isLeaving has a job leave that was told so when its owner was changed last: its record is
// that of the moment at which it was told. Whether it is cancelled stands there, too.
func (d recovery) isLeaving(l *entry, s *sight, ev, was *eventlog.Event) {
	r := ev.Record
	l.stage, l.Purpose, l.found, l.told = leaving, live.Preempted, true, s.suspended()
	l.saved = r.SavedAt(was.Time)
	switch r.Phase = was.Record.Phase; {
	case r.Phase == job.Stopping:
	case r.Phase == job.Running && was.Time >= r.Since && r.Speed >= 0:
		if err := r.Preempt(was.Time, keptBy(r, was.Time)); err != nil { // it runs
			r.Phase = job.Stopping
		}
	default:
		r.Phase = job.Stopping
	}
	if r.Job.Stop == job.Checkpoint { // unless it is seen to have failed
		r.Saves.Last = r.Progress
	}
	if was.Reason.Code == job.Cancelling {
		l.Purpose, l.Why = live.Cancelled, was.Reason.Text
	}
}

// suspended tells whether what is seen is a Job that is to have no pods.
func (s *sight) suspended() bool {
	return s.owner != nil && s.owner.suspends()
}

// remember takes over what was noted of a job, and returns the event that was: one without a
// phase where there is none.
func (d recovery) remember(s *sight, ev *eventlog.Event) *eventlog.Event {
	text := ""
	if s.owner != nil {
		text = s.owner.GetAnnotations()[names.Record]
	} else {
		for _, p := range s.pods {
			text = cmp.Or(text, p.Annotations[names.Record])
		}
	}
	if text == "" {
		return &eventlog.Event{Record: &job.Record{}}
	}
	was, err := convert.ParseRecord(text)
	if err != nil {
		d.opt.Log.Warn("the record of a job cannot be read, and counts as lost", "job", s.key, "error", err)
		return &eventlog.Event{Record: &job.Record{}}
	}
	ev.Spec.Serial = was.Spec.Serial
	*ev.Record, ev.Estimate = *was.Record, was.Estimate
	r := ev.Record
	r.Job, r.Phase, r.End = ev.Spec, job.Waiting, -1
	r.Merged, r.With, r.Profiling = job.Apart, job.None, false
	return was
}

// planOf is where the pods of a job were to go; false: it has not been told to run.
func (d recovery) planOf(s *sight) (plan *convert.Plan, planned bool) {
	text, told := "", ""
	switch s.kind {
	case aJob:
		text, told = s.owner.GetAnnotations()[names.Plan], s.owner.GetAnnotations()[names.Run]
		if s.suspended() {
			text = ""
		}
	case aGang:
		for _, p := range s.pods {
			text = cmp.Or(text, p.Annotations[names.Plan])
		}
	case aPod:
		p := s.pods[0]
		if p.Spec.NodeName == "" || isTheirs(p) {
			return &convert.Plan{}, false
		}
		return &convert.Plan{Run: int32(max(1, number(p.Annotations[names.Run]))), Nodes: []string{p.Spec.NodeName}}, true
	}
	none := &convert.Plan{Run: int32(number(told))}
	if text == "" {
		return none, false
	}
	plan, err := convert.ParsePlan(text)
	if err != nil {
		d.opt.Log.Warn("where a job was to run cannot be read", "job", s.key, "error", err)
		return none, false
	}
	return plan, true
}

// number reads the number of a run; 0: it cannot be read.
func number(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || text != strconv.FormatUint(n, 10) {
		return 0
	}
	return int(n)
}

// goesOn has a job run where its plan says.
func (d recovery) goesOn(l *entry, s *sight, ev *eventlog.Event, plan *convert.Plan, devices *claims) {
	r := ev.Record
	l.found = true
	alloc, seats := d.allocOf(l, s, plan, devices)
	if alloc == nil { // its nodes are gone, or are not what they were: it leaves, and waits again
		r.Phase = job.Stopping
		l.stage, l.Purpose, l.saved = leaving, live.Preempted, r.SavedAt(ev.Time)
		return
	}
	l.stage, l.seats, l.told, l.drains = starting, seats, true, true
	r.Phase, ev.Alloc = job.Running, alloc
	r.Tasks = int32(alloc.Tasks(0))
	r.Milli = ev.Spec.Demand.Milli(r.Tasks)
	if r.FirstStart < 0 {
		r.FirstStart = r.Since
	}
	if r.Starts == 0 {
		r.Starts = max(1, plan.Run)
	}
	if r.Speed == 0 {
		r.Speed = 1
	}
}

// allocOf is the allocation of a plan, with its seats; nil: it cannot be.
func (d recovery) allocOf(l *entry, s *sight, plan *convert.Plan, devices *claims) (*cluster.Alloc, []seat) {
	a := new(cluster.Alloc)
	demand, ranks := &l.ask.demand, plan.Nodes
	others := 0 // tasks of the other roles
	for _, r := range demand.Roles[1:] {
		others += int(r.Tasks)
	}
	if least, most := demand.Roles[0].Range(); len(ranks)-others < int(least) || len(ranks)-others > int(most) {
		return nil, nil
	}
	sit, at := sitters(l, s, ranks, rolesOf(demand, len(ranks)-others)), 0
	for role := range demand.Roles {
		r := &demand.Roles[role]
		if r.Tasks == 0 {
			continue
		}
		tasks := int(r.Tasks)
		if role == 0 { // the one that may have another size
			tasks = len(ranks) - others
		}
		if tasks < 1 || at+tasks > len(ranks) {
			return nil, nil
		}
		for range tasks {
			n := d.nodes.byName[ranks[at]]
			if n == nil || n.gone {
				return nil, nil
			}
			chosen := devices.choose(n.id, int(r.GPU/unit.One), sit[at])
			if len(chosen) < int(r.GPU/unit.One) {
				return nil, nil
			}
			seatOn(a, n.id, uint8(role), r, wholeShares(d.nodes.first[n.id], chosen))
			at++
		}
	}
	seats := d.nodes.seatsOf(a)
	for i, p := range sit {
		if p != nil && i < len(seats) && seats[i].node == p.Spec.NodeName {
			seats[i].pod, seats[i].name = p.UID, p.Name
		}
	}
	return a, seats
}

// rolesOf is the role of each rank of a demand whose first role has so many tasks.
func rolesOf(demand *job.Demand, first int) (out []int) {
	for role := range demand.Roles {
		tasks := int(demand.Roles[role].Tasks)
		if role == 0 {
			tasks = first
		}
		for range tasks {
			out = append(out, role)
		}
	}
	return out
}

// sitters are the pods that sit on the ranks of a plan, whose roles are told, too: each where
// its rank in its role says, and those without one on what is left of their nodes. nil: nobody
// sits there.
func sitters(l *entry, s *sight, ranks []string, roles []int) []*core.Pod {
	out := make([]*core.Pod, len(ranks))
	var late []*core.Pod
	fits := func(at int, p *core.Pod, role int) bool {
		return at < len(ranks) && out[at] == nil && ranks[at] == p.Spec.NodeName && (role < 0 || role == roles[at])
	}
	for _, p := range s.pods {
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || over(p) {
			continue
		}
		role := l.roleOf(p)
		at, ranked := rankOf(p)
		if at += max(0, slices.Index(roles, role)); ranked && fits(at, p, role) {
			out[at] = p
		} else {
			late = append(late, p)
		}
	}
	for _, p := range late {
		for at := range ranks {
			if fits(at, p, l.roleOf(p)) {
				out[at] = p
				break
			}
		}
	}
	return out
}

// seatOn adds a task of a role to an allocation.
func seatOn(a *cluster.Alloc, n cluster.NodeID, role uint8, r *job.Role, shares []cluster.Share) {
	last := len(a.Pieces) - 1
	if last < 0 || a.Pieces[last].Node != n || a.Pieces[last].Role != role {
		a.Pieces = append(a.Pieces, cluster.Piece{Node: n, Role: role})
		last++
	}
	p := &a.Pieces[last]
	p.Tasks++
	p.Shares += int32(len(shares))
	p.CPU += r.CPU
	p.Memory += r.Memory
	for i := range shares {
		shares[i].Memory = r.GPUMemory
	}
	a.Shares = append(a.Shares, shares...)
}

// find goes on with a job that was recalled.
func (d recovery) find(j *live.Job) {
	l := d.entries[j.Key]
	l.Decided = d.Loop.Now()
	switch l.stage {
	case noRun:
		d.Rest(j)
	case leaving:
		if !l.told {
			d.tellToLeave(l)
		}
	}
	d.view.mark(subject{name: l.Key})
}
