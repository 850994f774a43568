package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
)

const (
	silence   = time.Minute // without a sign of life, after which a stream of events is given up
	firstWait = 100 * time.Millisecond
	lastWait  = 5 * time.Second
	maxEvent  = 1 << 20 // bytes of one event
)

// Watch tells events from number since on, as far back as they are kept, until
// the context ends or each returns an error, which is returned. A stream that
// breaks off, as when the daemon is started anew, is taken up again behind the
// last event that was told. Watch returns an error at once where Norn refuses,
// and where it cannot be reached the first time.
func (c *Client) Watch(ctx context.Context, since int64, each func(api.Event) error) error {
	w := watch{c: c, next: since, each: each}
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		told := w.told
		err := w.once(ctx)
		var refused *api.Error
		var mine *callerError
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &mine):
			return mine.error
		case errors.As(err, &refused) && refused.Kind != api.Unavailable, !w.reached:
			return err
		}
		if w.told != told {
			wait = firstWait
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// watch is the state of a Watch from one connection to the next.
type watch struct {
	c       *Client
	next    int64 // number of the event that is to be told
	told    int64 // how many were
	reached bool  // Norn answered once
	each    func(api.Event) error
}

// callerError is an error of the function that is told of events.
type callerError struct{ error }

// once reads one stream of events to its end.
func (w *watch) once(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	header := http.Header{"Accept": {"text/event-stream"}}
	path := "/v1/events?since=" + strconv.FormatInt(w.next, 10)
	if w.told > 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(w.next-1, 10))
	}
	quiet := time.AfterFunc(silence, func() { stop(fmt.Errorf("%s is silent", w.c.where)) })
	defer quiet.Stop()
	body, err := w.c.open(ctx, http.MethodGet, path, nil, header)
	if err != nil {
		return err
	}
	defer body.Close()
	w.reached = true
	return w.read(body, func() { quiet.Reset(silence) })
}

// read takes events from a stream, as the standard for server-sent events has
// them, and calls alive at each line.
func (w *watch) read(r io.Reader, alive func()) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	var data []string
	for lines.Scan() {
		alive()
		line := lines.Text()
		if line != "" {
			if text, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(text, " "))
			}
			continue
		}
		if data == nil {
			continue
		}
		var e api.Event
		if err := json.Unmarshal([]byte(strings.Join(data, "\n")), &e); err != nil {
			return fmt.Errorf("%s tells an event that cannot be read: %w", w.c.where, err)
		}
		data = nil
		if err := w.each(e); err != nil {
			return &callerError{err}
		}
		w.told, w.next = w.told+1, e.Seq+1
	}
	return lines.Err()
}
