package estimator

import (
	"fmt"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/job"
)

// rates are the seconds of an iteration by backbone, configuration and number of GPUs, which
// follow what is measured.
type rates map[string]*configs

// configs are the configurations of a backbone, in the order in which they were measured first.
type configs struct {
	of  map[config]*sizes
	all []*sizes
}

// config is on what the time of an iteration depends besides GPUs.
type config struct {
	batch int // samples of an iteration
	typ   string
	mixed bool   // precision
	plan  string // layout, such as a pipeline
}

// sizes are the numbers of GPUs at which a configuration was measured, in order, and the
// seconds of an iteration with each.
type sizes struct {
	gpus    []int
	seconds []float64
}

// scaling is the exponent by which a job is taken to be faster with more GPUs as long as
// nothing else was seen of its backbone.
const scaling = 0.8

// configOf is the configuration of a job on GPUs of a type; an empty type is any.
func configOf(j *job.Job, typ string) config {
	c := config{batch: max(1, j.Batch), typ: typ}
	if j.Hints != nil {
		c.mixed, c.plan = j.Hints.Mixed, j.Hints.Plan
	}
	return c
}

// observe takes in that a job went through so many samples in a second with so many tasks.
func (r rates) observe(j *job.Job, typ string, tasks int, rate float64) {
	if tasks <= 0 {
		return
	}
	b := r[j.Backbone]
	if b == nil {
		b = &configs{of: map[config]*sizes{}}
		r[j.Backbone] = b
	}
	for _, typ := range slices.Compact([]string{typ, ""}) {
		c := configOf(j, typ)
		s := b.of[c]
		if s == nil {
			s = &sizes{}
			b.of[c] = s
			b.all = append(b.all, s)
		}
		s.observe(tasks, float64(c.batch)/rate)
	}
}

// observe lets the time with so many GPUs follow a measurement; the first one is taken as it
// is.
func (s *sizes) observe(gpus int, seconds float64) {
	at, known := slices.BinarySearch(s.gpus, gpus)
	if known {
		s.seconds[at] = Follow(s.seconds[at], seconds)
		return
	}
	s.gpus, s.seconds = slices.Insert(s.gpus, at, gpus), slices.Insert(s.seconds, at, seconds)
}

// at is how many samples a job is believed to go through in a second with so many tasks;
// ok is false where nothing was measured of its configuration. An empty type is any.
func (r rates) at(j *job.Job, typ string, tasks int) (rate float64, ok bool) {
	b := r[j.Backbone]
	if b == nil {
		return 0, false
	}
	c := configOf(j, typ)
	s := b.of[c]
	if s == nil {
		return 0, false
	}
	batch := float64(c.batch)
	at, exact := slices.BinarySearch(s.gpus, tasks)
	switch {
	case exact:
		return batch / s.seconds[at], true
	case at == 0:
		return batch / s.seconds[0] * b.ratio(s.gpus[0], tasks), true
	case at == len(s.gpus):
		return batch / s.seconds[at-1] * b.ratio(s.gpus[at-1], tasks), true
	}
	low, high := float64(s.gpus[at-1]), float64(s.gpus[at])
	part := math.Log(float64(tasks)/low) / math.Log(high/low)
	return batch / (math.Pow(s.seconds[at-1], 1-part) * math.Pow(s.seconds[at], part)), true
}

// ratio is the speed with some GPUs over that with others, as the configurations of the
// backbone have it in the mean that were measured with both, or else as jobs scale.
func (b *configs) ratio(from, to int) float64 {
	sum, n := 0.0, 0
	for _, s := range b.all {
		i, one := slices.BinarySearch(s.gpus, from)
		k, other := slices.BinarySearch(s.gpus, to)
		if one && other {
			sum, n = sum+math.Log(s.seconds[i]/s.seconds[k]), n+1
		}
	}
	if n > 0 {
		return math.Exp(sum / float64(n))
	}
	return math.Pow(float64(to)/float64(from), scaling)
}

// text says with how many GPUs the configuration of a job was measured.
func (r rates) text(j *job.Job) string {
	b := r[j.Backbone]
	if b == nil || b.of[configOf(j, "")] == nil {
		return ""
	}
	return fmt.Sprintf("speeds of %s with batches of %d were measured with %s", j.Backbone, j.Batch, numbers(b.of[configOf(j, "")].gpus))
}

// numbers lists numbers of GPUs.
func numbers(all []int) string {
	out := ""
	for i, n := range all {
		switch {
		case i > 0 && i == len(all)-1:
			out += " and "
		case i > 0:
			out += ", "
		}
		out += fmt.Sprint(n)
	}
	if len(all) == 1 && all[0] == 1 {
		return out + " GPU"
	}
	return out + " GPUs"
}
