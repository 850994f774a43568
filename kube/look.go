package kube

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/live"
)

// looker is the daemon as it compares what there is with what was decided.
type looker struct{ *Daemon }

// lookAtMarked looks at all that has changed. It is called in the goroutine of the loop.
func (d looker) lookAtMarked() error {
	marked := d.view.take()
	if marked[subject{waiting: true}] && d.rulesDue() {
		d.lookAtQueues()
		d.markWaiting(marked)
	}
	var keys, nodes []string
	for s := range marked {
		switch {
		case s.waiting:
		case s.node:
			nodes = append(nodes, s.name)
		default:
			keys = append(keys, s.name)
		}
	}
	slices.Sort(nodes)
	for _, name := range nodes {
		d.soon(func() error { return fleet(d).lookAtNode(name) })
	}
	d.inOrder(keys)
	for _, key := range keys {
		d.soon(func() error { return d.look(key) })
	}
	return nil
}

// inOrder sorts keys of jobs by submission, then by key, as new jobs are numbered.
func (d looker) inOrder(keys []string) {
	created := make(map[string]time.Time, len(keys))
	for _, key := range keys {
		if d.entries[key] == nil {
			if s := d.view.see(key); s != nil {
				created[key] = s.created
			}
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		if c := created[a].Compare(created[b]); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
}

// soon does something now, or in the next instant where it concerns a job to which
// something has happened in this one.
func (d looker) soon(f func() error) {
	if err := f(); errors.Is(err, live.ErrLater) {
		d.Loop.Later(f)
	} else if err != nil {
		d.opt.Log.Error("norn has made a mistake", "error", err)
	}
}

// look compares what the API shows of a job with what was decided.
func (d looker) look(key string) error {
	s, l := d.view.see(key), d.entries[key]
	switch {
	case l == nil && s == nil:
		delete(d.partial, key)
		delete(d.dismissed, key)
		return nil
	case l == nil:
		d.admit(s)
		return nil
	}
	if err := d.Loop.Touch(l.ID); err != nil {
		return err
	}
	if s == nil || s.uid != l.uid {
		d.vanished(l)
		return nil
	}
	d.compare(l, s)
	return nil
}

// admit takes in a new job.
func (d looker) admit(s *sight) {
	if s.deleted || d.dismissed[s.key] == s.uid && s.uid != "" {
		return
	}
	a, err := d.asks(s)
	l := newEntry(s, &a)
	if done, failed, _ := l.isOver(s); done || failed {
		return // before Norn knew of it
	}
	var part *incomplete
	if errors.As(err, &part) {
		d.partial[s.key] = part
		return
	}
	delete(d.partial, s.key)
	if errors.Is(err, errApart) {
		d.setApart(s.pods)
		return
	}
	d.entries[s.key] = l
	if s.owner != nil { // its next run comes after those that are noted, whoever noted them
		l.Run = number(s.owner.GetAnnotations()[names.Run])
	}
	why := d.amiss(l, s)
	if l.short = why != ""; err != nil {
		a.demand = job.GPUs(1) // of one that is held
		l.unfit, why = err.Error(), "cannot be scheduled by norn: "+err.Error()
	} else if l.denied = d.queues.denied(&a, s.namespace); l.denied != "" {
		l.short, why = false, l.denied
	}
	l.Held = why != ""
	d.Admit(&l.Job, d.engineJob(s, &a, d.Loop.Now()))
	if l.Held {
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Wait, Job: l.ID, Reason: job.Reason{Code: job.OnHold, Job: job.None, Text: why}})
	}
}

// vanished deals with a job whose owner is gone: what is left of it leaves.
func (d looker) vanished(l *entry) {
	if l.Purpose != live.Cancelled {
		l.Purpose, l.Why = live.Cancelled, "its "+l.called()+" was deleted"
	}
	if l.stage.there() {
		if l.stage != leaving {
			d.leaves(l)
		}
		if !d.left(l, nil) {
			return
		}
	}
	d.quit(l)
	l.gone = true
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.ID})
	d.Loop.Later(func() error { return d.look(l.Key) }) // somebody may have made it anew
}

