package fairshare

import (
	"cmp"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/tenant"
)

// ranks gives every account its fair-share factor, from 0 (has used most for
// its share) to 1.
type ranks struct {
	usage   *usage
	tenants *tenant.Tree
	factor  []float64 // of accounts
	used    []float64 // of tenants, with all below them
	users   [][]int32 // accounts of each tenant
}

// member is a tenant or an account among its siblings.
type member struct {
	id      int32
	account bool
	level   int64 // the more, the less it has used for its share
}

// gather sums usage up the tree.
func (r *ranks) gather(u *usage, t *tenant.Tree) {
	r.usage, r.tenants = u, t
	r.used = slices.Grow(r.used[:0], t.Len())[:t.Len()]
	clear(r.used)
	for len(r.users) < t.Len() {
		r.users = append(r.users, nil)
	}
	for i := range r.users {
		r.users[i] = r.users[i][:0]
	}
	for i := range u.all {
		a := &u.all[i]
		r.users[a.tenant] = append(r.users[a.tenant], int32(i))
		for id := a.tenant; id >= 0; id = t.At(id).Parent {
			r.used[id] += a.usage
		}
	}
	r.factor = slices.Grow(r.factor[:0], len(u.all))[:len(u.all)]
}

// weights is the sum of the weights of the tenants and accounts right below a
// tenant. An account weighs 1.
func (r *ranks) weights(id tenant.ID) float64 {
	sum := float64(len(r.users[id]))
	for _, c := range r.tenants.At(id).Children {
		sum += r.tenants.At(c).Weight
	}
	return sum
}

// fairTree is Slurm's Fair Tree. Siblings are ordered by level fairness, which
// is their share among the siblings divided by their part of what all siblings
// have used; all accounts below the first come before all below the second, and
// so on. Those below equal siblings are ordered together, and equal accounts get
// the same factor.
func (r *ranks) fairTree(u *usage, t *tenant.Tree) {
	r.gather(u, t)
	r.order(r.below(nil, tenant.Root), len(u.all))
}

// order ranks siblings and all below them, and returns the rank that is next.
func (r *ranks) order(siblings []member, rank int) int {
	slices.SortFunc(siblings, func(a, b member) int {
		if a.level != b.level {
			return cmp.Compare(b.level, a.level)
		}
		return cmp.Compare(a.id, b.id)
	})
	for len(siblings) > 0 {
		var inside []member
		next, n := rank, 0
		for ; n < len(siblings) && siblings[n].level == siblings[0].level; n++ {
			if m := siblings[n]; m.account {
				r.factor[m.id] = float64(rank) / float64(len(r.usage.all))
				next--
			} else {
				inside = r.below(inside, tenant.ID(m.id))
			}
		}
		rank = r.order(inside, next)
		siblings = siblings[n:]
	}
	return rank
}

// below appends what is right below a tenant.
func (r *ranks) below(out []member, id tenant.ID) []member {
	all, used := r.weights(id), r.used[id]
	for _, c := range r.tenants.At(id).Children {
		out = append(out, member{int32(c), false, level(r.tenants.At(c).Weight/all, r.used[c]/used)})
	}
	for _, a := range r.users[id] {
		out = append(out, member{a, true, level(1/all, r.usage.all[a].usage/used)})
	}
	return out
}

// level is share / part on a scale of nine digits, so that what is equal but
// for rounding is equal. An account that has used nothing stands above all
// others.
func level(share, part float64) int64 {
	if part == 0 || math.IsNaN(part) {
		return math.MaxInt64
	}
	return int64(math.Round(math.Log(share/part) * 1e9))
}

// classic is the factor of Slurm without Fair Tree, 2^(-U/(S d)). S is the part
// of the whole that the weights give an account. U is its part of all usage,
// mixed at each level with the usage of its siblings. d damps the effect.
func (r *ranks) classic(u *usage, t *tenant.Tree, damping float64) {
	r.gather(u, t)
	if r.used[tenant.Root] == 0 {
		for i := range r.factor {
			r.factor[i] = 1
		}
		return
	}
	r.spread(tenant.Root, 1, 1, damping)
}

// spread goes down from a tenant with a share and an effective usage.
func (r *ranks) spread(id tenant.ID, share, usage, damping float64) {
	all, total := r.weights(id), r.used[tenant.Root]
	effective := func(used, weight float64) float64 {
		if id == tenant.Root {
			return used / total
		}
		return used/total + (usage-used/total)*weight/all
	}
	for _, c := range r.tenants.At(id).Children {
		w := r.tenants.At(c).Weight
		r.spread(c, share*w/all, effective(r.used[c], w), damping)
	}
	for _, a := range r.users[id] {
		f := math.Exp2(-effective(r.usage.all[a].usage, 1) / (share / all) / damping)
		r.factor[a] = math.Round(f*1e9) / 1e9
	}
}
