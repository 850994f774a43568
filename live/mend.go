package live

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// A daemon that starts holds the log, the history, and the folders of jobs and
// runs against each other. Each of them was made durable before anything was
// done, so that they agree unless something was lost, cut off or changed behind
// the daemon's back. The history tells who has ended. As long as the log is
// whole it tells who has not: a job of which nothing but a folder tells was
// never taken in. Where the log lacks something, the folders tell, and the jobs
// are put back. Files that make no sense are set aside. All of that is
// reported: see Findings.

// Remains is what the folders of a world tell of a job, whatever its log says.
type Remains struct {
	Spec      job.Job // without its number in a log, and without the moment of its submission
	Submitted time.Time
	Held      bool // by its user when it was submitted
	After     bool // it waits for others
	Launches  int  // of it that the folders know of
	// Phase is how it stands by its last run: waiting without one, held by Held and After.
	Phase job.Phase
	// On is what its last run was launched on, or of one that is frozen where its memory
	// is; nil: that is not known, or nothing.
	On       *cluster.Alloc
	Began    time.Time     // its last run; zero: it has not, or that is not known
	Progress time.Duration // the work that is known to be kept
}

// Findings are what was found wrong with what the daemon keeps, since it was started.
func (d *Daemon) Findings() []api.Finding { return slices.Clone(d.findings) }

// Note notes that something was found wrong, and what was done about it; nothing: it
// stays as it is.
func (d *Daemon) Note(f api.Finding) {
	d.findings = append(d.findings, f)
	d.Tell(f)
}

// Tell logs what was found wrong.
func (d *Daemon) Tell(f api.Finding) {
	d.log.Warn("something is wrong with what norn keeps", "file", f.File, "job", f.Job, "found", f.Text, "done", cmp.Or(f.Done, "nothing"))
}

// passed notes that a job has had a number.
func (p *past) passed(key string) {
	if n, err := strconv.ParseInt(BaseOf(key), 10, 64); err == nil {
		p.next = max(p.next, n+1)
	}
}

// nextNumber is a number that no job has had.
func (p *past) nextNumber() int64 { return max(p.next, nextIn(p.header), p.mark.Next) }

// readLog reads the last log of which anything can be read. Those behind it are set aside.
func (d recovery) readLog(old *past) (err error) {
	old.restart()
	if old.mark, err = d.journal.readMark(); errors.Is(err, errDamaged) {
		d.Note(api.Finding{File: "events/mark", Text: "it is damaged, so that nobody can tell whether the log is as long as it was", Done: "it is written anew"})
	} else if err != nil {
		return err
	}
	old.newest = old.mark.Log
	for _, n := range slices.Backward(old.epochs) {
		old.newest = max(old.newest, n)
		f, err := d.journal.Fold(n, old.restart)
		if err != nil {
			return fmt.Errorf("the event log of the last run: %w", err)
		}
		if f.State == nil {
			old.lacks = true
			d.Note(api.Finding{File: logName(n), Text: "the log cannot be read: " + f.Wrong.Error(), Done: "it is set aside"})
			old.mends = append(old.mends, func() error { return d.journal.setLogAside(n) })
			continue
		}
		old.log, old.header, d.st = n, f.Header, f.State
		d.judgeLog(old, &f)
		break
	}
	if old.log < old.mark.Log && !old.lacks {
		old.lacks = true
		d.Note(api.Finding{File: logName(old.mark.Log), Text: "the log is gone", Done: "the state is put back from the folders of jobs"})
	}
	return nil
}

// judgeLog notes what a log lacks, and has it end where it is no longer as it was written.
func (d recovery) judgeLog(old *past, f *Folded) {
	n := old.log
	if f.Wrong != nil {
		good, torn := f.Good, f.Torn()
		old.mends = append(old.mends, func() error { return d.journal.CutOff(n, good, torn) })
		if !torn {
			old.lacks = true
			d.Note(api.Finding{File: logName(n), Text: f.Wrong.Error(), Done: fmt.Sprintf("the log is set aside and ends after %d bytes; the state is put back from the folders of jobs", good)})
			return
		}
	}
	if n == old.mark.Log && f.Good < old.mark.Bytes {
		old.lacks = true
		d.Note(api.Finding{File: logName(n), Text: fmt.Sprintf("the log has %d bytes and had %d", f.Good, old.mark.Bytes), Done: "the state is put back from the folders of jobs"})
	}
}

// logName is what a log is called in what is told of it.
func logName(n int) string { return fmt.Sprintf("events/%06d.log", n) }