// compare compares a job that is there.
func (d looker) compare(l *entry, s *sight) {
	r := d.State().Record(l.ID)
	d.noteCodes(l, s)
	done, failed, why := l.isOver(s)
	switch {
	case s.deleted && l.Purpose != live.Cancelled && !done && !failed:
		d.deleted(l)
	case l.stage == noRun && (done || failed):
		l.Why, l.gone = "it ended without norn", true
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.ID})
	case l.stage == noRun && (d.retake(l, s) || l.unfit == "" && d.lineUp(l)):
	case l.stage == noRun:
		d.gather(l, s)
	case done || failed:
		if failed && l.kind != aJob && l.stage != leaving {
			d.leaves(l) // its other pods
		}
		if d.left(l, s) {
			d.ended(l, r, done, why)
		}
	case l.stage == leaving:
		if d.left(l, s) {
			d.concluded(l, r)
		}
	default:
		d.settle(l, s)
	}
}

// markWaiting adds all jobs that wait or are held to what is to be looked at.
func (d looker) markWaiting(marked map[subject]bool) {
	for key, l := range d.entries {
		if l.stage == noRun {
			marked[subject{name: key}] = true
		}
	}
}

// retake takes a job in anew that waits for its first start and asks for something else than
// when it was taken in, as when its Job was changed or its PriorityClass has come.
func (d looker) retake(l *entry, s *sight) bool {
	r := d.State().Record(l.ID)
	if r.Starts > 0 || r.Phase != job.Waiting && r.Phase != job.Held || l.unfit == "" && (l.kind == aPod || l.Held && l.denied == "") {
		return false
	}
	if l.kind == aGang && l.unfit == "" && !d.grewUp(l, s) {
		return false
	}
	a, err := d.asks(s)
	unfit := ""
	if err != nil {
		unfit = err.Error()
	}
	if unfit == l.unfit && (err != nil || a.equal(&l.ask)) {
		return false
	}
	l.Why, l.gone, l.retaken = "it was changed, and is taken in anew", true, true
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.ID})
	d.Loop.Later(func() error { return d.look(l.Key) })
	return true
}

// quiet is for how long a gang that waits must not have grown before it is taken in anew, with all
// the pods that it has by then. It goes to the end of the line with that, so that pods which come
// later than Options.Gather do not count: they are jobs of their own once it runs.
const quiet = time.Second

// grewUp tells whether a gang that waits can be compared with what it was: all of its pods are
// there, and no more come.
func (d looker) grewUp(l *entry, s *sight) bool {
	have, had, now := len(s.ready()), max(l.grown, int(l.ask.pods)), d.Loop.Now()
	grows := l.grown > 0 && now < l.grew+quiet
	if have > had && (grows || now <= d.State().Record(l.ID).Job.Submit+d.opt.Gather) {
		l.grown, l.grew = have, now
		d.Loop.At(now+quiet, func() { d.soon(func() error { return d.look(l.Key) }) })
		return false
	}
	return have == had && !grows
}

// gather holds a gang of which pods have gone while it waits, until they are all there again,
// and a job of which others have bound pods, until those have gone.
func (d looker) gather(l *entry, s *sight) {
	why := d.amiss(l, s)
	switch phase := d.State().Record(l.ID).Phase; {
	case why != "" && phase == job.Waiting:
		l.short = true
		d.Hold(&l.Job, why)
	case why == "" && l.short && phase == job.Held:
		l.short = false
		live.Release(d.Daemon.Daemon, &l.Job)
	}
}

// amiss is why a job must wait for what is the matter with its pods; empty: nothing is.
func (d looker) amiss(l *entry, s *sight) string {
	if p := d.theirs(s); p != nil {
		return "others have bound its pod " + p.Name + " to node " + p.Spec.NodeName + ": it waits until that has ended"
	}
	if have := len(s.ready()); l.kind == aGang && have < int(l.ask.pods) {
		return (&incomplete{have: have, want: int(l.ask.pods)}).Error()
	}
	return ""
}

