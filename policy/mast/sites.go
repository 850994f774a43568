package mast

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/place"
)

// noType is the type of a site that is for jobs without GPUs.
const noType cluster.TypeID = -1

// site is a dynamic cluster. As a place.Strategy it places gangs there.
type site struct {
	region int32
	place  cluster.DomainID // None: the nodes of the region that stand in no place of the level
	typ    cluster.TypeID
	host   bool             // the type is no GPU, and only jobs that name it may have it
	nodes  []cluster.NodeID // in order
	inner  place.Strategy
}

// survey is the regions and dynamic clusters of a cluster.
type survey struct {
	regions []cluster.DomainID // by number; None: what stands in no region
	sites   []*site            // by region, place and type
}

// look finds the dynamic clusters among some nodes, which are in order.
func look(c *cluster.Cluster, cfg *Config, nodes []cluster.NodeID) (s survey) {
	type key struct {
		region, place cluster.DomainID
		typ           cluster.TypeID
	}
	of := map[key]*site{}
	add := func(k key, id cluster.NodeID) {
		at := of[k]
		if at == nil {
			at = &site{place: k.place, typ: k.typ, host: k.typ != noType && c.Type(k.typ).Host, inner: cfg.Place}
			of[k] = at
		}
		if n := len(at.nodes); n == 0 || at.nodes[n-1] != id { // a node may have several groups of a type
			at.nodes = append(at.nodes, id)
		}
	}
	for _, id := range nodes {
		k := key{cluster.PlaceOf(c, id, cfg.Region), cluster.PlaceOf(c, id, cfg.Cluster), noType}
		add(k, id)
		for _, g := range c.NodeGroups(id) {
			k.typ = c.GroupType(g)
			add(k, id)
		}
	}
	keys := make([]key, 0, len(of))
	for k := range of {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.region, b.region), cmp.Compare(a.place, b.place), cmp.Compare(a.typ, b.typ))
	})
	for _, k := range keys {
		if n := len(s.regions); n == 0 || s.regions[n-1] != k.region {
			s.regions = append(s.regions, k.region)
		}
		at := of[k]
		at.region = int32(len(s.regions) - 1)
		s.sites = append(s.sites, at)
	}
	return s
}

// takes tells whether gangs of a demand and with a mask of types belong on a site of this type.
func (s *site) takes(d *job.Demand, mask cluster.TypeMask) bool {
	if d.Milli(d.Roles[0].Tasks) == 0 {
		return s.typ == noType
	}
	return s.typ != noType && mask.Has(s.typ) && (mask != 0 || !s.host)
}

// free is the number of wholly free GPUs that jobs of a scope may have there, or 0 where it has no
// usable node for them.
func (s *site) free(c *cluster.Cluster, scope cluster.PoolID) (n int, ok bool) {
	for _, id := range s.nodes {
		if !c.Usable(id) || !c.In(id, scope) {
			continue
		}
		if ok = true; s.typ != noType {
			n += c.NodeFreeGPUs(id, 1<<s.typ)
		}
	}
	return n, ok
}

// has tells whether a node is of the site.
func (s *site) has(id cluster.NodeID) bool {
	_, ok := slices.BinarySearch(s.nodes, id)
	return ok
}

// String implements place.Strategy.
func (s *site) String() string { return s.inner.String() }

// Place implements place.Strategy: on nodes of the site, and on its type alone.
func (s *site) Place(r *place.Request) (job.Reason, bool) {
	if !s.takes(r.Demand, r.Mask) {
		r.Out.Reset()
		return job.Reason{Code: job.NeedGPUs, Need: int32(r.GPUs()), Job: job.None}, false
	}
	mask, pool := r.Mask, r.Pool
	defer func() { r.Mask, r.Pool = mask, pool }()
	if s.typ != noType {
		r.Mask = 1 << s.typ
	}
	if cluster.Narrowed(pool) { // one place of a level of which the gang wants to be in one
		why, ok := s.inner.Place(r)
		if ok && slices.ContainsFunc(r.Out.Pieces, func(p cluster.Piece) bool { return !s.has(p.Node) }) {
			r.Out.Reset()
			return job.Reason{Code: job.NeedGPUs, Need: int32(r.GPUs()), Job: job.None}, false
		}
		return why, ok
	}
	nodes := slices.DeleteFunc(slices.Clone(s.nodes), func(id cluster.NodeID) bool { return !r.Cluster.In(id, pool) })
	r.Pool = r.Cluster.Narrow(nodes)
	defer r.Cluster.Widen()
	return s.inner.Place(r)
}

// anywhere is the strategy that takes the first dynamic cluster which has room. It tells whether a
// gang could ever run.
type anywhere struct{ m *policy }

// String implements place.Strategy.
func (a *anywhere) String() string { return a.m.cfg.Place.String() }

// Place implements place.Strategy.
func (a *anywhere) Place(r *place.Request) (why job.Reason, ok bool) {
	why = job.Reason{Code: job.NeedGPUs, Need: int32(r.GPUs()), Job: job.None}
	for _, s := range a.m.sites {
		if !s.takes(r.Demand, r.Mask) {
			continue
		}
		no, ok := s.Place(r)
		if ok {
			return job.Reason{}, true
		}
		if no.Have >= why.Have {
			why = no
		}
	}
	return why, false
}
