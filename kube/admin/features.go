package admin

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gates are the feature gates on which something rests, and what.
var gates = map[string]string{
	"JobManagedBy":              "Jobs that others manage are not told apart",
	"MutatingAdmissionPolicy":   "Jobs with a queue are not made suspended",
	"ValidatingAdmissionPolicy": "users may change what Norn notes",
	"JobPodFailurePolicy":       "exit code 75 counts as a failure of the Job",
	"SidecarContainers":         "what sidecars ask for is counted otherwise",
}

// enabled is a line of the API server's metrics on a gate.
var enabled = regexp.MustCompile(`(?m)^kubernetes_feature_enabled\{name="(\w+)"[^}]*\} ([01])`)

// features looks which gates are off, in the metrics of the API server, where the caller may
// read them.
func (c *Checker) features(ctx context.Context) error {
	text, err := c.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		c.add(Hint, "features", "you may not read the metrics of the API server, so nobody knows which feature gates are off")
		return nil
	}
	if err != nil {
		return err
	}
	off := 0
	for _, m := range enabled.FindAllStringSubmatch(string(text), -1) {
		if why := gates[m[1]]; why != "" && m[2] == "0" {
			off++
			c.add(Hint, "features", "the feature gate %s is off: %s", m[1], why)
		}
	}
	if off == 0 {
		c.add(OK, "features", "no feature gate is off on which something rests")
	}
	return nil
}

// admission looks for the policies that the manifests have.
func (c *Checker) admission(ctx context.Context) error {
	api := c.Client.AdmissionregistrationV1()
	for _, p := range []struct {
		name, without string
		get           func(name string) error
	}{
		{"norn-jobs", "Jobs with a queue are not made suspended and left to Norn by themselves", func(name string) error {
			if _, err := api.MutatingAdmissionPolicies().Get(ctx, name, meta.GetOptions{}); err != nil {
				return err
			}
			_, err := api.MutatingAdmissionPolicyBindings().Get(ctx, name, meta.GetOptions{})
			return err
		}},
		{"norn-annotations", "users may change what Norn notes on Jobs and pods", func(name string) error {
			if _, err := api.ValidatingAdmissionPolicies().Get(ctx, name, meta.GetOptions{}); err != nil {
				return err
			}
			_, err := api.ValidatingAdmissionPolicyBindings().Get(ctx, name, meta.GetOptions{})
			return err
		}},
	} {
		err := p.get(p.name)
		switch {
		case apierrors.IsNotFound(err):
			c.add(Hint, "admission", "the policy %s or its binding is not there: %s", p.name, p.without)
		case err != nil:
			return err
		default:
			c.add(OK, "admission", "the policy %s is there", p.name)
		}
	}
	return nil
}

// controllers looks how fast Jobs get their pods.
func (c *Checker) controllers(ctx context.Context) error {
	const slow = "kube-controller-manager makes some 16 pods of Jobs a second and deletes 9 with its defaults, whoever schedules: --kube-api-qps, --kube-api-burst and --concurrent-job-syncs change that"
	list, err := c.Client.CoreV1().Pods(meta.NamespaceSystem).List(ctx, meta.ListOptions{LabelSelector: "component=kube-controller-manager"})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		c.add(Hint, "controllers", "the pace of the Job controller cannot be seen here; %s", slow)
		return nil
	}
	var flags []string
	for i := range list.Items[0].Spec.Containers {
		k := &list.Items[0].Spec.Containers[i]
		for _, arg := range append(append([]string{}, k.Command...), k.Args...) {
			if name, _, _ := strings.Cut(arg, "="); name == "--kube-api-qps" || name == "--concurrent-job-syncs" {
				flags = append(flags, arg)
			}
		}
	}
	if len(flags) == 0 {
		c.add(Hint, "controllers", "%s", slow)
		return nil
	}
	c.add(OK, "controllers", "%s", fmt.Sprintf("kube-controller-manager runs with %s", strings.Join(flags, " ")))
	return nil
}
