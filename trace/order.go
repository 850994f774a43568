package trace

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// lookAhead is how many entries of a file of unknown order are held before it
// is read a second time to learn its order.
const lookAhead = 1 << 15

// ordering brings the entries of a file into order of submission.
type ordering struct {
	chunks [][]Entry // held entries, in the order of the file
	order  []moment  // of them; nil: as they are held
	at, n  int       // next to give out, and how many there are
	stream bool      // more follow from the file
	last   time.Duration
}

// moment is when the entry with a number in the file was submitted.
type moment struct {
	at time.Duration
	n  int32
}

const chunkSize = 1 << 7

// slot makes room for one more entry.
func (o *ordering) slot() *Entry {
	if o.n%chunkSize == 0 && o.n/chunkSize == len(o.chunks) {
		o.chunks = append(o.chunks, make([]Entry, chunkSize))
	}
	o.n++
	return o.held(o.n - 1)
}

// hold keeps an entry.
func (o *ordering) hold(e *Entry) { *o.slot() = *e }

func (o *ordering) held(i int) *Entry { return &o.chunks[i/chunkSize][i%chunkSize] }

// inOrder tells whether the held entries are in order as they are.
func (o *ordering) inOrder() bool {
	for i := 1; i < o.n; i++ {
		if o.held(i).Job.Submit < o.held(i-1).Job.Submit {
			return false
		}
	}
	return true
}

// sort orders the held entries by submission, ties as they are held.
func (o *ordering) sort() {
	o.order = make([]moment, o.n)
	for i := range o.order {
		o.order[i] = moment{o.held(i).Job.Submit, int32(i)}
	}
	slices.SortFunc(o.order, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n))
	})
}

// next gives out the next entry in order.
func (o *ordering) next(r *Reader, e *Entry) error {
	if o.at < o.n {
		i := o.at
		if o.order != nil {
			i = int(o.order[i].n)
		}
		*e = *o.held(i)
		o.at++
		o.last = e.Job.Submit
		return nil
	}
	o.chunks, o.order = nil, nil
	if !o.stream {
		return io.EOF
	}
	if err := r.raw(e); err != nil {
		return err
	}
	if e.Job.Submit < o.last {
		return &Error{
			File: r.info.File, Line: r.line(), Column: "job " + e.Job.Key, Found: "a submission before that of the job ahead of it",
			Want: "order of submission, which format " + r.format.Name + " has; --sort (Options.Sort) brings any file into it",
		}
	}
	o.last = e.Job.Submit
	return nil
}

// prime reads up to the first job in order of submission and settles the clock.
func (r *Reader) prime() error {
	if err := r.arrange(); err != nil {
		return err
	}
	err := r.ordered.next(r, &r.ready)
	if errors.Is(err, io.EOF) {
		r.ready = Entry{}
		return nil
	}
	if err != nil {
		return err
	}
	return r.settleClock(r.ready.Job.Submit)
}

// arrange holds as much of the file as its order demands.
func (r *Reader) arrange() error {
	if r.format.Order == Sorted && !r.opt.Sort {
		r.ordered.stream = true
		return nil
	}
	all := r.format.Order == Unsorted || r.opt.Sort
	ended, err := r.holdUpTo(lookAhead)
	if err != nil {
		return err
	}
	if !ended && !all && r.ordered.inOrder() {
		if sorted, err := r.sortedFile(); err != nil {
			return err
		} else if sorted {
			r.ordered.stream = true
			return nil
		}
	}
	if !ended {
		if _, err := r.holdUpTo(maxHeld); err != nil {
			return err
		}
	}
	r.info.Held = true
	if !r.ordered.inOrder() {
		r.info.Sorted = true
		r.ordered.sort()
	}
	return nil
}

// maxHeld bounds what is sorted in memory: as many jobs as have numbers.
const maxHeld = 1<<31 - 1

