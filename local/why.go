package local

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/replay"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/server"
	"github.com/norn-scheduler/norn/unit"
)

func human(d time.Duration) string { return unit.Human(d) }

func milli(v float64) unit.Milli { return unit.Milli(v*1000 + 0.5) }

// maxNamed bounds the jobs that an explanation names.
const maxNamed = 10

// Why implements server.Backend.
func (d *Daemon) Why(ctx context.Context, c server.Caller, id string) (w api.Why, err error) {
	var f *forecast
	err = d.loop.Ask(ctx, func() error {
		jobs, err := d.mine(c, id)
		if err != nil {
			if j := d.endedJob(id); validID(id) && j != nil && (c.Operator || j.User == c.User) {
				w = d.whyEnded(j)
				return nil
			}
			return err
		}
		w = d.why(jobs[0])
		if w.Job.State == api.Waiting && !d.never(jobs[0]) {
			f = d.forecastOf(jobs[0].key)
		}
		return nil
	})
	if err == nil && f != nil {
		err = f.expect(ctx, d.loop.Clock.Wall, &w)
	}
	return w, err
}

// never tells whether a job can never run here.
func (d *Daemon) never(l *liveJob) bool { return d.st.Record(l.id).Reason.Never() }

// whyEnded explains a job that has ended.
func (d *Daemon) whyEnded(j *api.Job) api.Why {
	w := api.Why{Job: *j, Policy: d.choice.String()}
	w.Reason = fmt.Sprintf("is %s since %s", j.State, j.Ended.Local().Format("2006-01-02 15:04:05"))
	if j.Reason != "" {
		w.Reason += ": " + j.Reason
	}
	w.Stop = "nothing: it has ended"
	return w
}

