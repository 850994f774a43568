package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Limits of what is read and written.
const (
	mostAnswer = 64 << 20 // bytes of an answer that comes as a whole
	pieceBytes = 32 << 10 // that are written at once, within times.write
	mostAsides = 8        // requests that do not wait in the line, at once
	mostLabel  = 200      // bytes of X-Request-Id
)

// Why a request to the server was cancelled.
var (
	errLeft    = errors.New("the client has left")
	errSlow    = errors.New("the client reads too slowly")
	errStalled = errors.New("the server has sent nothing for too long")
)

// ask has a request wait for its turn, and then sends it to the server.
func (g *Gate) ask(w http.ResponseWriter, r *http.Request, a *account, k kind) {
	text, done, p := g.body(w, r, a)
	if p != nil {
		p.write(w)
		return
	}
	defer done()
	q, p := parse(k, text, !g.NoUsage)
	if p != nil {
		p.write(w)
		return
	}
	label := r.Header.Get("X-Request-Id")
	t, p := g.line.enter(a, q, label[:min(len(label), mostLabel)])
	if p != nil {
		p.write(w)
		return
	}
	if !g.wait(w, r, t) {
		g.line.leave(t, &usage{}) // nothing was sent
		return
	}
	if t.problem != nil {
		t.problem.write(w)
		return
	}
	g.forward(w, r, t, done)
}

// body reads the body of a request. done gives up the room that it takes; it may be called more than once.
func (g *Gate) body(w http.ResponseWriter, r *http.Request, a *account) (text []byte, done func(), p *problem) {
	room := g.MaxBody
	if r.ContentLength >= 0 {
		room = r.ContentLength
	}
	large := wrong(http.StatusRequestEntityTooLarge, "a body has at most %d bytes", g.MaxBody)
	if room > g.MaxBody {
		w.Header().Set("Connection", "close")
		return nil, nil, large
	}
	if !g.line.keep(a, room, g.Bodies) {
		w.Header().Set("Connection", "close")
		return nil, nil, &problem{http.StatusTooManyRequests, rateLimited, "rate_limit_exceeded", "the requests that wait are too large, all in all", retryDown}
	}
	kept := true
	done = func() {
		if kept {
			kept = false
			g.line.keep(a, -room, 0)
		}
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, g.MaxBody))
	var beyond *http.MaxBytesError
	switch {
	case errors.As(err, &beyond):
		p = large
	case err != nil:
		p = wrong(http.StatusRequestTimeout, "the body did not come in time, or not whole")
		w.Header().Set("Connection", "close")
	}
	if p != nil {
		done()
		return nil, nil, p
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // that of ServeHTTP
	return text, done, nil
}

// wait is over when a request is admitted or refused. It is false when its client has left.
func (g *Gate) wait(w http.ResponseWriter, r *http.Request, t *ticket) bool {
	var ticks <-chan time.Time
	if r.Header.Get("Norn-Hints") != "" {
		select {
		case <-t.ready:
			return true
		default:
		}
		ticker := time.NewTicker(g.times.hint)
		defer ticker.Stop()
		ticks = ticker.C
		g.hint(w, t)
	}
	for {
		select {
		case <-t.ready:
			return true
		case <-r.Context().Done():
			return false
		case <-ticks:
			g.hint(w, t)
		}
	}
}

// hint tells a client where its request stands, ahead of the answer (103).
func (g *Gate) hint(w http.ResponseWriter, t *ticket) {
	place, ok := g.line.placeOf(t)
	if !ok || place.Position == nil {
		return
	}
	h := w.Header()
	h.Set("Norn-Request", strconv.Itoa(t.ID))
	h.Set("Norn-Position", strconv.Itoa(*place.Position))
	if place.Counter != nil {
		h.Set("Norn-Counter", strconv.FormatFloat(*place.Counter, 'f', 1, 64))
	}
	if place.Expected != nil {
		h.Set("Norn-Expected-Start", place.Expected.Format(time.RFC3339))
	}
	rc := http.NewResponseController(w)
	rc.SetWriteDeadline(time.Now().Add(g.times.write))
	w.WriteHeader(http.StatusEarlyHints)
	rc.SetWriteDeadline(time.Time{})
	h.Del("Norn-Position")
	h.Del("Norn-Expected-Start")
}

