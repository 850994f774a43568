package convert

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// Words that requirements, labels and taints are made of: few, so that they meet.
var (
	keys   = rapid.SampledFrom([]string{"a", "b", "node", "x.io/c", "-bad", "kubernetes.io/hostname"})
	values = rapid.SampledFrom([]string{"", "x", "y", "7", "07", "12", "-5", "n1", "n2", "a b", "1.5"})
	nodes  = rapid.SampledFrom([]string{"n1", "n2", "n3", "a-node-whose-name-is-longer-than-a-label-may-be." + strings.Repeat("x", 30)})
)

func drawRequirement(t *rapid.T) corev1.NodeSelectorRequirement {
	op := rapid.SampledFrom([]corev1.NodeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"}).Draw(t, "op")
	n := map[corev1.NodeSelectorOperator]int{"In": 2, "NotIn": 2, "Gt": 1, "Lt": 1}[op]
	if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
		n++ // as it must not be
	}
	return corev1.NodeSelectorRequirement{Key: keys.Draw(t, "key"), Operator: op, Values: rapid.SliceOfN(values, n, n).Draw(t, "values")}
}

func drawField(t *rapid.T) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key: "metadata.name", Operator: rapid.SampledFrom([]corev1.NodeSelectorOperator{"In", "NotIn", "Exists"}).Draw(t, "op"),
		Values: rapid.SliceOfN(nodes, 0, 2).Draw(t, "nodes"),
	}
}

func drawSpec(t *rapid.T) *corev1.PodSpec {
	spec := &corev1.PodSpec{}
	if rapid.Bool().Draw(t, "selects") {
		spec.NodeSelector = rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "node"}), rapid.SampledFrom([]string{"x", "7", ""}), 0, 2).Draw(t, "selector")
	}
	if rapid.Bool().Draw(t, "affine") {
		terms := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.NodeSelectorTerm {
			return corev1.NodeSelectorTerm{
				MatchExpressions: rapid.SliceOfN(rapid.Custom(drawRequirement), 0, 2).Draw(t, "expressions"),
				MatchFields:      rapid.SliceOfN(rapid.Custom(drawField), 0, 1).Draw(t, "fields"),
			}
		}), 0, 3).Draw(t, "terms")
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	return spec
}

// TestWhereAsKubernetes: a pod may be where Kubernetes' own matcher lets it be, for any
// selector and node.
func TestWhereAsKubernetes(t *testing.T) {
	held := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		text, err := Where(spec)
		if err != nil {
			t.Fatal(err)
		}
		w, err := label.ParseWhere(text)
		if err != nil || w.String() != text {
			t.Fatalf("%q is not canonical: %q, %v", text, w.String(), err)
		}
		name := nodes.Draw(t, "name")
		labels := map[string]string{}
		for _, k := range []string{"a", "b", "node", "x.io/c"} {
			if v := values.Draw(t, k); rapid.Bool().Draw(t, "has "+k) && !strings.ContainsAny(v, " -") {
				labels[k] = v
			}
		}
		n := gpuNode(name)
		n.Labels = labels
		is, err := NewNode(n, nil)
		if err != nil {
			t.Fatal(err)
		}
		spec2, err := is.Spec(mustCluster(t, is))
		if err != nil {
			t.Fatal(err)
		}
		want, _ := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}).Match(n)
		if got := w.Holds(spec2.Label); got != want {
			t.Fatalf("%q on node %s with %v: %v, Kubernetes says %v", text, name, labels, got, want)
		}
		held[want]++
	})
	if held[true] == 0 || held[false] == 0 {
		t.Errorf("holds %d times, and not %d times: the draws try nothing", held[true], held[false])
	}
}