// holdUpTo holds entries until there are n or the file ends.
func (r *Reader) holdUpTo(n int) (ended bool, err error) {
	for r.ordered.n < n {
		e := r.ordered.slot()
		err := r.raw(e)
		if err != nil {
			*e = Entry{}
			r.ordered.n--
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// sortedFile reads the file once more, on the side, to learn whether it is in
// order. A file that cannot be read twice counts as not in order, and is held.
func (r *Reader) sortedFile() (bool, error) {
	if r.reopen == nil {
		return false, nil
	}
	f, err := r.reopen()
	if err != nil {
		return false, err
	}
	side := &Reader{opt: r.opt, format: r.format, info: Info{File: r.info.File}, file: f}
	defer side.Close()
	if side.body, err = unpack(f); err != nil {
		return false, err
	}
	side.source, err = r.format.Decode(&Input{Name: r.info.File, Options: &side.opt, Body: side.body.Reader, info: &side.info, pool: &side.pool, clock: r.format.Clock})
	if err != nil {
		return false, err
	}
	var e Entry
	for last := time.Duration(0); ; last = e.Job.Submit {
		err := side.raw(&e)
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return false, err
		case e.Job.Submit < last:
			return false, nil
		}
	}
}

// aBillion seconds after its own zero no trace begins, so a larger first
// submission is a time since 1970 (September 2001 and later).
const aBillion = 1e9 * time.Second

// settleClock finds the zero of the trace, the first submission being known.
func (r *Reader) settleClock(first time.Duration) error {
	r.unix = r.format.Clock == Unix || r.format.Clock == Either && first >= aBillion
	if r.unix {
		r.zero = first
		r.info.Origin = time.Unix(0, int64(first)).UTC()
	}
	byDay := !r.opt.FromTime.IsZero() || !r.opt.ToTime.IsZero()
	if byDay && r.info.Origin.IsZero() {
		return errors.New("does not tell the time of day: choose a window by time since its beginning")
	}
	return nil
}

// verdict is what becomes of an entry.
type verdict uint8

const (
	take verdict = iota
	pass
	stop // this one and all that follow
)

// selects tells whether the caller asked for the entry.
func (r *Reader) selects(e *Entry) verdict {
	at := e.Job.Submit - r.zero
	if r.opt.To > 0 && at >= r.opt.To {
		return stop
	}
	if at < r.opt.From {
		return pass
	}
	if !r.opt.FromTime.IsZero() || !r.opt.ToTime.IsZero() {
		day := r.dayZero().Add(at)
		if !r.opt.ToTime.IsZero() && !day.Before(r.opt.ToTime) {
			return stop
		}
		if day.Before(r.opt.FromTime) {
			return pass
		}
	}
	if r.tenants != nil && !r.tenants[e.Job.Tenant] || r.opt.GPUJobs && e.Job.Demand.GPUs() == 0 {
		return pass
	}
	return take
}

// dayZero is the time of day at the zero of the file.
func (r *Reader) dayZero() time.Time {
	if r.unix {
		return time.Unix(0, int64(r.zero)).UTC()
	}
	return r.info.Origin.Add(-r.shift)
}

// give puts the entry on the clock of what is given out and numbers it.
func (r *Reader) give(e *Entry) {
	j := &e.Job
	if r.info.Jobs == 0 && (r.unix || r.opt.Rebase) {
		r.shift = j.Submit - r.zero
		if !r.info.Origin.IsZero() {
			r.info.Origin = r.info.Origin.Add(r.shift)
		}
	}
	before := j.Submit
	j.Submit -= r.zero + r.shift
	if r.opt.Load > 0 && r.opt.Load != 1 {
		j.Submit = scaled(j.Submit, 1/r.opt.Load)
		e.Truth.Wait, e.Truth.HasWait = 0, false // which was with jobs that came as they came
	}
	r.move(&j.Deadline, before, j.Submit)
	if j.Hints != nil && j.Hints.Worth[0].By > 0 {
		h := *j.Hints
		for i := range h.Worth {
			r.move(&h.Worth[i].By, before, j.Submit)
		}
		j.Hints = &h
	}
	j.ID = job.ID(r.info.Jobs)
	r.info.Jobs++
}

// move keeps a moment as far from the submission as it was.
func (r *Reader) move(at *time.Duration, before, after time.Duration) {
	if *at > 0 && before != after {
		*at = max(1, *at-before+after)
	}
}

// scaled multiplies a time, without overflow.
func scaled(d time.Duration, by float64) time.Duration {
	v := float64(d)*by + 0.5
	if v >= float64(unit.Never/2) {
		return unit.Never / 2
	}
	return time.Duration(v)
}
