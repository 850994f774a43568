package faults

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// errCut ends an answer in its middle.
var errCut = errors.New("cut off by the proxy of a test")

// damaged is the key of what is to happen to an answer.
type damaged struct{}

// withDamage notes what is to happen to the answer of a request.
func withDamage(ctx context.Context, f Fault) context.Context {
	return context.WithValue(ctx, damaged{}, f)
}

// damage does to an answer what was noted. An error has the stream cut.
func damage(r *http.Response) error {
	f, _ := r.Request.Context().Value(damaged{}).(Fault)
	switch f.Kind {
	case Lost:
		return errCut
	case Cut, Stall:
		of := r.Body
		r.Body = &body{ReadCloser: of, fault: f, ctx: r.Request.Context(), turn: time.AfterFunc(f.After, func() { of.Close() })}
	}
	return nil
}

// body is an answer that is cut off at some time.
type body struct {
	io.ReadCloser
	fault Fault
	ctx   context.Context
	turn  *time.Timer // closes it from the side of the server
}

// Read reads until the answer is cut off. One that stalls ends later than the data does.
func (b *body) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if err == nil || err == io.EOF {
		return n, err
	}
	if b.fault.Kind == Stall {
		select {
		case <-b.ctx.Done():
		case <-time.After(b.fault.Hold):
		}
	}
	return 0, errCut
}

// Close ends the answer.
func (b *body) Close() error {
	b.turn.Stop()
	return b.ReadCloser.Close()
}
