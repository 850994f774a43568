// Package deploy has all that a cluster needs to be scheduled by a Norn inside of it. The
// manifests, the Helm chart and the base for kustomize are one template.
package deploy

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/norn-scheduler/norn/kube/kinds"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/policy/defrag"
)

//go:embed norn.yaml.tmpl
var text string

// Settings are what an operator decides.
type Settings struct {
	Namespace string
	Image     string  // with both programs; see the Dockerfile of this folder
	Policy    string  // as in norn sim
	Defrag    float64 // what moves that bring Jobs together must win, over their cost; 0: nothing is moved for that
	Stop      string  // what becomes of the work of Jobs that do not tell
	Nodes     string  // label selector of the nodes that are for Norn; empty: all
	Replicas  int
	Admission bool // with admission policies, which need Kubernetes 1.36
}

// Default are the settings of somebody who has decided nothing.
func Default() Settings {
	return Settings{Namespace: "norn-system", Image: "norn-kube:latest", Policy: "fifo", Stop: "restart", Replicas: 2, Admission: true}
}

// check finds what no cluster would take.
func (s *Settings) check() error {
	if bad := validation.IsDNS1123Label(s.Namespace); len(bad) > 0 {
		return fmt.Errorf("namespace %q: %s", s.Namespace, bad[0])
	}
	if s.Image == "" {
		return fmt.Errorf("the image has no name")
	}
	if s.Replicas < 1 {
		return fmt.Errorf("%d replicas schedule nothing", s.Replicas)
	}
	if _, err := defrag.Live(s.Defrag); err != nil && s.Defrag != 0 {
		return fmt.Errorf("defrag %w", err)
	}
	return nil
}

// moves is the setting of moves as YAML.
func (s *Settings) moves() string { return quote(strconv.FormatFloat(s.Defrag, 'g', -1, 64)) }

// settled are the values of the template that Settings decide, as YAML or as expressions of Helm.
type settled struct {
	Namespace, NamespaceArg, Image, Policy, Defrag, Stop, Nodes, Replicas string
	Whole, Admission                                                      bool
}

// suspended are the groups of kinds beside Jobs whose objects Norn suspends, as lists of YAML.
func suspended() (out []scope) {
	resources := map[string][]string{}
	for _, k := range kinds.All() {
		if k.Suspends() && !slices.Contains(resources[k.Group], k.Plural) {
			resources[k.Group] = append(resources[k.Group], k.Plural)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(resources)) {
		out = append(out, scope{holes: map[string]string{"Group": "[" + group + "]", "Resources": "[" + strings.Join(resources[group], ", ") + "]"}})
	}
	return out
}

// Own are the annotations that Norn alone writes.
func Own() []string {
	return []string{names.Asked, names.Run, names.Devices, names.Plan, names.Record, names.Apart}
}

func fill(h settled) (string, error) {
	var short []string
	for _, name := range Own() {
		short = append(short, strings.TrimPrefix(name, names.Group+"/"))
	}
	s := scope{holes: map[string]string{
		"Group": names.Group, "Own": "['" + strings.Join(Own(), "', '") + "']", "OwnText": strings.Join(short, ", "),
		"Namespace": h.Namespace, "NamespaceArg": h.NamespaceArg, "Image": h.Image, "Policy": h.Policy, "Defrag": h.Defrag, "Stop": h.Stop, "Nodes": h.Nodes, "Replicas": h.Replicas,
	}}
	with := func(part bool) (out []scope) {
		if part {
			out = []scope{s}
		}
		return out
	}
	s.parts = map[string][]scope{"Owners": suspended()}
	s.parts["Whole"], s.parts["Admission"] = with(h.Whole), with(h.Admission)
	var out strings.Builder
	if err := s.expand(strings.SplitAfter(text, "\n"), &out); err != nil {
		return "", err
	}
	return out.String(), nil
}

// Manifests is everything, in YAML.
func Manifests(s Settings) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	return fill(settled{
		Namespace: s.Namespace, NamespaceArg: quote(s.Namespace), Image: quote(s.Image), Policy: quote(s.Policy), Defrag: s.moves(), Stop: quote(s.Stop), Nodes: quote(s.Nodes),
		Replicas: strconv.Itoa(s.Replicas), Whole: true, Admission: s.Admission,
	})
}

