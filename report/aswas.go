package report

import (
	"cmp"
	"slices"
	"time"
)

// AsItWas is the name of the run that tells what really happened.
const AsItWas = "as it was"

// Happened is the result of what really happened, of the jobs of which that is known: their
// times, also by tenant and size, and nothing else. It is nil where it is known of none.
// With the option Series it has distributions, too.
func Happened(jobs []Job, opt Options) *Result {
	n := &past{at: map[string]int{}}
	if opt.Series {
		n.r.curves = &curves{}
	}
	for i := range jobs {
		if j := &jobs[i]; j.Was.Ended {
			n.job(j)
		}
	}
	if len(n.jct) == 0 {
		return nil
	}
	r := &n.r
	r.Told = true
	r.Jobs.Submitted = len(n.jct)
	r.JCT, r.Wait, r.FirstStart = describe(n.jct), describe(n.wait), describe(slices.Clone(n.wait))
	r.Makespan = n.last - n.first
	for i := range n.tenants {
		r.Tenants = append(r.Tenants, n.tenants[i].group(n.names[i]))
	}
	slices.SortFunc(r.Tenants, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	for i := range n.sizes {
		if n.sizes[i].jobs > 0 {
			r.Sizes = append(r.Sizes, n.sizes[i].group(sizeNames[i]))
		}
	}
	return r
}

// past is the pass over the jobs of which is known how they fared.
type past struct {
	r           Result
	jct, wait   []time.Duration
	first, last time.Duration
	names       []string
	at          map[string]int // of the names
	tenants     []sums         // of the names
	sizes       [sizes]sums
}

func (n *past) job(j *Job) {
	if len(n.jct) == 0 || j.Submit < n.first {
		n.first = j.Submit
	}
	n.last = max(n.last, j.Submit+j.Was.JCT)
	n.jct, n.wait = append(n.jct, j.Was.JCT), append(n.wait, j.Was.Wait)
	at, known := n.at[j.Tenant]
	if !known {
		at = len(n.names)
		n.at[j.Tenant] = at
		n.names, n.tenants = append(n.names, j.Tenant), append(n.tenants, sums{})
	}
	for _, g := range []*sums{&n.tenants[at], &n.sizes[sizeOf(j.GPUs)]} {
		g.jobs++
		g.ended++
		g.gpu += float64(j.GPUs) * j.Length.Seconds()
		g.jct.add(j.Was.JCT)
		g.wait.add(j.Was.Wait)
	}
	if cv := n.r.curves; cv != nil {
		cv.jct.add(j.Was.JCT.Seconds(), secondsGrid[:])
		cv.wait.add(j.Was.Wait.Seconds(), secondsGrid[:])
	}
}
