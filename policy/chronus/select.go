package chronus

import (
	"cmp"
	"slices"
)

// Want is what a job needs: GPUs in so many of the first leases that lie before its deadline.
type Want struct {
	GPUs   int
	Leases int
	Window int
}

// Pack finds leases for all jobs, of the GPUs that are free in each, one job after the other, the
// latest leases of each first. Large jobs come first, and of equal ones those with the least to
// spare. The result has the leases of each job in order of time; ok is false where one finds
// too few.
func Pack(free []int, wants []Want) (leases [][]int, ok bool) {
	left := slices.Clone(free)
	leases = make([][]int, len(wants))
	for _, i := range order(wants) {
		if leases[i], ok = Latest(left, wants[i]); !ok {
			return nil, false
		}
		for _, t := range leases[i] {
			left[t] -= wants[i].GPUs
		}
	}
	return leases, true
}

// order is the jobs in the order in which they are packed.
func order(wants []Want) []int {
	all := make([]int, len(wants))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int {
		x, y := wants[a], wants[b]
		return cmp.Or(cmp.Compare(y.GPUs, x.GPUs), cmp.Compare(x.Window-x.Leases, y.Window-y.Leases), cmp.Compare(y.Window, x.Window))
	})
	return all
}

// Latest finds the latest leases for one job.
func Latest(free []int, w Want) (leases []int, ok bool) {
	for t := min(w.Window, len(free)) - 1; t >= 0 && len(leases) < w.Leases; t-- {
		if free[t] >= w.GPUs {
			leases = append(leases, t)
		}
	}
	slices.Reverse(leases)
	return leases, len(leases) == w.Leases
}

// Search finds leases for all jobs wherever there are any, by trying all choices in the order of
// Pack. It gives up after so many steps; sure is false then, and nothing is known.
func Search(free []int, wants []Want, steps int) (leases [][]int, ok, sure bool) {
	s := search{left: slices.Clone(free), wants: wants, order: order(wants), leases: make([][]int, len(wants)), steps: steps}
	if !s.room() {
		return nil, false, true
	}
	if ok = s.job(0); !ok {
		return nil, false, s.steps > 0
	}
	for i := range s.leases {
		slices.Reverse(s.leases[i])
	}
	return s.leases, true, true
}

// search is the choices made so far.
type search struct {
	left   []int
	wants  []Want
	order  []int
	leases [][]int // latest first
	steps  int
}

// room tells whether the jobs that must end by each lease fit into the GPUs up to there.
func (s *search) room() bool {
	due := make([]int, len(s.left)+1)
	for _, w := range s.wants {
		due[min(w.Window, len(s.left))] += w.GPUs * w.Leases
	}
	have, need := 0, due[0]
	for t, n := range s.left {
		have, need = have+n, need+due[t+1]
		if need > have {
			return false
		}
	}
	return need <= have
}

// job chooses leases for the n-th job and all behind it.
func (s *search) job(n int) bool {
	if n == len(s.order) {
		return true
	}
	i := s.order[n]
	return s.lease(n, i, min(s.wants[i].Window, len(s.left))-1)
}

// lease chooses among the leases up to t what a job still needs.
func (s *search) lease(n, i, t int) bool {
	w := s.wants[i]
	if len(s.leases[i]) == w.Leases {
		return s.job(n + 1)
	}
	if s.steps--; s.steps <= 0 || t+1 < w.Leases-len(s.leases[i]) {
		return false
	}
	if s.left[t] >= w.GPUs {
		s.left[t] -= w.GPUs
		s.leases[i] = append(s.leases[i], t)
		if s.lease(n, i, t-1) {
			return true
		}
		s.left[t] += w.GPUs
		s.leases[i] = s.leases[i][:len(s.leases[i])-1]
	}
	return s.lease(n, i, t-1)
}

// Fill chooses jobs that together have as many GPUs as may be, and no more than are spare. Of
// equal choices it prefers the first jobs.
func Fill(spare int, gpus []int) (chosen []bool) {
	chosen = make([]bool, len(gpus))
	if spare <= 0 {
		return chosen
	}
	last := make([]int, spare+1) // the job by which a sum was reached first, + 1
	last[0] = -1
	for i, n := range gpus {
		if n <= 0 {
			continue
		}
		for sum := spare; sum >= n; sum-- {
			if last[sum] == 0 && last[sum-n] != 0 && last[sum-n] != i+1 {
				last[sum] = i + 1
			}
		}
	}
	sum := spare
	for last[sum] == 0 {
		sum--
	}
	for sum > 0 {
		i := last[sum] - 1
		chosen[i] = true
		sum -= gpus[i]
	}
	return chosen
}
