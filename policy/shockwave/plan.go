package shockwave

import (
	"cmp"
	"math"
	"slices"
)

// Job is a job as a plan sees it.
type Job struct {
	GPUs         int
	Epochs, Done int
	Epoch        float64 // mean seconds of its epochs so far, the running one among them
	Left         float64 // seconds that it will still take
	Spent        float64 // seconds that its epochs so far took alone
	Due          float64 // seconds since the start of the run by which it would end with a fair share
}

// Window is the time that a plan is for.
type Window struct {
	GPUs   int
	First  int     // the number of its first round
	Rounds int     // of it
	Length float64 // of a round, in seconds
	K      float64 // weight of the longest job's remaining seconds
	Lambda float64 // power by which jobs that are late count more
	RhoMax float64 // finish times may be so many times what is due
}

// Plan is who runs in which round of a window.
type Plan struct {
	Runs      [][]bool // by job and round
	Relaxed   bool     // not everybody can end in time
	Objective float64
}

// bases are where the logarithm of progress is exact; it is linear between them.
// That of no progress is taken to be that of a millionth.
var bases = [...]float64{1e-6, 0.2, 0.4, 0.6, 0.8, 1}

// logOf is the logarithm of progress from 0 to 1, as the program has it.
func logOf(x float64) float64 {
	const width = 0.2
	i := min(int(x/width), len(bases)-2)
	for i > 0 && x < width*float64(i) {
		i--
	}
	low, high := math.Log(bases[i]), math.Log(bases[i+1])
	return low + (high-low)*(x-width*float64(i))/width
}

// late is the power by which a job counts that is late and in its last round; most
// is as much as any job can count.
const (
	late = 100
	most = 1e12
)

// Make plans a window: the greatest mean logarithm of progress (Nash social
// welfare over time), less the longest remaining time, so that everybody ends when
// it is due. Where that cannot be, jobs that are late count more instead, and come
// early in the window.
//
// All that counts is how many rounds each job gets: which they are makes no
// difference to the program. So it divides the rounds of the window by marginal
// value, for each bound on the longest remaining time that could be best. This
// is exact except for the last few GPUs where jobs take several. Then it lays
// the rounds out.
func (w Window) Make(jobs []Job) Plan {
	p := problem{w: w, jobs: jobs}
	p.prepare()
	weights := make([]float64, len(jobs))
	for i := range weights {
		weights[i] = 1
	}
	least, ok := p.dueRounds()
	relaxed := !ok
	var counts []int
	var objective float64
	if ok {
		counts, objective, ok = p.solve(weights, least)
	}
	if !ok {
		relaxed = true
		weights = p.lateness()
		counts, objective, _ = p.solve(weights, make([]int, len(jobs)))
	}
	return Plan{Runs: p.layOut(counts, weights), Relaxed: relaxed, Objective: objective}
}

// problem is a program in the making.
type problem struct {
	w     Window
	jobs  []Job
	share float64
	value [][]float64 // by job and rounds: logarithm of progress
	left  [][]float64 // by job and rounds: remaining seconds
}

func (p *problem) prepare() {
	p.share = min(1, float64(max(1, p.w.GPUs))/float64(max(1, len(p.jobs))))
	for _, j := range p.jobs {
		value, left := make([]float64, p.w.Rounds+1), make([]float64, p.w.Rounds+1)
		for c := range value {
			epochs := min(float64(c)*p.w.Length/j.Epoch, float64(j.Epochs-j.Done))
			if j.GPUs > p.w.GPUs {
				epochs = 0 // while nodes are down
			}
			value[c] = logOf(min(1, (float64(j.Done)+epochs)/float64(j.Epochs)))
			left[c] = max(0, j.Left-epochs*j.Epoch)
		}
		p.value, p.left = append(p.value, value), append(p.left, left)
	}
}

// dueRounds is how many rounds each job needs to end when it is due; ok is false
// where one cannot.
func (p *problem) dueRounds() (least []int, ok bool) {
	next := p.w.Length * float64(p.w.First+p.w.Rounds)
	for i, j := range p.jobs {
		c := slices.IndexFunc(p.left[i], func(left float64) bool { return next+left/p.share <= p.w.RhoMax*j.Due })
		if c < 0 {
			return nil, false
		}
		least = append(least, c)
	}
	return least, true
}

// lateness is how much each job counts when not everybody can end in time.
func (p *problem) lateness() (weights []float64) {
	for _, j := range p.jobs {
		ratio := (p.w.Length*float64(p.w.First) + j.Left/p.share) / j.Due
		switch {
		case ratio <= p.w.RhoMax:
			ratio = 1
		case j.Left < p.w.Length:
			ratio = math.Pow(ratio, late)
		default:
			ratio = math.Pow(ratio, p.w.Lambda)
		}
		weights = append(weights, min(ratio, most))
	}
	return weights
}