// readHistory takes in who has ended.
func (d recovery) readHistory(old *past) error {
	asked := map[string]bool{} // of whom something else tells
	for _, base := range old.folders {
		asked[base] = true
		old.passed(base)
	}
	for i := range d.jobsOf() {
		asked[BaseOf(d.st.Record(i).Job.Key)] = true
	}
	if d.Loop.Clock = NewClock(time.Now(), 0); old.header != nil {
		d.Loop.Clock = NewClock(old.header.Origin, d.st.Now)
	}
	var damaged []int
	var err error
	d.Tally.Ended, damaged, err = d.journal.Load(&d.recent, func(e *Ended) {
		old.passed(e.Job.ID)
		old.newest = max(old.newest, e.Log)
		if asked[BaseOf(e.Job.ID)] {
			old.ended[e.Job.ID] = e.Job.State
		}
		d.observe(&e.Job)
	})
	if err != nil {
		return err
	}
	if len(damaged) > 0 {
		d.Note(api.Finding{File: "history.jsonl", Text: fmt.Sprintf("%s damaged", linesText(damaged)), Done: "set aside; what the log and the folders know of those jobs is written again"})
		old.mends = append(old.mends, d.journal.SetAsideLines)
	}
	return nil
}

// linesText names lines.
func linesText(at []int) string {
	if len(at) == 1 {
		return fmt.Sprintf("line %d is", at[0])
	}
	return fmt.Sprintf("%d lines, the first of them line %d, are", len(at), at[0])
}

// jobsOf are the numbers of the jobs that the state knows.
func (d recovery) jobsOf() job.ID {
	if d.st == nil {
		return 0
	}
	return job.ID(d.st.Jobs())
}

// begunWithout makes an empty state where there is no log that could be read.
func (d recovery) begunWithout(old *past) error {
	tenants, err := d.cfg.Tenants()
	if err != nil {
		return err
	}
	c, err := d.cfg.Cluster()
	if err != nil {
		return err
	}
	origin := time.Now()
	for _, base := range old.folders {
		all, _ := d.cfg.Remains(base) // who cannot be made sense of is told of later
		for i := range all {
			if at := all[i].Submitted; !at.IsZero() && at.Before(origin) {
				origin = at
			}
		}
	}
	old.lacks = true
	old.header = &eventlog.Header{Origin: origin, Policy: d.choice.Policy, Settings: d.choice.Settings}
	d.st = state.New(c, tenants)
	d.st.Now = time.Since(origin)
	if old.mark.Log == 0 && len(old.epochs) == 0 { // else that was told
		d.Note(api.Finding{File: "events", Text: "there is no log", Done: "the state is put back from the folders of jobs"})
	}
	return nil
}

// hold holds what the log says against the history and the folders.
func (d recovery) hold(old *past) error {
	m := mending{recovery: d, old: old, known: map[string]bool{}, at: map[string]int{}}
	m.events = eventlog.Carried(d.st, mostPast)
	for i := range m.events {
		key := m.events[i].Spec.Key
		m.at[key] = i
		m.known[key], m.known[BaseOf(key)] = true, true
		if m.events[i].Kind == eventlog.Past {
			m.past++
		}
	}
	for i := range job.ID(d.st.Jobs()) { // those that ended too long ago to be carried
		m.known[d.st.Record(i).Job.Key], m.known[BaseOf(d.st.Record(i).Job.Key)] = true, true
	}
	for key := range old.ended {
		m.known[key], m.known[BaseOf(key)] = true, true
	}
	m.haveEnded()
	for _, base := range old.folders {
		m.folder(base)
	}
	if !m.changed {
		return nil
	}
	return m.remake()
}

// mending makes the state of the daemon before this one again, with what its log lacks.
type mending struct {
	recovery
	old     *past
	events  []eventlog.Event // that make it
	at      map[string]int   // the place of each job in events
	past    int32            // those among them that have ended
	known   map[string]bool  // keys and bases of jobs of which log or history tell
	changed bool
}

// haveEnded has those leave of whom the history knows that they have.
func (m *mending) haveEnded() {
	for i := range m.events {
		ev := &m.events[i]
		if over := m.old.ended[ev.Spec.Key]; over.Over() && ev.Kind == eventlog.Carry {
			m.over(ev, phaseOf(over))
			m.Note(api.Finding{File: logName(m.old.log), Job: ev.Spec.Key, Text: "the log does not tell that it has ended", Done: "it is " + string(over) + ", as the history says"})
		}
	}
}

