package kube_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/internal/faults"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
)

// seeds are the schedules of faults that are tried: NORN_KUBE_SEEDS says how many, one without it.
func seeds() (out []uint64) {
	n, err := strconv.Atoi(os.Getenv("NORN_KUBE_SEEDS"))
	if err != nil {
		n = 1
	}
	for i := range n {
		out = append(out, uint64(i+1))
	}
	return out
}

// badNetwork are the faults of a network and an API server that are worse than any should be.
var badNetwork = faults.Rates{
	Conflict: 0.08, Lost: 0.08, TooMany: 0.04, Internal: 0.04, Dropped: 0.06,
	Cut: 0.3, Stall: 0.15, Gone: 0.1, Delay: 0.1, Longest: 700 * time.Millisecond, Steady: 2 * time.Second,
}

// TestFaults: whatever goes wrong between Norn and the API server, and though that and etcd
// are killed, each job is done once, gangs are whole, and nothing is booked twice (test T3).
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { faulty(t, seed) })
	}
}

// faulty has Norn schedule a mix of jobs through a bad network.
func faulty(t *testing.T, seed uint64) {
	nodes := fakekubelet.Nodes("n", 3, fakekubelet.Shape(4, 16, 64, 110), map[string]string{"nvidia.com/gpu.product": "A100"})
	r := newRig(t, nodes, 10, nil)
	r.down()
	cfg, err := r.env.As(account, "system:serviceaccounts", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	p, err := faults.Start(cfg, faults.Random(seed, badNetwork))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.down()
		p.Close()
		if t.Failed() {
			for _, in := range p.Injected() {
				t.Log(in)
			}
		}
	})
	m := &mix{rig: r, Rand: rand.New(rand.NewPCG(seed, 3))}
	if r.opt.Client, err = kube.Client(p.Config()); err != nil {
		t.Fatal(err)
	}
	if r.opt.Policy, err = experiment.ParseChoice(policies[seed%uint64(len(policies))]); err != nil {
		t.Fatal(err)
	}
	r.opt.State = t.TempDir()
	r.up()
	for i, victim := range []*testenv.Process{nil, r.env.APIServer(), r.env.Etcd()} {
		for range 5 {
			m.submit()
		}
		time.Sleep(time.Duration(m.IntN(1500)) * time.Millisecond)
		if i == 0 {
			continue
		}
		if err := victim.Kill(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(m.IntN(1000)) * time.Millisecond)
		if err := victim.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.until("the API server answers", func() bool {
			_, err := r.client.CoreV1().Pods("default").List(background, meta.ListOptions{})
			return err == nil
		})
	}
	r.until("all jobs are done", func() bool { return m.unfinished() == 0 })
	for _, id := range m.ids {
		r.until(id+" is done by Norn's word", func() bool { return r.state(id) == api.Done })
	}
	met := map[faults.Kind]int{}
	for _, in := range p.Injected() {
		met[in.Fault.Kind]++
	}
	t.Logf("seed %d: %d jobs, %d writes, faults %v", seed, len(m.ids), p.Writes(), met)
	if met[faults.Lost] == 0 || met[faults.Cut] == 0 {
		t.Errorf("few faults: %v", met)
	}
}

// TestBindingIsRefusedOnce: pods that fill a node and whose bindings the API server refuses at
// first are bound after all, though nothing else changes on the node.
func TestBindingIsRefusedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, smallNodes[:1], 10, nil)
	r.down()
	cfg, err := r.env.As(account, "system:serviceaccounts", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	p, err := faults.Start(cfg, func(q faults.Request) faults.Fault {
		if q.N == 1 && strings.HasSuffix(q.Path, "/binding") {
			return faults.Fault{Kind: faults.Conflict}
		}
		return faults.Fault{}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.down()
		p.Close()
	})
	if r.opt.Client, err = kube.Client(p.Config()); err != nil {
		t.Fatal(err)
	}
	r.up()
	r.job("full", 2, 2, "2s", nil)
	r.until("it is done", func() bool { return r.state("default/full") == api.Done })
	if len(p.Injected()) != 2 {
		t.Errorf("injected: %v", p.Injected())
	}
}
