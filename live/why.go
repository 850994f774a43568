package live

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/eventlog/replay"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// maxNamed bounds the jobs that an explanation names.
const maxNamed = 10

// explainer is the daemon as it explains how jobs stand.
type explainer struct{ *Daemon }

// Why implements server.Backend.
func (d *Daemon) Why(ctx context.Context, c server.Caller, id string) (w api.Why, err error) {
	var f *forecast
	ended := false // and all that is known of it is in the file of the history
	err = d.Loop.Ask(ctx, func() error {
		jobs, err := d.Mine(c, id)
		if err != nil {
			if j := d.EndedJob(id); ValidID(id) && j != nil && (c.Operator || j.User == c.User) {
				w = explainer{d}.whyEnded(j)
				ended = !explainer{d}.buriedLife(&w)
				return nil
			}
			return err
		}
		w = explainer{d}.why(jobs[0])
		if w.Job.State == api.Waiting && !(explainer{d}).never(jobs[0]) {
			f = explainer{d}.forecast()
		}
		return nil
	})
	if ended && err == nil {
		err = d.journal.lifeOf(&w)
	}
	if err == nil && f != nil {
		err = f.expect(ctx, d.Loop.Clock.Wall, &w)
	}
	return w, err
}

// buriedLife fills in what is known of a job that has ended, and of which the history may not
// tell yet.
func (d explainer) buriedLife(w *api.Why) bool {
	for i := range d.buried {
		if e := &d.buried[i]; identityOf(&e.Job) == identityOf(&w.Job) {
			e.fill(w)
			return true
		}
	}
	return false
}

// never tells whether a job can never run here.
func (d explainer) never(l *Job) bool { return d.st.Record(l.ID).Reason.Never() }

// whyEnded explains a job that has ended.
func (d explainer) whyEnded(j *api.Job) api.Why {
	w := api.Why{Job: *j, Policy: d.choice.String()}
	w.Reason = fmt.Sprintf("is %s since %s", j.State, j.Ended.Local().Format("2006-01-02 15:04:05"))
	if j.Reason != "" {
		w.Reason += ": " + j.Reason
	}
	w.Stop = "nothing: it has ended"
	return w
}

func (d explainer) why(l *Job) api.Why {
	r := d.st.Record(l.ID)
	w := api.Why{Job: d.View(l), Policy: d.choice.String(), Life: append([]string(nil), l.Life...), Course: l.Course.tell(d.Loop.Clock.Wall), Losses: l.Losses.Points()}
	w.Reason, w.Memory = w.Job.Reason, perf.MemoryText(r.Job)
	if d.eng != nil { // with no room for a log there is none
		w.Beliefs = d.eng.Grounds(l.ID)
	}
	d.cfg.World.Explain(l, &w)
	switch r.Phase {
	case job.Running:
		w.Beside = d.beside(l)
		if w.Reason == "" {
			w.Reason = "runs since " + d.Loop.Clock.Wall(l.standsSince(r)).Local().Format("2006-01-02 15:04:05")
		}
	case job.Held:
		w.Frees = d.frees(l)
		w.Unknown = "it is held"
	case job.Waiting, job.Assigned, job.Stopping:
		d.whyWaits(l, r, &w)
	}
	return w
}

// beside says with whom a job shares its devices, and what is known of both.
func (d explainer) beside(l *Job) (out []string) {
	name := func(id job.ID) string { return "job " + d.jobs[id].Key }
	for _, m := range replay.Mates(d.st, l.ID, name) {
		if len(out) == maxNamed {
			return append(out, "and others")
		}
		a := d.st.Alloc(m.Job)
		text := name(m.Job) + " holds " + On(d.st, m.Job, d.cfg.Names)
		if t := ThrottleOf(a); t > 0 {
			text += fmt.Sprintf(", throttled by %v%%", float64(t)/10)
		}
		out = append(out, strings.Join(append([]string{text}, m.Grounds...), "; "))
	}
	return out
}

// frees says what would let a held job go on.
func (d explainer) frees(l *Job) []string {
	var out []string
	for _, a := range l.After {
		out = append(out, "the end of job "+a.Job)
	}
	if l.Until > d.Loop.Now() {
		out = append(out, "the time: it is tried again at "+d.Loop.Clock.Wall(l.Until).Local().Format(time.TimeOnly))
	}
	if d.st.Record(l.ID).Reason.Code == job.InTurn {
		return append(out, "the end of others of the same owner", "norn release "+l.Key+" by an operator")
	}
	return append(out, "norn release "+l.Key)
}

