package replay

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/policy/param"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
)

// Life is the life of one job, as a log tells it.
type Life struct {
	Job    *job.Job
	Record *job.Record // at the end of the log
	End    time.Duration
	Origin time.Time // time of day at zero; zero: not known
	Torn   bool      // the log breaks off at End
	Steps  []Step

	Company []Company // with whom it shared devices, the longest first
	Sharing Company   // with whomsoever: For is 0 when it had its devices for itself all the time

	Beliefs []string // what was believed of it at the end, and from what that was learnt; see Believed

	state *state.State // at the end of the log
}

// Believed notes what a believer makes of the measurements in the log. It must have observed
// nothing.
func (l *Life) Believed(of perf.Believer) {
	for _, m := range l.state.Readings.All() {
		of.Observe(l.state.Record(m.Job).Job, m.Reading)
	}
	if t, ok := of.(perf.Telling); ok && len(l.state.Readings.All()) > 0 {
		l.Beliefs = t.Grounds(l.Job)
	}
}

// Step is one thing that happened to the job.
type Step struct {
	At   time.Duration
	What string
	More []string // what stood in its way, when it would have fitted

	routine routine // what happens again and again while a job runs, of which the last of a row is told
	times   int     // how often it has happened in that row
}

// routine is a kind of things that happen again and again while a job runs, such as saving. That a
// job trains with another batch is of another kind. Its zero value is no such kind.
type routine struct {
	kind  eventlog.Kind
	batch int32
}

// routineOf is what kind of routine an event is.
func routineOf(ev *eventlog.Event) routine {
	switch {
	case ev.Kind == eventlog.Saved && ev.Every == 0:
		return routine{kind: ev.Kind}
	case ev.Kind == eventlog.Config:
		return routine{ev.Kind, ev.Reported.Batch}
	}
	return routine{}
}

// add adds a step. Of a row of routine the last of each kind is kept, with how often it happened.
func (f *follower) add(s Step) {
	none := routine{}
	if s.times = 1; s.routine != none {
		for i := len(f.steps) - 1; i >= 0 && f.steps[i].routine != none; i-- {
			if was := &f.steps[i]; was.routine == s.routine {
				s.times += was.times
				f.steps = slices.Delete(f.steps, i, i+1)
				break
			}
		}
	}
	if s.times > 1 {
		s.What += fmt.Sprintf(" (%d times)", s.times)
	}
	f.steps = append(f.steps, s)
}

// Explain folds a log and follows one job, named by its key or, with a # before
// it, by its number; of several with one key, the first. Of several logs one
// behind the other it tells the whole life. A log that breaks off is told as far
// as it goes. Explain fails when the log has no such job, and
// then says which come near.
func Explain(r *eventlog.Reader, name string) (*Life, error) {
	f := &follower{name: name, number: job.None, id: job.None}
	if n, ok := strings.CutPrefix(name, "#"); ok {
		if id, err := strconv.ParseUint(n, 10, 31); err == nil {
			f.number = job.ID(id)
		}
	}
	s, parts, err := FoldParts(r, f)
	torn := errors.Is(err, eventlog.ErrTorn)
	if err != nil && !torn {
		return nil, err
	}
	if f.id == job.None {
		return nil, noJob(s, r.Name(), name)
	}
	rec := s.Record(f.id)
	l := &Life{Job: rec.Job, Record: rec, End: s.Now, Origin: r.Header.Origin, Torn: torn, Steps: f.steps, state: s}
	l.Company, l.Sharing = f.company.all(s)
	l.gaps(parts)
	return l, nil
}

// gaps tells among the steps where a log breaks off before the next one goes on.
func (l *Life) gaps(parts []Part) {
	for i := range parts {
		if parts[i].Torn == nil || parts[i].To < l.Job.Submit || l.Record.Phase.Over() && l.Record.End <= parts[i].To {
			continue
		}
		behind := 0
		for behind < len(l.Steps) && l.Steps[behind].At <= parts[i].To {
			behind++
		}
		l.Steps = slices.Insert(l.Steps, behind, Step{At: parts[i].To, What: "the log breaks off, and another one goes on"})
	}
}

