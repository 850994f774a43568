//go:build unix

package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/api/client"
	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/internal/faults"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/internal/watch"
	"github.com/norn-scheduler/norn/kube/names"
)

// settings is the environment variable by which this program stands in for norn-kube: it has
// a process in JSON.
const settings = "NORN_TEST_LEADER"

// process is what a Norn in a process of its own has to know.
type process struct {
	Name, Host, State, Socket string
	CA, Cert, Key             []byte
}

// Times of the elections of these tests.
const (
	lease = 3 * time.Second
	renew = time.Second
	retry = 100 * time.Millisecond
)

// lead is a Norn in a process of its own, until it is told to end.
func lead(text string) error {
	var p process
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	client, err := kube.Client(&rest.Config{Host: p.Host, TLSClientConfig: rest.TLSClientConfig{CAData: p.CA, CertData: p.Cert, KeyData: p.Key}})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(background, syscall.SIGTERM)
	defer stop()
	e := &kube.Election{Client: client, Namespace: "norn-system", Identity: p.Name, Lease: lease, Renew: renew, Retry: retry}
	opt := kube.Options{Client: client, Name: "test", State: p.State, Policy: experiment.Choice{Policy: "srtf"}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	return kube.Serve(ctx, e, opt, server.Config{Socket: p.Socket}, kube.Doors{})
}

// norn is a Norn in a process of its own.
type norn struct {
	*exec.Cmd
	t   *testing.T
	out *lines
}

// lines keep what a process writes.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// start starts a Norn in a process of its own, which writes as a user of its name.
func (r *rig) start(name string) *norn {
	r.t.Helper()
	cfg, err := r.env.As(name, leaders.Name, "system:authenticated")
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := json.Marshal(process{name, cfg.Host, r.t.TempDir(), r.socket(), cfg.CAData, cfg.CertData, cfg.KeyData})
	if err != nil {
		r.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	n := &norn{exec.Command(self), r.t, &lines{}}
	n.Env, n.Stdout, n.Stderr = append(os.Environ(), settings+"="+string(text)), n.out, n.out
	if err := n.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		n.Process.Signal(syscall.SIGCONT)
		n.Process.Kill()
		n.Wait()
		if out := n.out.String(); r.t.Failed() || strings.Contains(out, "has made a mistake") || strings.Contains(out, "panic") {
			r.t.Errorf("%s wrote:\n%s", name, out)
		}
	})
	return n
}

// socket is a path short enough for a socket.
func (r *rig) socket() string {
	r.t.Helper()
	dir, err := os.MkdirTemp("", "nk-")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// signal sends a signal to a Norn.
func (n *norn) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.Process.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// term is for how long somebody has led.
type term struct {
	who             string
	began, lastSeen time.Time
}

// terms are all that have led, in order.
type terms struct {
	mu  sync.Mutex
	all []term
}

// follow notes who leads, from the Lease alone.
func (r *rig) follow() *terms {
	r.t.Helper()
	out := &terms{}
	w, err := r.client.CoordinationV1().Leases("norn-system").Watch(background, meta.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Stop)
	go func() {
		for ev := range w.ResultChan() {
			out.see(ev.Object)
		}
	}()
	return out
}

// see notes a version of the Lease.
func (o *terms) see(obj any) {
	l, is := obj.(leaseOf)
	if !is {
		return
	}
	b, err := json.Marshal(l)
	var in struct {
		Spec struct {
			Who     string         `json:"holderIdentity"`
			Began   meta.MicroTime `json:"acquireTime"`
			Renewed meta.MicroTime `json:"renewTime"`
		} `json:"spec"`
	}
	if err != nil || json.Unmarshal(b, &in) != nil || in.Spec.Who == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.all); n == 0 || o.all[n-1].who != in.Spec.Who {
		o.all = append(o.all, term{who: in.Spec.Who, began: in.Spec.Began.Time})
	}
	o.all[len(o.all)-1].lastSeen = in.Spec.Renewed.Time
}

// leaseOf is an object of the API.
type leaseOf interface{ GetName() string }

// last are the last two terms; the first of them may be none.
func (o *terms) last() (before, now term) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.all); n > 0 {
		now = o.all[n-1]
		if n > 1 {
			before = o.all[n-2]
		}
	}
	return before, now
}

// leadsNow tells whether somebody leads now.
func (o *terms) leadsNow(who string) bool {
	_, now := o.last()
	return now.who == who
}

// tookOver checks the time that a takeover from a leader who was not heard of any more took.
func (o *terms) tookOver(t *testing.T) {
	t.Helper()
	before, now := o.last()
	took := now.began.Sub(before.lastSeen)
	if took < lease-time.Second || took > lease+20*time.Second { // a busy machine may be late; renewals count by seconds
		t.Errorf("%s took over %v after the last sign of life of %s, with a Lease of %v", now.who, took, before.who, lease)
	}
}

