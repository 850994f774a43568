package gavel

import (
	"github.com/norn-scheduler/norn/solve/pairs"
)

// deal divides what classes have among their jobs, in equal parts. The time that two
// classes share goes to so few pairs of their jobs that everybody has her part.
func (k *packing) deal(s *pairs.Solution) Allocation {
	p := k.p
	a := p.nothing()
	none := make([]float64, len(p.Jobs)) // by job: a share that is none
	for c := range k.classes {
		jobs := k.classes[c].jobs
		trace := p.trace(k.classes[c].j, k.classes[c].goal, s.Level)
		for _, m := range jobs {
			none[m] = trace
		}
		for i, x := range s.Values[c] {
			if x /= float64(len(jobs)); x > trace || p.Traces {
				for _, m := range jobs {
					a[m][k.types[c][i]] = x
				}
			}
		}
	}
	index := map[Pair]int{}
	for i, pair := range p.Pairs {
		index[pair] = i
	}
	give := func(m, o, t int, x float64) {
		if x <= min(none[m], none[o]) || m == o {
			return
		}
		pair := Pair{min(m, o), max(m, o)}
		i, ok := index[pair]
		if !ok {
			i = len(p.Pairs)
			index[pair] = i
			p.Pairs = append(p.Pairs, pair)
		}
		for len(a) <= len(p.Jobs)+i {
			a = append(a, make([]float64, len(p.Capacity)))
		}
		a[len(p.Jobs)+i][t] += x
	}
	for i, c := range k.columns {
		x := s.Pairs[i]
		if one, other := k.classes[c.a].jobs, k.classes[c.b].jobs; c.a != c.b {
			divide(one, other, x, func(m, o int, x float64) { give(m, o, c.t, x) })
		} else if len(one) == 2 {
			give(one[0], one[1], c.t, x)
		} else { // in a ring, each with the next
			for i, m := range one {
				give(m, one[(i+1)%len(one)], c.t, x/float64(len(one)))
			}
		}
	}
	return a
}

// divide divides a time that two groups share, so that each has an equal part of it
// among its own, from the first of both on.
func divide(one, other []int, x float64, give func(m, o int, x float64)) {
	left, right := x/float64(len(one)), x/float64(len(other))
	for i, k := 0, 0; i < len(one) && k < len(other); {
		part := min(left, right)
		give(one[i], other[k], part)
		if left -= part; left <= 1e-12*x {
			i++
			left = x / float64(len(one))
		}
		if right -= part; right <= 1e-12*x {
			k++
			right = x / float64(len(other))
		}
	}
}

// few is an allocation with which every job does as much as with a given one,
// and all together as much beyond that as possible, with as few rows as that
// takes. It is a corner in place of the middle of all optima. Where jobs do not
// share the middle is as good.
func (p *Problem) few(a Allocation) Allocation {
	if len(p.Beside) == 0 {
		return a
	}
	const hair = 1e-6 // of room to compute in
	rates := p.Throughputs(a)
	out, err := p.packed(0, func(j *Job, t int) float64 { return nudge(j, t) / p.fastest(j) }, func(m int) goal {
		most := p.fastest(&p.Jobs[m])
		// Rounded, so that jobs which are alike stay so.
		return goal{rate: 1 / most, floor: float64(float32(rates[m]/most)) * (1 - hair)}
	})
	if err != nil {
		return a
	}
	return out.Allocation
}

// nudge is 1, or nearly so: it makes jobs and types a little unlike, so that there is
// one best corner.
func nudge(j *Job, t int) float64 {
	h := uint64(j.Kind+2)*0x9e3779b97f4a7c15 + uint64(t+1)*0xbf58476d1ce4e5b9
	h ^= h >> 31
	h *= 0x94d049bb133111eb
	return 1 + 1e-3*float64(h>>40)/float64(1<<24)
}
