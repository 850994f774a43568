package kinds

import (
	"fmt"

	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
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

// groups are the PodGroups that are read, by apiVersion: the type of the condition that
// tells that they have their places.
var groups = map[string]string{
	"scheduling.k8s.io/v1alpha2":    "PodGroupScheduled",          // Kubernetes 1.36
	"scheduling.k8s.io/v1beta1":     "PodGroupInitiallyScheduled", // Kubernetes 1.37
	"scheduling.volcano.sh/v1beta1": "Scheduled",
	"scheduling.x-k8s.io/v1alpha1":  "Scheduled", // scheduler-plugins
}

// ReadGroup reads a PodGroup of Kubernetes (v1alpha2, v1beta1), of Volcano, or of
// scheduler-plugins. It fails on other objects, on numbers that cannot be, and on a level
// of the topology that the cluster does not have; the error names the object.
func ReadGroup(of map[string]any, levels convert.Levels) (*Group, error) {
	o := object(of)
	g := &Group{Key: o.text("metadata", "namespace") + "/" + o.text("metadata", "name")}
	var known bool
	if g.Scheduled, known = groups[o.text("apiVersion")]; !known || o.text("kind") != "PodGroup" {
		return nil, fmt.Errorf("%s %s in %s is no PodGroup that is known", o.text("kind"), g.Key, o.text("apiVersion"))
	}
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