// solve finds how many rounds each job gets, at least as many as are given; ok is
// false where there is no room for those.
func (p *problem) solve(weights []float64, least []int) (best []int, objective float64, ok bool) {
	var bounds []float64 // that could be the longest remaining time
	floor := 0.0
	for i := range p.jobs {
		floor = max(floor, p.left[i][p.w.Rounds])
	}
	for i := range p.jobs {
		for c, left := range p.left[i] {
			if c >= least[i] && left >= floor {
				bounds = append(bounds, left)
			}
		}
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	objective = math.Inf(-1)
	steps := p.steps(weights)
	try := func(i int) float64 {
		counts, fits := p.divide(steps, least, bounds[i])
		if !fits {
			return math.Inf(-1)
		}
		o := p.objective(weights, counts)
		if o > objective {
			best, objective, ok = counts, o, true
		}
		return o
	}
	// Below some bound nothing fits; from there on, what can be had is nearly concave
	// in the bound. The best is looked for by thirds, and then around it.
	low, high := 0, len(bounds)-1
	for a, b := 0, high; a <= b; {
		if mid := (a + b) / 2; math.IsInf(try(mid), -1) {
			a = mid + 1
			low = a
		} else {
			b = mid - 1
		}
	}
	for high-low > 8 {
		a, b := low+(high-low)/3, high-(high-low)/3
		if try(a) < try(b) {
			low = a
		} else {
			high = b
		}
	}
	for i := max(0, low-4); i <= min(len(bounds)-1, high+4); i++ {
		try(i)
	}
	return best, objective, ok
}

// step is one more round for a job.
type step struct {
	job, count int     // rounds that it then has
	gain       float64 // for each GPU
}

// steps are all of them that are worth anything, the most valuable first. The
// rounds of one job are worth less and less, so that they come in order.
func (p *problem) steps(weights []float64) (steps []step) {
	for i, j := range p.jobs {
		last := math.Inf(1)
		for c := range p.w.Rounds {
			gain := weights[i] * (p.value[i][c+1] - p.value[i][c]) / float64(j.GPUs)
			if last = min(last, gain); last > 0 { // equal ones could differ by their last bits
				steps = append(steps, step{i, c + 1, last})
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(b.gain, a.gain) })
	return steps
}

// divide gives the rounds of the window out by what they are worth, nobody being
// left with more to do than the bound.
func (p *problem) divide(steps []step, least []int, bound float64) (counts []int, fits bool) {
	counts = make([]int, len(p.jobs))
	room := p.w.GPUs * p.w.Rounds
	for i, j := range p.jobs {
		c, found := slices.BinarySearchFunc(p.left[i], bound, func(left, bound float64) int { return cmp.Compare(bound, left) })
		for found && c > 0 && p.left[i][c-1] <= bound {
			c--
		}
		if c > p.w.Rounds {
			return nil, false
		}
		counts[i] = max(c, least[i])
		room -= counts[i] * j.GPUs
	}
	if room < 0 {
		return nil, false
	}
	for _, s := range steps {
		if n := p.jobs[s.job].GPUs; s.count == counts[s.job]+1 && n <= room {
			room -= n
			counts[s.job]++
		}
	}
	return counts, true
}

func (p *problem) objective(weights []float64, counts []int) float64 {
	sum, longest := 0.0, 0.0
	for i, c := range counts {
		sum += weights[i] * p.value[i][c]
		longest = max(longest, p.left[i][c])
	}
	return sum/float64(len(p.jobs)*p.w.Rounds) - p.w.K*longest
}

// layOut says which rounds each job runs in: those that count most for each round
// that they get come first, but nobody later than leaves room for all her rounds.
func (p *problem) layOut(counts []int, weights []float64) [][]bool {
	runs := make([][]bool, len(p.jobs))
	left := slices.Clone(counts)
	order := make([]int, len(p.jobs))
	for i := range runs {
		runs[i] = make([]bool, p.w.Rounds)
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(weights[b]/float64(max(1, counts[b])*p.jobs[b].GPUs), weights[a]/float64(max(1, counts[a])*p.jobs[a].GPUs))
	})
	for t := range p.w.Rounds {
		free := p.w.GPUs
		for _, now := range []bool{true, false} { // those first who must run from now on
			for _, i := range order {
				if left[i] > 0 && !runs[i][t] && (left[i] >= p.w.Rounds-t) == now && p.jobs[i].GPUs <= free {
					runs[i][t] = true
					left[i]--
					free -= p.jobs[i].GPUs
				}
			}
		}
	}
	p.fill(runs)
	return runs
}

// fill lets the jobs with most left to do run where GPUs are free.
func (p *problem) fill(runs [][]bool) {
	order := make([]int, len(p.jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.jobs[b].Left, p.jobs[a].Left) })
	for t := range p.w.Rounds {
		free := p.w.GPUs
		for i, j := range p.jobs {
			if runs[i][t] {
				free -= j.GPUs
			}
		}
		for _, i := range order {
			if !runs[i][t] && p.jobs[i].GPUs <= free {
				runs[i][t] = true
				free -= p.jobs[i].GPUs
			}
		}
	}
}
