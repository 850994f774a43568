package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/names"
)

// fill has Norn put a pod of so many GPUs on the cluster so many times, and waits until they run.
func (b *bench) fill(ctx context.Context, c *cluster, pods int, count int64) error {
	err := each(pods, clients, func(i int) error {
		return c.makePod(ctx, &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: space, Name: fmt.Sprintf("full%05d", i)}, Spec: podSpec(names.Scheduler, count)})
	})
	if err != nil {
		return err
	}
	err = until(ctx, fmt.Sprintf("%d pods run", pods), 5*time.Minute, func() (bool, error) {
		_, running, _ := c.count()
		return running >= pods, nil
	})
	b.say("%d pods run", pods)
	return err
}

// verdict is how long it takes until Norn says why a large job cannot start.
func (b *bench) verdict(ctx context.Context) (err error) {
	nodes := 500
	c, err := start(ctx, shape{nodes: nodes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	n, err := b.startNorn(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	if err := b.fill(ctx, c, nodes, gpus); err != nil {
		return err
	}
	var took []time.Duration
	for i := range 5 {
		name := fmt.Sprintf("large%d", i)
		began := time.Now()
		if err := c.makeJob(ctx, name, 10, gpus, nil); err != nil {
			return err
		}
		var why api.Why
		err := until(ctx, "norn why says why", time.Minute, func() (bool, error) {
			why, err = n.Why(ctx, space+"/"+name)
			return err == nil && why.Reason != "", nil
		})
		if err != nil {
			return err
		}
		took = append(took, time.Since(began))
		b.say("%s: %s", name, why.Reason)
	}
	mine := median(took, func(d *time.Duration) float64 { return d.Seconds() })
	b.add(row{Bar: "B7", Scenario: "10 pods of 8 GPUs on 500 full nodes", What: "creation to the reason in norn why, s", Norn: mine, Bound: "1 s", Met: mine < 1})
	return nil
}

// idle is what a Norn uses that has nothing to do.
func (b *bench) idle(ctx context.Context) (err error) {
	const pods, lasts = 1000, 60 * time.Second
	c, err := start(ctx, shape{nodes: 200, options: []testenv.Option{testenv.Audit("Metadata")}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	n, err := b.startNorn(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	if err := b.fill(ctx, c, pods, 1); err != nil {
		return err
	}
	time.Sleep(20 * time.Second) // what follows from the start is over
	before, _, err := writes(c.env.AuditLog())
	if err != nil {
		return err
	}
	was := n.used()
	time.Sleep(lasts)
	is := n.used()
	after, leases, err := writes(c.env.AuditLog())
	if err != nil {
		return err
	}
	const what = "idle, 200 nodes, 1,000 running pods"
	part := 100 * (is.cpu - was.cpu).Seconds() / lasts.Seconds()
	b.add(row{Bar: "B10", Scenario: what, What: "CPU, % of a core", Norn: part, Bound: "1 %", Met: part < 1})
	mib := float64(is.rss) / (1 << 20)
	b.add(row{Bar: "B10", Scenario: what, What: "resident memory, MiB", Norn: mib, Bound: "150 MiB", Met: mib < 150})
	b.add(row{Bar: "B10", Scenario: what, What: "writes in a minute, without the Lease", Norn: float64(after - before), Bound: "0", Met: after == before})
	b.say("the Lease was written %d times in all", leases)
	return nil
}

// writes counts what Norn has written by the audit log, and how often it wrote the Lease.
func writes(path string) (others, leases int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(text) {
		a, err := parseAudit(line)
		switch {
		case err != nil: // the last one may not be written yet
		case !strings.HasPrefix(a.UserAgent, "norn-kube"):
		case a.ObjectRef.Resource == "leases":
			leases++
		default:
			others++
		}
	}
	return others, leases, nil
}

// queue is how Norn does with 10,000 Jobs that wait.
func (b *bench) queue(ctx context.Context) (err error) {
	nodes, jobs := 200, max(20, 10_000/b.divide)
	c, err := start(ctx, shape{nodes: nodes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	n, err := b.startNorn(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	if err := b.fill(ctx, c, nodes, gpus); err != nil {
		return err
	}
	err = each(jobs, clients, func(i int) error {
		return c.makeJob(ctx, fmt.Sprintf("j%05d", i), 1, gpus, func(j *batch.Job) { j.Labels[waiting] = "true" })
	})
	if err != nil {
		return err
	}
	err = until(ctx, "norn has taken all Jobs in", 5*time.Minute, func() (bool, error) {
		s, err := n.Status(ctx)
		return err == nil && s.Waiting >= jobs, nil
	})
	if err != nil {
		return err
	}
	b.say("%d Jobs wait", jobs)
	return b.queued(ctx, c, n, jobs)
}

// queued measures while Jobs wait.
func (b *bench) queued(ctx context.Context, c *cluster, n *norn, jobs int) error {
	what := fmt.Sprintf("%d Jobs wait", jobs)
	tell := func(figure string, took []time.Duration) {
		ms := median(took, func(d *time.Duration) float64 { return float64(*d) / 1e6 })
		b.add(row{Bar: "queue", Scenario: what, What: figure, Norn: ms, Bound: "100 ms", Met: ms < 100})
	}
	for _, args := range [][]string{{"ps"}, {"why", space + "/j00005"}} {
		var took []time.Duration
		for range 7 {
			began := time.Now()
			out, err := exec.CommandContext(ctx, b.bin("norn"), append(args, "--server", n.socket)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("norn %s: %w\n%s", args[0], err, out)
			}
			took = append(took, time.Since(began))
		}
		tell("norn "+args[0]+", the whole program, ms", took)
	}
	resumed, err := c.resumptions(ctx)
	if err != nil {
		return err
	}
	before, err := n.metrics()
	if err != nil {
		return err
	}
	var took []time.Duration
	none := int64(0)
	for i := range 10 {
		began := time.Now()
		if err := c.client.CoreV1().Pods(space).Delete(ctx, fmt.Sprintf("full%05d", i), meta.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
			return err
		}
		select {
		case at := <-resumed:
			took = append(took, at.Sub(began))
		case <-time.After(time.Minute):
			return errors.New("no Job follows on one that ended")
		}
	}
	tell("a pod deleted to the next Job resumed, ms", took)
	after, err := n.metrics()
	if err != nil {
		return err
	}
	const name = "norn_decision_seconds"
	mean := (after[name+"_sum"] - before[name+"_sum"]) / (after[name+"_count"] - before[name+"_count"])
	tell("a decision of the policy, mean, ms", []time.Duration{time.Duration(mean * 1e9)})
	return nil
}
