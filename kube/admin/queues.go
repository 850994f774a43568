package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/kube/convert"
	"github.com/norn-scheduler/norn/kube/names"
)

// queues looks at the Queues of the cluster.
func (c *Checker) queues(ctx context.Context) error {
	if c.Dynamic == nil {
		return nil
	}
	at := c.Dynamic.Resource(schema.GroupVersionResource{Group: names.Group, Version: names.QueueVersion, Resource: names.Queues})
	list, err := at.List(ctx, meta.ListOptions{})
	if apierrors.IsNotFound(err) {
		c.add(Hint, "queues", "the kind Queue is not defined: nobody has a guarantee or a limit, and a label may name any queue")
		return nil
	}
	if err != nil {
		return err
	}
	all := map[string]*convert.Queue{}
	for i := range list.Items {
		q, err := convert.ReadQueue(list.Items[i].Object)
		if err != nil {
			c.add(Wrong, "queues", "%v", err)
			continue
		}
		all[q.Name] = q
	}
	tree, lost := convert.Arrange(all)
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		c.add(Wrong, "queues", "jobs of Queue %s wait: %v", name, lost[name])
	}
	for _, text := range convert.Promised(tree, unit.Milli(c.count)*unit.One) {
		c.add(Hint, "queues", "%s", text)
	}
	if len(tree) == 0 {
		c.add(OK, "queues", "there are no Queues that can be used: each namespace is a tenant without guarantee and limit")
		return nil
	}
	c.add(OK, "queues", "%d Queues are in force; jobs wait that name another one", len(tree))
	return nil
}

// keepsQueues tells whether there are Queues, which would go with their definition.
func keepsQueues(ctx context.Context, client dynamic.Interface) (int, error) {
	list, err := client.Resource(schema.GroupVersionResource{Group: names.Group, Version: names.QueueVersion, Resource: names.Queues}).List(ctx, meta.ListOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("queues: %w", err)
	}
	return len(list.Items), nil
}