// noJob says that there is no such job, and which names come near.
func noJob(s *state.State, log, name string) error {
	var keys []string
	for id := range job.ID(s.Jobs()) {
		if s.Record(id).Past {
			continue
		}
		j := s.Record(id).Job
		if j.Name == name && j.Key != name {
			return fmt.Errorf("%s has no job %s; one of that name is job %s", log, name, j.Key)
		}
		keys = append(keys, j.Key)
	}
	return fmt.Errorf("%s has no job %s among its %d%s", log, name, len(keys), param.Near(name, keys))
}

func names(s *state.State) func(job.ID) string {
	return func(id job.ID) string {
		if !s.Known(id) {
			return fmt.Sprintf("#%d", id)
		}
		return s.Record(id).Job.Key
	}
}

// follower is the sink that notes the steps of one job.
type follower struct {
	name   string
	number job.ID // that name means; job.None: it is a key
	id     job.ID
	steps  []Step
	plan   sched.Plan

	company company
	had     cluster.Alloc // of the job before the event
}

// Event implements engine.Sink.
func (f *follower) Event(ev *eventlog.Event, s *state.State) {
	if (ev.Kind == eventlog.Submit || ev.Kind == eventlog.Carry) && f.id == job.None && (ev.Spec.Key == f.name || f.number >= 0 && ev.Job == f.number) {
		f.id = ev.Job
	}
	f.company.event(ev, s, f.id)
	if f.id != job.None && ev.Kind == eventlog.Start && ev.Job != f.id && common(s.Alloc(ev.Job), s.Alloc(f.id)) {
		f.steps = append(f.steps, Step{At: ev.Time, What: names(s)(ev.Job) + " comes to share " + Where(s, s.Alloc(ev.Job)) + " with it", More: f.grounds(s, ev.Job, ev.Job)})
	}
	if ev.Job != f.id || f.id == job.None {
		return
	}
	what := f.what(ev, s)
	if a := s.Alloc(f.id); a != nil {
		f.had.CopyFrom(a)
	}
	if what == "" {
		return
	}
	step := Step{At: ev.Time, What: what, routine: routineOf(ev)}
	if ev.Kind == eventlog.Wait && s.Record(f.id).Phase == job.Waiting && !ev.Reason.Never() {
		step.More = f.standing(s, ev.Reason.Code)
	}
	if ev.Kind == eventlog.Submit || ev.Kind == eventlog.Carry {
		if text := perf.MemoryText(s.Record(f.id).Job); text != "" {
			step.More = append(step.More, text)
		}
	}
	if ev.Kind == eventlog.Start && !ev.Profile {
		step.More = f.grounds(s, f.id, job.None)
	}
	f.add(step)
}

// grounds says why a job that starts shares devices with others, or of these with one
// alone: whether it could have had some for itself, and what was known of the jobs.
func (f *follower) grounds(s *state.State, starts, one job.ID) []string {
	if len(mates(s, starts)) == 0 {
		return nil
	}
	r, name := s.Record(starts), names(s)
	who, has := "it", r.Milli.String()
	if starts != f.id {
		who = name(starts)
	}
	if r.Milli == 0 {
		has = "none, as a guest in the gaps of the others"
	}
	free := unit.Count(s.Cluster.FreeGPUs(r.Pool, s.Class(r.Class).Mask), "GPU")
	out := []string{fmt.Sprintf("%s asks for %s and holds %s; %s left free", who, r.Job.Demand, has, free)}
	for _, m := range Mates(s, f.id, name) {
		if len(m.Grounds) > 0 && (one == job.None || one == m.Job) && len(out) <= shown {
			out = append(out, "beside "+name(m.Job)+": "+strings.Join(m.Grounds, "; "))
		}
	}
	return out
}

