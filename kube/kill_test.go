package kube_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/names"
)

// killer is the way of a Norn to the API server, on which it dies at a write that is counted:
// before that is sent, or after it was done, with the answer lost. Nothing passes afterwards.
type killer struct {
	way   http.RoundTripper
	after bool // the write at which it dies is done

	mu   sync.Mutex
	left int // writes until it dies
	at   string
	dead chan struct{} // closed when it is
}

var errKilled = errors.New("this norn is dead")

// RoundTrip implements http.RoundTripper.
func (k *killer) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-k.dead:
		return nil, errKilled
	default:
	}
	if r.Method == http.MethodGet || !k.dies(r) {
		return k.way.RoundTrip(r)
	}
	if k.after {
		if answer, err := k.way.RoundTrip(r); err == nil {
			answer.Body.Close()
		}
	}
	close(k.dead)
	return nil, errKilled
}

// dies counts a write, and tells whether it is the last one.
func (k *killer) dies(r *http.Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left--; k.left != 0 {
		return false
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	k.at = r.Method + " jobs"
	for _, part := range parts {
		if part == "pods" {
			k.at = r.Method + " pods"
		}
	}
	if last := parts[len(parts)-1]; last == "binding" || last == "status" {
		k.at += "/" + last
	}
	return true
}

// kills is how often Norns are killed in a test: NORN_KUBE_KILLS says, few times without it.
func kills(few int) int {
	if n, err := strconv.Atoi(os.Getenv("NORN_KUBE_KILLS")); err == nil {
		return n
	}
	return few
}

// mortal makes clients of a rig's Norn that die at a write.
func (r *rig) mortal() func(left int, after bool) (kubernetes.Interface, *killer) {
	r.t.Helper()
	cfg, err := r.env.As(account, "system:serviceaccounts", "system:authenticated")
	if err != nil {
		r.t.Fatal(err)
	}
	way, err := rest.TransportFor(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return func(left int, after bool) (kubernetes.Interface, *killer) {
		k := &killer{way: way, left: left, after: after, dead: make(chan struct{})}
		client, err := kube.Client(&rest.Config{Host: cfg.Host, Transport: k})
		if err != nil {
			r.t.Fatal(err)
		}
		return client, k
	}
}

// killed replaces a Norn that is dead: what it has not written it never writes. The next one
// knows nothing but what the API tells.
func (r *rig) killed() {
	r.t.Helper()
	r.cut()
	r.stop()
	r.opt.State = r.t.TempDir()
}

// policies take turns, each with a leader.
var policies = []string{"srtf", "tiresias(limits=2)", "fifo(mode=easy)", "philly"}

// mix makes jobs of all sorts: single pods, gangs of pods, and Jobs that save their state or
// do not.
type mix struct {
	*rig
	*rand.Rand
	ids []string
}

// submit makes one more job.
func (m *mix) submit() {
	run := fmt.Sprintf("%ds", 5+m.IntN(40))
	name := fmt.Sprintf("j%d", len(m.ids))
	switch m.IntN(5) {
	case 0:
		m.pod(name, int64(1+m.IntN(2)), run, nil)
		m.ids = append(m.ids, "default/pod/"+name)
	case 1:
		for k := range 3 {
			m.pod(fmt.Sprintf("%s-%d", name, k), 1, run, map[string]string{names.Gang: name, names.GangSize: "3"})
		}
		m.ids = append(m.ids, "default/gang/"+name)
	default:
		m.job(name, int32(1+m.IntN(5)), int64(1+m.IntN(2)), run, func(j *batch.Job) {
			saves(j)
			j.Labels[names.Stop] = []string{"checkpoint", "restart"}[m.IntN(2)]
		})
		m.ids = append(m.ids, "default/"+name)
	}
}

// unfinished counts the jobs that have not come to their end.
func (m *mix) unfinished() (n int) {
	ended := m.ended()
	for _, id := range m.ids {
		if !ended[id] {
			n++
		}
	}
	return n
}

// ended are the jobs all of whose pods have done their work, by key, from the API alone.
func (m *mix) ended() map[string]bool {
	m.t.Helper()
	out := map[string]bool{}
	jobs, err := m.client.BatchV1().Jobs("default").List(background, meta.ListOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if state := convert.StateOf(&j.Status); state.Phase == convert.JobFailed || j.Status.Failed > 0 {
			m.t.Fatalf("job %s has pods that failed: %s", j.Name, state.Why)
		} else if state.Phase == convert.JobComplete {
			out["default/"+j.Name] = true
		}
	}
	left := map[string]int{}
	for _, p := range m.pods() {
		if meta.GetControllerOf(&p) != nil {
			continue
		}
		id := "default/pod/" + p.Name
		if gang := p.Labels[names.Gang]; gang != "" {
			id = "default/gang/" + gang
		}
		if p.Status.Phase == core.PodFailed {
			m.t.Fatalf("pod %s has failed: %s %s", p.Name, p.Status.Reason, p.Status.Message)
		}
		if left[id] += 0; p.Status.Phase != core.PodSucceeded {
			left[id]++
		}
	}
	for id, n := range left {
		out[id] = n == 0
	}
	return out
}

// TestKilled: a leader that is killed again and again, at any write, before it or after it
// with the answer lost, loses no job, places none twice, and leaves no gang in part (test T4).
// Each next one has another policy. The checker of the rig watches, and what Norn notes of
// launches, preemptions and service is held against what the API has shown of them.
func TestKilled(t *testing.T) {
	t.Parallel()
	nodes := fakekubelet.Nodes("n", 3, fakekubelet.Shape(4, 16, 64, 110), map[string]string{"nvidia.com/gpu.product": "A100"})
	r := newRig(t, nodes, 10, nil)
	r.down()
	books := r.audit()
	m := &mix{rig: r, Rand: rand.New(rand.NewPCG(1, 1))}
	mortal, met := r.mortal(), map[string]int{}
	begin, total := time.Now(), kills(12)
	for i := range total {
		var k *killer
		after := i%2 == 0
		r.opt.Client, k = mortal(1+m.IntN(6), after)
		choice, err := experiment.ParseChoice(policies[i%len(policies)])
		if err != nil {
			t.Fatal(err)
		}
		r.opt.Policy = choice
		for m.unfinished() < 10 {
			m.submit()
		}
		r.up()
		select {
		case <-k.dead:
			met[fmt.Sprintf("%s, done %v", k.at, after)]++
		case <-time.After(3 * time.Second): // nothing to write
			met["nothing was written"]++
		}
		r.killed()
	}
	t.Logf("%d kills in %v, %d jobs: %v", total, time.Since(begin).Round(time.Second), len(m.ids), met)
	for _, what := range []string{"PATCH jobs", "POST pods/binding", "PATCH pods"} {
		if total >= 100 && met[what+", done true"]+met[what+", done false"] == 0 {
			t.Errorf("nobody was killed at %s: %v", what, met)
		}
	}
	for len(m.ids) < 60 && total >= 100 {
		m.submit()
	}
	r.opt.Client = r.as(account, "system:serviceaccounts", "system:authenticated")
	r.up()
	r.until("all jobs are done", func() bool { return m.unfinished() == 0 })
	for _, id := range m.ids {
		r.until(id+" is done by Norn's word", func() bool { s := r.state(id); return s == api.Done || s == "" })
	}
	books.check(t)
}

// tally is what the API has shown of a Job.
type tally struct {
	suspended          bool
	launches, suspends int
	since              time.Time     // of its last launch
	ran                time.Duration // from launches to suspensions
}

// books are what the API has shown of all Jobs.
type books struct {
	mu    sync.Mutex
	jobs  map[string]*tally
	wrong []string
}

// audit follows all Jobs, each version of them.
func (r *rig) audit() *books {
	r.t.Helper()
	b := &books{jobs: map[string]*tally{}}
	w, err := r.client.BatchV1().Jobs("default").Watch(background, meta.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(background)
	r.t.Cleanup(func() { stop(); w.Stop() })
	go func() {
		for {
			select {
			case ev, more := <-w.ResultChan():
				if !more {
					return
				}
				if j, is := ev.Object.(*batch.Job); is {
					b.see(j)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return b
}

// see holds what Norn has noted on a Job against what it has shown so far.
func (b *books) see(j *batch.Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.jobs[j.Name]
	suspended := j.Spec.Suspend != nil && *j.Spec.Suspend
	if a == nil {
		a = &tally{suspended: true}
		b.jobs[j.Name] = a
	}
	switch {
	case a.suspended && !suspended:
		a.launches, a.since = a.launches+1, time.Now()
		b.launched(j, a)
	case !a.suspended && suspended:
		a.suspends++
		a.ran += time.Since(a.since)
	}
	a.suspended = suspended
}

// launched holds the record of a Job that has just been launched against its account.
func (b *books) launched(j *batch.Job, a *tally) {
	complain := func(format string, args ...any) {
		b.wrong = append(b.wrong, "job "+j.Name+": "+fmt.Sprintf(format, args...))
	}
	ev, err := convert.ParseRecord(j.Annotations[names.Record])
	if err != nil {
		complain("%v", err)
		return
	}
	run, _ := strconv.Atoi(j.Annotations[names.Run])
	if r := ev.Record; run != a.launches || int(r.Starts) != a.launches || int(r.Preemptions) != a.suspends {
		complain("launch %d, after %d suspensions, is noted as run %d, with %d starts and %d preemptions", a.launches, a.suspends, run, r.Starts, r.Preemptions)
	}
	if at := ev.Record.AllocatedTime; at < a.ran*8/10-100*time.Millisecond {
		complain("it has run for %v, and %v are noted", a.ran, at)
	}
}

// check complains of what was wrong.
func (b *books) check(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	launches := 0
	for _, a := range b.jobs {
		launches += a.launches
	}
	if launches == 0 {
		t.Error("nobody has seen a launch")
	}
	slices.Sort(b.wrong)
	for _, w := range b.wrong {
		t.Error(w)
	}
}