func (d *Daemon) why(l *liveJob) api.Why {
	r := d.st.Record(l.id)
	w := api.Why{Job: d.view(l), Policy: d.choice.String(), Life: append([]string(nil), l.life...), Stop: d.stopText(l, r)}
	w.Reason = w.Job.Reason
	if l.stage.there() {
		w.Isolation = l.status.Isolation
	}
	switch r.Phase {
	case job.Running:
		w.Beside = d.beside(l)
		if w.Reason == "" {
			w.Reason = "runs since " + d.loop.Clock.Wall(l.standsSince(r)).Local().Format("2006-01-02 15:04:05")
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
func (d *Daemon) beside(l *liveJob) (out []string) {
	name := func(id job.ID) string { return "job " + d.jobs[id].key }
	for _, m := range replay.Mates(d.st, l.id, name) {
		if len(out) == maxNamed {
			return append(out, "and others")
		}
		a := d.st.Alloc(m.Job)
		text := name(m.Job) + " holds " + live.On(d.st, m.Job, d.opt.Machine.name)
		if t := live.ThrottleOf(a); t > 0 {
			text += fmt.Sprintf(", throttled by %v%%", float64(t)/10)
		}
		out = append(out, strings.Join(append([]string{text}, m.Grounds...), "; "))
	}
	return out
}

// frees says what would let a held job go on.
func (d *Daemon) frees(l *liveJob) []string {
	var out []string
	for _, a := range l.after {
		out = append(out, "the end of job "+a.Job)
	}
	if l.until > d.loop.Now() {
		out = append(out, "the time: it is tried again at "+d.loop.Clock.Wall(l.until).Local().Format(time.TimeOnly))
	}
	return append(out, "norn release "+l.key)
}

// whyWaits says what a waiting job waits for: who holds what it could use, who
// goes ahead, and when it could start.
func (d *Daemon) whyWaits(l *liveJob, r *job.Record, w *api.Why) {
	v := sched.NewView(d.st, nil, false)
	v.Costs = &d.costs
	var p sched.Plan
	p.Open(&v)
	defer p.Discard()
	if r.Phase == job.Waiting {
		never := p.Never(l.id, place.Pack)
		if never.Code == job.NoReason && r.Reason.Never() { // the policy knows more
			never = r.Reason
		}
		if never.Code != job.NoReason {
			w.Reason, w.Unknown = d.sentence(never), "it can never run here"
			w.Frees = []string{"other hardware, or a smaller job"}
			if never.Code == job.OverLimit {
				w.Frees = []string{"a higher limit of its tenant, or a smaller job"}
			}
			return
		}
		now, fits := p.Fits(l.id, place.Pack)
		if d.st.Cluster.Health(0) != cluster.Up {
			w.Unknown = "the machine takes no new work: " + d.health.note()
			w.Frees = append(w.Frees, "norn undrain")
		}
		if !fits && (w.Reason == "" || r.Reason.Code == job.Outranked) {
			w.Reason = strings.TrimPrefix(w.Reason+"; "+d.sentence(now), "; ")
		}
	}
	d.whoHolds(l, r, w)
	n := 0
	for i := range d.st.Waiting(r.Pool).All() {
		if job.ID(i) < l.id {
			if n++; n <= maxNamed {
				w.Ahead = append(w.Ahead, d.jobs[i].key)
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

// whoHolds lists the jobs that hold devices which the job could use.
func (d *Daemon) whoHolds(l *liveJob, r *job.Record, w *api.Why) {
	for i := range d.st.Running(r.Pool).All() {
		id := job.ID(i)
		other, a := d.jobs[i], d.st.Alloc(id)
		if id == l.id || len(a.Shares) == 0 && r.Job.Demand.GPUs() > 0 {
			continue
		}
		if len(w.Holders) == maxNamed {
			w.Holders = append(w.Holders, "and others")
			return
		}
		text := fmt.Sprintf("job %s holds %s", other.key, live.On(d.st, id, d.opt.Machine.name))
		if end := d.view(other).ExpectEnd; !end.IsZero() {
			text += ", expected to end at " + end.Local().Format("2006-01-02 15:04:05")
		} else {
			text += ", and nobody knows until when"
		}
		w.Holders = append(w.Holders, text)
	}
}

// stopText says what happens when a job is preempted, and what it would cost now.
func (d *Daemon) stopText(l *liveJob, r *job.Record) string {
	done := r.ProgressAt(max(d.loop.Now(), d.st.Now))
	grace := human(l.stored.Spec.Stop.Grace.Duration())
	switch r.Job.Stop {
	case job.Checkpoint:
		how := "is told by SIG" + l.stored.Spec.Stop.Signal
		switch {
		case l.stored.Spec.Stop.CRIU:
			how = "is saved by CRIU"
		case len(l.stored.Spec.Stop.Command) > 0:
			how = "is told by its own command"
		}
		text := fmt.Sprintf("checkpoint: it %s, has %s to save its state, and goes on from there later", how, grace)
		if mean := d.costs.Base.Checkpoint.Round(time.Millisecond); mean > 0 {
			text += fmt.Sprintf("; checkpoints have taken %s on average", human(mean))
		}
		return text
	case job.Freeze:
		return "freeze: it is stopped in memory and goes on where it was, on the same devices; nothing is lost"
	case job.Restart:
		return fmt.Sprintf("restart: it is ended and begins anew; now that would cost %s of work", human(done.Round(time.Second)))
	}
	return "never: it is not preempted"
}

// Log implements server.Backend.
func (d *Daemon) Log(ctx context.Context, c server.Caller, w io.Writer) error {
	if !c.Operator {
		return api.Refuse(api.Denied, "the event log tells of everybody's jobs: only an operator may read it")
	}
	var last int
	var size int64
	err := d.loop.Ask(ctx, func() error { // what was decided is in it, and it ends with a whole line
		last = d.epoch.N
		err := d.epoch.Sync()
		size = d.epoch.Bytes()
		return err
	})
	if err != nil {
		return err
	}
	return d.store.Copy(w, last, size)
}