// what says an event in words; empty for those that a reader need not know.
func (f *follower) what(ev *eventlog.Event, s *state.State) string {
	r, name := s.Record(f.id), names(s)
	switch ev.Kind {
	case eventlog.Submit:
		return "submitted" + deadline(r.Job, s.Now)
	case eventlog.Carry:
		return "goes on from an earlier log: " + f.carried(s, r)
	case eventlog.Wait:
		if r.Phase == job.Running || r.Phase == job.Stopping {
			return "is to leave its devices: " + f.sentence(ev.Reason, s.Now, name)
		}
		return "waits: " + strings.TrimPrefix(f.sentence(ev.Reason, s.Now, name), "waits ")
	case eventlog.Assign:
		return "is given " + Where(s, s.Alloc(f.id)) + ", and waits for those who are still leaving it"
	case eventlog.Merge:
		return ev.How.Sentence(name(ev.With))
	case eventlog.Start:
		if ev.Profile {
			return "is measured on " + Where(s, s.Alloc(f.id)) + delayed(ev.Delay)
		}
		return "starts on " + Where(s, s.Alloc(f.id)) + beside(s, f.id) + f.after(r) + delayed(ev.Delay) + paced(ev.Speed)
	case eventlog.Preempt:
		text := "is stopped: " + ev.Reason.Sentence(name)
		if !ev.AtOnce {
			text += "; it is still leaving its GPUs"
		}
		return text + kept(r)
	case eventlog.Gone:
		return "has left its GPUs"
	case eventlog.Evict, eventlog.Fail:
		return "is thrown back: " + ev.Reason.Sentence(name) + kept(r)
	case eventlog.Hold:
		if ev.Reason.Code == job.NoReason || ev.Reason.Code == job.OnHold && ev.Reason.Text == "" {
			return "is put on hold"
		}
		return "is put on hold: " + ev.Reason.Sentence(name)
	case eventlog.Free:
		return "is free to run again"
	case eventlog.Move:
		if f.had.SamePlaces(s.Alloc(f.id)) {
			return "stays, and has " + Where(s, s.Alloc(f.id)) + beside(s, f.id) + f.resources(s) + paced(ev.Speed)
		}
		return f.goesOn("moves to ", ev, s, name)
	case eventlog.Resize:
		return f.goesOn("is resized to "+unit.Count(int(r.Tasks), "task")+", on ", ev, s, name)
	case eventlog.Config:
		return eventlog.TrainsWith + ev.Reported.String()
	case eventlog.Saved:
		return ev.SavedText()
	case eventlog.Speed:
		return fmt.Sprintf("runs at %.3g times its reference speed", ev.Speed) + beside(s, f.id)
	case eventlog.Estimate:
		if ev.Estimate < 0 {
			return "is no longer estimated"
		}
		if ev.Reason.Text != "" {
			return "is estimated to run for " + unit.Human(ev.Estimate) + ": " + ev.Reason.Text
		}
		return "is estimated to run for " + unit.Human(ev.Estimate)
	case eventlog.Measured:
		return MeasuredText(ev.Measured)
	case eventlog.Cancel:
		return "is cancelled"
	case eventlog.End:
		return "ends: " + ev.Outcome.String() + punctual(r) + attained(r, ev.Time)
	}
	return ""
}

// goesOn says that the job goes on with other devices, and why.
func (f *follower) goesOn(how string, ev *eventlog.Event, s *state.State, name func(job.ID) string) string {
	text := how + Where(s, s.Alloc(f.id)) + delayed(ev.Delay) + paced(ev.Speed)
	if ev.Reason.Code != job.NoReason {
		text += ": " + ev.Reason.Sentence(name)
	}
	return text
}

// deadline says by when a job is to end; empty without a deadline.
func deadline(j *job.Job, now time.Duration) string {
	if j.Deadline == 0 {
		return ""
	}
	text := ", to end within " + unit.Human(j.Deadline-now)
	if j.Soft {
		text += " (soft)"
	}
	return text
}

// punctual says whether a job that has ended did so in time; empty without a deadline.
func punctual(r *job.Record) string {
	switch late := r.End - r.Job.Deadline; {
	case r.Job.Deadline == 0:
		return ""
	case late > 0:
		return ", " + unit.Human(late) + " after its deadline"
	default:
		return ", " + unit.Human(-late) + " before its deadline"
	}
}

// attained says what a job that has ended had of what its tier is promised; empty for one that is
// promised nothing.
func attained(r *job.Record, now time.Duration) string {
	if text := r.FractionText(now); text != "" {
		return ", with " + text
	}
	return ""
}

// sentence says a reason. Where it tells of a moment to come, that is said as the
// time until then, for the days of a long run would hide the minutes.
func (f *follower) sentence(r job.Reason, now time.Duration, name func(job.ID) string) string {
	if r.At == unit.Never || r.At <= now {
		return r.Sentence(name)
	}
	in := unit.Human(r.At - now)
	switch {
	case r.Promises():
		r.At = 0
		return r.Sentence(name) + "; expected to fit in " + in
	case r.Code == job.Reserved:
		return "would delay job " + name(r.Job) + ", which is to start in " + in
	case r.Code == job.NotYet:
		return "the next decision is in " + in
	}
	return r.Sentence(name)
}