func mustCluster(t *rapid.T, n *Node) *cluster.Cluster {
	c := cluster.New()
	if err := n.Introduce(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTolerateAsKubernetes: a pod may be on a node with taints where Kubernetes' own
// matcher lets it be, but for those that tell of the health of the node.
func TestTolerateAsKubernetes(t *testing.T) {
	held := map[bool]int{}
	key := rapid.SampledFrom([]string{"", "a", "b", corev1.TaintNodeNotReady, corev1.TaintNodeDiskPressure})
	value := rapid.SampledFrom([]string{"", "x", "y"})
	effect := rapid.SampledFrom([]corev1.TaintEffect{"", "NoSchedule", "NoExecute", "PreferNoSchedule"})
	rapid.Check(t, func(t *rapid.T) {
		var tolerations []corev1.Toleration
		for range rapid.IntRange(0, 3).Draw(t, "tolerations") {
			one := corev1.Toleration{
				Key: key.Draw(t, "key"), Value: value.Draw(t, "value"), Effect: effect.Draw(t, "effect"),
				Operator: rapid.SampledFrom([]corev1.TolerationOperator{"", "Equal", "Exists", "Gt"}).Draw(t, "op"),
			}
			if one.Key != "" || one.Operator == "Exists" { // which Kubernetes refuses otherwise
				tolerations = append(tolerations, one)
			}
		}
		var all []corev1.Taint
		for range rapid.IntRange(0, 2).Draw(t, "taints") {
			one := corev1.Taint{Key: key.Draw(t, "of"), Value: value.Draw(t, "is"), Effect: effect.Draw(t, "does")}
			if one.Key != "" && one.Effect != "" {
				all = append(all, one)
			}
		}
		text, _, err := Tolerate(tolerations)
		if err != nil {
			t.Fatal(err)
		}
		mine, err := label.ParseTolerations(text)
		if err != nil || mine.String() != text {
			t.Fatalf("%q is not canonical: %q, %v", text, mine.String(), err)
		}
		_, repels := v1helper.FindMatchingUntoleratedTaint(klog.Background(), all, tolerations, func(x *corev1.Taint) bool {
			return x.Effect != corev1.TaintEffectPreferNoSchedule && x.Key != corev1.TaintNodeNotReady
		}, false)
		is, err := observed(&corev1.Node{Spec: corev1.NodeSpec{Taints: all}})
		if err != nil {
			t.Fatal(err)
		}
		if got := mine.Tolerate(is.Repels()); got == repels {
			t.Fatalf("%q with taints %v: %v, Kubernetes says %v", text, all, got, !repels)
		}
		held[repels]++
	})
	if held[true] == 0 || held[false] == 0 {
		t.Errorf("repelled %d times, and not %d times: the draws try nothing", held[true], held[false])
	}
}

// TestWhere has the texts, and what is none.
func TestWhere(t *testing.T) {
	affinity := func(terms ...corev1.NodeSelectorTerm) *corev1.PodSpec {
		return &corev1.PodSpec{
			NodeSelector: map[string]string{"disk": "ssd"},
			Affinity:     &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}},
		}
	}
	in := func(op corev1.NodeSelectorOperator, key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	field := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}}}
	for want, spec := range map[string]*corev1.PodSpec{
		"":                                      {},
		"disk=ssd":                              {NodeSelector: map[string]string{"disk": "ssd"}},
		"disk=ssd, zone in (a,b)":               affinity(in("In", "zone", "b", "a")),
		"cores>8, disk=ssd | disk=ssd, zone!=a": affinity(in("NotIn", "zone", "a"), in("Gt", "cores", "8")),
		"disk=ssd, node=n1":                     affinity(field),
		"!node":                                 affinity(),
		"!spot, disk=ssd":                       affinity(in("DoesNotExist", "spot"), in("Gt", "cores", "many"), corev1.NodeSelectorTerm{}),
		podmap.NodeLabel + "=x":                 {NodeSelector: map[string]string{"node": "x"}},
	} {
		if got, err := Where(spec); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	field.MatchFields[0].Key = "metadata.uid"
	if _, err := Where(affinity(in("Exists", "a"), field)); err == nil || !strings.Contains(err.Error(), "term 2") || !strings.Contains(err.Error(), "metadata.uid") {
		t.Error(err)
	}
	many := make([]string, 5000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	if _, err := Where(affinity(in("In", "a", many...))); err == nil || !strings.Contains(err.Error(), "node selector and affinity: a condition of") {
		t.Error(err)
	}
}

// TestTolerations: what cannot be said is ignored, and told.
func TestTolerations(t *testing.T) {
	seconds := int64(300)
	text, ignored, err := Tolerate([]corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds}, {Key: "nvidia.com/gpu", Operator: "Exists"},
		{Key: "spot", Value: "yes", Effect: "NoSchedule"}, {Operator: "Exists", Effect: "NoExecute"}, {Key: "level", Operator: "Gt", Value: "4"},
	})
	if want := "*:NoExecute,nvidia.com/gpu,spot=yes:NoSchedule"; err != nil || text != want || !slices.Equal(ignored, []string{"toleration of level with operator Gt"}) {
		t.Errorf("%q, %q, %v; want %q", text, ignored, err, want)
	}
	many := make([]corev1.Toleration, 300)
	for i := range many {
		many[i] = corev1.Toleration{Key: fmt.Sprint("k", i), Operator: "Exists"}
	}
	if _, _, err := Tolerate(many); err == nil {
		t.Error("300 tolerations are no error")
	}
}
