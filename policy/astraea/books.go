package astraea

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// books are the accounts of fair time: what each job and each tenant would have
// had of the GPUs if they had always been divided by weight. They are a function
// of when jobs came and left, of the weights, and of the GPUs that there are now,
// so that books which are opened anew say the same.
type books struct {
	gpus    int       // that there are
	shares  []float64 // of each tenant, of the whole
	weights []float64 // of which those were made
	tenants []account
	jobs    []entry
	known   int // jobs that were looked at
	left    int // of View.Ended, those that were looked at
	news    []event
}

// account is that of a tenant.
type account struct {
	active []job.ID // by number
	weight float64  // of those together
	at     time.Duration
	spent  float64 // GPU-seconds of the jobs that have left
}

// entry is the account of a job.
type entry struct {
	demand, weight float64
	fair           float64 // GPU-seconds up to the account's at
}

// event is a job that came or left.
type event struct {
	at   time.Duration
	id   job.ID
	left bool
}

// follow brings the books up to date.
func (b *books) follow(v *sched.View) {
	if v.First || v.Total() != b.gpus || b.reweigh(v) {
		b.gpus, b.known, b.left = v.Total(), 0, 0
		b.tenants, b.jobs = b.tenants[:0], b.jobs[:0]
		b.reweigh(v)
	}
	b.news = b.news[:0]
	for ; b.known < v.Jobs(); b.known++ {
		j := v.Job(job.ID(b.known))
		d := j.Spec().Demand
		b.jobs = append(b.jobs, entry{demand: float64(d.Milli(d.Roles[0].Tasks)) / 1000, weight: weightOf(j.Spec())})
		if v.Covers(j) {
			b.news = append(b.news, event{j.Submit(), j.ID, false})
		}
	}
	for ended := v.Ended(); b.left < len(ended); b.left++ {
		if j := v.Job(ended[b.left]); v.Covers(j) {
			b.news = append(b.news, event{j.Since(), j.ID, true})
		}
	}
	slices.SortStableFunc(b.news, func(x, y event) int {
		if c := cmp.Compare(x.at, y.at); c != 0 || x.left == y.left {
			return c
		} else if x.left {
			return 1 // it came before it left
		}
		return -1
	})
	for _, e := range b.news {
		b.happen(v, e)
	}
}

// weightOf is the weight of a job among those of its tenant.
func weightOf(j *job.Job) float64 {
	if j.Hints != nil && j.Hints.Weight > 0 {
		return j.Hints.Weight
	}
	return 1
}

// reweigh finds the share of each tenant and tells whether any has changed.
func (b *books) reweigh(v *sched.View) bool {
	tree := v.Tenants()
	same := len(b.weights) == tree.Len()
	for t := 0; same && t < tree.Len(); t++ {
		same = b.weights[t] == tree.At(tenant.ID(t)).Weight
	}
	if same {
		return false
	}
	b.weights, b.shares = b.weights[:0], b.shares[:0]
	for t := range tenant.ID(tree.Len()) {
		b.weights = append(b.weights, tree.At(t).Weight)
		b.shares = append(b.shares, 1)
	}
	for t := range tenant.ID(tree.Len()) { // parents come before their children
		sum := 0.0
		for _, c := range tree.At(t).Children {
			sum += b.weights[c]
		}
		for _, c := range tree.At(t).Children {
			b.shares[c] = b.shares[t] * b.weights[c] / sum
		}
	}
	return true
}

// quota is the GPUs that a tenant's share amounts to.
func (b *books) quota(t tenant.ID) float64 { return float64(b.gpus) * b.shares[t] }

// happen takes in that a job came or left.
func (b *books) happen(v *sched.View, e event) {
	j := v.Job(e.id)
	for len(b.tenants) <= int(j.Tenant()) {
		b.tenants = append(b.tenants, account{})
	}
	a := &b.tenants[j.Tenant()]
	b.settle(j.Tenant(), e.at)
	i, found := slices.BinarySearch(a.active, e.id)
	switch {
	case !e.left && !found:
		a.active = slices.Insert(a.active, i, e.id)
	case e.left && found:
		a.active = slices.Delete(a.active, i, i+1)
		a.spent += j.Service()
	}
	a.weight = 0
	for _, id := range a.active {
		a.weight += b.jobs[id].weight
	}
}

// settle credits the jobs of a tenant with their fair time up to a moment.
func (b *books) settle(t tenant.ID, at time.Duration) {
	a := &b.tenants[t]
	if dt := (at - a.at).Seconds(); dt > 0 {
		for _, id := range a.active {
			b.jobs[id].fair += dt * b.rate(t, id)
		}
	}
	a.at = max(a.at, at)
}

// rate is the GPUs that are a job's fair share now.
func (b *books) rate(t tenant.ID, id job.ID) float64 {
	e := &b.jobs[id]
	return min(e.demand, b.quota(t)*e.weight/b.tenants[t].weight)
}

// fair is the fair time of an active job up to now.
func (b *books) fair(j sched.Job, now time.Duration) float64 {
	t := j.Tenant()
	return b.jobs[j.ID].fair + (now-b.tenants[t].at).Seconds()*b.rate(t, j.ID)
}

// job is rho of an active job: what it has had of its fair time.
func (b *books) job(j sched.Job, now time.Duration) float64 {
	return ratio(j.Service(), b.fair(j, now))
}

// tenant is what a tenant has had, and her fair time.
func (b *books) tenant(v *sched.View, t tenant.ID) (had, fair float64) {
	a := &b.tenants[t]
	had = a.spent
	for _, id := range a.active {
		had += v.Job(id).Service()
	}
	return had, b.quota(t) * v.Now.Seconds()
}

// ratio is had over fair; who is due nothing and had nothing is the poorest.
func ratio(had, fair float64) float64 {
	switch {
	case fair > 0:
		return had / fair
	case had == 0:
		return 0
	}
	return math.Inf(1)
}