// whyWaits says what a waiting job waits for: who has what it could use, who
// goes ahead, and when it could start.
func (d explainer) whyWaits(l *Job, r *job.Record, w *api.Why) {
	v := sched.NewView(d.st, nil, false)
	v.Costs = d.costs
	var p sched.Plan
	p.Open(&v)
	defer p.Discard()
	if r.Phase == job.Waiting {
		never := p.Never(l.ID, place.Pack)
		if never.Code == job.NoReason && r.Reason.Never() { // the policy knows more
			never = r.Reason
		}
		if never.Code != job.NoReason {
			w.Reason, w.Unknown = d.sentence(never), "it can never run here"
			w.Frees = []string{"other hardware, or a smaller job"}
			switch never.Code {
			case job.OverLimit:
				w.Frees = []string{"a higher limit of its tenant, or a smaller job"}
			case job.Refused:
				w.Unknown, w.Frees = "it was refused", []string{"a later deadline or none: cancel it, and submit it anew"}
			}
			return
		}
		now, fits := p.Fits(l.ID, place.Pack)
		if why, frees := d.cfg.Closed(); why != "" {
			w.Unknown = why
			w.Frees = append(w.Frees, frees)
		}
		if !fits && (w.Reason == "" || r.Reason.Code == job.Outranked) {
			w.Reason = strings.TrimPrefix(w.Reason+"; "+d.sentence(now), "; ")
		}
	}
	d.whoHolds(l, r, w)
	n := 0
	for i := range d.st.Waiting(r.Pool).All() {
		if job.ID(i) < l.ID {
			if n++; n <= maxNamed {
				w.Ahead = append(w.Ahead, d.jobs[i].Key)
			}
		}
	}
	if n > maxNamed {
		w.Ahead = append(w.Ahead, fmt.Sprintf("and %d more", n-maxNamed))
	}
	if len(w.Frees) == 0 && len(w.Holders) > 0 {
		w.Frees = append(w.Frees, "the end of jobs that hold what it needs: "+w.Holders[0])
	}
}

// whoHolds lists the jobs that have devices which the job could use.
func (d explainer) whoHolds(l *Job, r *job.Record, w *api.Why) {
	for i := range d.st.Running(r.Pool).All() {
		id := job.ID(i)
		other, a := d.jobs[i], d.st.Alloc(id)
		if id == l.ID || len(a.Shares) == 0 && r.Job.Demand.GPUs() > 0 {
			continue
		}
		if len(w.Holders) == maxNamed {
			w.Holders = append(w.Holders, "and others")
			return
		}
		text := fmt.Sprintf("job %s holds %s", other.Key, On(d.st, id, d.cfg.Names))
		if end := d.View(other).ExpectEnd; !end.IsZero() {
			text += ", expected to end at " + end.Local().Format("2006-01-02 15:04:05")
		} else {
			text += ", and nobody knows until when"
		}
		w.Holders = append(w.Holders, text)
	}
}

// Plan implements server.Backend.
func (d *Daemon) Plan(ctx context.Context, c server.Caller, q api.WhatIf) (api.Plan, error) {
	switch {
	case !c.Operator:
		return api.Plan{}, api.Refuse(api.Denied, "a what-if tells of everybody's jobs: only an operator may ask for one")
	case d.cfg.Planner == nil:
		return api.Plan{}, api.Refuse(api.Unavailable, "this norn simulates nothing: use norn plan")
	}
	return d.cfg.Planner.Answer(ctx, c.User, q, func(w io.Writer) error { return explainer{d}.copyLog(ctx, w) })
}

// Log implements server.Backend.
func (d *Daemon) Log(ctx context.Context, c server.Caller, w io.Writer) error {
	if !c.Operator {
		return api.Refuse(api.Denied, "the event log tells of everybody's jobs: only an operator may read it")
	}
	return explainer{d}.copyLog(ctx, w)
}

// copyLog copies the logs, up to what is decided now.
func (d explainer) copyLog(ctx context.Context, w io.Writer) error {
	var last int
	var size int64
	err := d.Loop.Ask(ctx, func() error { // what was decided is in it, and it ends with a whole line
		last = d.epoch.N
		err := d.epoch.Sync()
		size = d.epoch.Bytes()
		return err
	})
	if err != nil {
		return err
	}
	return d.journal.Copy(w, last, size)
}