// resources says how much CPU and memory a job has now, if that has changed.
func (f *follower) resources(s *state.State) string {
	was, now := amounts(&f.had), amounts(s.Alloc(f.id))
	if was == now {
		return ""
	}
	return fmt.Sprintf(", with %v CPUs and %v of memory instead of %v and %v", now.CPU, now.Memory, was.CPU, was.Memory)
}

// amounts is the CPU and memory of all pieces.
func amounts(a *cluster.Alloc) (sum cluster.Piece) {
	for i := range a.Pieces {
		sum.CPU += a.Pieces[i].CPU
		sum.Memory += a.Pieces[i].Memory
	}
	return sum
}

// after says how long a job that starts had waited.
func (f *follower) after(r *job.Record) string {
	for i := len(f.steps) - 1; i >= 0; i-- {
		if w := f.steps[i].What; strings.HasPrefix(w, "submitted") || strings.HasPrefix(w, "is stopped") || strings.HasPrefix(w, "is thrown") || strings.HasPrefix(w, "has left") {
			if waited := r.Since - f.steps[i].At; waited > 0 {
				return ", after " + unit.Human(waited)
			}
			return ", at once"
		}
	}
	return ""
}

func delayed(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return ", makes progress after " + unit.Human(d)
}

func paced(speed float64) string {
	if speed == 1 {
		return ""
	}
	return fmt.Sprintf(", at %.3g times its reference speed", speed)
}

func kept(r *job.Record) string {
	if r.Progress == 0 {
		return "; none of its work is kept"
	}
	return fmt.Sprintf("; it keeps %s of work", unit.Human(r.Progress))
}

// standing says what stands in the way of a waiting job: who has the GPUs,
// and when it would fit if they ended as estimated and nobody went ahead.
// Where the policy insists on GPUs of one node or one rack, so does the answer.
func (f *follower) standing(s *state.State, why job.ReasonCode) []string {
	view := sched.NewView(s, nil, false)
	view.Costs = &perf.Costs{}
	f.plan.Open(&view)
	defer f.plan.Discard()
	r := s.Record(f.id)
	class := s.Class(r.Class)
	free := s.Cluster.FreeGPUs(r.Pool, class.Mask)
	out := []string{fmt.Sprintf("it asks for %s; %s free, %s waiting", r.Job.Demand, unit.Count(free, "GPU"), unit.Count(s.Waiting(r.Pool).Len(), "job"))}
	if text := due(s, r); text != "" {
		out = append(out, text)
	}
	where, so := insisted(why)
	at, _, ok := f.plan.Expect(f.id, where)
	switch {
	case !ok:
		return append(out, "when it would fit"+so+" is not known, because run times are not estimated")
	case at <= s.Now:
		return append(out, "it would fit"+so+" now: others go first")
	}
	return append(out, fmt.Sprintf("nobody going ahead, it would fit%s in %s, when %s", so, unit.Human(at-s.Now), f.holders(s, r, at)))
}

// insisted is the placement that a reason tells of, and how to say so.
func insisted(why job.ReasonCode) (place.Strategy, string) {
	switch why {
	case job.NeedOneNode, job.NeedWholeNode:
		return place.Consolidated, " so"
	case job.NeedRack:
		return place.Rack, " so"
	}
	return place.Pack, ""
}

// holders names the jobs that must end by a moment for the job to fit, the
// largest first.
func (f *follower) holders(s *state.State, r *job.Record, by time.Duration) string {
	view := sched.NewView(s, nil, false)
	var ids []job.ID
	for i := range s.Running(r.Pool).All() {
		if end, ok := view.Job(job.ID(i)).ExpectedEnd(); ok && end <= by {
			ids = append(ids, job.ID(i))
		}
	}
	slices.SortStableFunc(ids, func(a, b job.ID) int { return int(s.Record(b).Milli - s.Record(a).Milli) })
	var parts []string
	for _, id := range ids[:min(3, len(ids))] {
		gpus := "GPUs"
		if s.Record(id).Milli == unit.One {
			gpus = "GPU"
		}
		parts = append(parts, fmt.Sprintf("%s (%v %s)", s.Record(id).Job.Key, s.Record(id).Milli, gpus))
	}
	if more := len(ids) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	switch len(parts) {
	case 0:
		return "those that run have ended"
	case 1:
		return "job " + parts[0] + " has ended"
	}
	return "jobs " + strings.Join(parts, ", ") + " have ended"
}

