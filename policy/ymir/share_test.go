package ymir

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// of gives a job to a user, who consents or not.
func of(j simtest.Job, user string, share bool) simtest.Job {
	spec := j.Spec
	j.User = user
	j.Spec = func(j *job.Job) {
		spec(j)
		j.Share = share
	}
	return j
}

// TestConsent: jobs of two users that gain a lot by each other are merged where both consent,
// and not where one does not; those of one user, or of nobody known, are merged anyway.
func TestConsent(t *testing.T) {
	world := learn(gain("a", "b", 4, 4), gain("b", "a", 4, 4))
	for _, k := range []struct {
		one, other string
		consent    [2]bool
		merged     bool
	}{
		{"u", "v", [2]bool{true, true}, true}, {"u", "v", [2]bool{true, false}, false}, {"u", "v", [2]bool{}, false},
		{"u", "u", [2]bool{}, true}, {"", "", [2]bool{}, true}, {"", "v", [2]bool{true, false}, false},
	} {
		run := simtest.Go(t, simtest.Config{Cluster: simtest.Nodes(1, 1), Shared: true, Model: linear, Speeds: linear, World: world, Make: with(t, "profile=0s")},
			of(tune("a", 0, 600, "vit", "a", 1), k.one, k.consent[0]), of(tune("b", 0, 400, "vit", "b", 1), k.other, k.consent[1]))
		if merged := run.Record("a").Merged != job.Apart || run.Record("b").Merged != job.Apart; merged != k.merged {
			t.Errorf("users %q and %q, who consent %v: merged %v\n%s", k.one, k.other, k.consent, merged, strings.Join(run.Log, "\n"))
		}
	}
}

// TestNeverWithoutConsent: in random workloads of several users no job is ever merged with one
// of another user unless both consent.
func TestNeverWithoutConsent(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg, jobs := world(r)
		for i := range jobs {
			jobs[i] = of(jobs[i], rapid.SampledFrom([]string{"u", "v", ""}).Draw(r, "user"), rapid.Bool().Draw(r, "share"))
		}
		cfg.Cluster, cfg.Make = simtest.Nodes(rapid.IntRange(1, 3).Draw(r, "nodes"), 4), with(t, "filter=1")
		run, err := simtest.Try(cfg, jobs...)
		if err != nil {
			r.Fatalf("%v\n%s", err, strings.Join(run.Log, "\n"))
		}
		for _, l := range run.Log {
			f := strings.Fields(l) // 30 merge a after b
			if len(f) < 5 || f[1] != "merge" || f[3] == "apart" {
				continue
			}
			if a, b := run.Record(f[2]).Job, run.Record(f[4]).Job; a.User != b.User && !(a.Share && b.Share) {
				r.Fatalf("%s: users %q and %q, who consent %v and %v", l, a.User, b.User, a.Share, b.Share)
			}
		}
	})
}
