package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/api"
)

// Bounds on the memory that bodies take up.
const (
	bodyPiece    = 32 << 10 // bytes that are read at once
	bodiesAtOnce = 64       // of the largest size
)

// request is what the server knows of a request besides what it says.
type request struct {
	id     string
	log    *slog.Logger
	out    *answer
	caller Caller
	task   Task // of routes for tasks
	conn   *conn
	held   int64 // bytes of the body
}

type requestKey struct{}

// requestOf finds the request that a handler works on.
func requestOf(ctx context.Context) *request {
	return ctx.Value(requestKey{}).(*request) // every handler is called below ServeHTTP
}

// ServeHTTP answers one request: it finds out who asks, takes in the body within
// bounds of size and time, and hands over to the route.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	q := &request{id: requestID(), out: newAnswer(w, s.times.write)}
	q.conn, _ = r.Context().Value(connKey{}).(*conn)
	q.log = s.Log.With("request", q.id)
	defer s.end(q, r, began)
	head := q.out.Header()
	head.Set("X-Request-Id", q.id)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	// Deadlines of the request before on the same connection are still in force.
	q.out.ctl.SetReadDeadline(began.Add(s.times.body))
	q.out.ctl.SetWriteDeadline(began.Add(s.times.write))
	if err := s.admit(q, r); err != nil {
		status, text := s.told(q, err)
		if status == http.StatusUnauthorized {
			head.Set("WWW-Authenticate", "Bearer")
		}
		q.out.problem(status, text)
		return
	}
	handler, pattern := s.mux.Handler(r)
	if pattern == "" {
		s.nowhere(q, handler, r)
		return
	}
	if status, text := s.takeBody(q, r); status != 0 {
		q.out.problem(status, text)
		return
	}
	s.mux.ServeHTTP(q.out, r.WithContext(context.WithValue(r.Context(), requestKey{}, q)))
}

// admit finds out who asks, before anything is done for her.
func (s *Server) admit(q *request, r *http.Request) (err error) {
	switch {
	case forTasks(r.URL.Path):
		token := bearer(r)
		if token == "" {
			return api.Refuse(api.NoToken, "a task sends the token of its run, NORN_TOKEN, as Authorization: Bearer TOKEN")
		}
		q.task, err = s.Backend.TaskOf(token)
	case !forAnybody(r.URL.Path):
		q.caller, err = s.identify(q.conn, r)
	}
	return err
}

// takeBody reads the body of a request, and says what is wrong with it. After
// it there is no limit on time any more: what follows may take longer, and the
// connection is watched meanwhile. Half a request is not carried out.
func (s *Server) takeBody(q *request, r *http.Request) (status int, problem string) {
	if r.ContentLength > s.MaxBody {
		return http.StatusRequestEntityTooLarge, s.tooLarge()
	}
	var body bytes.Buffer
	in := http.MaxBytesReader(q.out.ResponseWriter, r.Body, s.MaxBody)
	for piece := int64(bodyPiece); ; {
		n, err := io.CopyN(&body, in, piece)
		q.held += n
		if n > 0 && !s.conns.hold(q.conn, n, bodiesAtOnce*s.MaxBody) {
			return http.StatusServiceUnavailable, "too many large requests at once: try again"
		}
		var over *http.MaxBytesError
		var late net.Error
		switch {
		case err == io.EOF:
			r.Body = io.NopCloser(&body)
			q.out.ctl.SetReadDeadline(time.Time{})
			return 0, ""
		case errors.As(err, &over):
			return http.StatusRequestEntityTooLarge, s.tooLarge()
		case errors.As(err, &late) && late.Timeout():
			return http.StatusRequestTimeout, fmt.Sprintf("the body did not come within %v", s.times.body)
		case err != nil:
			return http.StatusBadRequest, "the body ended early"
		}
	}
}

// nowhere answers where there is no route, and asks package http whether it is
// the method that is wrong.
func (s *Server) nowhere(q *request, handler http.Handler, r *http.Request) {
	probe := &probe{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		q.out.Header().Set("Allow", probe.header.Get("Allow"))
		q.out.problem(probe.status, fmt.Sprintf("%s does not go here; what does is %s", clip(r.Method, 20), probe.header.Get("Allow")))
		return
	}
	q.out.problem(http.StatusNotFound, fmt.Sprintf("there is nothing at %s; /openapi.json tells what there is", clip(strconv.Quote(r.URL.Path), 100)))
}

// end closes a request: a panic is an answer of its own, or breaks off one that
// has begun, so that nobody takes a part for the whole.
func (s *Server) end(q *request, r *http.Request, began time.Time) {
	p := recover()
	if p != nil && p != http.ErrAbortHandler {
		q.log.Error("a request made norn panic", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
		if !q.out.sent {
			q.out.problem(http.StatusInternalServerError, mishap(q.id))
			p = nil
		}
	}
	switch {
	case p == nil:
		q.out.commit()
	case q.out.status == 0:
		q.out.status = statusLeft
	}
	if q.held > 0 {
		s.conns.hold(q.conn, -q.held, 0)
	}
	s.counts.requests.WithLabelValues(strconv.Itoa(q.out.status)).Inc()
	q.log.Debug("request", "method", r.Method, "path", r.URL.Path, "status", q.out.status, "user", q.caller.User,
		"local", q.caller.Local, "from", r.RemoteAddr, "took", time.Since(began), "broken_off", p != nil)
	if p != nil {
		panic(http.ErrAbortHandler) // package http closes the connection
	}
}

// statusLeft counts requests whose clients left before an answer.
const statusLeft = 499

// requestID is a name for a request that is its own.
func requestID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func mishap(id string) string {
	return "something went wrong inside norn: its log says more about request " + id
}

// answer is the way of all answers. The status is sent with the first byte of
// the body, so that a handler that fails before can still say so, and each piece
// must be taken within a time of its own.
type answer struct {
	http.ResponseWriter
	ctl      *http.ResponseController
	patience time.Duration // for a piece to be taken
	status   int           // 0: none yet
	sent     bool
}

func newAnswer(w http.ResponseWriter, patience time.Duration) *answer {
	return &answer{ResponseWriter: w, ctl: http.NewResponseController(w), patience: patience}
}

// WriteHeader sets the status. An error that huma calls unprocessable is a bad
// request here: package api has one kind for both.
func (a *answer) WriteHeader(status int) {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	if !a.sent {
		a.status = status
	}
}

func (a *answer) commit() {
	if a.sent {
		return
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.sent = true
	a.ResponseWriter.WriteHeader(a.status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.commit()
	a.ctl.SetWriteDeadline(time.Now().Add(a.patience))
	return a.ResponseWriter.Write(p)
}

// FlushError sends what was written so far.
func (a *answer) FlushError() error {
	a.commit()
	a.ctl.SetWriteDeadline(time.Now().Add(a.patience))
	return a.ctl.Flush()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// probe takes the answer of a handler of package http for what is not there.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }

// clip bounds text that a client sent.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
