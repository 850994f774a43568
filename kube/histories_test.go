package kube_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/norn-scheduler/norn/api/server"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/engine"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/experiment"
	"github.com/norn-scheduler/norn/internal/history"
	"github.com/norn-scheduler/norn/internal/history/historytest"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/internal/fakekubelet"
	"github.com/norn-scheduler/norn/kube/internal/testenv"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/sim/simtest"
	"github.com/norn-scheduler/norn/state"
	"github.com/norn-scheduler/norn/tenant"
)

// leastPlayed is how many histories a cluster must at least be able to play, so that this
// test cannot come to nothing unnoticed.
const leastPlayed = 26

// TestHistories plays the histories that the simulator plays in a cluster, in which a second
// is some hundredths of one, and compares what the event log tells (test T2). Each has nodes
// and a Norn of its own, all of them one control plane.
func TestHistories(t *testing.T) {
	t.Parallel()
	stage := &theatre{env: testenv.Start(t, testenv.ControllerManager(testenv.Raised()...)), began: map[string]time.Duration{}}
	var err error
	if stage.opt.Client, err = kube.Client(stage.env.Config()); err != nil {
		t.Fatal(err)
	}
	seconds := []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second}
	var plays atomic.Int32
	t.Run("all", func(t *testing.T) { // so that the control plane goes on until all are played
		historytest.Play(t, historytest.Stories(t, "../internal/history/testdata"), leastPlayed, 6, seconds, notHere, func(t *testing.T, s *historytest.Story, second time.Duration) []string {
			p := &play{theatre: stage, t: t, h: s.Play, prefix: fmt.Sprintf("h%d-", plays.Add(1)), second: second}
			return p.run(s.Leave())
		})
	})
}

// notHere is why a history cannot be played in a cluster; empty: it can.
func notHere(h *history.History) string {
	site, err := h.Spec.Build()
	switch {
	case err != nil:
		return err.Error()
	case h.Exact:
		return "it needs an exact clock"
	case slices.Contains(site.Cluster.SlotNames(), "pods"):
		return "it counts pods, of which each task of a cluster is one"
	case site.Cluster.Pools() > 1:
		return "it has partitions"
	case h.Snapshot != 0 || h.Spread != 0 || h.Costs.Base.Migrate != 0 || h.Costs.Base.Resize != 0:
		return "jobs save their state when they are told to, and their speed is what it is"
	}
	for i := range cluster.NodeID(site.Cluster.Nodes()) {
		n, f := site.Cluster.Node(i), site.Cluster.Foreign(i)
		switch {
		case n.Pooled:
			return "it counts its GPUs, which a cluster tells apart"
		case len(n.GPUs) > 1 || site.Cluster.Type(n.GPUs[0].Type).Speed != 0 && site.Cluster.Type(n.GPUs[0].Type).Speed != 1:
			return "it has GPUs of several speeds in a node"
		case !f.None() || n.Domain != 0:
			return "others use its nodes as well, or these stand in racks"
		}
	}
	for _, w := range h.Happens {
		if !slices.Contains([]string{"drain", "up", "cancel", "hold", "free"}, w.What) {
			return "it needs: " + w.What
		}
	}
	for i := range h.Jobs {
		if why := notAJob(&h.Jobs[i]); why != "" {
			return "job " + h.Jobs[i].Key + " " + why
		}
	}
	return ""
}

// notAJob is why a job of a history cannot be a Job; empty: it can.
func notAJob(j *simtest.Job) string {
	var spec job.Job
	j.Spec(&spec)
	r := &j.Demand.Roles
	switch {
	case len(validation.IsDNS1123Label(j.Key)) > 0:
		return "has a name that no object can have"
	case len(j.Fails) > 0:
		return "fails, and is then up to its controller"
	case r[1].Tasks > 0 || r[0].GPU%unit.One != 0 || r[0].GPU == 0:
		return "has tasks of several sorts, or parts of GPUs"
	case j.Demand.Elastic():
		return "can be resized"
	case spec.Stop == job.Freeze:
		return "is frozen"
	case spec.Priority != 0:
		return "has a priority, which Jobs have from a class"
	case j.Model != "":
		return "tells its model, which Jobs do not"
	case j.Demand.Types != "":
		return "asks for types, which Jobs do by labels: that is told in other words"
	}
	return ""
}

// theatre is where histories are played.
type theatre struct {
	env *testenv.Env
	opt kube.Options

	mu    sync.Mutex
	began map[string]time.Duration // by job: how much longer its runs have taken than its work
}

// play is one history as it is played.
type play struct {
	*theatre
	t      *testing.T
	h      *history.History
	prefix string // of the names of its nodes and jobs
	second time.Duration
	origin time.Time

	*kube.Daemon
}

