package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/names"
)

// cluster is a control plane of its own with nodes that do not exist, and a user.
type cluster struct {
	dir     string
	env     *testenv.Env
	client  kubernetes.Interface
	kubelet *fakekubelet.Kubelet
	*series
	end context.CancelFunc
}

// shape says what a cluster is made of.
type shape struct {
	nodes   int
	factor  float64 // virtual seconds of pods in a real one; 0: 1
	options []testenv.Option
}

// gpus is how many GPUs a node has.
const gpus = 8

// start starts a cluster, with all nodes ready and nothing on them.
func start(ctx context.Context, s shape) (c *cluster, err error) {
	c = &cluster{}
	if c.dir, err = os.MkdirTemp("", "nkb-"); err != nil { // short enough for sockets
		return nil, err
	}
	ctx, c.end = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if c.env, err = testenv.Run(ctx, c.dir, s.options...); err != nil {
		return c, err
	}
	if c.client, err = kube.Client(c.env.Config()); err != nil {
		return c, err
	}
	nodes := fakekubelet.Nodes("n", s.nodes, fakekubelet.Shape(gpus, 128, 1024, 110), map[string]string{"nvidia.com/gpu.product": "H100"})
	c.kubelet, err = fakekubelet.Start(ctx, c.env.Config(), fakekubelet.Options{Nodes: nodes, Factor: s.factor, Heartbeat: -1})
	if err != nil {
		return c, err
	}
	c.series, err = follow(ctx, c.client)
	return c, err
}

// spent is the CPU time of the API server and of etcd so far.
func (c *cluster) spent() time.Duration {
	return readStat(c.env.APIServer().PID()).cpu + readStat(c.env.Etcd().PID()).cpu
}

// stop ends a cluster and removes its files.
func (c *cluster) stop() error {
	c.end()
	var errs []error
	if c.kubelet != nil {
		c.kubelet.Stop()
	}
	if c.env != nil {
		errs = append(errs, c.env.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

// clients is how many users make objects at a time.
const clients = 16

// each calls f with the numbers below n, several at a time, until one fails.
func each(n, workers int, f func(i int) error) error {
	var (
		all  sync.WaitGroup
		next atomic.Int64
		once sync.Once
		bad  error
	)
	for range workers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					once.Do(func() { bad = err })
					next.Store(int64(n))
					return
				}
			}
		})
	}
	all.Wait()
	return bad
}

// podSpec is what a pod with some GPUs runs.
func podSpec(scheduler string, count int64) core.PodSpec {
	grace := int64(30)
	r := core.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"), fakekubelet.GPU: *resource.NewQuantity(count, resource.DecimalSI)}
	return core.PodSpec{
		SchedulerName: scheduler, RestartPolicy: core.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
		Containers: []core.Container{{Name: "c", Image: "x", Resources: core.ResourceRequirements{Requests: r, Limits: r}}},
	}
}

// gangPod is a pod of one GPU, one of a gang of so many; a gang of one is a single pod.
func gangPod(scheduler string, i, gang int) *core.Pod {
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: space, Name: fmt.Sprintf("p%05d", i)}, Spec: podSpec(scheduler, 1)}
	if gang > 1 {
		p.Labels = map[string]string{names.Gang: fmt.Sprintf("g%05d", i/gang)}
		p.Annotations = map[string]string{names.GangSize: fmt.Sprint(gang)}
	}
	return p
}

// space is the namespace of all pods.
const space = "default"

// makePod makes a pod, and notes when that began.
func (c *cluster) makePod(ctx context.Context, p *core.Pod) error {
	c.begin(p.Name)
	_, err := c.client.CoreV1().Pods(p.Namespace).Create(ctx, p, meta.CreateOptions{})
	return err
}

// makeJob makes a suspended Indexed Job of some pods, which Norn admits.
func (c *cluster) makeJob(ctx context.Context, name string, pods int32, count int64, change func(*batch.Job)) error {
	indexed, yes := batch.IndexedCompletion, true
	j := &batch.Job{
		ObjectMeta: meta.ObjectMeta{Namespace: space, Name: name, Labels: map[string]string{names.Queue: "team"}},
		Spec: batch.JobSpec{
			Suspend: &yes, Parallelism: &pods, Completions: &pods, CompletionMode: &indexed,
			Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: map[string]string{jobLabel: name}, Annotations: map[string]string{}}, Spec: podSpec(names.Scheduler, count)},
		},
	}
	if change != nil {
		change(j)
	}
	c.begin(name)
	_, err := c.client.BatchV1().Jobs(space).Create(ctx, j, meta.CreateOptions{})
	return err
}

// jobLabel is a label of the pods of a Job: its name.
const jobLabel = "job"

// until waits for something that must come.
func until(ctx context.Context, what string, limit time.Duration, is func() (bool, error)) error {
	for deadline := time.Now().Add(limit); ; {
		switch ok, err := is(); {
		case err != nil:
			return err
		case ok:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("not within %v: %s", limit, what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
