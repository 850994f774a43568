package live

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
)

// outlook is the forecast for all who wait. It is made when somebody asks, once for
// everybody, and told for a while, so that any number of pages costs as much as one.
type outlook struct {
	mu    sync.Mutex
	last  *starts
	until time.Time     // for how long it is told
	under chan struct{} // closed when the next one is made; nil: nobody makes it
}

// starts are the waiting jobs that start first, in the order in which they do.
type starts struct {
	api.Forecast
	users []string // of each
	err   error
}

// Bounds on a forecast for all, and how long it is told: this long, or so many times
// as long as it took.
const (
	mostForetold = 200
	foretellFor  = 3 * time.Second
	toldFor      = 2 * time.Second
	toldTimes    = 10
)

// Forecast implements server.Backend.
func (d *Daemon) Forecast(ctx context.Context, c server.Caller) (api.Forecast, error) {
	s, err := d.outlook.get(ctx, func() *starts { return explainer{d}.foretell() })
	if err == nil {
		err = s.err
	}
	if err != nil {
		return api.Forecast{}, err
	}
	out := s.Forecast
	out.Starts = []api.Start{}
	for i, user := range s.users {
		if c.Operator || user == c.User {
			out.Starts = append(out.Starts, s.Starts[i])
		}
	}
	return out, nil
}

// get is the present forecast, for which the first who needs it has it made.
func (o *outlook) get(ctx context.Context, play func() *starts) (*starts, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.last == nil || time.Now().After(o.until) {
		if o.under == nil {
			done := make(chan struct{})
			o.under = done
			go func() {
				began := time.Now()
				s := play()
				o.mu.Lock()
				defer o.mu.Unlock()
				o.last, o.under = s, nil
				o.until = time.Now().Add(max(toldFor, toldTimes*time.Since(began)))
				close(done)
			}()
		}
		under := o.under
		o.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
			o.mu.Lock()
			return nil, ctx.Err()
		}
		o.mu.Lock()
	}
	return o.last, nil
}

// foretell plays on from the present state until enough jobs have begun. A policy that fails
// in this fails nothing else.
func (d explainer) foretell() (out *starts) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("a forecast failed", "policy", out.Policy, "panic", p, "stack", string(debug.Stack()))
			out = &starts{err: api.Refuse(api.Unavailable, "the forecast failed; norn's log says more")}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), foretellFor)
	defer cancel()
	var f *forecast
	users := map[string]string{}
	out = new(starts)
	out.err = d.Loop.Ask(ctx, func() error {
		f = d.forecast()
		for l := range d.All() {
			users[l.Key] = l.User
		}
		out.At, out.Policy = d.Loop.Clock.Wall(f.now), d.choice.String()
		return nil
	})
	switch {
	case errors.Is(out.err, context.DeadlineExceeded):
		out.err = api.Refuse(api.Unavailable, "norn is busy with a decision: try again")
		return out
	case out.err != nil:
		return out
	}
	out.Whole, out.err = f.play(ctx, func(key string, at time.Duration) {
		out.Starts = append(out.Starts, api.Start{Job: key, At: d.Loop.Clock.Wall(at)})
		out.users = append(out.users, users[key])
	}, func() bool { return len(out.Starts) < mostForetold })
	if ctx.Err() != nil {
		out.err = nil // what there is of it is told
	}
	return out
}