// theirs is a pod of a job that others have bound and that has not ended; nil: there is none.
func (d looker) theirs(s *sight) *core.Pod {
	for _, p := range s.pods {
		if d.occupies(p) {
			return p
		}
	}
	return nil
}

// occupies tells whether a pod that others have bound stays on its node.
func (d looker) occupies(p *core.Pod) bool {
	return isTheirs(p) && p.DeletionTimestamp == nil && !d.lostNode(p.Spec.NodeName)
}

// isTheirs tells whether others have bound a pod, which has not ended.
func isTheirs(p *core.Pod) bool {
	return p.Spec.NodeName != "" && p.Annotations[names.Run] == "" && !over(p)
}

// there counts the pods that nobody has deleted, whether they have ended or not.
func (s *sight) there() (n int) {
	for _, p := range s.pods {
		if p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// ready are the pods of a job that run or can.
func (s *sight) ready() (out []*core.Pod) {
	for _, p := range s.pods {
		if p.DeletionTimestamp == nil && !over(p) {
			out = append(out, p)
		}
	}
	return out
}

// deleted deals with a job whose user has deleted it while its object is still there.
func (d looker) deleted(l *entry) {
	l.Purpose, l.Why, l.gone = live.Cancelled, "its "+l.called()+" was deleted", true
	if !l.stage.there() {
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Cancel, Job: l.ID})
		return
	}
	if l.stage != leaving {
		d.leaves(l)
	}
	d.Loop.Later(func() error { return d.look(l.Key) })
}

// noteCodes notes how containers of the present run have ended.
func (d looker) noteCodes(l *entry, s *sight) {
	if !l.stage.there() {
		return
	}
	for _, p := range s.pods {
		if l.seatOf(p.UID) < 0 && !(l.found && p.Annotations[names.Run] == strconv.Itoa(l.Run)) {
			continue
		}
		for _, c := range p.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil {
				if old, known := l.codes[p.UID]; !known || old == 0 {
					l.codes[p.UID] = t.ExitCode
				}
			}
		}
	}
}

// left tells whether nothing of a run is left in the cluster, but for what is on nodes that
// are lost.
func (d looker) left(l *entry, s *sight) bool {
	if !l.told {
		return false
	}
	pods := d.view.podsOf(l.Key, l.uid)
	for i := range l.seats { // also those between whom and their owner nothing is any more
		seat := &l.seats[i]
		p := d.view.pod(l.namespace, seat.name, seat.pod)
		if p == nil {
			continue
		}
		if pods = append(pods, p); s != nil && s.owner != nil && p.Spec.NodeName == "" && !over(p) && !d.lostNode(seat.node) {
			return false // it may be bound already, though that is not seen yet; its owner deletes it
		}
	}
	for _, p := range pods {
		if !over(p) && p.Spec.NodeName != "" && !d.lostNode(p.Spec.NodeName) {
			return false
		}
	}
	if s == nil || s.owner == nil {
		return true
	}
	if done, failed, _ := l.isOver(s); done || failed {
		return true
	}
	return s.owner.quiet()
}

// lostNode tells whether a node is lost, or is no more.
func (d looker) lostNode(name string) bool {
	n := d.nodes.byName[name]
	return n == nil || n.gone || n.state == cluster.Down
}

