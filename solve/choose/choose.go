// Package choose picks at most one option for each job so that the picks fit and
// are worth the most, exactly: the multiple-choice knapsack, with one capacity or
// with one for each kind of resource.
//
// Nouns: an Option needs an amount of one kind (say, GPUs of a type) and has a
// value. Each kind has a capacity. This is the program of a policy like Sia's;
// with one kind and whole numbers as needs it is the multiple-choice knapsack.
// Values have whatever unit the caller gives them.
//
// How: a price for each kind gives a bound (what everybody's best option is
// worth beyond its price, and all capacity sold). At the best prices the bound
// is nearly reached: these programs are nearly integral. A pick that is not the
// best one at these prices costs its regret. The search goes through all
// combinations whose regrets and unsold capacity cost less than the gap, job by
// job. It keeps the best way to each amount in use.
//
// Sources: Fisher, "The Lagrangian relaxation method for solving integer
// programming problems", Management Science 27, 1981; Pisinger, "A minimal
// algorithm for the multiple-choice knapsack problem", EJOR 83, 1995. The
// prices are found by the ellipsoid method (Shor 1977) with Frank and Wolfe's
// bound.
package choose

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// None is the pick of a job that gets nothing.
const None = -1

// Option is what a job may get.
type Option struct {
	Kind  int   // which capacity it is taken from
	Need  int64 // how much of it
	Value float64
}

// Limits end a search. The zero Limits ask for a proven optimum, within the
// default number of steps.
type Limits struct {
	Gap   float64 // how far from the optimum an answer may be, relative to its value
	Steps int64   // how many combinations may be kept, 0: DefaultSteps; each takes 16 bytes
}

// DefaultSteps is the limit of steps where none is given.
const DefaultSteps = 10_000_000

// Answer is what was picked.
type Answer struct {
	Pick    []int // by job: its option, or None
	Value   float64
	Bound   float64 // no picks are worth more
	Optimal bool    // proven, within the gap asked for
	Steps   int64
}

var errSize = errors.New("capacities are too large to be searched exactly")

// Best finds the most valuable picks.
func Best(capacity []int64, jobs [][]Option, l Limits) (Answer, error) {
	if err := check(capacity, jobs, l); err != nil {
		return Answer{}, err
	}
	p := newProblem(capacity, jobs)
	p.prices()
	return p.solve(l)
}

// Marginal is Best, and for each job by how much more the picks of the others would be worth
// at most if it were not there. The prices of the whole serve for all of these: where
// one job is missing they are nearly right.
func Marginal(capacity []int64, jobs [][]Option, l Limits) (all Answer, takes []float64, err error) {
	if err := check(capacity, jobs, l); err != nil {
		return Answer{}, nil, err
	}
	p := newProblem(capacity, jobs)
	takes = make([]float64, len(jobs))
	if all, plenty := p.plenty(); plenty {
		return all, takes, nil
	}
	p.prices()
	if all, err = p.solve(l); err != nil {
		return Answer{}, nil, err
	}
	for i, pick := range all.Pick {
		if pick == None {
			continue
		}
		options := p.jobs[i]
		p.jobs[i], p.value = nil, 0
		p.answer = slices.Repeat([]int{None}, len(jobs))
		p.bound = p.evaluate(p.price, p.slope)
		p.repair()
		without, err := p.solve(l)
		if err != nil {
			return Answer{}, nil, err
		}
		for j := range jobs {
			if j != i {
				takes[i] += worth(jobs[j], without.Pick[j]) - worth(jobs[j], all.Pick[j])
			}
		}
		p.jobs[i] = options
	}
	return all, takes, nil
}

// plenty gives each job the option that is worth most to it; ok is false when these do not
// all fit, or when two of one job are worth the same.
func (p *problem) plenty() (a Answer, ok bool) {
	a = Answer{Pick: make([]int, len(p.jobs)), Optimal: true}
	copy(p.room, p.capacity)
	for j, options := range p.jobs {
		a.Pick[j] = None
		best := option{}
		for _, o := range options {
			switch {
			case o.Value > best.Value:
				a.Pick[j], best = o.number, o
			case o.Value == best.Value:
				return Answer{}, false
			}
		}
		if a.Pick[j] == None {
			continue
		}
		if p.room[best.Kind] -= best.Need; p.room[best.Kind] < 0 {
			return Answer{}, false
		}
		a.Value += best.Value
	}
	a.Bound = a.Value
	return a, true
}

