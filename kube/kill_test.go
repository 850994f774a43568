package kube_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/names"
)

// kill ends a Norn without a chance to finish anything: what it has not written it never
// writes. The next one knows nothing but what the API tells.
func (r *rig) kill(dead *atomic.Bool) {
	r.t.Helper()
	dead.Store(true)
	r.cut()
	r.stop()
	dead.Store(false)
	r.opt.State = r.t.TempDir()
	r.up()
}

// TestKilled: a leader that is killed again and again, at any moment, loses no job, places
// none twice, and leaves no gang in part (test T4). The checker of the rig watches. The
// variable NORN_KILLS says how often it is killed, 25 times without it.
func TestKilled(t *testing.T) {
	t.Parallel()
	kills := 25
	if n, err := strconv.Atoi(os.Getenv("NORN_KILLS")); err == nil {
		kills = n
	}
	var dead atomic.Bool
	r := newRig(t, smallNodes, 10, func(o *kube.Options) {
		o.Policy, o.Leads = experiment.Choice{Policy: "srtf"}, func() bool { return !dead.Load() }
	})
	rnd := rand.New(rand.NewPCG(1, uint64(kills)))
	var ids []string
	submit := func(i int) {
		run := fmt.Sprintf("%ds", 5+rnd.IntN(40))
		name := fmt.Sprintf("j%d", i)
		switch rnd.IntN(4) {
		case 0:
			r.pod(name, int64(1+rnd.IntN(2)), run, nil)
			ids = append(ids, "default/pod/"+name)
		case 1:
			for k := range 3 {
				r.pod(fmt.Sprintf("%s-%d", name, k), 1, run, map[string]string{names.Gang: name, names.GangSize: "3"})
			}
			ids = append(ids, "default/gang/"+name)
		default:
			r.job(name, int32(1+rnd.IntN(4)), int64(1+rnd.IntN(2)), run, func(j *batch.Job) {
				j.Labels[names.Stop] = []string{"checkpoint", "restart"}[rnd.IntN(2)]
				j.Annotations = map[string]string{names.Estimate: run}
				j.Spec.Template.Annotations[fakekubelet.SaveTime] = "1s"
			})
			ids = append(ids, "default/"+name)
		}
	}
	for i := range kills {
		if i%2 == 0 && i < 60 {
			submit(i)
		}
		time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
		r.kill(&dead)
	}
	for _, id := range ids {
		r.until(id+" is done", func() bool { return r.finished(id) })
	}
	list, err := r.client.BatchV1().Jobs("default").List(background, meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range list.Items {
		if j.Status.Failed > 0 {
			t.Errorf("job %s has %d pods that failed", j.Name, j.Status.Failed)
		}
	}
}

// finished tells whether a job is done by Norn's word, or was before this Norn knew of it.
func (r *rig) finished(id string) bool {
	switch s := r.state(id); {
	case s == api.Done:
		return true
	case s != "":
		return false
	}
	kind, name, bare := strings.Cut(strings.TrimPrefix(id, "default/"), "/")
	if !bare {
		j, err := r.client.BatchV1().Jobs("default").Get(background, kind, meta.GetOptions{})
		return err == nil && j.Status.Succeeded == *j.Spec.Completions
	}
	for _, p := range r.pods() {
		if (p.Name == name || p.Labels[names.Gang] == name) && p.Status.Phase != core.PodSucceeded {
			return false
		}
	}
	return true
}