// phaseOf is the phase of a job that has ended.
func phaseOf(s api.State) job.Phase {
	switch s {
	case api.Done:
		return job.Done
	case api.Cancelled:
		return job.Cancelled
	}
	return job.FailedPhase
}

// over makes of a job that goes on one that has ended.
func (m *mending) over(ev *eventlog.Event, phase job.Phase) {
	m.changed = true
	ev.Kind, ev.Alloc, ev.Frozen, ev.Left = eventlog.Past, nil, false, m.past
	m.past++
	ev.Record.Phase, ev.Record.End, ev.Record.Since, ev.Record.Placed, ev.Reason = phase, m.st.Now, m.st.Now, 0, job.Reason{Job: job.None}
}

// folder holds the folders of one submission against what is known of it.
func (m *mending) folder(base string) {
	if !m.old.lacks && m.known[base] {
		return
	}
	all, err := m.cfg.Remains(base)
	switch {
	case m.known[base] && err != nil:
		return // what is known of it is told when it is looked at
	case err != nil:
		m.setAside(base, fmt.Sprintf("nothing is known of job %s but folders that cannot be made sense of: %v", base, err))
		return
	}
	if m.old.lacks {
		for i := range all {
			m.job(&all[i])
		}
		return
	}
	m.stranger(base, all)
}

// stranger deals with a submission of which a whole log does not tell: it had ended, and
// the history has lost it, or it was never taken in.
func (m *mending) stranger(base string, all []Remains) {
	ran := slices.ContainsFunc(all, func(r Remains) bool { return r.Launches > 0 })
	n, _ := strconv.ParseInt(base, 10, 64)
	switch {
	case ran:
		for i := range all {
			if r := &all[i]; r.Launches > 0 {
				if !r.Phase.Over() {
					r.Phase = job.Cancelled
				}
				m.job(r)
			}
		}
	case n >= m.old.header.Next: // nobody was told that it was taken in
		m.old.mends = append(m.old.mends, func() error { return m.cfg.SetAside(base) })
	default:
		m.setAside(base, fmt.Sprintf("nothing tells of job %s but its description: it was never taken in, or was cancelled before it ran", base))
	}
}

func (m *mending) setAside(base, why string) {
	m.Note(api.Finding{File: "jobs/" + base, Job: base, Text: why, Done: "it is set aside"})
	m.old.mends = append(m.old.mends, func() error { return m.cfg.SetAside(base) })
}

// job has a job stand as its folders say, where they know more than the log.
func (m *mending) job(r *Remains) {
	key := r.Spec.Key
	if m.old.ended[key].Over() {
		return
	}
	at, known := m.at[key]
	switch {
	case known && m.events[at].Kind == eventlog.Past:
		return
	case known && launched(m.events[at].Record) >= r.Launches:
		return // what has become of its run is found out as ever
	case !known:
		at = m.add(r)
		m.Note(api.Finding{File: "jobs/" + BaseOf(key), Job: key, Text: "the log has lost it", Done: "it is put back: it is " + r.stands()})
	default:
		m.Note(api.Finding{File: logName(m.old.log), Job: key, Text: fmt.Sprintf("the log does not tell of its run %d", r.Launches), Done: "it is " + r.stands() + ", as its folders say"})
	}
	m.stand(&m.events[at], r)
}

// stands says how a job stands.
func (r *Remains) stands() string {
	if r.Phase == job.Waiting && (r.Held || r.After) {
		return job.Held.String()
	}
	return r.Phase.String()
}

// launched counts the launches of which a record tells.
func launched(r *job.Record) int { return int(r.Starts + r.Resizes + r.Migrations) }

// add makes a job known that the log has lost.
func (m *mending) add(r *Remains) int {
	spec := r.Spec
	spec.ID, spec.Serial = job.ID(len(m.events)), serial(spec.Key)
	spec.Submit = max(0, min(m.st.Now, r.Submitted.Sub(m.old.header.Origin)))
	record := new(job.Record)
	record.Submit(&spec, m.st.Now)
	ev := eventlog.Event{Time: m.st.Now, Kind: eventlog.Carry, Job: spec.ID, Spec: &spec, Record: record, Estimate: -1, Reason: job.Reason{Job: job.None}}
	if m.cfg.Estimator != nil {
		if est, ok := m.cfg.Estimator.Estimate(&spec); ok {
			ev.Estimate = est
		}
	}
	m.events = append(m.events, ev)
	m.at[spec.Key] = len(m.events) - 1
	return len(m.events) - 1
}

