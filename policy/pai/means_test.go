package pai

import (
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
)

// Spec mlaas-in-the-wild, section 5, statement 5: a group seen with 100 and 200 s
// gives 150 s; a new group the user's mean of 50 s; a new user the mean of all,
// 70 s.
func TestMeans(t *testing.T) {
	m := newMeans()
	of := func(group, user string, gpus int) *job.Job {
		d := job.GPUs(gpus)
		return &job.Job{User: user, Demand: &d, Hints: &job.Hints{Group: group}}
	}
	m.observe(of("G", "x", 1), 100*time.Second)
	m.observe(of("G", "x", 2), 200*time.Second)
	for range 8 {
		m.observe(of("H", "u", 1), 50*time.Second)
	}
	for _, c := range []struct {
		j    *job.Job
		by   By
		want time.Duration
	}{
		{of("G", "u", 1), Group, 150 * time.Second},
		{of("G", "u", 1), GroupSize, 100 * time.Second},
		{of("G", "u", 4), GroupSize, 150 * time.Second}, // a new size of a known group
		{of("N", "u", 1), Group, 50 * time.Second},
		{of("G", "u", 1), User, 50 * time.Second},
		{of("N", "n", 1), Group, 70 * time.Second},
		{of("N", "n", 1), User, 70 * time.Second},
	} {
		if d, ok := m.predict(c.j, c.by); d != c.want || !ok {
			t.Errorf("group %s, user %s, %d GPUs by %v: %v, want %v", c.j.Hints.Group, c.j.User, c.j.Demand.GPUs(), c.by, d, c.want)
		}
	}
	fresh := newMeans()
	if d, ok := fresh.predict(of("G", "x", 1), Group); ok {
		t.Errorf("predicts %v without any history", d)
	}
}