// run plays the history until so many jobs have left, and returns what the event log tells.
func (p *play) run(left int) []string {
	t := p.t
	p.nodes()
	choice, err := historytest.Scaled(p.h.Choice, p.second)
	if err != nil {
		t.Fatal(err)
	}
	p.origin = time.Now()
	opt := p.opt
	opt.Name, opt.State, opt.Policy, opt.Origin, opt.Log = "play", t.TempDir(), choice, p.origin, slog.New(slog.NewTextHandler(&logTo{t: t}, nil))
	opt.Scheduler, opt.Nodes = p.prefix+"norn", labels.SelectorFromSet(labels.Set{"history": p.prefix + "x"})
	opt.Tenants = func() (*tenant.Tree, error) {
		site, err := p.h.Spec.Build()
		return site.Tenants, err
	}
	if p.Daemon, err = kube.Open(background, opt); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, stop := newContext()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	p.conduct()
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s, err := p.Status(background)
		if err != nil {
			t.Fatal(err)
		}
		if s.Ended >= left {
			break
		}
		if time.Now().After(deadline) {
			t.Logf("only %d of %d jobs have ended", s.Ended, left)
			break
		}
	}
	lines := p.lines()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	p.clear()
	return lines
}

// nodes makes the nodes of the history, and what runs pods on them.
func (p *play) nodes() {
	site, err := p.h.Spec.Build()
	if err != nil {
		p.t.Fatal(err)
	}
	c := site.Cluster
	var all []fakekubelet.Node
	for i := range cluster.NodeID(c.Nodes()) {
		n := c.Node(i)
		r := fakekubelet.Shape(int64(n.GPUs[0].Count), 1000, 10_000, 10_000)
		if n.CPU > 0 {
			r["cpu"] = *resource.NewMilliQuantity(int64(n.CPU), resource.DecimalSI)
		}
		if n.Memory > 0 {
			r["memory"] = *resource.NewQuantity(int64(n.Memory), resource.BinarySI)
		}
		for k, name := range c.SlotNames() {
			r[resourceOf(name)] = *resource.NewQuantity(n.Slots[k], resource.DecimalSI)
		}
		l := map[string]string{"history": p.prefix + "x"}
		if name := c.Type(n.GPUs[0].Type).Name; name != "" {
			l["nvidia.com/gpu.product"] = name
		}
		all = append(all, fakekubelet.Node{Name: p.prefix + n.Name, Labels: l, Resources: r})
	}
	k, err := fakekubelet.Start(background, p.env.Config(), fakekubelet.Options{Nodes: all, Factor: 1, Behave: p.behave})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(k.Stop)
}

// resourceOf is what a counted resource of a history is called in a cluster.
func resourceOf(slot string) core.ResourceName {
	if slot == "pods" {
		return core.ResourcePods
	}
	return core.ResourceName("example.com/" + slot)
}