// settle sees to it that each pod of a run has its seat.
func (d looker) settle(l *entry, s *sight) {
	d.vacate(l, s)
	running := 0
	for _, p := range s.pods {
		at := l.seatOf(p.UID)
		goesOn := !over(p) || l.kind != aJob && p.Status.Phase == core.PodSucceeded
		if at < 0 && p.Spec.NodeName != "" && goesOn && p.DeletionTimestamp == nil {
			at = d.recognise(l, p)
		}
		if at < 0 && d.occupies(p) {
			d.throwOff(l, "somebody else has bound pod "+p.Name+" to node "+p.Spec.NodeName)
			return
		}
		if at < 0 {
			continue
		}
		seat := &l.seats[at]
		switch {
		case p.Spec.NodeName == "":
		case p.Spec.NodeName != seat.node:
			d.throwOff(l, "somebody else has bound pod "+p.Name+" to node "+p.Spec.NodeName)
			return
		case rejected(p):
			d.throwOff(l, "node "+seat.node+" refused pod "+p.Name+": "+p.Status.Reason+" "+p.Status.Message)
			return
		}
		seat.bound, seat.running = p.Spec.NodeName != "", p.Status.Phase != core.PodPending
		if seat.running {
			running++
		}
	}
	if l.kind == aGang && l.stage == starting && s.there() < len(l.seats) {
		d.throwOff(l, "one of its pods has gone")
		return
	}
	if l.stage == starting && running == len(l.seats) {
		l.stage = up
		if !l.found { // else nobody knows when it was decided
			live.Launched(d.Daemon.Daemon, &l.Job)
		}
		l.began, l.failed = d.Loop.Now(), 0
	}
	if !l.told {
		return
	}
	if bind := d.sit(l, s.pods); len(bind) > 0 {
		d.bind(l, bind)
	}
	d.setApart(l.late(s.pods))
	if l.seated() {
		d.tellGroup(l, s.pods, "")
	}
}

// vacate frees the seats of pods that have ended or are gone: another one follows on the
// same seat, if the owner makes one.
func (d looker) vacate(l *entry, s *sight) {
	for i := range l.seats {
		seat := &l.seats[i]
		if seat.pod == "" {
			continue
		}
		at := slices.IndexFunc(s.pods, func(p *core.Pod) bool { return p.UID == seat.pod })
		if at >= 0 && !over(s.pods[at]) {
			continue
		}
		if l.kind == aJob && (at < 0 || !rejected(s.pods[at])) || l.kind == aGang && at < 0 {
			*seat = newSeat(seat)
		}
	}
}

// newSeat is a seat without its pod.
func newSeat(s *seat) seat { return seat{node: s.node, role: s.role, devices: s.devices} }

// recognise gives a seat on its node to a pod that is bound and has none, as after a change
// of the leader; -1: there is none.
func (d looker) recognise(l *entry, p *core.Pod) int {
	role := l.roleOf(p)
	free := func(i int) bool {
		return l.seats[i].pod == "" && l.seats[i].node == p.Spec.NodeName && (role < 0 || int(l.seats[i].role) == role)
	}
	at := -1
	if rank, ranked := rankOf(p); ranked && rank+l.firstOf(role) < len(l.seats) && free(rank+l.firstOf(role)) {
		at = rank + l.firstOf(role)
	}
	for i := 0; at < 0 && i < len(l.seats); i++ {
		if free(i) {
			at = i
		}
	}
	if at >= 0 {
		l.seats[at].pod, l.seats[at].name = p.UID, p.Name
	}
	return at
}

// rejected tells whether the kubelet would not have a pod: that is no failure of the job.
func rejected(p *core.Pod) bool {
	if p.Status.Phase != core.PodFailed {
		return false
	}
	return strings.HasPrefix(p.Status.Reason, "OutOf") || slices.Contains([]string{"UnexpectedAdmissionError", "NodeAffinity", "NodeShutdown", "Terminated", "TaintToleration"}, p.Status.Reason)
}

// ended deals with a job whose owner says that it has ended.
func (d looker) ended(l *entry, r *job.Record, done bool, why string) {
	e := &live.Exit{Cause: live.Exited, Tasks: max(1, len(l.seats)), Status: api.Exit{Code: 0}}
	if !done {
		e.Status = api.Exit{Code: int(l.worstCode()), Note: why}
		if e.Status.Code == 0 {
			e.Status.Code = 1
		}
	}
	d.over(l, r, e)
}

