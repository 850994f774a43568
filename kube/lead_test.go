package kube

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// oneLease is a Lease in memory.
type oneLease struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
}

func (l *oneLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r := l.record
	return &r, nil, nil
}

func (l *oneLease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.record = r
	return nil
}

func (*oneLease) Identity() string { return "a" }

// TestFenced: a Lease is let go by the one who holds it, and when that one writes nothing any
// more; otherwise it runs out. Whoever has asked to let it go does not lead.
func TestFenced(t *testing.T) {
	for _, c := range []struct {
		what   string
		quiet  bool
		holder string
		want   string
	}{
		{"it is done", true, "a", ""},
		{"a renewal failed, and writes may be on their way", false, "a", "a"},
		{"a renewal failed, and another one has taken it", false, "b", "b"},
		{"it is done, and another one has taken it", true, "b", "b"},
	} {
		lease := &oneLease{}
		f := &fenced{Interface: lease, good: time.Minute}
		if err := f.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}); err != nil || !f.leads() {
			t.Fatalf("%s: %v, leads %v", c.what, err, f.leads())
		}
		lease.record.HolderIdentity = c.holder
		f.quiet.Store(c.quiet)
		if _, _, err := f.Get(t.Context()); err != nil { // as client-go does before it lets go
			t.Fatal(err)
		}
		if err := f.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || f.leads() {
			t.Errorf("%s: %v, leads %v", c.what, err, f.leads())
		}
		if got := lease.record.HolderIdentity; got != c.want {
			t.Errorf("%s: then %q holds it, want %q", c.what, got, c.want)
		}
	}
}
