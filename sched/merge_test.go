package sched_test

import (
	"strings"
	"testing"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// TestMergeNeedsConsent: a plan that merges jobs of two users is refused with an error that
// names them, unless both consent.
func TestMergeNeedsConsent(t *testing.T) {
	for _, k := range []struct {
		users  [2]string
		shares [2]bool
		ok     bool
	}{
		{[2]string{"u", "u"}, [2]bool{}, true}, {[2]string{"u", "v"}, [2]bool{true, true}, true},
		{[2]string{"u", "v"}, [2]bool{true, false}, false}, {[2]string{"u", "v"}, [2]bool{}, false}, {[2]string{"", "v"}, [2]bool{false, true}, false},
	} {
		s := state.New(cluster.New(), tenant.NewTree(0))
		d := job.GPUs(1)
		for i := range 2 {
			j := &job.Job{ID: job.ID(i), Key: "job" + string(rune('A'+i)), User: k.users[i], Share: k.shares[i], Backbone: "vit", Demand: &d}
			if err := s.Submit(j, -1); err != nil {
				t.Fatal(err)
			}
		}
		v := sched.NewView(s, nil, true)
		var p sched.Plan
		p.Open(&v)
		if ok := p.Merge(1, 0, job.After); ok != k.ok {
			t.Errorf("users %q, who consent %v: merged %v", k.users, k.shares, ok)
		}
		if err := p.Err(); !k.ok && (err == nil || !strings.Contains(err.Error(), "jobB") || !strings.Contains(err.Error(), "jobA") || !strings.Contains(err.Error(), "consent")) {
			t.Errorf("users %q, who consent %v: %v", k.users, k.shares, err)
		}
		p.Discard()
	}
}
