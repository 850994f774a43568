package gen

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// few is a source of some jobs.
type few []trace.Entry

func (s *few) Next(e *trace.Entry) error {
	if len(*s) == 0 {
		return io.EOF
	}
	*e, *s = (*s)[0], (*s)[1:]
	return nil
}

// TestBurstsOfModels: every model has bursts that lie within its iteration, on any number of GPUs.
func TestBurstsOfModels(t *testing.T) {
	for _, m := range burstyModels {
		for _, gpus := range []int{2, 3, 4, 8, 24, 512} {
			for _, step := range []time.Duration{10 * time.Millisecond, 120 * time.Millisecond} {
				if b, iteration := m.of(gpus, step); b.Len() == 0 || b.Check(iteration) != nil || iteration%step != 0 {
					t.Errorf("%s on %d GPUs: %s in %v: %v", m.model, gpus, b.String(), iteration, b.Check(iteration))
				}
			}
		}
	}
	// VGG16 on four: 553.6 MB x 3/2 at 5.6 GB/s
	if b, iteration := burstyModel("VGG-16").of(4, 10*time.Millisecond); b.String() != "142ms-290ms@5.6" || iteration != 290*time.Millisecond {
		t.Errorf("%s in %v", b.String(), iteration)
	}
}

// TestAssumedBursts: gangs of whole GPUs are given a model; what a job tells is left alone.
func TestAssumedBursts(t *testing.T) {
	shape := func(n int) *job.Demand { d := job.GPUs(n); return &d }
	in := few{
		{Job: job.Job{ID: 0, Key: "a", Demand: shape(1)}},
		{Job: job.Job{ID: 1, Key: "b", Demand: shape(4), Model: "vgg16"}},
		{Job: job.Job{ID: 2, Key: "c", Demand: shape(2), Model: "mine"}},
		{Job: job.Job{ID: 3, Key: "d", Demand: shape(2), Hints: &job.Hints{Iteration: 5}}},
		{Job: job.Job{ID: 4, Key: "e", Demand: shape(2), Hints: &job.Hints{QoS: "x"}}},
	}
	a := &AssumedBursts{Source: &in, Seed: 1}
	var got []trace.Entry
	for {
		var e trace.Entry
		if err := a.Next(&e); errors.Is(err, io.EOF) {
			break
		}
		got = append(got, e)
	}
	if a.Jobs != 3 || got[0].Job.Hints != nil || got[1].Job.Hints.Bursts.String() != "142ms-290ms@5.6" || got[2].Job.Model != "mine" ||
		got[3].Job.Hints.Bursts.Len() != 0 || got[4].Job.Model == "" || got[4].Job.Hints.QoS != "x" || got[4].Job.Hints.Bursts.Len() == 0 {
		t.Errorf("%d jobs: %+v", a.Jobs, got)
	}
}