// stand has a job stand as its folders say.
func (m *mending) stand(ev *eventlog.Event, r *Remains) {
	m.changed = true
	k := ev.Record
	k.Starts = int32(r.Launches) - k.Resizes - k.Migrations
	k.Progress = max(k.Progress, r.Progress)
	began := m.st.Now
	if !r.Began.IsZero() {
		began = max(0, min(m.st.Now, r.Began.Sub(m.old.header.Origin)))
	}
	if r.Launches > 0 && k.FirstStart < 0 {
		k.FirstStart = began
	}
	ev.Alloc, ev.Reason = nil, job.Reason{Job: job.None}
	k.Phase, k.Since, k.Placed = r.Phase, m.st.Now, 0
	switch {
	case r.Phase.Over():
		k.AllocatedTime += m.st.Now - began // at most: nobody knows when it ended
		m.over(ev, r.Phase)
	case r.Phase == job.Running || r.Phase == job.Stopping:
		k.Since, k.Ready, k.Speed = began, began, 1
		if r.Phase == job.Running {
			ev.Alloc = r.On
		}
		if r.On != nil {
			k.Tasks, k.Milli = int32(r.On.Tasks(0)), m.st.Cluster.GPUMilli(r.On)
		}
	case r.Held:
		k.Phase, ev.Reason = job.Held, job.Reason{Code: job.OnHold, Job: job.None}
	case r.After:
		k.Phase, ev.Reason = job.Held, job.Reason{Code: job.AfterJob, Job: job.None, Text: waitsFor}
	default:
		ev.Alloc = r.On // where its memory is, if it is frozen
	}
}

// remake makes the state anew.
func (m *mending) remake() error {
	was := m.st
	c := was.Cluster // the machine as it was: see Config.Refit
	if c.Nodes() == 0 {
		var err error
		if c, err = m.cfg.Cluster(); err != nil {
			return err
		}
	}
	var h eventlog.Header
	h.Describe(c, was.Tenants)
	h.Usage = Usage(was, was.Tenants)
	fresh, tenants, err := h.Build()
	if err != nil {
		return err
	}
	st := state.New(fresh, tenants)
	for _, ev := range Inventory(c, was.Now) {
		if err := engine.Apply(st, &ev); err != nil {
			return err
		}
	}
	for i := range m.events {
		if err := m.apply(st, &m.events[i]); err != nil {
			return fmt.Errorf("putting job %s back: %w", m.events[i].Spec.Key, err)
		}
	}
	for _, ev := range eventlog.Lessons(was, m.events) {
		if err := engine.Apply(st, &ev); err != nil {
			return err
		}
	}
	m.old.renumber(was, st)
	m.st = st
	m.Daemon.st = st
	return nil
}

// apply makes a job known. One whose devices others have by now waits.
func (m *mending) apply(st *state.State, ev *eventlog.Event) error {
	if a := ev.Alloc; a != nil && ev.Kind == eventlog.Carry {
		can := st.Cluster.Valid
		if ev.Record.Phase.HasDevices() {
			can = func(a *cluster.Alloc) error { return state.CanAllocate(st, a) }
		}
		if can(a) != nil {
			ev.Alloc = nil
		}
	}
	if ev.Alloc == nil && ev.Record.Phase.HasDevices() {
		m.Note(api.Finding{Job: ev.Spec.Key, Text: "nobody knows what it runs on, or others hold that", Done: "it is told to leave, and waits again"})
		ev.Record.Phase = job.Waiting
		m.old.strays = append(m.old.strays, ev.Spec.Key)
	}
	return engine.Apply(st, ev)
}

// renumber gives what was noted of jobs their new numbers.
func (p *past) renumber(was, now *state.State) {
	numbers := map[string]job.ID{}
	for i := range job.ID(now.Jobs()) {
		numbers[now.Record(i).Job.Key] = i
	}
	texts, where, wants := p.texts, p.where, p.wants
	next := p.next
	p.restart()
	p.next = next
	for i := range job.ID(was.Jobs()) {
		id, known := numbers[was.Record(i).Job.Key]
		if !known || now.Record(id).Phase.Over() {
			continue
		}
		if t := texts[i]; t != nil {
			p.texts[id] = t
		}
		if w := where[i]; w != nil {
			p.where[id] = w
		}
		if w, wanted := wants[i]; wanted {
			p.wants[id] = w
		}
	}
}
