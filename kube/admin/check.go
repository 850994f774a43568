// Package admin is what an operator does with a cluster beside scheduling it: it finds what
// would not work there, and takes Norn out of it again.
package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authorization "k8s.io/api/authorization/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/deploy"
	"github.com/norn-scheduler/norn/kube/names"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// Level says how bad a finding is.
type Level string

// The levels of findings.
const (
	OK    Level = "ok"
	Hint  Level = "hint"  // it works, though not as well as it could
	Wrong Level = "wrong" // something will not work
)

// Finding is one thing that was found, in a sentence.
type Finding struct {
	Level Level  `json:"level"`
	About string `json:"about"`
	Text  string `json:"text"`
}

// Checker looks at a cluster. Nothing is written to it.
type Checker struct {
	Client    kubernetes.Interface
	Dynamic   dynamic.Interface // for Queues; nil: they are not looked at
	Namespace string            // of Norn
	Nodes     labels.Selector   // of the nodes that are for it; nil: all

	found []Finding
	gpus  map[string]bool // nodes with GPUs
	count int             // GPUs
}

func (c *Checker) add(l Level, about, format string, args ...any) {
	c.found = append(c.found, Finding{l, about, fmt.Sprintf(format, args...)})
}

// Check finds what would not work, and what there is. It fails only where the cluster cannot
// be asked at all.
func (c *Checker) Check(ctx context.Context) ([]Finding, error) {
	c.found, c.gpus, c.count = nil, map[string]bool{}, 0
	if c.Nodes == nil {
		c.Nodes = labels.Everything()
	}
	if err := c.version(); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		about string
		look  func(context.Context) error
	}{
		{"rights", c.rights}, {"nodes", c.nodes}, {"schedulers", c.others}, {"features", c.features}, {"admission", c.admission}, {"controllers", c.controllers}, {"queues", c.queues}, {"leader", c.leader},
	} {
		if err := part.look(ctx); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			c.add(Hint, part.about, "cannot be looked at: %v", err)
		}
	}
	return c.found, nil
}

// The versions of Kubernetes that matter, by minor version.
const (
	oldest   = "1.29" // client libraries speak to no older one that is known of
	policies = "1.36" // from there on policies in CEL change objects
)

func (c *Checker) version() error {
	is, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("the cluster does not answer: %w", err)
	}
	v, err := version.ParseGeneric(is.GitVersion)
	switch {
	case err != nil:
		c.add(Hint, "version", "the cluster calls itself %q, which is no version of Kubernetes", is.GitVersion)
	case v.LessThan(version.MustParseGeneric(oldest)):
		c.add(Wrong, "version", "Kubernetes %s is older than %s, the oldest that Norn knows", is.GitVersion, oldest)
	case v.LessThan(version.MustParseGeneric(policies)):
		c.add(Hint, "version", "Kubernetes %s has no policies that change objects (%s has): write suspend: true and schedulerName: %s into Jobs, and use norn kube manifests --admission=false", is.GitVersion, policies, names.Scheduler)
	default:
		c.add(OK, "version", "Kubernetes %s", is.GitVersion)
	}
	return nil
}

// rights asks the API server what the caller may do, of all that Norn does.
func (c *Checker) rights(ctx context.Context) error {
	rules, err := deploy.Rights(c.Namespace)
	if err != nil {
		return err
	}
	var lacks []string
	for _, r := range rules {
		resource, sub, _ := strings.Cut(r.Resource, "/")
		review, err := c.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorization.SelfSubjectAccessReview{
			Spec: authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorization.ResourceAttributes{
				Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: sub, Name: r.Name,
			}},
		}, meta.CreateOptions{})
		if err != nil {
			return err
		}
		if !review.Status.Allowed {
			lacks = append(lacks, r.Verb+" "+r.Resource)
		}
	}
	if len(lacks) == 0 {
		c.add(OK, "rights", "you may do all that Norn does, so norn kube up works")
		return nil
	}
	slices.Sort(lacks)
	level := Wrong
	if _, err := c.Client.AppsV1().Deployments(c.Namespace).Get(ctx, "norn", meta.GetOptions{}); err == nil {
		level = Hint // which has rights of its own
	}
	c.add(level, "rights", "norn kube up would not work with your rights: you may not %s", strings.Join(slices.Compact(lacks), ", "))
	return nil
}

