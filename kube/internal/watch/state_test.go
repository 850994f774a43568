package watch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/norn-scheduler/norn/kube/internal/demand"
	"github.com/norn-scheduler/norn/kube/names"
)

// story is a history of a cluster, told to a state.
type story struct {
	*state
	now time.Time
}

func tell(opts Options) *story {
	opts.Ours, opts.Whole = named, 10*time.Second
	return &story{state: newState(opts), now: time.Unix(0, 0)}
}

func (s *story) after(seconds int) { s.now = s.now.Add(time.Duration(seconds) * time.Second) }

// has notes a node with GPUs, 8 cores and 4 pods.
func (s *story) has(name string, gpus int64) {
	s.node(&core.Node{ObjectMeta: meta.ObjectMeta{Name: name}, Status: core.NodeStatus{Allocatable: amounts(gpus, 8, 4)}}, false)
}

func amounts(gpus, cores, pods int64) core.ResourceList {
	out := core.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI), core.ResourceCPU: *resource.NewQuantity(cores, resource.DecimalSI)}
	if pods > 0 {
		out[core.ResourcePods] = *resource.NewQuantity(pods, resource.DecimalSI)
	}
	return out
}

// change changes a pod.
type change func(*core.Pod)

func on(node string) change { return func(p *core.Pod) { p.Spec.NodeName = node } }

func asks(gpus, cores int64) change {
	return func(p *core.Pod) {
		p.Spec.Containers = []core.Container{{Resources: core.ResourceRequirements{Requests: amounts(gpus, cores, 0)}}}
	}
}

func ended(phase core.PodPhase) change {
	return func(p *core.Pod) {
		p.Status.Phase, p.Status.ContainerStatuses = phase, []core.ContainerStatus{{}}
	}
}

func rejected(p *core.Pod) { p.Status.Phase = core.PodFailed }

func leaves(p *core.Pod) { p.DeletionTimestamp = &meta.Time{} }

func others(p *core.Pod) { p.Spec.SchedulerName = "default-scheduler" }

func has(devices string) change {
	return func(p *core.Pod) { p.Annotations[names.Devices] = devices }
}

func noted(key string) change { return func(p *core.Pod) { p.Annotations[key] = "x" } }

func of(gang string, size int) change {
	return func(p *core.Pod) {
		p.Labels, p.Annotations[names.GangSize] = map[string]string{names.Gang: gang}, strconv.Itoa(size)
	}
}

func controlledBy(job string) change {
	yes := true
	return func(p *core.Pod) {
		p.OwnerReferences = []meta.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job, UID: types.UID(job), Controller: &yes}}
	}
}

// is tells a version of a pod: ours, not bound, unless changes say otherwise.
func (s *story) is(name string, changes ...change) {
	s.state.pod(s.now, made(name, changes), false)
}

// was tells that a pod is gone, and how it was last.
func (s *story) was(name string, changes ...change) {
	s.state.pod(s.now, made(name, changes), true)
}

func made(name string, changes []change) *core.Pod {
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), Annotations: map[string]string{}}, Spec: core.PodSpec{SchedulerName: names.Scheduler}}
	for _, c := range changes {
		c(p)
	}
	return p
}

// runs tells of a Job with so many pods at once and in all.
func (s *story) runs(name string, parallelism, completions int32) {
	s.job(&batch.Job{ObjectMeta: meta.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: batch.JobSpec{Parallelism: &parallelism, Completions: &completions}}, false)
}

