package lyra

import "slices"

// Rule is how servers are chosen that are given back.
type Rule uint8

// The rules.
const (
	Cost   Rule = iota // least preempted shares of jobs, then least collateral damage
	Fewest             // the servers with the fewest jobs first
	Random             // any
)

// Part is the GPUs that a job has on a server.
type Part struct{ Server, GPUs int }

// Reclaim chooses servers so that so many of them are vacated. gpus has the parts of each job
// on all of its servers; lent are the servers that may be given back, of which those that hold
// nothing count first. A job with a part on a chosen server is preempted on all of its
// servers. The result is who is preempted, in order, and the servers that are vacated, not
// more than wanted. rank breaks ties of Random; nil: the number of the server.
//
// Source: Li et al., "Lyra", EuroSys 2023, section 4: the cost of a server is the sum over its
// jobs of 1/(number of servers on which the job runs).
func Reclaim(jobs [][]Part, lent []int, want int, rule Rule, rank func(server int) uint64) (preempted, vacated []int) {
	r := reclaim{jobs: jobs, gone: make([]bool, len(jobs)), lent: lent, on: map[int][]int{}}
	for j, parts := range jobs {
		for _, p := range parts {
			if !slices.Contains(r.on[p.Server], j) {
				r.on[p.Server] = append(r.on[p.Server], j)
			}
		}
	}
	for {
		if vacated = r.vacant(want); len(vacated) == want || len(vacated) == len(lent) {
			return preempted, vacated
		}
		preempted = append(preempted, r.preempt(r.next(want-len(vacated), rule, rank))...)
	}
}

type reclaim struct {
	jobs [][]Part
	gone []bool
	lent []int
	on   map[int][]int // server -> jobs that were there
}

// vacant are the first servers that hold nothing.
func (r *reclaim) vacant(most int) (out []int) {
	for _, s := range r.lent {
		if len(out) < most && r.here(s) == 0 {
			out = append(out, s)
		}
	}
	return out
}

// here is how many jobs a server has.
func (r *reclaim) here(s int) (n int) {
	for _, j := range r.on[s] {
		if !r.gone[j] {
			n++
		}
	}
	return n
}

// next is the server to vacate.
func (r *reclaim) next(need int, rule Rule, rank func(int) uint64) (best int) {
	var least, second float64
	best = -1
	for _, s := range r.lent {
		if r.here(s) == 0 {
			continue
		}
		var key, tie float64
		switch rule {
		case Cost:
			if key = r.cost(s); best < 0 || key <= least+tiny {
				tie = float64(r.collateral(s, need))
			}
		case Fewest:
			key = float64(r.here(s))
		case Random:
			if key = float64(s); rank != nil {
				key = float64(rank(s))
			}
		}
		if best < 0 || key < least-tiny || key <= least+tiny && tie < second {
			best, least, second = s, key, tie
		}
	}
	return best
}

// tiny is a difference that is none between sums of fractions.
const tiny = 1e-9

// cost is how much of jobs is preempted with a server.
func (r *reclaim) cost(s int) (sum float64) {
	for _, j := range r.on[s] {
		if !r.gone[j] {
			sum += 1 / float64(r.servers(j))
		}
	}
	return sum
}

// servers is on how many servers a job runs.
func (r *reclaim) servers(j int) (n int) {
	parts := r.jobs[j]
	for i, p := range parts {
		if !slices.ContainsFunc(parts[:i], func(q Part) bool { return q.Server == p.Server }) {
			n++
		}
	}
	return n
}

// collateral is the GPUs that are vacated on other servers than s, without those of servers
// that become empty and are wanted, too.
func (r *reclaim) collateral(s, need int) (gpus int) {
	off := map[int]int{} // server -> GPUs that are freed there
	var servers []int
	leave := map[int]bool{}
	for _, j := range r.on[s] {
		if r.gone[j] {
			continue
		}
		leave[j] = true
		for _, p := range r.jobs[j] {
			if _, known := off[p.Server]; !known {
				servers = append(servers, p.Server)
			}
			off[p.Server] += p.GPUs
		}
	}
	need-- // s itself
	slices.Sort(servers)
	for _, t := range servers {
		if t == s {
			continue
		}
		stays := slices.ContainsFunc(r.on[t], func(j int) bool { return !r.gone[j] && !leave[j] })
		if !stays && need > 0 && slices.Contains(r.lent, t) {
			need--
			continue
		}
		gpus += off[t]
	}
	return gpus
}

// preempt has all jobs of a server leave.
func (r *reclaim) preempt(s int) (out []int) {
	for _, j := range r.on[s] {
		if !r.gone[j] {
			r.gone[j] = true
			out = append(out, j)
		}
	}
	return out
}
