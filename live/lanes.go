package live

import "context"

// Lane keeps the acts for one job in order. The zero value is one in which nothing is to
// be done.
type Lane struct {
	last chan struct{} // closed when the last act is done
}

// Wait waits until all acts are done that were noted in the lane up to now.
func (l Lane) Wait(ctx context.Context) error {
	if l.last == nil {
		return nil
	}
	select {
	case <-l.last:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Act has something done once what led to it is durable, in a goroutine of its own:
// behind all that is still to be done in its lane, if it has one. Lanes do not wait for
// each other.
func (l *Loop) Act(lane *Lane, f func()) { l.Then(lane, func() func() { return f }) }

// Then is Act for what depends on how things stand once the present instant is decided:
// prepare is called in the goroutine of the loop when that is durable, and returns what is
// to be done.
func (l *Loop) Then(lane *Lane, prepare func() func()) {
	var before, done chan struct{}
	if lane != nil {
		before, done = lane.last, make(chan struct{})
		lane.last = done
	}
	l.acts = append(l.acts, func() {
		f := prepare()
		l.Go(func() {
			if done != nil {
				defer close(done)
			}
			if before != nil {
				<-before
			}
			f()
		})
	})
}