// forward sends a request to the server, and its answer to the client. sent is called when the body is not needed any
// more.
func (g *Gate) forward(w http.ResponseWriter, r *http.Request, t *ticket, sent func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stall := time.AfterFunc(g.Stall, func() { cancel(errStalled) })
	defer stall.Stop()
	resp, err := g.up.send(ctx, r, t.asked.body)
	t.asked.body = nil
	sent()
	if err != nil {
		g.unanswered(w, r, t, context.Cause(ctx), err)
		return
	}
	defer resp.Body.Close()
	g.head(w, resp, t)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode >= 300 || media != "text/event-stream" {
		g.whole(w, r, t, resp)
		return
	}
	s := &stream{gate: g, ticket: t, ctx: ctx, cancel: cancel, stall: stall, pipe: newPipe(g.Buffer), done: make(chan struct{})}
	go s.read(resp.Body)
	defer func() { <-s.done }()
	defer cancel(errLeft)
	w.WriteHeader(resp.StatusCode)
	s.write(w, r)
}

// unanswered tells that there is no answer, and what became of the request.
func (g *Gate) unanswered(w http.ResponseWriter, r *http.Request, t *ticket, cause, err error) {
	switch {
	case r.Context().Err() != nil && unreached(err): // the client has left, which says nothing of the server
		g.line.leave(t, &usage{})
	case r.Context().Err() != nil:
		g.line.leave(t, nil)
	case unreached(err):
		g.line.leave(t, &usage{})
		g.up.lost(err)
		(&problem{http.StatusServiceUnavailable, serverError, "server_down", "the server behind this gate cannot be reached: try again", retryDown}).write(w)
	case errors.Is(cause, errStalled):
		g.line.leave(t, nil)
		(&problem{http.StatusGatewayTimeout, serverError, "server_stalled", fmt.Sprintf("the server has not answered within %s, and the request was cancelled", unit.Human(g.Stall)), 0}).write(w)
	default:
		g.line.leave(t, nil)
		g.Log.Warn("the server has not answered", "client", t.account.name, "error", err)
		go g.up.suspect()
		(&problem{http.StatusBadGateway, serverError, "server_lost", "the server broke off before it answered; the request may have reached it, and was not sent again", 0}).write(w)
	}
}

// dropped are the headers of an answer that are of one connection alone, or are written anew.
var dropped = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Set-Cookie"}

// head copies the headers of an answer, and adds what the gate has to say.
func (g *Gate) head(w http.ResponseWriter, resp *http.Response, t *ticket) {
	h := w.Header()
	for name, values := range resp.Header {
		if !strings.HasPrefix(name, "Norn-") {
			h[name] = values
		}
	}
	for _, name := range dropped {
		h.Del(name)
	}
	if t == nil {
		return
	}
	h.Set("X-Accel-Buffering", "no") // for proxies before the gate
	h.Set("Norn-Request", strconv.Itoa(t.ID))
	h.Set("Norn-Waited", strconv.FormatFloat((t.admitted-t.Arrived).Seconds(), 'f', 3, 64))
	if c, ok := g.line.counter(t.account); ok {
		h.Set("Norn-Counter", strconv.FormatFloat(c, 'f', 1, 64))
	}
}

// whole passes on an answer that is no stream. Its place is free as soon as all of it is here.
func (g *Gate) whole(w http.ResponseWriter, r *http.Request, t *ticket, resp *http.Response) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	if len(text) > mostAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", mostAnswer)
	}
	if err != nil {
		g.line.leave(t, nil)
		if r.Context().Err() == nil {
			g.Log.Warn("an answer broke off", "client", t.account.name, "error", err)
			go g.up.suspect()
			w.Header().Del("Content-Encoding")
			(&problem{http.StatusBadGateway, serverError, "server_lost", "the answer of the server broke off; the request was not sent again", 0}).write(w)
		}
		return
	}
	var used *usage
	switch {
	case resp.StatusCode >= 300:
		used = &usage{} // it was refused
	default:
		if used, err = answered(text, t.Input, g.line.perByte(t.account)); err != nil {
			g.Log.Warn("what an answer has used is not known", "client", t.account.name, "error", err)
		}
	}
	g.line.leave(t, used)
	g.pass(w, resp.StatusCode, text)
}

