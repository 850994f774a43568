package local_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/internal/longtest"
)

// A daemon says what other policies would have made of its own past: three jobs of which the
// long one came first. It goes on deciding meanwhile. Nobody but an operator is told.
func TestPlan(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	h := newHere(t, "fifo", 1, nil)
	long := h.sh(1, "sleep 0.9")
	long.Estimate = 60
	h.submit(long)
	var short []string
	for range 2 {
		spec := h.sh(1, "true")
		spec.Estimate = 1
		short = append(short, h.submit(spec))
	}
	h.until(short[1], api.Done)
	_, bob := others()
	_, err := h.Plan(background, bob, api.WhatIf{Policies: []string{"srtf"}})
	refused(t, err, api.Denied, "only an operator")
	p, err := h.Plan(background, h.me, api.WhatIf{Policies: []string{"srtf", "sjf"}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Submitted != 3 || p.Compared != 3 || len(p.Runs) != 4 || p.Runs[0].Kind != "real" || p.Runs[1].Name != "fifo, simulated" || p.Runs[2].Name != "srtf" {
		t.Fatalf("%+v", p)
	}
	for _, r := range p.Runs {
		if r.Ended != 3 || r.Wait <= 0 {
			t.Errorf("%+v", r)
		}
	}
	ctx, leave := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() {
		_, err := h.Plan(ctx, h.me, api.WhatIf{Policies: []string{"srtf"}, Since: time.Now().Add(-time.Hour)})
		ended <- err
	}()
	h.until(h.submit(h.sh(1, "true")), api.Done) // it decides while it simulates
	leave()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
