package live

import (
	"context"
	"sync"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/server"
)

// Feed hands events to watchers. It may be used by any goroutine. The zero value is one
// without events.
type Feed struct {
	mu       sync.Mutex
	ring     []api.Event
	seq      int64 // of the last event
	watchers map[chan api.Event]server.Caller
}

// feedSize is how far back a watcher can go.
const feedSize = 4096

// Begin sets the numbers of events: they go on growing from one daemon to the
// next, and stay below what programs that know only floating-point numbers can
// tell apart.
func (f *Feed) Begin(epoch int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq = int64(epoch) * 1_000_000_000
}

// Last is the number of the last event.
func (f *Feed) Last() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seq
}

func may(c server.Caller, e *api.Event) bool { return c.Operator || e.User == "" || e.User == c.User }

// Publish tells an event. A watcher that does not keep up is sent away.
func (f *Feed) Publish(e api.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	e.Seq = f.seq
	if len(f.ring) == feedSize {
		copy(f.ring, f.ring[feedSize/4:])
		f.ring = f.ring[:feedSize-feedSize/4]
	}
	f.ring = append(f.ring, e)
	for ch, c := range f.watchers {
		if !may(c, &e) {
			continue
		}
		select {
		case ch <- e:
		default:
			delete(f.watchers, ch)
			close(ch)
		}
	}
}

// End sends all watchers away.
func (f *Feed) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.watchers {
		delete(f.watchers, ch)
		close(ch)
	}
}

// Len is how many events are kept.
func (f *Feed) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ring)
}

// Watch tells events from number since on, as far back as they are kept, until the context
// ends or the watcher is too slow; then the channel is closed.
func (f *Feed) Watch(ctx context.Context, c server.Caller, since int64) <-chan api.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan api.Event, feedSize+256)
	for i := range f.ring {
		if e := &f.ring[i]; e.Seq >= since && may(c, e) {
			ch <- *e
		}
	}
	if f.watchers == nil {
		f.watchers = map[chan api.Event]server.Caller{}
	}
	f.watchers[ch] = c
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, ok := f.watchers[ch]; ok {
			delete(f.watchers, ch)
			close(ch)
		}
	})
	return ch
}