// pass writes an answer that is there.
func (g *Gate) pass(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	g.give(w, text)
}

// give writes to a client, which must take each piece within times.write. Between two calls any time may pass: over HTTP/2 a
// deadline that is over ends a stream, also one to which nothing is written.
func (g *Gate) give(w http.ResponseWriter, b []byte) error {
	rc := http.NewResponseController(w)
	for {
		n := min(len(b), pieceBytes)
		rc.SetWriteDeadline(time.Now().Add(g.times.write))
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		if b = b[n:]; len(b) > 0 {
			continue
		}
		err := rc.Flush()
		rc.SetWriteDeadline(time.Time{})
		return err
	}
}

// stream is an answer that comes piece by piece.
type stream struct {
	gate   *Gate
	ticket *ticket
	ctx    context.Context
	cancel context.CancelCauseFunc
	stall  *time.Timer
	pipe   *pipe
	done   chan struct{} // the server has nothing more to do with it
}

// read takes what the server sends, charges it, and frees the place of the request when the server has ended, however slowly
// its client reads.
func (s *stream) read(from io.Reader) {
	defer close(s.done)
	g, t := s.gate, s.ticket
	in, m := newEvents(from), meter{}
	for {
		raw, data, err := in.next()
		if errors.Is(err, io.EOF) {
			g.line.leave(t, m.used)
			s.pipe.end(nil)
			return
		}
		if err != nil {
			g.line.leave(t, m.used)
			s.broken(err)
			return
		}
		s.stall.Reset(g.Stall)
		more, drop := m.look(data, t.asked.strip)
		g.line.produced(t, more)
		if !drop && !s.pipe.write(raw) {
			s.cancel(errSlow)
			g.line.leave(t, m.used)
			g.Log.Info("a client reads too slowly: its request was cancelled", "client", t.account.name)
			s.pipe.end(errSlow)
			return
		}
	}
}

// broken tells the client that the stream ends too early, unless it is the client that has left.
func (s *stream) broken(err error) {
	cause := context.Cause(s.ctx)
	if cause == nil || errors.Is(cause, errStalled) {
		p := &problem{kind: serverError, code: "server_lost", message: "the server broke off; the request was not sent again"}
		if errors.Is(cause, errStalled) {
			p.code, p.message = "server_stalled", errStalled.Error()
		}
		s.pipe.write(fmt.Appendf(nil, "data: %s\n\n", p.body()))
		s.gate.Log.Warn("a stream broke off", "client", s.ticket.account.name, "error", err)
		go s.gate.up.suspect()
	}
	s.pipe.end(err)
}

// write gives the client what is there, as soon as it is there.
func (s *stream) write(w http.ResponseWriter, r *http.Request) {
	if s.gate.give(w, nil) != nil {
		return
	}
	for {
		b, ended, err := s.pipe.take()
		switch {
		case len(b) > 0:
			if s.gate.give(w, b) != nil {
				return
			}
		case ended && err != nil:
			<-s.done
			panic(http.ErrAbortHandler) // the connection is cut: nothing looks like the end of an answer
		case ended:
			return
		default:
			select {
			case <-s.pipe.more:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// aside passes on what is no work for the model, such as the list of models, without a place in the line.
func (g *Gate) aside(w http.ResponseWriter, r *http.Request, _ caller) {
	if strings.Contains(r.URL.Path, "..") {
		wrong(http.StatusNotFound, "there is no such model").write(w)
		return
	}
	select {
	case g.asides <- struct{}{}:
		defer func() { <-g.asides }()
	default:
		(&problem{http.StatusServiceUnavailable, serverError, "overloaded", "too many ask that at once: try again", time.Second}).write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	resp, err := g.up.send(ctx, r, nil)
	if err == nil {
		defer resp.Body.Close()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(resp.Body, mostAnswer)); err == nil {
			g.head(w, resp, nil)
			g.pass(w, resp.StatusCode, text)
			return
		}
	}
	if unreached(err) && r.Context().Err() == nil {
		g.up.lost(err)
	}
	(&problem{http.StatusServiceUnavailable, serverError, "server_down", "the server behind this gate does not answer: try again", retryDown}).write(w)
}
