package kube

import (
	"cmp"
	"slices"
	"time"

	core "k8s.io/api/core/v1"

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
	for _, key := range d.view.jobs.GetStore().ListKeys() {
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
	used := make([][]bool, len(d.nodes.nodes)) // by device within the node
	for i, n := range d.nodes.nodes {
		used[i] = make([]bool, n.devices())
	}
	for _, s := range all {
		if ev, ok := d.recallOne(s, used); ok {
			ev.Job = job.ID(len(told.Jobs))
			ev.Spec.ID = ev.Job
			told.Jobs = append(told.Jobs, ev)
		}
	}
	return told, nil
}

// recallOne makes one job known; false: it is none, or it has ended.
func (d recovery) recallOne(s *sight, used [][]bool) (eventlog.Event, bool) {
	a, err := d.asks(s)
	l := newEntry(s, &a)
	if done, failed, _ := l.isOver(s); err != nil || s.deleted && len(s.pods) == 0 || (done || failed) && !d.active(s) {
		return eventlog.Event{}, false // what cannot be scheduled is found again as it was found first
	}
	now := max(0, time.Since(d.opt.Origin))
	spec := d.engineJob(s, &a, max(0, min(now, s.created.Sub(d.opt.Origin))))
	ev := eventlog.Event{Time: now, Kind: eventlog.Carry, Spec: &spec, Record: new(job.Record), Estimate: -1, Reason: job.Reason{Job: job.None}}
	ev.Record.Submit(&spec, spec.Submit)
	d.remember(s, &ev)
	plan, planned := d.planOf(s)
	l.Run = int(plan.Run)
	switch {
	case planned:
		d.stands(l, s, &ev, plan, used)
	case d.active(s):
		ev.Record.Phase = job.Stopping
		l.stage, l.Purpose = leaving, live.Preempted
		l.told = s.owner != nil && s.owner.Spec.Suspend != nil && *s.owner.Spec.Suspend
	default:
		ev.Record.Phase = job.Waiting
	}
	if a.estimate > 0 && ev.Estimate < 0 {
		ev.Estimate = a.estimate
	}
	d.entries[s.key] = l
	return ev, true
}

// active tells whether pods of a job are on nodes.
func (d recovery) active(s *sight) bool {
	return slices.ContainsFunc(s.pods, func(p *core.Pod) bool {
		return !over(p) && p.Spec.NodeName != "" && d.nodes.byName[p.Spec.NodeName] != nil
	})
}

// remember takes over what was noted of a job.
func (d recovery) remember(s *sight, ev *eventlog.Event) {
	text := ""
	switch {
	case s.owner != nil:
		text = s.owner.Annotations[names.Record]
	case len(s.pods) > 0:
		text = s.pods[0].Annotations[names.Record]
	}
	if text == "" {
		return
	}
	was, err := convert.ParseRecord(text)
	if err != nil {
		d.opt.Log.Warn("what was noted of a job cannot be read, and counts as lost", "job", s.key, "error", err)
		return
	}
	ev.Spec.Serial = was.Spec.Serial
	was.Record.Job, was.Record.Phase, was.Record.End = ev.Record.Job, job.Waiting, -1
	was.Record.Merged, was.Record.With, was.Record.Profiling = job.Apart, job.None, false
	*ev.Record, ev.Estimate = *was.Record, was.Estimate
}

// planOf is where the pods of a job were to go; false: it has not been told to run.
func (d recovery) planOf(s *sight) (plan *convert.Plan, planned bool) {
	text, told := "", ""
	switch s.kind {
	case aJob:
		text, told = s.owner.Annotations[names.Plan], s.owner.Annotations[names.Run]
		if s.owner.Spec.Suspend != nil && *s.owner.Spec.Suspend {
			text = ""
		}
	case aGang:
		for _, p := range s.pods {
			text = cmp.Or(text, p.Annotations[names.Plan])
		}
	case aPod:
		p := s.pods[0]
		return &convert.Plan{Run: 1, Nodes: []string{p.Spec.NodeName}}, p.Spec.NodeName != ""
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
func number(text string) (n int) {
	for _, c := range text {
		if c < '0' || c > '9' || n > 1<<30 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// stands has a job run where its plan says.
func (d recovery) stands(l *entry, s *sight, ev *eventlog.Event, plan *convert.Plan, used [][]bool) {
	r := ev.Record
	alloc, seats := d.allocOf(l, s, plan, used)
	if alloc == nil { // its nodes are gone, or are not what they were: it leaves, and waits again
		r.Phase = job.Stopping
		l.stage, l.Purpose = leaving, live.Preempted
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

// allocOf is the allocation of a plan; nil: it cannot be.
func (d recovery) allocOf(l *entry, s *sight, plan *convert.Plan, used [][]bool) (*cluster.Alloc, []seat) {
	a := new(cluster.Alloc)
	demand, ranks := &l.ask.demand, plan.Nodes
	others := 0 // tasks of the other roles
	for _, r := range demand.Roles[1:] {
		others += int(r.Tasks)
	}
	if least, most := demand.Roles[0].Range(); len(ranks)-others < int(least) || len(ranks)-others > int(most) {
		return nil, nil
	}
	bound := map[string][]*core.Pod{}
	for _, p := range s.pods {
		if p.Spec.NodeName != "" {
			bound[p.Spec.NodeName] = append(bound[p.Spec.NodeName], p)
		}
	}
	for role := range demand.Roles {
		r := &demand.Roles[role]
		if r.Tasks == 0 {
			continue
		}
		tasks := int(r.Tasks)
		if role == 0 { // the one that may have another size
			tasks = len(ranks) - others
		}
		if tasks < 1 || tasks > len(ranks) {
			return nil, nil
		}
		mine := ranks[:tasks]
		ranks = ranks[tasks:]
		for _, name := range mine {
			n := d.nodes.byName[name]
			if n == nil || n.gone {
				return nil, nil
			}
			devices := d.chosen(n, int(r.GPU/unit.One), bound, used[n.id])
			if len(devices) < int(r.GPU/unit.One) {
				return nil, nil
			}
			seatOn(a, n.id, uint8(role), r, wholeShares(d.nodes.first[n.id], devices))
		}
	}
	return a, d.nodes.seatsOf(a)
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

// chosen are devices of a node: those that a pod which is bound there says it has, else such
// as nobody has.
func (d recovery) chosen(n *node, count int, bound map[string][]*core.Pod, used []bool) (out []int) {
	if count == 0 {
		return nil
	}
	if pods := bound[n.is.Name]; len(pods) > 0 {
		bound[n.is.Name] = pods[1:]
		told, ok := devicesOf(pods[0].Annotations[names.Devices], len(used))
		if ok && len(told) == count && !slices.ContainsFunc(told, func(i int) bool { return used[i] }) {
			out = told
		}
	}
	for i := 0; len(out) < count && i < len(used); i++ {
		if !used[i] && !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	for _, i := range out {
		used[i] = true
	}
	return out
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
