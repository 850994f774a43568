package experiment_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy"
	"github.com/norn-scheduler/norn/trace"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// crowd is jobs many of which are submitted at the same moment, with ids of
// their own, three tenants and a few sizes.
func crowd(r *rand.Rand, n int) experiment.Jobs {
	var jobs experiment.Jobs
	var in job.Interner
	at := time.Duration(0)
	for i := range n {
		if r.IntN(3) == 0 {
			at += time.Duration(r.IntN(120)) * time.Second
		}
		name := []string{"a", "b", "c"}[r.IntN(3)]
		jobs = append(jobs, trace.Entry{
			Job: job.Job{
				Key: "job" + strconv.Itoa(i), Name: "train-" + name, User: "u" + name, Tenant: "vc" + name, Submit: at,
				Demand: in.Get(job.GPUs([]int{1, 1, 2, 4, 8}[r.IntN(5)])), Model: []string{"vgg16", "resnet50"}[r.IntN(2)], Retries: -1,
			},
			Truth: trace.Truth{Work: time.Duration(10+r.IntN(600)) * time.Second},
		})
	}
	return jobs
}

// shuffled is the same jobs with those of equal submission in another order.
func shuffled(jobs experiment.Jobs, r *rand.Rand) experiment.Jobs {
	out := append(experiment.Jobs(nil), jobs...)
	for from := 0; from < len(out); {
		to := from + 1
		for to < len(out) && out[to].Job.Submit == out[from].Job.Submit {
			to++
		}
		group := out[from:to]
		r.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
		from = to
	}
	return out
}

type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

var _ io.WriteCloser = (*buffer)(nil)

// log is the event log of a run, byte by byte.
func log(t *testing.T, name, cluster string, jobs experiment.Jobs) []byte {
	t.Helper()
	spec, err := clusterspec.Parse(cluster)
	if err != nil {
		t.Fatal(err)
	}
	out := &buffer{}
	x := experiment.Experiment{Spec: spec, Seed: 1, Log: func(string) (experiment.Log, error) {
		return experiment.Log{WriteCloser: out, Compression: eventlog.Plain}, nil
	}}
	for i := range jobs {
		jobs[i].Job.ID = job.ID(i)
	}
	if _, err := x.Run(context.Background(), experiment.Choice{Policy: name}, jobs.Source()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestOrderOfRowsChangesNothing: the order of input rows with equal times and
// distinct ids changes nothing, for every policy, whole and in partitions: the
// event logs are equal byte by byte.
func TestOrderOfRowsChangesNothing(t *testing.T) {
	longtest.Skip(t)
	for _, cluster := range []string{"3x8", "vca=1x8,vcb=1x8,vcc=1x8"} {
		for _, e := range policy.Table() {
			r := rand.New(rand.NewPCG(11, 13))
			jobs := crowd(r, 80)
			want := log(t, e.Name, cluster, jobs)
			if bytes.Count(want, []byte("\n")) < 160 {
				t.Fatalf("%s on %s: a log of %d lines", e.Name, cluster, bytes.Count(want, []byte("\n")))
			}
			for range 2 {
				other := shuffled(jobs, r)
				if got := log(t, e.Name, cluster, other); !bytes.Equal(got, want) {
					t.Errorf("%s on %s: another order of rows, another log: %s", e.Name, cluster, firstDifference(want, got))
					break
				}
			}
		}
	}
}

func firstDifference(a, b []byte) string {
	x, y := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range x {
		if i >= len(y) || !bytes.Equal(x[i], y[i]) {
			second := ""
			if i < len(y) {
				second = string(y[i])
			}
			return string(x[i]) + "\n against " + second
		}
	}
	return "one is longer"
}
