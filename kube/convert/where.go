package convert

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/label"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// nowhere is a condition that holds on no node, for each node has a name.
func nowhere() label.Where {
	return label.Where{{{Key: cluster.NodeLabel, Op: label.DoesNotExist}}}
}

// Where is the condition on labels that the node selector of a pod and its required node
// affinity make up. Its text is canonical. As in Kubernetes, a term that is empty or
// cannot be read holds nowhere. It fails on a condition that is too long, and on fields
// of nodes other than their names.
func Where(spec *corev1.PodSpec) (string, error) {
	var selector []label.Requirement
	for _, k := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		selector = append(selector, label.Requirement{Key: podmap.Key(k), Op: label.In, Values: []string{spec.NodeSelector[k]}})
	}
	w := label.Where{selector}
	if terms := requiredTerms(spec); terms != nil {
		w = nil
		for i := range terms {
			all, ok, err := term(&terms[i])
			if err != nil {
				return "", fmt.Errorf("node affinity, term %d: %w", i+1, err)
			}
			if ok {
				w = append(w, slices.Concat(selector, all))
			}
		}
		if w == nil {
			w = nowhere()
		}
	}
	read, err := label.ParseWhere(w.String())
	if err != nil {
		return "", fmt.Errorf("node selector and affinity: %w", err)
	}
	return read.String(), nil
}

// requiredTerms are the alternatives of the required node affinity; nil: there is none.
func requiredTerms(spec *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return nil
	}
	return append([]corev1.NodeSelectorTerm{}, required.NodeSelectorTerms...)
}

// operators are those of node affinity.
var operators = map[corev1.NodeSelectorOperator]struct {
	op     label.Op
	checks selection.Operator
}{
	corev1.NodeSelectorOpIn:           {label.In, selection.In},
	corev1.NodeSelectorOpNotIn:        {label.NotIn, selection.NotIn},
	corev1.NodeSelectorOpExists:       {label.Exists, selection.Exists},
	corev1.NodeSelectorOpDoesNotExist: {label.DoesNotExist, selection.DoesNotExist},
	corev1.NodeSelectorOpGt:           {label.Gt, selection.GreaterThan},
	corev1.NodeSelectorOpLt:           {label.Lt, selection.LessThan},
}

// term is the requirements of one alternative. ok is false for one that holds nowhere.
func term(t *corev1.NodeSelectorTerm) (all []label.Requirement, ok bool, err error) {
	for i := range t.MatchExpressions {
		e := &t.MatchExpressions[i]
		o, known := operators[e.Operator]
		if !known {
			return nil, false, nil
		}
		if _, err := labels.NewRequirement(e.Key, o.checks, e.Values); err != nil {
			return nil, false, nil //nolint:nilerr // Kubernetes takes it as a term that holds nowhere
		}
		r := label.Requirement{Key: podmap.Key(e.Key), Op: o.op, Values: e.Values}
		if o.op == label.Gt || o.op == label.Lt {
			r.Values = nil
			r.Number, _ = strconv.ParseInt(e.Values[0], 10, 64) // NewRequirement has read it
		}
		all = append(all, r)
	}
	for i := range t.MatchFields {
		f := &t.MatchFields[i]
		if f.Key != "metadata.name" {
			return nil, false, fmt.Errorf("field %q: of the fields of nodes only metadata.name can be compared", f.Key)
		}
		o := operators[f.Operator].op
		if o != label.In && o != label.NotIn || len(f.Values) != 1 {
			return nil, false, nil
		}
		all = append(all, label.Requirement{Key: cluster.NodeLabel, Op: o, Values: f.Values})
	}
	return all, len(all) > 0, nil
}

// Tolerate is the taints that a pod tolerates, as podmap.Tolerate has them.
func Tolerate(tolerations []corev1.Toleration) (text string, ignored []string, err error) {
	all := make([]podmap.Toleration, len(tolerations))
	for i, t := range tolerations {
		all[i] = podmap.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect)}
	}
	return podmap.Tolerate(all)
}

// stopMode reads names.Stop. A job that would freeze is stopped by a checkpoint, for its
// pods keep their devices.
func stopMode(text string) (job.StopMode, error) {
	mode, known := job.ParseStopMode(text)
	if !known {
		return 0, fmt.Errorf("%s %q: write checkpoint, restart, never or last-save", names.Stop, text)
	}
	if mode == job.Freeze {
		mode = job.Checkpoint
	}
	return mode, nil
}
