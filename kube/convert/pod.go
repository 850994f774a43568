package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// Ask is what a pod asks for, and where it may be.
type Ask struct {
	Size     podmap.Size // GPUs, cores, memory, counted resources; of the latter one of pods
	Resource string      // by which it asks for its GPUs; empty: it asks for none
	Wish     string      // GPU types that its node selector or affinity name, as Types.Of takes them

	Where, Tolerate string // as in job.Demand
	Within          string // as in job.Demand
	Prefer          bool

	Priority int32
	Ranked   bool   // the number is told
	Class    string // of the priority, where the number is not told yet, as in templates
	Never    bool   // it never preempts others

	Scheduler string        // by whom it is to be bound
	Grace     time.Duration // that it has to leave

	Stop     job.StopMode // by names.Stop
	StopTold bool         // names.Stop is there
	Gates    []string     // its scheduling gates

	// Beyond says in words what only kube-scheduler can see to. Such a pod goes through
	// the gate names.Gate.
	Beyond []string
	// Claims are the volume claims that it uses; those are in Beyond, too. A claim that
	// is bound to a volume that can be used from everywhere needs no kube-scheduler.
	Claims []string
	// Ignored says in words what Norn does not see to.
	Ignored []string
}

// Pod reads what a pod, or a template of pods, asks for. It fails on what no pod can ask
// for, and on what Norn cannot count: GPUs of two resources, more than six counted
// resources, conditions that are too long.
func Pod(spec *corev1.PodSpec, labels, annotations map[string]string, levels Levels) (*Ask, error) {
	out := &Ask{Class: spec.PriorityClassName, Scheduler: spec.SchedulerName, Grace: 30 * time.Second}
	if g := spec.TerminationGracePeriodSeconds; g != nil {
		out.Grace = Bounded(*g)
	}
	var err error
	if err = out.count(spec); err != nil {
		return nil, err
	}
	if out.Where, err = Where(spec); err != nil {
		return nil, err
	}
	if out.Tolerate, out.Ignored, err = Tolerate(spec.Tolerations); err != nil {
		return nil, err
	}
	var ignored []string
	if out.Within, out.Prefer, ignored, err = levels.Within(annotations); err != nil {
		return nil, err
	}
	out.Ignored = append(out.Ignored, ignored...)
	stop := cmp.Or(labels[names.Stop], annotations[names.Stop])
	if out.Stop, err = stopMode(stop); err != nil {
		return nil, err
	}
	out.StopTold = stop != ""
	if spec.Priority != nil {
		out.Priority, out.Ranked, out.Class = *spec.Priority, true, ""
	}
	out.Never = spec.PreemptionPolicy != nil && *spec.PreemptionPolicy == corev1.PreemptNever
	for _, g := range spec.SchedulingGates {
		out.Gates = append(out.Gates, g.Name)
	}
	out.beyond(spec)
	return out, nil
}

// count finds the size of a pod.
func (a *Ask) count(spec *corev1.PodSpec) error {
	sum, err := requests(spec)
	if err != nil {
		return err
	}
	slots := map[string]int64{pods: 1}
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		v := sum[name]
		switch {
		case v == 0:
		case name == podmap.CPU:
			a.Size.CPU = podmap.Milli(v)
		case name == podmap.Memory:
			a.Size.Memory = unit.Bytes(v)
		case podmap.IsGPU(name) || podmap.IsSlice(name):
			if a.Resource != "" {
				return fmt.Errorf("asks for %s and for %s: a pod can have GPUs of one resource", a.Resource, name)
			}
			a.Resource, a.Size.GPU = name, podmap.Milli(v)
		case name != pods:
			slots[name] = int64(v)
		}
	}
	if a.Size.GPU > 1000*unit.One || a.Size.CPU > 1<<40 {
		return fmt.Errorf("asks for an absurd amount of GPUs or cores")
	}
	if a.Resource != "" {
		a.Wish = wish(spec)
	}
	a.Size.Slots, err = job.SlotsOf(slots)
	return err
}

// requests is what a pod asks for all in all, by the rules of podmap.
func requests(spec *corev1.PodSpec) (podmap.Amounts, error) {
	read := func(what string, of *corev1.ResourceRequirements) (podmap.Amounts, error) {
		a, err := amounts(podmap.Asked(of.Requests, of.Limits))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return a, nil
	}
	var sum podmap.Spec
	var err error
	for i := range spec.Containers {
		c := &spec.Containers[i]
		one := podmap.Container{}
		if one.Asks, err = read("container "+c.Name, &c.Resources); err != nil {
			return nil, err
		}
		sum.Containers = append(sum.Containers, one)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		one := podmap.Container{Sidecar: sidecar(c)}
		if one.Asks, err = read("init container "+c.Name, &c.Resources); err != nil {
			return nil, err
		}
		sum.Init = append(sum.Init, one)
	}
	if spec.Resources != nil {
		if sum.Whole, err = amounts(whole(spec.Resources, spec.Containers, spec.InitContainers)); err != nil {
			return nil, fmt.Errorf("the pod as a whole: %w", err)
		}
	}
	if sum.Overhead, err = amounts(spec.Overhead); err != nil {
		return nil, fmt.Errorf("overhead: %w", err)
	}
	all := sum.Amounts()
	for name, v := range all {
		if v > podmap.MaxQuantity {
			return nil, fmt.Errorf("%.0f of %s are more than a pod can ask for", v, name)
		}
	}
	return all, nil
}

