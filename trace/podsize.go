package trace

import (
	"github.com/norn-scheduler/norn/internal/kubelist"
	"github.com/norn-scheduler/norn/trace/podmap"
)

// meta is what the metadata of the pod tells of its job.
func (p *pod) meta() *podmap.Meta {
	m := &podmap.Meta{
		Namespace: p.Metadata.Namespace, Name: p.Metadata.Name, UID: p.Metadata.UID, Group: p.Spec.Group.Name,
		Labels: p.Metadata.Labels, Annotations: p.Metadata.Annotations,
	}
	for _, o := range p.Metadata.Owners {
		m.Owners = append(m.Owners, podmap.Owner(o))
	}
	return m
}

// amounts is what a pod of that spec needs of its node.
func (p *podSpec) amounts() (podmap.Amounts, error) {
	var spec podmap.Spec
	containers := func(of []podContainer) (out []podmap.Container, err error) {
		for i := range of {
			one := podmap.Container{Sidecar: of[i].RestartPolicy == "Always"}
			if one.Asks, err = amounts(podmap.Asked(of[i].Resources.Requests, of[i].Resources.Limits)); err != nil {
				return nil, err
			}
			out = append(out, one)
		}
		return out, nil
	}
	var err error
	if spec.Containers, err = containers(p.Containers); err != nil {
		return nil, err
	}
	if spec.Init, err = containers(p.Init); err != nil {
		return nil, err
	}
	if spec.Whole, err = amounts(podmap.Asked(p.Resources.Requests, p.Resources.Limits)); err != nil {
		return nil, err
	}
	if spec.Overhead, err = amounts(p.Overhead); err != nil {
		return nil, err
	}
	return spec.Amounts(), nil
}

// size is what a pod of that spec asks for.
func (p *podSpec) size() (podmap.Size, error) {
	all, err := p.amounts()
	if err != nil {
		return podmap.Size{}, err
	}
	s := all.Size()
	s.Types = p.gpuTypes()
	return s, nil
}

// amounts reads quantities.
func amounts(written map[string]kubelist.Quantity) (podmap.Amounts, error) {
	return kubelist.Amounts(written, podmap.Quantity)
}

// gpuTypes are the acceptable GPU types, joined by "|".
func (p *podSpec) gpuTypes() string {
	var affinity [][]podmap.Match
	if p.Affinity != nil {
		for _, term := range p.Affinity.Node.Required.Terms {
			var all []podmap.Match
			for _, m := range term.Match {
				all = append(all, podmap.Match(m))
			}
			affinity = append(affinity, all)
		}
	}
	return podmap.Types(p.NodeSelector, affinity)
}
