package logs

import (
	"math"
	"sort"
)

// Rows tells how similar jobs of one user follow each other.
type Rows struct {
	Follow float64   // share of jobs that follow another one
	Rank   float64   // Spearman's correlation of the run times of neighbours, among jobs of their size
	Same   float64   // share of neighbours that are of one class
	Chance float64   // the share that would be by chance
	Gaps   []float64 // between neighbours, seconds
}

// RowsOf looks at rows of jobs of equal owner and size, each submitted at most
// within seconds after the one before. The jobs must be in order of submission.
func RowsOf(jobs []Job, within float64, owner, class func(*Job) string) Rows {
	rank := sizeRanks(jobs)
	type key struct {
		owner string
		gpus  int
	}
	last := map[key]int{}
	count := map[string]int{}
	var r Rows
	var a, b []float64
	same := 0
	for i := range jobs {
		count[class(&jobs[i])]++
		k := key{owner(&jobs[i]), jobs[i].GPUs}
		if p, ok := last[k]; ok && jobs[i].Submit-jobs[p].Submit <= within {
			a, b = append(a, rank[p]), append(b, rank[i])
			r.Gaps = append(r.Gaps, jobs[i].Submit-jobs[p].Submit)
			if class(&jobs[i]) == class(&jobs[p]) {
				same++
			}
		}
		last[k] = i
	}
	var squares []float64
	for _, n := range count {
		squares = append(squares, math.Pow(float64(n)/float64(len(jobs)), 2))
	}
	sort.Float64s(squares) // so that the sum does not depend on the order of the map
	for _, s := range squares {
		r.Chance += s
	}
	r.Follow = float64(len(a)) / float64(len(jobs))
	r.Same = float64(same) / float64(len(a))
	r.Rank = correlation(a, b)
	return r
}

// sizeRanks are the ranks in (0, 1) of the run times among the jobs of equal
// size; ties share their mean rank.
func sizeRanks(jobs []Job) []float64 {
	bySize := map[int][]int{}
	for i := range jobs {
		bySize[jobs[i].GPUs] = append(bySize[jobs[i].GPUs], i)
	}
	rank := make([]float64, len(jobs))
	for _, members := range bySize {
		sort.SliceStable(members, func(i, k int) bool { return jobs[members[i]].Run < jobs[members[k]].Run })
		for i := 0; i < len(members); {
			k := i
			for k < len(members) && jobs[members[k]].Run == jobs[members[i]].Run {
				k++
			}
			for m := i; m < k; m++ {
				rank[members[m]] = float64(i+k) / 2 / float64(len(members))
			}
			i = k
		}
	}
	return rank
}

// correlation is Pearson's.
func correlation(a, b []float64) float64 {
	ma, mb := mean(a), mean(b)
	var ab, aa, bb float64
	for i := range a {
		ab += (a[i] - ma) * (b[i] - mb)
		aa += (a[i] - ma) * (a[i] - ma)
		bb += (b[i] - mb) * (b[i] - mb)
	}
	return ab / math.Sqrt(aa*bb)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
