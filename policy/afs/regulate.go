package afs

import "github.com/norn-scheduler/norn/state/dense"

// Range is the sizes that a job can have.
type Range struct{ Least, Most int }

// Regulate makes shares of GPUs that pack well on nodes of a power of two GPUs.
// Each share becomes a power of two below a node, a whole number of nodes, or
// nothing. So no job is on more nodes than it needs, and no node is in part of
// two jobs that span several. GPUs that rounding down leaves go, a step at a
// time, to the job that has lost most. A size that is not legal is kept where
// the range of a job has no legal one.
func Regulate(shares []int, ranges []Range, node int) []int {
	out := make([]int, len(shares))
	left := 0
	for i, s := range shares {
		out[i] = s
		if r := legalBelow(s, node); s > 0 && r >= ranges[i].Least {
			out[i] = r
		}
		left += s - out[i]
	}
	var lost dense.Heap // jobs by what they have lost, most first, then by their next step
	add := func(i int) {
		if step := legalAbove(out[i], node) - out[i]; shares[i] > 0 && out[i]+step <= ranges[i].Most {
			lost.Set(int32(i), int64(out[i]-shares[i])<<32+int64(step))
		}
	}
	for i := range shares {
		add(i)
	}
	for left > 0 && lost.Len() > 0 { // or the greatest sizes of jobs are in the way
		i, _ := lost.Pop()
		step := legalAbove(out[i], node) - out[i]
		if step > left {
			continue // and less will be left from now on
		}
		out[i] += step
		left -= step
		add(int(i))
	}
	return out
}

// legalBelow is the greatest legal size not above n, 0 for none.
func legalBelow(n, node int) int {
	if n >= node {
		return n / node * node
	}
	r := 0
	for p := 1; p <= n; p *= 2 {
		r = p
	}
	return r
}

// legalAbove is the least legal size above n.
func legalAbove(n, node int) int {
	if n >= node {
		return (n/node + 1) * node
	}
	p := 1
	for p <= n {
		p *= 2
	}
	return p
}
