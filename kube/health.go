package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// health tells a kubelet whether this process is well: one that waits to lead is, and one
// that leads is as long as its loop answers.
type health struct{ leads atomic.Pointer[Daemon] }

// serve answers at an address until the context ends.
func (h *health) serve(ctx context.Context, addr string) (wait func() error, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("the address for signs of life: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", h.answer)
	mux.HandleFunc("GET /readyz", h.answer)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	context.AfterFunc(ctx, func() { srv.Close() })
	return func() error {
		srv.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, nil
}

func (h *health) answer(w http.ResponseWriter, r *http.Request) {
	d := h.leads.Load()
	if d == nil {
		fmt.Fprintln(w, "ok: waits to lead")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 4*time.Second)
	defer cancel()
	if err := d.Loop.Ask(ctx, func() error { return nil }); err != nil {
		http.Error(w, "the loop does not answer: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok: leads")
}
