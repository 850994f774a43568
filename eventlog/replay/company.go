package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/state"
)

// Company is what it came to that a job shared devices with another one.
type Company struct {
	With  string        // its key
	For   time.Duration // how long both made progress side by side
	Speed [2]float64    // mean speeds of the job and of the other one meanwhile
	Alone [2]float64    // their speeds when they had their devices for themselves; 0: they never had
}

// company follows with whom a job shares devices, and how fast all of them are.
type company struct {
	id    job.ID
	alone map[job.ID]float64 // of every job: its speed when it last had its devices for itself
	mates []job.ID           // of the job, now
	since time.Duration      // when one of them came or went, or a speed changed
	speed []float64          // of the job, then of its mates, since then
	with  map[job.ID]*Company
	whole Company // with whomsoever
}

// event follows one event, once it is folded in.
func (c *company) event(ev *eventlog.Event, s *state.State, id job.ID) {
	if !s.Known(ev.Job) {
		return
	}
	if c.alone == nil {
		c.alone, c.with = map[job.ID]float64{}, map[job.ID]*Company{}
	}
	a := s.Alloc(ev.Job)
	if r := s.Record(ev.Job); r.Phase == job.Running && !r.Profiling && a != nil && !slices.ContainsFunc(a.Shares, func(x cluster.Share) bool { return x.Throttle > 0 || s.Cluster.Sharers(x.Device) > 1 }) {
		c.alone[ev.Job] = r.Speed
	}
	if c.id = id; id != job.None && (ev.Job == id || slices.Contains(c.mates, ev.Job) || common(a, s.Alloc(id))) {
		c.look(s)
	}
}

// common tells whether both have something of one device.
func common(a, b *cluster.Alloc) bool {
	return a != nil && b != nil && overlap(a.Shares, b.Shares)
}

// overlap tells whether shares are of a device of others.
func overlap(a, b []cluster.Share) bool {
	return slices.ContainsFunc(a, func(x cluster.Share) bool {
		return slices.ContainsFunc(b, func(y cluster.Share) bool { return x.Device == y.Device })
	})
}

// look adds up what has been, and sees who is there now.
func (c *company) look(s *state.State) {
	c.close(s.Now)
	c.mates, c.speed = c.mates[:0], c.speed[:0]
	r := s.Record(c.id)
	if r.Phase != job.Running || r.Profiling {
		return
	}
	c.since = max(s.Now, r.Ready)
	c.speed = append(c.speed, r.Speed)
	for i := range s.Running(r.Pool).All() {
		if o := s.Record(job.ID(i)); job.ID(i) != c.id && o.Phase == job.Running && !o.Profiling && common(s.Alloc(c.id), s.Alloc(job.ID(i))) {
			c.mates, c.speed = append(c.mates, job.ID(i)), append(c.speed, o.Speed)
			c.since = max(c.since, o.Ready)
		}
	}
}

// close adds up the time since the last look.
func (c *company) close(now time.Duration) {
	d := now - c.since
	if len(c.mates) == 0 || d <= 0 {
		return
	}
	for i, id := range c.mates {
		if c.with[id] == nil {
			c.with[id] = &Company{}
		}
		c.with[id].add(d, c.speed[0], c.speed[i+1])
	}
	c.whole.add(d, c.speed[0], 0)
}

func (c *Company) add(d time.Duration, speeds ...float64) {
	for i, s := range speeds {
		c.Speed[i] += s * d.Seconds() // a mean once all is known
	}
	c.For += d
}

// all is with whom the job shared, the longest first, and in all.
func (c *company) all(s *state.State) (with []Company, whole Company) {
	c.close(s.Now)
	c.mates = c.mates[:0]
	for id, w := range c.with {
		w.With, w.Alone = s.Record(id).Job.Key, [2]float64{c.alone[c.id], c.alone[id]}
		with = append(with, w.mean())
	}
	slices.SortFunc(with, func(a, b Company) int { return cmp.Or(cmp.Compare(b.For, a.For), strings.Compare(a.With, b.With)) })
	c.whole.Alone[0] = c.alone[c.id]
	return with, c.whole.mean()
}

func (c Company) mean() Company {
	if c.For > 0 {
		c.Speed[0], c.Speed[1] = c.Speed[0]/c.For.Seconds(), c.Speed[1]/c.For.Seconds()
	}
	return c
}

// cost says what a job paid while it was not alone.
func (c *Company) cost() string {
	if c.Alone[0] <= 0 {
		return fmt.Sprintf("it shared its GPUs for %s, at %.3g times its reference speed; it never had them for itself\n", unit.Human(c.For), c.Speed[0])
	}
	part := c.Speed[0] / c.Alone[0]
	text := fmt.Sprintf("it shared its GPUs for %s, at %.3g times its speed alone", unit.Human(c.For), part)
	if lost := time.Duration(float64(c.For) * (1 - part)); lost >= time.Second {
		text += ", which took it " + unit.Human(lost) + " longer"
	}
	return text + "\n"
}

// sentence says what sharing with one other did to both.
func (c *Company) sentence() string {
	return fmt.Sprintf("  beside %s for %s: %s, and %s %s\n", c.With, unit.Human(c.For), against(c.Speed[0], c.Alone[0]), c.With, against(c.Speed[1], c.Alone[1]))
}

func against(speed, alone float64) string {
	if alone <= 0 {
		return fmt.Sprintf("at %.3g times its reference speed", speed)
	}
	return fmt.Sprintf("at %.3g times its speed alone", speed/alone)
}

// shared says with whom a job shared its devices, and what it cost each.
func (l *Life) shared() string {
	if l.Sharing.For <= 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString(l.Sharing.cost())
	for i := range l.Company {
		if i == shown {
			fmt.Fprintf(&out, "  and beside %d more\n", len(l.Company)-i)
			break
		}
		out.WriteString(l.Company[i].sentence())
	}
	return out.String()
}
