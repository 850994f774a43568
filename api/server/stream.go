package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/norn-scheduler/norn/api"
)

// stream is the output of a route that writes its answer bit by bit.
type stream struct{ Body func(huma.Context) }

// streamed makes the answer of a function that writes it. An error before the
// first byte is an answer of its own; after it the connection is broken off, so
// that nobody takes a part for the whole.
func (s *Server) streamed(ctx context.Context, media string, write func(*answer) error) *stream {
	q := requestOf(ctx)
	return &stream{func(huma.Context) {
		q.out.Header().Set("Content-Type", media)
		err := write(q.out)
		if err == nil {
			return
		}
		if q.out.sent {
			q.log.Debug("an answer is broken off", "error", err)
			panic(http.ErrAbortHandler)
		}
		var p *huma.ErrorModel
		if errors.As(s.refuse(ctx, err), &p) {
			q.out.problem(p.Status, p.Detail)
		}
	}}
}

type logsInput struct {
	OfJob
	Run    int  `query:"run" minimum:"0" doc:"Number of the run, from 1; 0: the last one."`
	Tail   int  `query:"tail" minimum:"-1" default:"-1" doc:"So many last lines; -1: all that is kept."`
	Follow bool `query:"follow" doc:"Go on until the run is over."`
}

type eventsInput struct {
	Since int64  `query:"since" minimum:"0" doc:"Number of the first event that is wanted, as far back as events are kept."`
	Last  string `header:"Last-Event-ID" doc:"Number of the last event that was received; goes before since."`
}

// streamRoutes are those that answer bit by bit.
func (s *Server) streamRoutes() {
	out := func(media, what string) map[string]*huma.Response {
		return map[string]*huma.Response{"200": {Description: what, Content: textContent(media)}}
	}
	register(s, huma.Operation{
		OperationID: "logs", Method: http.MethodGet, Path: "/v1/jobs/{id}/logs", Tags: []string{tagJobs},
		Summary: "What a run of a job wrote", Responses: out("text/plain", "Both outputs of all tasks, as they were written."),
		Description: "An answer that ends early, as when the daemon stops, is broken off without its last chunk.",
	}, func(ctx context.Context, c Caller, in *logsInput) (*stream, error) {
		o, err := s.Backend.Output(ctx, c, in.ID, in.Run)
		if err != nil {
			return nil, err
		}
		return s.streamed(ctx, "text/plain; charset=utf-8", func(w *answer) error {
			defer o.Close()
			return s.copyOutput(ctx, w, o, in)
		}), nil
	})
	register(s, huma.Operation{
		OperationID: "log", Method: http.MethodGet, Path: "/v1/log", Tags: []string{tagDaemon},
		Summary: "Copy the event log", Responses: out("application/octet-stream", "Whole logs, one behind the other, oldest first."),
		Description: "For operators.",
	}, func(ctx context.Context, c Caller, _ *nothing) (*stream, error) {
		if err := operator(c, "the event log"); err != nil {
			return nil, err
		}
		return s.streamed(ctx, "application/octet-stream", func(w *answer) error { return s.Backend.Log(ctx, c, w) }), nil
	})
	register(s, huma.Operation{
		OperationID: "events", Method: http.MethodGet, Path: "/v1/events", Tags: []string{tagDaemon},
		Summary:     "Watch events",
		Responses:   out("text/event-stream", "Server-sent events: id is the number of an event, event its kind, data an Event in JSON."),
		Description: "A stream that ends can be taken up again with Last-Event-ID. Comments are signs of life.",
	}, s.events)
	s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Event](), true, "")
}

// copyOutput copies what a run wrote, and what it writes until it is over where
// that is wanted.
func (s *Server) copyOutput(ctx context.Context, w *answer, o Output, in *logsInput) error {
	ctx, cancel := s.lasting(ctx)
	defer cancel()
	if in.Tail >= 0 {
		if err := o.Tail(in.Tail); err != nil {
			return err
		}
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := o.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == nil {
			continue
		}
		if err != io.EOF {
			return err
		}
		if !in.Follow {
			return nil
		}
		if err := w.FlushError(); err != nil {
			return err
		}
		if err := o.Wait(ctx); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// events watches events for a client.
func (s *Server) events(ctx context.Context, c Caller, in *eventsInput) (*stream, error) {
	since := in.Since
	if in.Last != "" {
		last, err := strconv.ParseInt(in.Last, 10, 64)
		if err != nil || last < 0 || last == 1<<63-1 {
			return nil, api.Refuse(api.Invalid, "Last-Event-ID: %q is not a number of an event", clip(in.Last, 40))
		}
		since = last + 1
	}
	lasting, cancel := s.lasting(ctx)
	events, err := s.Backend.Watch(lasting, c, since)
	if err != nil {
		cancel()
		return nil, err
	}
	return s.streamed(ctx, "text/event-stream", func(w *answer) error {
		defer cancel()
		return s.tell(lasting, w, events)
	}), nil
}

// tell writes events until there are no more: the watcher was too slow, or the
// server stops. Both ends are in good order, since the client knows where to
// go on.
func (s *Server) tell(ctx context.Context, w *answer, events <-chan api.Event) error {
	if _, err := io.WriteString(w, "retry: 1000\n\n"); err != nil {
		return err
	}
	beat := time.NewTicker(s.times.beat)
	defer beat.Stop()
	for {
		if len(events) == 0 {
			if err := w.FlushError(); err != nil {
				return err
			}
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			_, err = io.WriteString(w, ": still here\n\n")
		case e, ok := <-events:
			if !ok {
				return nil
			}
			err = writeEvent(w, e)
		}
		if err != nil {
			return err
		}
	}
}

func writeEvent(w io.Writer, e api.Event) error {
	data, err := json.Marshal(e) // one line
	if err != nil {
		return err
	}
	kind := strings.Join(strings.Fields(e.Kind), "-") // a line break would end the field
	_, err = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, kind, data)
	return err
}
