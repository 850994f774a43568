package podmap

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-scheduler/norn/cluster"
)

// Level is a level of the topology: its name, such as rack, and the labels of nodes that
// tell in which place of that level they stand, of which the first that a node has
// counts.
type Level struct {
	Name string
	Keys []string
}

// Levels are the levels of the topology of a cluster, the widest first.
type Levels []Level

// DefaultLevels are the levels that the labels of Kubernetes, cloud providers and tools
// for topology tell of. Sources: well-known labels of Kubernetes; topograph of NVIDIA;
// labels of GKE (gce-topology), of EKS (network-node-layer), and of GPU feature discovery
// (gpu.clique, an NVLink domain); the examples of Kueue (cloud.provider.com).
func DefaultLevels() Levels {
	return Levels{
		{"region", []string{"topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"}},
		{"zone", []string{"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"}},
		{"datacenter", []string{"network.topology.nvidia.com/datacenter", "fabric.topograph.run/tier-3", "topology.k8s.aws/network-node-layer-1"}},
		{"spine", []string{"network.topology.nvidia.com/spine", "fabric.topograph.run/tier-2", "topology.k8s.aws/network-node-layer-2"}},
		{"block", []string{
			"network.topology.nvidia.com/block", "network.topology.nvidia.com/leaf", "fabric.topograph.run/tier-1", "topology.k8s.aws/network-node-layer-3",
			"cloud.google.com/gce-topology-block", "cloud.provider.com/topology-block",
		}},
		{"rack", []string{"topology.kubernetes.io/rack", "cloud.google.com/gce-topology-subblock", "cloud.provider.com/topology-rack"}},
		{"nvlink", []string{"network.topology.nvidia.com/accelerator", "nvidia.com/gpu.clique"}},
	}
}

// hostKeys are labels whose places are the nodes themselves.
var hostKeys = []string{cluster.EachNode, "host", "kubernetes.io/hostname", "cloud.google.com/gce-topology-host"}

// within is the annotation by which a user of Norn says in which level of the topology all
// pods of a job are in one place (names.Within of package kube/names).
const within = "norn-scheduler.github.io/within"

// Check says what is wrong with levels, or nil.
func (l Levels) Check() error {
	seen := map[string]bool{}
	for i, one := range l {
		switch {
		case one.Name == "" || strings.ContainsAny(one.Name, "?,|\n") || slices.Contains(hostKeys, one.Name):
			return fmt.Errorf("level %d of the topology: %q is no name of a level", i+1, one.Name)
		case len(one.Keys) == 0:
			return fmt.Errorf("level %s of the topology has no label", one.Name)
		}
		for _, k := range append([]string{one.Name}, one.Keys...) {
			if seen[k] {
				return fmt.Errorf("%s is a level of the topology twice", k)
			}
			seen[k] = true
		}
	}
	return nil
}

// Named is the name of a level that is told by its name or by one of its labels.
func (l Levels) Named(text string) (name string, ok bool) {
	if slices.Contains(hostKeys, text) {
		return cluster.EachNode, true
	}
	for _, one := range l {
		if one.Name == text || slices.Contains(one.Keys, text) {
			return one.Name, true
		}
	}
	return "", false
}

// Domain is a place in the topology.
type Domain struct{ Level, Name string }

// Place are the places that a node stands in, the widest first. A level of which the node
// has no label is left out.
func (l Levels) Place(labels map[string]string) []Domain {
	var out []Domain
	for _, one := range l {
		for _, k := range one.Keys {
			if v := labels[k]; v != "" {
				out = append(out, Domain{one.Name, v})
				break
			}
		}
	}
	return out
}

// Within is the level of the topology of which the pods must stand in one place, or
// should (prefer), by the annotations of a pod or of its owner; empty: none. Norn's own
// annotation goes first ( "rack", "rack, preferred" or "rack?"), then those of
// Kueue, KAI and Volcano. ignored says what else they ask for. It fails on a level that is
// required and that the cluster does not have.
func (l Levels) Within(annotations map[string]string) (level string, prefer bool, ignored []string, err error) {
	if text := annotations[within]; text != "" {
		level, prefer, err = l.own(text)
		return level, prefer, nil, err
	}
	for _, from := range []struct {
		key    string
		prefer bool
	}{
		{"kueue.x-k8s.io/podset-required-topology", false}, {"kueue.x-k8s.io/podset-preferred-topology", true},
		{"kai.scheduler/topology-required-placement", false}, {"kai.scheduler/topology-preferred-placement", true},
	} {
		text := annotations[from.key]
		if text == "" {
			continue
		}
		name, known := l.Named(text)
		switch {
		case level != "":
			ignored = append(ignored, from.key)
		case known:
			level, prefer = name, from.prefer
		case from.prefer:
			ignored = append(ignored, from.key)
		default:
			return "", false, nil, fmt.Errorf("%s: %q is no level of the topology: %s", from.key, text, l)
		}
	}
	if level == "" {
		level, prefer, err = l.volcano(annotations)
	}
	for _, k := range []string{"kueue.x-k8s.io/podset-slice-required-topology", "kueue.x-k8s.io/podset-slice-size"} {
		if annotations[k] != "" {
			ignored = append(ignored, k)
		}
	}
	return level, prefer, ignored, err
}

// own reads within.
func (l Levels) own(text string) (level string, prefer bool, err error) {
	name, how, told := strings.Cut(text, ",")
	name, prefer = strings.CutSuffix(strings.TrimSpace(name), "?")
	if told {
		if how = strings.TrimSpace(how); how != "preferred" && how != "required" {
			return "", false, fmt.Errorf("%s %q: write a level, and preferred or required behind a comma", within, text)
		}
		prefer = how == "preferred"
	}
	level, known := l.Named(strings.TrimSpace(name))
	if !known {
		return "", false, fmt.Errorf("%s %q is no level of the topology: %s", within, text, l)
	}
	return level, prefer, nil
}

// volcano reads the highest tier that a gang of Volcano may span: 1 is the narrowest
// level.
func (l Levels) volcano(annotations map[string]string) (level string, prefer bool, err error) {
	const mode, tier = "volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier"
	if annotations[mode] == "" || annotations[tier] == "" {
		return "", false, nil
	}
	prefer = annotations[mode] == "soft"
	n, err := strconv.Atoi(annotations[tier])
	if err != nil || n < 1 || n > len(l) {
		if prefer {
			return "", false, nil
		}
		return "", false, fmt.Errorf("%s %q: the topology has tiers 1 to %d", tier, annotations[tier], len(l))
	}
	return l[len(l)-n].Name, prefer, nil
}

// String names the levels.
func (l Levels) String() string {
	var out []string
	for _, one := range l {
		out = append(out, one.Name)
	}
	return strings.Join(append(out, cluster.EachNode), ", ")
}