func worth(options []Option, pick int) float64 {
	if pick == None {
		return 0
	}
	return options[pick].Value
}

// solve finds the best picks, at prices for which there are a bound and an answer.
func (p *problem) solve(l Limits) (Answer, error) {
	a := Answer{Pick: make([]int, len(p.jobs)), Bound: p.bound, Optimal: true}
	most := l.Steps
	if most == 0 {
		most = DefaultSteps
	}
	steps := most
	if near := max(l.Gap*math.Abs(p.value), 1e-12*p.bound); p.bound-p.value > near {
		proven, err := p.search(&steps, near)
		if err != nil && !errors.Is(err, errSize) {
			return Answer{}, err
		}
		a.Bound, a.Optimal = p.bound, proven && err == nil
	}
	a.Steps = most - steps
	for j, k := range p.answer {
		a.Pick[j] = None
		if k != None {
			a.Pick[j] = p.jobs[j][k].number
			a.Value += p.jobs[j][k].Value
		}
	}
	a.Bound = max(a.Bound, a.Value)
	return a, nil
}

func check(capacity []int64, jobs [][]Option, l Limits) error {
	if !(l.Gap >= 0) || l.Steps < 0 {
		return fmt.Errorf("choice with the gap %v and %d steps", l.Gap, l.Steps)
	}
	for k, c := range capacity {
		if c < 0 {
			return fmt.Errorf("capacity of kind %d is %d", k, c)
		}
	}
	for j, options := range jobs {
		for i, o := range options {
			if o.Kind < 0 || o.Kind >= len(capacity) || o.Need < 0 || !(math.Abs(o.Value) <= 1e300/float64(len(jobs)+1)) {
				return fmt.Errorf("option %d of job %d needs %d of kind %d (of %d) and has the value %v", i, j, o.Need, o.Kind, len(capacity), o.Value)
			}
		}
	}
	return nil
}

// option is an Option that may be worth picking, and its number in the input.
type option struct {
	Option
	number int
}

// problem is the problem, its prices, and the best picks so far.
type problem struct {
	capacity []int64
	jobs     [][]option // by value, falling, in each kind

	price []float64 // by kind
	bound float64

	answer []int // by job: index in jobs[j], or None
	value  float64

	room  []int64 // scratch of repair
	trial []int   // picks that are being made to fit
	slope []float64
}

// newProblem leaves out options that nobody would pick: those that do not fit,
// are worth nothing, or need as much as another that is worth more.
func newProblem(capacity []int64, jobs [][]Option) *problem {
	p := &problem{capacity: capacity, jobs: make([][]option, len(jobs)), room: make([]int64, len(capacity)),
		trial: make([]int, len(jobs)), slope: make([]float64, len(capacity)), answer: slices.Repeat([]int{None}, len(jobs))}
	for j, options := range jobs {
		var keep []option
		for i, o := range options {
			if o.Value > 0 && o.Need <= capacity[o.Kind] {
				keep = append(keep, option{o, i})
			}
		}
		slices.SortFunc(keep, func(a, b option) int {
			switch {
			case a.Kind != b.Kind:
				return a.Kind - b.Kind
			case a.Need != b.Need:
				return compare(a.Need, b.Need)
			case a.Value != b.Value:
				return -compare(a.Value, b.Value)
			}
			return a.number - b.number
		})
		out := keep[:0]
		for _, o := range keep {
			if n := len(out); n == 0 || out[n-1].Kind != o.Kind || out[n-1].Value < o.Value {
				out = append(out, o)
			}
		}
		p.jobs[j] = out
	}
	return p
}

func compare[T int64 | float64](a, b T) int {
	if a < b {
		return -1
	}
	return 1
}

// best is the option of a job that is worth most beyond its price, and how much;
// None when all cost more than they are worth.
func (p *problem) best(j int, price []float64) (int, float64) {
	at, most := None, 0.0
	for k, o := range p.jobs[j] {
		if w := o.Value - price[o.Kind]*float64(o.Need); w > most {
			at, most = k, w
		}
	}
	return at, most
}

