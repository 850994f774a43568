package kube

import (
	"fmt"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSucceeded: a Job has ended when as many pods as it needs have done their work. A pod that was
// told to go does not count until the controller says so, nor does one of a run of another size, nor
// any of a Job that is suspended or is about to be.
func TestSucceeded(t *testing.T) {
	for name, k := range map[string]struct {
		need  int32
		ranks []int // of pods that succeeded
		told  int   // how many of them, from the first on, had been told to go
		want  bool
	}{
		"none":                  {need: 2},
		"one of two":            {need: 2, ranks: []int{0}},
		"both":                  {need: 2, ranks: []int{0, 1}, want: true},
		"one index twice":       {need: 2, ranks: []int{1, 1}},
		"of another size":       {need: 2, ranks: []int{0, 2}},
		"stopped when done":     {need: 4, ranks: []int{1, 3, 0, 2}, told: 2},
		"a size that was less":  {need: 2, ranks: []int{0, 1, 2, 3}, want: true},
		"all were told to stop": {need: 1, ranks: []int{0}, told: 1},
	} {
		var pods []*core.Pod
		for i, rank := range k.ranks {
			p := &core.Pod{Status: core.PodStatus{Phase: core.PodSucceeded}}
			p.Annotations = map[string]string{batch.JobCompletionIndexAnnotation: fmt.Sprint(rank)}
			if i < k.told {
				p.DeletionTimestamp = &meta.Time{Time: time.Unix(1, 0)}
			}
			pods = append(pods, p)
		}
		off := false
		s := &sight{owner: batchJob{&batch.Job{Spec: batch.JobSpec{Completions: &k.need, Suspend: &off}}}, pods: pods}
		l := &entry{kind: aJob, stage: up}
		if got, _, _ := l.isOver(s); got != k.want {
			t.Errorf("%s: %v", name, got)
		}
		l.stage = leaving
		if got, _, _ := l.isOver(s); got {
			t.Errorf("%s: it is done while it is told to leave, though its controller does not say so", name)
		}
		l.stage, off = noRun, true
		if got, _, _ := l.isOver(s); got {
			t.Errorf("%s: it is done while it is suspended, though its controller does not say so", name)
		}
	}
}
