package deploy

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// objects finds in a cluster what manifests speak of.
type objects struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func connect(cfg *rest.Config) (*objects, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(d)
	if err != nil {
		return nil, fmt.Errorf("the abilities of the cluster: %w", err)
	}
	return &objects{client, restmapper.NewDiscoveryRESTMapper(groups)}, nil
}

// of is where an object is changed.
func (o *objects) of(u *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := u.GroupVersionKind()
	m, err := o.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return o.client.Resource(m.Resource).Namespace(u.GetNamespace()), nil
	}
	return o.client.Resource(m.Resource), nil
}

func named(u *unstructured.Unstructured) string {
	if ns := u.GetNamespace(); ns != "" {
		return u.GetKind() + " " + ns + "/" + u.GetName()
	}
	return u.GetKind() + " " + u.GetName()
}

// Remove deletes what manifests made, the last first, and calls told for each object that was
// there. Objects without the label of Norn belong to somebody else, and stay.
func Remove(ctx context.Context, cfg *rest.Config, all []*unstructured.Unstructured, told func(what string)) error {
	o, err := connect(cfg)
	if err != nil {
		return err
	}
	background := v1.DeletePropagationBackground
	for i := len(all) - 1; i >= 0; i-- {
		u := all[i]
		at, err := o.of(u)
		if meta.IsNoMatchError(err) { // a cluster before admission policies
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", named(u), err)
		}
		is, err := at.Get(ctx, u.GetName(), v1.GetOptions{})
		if err == nil && is.GetLabels()[label] != u.GetLabels()[label] {
			continue
		}
		if err == nil {
			uid := is.GetUID()
			err = at.Delete(ctx, u.GetName(), v1.DeleteOptions{PropagationPolicy: &background, Preconditions: &v1.Preconditions{UID: &uid}})
		}
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("%s: %w", named(u), err)
		default:
			told(named(u))
		}
	}
	return nil
}

// label is on all that the manifests make.
const label = "app.kubernetes.io/name"
