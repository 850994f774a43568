package gandiva

import (
	"cmp"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// impatient tells whether a job has waited without a server for so long that others
// must let it have one: looked at when it looks for something better.
func (g *policy) impatient(m *member) bool {
	return g.due() && m.j.Waiting() && g.v.Now-m.j.Since() >= g.cfg.Patience
}

// leastOfAll is the node that is asked for least, by part of its GPUs, of those that
// could have a job, whatever the size of the jobs there.
func (g *policy) leastOfAll(m *member) *server {
	var best *server
	for _, s := range g.servers {
		if len(s.nodes) == 1 && (best == nil || s.load*best.room.gpus < best.load*s.room.gpus) && s.pool == m.j.Pool() && g.canHold(s, m) {
			best = s
		}
	}
	return best
}

// makeWay clears nodes for the first gang larger than any node that has waited
// for too long: those that are asked for least. Jobs that live there go to
// other servers, and take turns there if need be.
func (g *policy) makeWay() {
	for _, m := range g.queue {
		if m.group != nil || !g.impatient(m) || g.p.Alloc(m.j.ID) != nil {
			continue
		}
		if m.size > g.v.Cluster().MaxNodeGPUs(g.v.Scope(m.j), g.v.Class(m.j.Class()).Mask) && g.clearFor(m) {
			return
		}
	}
}

// clearFor clears nodes for a gang, if those who live there find other servers.
func (g *policy) clearFor(m *member) bool {
	chosen := g.leastLoaded(m)
	if chosen == nil {
		return false
	}
	all := g.servers
	g.servers = slices.DeleteFunc(slices.Clone(all), func(s *server) bool { return slices.Contains(chosen, s) })
	for _, s := range chosen {
		if slices.ContainsFunc(s.groups, func(k *group) bool { return g.leastOfAll(k.lead) == nil }) {
			g.servers = all
			return false
		}
	}
	var nodes []cluster.NodeID
	for _, s := range chosen {
		nodes = append(nodes, s.first())
		for _, k := range slices.Clone(s.groups) {
			g.sendAway(k, m)
		}
	}
	g.servers = all
	set := g.merge(nodes)
	g.dropMerged()
	g.moveIn(m, set.first(), false)
	g.add(set, g.groupOf(m))
	return true
}

// leastLoaded is the nodes that are asked for least and together have as many GPUs as a
// gang asks for; nil: there are not so many that can be cleared.
func (g *policy) leastLoaded(m *member) []*server {
	var of []*server
	for _, s := range g.servers {
		if len(s.nodes) == 1 && !s.held && s.pool == m.j.Pool() && g.suits(s, m) && !slices.ContainsFunc(s.groups, g.tied) {
			of = append(of, s)
		}
	}
	slices.SortStableFunc(of, func(a, b *server) int { return cmp.Compare(a.load*b.room.gpus, b.load*a.room.gpus) })
	gpus := 0
	for i, s := range of {
		if gpus += s.room.gpus; gpus >= m.size {
			return of[:i+1]
		}
	}
	return nil
}

// tied tells whether a group cannot go to another server now.
func (g *policy) tied(k *group) bool {
	if k.away || k.trial || k.gone {
		return true
	}
	for _, m := range [...]*member{k.lead, k.guest} {
		if m != nil && (g.frozen(m) || m.j.Spec().Stop == job.Freeze || !m.j.Waiting() && m.j.Phase() != job.Running) {
			return true
		}
	}
	return false
}

// sendAway lets a group live on another server from now on, where it starts if it need
// not wait for its turn.
func (g *policy) sendAway(k *group, m *member) {
	if k.runs {
		g.suspend(k, job.Reason{Code: job.MakesRoom, Job: m.j.ID})
		g.note(k, func(n *note) { n.stamp = g.v.Now })
	}
	to := g.find(k.lead, nil)
	if to == nil {
		to = g.least(k.lead)
	}
	if to == nil {
		to = g.leastOfAll(k.lead)
	}
	g.rehouse(k, to)
}
