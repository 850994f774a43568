package quota

import (
	"math"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/state/dense"
	"github.com/norn-scheduler/norn/tenant"
)

// running lists the jobs with devices by tenant and class, those of each kind in the
// order in which they are victims. The zero running is empty.
type running struct {
	all    []kind
	index  map[kindKey]int32
	of     [][]int32 // of each tenant, its kinds
	places []listed  // by job
	owners dense.Set // tenants that have any
	count  []int32   // of the jobs of each tenant
	read   int       // of View.Placed, those that were looked at
}

// kind is the running jobs of a tenant and a class.
type kind struct {
	kindKey
	list dense.List // by rank; ID of an Item is the complement of the job number
}

type kindKey struct {
	tenant tenant.ID
	class  int32
}

// listed is where a job stands.
type listed struct {
	item dense.Item
	kind int32 // + 1; 0: in no list
}

// add puts a job where it belongs. A job that this plan has started comes first, because
// it loses nothing. It is then placed, and gets its place for the time after.
func (r *running) add(j sched.Job, order Victims) {
	r.remove(j.ID)
	for int(j.Tenant()) >= len(r.of) {
		r.of, r.count = append(r.of, nil), append(r.count, 0)
	}
	for int(j.ID) >= len(r.places) {
		r.places = append(r.places, make([]listed, max(256, int(j.ID)+1-len(r.places), len(r.places)))...)
	}
	key := kindKey{j.Tenant(), j.Class()}
	k, ok := r.index[key]
	if !ok {
		if r.index == nil {
			r.index = map[kindKey]int32{}
		}
		k = int32(len(r.all))
		r.index[key] = k
		r.all = append(r.all, kind{kindKey: key})
		r.of[key.tenant] = append(r.of[key.tenant], k)
	}
	it := dense.Item{A: math.MinInt64, ID: ^int32(j.ID)}
	if !j.Waiting() {
		it.A, it.B = bit(!j.Spec().Stop.Keeps())<<losesWork, -int64(j.Since())
		if order == LowestPriority {
			it.A += order.least(j)
		}
	}
	r.places[j.ID] = listed{it, k + 1}
	r.all[k].list.Insert(it)
	r.owners.Add(int(key.tenant))
	r.count[key.tenant]++
}

// losesWork is the bit of a place that is set for jobs that would lose their work: above
// all priorities.
const losesWork = 40

func (r *running) remove(id job.ID) {
	if int(id) >= len(r.places) || r.places[id].kind == 0 {
		return
	}
	k := &r.all[r.places[id].kind-1]
	k.list.Remove(r.places[id].item)
	r.places[id].kind = 0
	if r.count[k.tenant]--; r.count[k.tenant] == 0 {
		r.owners.Remove(int(k.tenant))
	}
}

// follow gives the jobs that were placed since the last decision their new places.
func (r *running) follow(v *sched.View, order Victims) {
	placed := v.Placed()
	if v.First {
		r.read = len(placed)
	}
	for ; r.read < len(placed); r.read++ {
		if id := placed[r.read]; int(id) < len(r.places) && r.places[id].kind != 0 {
			r.add(v.Job(id), order)
		}
	}
}