// evaluate is the bound at given prices, and how much of each kind is left when
// everybody picks what is best: the slope of the bound.
func (p *problem) evaluate(price, slope []float64) float64 {
	sum := 0.0
	for k, c := range p.capacity {
		sum += price[k] * float64(c)
		slope[k] = float64(c)
	}
	for j := range p.jobs {
		k, w := p.best(j, price)
		p.trial[j] = k
		if k != None {
			o := &p.jobs[j][k]
			sum += w
			slope[o.Kind] -= float64(o.Need)
		}
	}
	return sum
}

// prices finds the prices at which the bound is least, by halving the ellipsoid
// in which they must lie. A good answer is found on the way.
func (p *problem) prices() {
	n := len(p.capacity)
	high := make([]float64, n) // at which nobody buys any more
	for _, options := range p.jobs {
		for _, o := range options {
			if o.Need > 0 {
				high[o.Kind] = max(high[o.Kind], o.Value/float64(o.Need))
			}
		}
	}
	e := newEllipsoid(high)
	slope := p.slope
	p.bound = math.Inf(1)
	p.price = make([]float64, n)
	for round := 0; round < 60+60*n*n; round++ {
		negative := e.below()
		if negative >= 0 { // no price is below zero
			clear(slope)
			slope[negative] = -1
			if !e.cut(slope, -e.center[negative]) {
				break
			}
			continue
		}
		b := p.evaluate(e.center, slope)
		if b < p.bound {
			p.bound = b
			copy(p.price, e.center)
			p.repair()
		}
		if p.bound-p.value <= 1e-12*p.bound || !e.cut(slope, b-p.bound) || e.reach(slope) <= 1e-13*p.bound {
			break
		}
	}
}

// repair makes an answer that fits of everybody's best option, which trial has:
// options are taken back where that costs least for what it frees, and then
// improved while there is room.
func (p *problem) repair() {
	copy(p.room, p.capacity)
	for j, k := range p.trial {
		if k != None {
			p.room[p.jobs[j][k].Kind] -= p.jobs[j][k].Need
		}
	}
	for kind := range p.room {
		for p.room[kind] < 0 {
			p.shrink(kind)
		}
	}
	for p.improve() {
	}
	value := 0.0
	for j, k := range p.trial {
		if k != None {
			value += p.jobs[j][k].Value
		}
	}
	if value > p.value {
		p.value = value
		copy(p.answer, p.trial)
	}
}

// shrink changes the one pick of a kind whose change costs least for each unit
// that it frees.
func (p *problem) shrink(kind int) {
	job, to, least := -1, None, math.Inf(1)
	for j, k := range p.trial {
		if k == None || p.jobs[j][k].Kind != kind {
			continue
		}
		now := p.jobs[j][k]
		consider := func(k int, value float64, need int64) {
			freed := min(now.Need-need, -p.room[kind])
			if c := (now.Value - value) / float64(freed); freed > 0 && c < least {
				job, to, least = j, k, c
			}
		}
		consider(None, 0, 0)
		for k, o := range p.jobs[j] {
			if o.Kind == kind {
				consider(k, o.Value, o.Need)
			} else if p.room[o.Kind] >= o.Need {
				consider(k, o.Value, 0)
			}
		}
	}
	p.take(job, to)
}

// take changes the pick of a job.
func (p *problem) take(j, k int) {
	if was := p.trial[j]; was != None {
		p.room[p.jobs[j][was].Kind] += p.jobs[j][was].Need
	}
	if p.trial[j] = k; k != None {
		p.room[p.jobs[j][k].Kind] -= p.jobs[j][k].Need
	}
}

// improve makes the one change that fits and gains most; it is false when none
// gains anything.
func (p *problem) improve() bool {
	job, to, most := -1, None, 0.0
	for j, now := range p.trial {
		kind, held, value := -1, int64(0), 0.0
		if now != None {
			o := &p.jobs[j][now]
			kind, held, value = o.Kind, o.Need, o.Value
		}
		for k, o := range p.jobs[j] {
			room := p.room[o.Kind]
			if o.Kind == kind {
				room += held
			}
			if o.Need <= room && o.Value-value > most {
				job, to, most = j, k, o.Value-value
			}
		}
	}
	if job < 0 || most <= 1e-12*p.value {
		return false
	}
	p.take(job, to)
	return true
}

// width is how many bits the amount in use of each kind takes.
func (p *problem) width() (shift []uint, ok bool) {
	total := uint(0)
	for _, c := range p.capacity {
		shift = append(shift, total)
		total += uint(bits.Len64(uint64(c)))
	}
	return shift, total <= 63
}
