package live

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
	"github.com/norn-scheduler/norn/sched"
)

// dawdler is a policy that stops what runs, starts what waits, and does not come to the
// end of its decision before it is let.
type dawdler struct{ let chan struct{} }

func (w dawdler) Decide(v *sched.View, p *sched.Plan) {
	for j := range v.Waiting() {
		p.Start(j.ID, place.Pack)
	}
	for j := range v.Running() {
		p.Stop(j.ID, job.Reason{Code: job.MakesRoom, Job: job.None})
	}
	<-w.let
}

// A policy that does not come to the end of its decision is replaced, and what it had
// planned is not done: who runs goes on, who waits gets the turn that FIFO gives.
func TestOverdue(t *testing.T) {
	w := newPaper(t)
	budget := func() error { w.cfg.Budget = time.Second; return nil }
	if err := w.Loop.Ask(context.Background(), budget); err != nil {
		t.Fatal(err)
	}
	if err := w.SetPolicy(context.Background(), me, "srtf"); err != nil {
		t.Fatal(err)
	}
	a, b := w.submit(2), w.submit(1)
	w.until("1 running, 2 waiting")
	slow := dawdler{make(chan struct{})}
	if err := w.Loop.Ask(context.Background(), func() error { w.Impose("slow", slow); return nil }); err != nil {
		t.Fatal(err)
	}
	c := w.submit(1) // which has the policy decide
	s, err := w.Status(context.Background())
	for end := time.Now().Add(time.Minute); err == nil && s.Policy != "fifo" && time.Now().Before(end); s, err = w.Status(context.Background()) {
		time.Sleep(time.Millisecond)
	}
	if err != nil || s.Policy != "fifo" || len(s.Trouble) != 1 || !strings.Contains(s.Trouble[0], "it has not decided within 1s") {
		t.Fatalf("%+v, %v", s, err)
	}
	w.until("1 running, 2 waiting, 3 waiting")
	close(slow.let) // what it does now is seen by nobody
	w.end(a)
	w.until("1 done, 2 running, 3 running")
	w.end(b)
	w.end(c)
	w.until("1 done, 2 done, 3 done")
}
