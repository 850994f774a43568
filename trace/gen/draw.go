package gen

import (
	"math"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/trace"
)

// session is a row of jobs from one template.
type session struct {
	shape    *shape
	template *template
	name     string
	score    float64 // normal score of the level v that it was drawn at
	cell     int     // of its first job
	left     int     // jobs still to come
	limit    time.Duration
}

// newSession draws a session.
func (g *Generator) newSession() session {
	p := &g.from.sessions
	var s session
	s.shape = &g.shapes[pick(len(g.shapes), g.rng.Float64(), func(i int) float64 { return g.shapes[i].cum })]
	v := g.rng.Float64()
	s.template = &s.shape.templates[pick(len(s.shape.ends), v, func(i int) float64 { return s.shape.ends[i] })]
	s.score = score(v)
	s.cell = g.drawCell(s.shape)
	s.left = 1
	if p.length > 1 {
		s.left += int(math.Log(1-g.rng.Float64()) / math.Log(1-1/p.length))
	}
	s.name = s.template.name
	if g.rng.Float64() >= g.from.recurs {
		g.fresh++
		s.name += "-r" + strconv.Itoa(g.fresh)
	}
	s.limit = s.usualLimit(math.Sqrt(p.correlation))
	return s
}

func (g *Generator) drawCell(s *shape) int {
	if len(s.cells) == 1 {
		return 0
	}
	return pick(len(s.cells), g.rng.Float64(), func(i int) float64 { return s.cells[i].cum })
}

// fill makes the next job of a session, submitted at a given time. Its cell is
// mostly that of the first job: both have the shares of the log.
func (g *Generator) fill(e *trace.Entry, s *session, at time.Duration) {
	p := &g.from.sessions
	cell := s.cell
	if len(s.shape.cells) > 1 && g.rng.Float64() >= p.alike {
		cell = g.drawCell(s.shape)
	}
	d := &s.shape.cells[cell]
	common := math.Sqrt(p.correlation)
	level := probability(common*s.score+math.Sqrt(1-p.correlation)*g.rng.NormFloat64()) * d.top
	seconds := max(1, int64(math.Round(d.curve.At(level))))

	*e = trace.Entry{Job: job.Job{
		ID: job.ID(g.made), Key: g.keys.next(g.made), Name: s.name, User: s.template.user.name, Tenant: s.template.user.tenant.name,
		Submit: at, Demand: s.template.demand, Model: s.shape.model, Batch: s.shape.batch, Hints: s.template.hints,
		Estimate: s.estimate(time.Duration(seconds) * time.Second),
	}}
	e.Truth.Outcome = g.outcome(d, level)
	g.split(&e.Truth, d, seconds)
}

// outcome draws how a job ends whose run time has the given level.
func (g *Generator) outcome(d *draw, level float64) trace.Outcome {
	if len(d.ends) == 0 {
		return trace.Passed
	}
	end := &d.ends[min(len(d.ends)-1, int(level*float64(len(d.ends))))]
	switch v := g.rng.Float64(); {
	case v < end[0]:
		return trace.Passed
	case v < end[0]+end[1]:
		return trace.Failed
	}
	return trace.Killed
}

// spread is the standard deviation of the logarithms of the run times of the
// failed attempts of one job.
const spread = 0.4

// split divides the run time of a job among its attempts.
func (g *Generator) split(t *trace.Truth, d *draw, seconds int64) {
	t.Work = time.Duration(seconds) * time.Second
	if len(d.retries) == 0 || seconds < 2 {
		return
	}
	r := &d.retries[0]
	for v, i := g.rng.Float64(), 0; i < len(d.retries); i++ {
		if r = &d.retries[i]; v < r.share {
			break
		}
		v -= r.share
	}
	failed := int(min(int64(r.attempts), seconds)) - 1
	last := int64(math.Round(between(r.last[:], g.rng.Float64()) * float64(seconds)))
	last = min(max(1, last), seconds-int64(failed))
	t.Attempts = g.attempts(failed, seconds-last)
	t.Work = time.Duration(last) * time.Second
}

// attempts cuts n parts of at least a second out of a number of seconds.
func (g *Generator) attempts(n int, seconds int64) []time.Duration {
	if len(g.parts)+n > cap(g.parts) {
		g.parts = make([]time.Duration, 0, 1024)
	}
	from := len(g.parts)
	weights := [8]float64{}
	sum := 0.0
	for i := range n {
		weights[i] = math.Exp(spread * g.rng.NormFloat64())
		sum += weights[i]
	}
	left := seconds
	for i := range n - 1 {
		part := 1 + int64(float64(seconds-int64(n))*weights[i]/sum)
		g.parts = append(g.parts, time.Duration(part)*time.Second)
		left -= part
	}
	g.parts = append(g.parts, time.Duration(left)*time.Second)
	return g.parts[from:len(g.parts):len(g.parts)]
}

// score is the normal score of a probability, and probability its inverse.
func score(p float64) float64 {
	p = min(max(p, 1e-12), 1-1e-12)
	return math.Sqrt2 * math.Erfinv(2*p-1)
}

func probability(score float64) float64 { return 0.5 * math.Erfc(-score/math.Sqrt2) }

// keys makes the names of consecutive jobs, many at a time.
type keys struct {
	text string
	ends []int
	buf  []byte
	used int
}

const keysAtOnce = 512

// next is the name of job n: its number.
func (k *keys) next(n int) string {
	if k.used == len(k.ends) {
		k.buf, k.ends, k.used = k.buf[:0], k.ends[:0], 0
		for i := range keysAtOnce {
			k.buf = strconv.AppendInt(k.buf, int64(n+i), 10)
			k.ends = append(k.ends, len(k.buf))
		}
		k.text = string(k.buf)
	}
	from := 0
	if k.used > 0 {
		from = k.ends[k.used-1]
	}
	k.used++
	return k.text[from:k.ends[k.used-1]]
}
