package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
)

// restart starts a Norn in a large cluster in which another one has led before: each node is
// full of a Job of 8 pods, but one, and as many Jobs wait as run.
func (b *bench) restart(ctx context.Context) (err error) {
	nodes := max(2, 5000/b.divide)
	c, err := start(ctx, shape{nodes: nodes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	b.say("%d nodes are there", nodes)
	if err := b.past(ctx, c, nodes); err != nil {
		return err
	}
	resumed, err := c.resumptions(ctx)
	if err != nil {
		return err
	}
	n, err := b.launchNorn(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	select {
	case <-resumed:
	case <-time.After(10 * time.Minute):
		return fmt.Errorf("no job is resumed\n%s", n.said.String())
	case <-ctx.Done():
		return ctx.Err()
	}
	took := time.Since(n.began)
	if err := n.ready(ctx); err != nil {
		return err
	}
	m, err := n.metrics()
	if err != nil {
		return err
	}
	what := fmt.Sprintf("restart with %d nodes, %d pods, %d Jobs", nodes, (nodes-1)*jobPods, 2*nodes)
	const most = 1 << 30
	heap := m["go_memstats_heap_inuse_bytes"]
	b.add(row{Bar: "B6", Scenario: what, What: "start of the process to the first decision in the API, s", Norn: took.Seconds(), Bound: "10 s", Met: took < 10*time.Second})
	b.add(row{Bar: "B6", Scenario: what, What: "heap in use, MiB", Norn: heap / (1 << 20), Bound: "1,024 MiB", Met: heap < most})
	b.add(row{Bar: "B6", Scenario: what, What: "CPU of norn until then, s", Norn: n.used().cpu.Seconds()})
	return nil
}

// past makes what an earlier Norn has left behind, and waits until all pods run.
func (b *bench) past(ctx context.Context, c *cluster, nodes int) error {
	err := each(2*nodes, clients, func(i int) error {
		runs := i < nodes-1
		name := fmt.Sprintf("j%05d", i)
		return c.makeJob(ctx, name, jobPods, 1, func(j *batch.Job) {
			if runs {
				plan := convert.Plan{Run: 1}
				for range jobPods {
					plan.Nodes = append(plan.Nodes, fmt.Sprintf("n-%03d", i))
				}
				no := false
				j.Spec.Suspend, j.Annotations = &no, map[string]string{names.Run: "1", names.Plan: plan.String()}
			} else {
				j.Labels[waiting] = "true"
			}
		})
	})
	if err != nil {
		return err
	}
	b.say("%d Jobs are there", 2*nodes)
	jobs, err := c.client.BatchV1().Jobs(space).List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	uids := map[string]*batch.Job{}
	for i := range jobs.Items {
		uids[jobs.Items[i].Name] = &jobs.Items[i]
	}
	yes := true
	err = each((nodes-1)*jobPods, clients, func(i int) error {
		job := uids[fmt.Sprintf("j%05d", i/jobPods)]
		p := &core.Pod{ObjectMeta: meta.ObjectMeta{
			Namespace: space, Name: fmt.Sprintf("%s-%d", job.Name, i%jobPods), Labels: map[string]string{jobLabel: job.Name},
			Annotations:     map[string]string{names.Run: "1", names.Devices: fmt.Sprint(i % jobPods), batch.JobCompletionIndexAnnotation: fmt.Sprint(i % jobPods)},
			OwnerReferences: []meta.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: &yes}},
		}, Spec: job.Spec.Template.Spec}
		p.Spec.NodeName = fmt.Sprintf("n-%03d", i/jobPods)
		return c.makePod(ctx, p)
	})
	if err != nil {
		return err
	}
	b.say("%d pods are there", (nodes-1)*jobPods)
	return until(ctx, "all pods run", 20*time.Minute, func() (bool, error) {
		_, running, _ := c.count()
		return running >= (nodes-1)*jobPods, nil
	})
}

// waiting is a label of Jobs that wait.
const waiting = "waiting"

// resumptions tells when a Job that waits is resumed, one message for each.
func (c *cluster) resumptions(ctx context.Context) (<-chan time.Time, error) {
	out := make(chan time.Time, 1<<16)
	seen := map[string]bool{}
	var mu sync.Mutex
	see := func(o any) {
		j, is := o.(*batch.Job)
		if !is || j.Spec.Suspend != nil && *j.Spec.Suspend {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !seen[j.Name] {
			seen[j.Name] = true
			out <- time.Now()
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(c.client.BatchV1().RESTClient(), "jobs", space, func(o *meta.ListOptions) {
			o.LabelSelector = labels.Set{waiting: "true"}.String()
		}),
		ObjectType: &batch.Job{},
		Handler:    cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }},
	})
	go informer.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, ctx.Err()
	}
	return out, nil
}

// auditLine is what a line of the audit log says.
type auditLine struct {
	UserAgent string `json:"userAgent"`
	Verb      string `json:"verb"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
}

// parseAudit reads a line of the audit log.
func parseAudit(line []byte) (a auditLine, err error) {
	err = json.Unmarshal(line, &a)
	return a, err
}