// TestState: each broken promise is found, and nothing where all are kept.
func TestState(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  Options
		story func(*story)
		want  []string // parts of the violations, in order
	}{
		{"two pods share a node", Options{}, func(s *story) {
			s.is("p", asks(4, 4), on("n"))
			s.is("q", asks(4, 4), on("n"))
		}, nil},
		{"one GPU too many", Options{}, func(s *story) {
			s.is("p", asks(5, 1), on("n"))
			s.is("q", asks(4, 1))
			s.is("q", asks(4, 1), on("n"))
			s.is("q", asks(4, 1), on("n"), noted("other")) // told once
		}, []string{"node n: 9 of 8 nvidia.com/gpu are booked, since pod a/q of scheduler \"norn\" was bound"}},
		{"a device on two pods", Options{}, func(s *story) {
			s.is("p", asks(2, 1), on("n"), has("0,1"))
			s.is("q", asks(1, 1), on("n"), has("2"))
			s.is("p", asks(2, 1), on("n"), has("0,1"), ended(core.PodSucceeded))
			s.is("r", asks(1, 1), on("n"), has("1"))
			s.is("x", asks(1, 1), on("n"), has("2"))
		}, []string{"device 2 of node n is noted on pod a/x and on pod a/q"}},
		{"cores and pods", Options{}, func(s *story) {
			for i := range 5 {
				s.is(fmt.Sprint(i), asks(0, 2), on("n"))
			}
		}, []string{"node n: 10000 of 8000 cpu are booked, 5 of 4 pods are booked"}},
		{"a pod that leaves holds its GPUs", Options{}, func(s *story) {
			s.is("p", asks(8, 1), on("n"), leaves)
			s.is("q", asks(1, 1), on("n"))
		}, []string{"9 of 8 nvidia.com/gpu"}},
		{"one that has ended does not, nor one that is gone", Options{}, func(s *story) {
			s.is("p", asks(8, 1), on("n"))
			s.is("p", asks(8, 1), on("n"), ended(core.PodFailed))
			s.is("q", asks(8, 1), on("n"))
			s.was("q", asks(8, 1), on("n"))
			s.is("r", asks(8, 1), on("n"))
		}, nil},
		{"a pod grows in place", Options{}, func(s *story) {
			s.is("p", asks(8, 4), on("n"))
			s.is("p", asks(8, 9), on("n"))
			s.is("p", asks(8, 1), on("n"))
		}, []string{"9000 of 8000 cpu"}},
		{"a node shrinks under its pods", Options{}, func(s *story) {
			s.is("p", asks(8, 4), on("n"))
			s.has("n", 0)
			s.is("p", asks(8, 4), on("n"), leaves)
		}, nil},
		{"no such node", Options{}, func(s *story) { s.is("p", on("m")) }, []string{"node m: the node is not there"}},
		{"a gang bound within its time", Options{}, func(s *story) {
			s.is("p", of("g", 2), on("n"))
			s.after(9)
			s.is("q", of("g", 2), on("n"))
			s.after(90)
		}, nil},
		{"half a gang", Options{}, func(s *story) {
			s.is("p", of("g", 2), on("n"))
			s.is("q", of("g", 2))
			s.after(11)
			s.check(s.now)
			s.after(11)
		}, []string{"gang a/g: 1 of 2 pods are bound, for more than 10s"}},
		{"half a gang, and what is told to end is no part of it", Options{}, func(s *story) {
			s.is("p", of("g", 2), on("n"))
			s.is("q", of("g", 2), on("n"))
			s.after(90)
			s.is("q", of("g", 2), on("n"), leaves)
			s.after(11)
		}, []string{"1 of 2 pods"}},
		{"half a gang, as the kubelet rejects one", Options{}, func(s *story) {
			s.is("p", of("g", 2), on("n"))
			s.is("q", of("g", 2), on("n"))
			s.is("q", of("g", 2), on("n"), rejected)
			s.after(11)
		}, []string{"1 of 2 pods"}},
		{"a gang released in time, and bound again", Options{}, func(s *story) {
			s.is("p", of("g", 2), on("n"))
			s.after(9)
			s.was("p", of("g", 2), on("n"))
			s.after(9)
			s.is("p2", of("g", 2), on("n"))
			s.after(9)
			s.is("q", of("g", 2), on("n"))
			s.after(90)
		}, nil},
		{"a member that ends by itself", Options{}, func(s *story) {
			s.is("p", of("g", 2), on("n"))
			s.is("q", of("g", 2), on("n"))
			s.is("q", of("g", 2), on("n"), ended(core.PodSucceeded))
			s.was("q", of("g", 2), on("n"), ended(core.PodSucceeded))
			s.after(90)
		}, nil},
		{"but not one of the run before", Options{}, func(s *story) {
			s.is("p", of("g", 2), on("n"))
			s.is("q", of("g", 2), on("n"))
			s.is("q", of("g", 2), on("n"), ended(core.PodFailed))
			s.is("p", of("g", 2), on("n"), leaves)
			s.is("p2", of("g", 2), on("n"))
			s.after(11)
		}, []string{"1 of 2 pods"}},
		{"half a Job", Options{}, func(s *story) {
			s.is("p", controlledBy("j"), on("n"))
			s.runs("j", 3, 8) // told late
			s.is("q", controlledBy("j"), on("n"))
			s.after(11)
		}, []string{"job a/j: 2 of 3 pods"}},
		{"a Job that needs fewer pods in all", Options{}, func(s *story) {
			s.runs("j", 3, 1)
			s.is("p", controlledBy("j"), on("n"))
			s.after(11)
		}, nil},
		{"a Job that is suspended, whose pods leave slowly", Options{}, func(s *story) {
			s.runs("j", 2, 2)
			s.is("p", controlledBy("j"), on("n"))
			s.is("q", controlledBy("j"), on("n"))
			yes := true
			s.job(&batch.Job{ObjectMeta: meta.ObjectMeta{UID: "j"}, Spec: batch.JobSpec{Suspend: &yes}}, false)
			s.was("q", controlledBy("j"), on("n"))
			s.after(11)
		}, nil},
		{"a Job of others", Options{}, func(s *story) {
			s.runs("j", 3, 3)
			s.is("p", controlledBy("j"), on("n"), others)
			s.after(11)
		}, nil},
		{"a pod of others with our annotation", Options{}, func(s *story) {
			s.is("p", others, noted(names.Plan))
			s.is("p", others, noted(names.Plan), noted(names.Run))
		}, []string{`pod a/p names scheduler "default-scheduler" and was given annotation ` + names.Run}},
		{"a pod of others, bound by others", Options{}, func(s *story) {
			s.is("p", others)
			s.is("p", others, on("n"))
		}, nil},
		{"a pod of others, bound though there are none", Options{Alone: true}, func(s *story) {
			s.is("p", others)
			s.is("p", others, on("n"))
		}, []string{`pod a/p names scheduler "default-scheduler" and was bound to n`}},
		{"a pod at our gate", Options{Alone: true}, func(s *story) {
			s.is("p", others, func(p *core.Pod) { p.Spec.SchedulingGates = []core.PodSchedulingGate{{Name: names.Gate}} }, noted(names.Plan))
		}, nil},
	} {
		s := tell(c.opts)
		s.has("n", 8)
		c.story(s)
		s.check(s.now)
		ok := len(s.wrong) == len(c.want)
		for i := range min(len(s.wrong), len(c.want)) {
			ok = ok && strings.Contains(s.wrong[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: %q, want %q", c.name, s.wrong, c.want)
		}
	}
}

// TestLate: where the news of a node is late, the API is asked before a complaint.
func TestLate(t *testing.T) {
	s := tell(Options{})
	s.has("n", 1)
	s.lookup = func(node string) (demand.Resources, bool) { return demand.List(amounts(8, 8, 4)), node == "n" }
	s.is("p", asks(8, 1), on("n"))
	if len(s.wrong) > 0 {
		t.Errorf("%q", s.wrong)
	}
	s.is("q", asks(1, 1), on("n"))
	s.is("r", asks(1, 1), on("m"))
	if len(s.wrong) != 2 {
		t.Errorf("%q", s.wrong)
	}
}

// TestOutside: writes outside the list of what is allowed are found, counted are those
// that took place.
func TestOutside(t *testing.T) {
	bind := Write{User: "norn", Verb: "create", Resource: "pods", Subresource: "binding", Namespace: "a", Name: "p", Code: 201}
	refused := bind
	refused.Code = 409
	jobs := Write{User: "norn", Verb: "patch", Resource: "jobs.batch", Namespace: "a", Name: "j", Code: 200}
	secret := Write{User: "norn", Verb: "create", Resource: "secrets", Namespace: "a", Code: 403}
	user := Write{User: "admin", Verb: "delete", Resource: "pods", Namespace: "a", Name: "p", Code: 200}
	writes := []Write{bind, refused, jobs, secret, user}
	got := Outside(By(writes, "norn"), "create pods/binding", "patch jobs.batch")
	if want := []string{"norn wrote outside its list: create secrets a/, answered 403"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Count(writes); len(got) != 3 || got["create pods/binding"] != 1 || got["patch jobs.batch"] != 1 || got["delete pods"] != 1 {
		t.Errorf("%v", got)
	}
	s := tell(Options{})
	s.is("p", others)
	s.is("j", others) // a pod that is named as the Job
	want := []string{
		`norn touched pod a/p of scheduler "default-scheduler": create pods/binding, answered 201`,
		`norn touched pod a/p of scheduler "default-scheduler": create pods/binding, answered 409`,
	}
	if got := s.wrote(writes, "norn"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
