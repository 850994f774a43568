package kinds

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// Group is a PodGroup: pods that name it are a gang.
type Group struct {
	Key      string // namespace/name
	Least    int32  // pods with which the gang can begin; 0: its pods need not begin together
	Within   string // as in job.Demand
	Prefer   bool
	Priority int32
	Class    string   // of the priority, where the number is not told
	Never    bool     // it never preempts others
	Whole    bool     // it is disrupted as a whole, and not pod by pod
	Claims   []string // resource claims that its pods share
	// Scheduled is the type of the condition by which a scheduler tells that the group has
	// its places.
	Scheduled string
}

// GroupKind is a kind of PodGroups that are read.
type GroupKind struct {
	schema.GroupVersionResource
	scheduled string // as Group.Scheduled
}

// GroupKinds are the kinds of PodGroups that are read, the newest version of each first: those
// of Kubernetes 1.37 and 1.36, of Volcano and of scheduler-plugins.
func GroupKinds() []GroupKind {
	kind := func(group, version, scheduled string) GroupKind {
		return GroupKind{schema.GroupVersionResource{Group: group, Version: version, Resource: "podgroups"}, scheduled}
	}
	return []GroupKind{
		kind(podmap.NativeGroups, "v1beta1", "PodGroupInitiallyScheduled"),
		kind(podmap.NativeGroups, "v1alpha2", "PodGroupScheduled"),
		kind(podmap.VolcanoGroups, "v1beta1", "Scheduled"),
		kind(podmap.PluginGroups, "v1alpha1", "Scheduled"),
	}
}

// ReadGroup reads a PodGroup of Kubernetes (v1alpha2, v1beta1), of Volcano, or of
// scheduler-plugins. It fails on other objects, on numbers that cannot be, and on a level
// of the topology that the cluster does not have; the error names the object.
func ReadGroup(of map[string]any, levels convert.Levels) (*Group, error) {
	o := object(of)
	g := &Group{Key: o.text("metadata", "namespace") + "/" + o.text("metadata", "name")}
	all := GroupKinds()
	i := slices.IndexFunc(all, func(k GroupKind) bool { return k.GroupVersion().String() == o.text("apiVersion") })
	if i < 0 || o.text("kind") != "PodGroup" {
		return nil, fmt.Errorf("%s %s in %s is no PodGroup that is known", o.text("kind"), g.Key, o.text("apiVersion"))
	}
	g.Scheduled = all[i].scheduled
	if err := g.read(o, levels); err != nil {
		return nil, fmt.Errorf("PodGroup %s: %w", g.Key, err)
	}
	return g, nil
}

func (g *Group) read(o object, levels convert.Levels) (err error) {
	spec := o.part("spec")
	g.Class = spec.text("priorityClassName")
	if n, told := integer(spec.at("priority")); told {
		if int64(int32(n)) != n {
			return fmt.Errorf("spec.priority is no priority")
		}
		g.Priority, g.Class = int32(n), ""
	}
	g.Never = spec.text("preemptionPolicy") == "Never"
	if g.Least, err = spec.number(0, "minMember"); err != nil { // Volcano, scheduler-plugins
		return err
	}
	if gang := spec.part("schedulingPolicy", "gang"); gang != nil {
		if g.Least, err = gang.number(1, "minCount"); err != nil {
			return err
		}
	}
	g.Whole = spec.text("disruptionMode") == "PodGroup" || spec.part("disruptionMode", "all") != nil // v1alpha2, v1beta1
	claims, err := spec.list("resourceClaims")
	if err != nil {
		return err
	}
	for _, c := range claims {
		g.Claims = append(g.Claims, c.text("name"))
	}
	return g.place(o, levels)
}

// place finds the level of the topology. Norn's own annotation goes first, then the spec.
func (g *Group) place(o object, levels convert.Levels) (err error) {
	annotations := map[string]string{}
	for name := range o.part("metadata", "annotations") {
		annotations[name] = o.text("metadata", "annotations", name)
	}
	if n := o.part("spec", "networkTopology"); n != nil && n.at("highestTierAllowed") != nil { // of Volcano
		tier, err := n.number(0, "highestTierAllowed")
		if err != nil {
			return err
		}
		annotations["volcano.sh/network-topology-highest-tier"] = fmt.Sprint(tier)
		annotations["volcano.sh/network-topology-mode"] = "hard"
		if mode := n.text("mode"); mode != "" {
			annotations["volcano.sh/network-topology-mode"] = mode
		}
	}
	topology, err := o.list("spec", "schedulingConstraints", "topology")
	switch {
	case err != nil:
		return err
	case len(topology) > 1:
		return fmt.Errorf("%d levels of the topology: a gang stands in one place of one level", len(topology))
	case len(topology) == 1 && annotations[names.Within] == "":
		key := topology[0].text("key")
		level, known := levels.Named(key)
		if !known {
			return fmt.Errorf("spec.schedulingConstraints: %q is no level of the topology: %s", key, levels)
		}
		g.Within = level
		return nil
	}
	g.Within, g.Prefer, _, err = levels.Within(annotations)
	return err
}