// whole is what a pod asks for as a whole: its requests, and its limits of resources for
// which neither it nor any container has a request, as the API server fills them in.
func whole(r *corev1.ResourceRequirements, containers ...[]corev1.Container) corev1.ResourceList {
	all := podmap.Asked(r.Requests, r.Limits)
	for _, some := range containers {
		for i := range some {
			for name := range podmap.Asked(some[i].Resources.Requests, some[i].Resources.Limits) {
				if _, told := r.Requests[name]; !told {
					delete(all, name)
				}
			}
		}
	}
	return all
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// wish are the GPU types that the node selector or the required affinity name.
func wish(spec *corev1.PodSpec) string {
	var affinity [][]podmap.Match
	for _, t := range requiredTerms(spec) {
		var all []podmap.Match
		for _, e := range t.MatchExpressions {
			all = append(all, podmap.Match{Key: e.Key, Operator: string(e.Operator), Values: e.Values})
		}
		affinity = append(affinity, all)
	}
	return podmap.Types(spec.NodeSelector, affinity)
}

// beyond lists what only kube-scheduler can see to, and what nobody does.
func (a *Ask) beyond(spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		switch v := &spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			a.Claims = append(a.Claims, v.PersistentVolumeClaim.ClaimName)
			a.Beyond = append(a.Beyond, "uses the volume claim "+v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			a.Beyond = append(a.Beyond, "uses the ephemeral volume "+v.Name)
		}
	}
	for _, c := range spec.ResourceClaims {
		a.Beyond = append(a.Beyond, "uses the resource claim "+c.Name)
	}
	if f := spec.Affinity; f != nil {
		if f.PodAffinity != nil && len(f.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			a.Beyond = append(a.Beyond, "must be near other pods (pod affinity)")
		}
		if f.PodAntiAffinity != nil && len(f.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			a.Beyond = append(a.Beyond, "must be away from other pods (pod anti-affinity)")
		}
		if f.NodeAffinity != nil && len(f.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
			f.PodAffinity != nil && len(f.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
			f.PodAntiAffinity != nil && len(f.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
			a.Ignored = append(a.Ignored, "preferred affinity")
		}
	}
	for _, t := range spec.TopologySpreadConstraints {
		if t.WhenUnsatisfiable == corev1.ScheduleAnyway {
			a.Ignored = append(a.Ignored, "preferred spread over "+t.TopologyKey)
		} else {
			a.Beyond = append(a.Beyond, "must be spread over "+t.TopologyKey)
		}
	}
	for _, all := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range all {
			for _, p := range all[i].Ports {
				if p.HostPort > 0 {
					a.Beyond = append(a.Beyond, "uses port "+strconv.Itoa(int(p.HostPort))+" of its node")
				}
			}
		}
	}
}

// Set is equal pods of a job.
type Set struct {
	Role  string
	Count int32
	Ask   *Ask
}

// called is what to call the pods of the set, which is number i.
func (s *Set) called(i int) string {
	if s.Role == "" {
		return fmt.Sprintf("pods of set %d", i+1)
	}
	return "pods of role " + s.Role
}

// Demand is the shape of a job that consists of sets of pods: a role for each name and
// size, as podmap.Demand makes them. Pods that may be anywhere go where the others of
// their gang may be. It fails on pods that a demand cannot tell apart: of one gang all may
// be on the same nodes, tolerate the same taints, and use GPUs of one resource.
func Demand(sets []Set, types Types) (job.Demand, error) {
	var d job.Demand
	if len(sets) == 0 {
		return d, fmt.Errorf("it has no pods")
	}
	var all []podmap.Pods
	var gpus, first Set
	first.Ask, gpus.Ask = &Ask{}, &Ask{}
	for i, s := range sets {
		s.Role = s.called(i)
		if i == 0 || first.Ask.Where == "" && s.Ask.Where != "" {
			first = s
		}
		if gpus.Ask.Resource == "" {
			gpus = s
		}
		if err := s.alike(&sets[0], &first, &gpus); err != nil {
			return d, err
		}
		all = append(all, podmap.Pods{Role: sets[i].Role, Count: s.Count, Size: s.Ask.Size})
	}
	d, err := podmap.Demand(all)
	if err != nil {
		return d, err
	}
	d.Where, d.Tolerate, d.Within, d.Prefer = first.Ask.Where, first.Ask.Tolerate, first.Ask.Within, first.Ask.Prefer
	if gpus.Ask.Resource != "" {
		d.Types = types.Of(gpus.Ask.Resource, gpus.Ask.Wish)
	}
	return d, d.Check()
}

// alike says why pods cannot be in one gang with others: with the first set, with the first
// that may not be anywhere, and with the first that uses GPUs.
func (s *Set) alike(one, placed, gpus *Set) error {
	switch {
	case s.Ask.Where != "" && s.Ask.Where != placed.Ask.Where:
		return fmt.Errorf("%s may be on other nodes than %s: a gang has one node selector and affinity", s.Role, placed.Role)
	case s.Ask.Tolerate != one.Ask.Tolerate:
		return fmt.Errorf("%s tolerate other taints than %s: a gang has one set of tolerations", s.Role, one.called(0))
	case s.Ask.Within != one.Ask.Within || s.Ask.Prefer != one.Ask.Prefer:
		return fmt.Errorf("%s must stand together otherwise than %s", s.Role, one.called(0))
	case s.Ask.Resource != "" && s.Ask.Resource != gpus.Ask.Resource:
		return fmt.Errorf("%s use %s, others %s: a gang has GPUs of one resource", s.Role, s.Ask.Resource, gpus.Ask.Resource)
	}
	return nil
}
