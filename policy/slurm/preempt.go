package slurm

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/preempt"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// sortKey is what jobs of one sort have in common.
type sortKey struct {
	partition, qos string
	user           string // where a limit tells users apart
	account        string // where accounts have limits
}

// extra is what is known of partitions and QOSs, for package fairshare.
type extra struct {
	cfg        Config
	partitions map[string]partition
	plain      partition // one that is not told
	qoses      map[string]qos
	limits     map[string]limit        // by QOS
	accounts   map[string]accountLimit // by account, or account/user
	users      bool                    // a limit tells users apart
	books      books                   // where there are limits
	tenants    *tenant.Tree            // likewise
	names      []string                // scratch
	bounds     []bound                 // scratch
	sorts      map[sortKey]int32
	keys       []sortKey // of sorts
	wake       time.Duration
	victims    []victim // scratch
}

// keyOf is the partition and the QOS of a job.
func keyOf(j *job.Job) sortKey {
	k := sortKey{partition: j.Partition}
	if j.Hints != nil {
		k.qos = j.Hints.QoS
	}
	return k
}

// Sort implements fairshare.Extra.
func (x *extra) Sort(j *job.Job) int32 {
	k := keyOf(j)
	if x.users {
		k.user = j.User
	}
	if len(x.accounts) > 0 {
		k.account = j.Tenant
	}
	n, ok := x.sorts[k]
	if !ok {
		n = int32(len(x.keys))
		x.sorts[k] = n
		x.keys = append(x.keys, k)
	}
	return n
}

// Bonus implements fairshare.Extra.
func (x *extra) Bonus(sort int32) (tier int32, priority float64) {
	k := x.keys[sort]
	p := x.partition(k.partition)
	return p.tier, x.cfg.Partition*p.factor + x.cfg.QOS*x.qoses[k.qos].factor
}

// partition is what is told of a partition, or assumed.
func (x *extra) partition(name string) partition {
	if p, ok := x.partitions[name]; ok {
		return p
	}
	return x.plain
}

// Open implements fairshare.Extra.
func (x *extra) Open(v *sched.View) {
	if x.wake = unit.Never; len(x.limits)+len(x.accounts) > 0 {
		x.open(v)
	}
}

// Wake implements fairshare.Extra.
func (x *extra) Wake() time.Duration { return x.wake }

// victim is a job that may be stopped, with what makes it go first.
type victim struct {
	preempt.Victim
	rank  float64 // of its QOS, or the tier of its partition
	since time.Duration
}

// Stops implements fairshare.Extra.
func (x *extra) Stops() bool { return x.cfg.Preempt != Nobody }

// MakeRoom implements fairshare.Extra. The victims of the lowest QOS or tier go first, of
// these the youngest. Those that turn out not to be in the way stay.
func (x *extra) MakeRoom(v *sched.View, p *sched.Plan, id job.ID, sort int32) (stopped []job.ID, started bool) {
	if x.cfg.Preempt == Nobody || v.Job(id).GPUs() == 0 && v.Job(id).Spec().Demand.CPU() == 0 {
		return nil, false
	}
	x.gather(v, p, id, x.keys[sort])
	class := v.Class(v.Job(id).Class())
	free := v.Cluster().FreeMilli(class.Scope, class.Mask)
	within := free
	for i := range x.victims {
		within += v.Cluster().GPUMilli(x.victims[i].On)
	}
	if len(x.victims) == 0 || within < class.Amount.GPU {
		return nil, false
	}
	all := make([]preempt.Victim, len(x.victims))
	for i := range x.victims {
		all[i] = x.victims[i].Victim
	}
	return preempt.MakeRoom(v, p, all, id, x.cfg.Fair.Place)
}

// gather lists the jobs that may be stopped for one. Those that begin anew are among them, as
// in Slurm: who may preempt whom is an order, so jobs never stop each other in turn.
func (x *extra) gather(v *sched.View, p *sched.Plan, id job.ID, key sortKey) {
	x.victims = x.victims[:0]
	may := x.may(key)
	if may == nil {
		return
	}
	scope, c := v.Scope(v.Job(id)), v.Cluster()
	among := func(id cluster.NodeID) bool { return c.In(id, scope) }
	for j := range v.Running() {
		k := keyOf(j.Spec())
		stops, ok := preempt.Stoppable(v, p, j, among)
		if !ok || !may(k) {
			continue
		}
		if until := unit.Later(j.Since(), x.cfg.Exempt); until > v.Now {
			x.wake = min(x.wake, until)
			continue
		}
		w := victim{stops, x.qoses[k.qos].rank, j.Since()}
		if x.cfg.Preempt == ByPartition {
			w.rank = float64(x.partition(k.partition).tier)
		}
		x.victims = append(x.victims, w)
	}
	slices.SortFunc(x.victims, func(a, b victim) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.since, a.since), cmp.Compare(b.ID, a.ID))
	})
}

// may tells which jobs those of a sort may preempt; nil: none.
func (x *extra) may(key sortKey) func(sortKey) bool {
	if x.cfg.Preempt == ByPartition {
		tier := x.partition(key.partition).tier
		return func(k sortKey) bool { return x.partition(k.partition).tier < tier }
	}
	over := x.qoses[key.qos].over
	if len(over) == 0 {
		return nil
	}
	return func(k sortKey) bool { return slices.Contains(over, k.qos) }
}