// worstCode is the exit code that counts of a run that failed.
func (l *entry) worstCode() (worst int32) {
	for _, c := range l.codes {
		if c != 0 && c != exitAgain || worst == 0 {
			worst = c
		}
	}
	return worst
}

// exitAgain is the exit code of a program that has saved its state.
const exitAgain = 75

// concluded deals with a run that was told to leave and has left.
func (d looker) concluded(l *entry, r *job.Record) {
	e := &live.Exit{Cause: live.Left, Tasks: len(l.seats), Asked: true}
	orphan := l.found && len(l.seats) == 0 // it was leaving when this Norn found it
	if orphan {
		e.Tasks = int(l.ask.pods)
	}
	switch code := l.worstCode(); {
	case l.lost != "":
		e.Cause, e.Error, e.Asked = live.Lost, l.lost, false
	case orphan && len(l.codes) < e.Tasks:
		e.Cause, e.Error, e.Asked = live.Lost, "nobody saw how all of its pods ended, for another norn leads now", false
	case len(l.codes) == 0 && l.began == 0: // nothing had begun
		e.Tasks = 0
	case len(l.codes) == 0:
		e.Killed, e.Error = true, "nobody saw how its pods ended"
	case code == 0: // had it done its work, its owner would say so
		e.Status.Code, e.Error = exitAgain, ""
	default:
		e.Status.Code, e.Killed = int(code), code == 137
	}
	if e.Killed && e.Status.Code == 0 {
		e.Status.Code = 137
	}
	if l.began > 0 {
		e.Lived = d.Loop.Now() - l.began
	}
	d.over(l, r, e)
}

// over carries out the verdict on the end of a run.
func (d looker) over(l *entry, r *job.Record, e *live.Exit) {
	again := l.anew
	d.quit(l)
	l.Exit = e
	if again { // it has been thrown off before, and has other devices by now
		l.Purpose, l.Why = "", ""
		d.launch(l, d.State().Alloc(l.ID))
		return
	}
	ending := live.Ending{
		Exit: *e, Phase: r.Phase, Stop: r.Job.Stop, Purpose: l.Purpose, Why: l.Why, Progress: r.ProgressAt(d.Loop.Now()), Saved: l.savedAt(r, d.Loop.Now()),
		Since: d.Loop.Now() - l.Decided, Failures: int(r.Failures), Counts: l.Counts,
	}
	if r.Phase == job.Waiting || r.Phase == job.Held { // it was thrown off at once, and this was only its leaving
		l.Purpose, l.Why = "", ""
		d.Loop.Later(func() error { return d.look(l.Key) })
		return
	}
	v := ending.Verdict(&d.opt.Patience)
	l.Counts = v.Counts
	d.carryOut(l, &v)
	l.Purpose = ""
	if v.Fate == live.Evicted && l.trouble != "" && v.Hold == "" {
		d.HoldUntil(&l.Job, d.Loop.Now()+backoff(l.failed), l.trouble)
		l.failed++
	}
}

// savedAt is the work that a job surely has kept: of one that is leaving, what it had when it
// was told to.
func (l *entry) savedAt(r *job.Record, now time.Duration) time.Duration {
	if r.Phase == job.Stopping {
		return min(r.Progress, l.saved)
	}
	return r.SavedAt(now)
}

// carryOut carries out a verdict.
func (d looker) carryOut(l *entry, v *live.Verdict) {
	switch v.Fate {
	case live.Evicted, live.Retried:
		why := job.Reason{Code: v.Reason, Job: job.None, Text: v.Why}
		if v.Reason == job.TakenBack {
			why.Need = int32(l.from)
		}
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Evict, Job: l.ID, Kept: v.Kept, Reason: why})
	case live.Relaunch:
		d.launch(l, d.State().Alloc(l.ID))
		d.Loop.Emit(eventlog.Event{Kind: eventlog.Progress, Job: l.ID, Kept: v.Kept})
	}
	live.CarryOut(d.Daemon.Daemon, &l.Job, v)
}