// TestElection: the next Norn leads when the Lease of one that was killed is over, and no
// earlier. One that was stopped meanwhile, and goes on, writes nothing any more. One that is
// told to end lets the Lease go.
func TestElection(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes, 10, nil, testenv.Audit("Metadata"))
	r.down()
	who := r.follow()
	a := r.start("norn-a")
	r.wait("a leads", func() bool { return who.leadsNow("norn-a") })
	b := r.start("norn-b")
	ids, made := []string{}, 0
	work := func() {
		for range 6 {
			made++
			name := fmt.Sprintf("j%d", made)
			r.job(name, int32(1+made%3), 1, "20s", saves)
			ids = append(ids, name)
		}
	}
	work()
	r.wait("pods run", func() bool { return len(r.kubelet.Running()) > 2 })
	a.signal(syscall.SIGKILL)
	r.wait("b leads", func() bool { return who.leadsNow("norn-b") })
	who.tookOver(t)
	a = r.start("norn-c")
	work()
	r.wait("more pods run", func() bool { return len(r.kubelet.Running()) > 2 })
	b.signal(syscall.SIGSTOP)
	work()
	r.wait("c leads", func() bool { return who.leadsNow("norn-c") })
	who.tookOver(t)
	_, now := who.last()
	b.signal(syscall.SIGCONT)
	work()
	r.wait("b knows", func() bool { return strings.Contains(b.out.String(), "does not lead any more") })
	r.wait("all are done", func() bool { return r.complete(ids) })
	writes, err := watch.Audit(r.env.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range watch.By(writes, "norn-b") {
		if w.OK() && w.At.After(now.began) && w.Resource != "leases.coordination.k8s.io" {
			t.Errorf("%v after another one has begun to lead: %+v", w.At.Sub(now.began), w)
		}
	}
	a.signal(syscall.SIGTERM)
	r.wait("b leads again", func() bool { return who.leadsNow("norn-b") })
	work()
	r.wait("all are done again", func() bool { return r.complete(ids) })
}

// complete tells whether Jobs are complete by the word of their controller, none of whose pods
// has failed.
func (r *rig) complete(ids []string) bool {
	r.t.Helper()
	list, err := r.client.BatchV1().Jobs("default").List(background, meta.ListOptions{})
	if err != nil {
		return false
	}
	done := 0
	for _, j := range list.Items {
		if j.Status.Failed > 0 {
			r.t.Fatalf("pods of job %s have failed", j.Name)
		}
		for _, c := range j.Status.Conditions {
			if c.Type == batch.JobComplete && c.Status == "True" {
				done++
			}
		}
	}
	return done >= len(ids)
}

// wait is until for tests whose Norns are processes of their own.
func (r *rig) wait(what string, is func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not after 90 seconds: %s", what)
		}
	}
}

// TestLosesAPIServer: a leader that does not reach the API server any more writes nothing, and
// leads again when it does. One that finds that another has decided about a job begins anew.
func TestLosesAPIServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.down()
	cfg, err := r.env.As(account, "system:serviceaccounts", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	p, err := faults.Start(cfg, faults.Well)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	opt := r.opt
	if opt.Client, err = kube.Client(p.Config()); err != nil {
		t.Fatal(err)
	}
	var out lines
	opt.State, opt.Log = t.TempDir(), slog.New(slog.NewTextHandler(&out, nil))
	ctx, stop := context.WithCancel(background)
	ended, socket := make(chan error, 1), r.socket()
	go func() {
		e := &kube.Election{Client: opt.Client, Namespace: "norn-system", Identity: "me", Lease: lease, Renew: renew, Retry: retry}
		ended <- kube.Serve(ctx, e, opt, server.Config{Socket: socket, Operators: func(uint32, string) bool { return true }}, kube.Doors{})
	}()
	r.pod("before", 1, "1s", nil)
	done := func(name string) func() bool {
		return func() bool {
			pod, err := r.client.CoreV1().Pods("default").Get(background, name, meta.GetOptions{})
			return err == nil && pod.Status.Phase == "Succeeded"
		}
	}
	r.wait("it is done", done("before"))
	for i := range 2 {
		p.Part(true)
		name := fmt.Sprintf("after-%d", i)
		r.pod(name, 1, "1s", nil)
		r.wait("it does not lead", func() bool { return strings.Count(out.String(), "does not lead any more") == i+1 })
		if pod, err := r.client.CoreV1().Pods("default").Get(background, name, meta.GetOptions{}); err != nil || pod.Spec.NodeName != "" || pod.Annotations[names.Run] != "" {
			t.Errorf("%+v, %v", pod, err)
		}
		p.Part(false)
		r.wait("it is done", done(name))
	}
	r.pod("full", 4, "20s", nil)
	r.wait("it runs", func() bool { return len(r.kubelet.Running()) == 1 })
	r.job("odd", 1, 4, "1s", nil)
	asks, err := client.New(socket, "", "")
	if err != nil {
		t.Fatal(err)
	}
	r.wait("it waits", func() bool {
		jobs, err := asks.Jobs(background, api.Query{IDs: []string{"default/odd"}})
		return err == nil && len(jobs) == 1 && jobs[0].State == api.Waiting
	})
	launched := []byte(`{"metadata": {"annotations": {"` + names.Run + `": "1", "` + names.Plan + `": "1 n-001"}}}`)
	if _, err := r.client.BatchV1().Jobs("default").Patch(background, "odd", types.MergePatchType, launched, meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.wait("it is done", func() bool { return r.complete([]string{"odd"}) })
	if n := strings.Count(out.String(), "waits to lead again"); n != 3 || !strings.Contains(out.String(), "another one has launched it") {
		t.Errorf("it began anew %d times:\n%s", n, out.String())
	}
	if j, err := r.client.BatchV1().Jobs("default").Get(background, "odd", meta.GetOptions{}); err != nil || j.Annotations[names.Run] != "2" {
		t.Errorf("%+v, %v", j.Annotations, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended: %v", err)
	}
}
