package tokens

import (
	"container/heap"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Load is a request as a forecast sees it.
type Load struct {
	Request *Request
	Holds   int           // tokens of the pool, from its admission to its end
	Output  int           // tokens that it is believed to produce in all
	Began   time.Duration // it was admitted; of one that waits without meaning
}

// Pace is how fast a server is believed to be.
type Pace struct {
	First time.Duration // from the admission of a request to its first token
	Token time.Duration // from a token of a request to its next one
}

// Start is when a request is believed to be admitted.
type Start struct {
	ID       int
	Position int           // requests that are admitted before it
	At       time.Duration // since the run began
}

// Forecast is the future of a queue, to be played on. It shares nothing with what it was made of.
type Forecast struct {
	policy Policy
	now    time.Duration
	pace   Pace
	free   int // tokens of the pool; may be below 0
	batch  batch
	loads  map[*Request]Load // of those that wait
}

// Foresee copies a policy with its queue and the requests that are being served. pool is the tokens for which there is
// room in all. It changes nothing.
func Foresee(p Policy, now time.Duration, running, waiting []Load, pool int, pace Pace) *Forecast {
	f := &Forecast{now: now, pace: pace, free: pool, loads: make(map[*Request]Load, len(waiting))}
	byID := make(map[int]Load, len(waiting))
	for _, l := range waiting {
		byID[l.Request.ID] = l
	}
	f.policy = p.Copy(func(r *Request) *Request {
		own, l := *r, byID[r.ID]
		l.Request = &own
		f.loads[&own] = l
		return &own
	})
	for _, l := range running {
		own := *l.Request
		f.begin(Load{&own, l.Holds, l.Output, l.Began})
	}
	return f
}

// Starts tells when each request that waits would be admitted if nobody else came, in that order: the policy itself is
// played on, with the tokens that requests are believed to produce. The work grows with those tokens. It may be called
// once.
func (f *Forecast) Starts() []Start {
	var out []Start
	for all := len(f.loads); len(out) < all; {
		for r := f.policy.Next(f.now); r != nil; r = f.policy.Next(f.now) {
			l := f.loads[r]
			if l.Holds > f.free && len(f.batch) > 0 {
				break
			}
			f.policy.Admit(r)
			l.Began = f.now
			f.begin(l)
			out = append(out, Start{r.ID, len(out), f.now})
		}
		next := f.policy.Wake(f.now)
		if len(f.batch) > 0 {
			next = min(next, f.batch[0].ends)
		}
		if next >= unit.Never {
			break
		}
		f.pass(next)
	}
	return out
}

// stay is a request in the batch.
type stay struct {
	Load
	ends time.Duration
}

// batch is the requests that are served, the first to end on top.
type batch []*stay

func (b batch) Len() int { return len(b) }
func (b batch) Less(i, k int) bool {
	if b[i].ends != b[k].ends {
		return b[i].ends < b[k].ends
	}
	return b[i].Request.ID < b[k].Request.ID
}
func (b batch) Swap(i, k int) { b[i], b[k] = b[k], b[i] }
func (b *batch) Push(x any)   { *b = append(*b, x.(*stay)) }
func (b *batch) Pop() any {
	old := *b
	last := old[len(old)-1]
	*b = old[:len(old)-1]
	return last
}

// begin takes a request into the batch. One that has more tokens than was believed is about to end.
func (f *Forecast) begin(l Load) {
	f.free -= l.Holds
	ends := l.Began + f.pace.First + time.Duration(max(0, l.Output-1))*f.pace.Token
	heap.Push(&f.batch, &stay{l, max(ends, f.now+f.pace.Token)})
}

// pass charges what is produced until a moment, and lets those leave that have ended.
func (f *Forecast) pass(until time.Duration) {
	f.now = until
	for _, s := range f.batch {
		due := s.Output
		if since := until - s.Began - f.pace.First; s.ends > until && since < 0 {
			due = 0
		} else if s.ends > until && f.pace.Token > 0 {
			due = min(due, int(since/f.pace.Token)+1)
		}
		for s.Request.produced < due {
			f.policy.Token(s.Request)
		}
	}
	for len(f.batch) > 0 && f.batch[0].ends <= until {
		s := heap.Pop(&f.batch).(*stay)
		f.policy.Finish(s.Request)
		f.free += s.Holds
	}
}