// Where says where devices are, for a reader: n3[0-3], n4[1].
func Where(s *state.State, a *cluster.Alloc) string {
	if a == nil {
		return "nothing"
	}
	var parts []string
	shares := a.Shares
	for i := range a.Pieces {
		p := &a.Pieces[i]
		first, _ := s.Cluster.DeviceRange(p.Node)
		node := s.Cluster.Node(p.Node).Name
		if len(parts) == 8 {
			parts = append(parts, fmt.Sprintf("%d more nodes", len(a.Pieces)-8))
			break
		}
		if p.Shares == 0 {
			parts = append(parts, node)
			continue
		}
		parts = append(parts, node+"["+devices(shares[:p.Shares], first)+"]")
		shares = shares[p.Shares:]
	}
	if a.Beat.Period > 0 {
		parts = append(parts, fmt.Sprintf("an iteration every %v, shifted by %v", a.Beat.Period, a.Beat.Shift))
	}
	return strings.Join(parts, ", ")
}

// devices writes device indices with ranges, and what is taken of each where
// it is not one whole device.
func devices(shares []cluster.Share, first cluster.DeviceID) string {
	var parts []string
	for i := 0; i < len(shares); i++ {
		from := i
		for i+1 < len(shares) && shares[i+1].Device == shares[i].Device+1 && shares[i+1].Milli == shares[i].Milli && shares[i+1].Throttle == shares[i].Throttle && shares[i+1].Batch == shares[i].Batch {
			i++
		}
		text := fmt.Sprint(shares[from].Device - first)
		if i > from {
			text += fmt.Sprintf("-%d", shares[i].Device-first)
		}
		if shares[i].Milli != 1000 {
			text += " x " + unit.Milli(shares[i].Milli).String()
		}
		if t := shares[i].Throttle; t > 0 {
			text += fmt.Sprintf(" throttled by %v", unit.Milli(t))
		}
		if b := shares[i].Batch; b > 0 {
			text += fmt.Sprintf(" with batches of %d", b)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ",")
}

// Write tells the life of the job to a reader.
func (l *Life) Write(w io.Writer) error {
	r := l.Record
	fmt.Fprintf(w, "Job %s", l.Job.Key)
	for _, part := range []struct{ what, value string }{{"", l.Job.Name}, {"of tenant ", l.Job.Tenant}, {"by user ", l.Job.User}, {"model ", l.Job.Model}} {
		if part.value != "" && part.value != l.Job.Key {
			fmt.Fprintf(w, ", %s%s", part.what, part.value)
		}
	}
	fmt.Fprintf(w, ": %s", l.Job.Demand)
	if r.Estimate >= 0 {
		fmt.Fprintf(w, ", estimated to run for %s", unit.Human(r.Estimate))
	}
	fmt.Fprint(w, "\n\n")
	for _, s := range l.Steps {
		at := l.clock(s.At)
		fmt.Fprintf(w, "%s  %s\n", at, s.What)
		for _, more := range s.More {
			fmt.Fprintf(w, "%*s    %s\n", len(at), "", more)
		}
	}
	if l.Torn {
		fmt.Fprintf(w, "%s  the log breaks off\n", l.clock(l.End))
	}
	for i, text := range l.Beliefs {
		if i == 0 {
			fmt.Fprint(w, "\nBelieved of it at the end, from what was measured:\n")
		}
		fmt.Fprintf(w, "  %s\n", text)
	}
	jct := l.End - l.Job.Submit
	state := "is " + r.Phase.String() + " at the end of the log, "
	if r.Phase.Over() {
		jct, state = r.End-l.Job.Submit, ""
	}
	_, err := fmt.Fprintf(w, "\n%s%s after its submission: %s without GPUs, %s with; %s, %s, %.3g GPU-hours held, %.3g of them lost\n",
		state, unit.Human(jct), unit.Human(r.WaitAt(l.End)), unit.Human(r.AllocatedAt(min(l.End, l.last()))),
		unit.Count(int(r.Starts), "start"), unit.Count(int(r.Preemptions), "preemption"), r.ServiceAt(l.last())/3600, r.Lost/3600)
	if err == nil {
		_, err = io.WriteString(w, l.shared())
	}
	return err
}

// clock is a moment for a reader: the time of day where it is known, and the
// time since the start of the run otherwise.
func (l *Life) clock(at time.Duration) string {
	if !l.Origin.IsZero() {
		return l.Origin.Add(at).Format("2006-01-02 15:04:05")
	}
	days, rest := at/(24*time.Hour), at%(24*time.Hour)
	text := fmt.Sprintf("%02d:%02d:%02d", int(rest.Hours()), int(rest.Minutes())%60, int(rest.Seconds())%60)
	if l.End >= 24*time.Hour {
		text = fmt.Sprintf("%*dd ", len(strconv.Itoa(int(l.End/(24*time.Hour)))), days) + text
	}
	return text
}

// last is the last moment of the job that the log knows.
func (l *Life) last() time.Duration {
	if l.Record.Phase.Over() {
		return l.Record.End
	}
	return l.End
}

// LifeJSON is the life of a job for other programs; times are in seconds.
type LifeJSON struct {
	Job         string     `json:"job"`
	Tenant      string     `json:"tenant,omitempty"`
	GPUs        int        `json:"gpus"`
	State       string     `json:"state"`
	SubmitS     float64    `json:"submit_s"`
	WaitS       float64    `json:"wait_s"`
	RunS        float64    `json:"run_s"`
	Starts      int        `json:"starts"`
	Preemptions int        `json:"preemptions"`
	Torn        bool       `json:"torn,omitempty"` // the log breaks off
	Steps       []StepJSON `json:"steps"`
	Beliefs     []string   `json:"beliefs,omitempty"` // what was believed of it at the end, and from what that was learnt

	Company []CompanyJSON `json:"company,omitempty"` // with whom it shared devices, the longest first
}

// CompanyJSON is what it came to that a job shared devices with another one. Speeds
// are relative to the reference; those alone are missing where they are not known.
type CompanyJSON struct {
	With       string  `json:"with"`
	ForS       float64 `json:"for_s"`
	Speed      float64 `json:"speed"`
	Alone      float64 `json:"speed_alone,omitempty"`
	OtherSpeed float64 `json:"other_speed"`
	OtherAlone float64 `json:"other_speed_alone,omitempty"`
}

// StepJSON is one step of a LifeJSON.
type StepJSON struct {
	AtS  float64  `json:"at_s"`
	What string   `json:"what"`
	More []string `json:"more,omitempty"`
}

// JSON is the life as other programs read it.
func (l *Life) JSON() LifeJSON {
	r := l.Record
	out := LifeJSON{
		Job: l.Job.Key, Tenant: l.Job.Tenant, GPUs: l.Job.Demand.GPUs(), State: r.Phase.String(),
		SubmitS: l.Job.Submit.Seconds(), WaitS: r.WaitAt(l.last()).Seconds(), RunS: r.AllocatedAt(l.last()).Seconds(),
		Starts: int(r.Starts), Preemptions: int(r.Preemptions), Torn: l.Torn, Beliefs: l.Beliefs,
	}
	for _, s := range l.Steps {
		out.Steps = append(out.Steps, StepJSON{s.At.Seconds(), s.What, s.More})
	}
	for _, c := range l.Company {
		out.Company = append(out.Company, CompanyJSON{c.With, c.For.Seconds(), c.Speed[0], c.Alone[0], c.Speed[1], c.Alone[1]})
	}
	return out
}

// carried says how a job stands that was taken over from an earlier log.
func (f *follower) carried(s *state.State, r *job.Record) string {
	text := r.Phase.String()
	if a := s.Alloc(f.id); a != nil {
		text += " on " + Where(s, a)
	}
	if r.Starts > 0 {
		text += fmt.Sprintf(", started %s before, %s of work done", unit.Count(int(r.Starts), "time"), unit.Human(r.ProgressAt(s.Now)))
	}
	if r.Phase == job.Waiting && r.Reason.Code != job.NoReason {
		text += ": " + strings.TrimPrefix(f.sentence(r.Reason, s.Now, names(s)), "waits ")
	}
	return text
}
