package report

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// points is the largest number of buckets of a series.
const points = 1024

// series is the utilisation, the queue and what is idle over time, in buckets of equal
// width. It starts with buckets of a second and doubles their width whenever
// the run outgrows them, so that it stays the same size however long the run.
// Each bucket keeps the extremes beside the mean over time.
type series struct {
	begun   bool
	start   time.Duration
	end     time.Duration // up to here it is told
	width   time.Duration
	buckets []bucket
	now     level
}

// level is what holds at a moment. GPUs are counted with their parts.
type level struct {
	used  float64 // part of the GPUs that is held
	queue float64 // jobs that wait
	gpus
}

// gpus are numbers of GPUs, or, in a bucket, these times seconds.
type gpus struct {
	there     float64
	asked     float64 // by waiting jobs that can run
	idle      float64
	beside    float64 // idle while such jobs wait
	scattered float64 // of these, where jobs fit only on more nodes than they need
	unfit     float64 // of these, where no job fits
}

// add adds other numbers, times a factor.
func (g *gpus) add(o gpus, times float64) {
	g.there += o.there * times
	g.asked += o.asked * times
	g.idle += o.idle * times
	g.beside += o.beside * times
	g.scattered += o.scattered * times
	g.unfit += o.unfit * times
}

// bucket is one width of time.
type bucket struct {
	seconds     float64 // of it that are told
	used, queue band
	gpus
}

// band is the extremes of a quantity and its integral over time.
type band struct{ min, max, sum float64 }

func newSeries() *series { return &series{width: time.Second} }

// set says what holds from now on.
func (s *series) set(now level) { s.now = now }

// advance tells that the values of the last set held from one moment to
// another.
func (s *series) advance(from, to time.Duration) {
	if !s.begun {
		s.begun, s.start = true, from
	}
	s.end = to
	for from < to {
		i := int((from - s.start) / s.width)
		if i >= points {
			s.double()
			continue
		}
		for len(s.buckets) <= i {
			s.buckets = append(s.buckets, bucket{})
		}
		until := min(to, s.start+time.Duration(i+1)*s.width)
		b, dt := &s.buckets[i], (until - from).Seconds()
		b.used.add(s.now.used, dt, b.seconds == 0)
		b.queue.add(s.now.queue, dt, b.seconds == 0)
		b.gpus.add(s.now.gpus, dt)
		b.seconds += dt
		from = until
	}
}

// double joins the buckets in pairs.
func (s *series) double() {
	n := 0
	for i := 0; i < len(s.buckets); i += 2 {
		b := s.buckets[i]
		if i+1 < len(s.buckets) {
			b.join(&s.buckets[i+1])
		}
		s.buckets[n] = b
		n++
	}
	s.buckets = s.buckets[:n]
	s.width *= 2
}

func (b *bucket) join(next *bucket) {
	if b.seconds == 0 {
		*b = *next
		return
	}
	if next.seconds == 0 {
		return
	}
	b.used.join(next.used)
	b.queue.join(next.queue)
	b.gpus.add(next.gpus, 1)
	b.seconds += next.seconds
}

func (v *band) add(x, dt float64, first bool) {
	if first {
		v.min, v.max = x, x
	}
	v.min, v.max = min(v.min, x), max(v.max, x)
	v.sum += x * dt
}

func (v *band) join(next band) {
	v.min, v.max = min(v.min, next.min), max(v.max, next.max)
	v.sum += next.sum
}

// upTo is the series, told up to one moment, up to another. s is not changed.
func (s *series) upTo(told, end time.Duration) *series {
	c := *s
	c.buckets = slices.Clone(s.buckets)
	c.advance(told, max(told, end))
	return &c
}

const seriesHeader = "from_s,to_s,utilisation,utilisation_min,utilisation_max,waiting_jobs,waiting_jobs_min,waiting_jobs_max," +
	"gpus,waiting_gpus,idle_gpus,idle_while_waiting_gpus,scattered_gpus,unfit_gpus\n"

// WriteSeries writes as CSV what the run was like over time, a line for each of up to 1024 parts
// of equal length: means over the part, but for the columns that end with _min and _max. It
// writes the header alone for a result that was made without Options.Series.
func (r *Result) WriteSeries(w io.Writer) error {
	out := bufio.NewWriter(w)
	out.WriteString(seriesHeader)
	if r.series == nil {
		return out.Flush()
	}
	var line []byte
	for i, b := range r.series.buckets {
		if b.seconds == 0 {
			continue
		}
		from := r.series.start + time.Duration(i)*r.series.width
		line = unit.AppendSeconds(line[:0], from)
		line = append(line, ',')
		line = unit.AppendSeconds(line, min(from+r.series.width, r.series.end))
		for _, v := range []float64{
			b.used.sum / b.seconds, b.used.min, b.used.max, b.queue.sum / b.seconds, b.queue.min, b.queue.max,
			b.there / b.seconds, b.asked / b.seconds, b.idle / b.seconds, b.beside / b.seconds, b.scattered / b.seconds, b.unfit / b.seconds,
		} {
			line = append(line, ',')
			line = strconv.AppendFloat(line, rounded(v, 1e6), 'f', -1, 64)
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}