// behave is what a pod does: its work counts from the moment at which its run was decided, as
// in the simulator, and not from when its kubelet has come so far.
func (p *play) behave(pod *core.Pod) fakekubelet.Behaviour {
	b := fakekubelet.Annotated(pod)
	owner := meta.GetControllerOf(pod)
	if owner == nil {
		return b
	}
	j, err := p.opt.Client.BatchV1().Jobs(pod.Namespace).Get(background, owner.Name, meta.GetOptions{})
	if err != nil {
		return b
	}
	ev, err := convert.ParseRecord(j.Annotations[names.Record])
	if err != nil {
		return b
	}
	late := time.Since(p.origin) - ev.Record.Since
	cost := p.h.Costs.Base.Restore
	if ev.Record.Starts <= 1 {
		cost = p.h.Costs.Base.Start
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := string(pod.UID) + "/"
	whole := string(owner.UID) + pod.Annotations["batch.kubernetes.io/job-completion-index"]
	if _, known := p.began[key]; !known {
		p.began[key] = 0
		p.began[whole] += time.Duration(float64(cost.Seconds())*float64(p.second)) - late
	}
	b.Work = max(0, b.Work+p.began[whole])
	return b
}

// conduct submits the jobs and has happen what befalls them, each at its time.
func (p *play) conduct() {
	at := func(seconds float64) time.Time { return p.origin.Add(time.Duration(seconds * float64(p.second))) }
	jobs := p.h.Jobs
	submit := func(until float64) {
		for len(jobs) > 0 && jobs[0].At <= until {
			time.Sleep(time.Until(at(jobs[0].At)))
			n := 1
			for n < len(jobs) && jobs[n].At == jobs[0].At {
				n++
			}
			p.together(jobs[:n])
			jobs = jobs[n:]
		}
	}
	for _, w := range p.h.Happens {
		submit(w.At)
		time.Sleep(time.Until(at(w.At)))
		if err := p.befall(&w); err != nil {
			p.t.Logf("at %v %s %s: %v", w.At, w.What, w.Name, err) // it comes too late: the lines will tell
		}
	}
	submit(math.Inf(1))
}

// together makes jobs of one moment, and has Norn see all of them before it decides.
func (p *play) together(jobs []simtest.Job) {
	err := p.Loop.Ask(background, func() error {
		for i := range jobs {
			p.submit(&jobs[i])
		}
		for range 500 {
			if p.Watches("default/" + p.prefix + jobs[len(jobs)-1].Key) {
				return nil
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	if err != nil {
		p.t.Error(err)
	}
}

// submit makes a job of the history.
func (p *play) submit(j *simtest.Job) {
	var spec job.Job
	j.Spec(&spec)
	role := &j.Demand.Roles[0]
	pods, indexed, yes, none, grace := role.Tasks, batch.IndexedCompletion, true, int32(0), int64(600)
	span := func(seconds float64) string { return time.Duration(seconds * float64(p.second)).String() }
	notes := map[string]string{fakekubelet.RunTime: span(j.Run)}
	if spec.Stop == job.Checkpoint {
		notes[fakekubelet.SaveTime] = span(p.h.Costs.Base.Checkpoint.Seconds())
	}
	owner := map[string]string{}
	switch p.h.Estimate {
	case experiment.Oracle:
		owner[names.Estimate] = span(j.Run)
	case experiment.User:
		if spec.Estimate > 0 {
			owner[names.Estimate] = span(spec.Estimate.Seconds())
		}
	}
	r := core.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(role.GPU/unit.One), resource.DecimalSI)}
	if role.CPU > 0 {
		r["cpu"] = *resource.NewMilliQuantity(int64(role.CPU), resource.DecimalSI)
	}
	if role.Memory > 0 {
		r["memory"] = *resource.NewQuantity(int64(role.Memory), resource.BinarySI)
	}
	for name, n := range role.Slots.All() {
		if name != "pods" {
			r[resourceOf(name)] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	pod := core.PodSpec{
		SchedulerName: p.prefix + "norn", RestartPolicy: core.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
		Containers: []core.Container{{Name: "c", Image: "x", Resources: core.ResourceRequirements{Requests: r, Limits: r}}},
	}
	if j.Demand.Types != "" {
		pod.Affinity = &core.Affinity{NodeAffinity: &core.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &core.NodeSelector{
			NodeSelectorTerms: []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{{
				Key: "nvidia.com/gpu.product", Operator: core.NodeSelectorOpIn, Values: strings.Split(j.Demand.Types, "|"),
			}}}},
		}}}
	}
	l := map[string]string{names.Stop: spec.Stop.String()}
	if j.Tenant != "" {
		l[names.Queue] = j.Tenant
	}
	name := p.prefix + j.Key
	_, err := p.opt.Client.BatchV1().Jobs("default").Create(background, &batch.Job{
		ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name, Labels: l, Annotations: owner},
		Spec: batch.JobSpec{
			Suspend: &yes, Parallelism: &pods, Completions: &pods, CompletionMode: &indexed, BackoffLimit: &none,
			Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Annotations: notes}, Spec: pod},
		},
	}, meta.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
}

// befall does what happens in the history.
func (p *play) befall(w *history.Happening) error {
	id := "default/" + p.prefix + w.Name
	switch w.What {
	case "drain", "up":
		body := fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, w.What == "drain")
		_, err := p.opt.Client.CoreV1().Nodes().Patch(background, p.prefix+w.Name, "application/merge-patch+json", []byte(body), meta.PatchOptions{})
		return err
	case "cancel":
		return p.Do(background, me, server.Cancel, id)
	case "hold":
		return p.Do(background, me, server.Hold, id)
	case "free":
		return p.Do(background, me, server.Release, id)
	}
	return fmt.Errorf("%s is not known here", w.What)
}

// clear deletes what is left of the jobs of the history.
func (p *play) clear() {
	how := meta.DeletePropagationBackground
	for i := range p.h.Jobs {
		p.opt.Client.BatchV1().Jobs("default").Delete(background, p.prefix+p.h.Jobs[i].Key, meta.DeleteOptions{PropagationPolicy: &how})
	}
}

// lines are what the event log tells, with the names of the history.
func (p *play) lines() []string {
	var all bytes.Buffer
	if err := p.Log(background, me, &all); err != nil {
		p.t.Fatal(err)
	}
	r, err := eventlog.NewReader(&all, "log")
	if err != nil {
		p.t.Fatal(err)
	}
	c, tenants, err := r.Header.Build()
	if err != nil {
		p.t.Fatal(err)
	}
	s := state.New(c, tenants)
	var out []string
	for ev := (eventlog.Event{}); ; {
		if err := r.Next(&ev); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			p.t.Fatal(err)
		}
		if err := engine.Apply(s, &ev); err != nil {
			p.t.Fatal(err)
		}
		if ev.Kind == eventlog.NodeAdd || ev.Kind == eventlog.Carry || ev.Kind == eventlog.NodeLabels { // labels come from the node controller
			continue
		}
		line := simtest.Line(&ev, s)
		for _, prefix := range []string{"default/" + p.prefix, p.prefix, "example.com/"} {
			line = strings.ReplaceAll(line, prefix, "")
		}
		at, rest, _ := strings.Cut(line, " ")
		if v, err := strconv.ParseFloat(at, 64); err == nil {
			line = strconv.FormatFloat(v/p.second.Seconds(), 'f', 2, 64) + " " + rest
		}
		out = append(out, line)
	}
}