// nodes counts GPUs, and tells of nodes that Norn would not use.
func (c *Checker) nodes(ctx context.Context) error {
	list, err := c.Client.CoreV1().Nodes().List(ctx, meta.ListOptions{LabelSelector: c.Nodes.String()})
	if err != nil {
		return err
	}
	count, on := map[string]int{}, map[string]int{}
	bad := 0
	for i := range list.Items {
		n, err := convert.NewNode(&list.Items[i], convert.DefaultLevels())
		why := ""
		switch {
		case err != nil:
			why = err.Error()
		case n.Health != cluster.Up:
			why = "node " + n.Name + " takes no new work: " + n.Why
		}
		if why != "" {
			bad++
			if bad <= 10 {
				c.add(Hint, "nodes", "%s", why)
			}
			continue
		}
		for _, g := range n.GPUs {
			c.gpus[n.Name] = true
			count[g.Type] += g.Count
			c.count += g.Count
			on[g.Type]++
			if g.Broken > 0 {
				c.add(Hint, "nodes", "node %s has %d of %d %s that no pod may use", n.Name, g.Broken, g.Broken+g.Count, g.Resource)
			}
		}
	}
	if bad > 10 {
		c.add(Hint, "nodes", "%d further nodes take no new work", bad-10)
	}
	for _, typ := range slices.Sorted(maps.Keys(count)) {
		c.add(OK, "nodes", "%d GPUs of type %s on %d of %d nodes", count[typ], typ, on[typ], len(list.Items))
	}
	switch {
	case len(list.Items) == 0:
		c.add(Wrong, "nodes", "there are no nodes for Norn")
	case len(count) == 0:
		c.add(Hint, "nodes", "none of %d nodes that can be used has GPUs: does the device plugin run?", len(list.Items)-bad)
	}
	return nil
}

// others looks for pods that other schedulers have put on nodes with GPUs.
func (c *Checker) others(ctx context.Context) error {
	pods, with := map[string]int{}, map[string]int{}
	for next := ""; ; {
		list, err := c.Client.CoreV1().Pods("").List(ctx, meta.ListOptions{Limit: 1000, Continue: next, FieldSelector: "spec.nodeName!="})
		if err != nil {
			return err
		}
		for i := range list.Items {
			p := &list.Items[i]
			owner := meta.GetControllerOfNoCopy(p)
			if !c.gpus[p.Spec.NodeName] || p.Spec.SchedulerName == names.Scheduler || owner != nil && owner.Kind == "DaemonSet" || p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed {
				continue
			}
			pods[p.Spec.SchedulerName]++
			if asksGPU(p) {
				with[p.Spec.SchedulerName]++
			}
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	for _, s := range slices.Sorted(maps.Keys(pods)) {
		c.add(Hint, "schedulers", "%s has %d pods on nodes with GPUs, %d of them with GPUs: taint these nodes, or give Norn its own with --nodes, lest both use the same room", s, pods[s], with[s])
	}
	if len(pods) == 0 {
		c.add(OK, "schedulers", "no other scheduler has pods on nodes with GPUs")
	}
	return nil
}

func asksGPU(p *core.Pod) bool {
	for i := range p.Spec.Containers {
		for name, q := range p.Spec.Containers[i].Resources.Requests {
			if (podmap.IsGPU(string(name)) || podmap.IsSlice(string(name))) && !q.IsZero() {
				return true
			}
		}
	}
	return false
}

// leader tells who schedules the cluster.
func (c *Checker) leader(ctx context.Context) error {
	who, renewed, err := leader(ctx, c.Client, c.Namespace)
	switch {
	case err != nil:
		return err
	case who == "":
		c.add(Hint, "leader", "no Norn schedules this cluster")
	default:
		c.add(OK, "leader", "%s schedules this cluster, and said so %v ago", who, renewed.Round(time.Second))
	}
	return nil
}

// leader is who holds the Lease, and how long ago it was renewed; empty: nobody.
func leader(ctx context.Context, client kubernetes.Interface, namespace string) (who string, renewed time.Duration, err error) {
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, names.Lease, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", 0, nil
	}
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return "", 0, err
	}
	renewed = time.Since(lease.Spec.RenewTime.Time)
	if renewed > time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second {
		return "", 0, nil
	}
	return *lease.Spec.HolderIdentity, renewed, nil
}