// quote is a text as YAML has it: JSON is part of that.
func quote(s string) string { return strconv.QuoteToGraphic(s) }

// Objects are the objects of manifests, in order.
func Objects(manifests string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for doc := range strings.SplitSeq("\n"+manifests, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

// File is one file of a folder.
type File struct{ Path, Text string }

// ChartVersion is the version of the chart, which changes with the template.
const ChartVersion = "0.1.0"

// Helm is a chart. helm install --create-namespace makes the namespace.
func Helm(version string) ([]File, error) {
	const ns = "{{ .Release.Namespace }}"
	value := func(name string) string { return "{{ .Values." + name + " | quote }}" }
	body, err := fill(settled{
		Namespace: ns, NamespaceArg: "{{ .Release.Namespace | quote }}", Image: value("image"), Policy: value("policy"), Defrag: value("defrag"), Stop: value("stop"), Nodes: value("nodes"),
		Replicas: "{{ .Values.replicas }}", Admission: true,
	})
	if err != nil {
		return nil, err
	}
	plain, policies, found := strings.Cut(body, "\n---\n# A Job with the label")
	if !found {
		return nil, fmt.Errorf("the template has no admission policies")
	}
	body = plain + "\n{{- if .Values.admission }}\n---\n# A Job with the label" + policies + "{{- end }}\n"
	d := Default()
	values := fmt.Sprintf(`# The image, with norn-kube: see the Dockerfile beside the chart.
image: %s
# The policy, as in norn sim.
policy: %s
# Running Jobs are moved together for a gang that would wait beside free GPUs, if so many times the cost is won; 0: none is.
defrag: %s
# What becomes of the work of Jobs that do not tell by a label: checkpoint, restart, last-save or never.
stop: %s
# Label selector of the nodes that are for Norn; empty: all.
nodes: %s
replicas: %d
# Admission policies, which need Kubernetes 1.36.
admission: %v
`, quote(d.Image), quote(d.Policy), d.moves(), quote(d.Stop), quote(d.Nodes), d.Replicas, d.Admission)
	chart := fmt.Sprintf(`apiVersion: v2
name: norn
description: Schedules deep-learning jobs by the policies of the literature
type: application
version: %s
`, version)
	return []File{{"Chart.yaml", chart}, {"values.yaml", values}, {"templates/norn.yaml", body}}, nil
}

// Kustomize is a base for kustomize.
func Kustomize(s Settings) ([]File, error) {
	body, err := Manifests(s)
	if err != nil {
		return nil, err
	}
	return []File{{"kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- norn.yaml\n"}, {"norn.yaml", body}}, nil
}

// Right is something that Norn may do in a cluster.
type Right struct{ Namespace, Group, Resource, Name, Verb string }

// Rights are all rights that the manifests give, but for that by which Norn is known.
func Rights(namespace string) ([]Right, error) {
	s := Default()
	s.Namespace = namespace
	text, err := Manifests(s)
	if err != nil {
		return nil, err
	}
	all, err := Objects(text)
	if err != nil {
		return nil, err
	}
	var out []Right
	for _, u := range all {
		if kind := u.GetKind(); kind != "ClusterRole" && kind != "Role" {
			continue
		}
		var role rbac.Role
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &role); err != nil {
			return nil, err
		}
		for _, r := range role.Rules {
			for _, verb := range r.Verbs {
				if verb == "operate" {
					continue
				}
				for _, resource := range r.Resources {
					right := Right{Namespace: u.GetNamespace(), Group: r.APIGroups[0], Resource: resource, Verb: verb}
					if len(r.ResourceNames) > 0 {
						right.Name = r.ResourceNames[0]
					}
					out = append(out, right)
				}
			}
		}
	}
	return out, nil
}
