package kinds

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/job"
)

// replicatedJobs are the parts of a JobSet. Each Job of a replicated one has as many pods
// at a time as batch/v1 says.
func replicatedJobs(o object) ([]part, error) {
	all, err := o.list("spec", "replicatedJobs")
	if err != nil {
		return nil, err
	}
	var out []part
	for _, r := range all {
		times, err := r.number(1, "replicas")
		if err != nil {
			return nil, fmt.Errorf("replicated job %s: %w", r.text("name"), err)
		}
		one, err := jobPods(r.part("template"))
		if err != nil {
			return nil, fmt.Errorf("replicated job %s: %w", r.text("name"), err)
		}
		p := one[0]
		if p.role = r.text("name"); int64(p.count)*int64(times) > job.MaxTasks {
			return nil, fmt.Errorf("replicated job %s: more than %d pods", p.role, job.MaxTasks)
		}
		p.count *= times
		out = append(out, p)
	}
	return out, nil
}

// jobPods are the pods of a batch/v1 Job.
func jobPods(o object) ([]part, error) {
	parallelism, err := o.number(1, "spec", "parallelism")
	if err != nil {
		return nil, err
	}
	completions, err := o.number(parallelism, "spec", "completions")
	return []part{{count: min(parallelism, completions), template: o.part("spec", "template")}}, err
}

// leaderAndWorkers are the parts of each group of a LeaderWorkerSet.
func leaderAndWorkers(o object) ([]part, error) {
	of := o.part("spec", "leaderWorkerTemplate")
	size, err := of.number(1, "size")
	if err != nil || size < 1 {
		return nil, cmp.Or(err, fmt.Errorf("a group of no pods"))
	}
	worker := of.part("workerTemplate")
	leader := of.part("leaderTemplate")
	if leader == nil {
		leader = worker
	}
	return []part{{"leader", 1, leader}, {"worker", size - 1, worker}}, nil
}

// replicas are the parts of the jobs of Kubeflow, by the name of the field that has them.
// Their pods have the role in small letters.
func replicas(field string) func(object) ([]part, error) {
	return func(o object) ([]part, error) {
		all := o.part("spec", field)
		if len(all) > mostParts {
			return nil, fmt.Errorf("spec.%s: %d roles, at most %d are read", field, len(all), mostParts)
		}
		var out []part
		for _, name := range slices.Sorted(maps.Keys(all)) {
			r := all.part(name)
			without := int32(1)
			if field == "mpiReplicaSpecs" && name == "Worker" {
				without = 0 // as its operator has it
			}
			n, err := r.number(without, "replicas")
			if err != nil {
				return nil, fmt.Errorf("role %s: %w", name, err)
			}
			out = append(out, part{strings.ToLower(name), n, r.part("template")})
		}
		return out, nil
	}
}

// rayGroups are the head and the workers of a cluster of Ray whose spec stands at a path.
// The pod that submits the program of a RayJob is not among them: it comes when they run.
func rayGroups(path ...string) func(object) ([]part, error) {
	return func(o object) ([]part, error) {
		spec := o.part(path...)
		if spec == nil {
			return nil, fmt.Errorf("it has no %s: it uses a cluster that is there", strings.Join(path, "."))
		}
		out := []part{{"head", 1, spec.part("headGroupSpec", "template")}}
		groups, err := spec.list("workerGroupSpecs")
		if err != nil {
			return nil, err
		}
		for _, g := range groups {
			n, err := g.number(0, "replicas")
			if err != nil {
				return nil, fmt.Errorf("group %s: %w", g.text("groupName"), err)
			}
			least, err := g.number(0, "minReplicas")
			if err != nil {
				return nil, fmt.Errorf("group %s: %w", g.text("groupName"), err)
			}
			hosts, err := g.number(1, "numOfHosts")
			if n = max(n, least); err != nil || int64(n)*int64(hosts) > job.MaxTasks {
				return nil, fmt.Errorf("group %s: %w", g.text("groupName"), cmp.Or(err, fmt.Errorf("more than %d pods", job.MaxTasks)))
			}
			if asleep, _ := g.at("suspend").(bool); !asleep {
				out = append(out, part{"worker", n * hosts, g.part("template")})
			}
		}
		return out, nil
	}
}

// volcanoTasks are the parts of a job of Volcano.
func volcanoTasks(o object) ([]part, error) {
	all, err := o.list("spec", "tasks")
	if err != nil {
		return nil, err
	}
	var out []part
	for i, t := range all {
		name := cmp.Or(t.text("name"), "default"+strconv.Itoa(i))
		n, err := t.number(1, "replicas")
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", name, err)
		}
		out = append(out, part{name, n, t.part("template")})
	}
	return out, nil
}

// wrapped are the parts of an AppWrapper: those that its components tell, or those of
// objects of kinds that are known.
func wrapped(o object) ([]part, error) {
	all, err := o.list("spec", "components")
	if err != nil {
		return nil, err
	}
	var out []part
	for i, c := range all {
		some, err := component(c)
		if err != nil {
			return nil, fmt.Errorf("component %d: %w", i, err)
		}
		for _, p := range some {
			if p.role == "" && len(all) > 1 {
				p.role = "component" + strconv.Itoa(i)
			}
			out = append(out, p)
		}
		if len(out) > mostParts {
			return nil, fmt.Errorf("more than %d sets of pods", mostParts)
		}
	}
	return out, nil
}

// component are the parts of one object inside an AppWrapper.
func component(c object) ([]part, error) {
	sets, err := c.list("podSets")
	if err != nil {
		return nil, err
	}
	var out []part
	for _, s := range sets {
		n, err := s.number(1, "replicas")
		if err != nil {
			return nil, err
		}
		t, err := c.walk(s.text("path"))
		if err != nil {
			return nil, err
		}
		out = append(out, part{"", n, t})
	}
	if len(sets) > 0 {
		return out, nil
	}
	inner := c.part("template")
	switch version, kind := inner.text("apiVersion"), inner.text("kind"); {
	case kind == "Pod" && version == "v1":
		return []part{{"", 1, inner}}, nil
	case kind == "Job" && version == "batch/v1":
		return jobPods(inner)
	case kind == "AppWrapper":
		return nil, fmt.Errorf("an AppWrapper in an AppWrapper")
	default:
		k, known := Of(version, kind)
		if known && k.sets != nil && !k.Gangs {
			return k.sets(inner)
		}
		return nil, nil // such as a Service, which makes no pods
	}
}

// walk finds the pod template at a path such as template.spec.jobs[0].template.
func (o object) walk(path string) (object, error) {
	var v any = map[string]any(o)
	for i, step := range strings.Split(path, ".") {
		name, index, indexed := strings.Cut(strings.TrimSuffix(step, "]"), "[")
		m, _ := v.(map[string]any)
		if v = m[name]; i == 0 && name != "template" {
			return nil, fmt.Errorf("path %q does not begin with template", path)
		}
		if indexed {
			list, _ := v.([]any)
			n, err := strconv.Atoi(index)
			if err != nil || n < 0 || n >= len(list) {
				return nil, fmt.Errorf("path %q leads nowhere", path)
			}
			v = list[n]
		}
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("path %q leads to no pod template", path)
	}
	return m, nil
}
