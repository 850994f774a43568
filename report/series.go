package report

import (
	"bufio"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
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
	used   float64 // part of the GPUs that is held
	queue  float64 // jobs that wait
	lacked stints  // jobs without devices, by cause
	gpus
}

// stints are jobs by the cause for which they have no devices, or, in a bucket, these times
// microseconds. Whole numbers add up to the totals of Result.Causes to the microsecond.
type stints [causes]int64

// add adds other numbers, times a factor.
func (s *stints) add(o *stints, times int64) {
	for i, n := range o {
		s[i] += n * times
	}
}

// gpus are numbers of GPUs, or, in a bucket, these times seconds.
type gpus struct {
	there     float64
	asked     float64 // by waiting jobs that can run
	idle      float64
	beside    float64        // idle while such jobs wait
	scattered float64        // of these, where jobs fit only on more nodes than they need
	unfit     float64        // of these, where no job fits
	held      [sizes]float64 // by jobs of each size
}

// add adds other numbers, times a factor.
func (g *gpus) add(o gpus, times float64) {
	g.there += o.there * times
	g.asked += o.asked * times
	g.idle += o.idle * times
	g.beside += o.beside * times
	g.scattered += o.scattered * times
	g.unfit += o.unfit * times
	for i, v := range o.held {
		g.held[i] += v * times
	}
}

// bucket is one width of time.
type bucket struct {
	seconds     float64 // of it that are told
	used, queue band
	lacked      stints
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
		b.lacked.add(&s.now.lacked, micros(until)-micros(from))
		b.gpus.add(s.now.gpus, dt)
		b.seconds += dt
		from = until
	}
}

// micros is a moment in microseconds, as tallies count.
func micros(at time.Duration) int64 { return int64(at / time.Microsecond) }

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
	b.lacked.add(&next.lacked, 1)
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

const seriesColumns = "from_s,to_s,utilisation,utilisation_min,utilisation_max,waiting_jobs,waiting_jobs_min,waiting_jobs_max," +
	"gpus,waiting_gpus,idle_gpus,idle_while_waiting_gpus,scattered_gpus,unfit_gpus"

// CauseColumns are the columns of series.csv with the jobs that have no devices, by cause, in
// the order of Cause.
func CauseColumns() []string {
	var out []string
	for _, c := range causeNames {
		out = append(out, "waiting_"+c.field)
	}
	return out
}

func seriesHeader() string { return seriesColumns + "," + strings.Join(CauseColumns(), ",") + "\n" }

// WriteSeries writes as CSV what the run was like over time, a line for each of up to 1024 parts
// of equal length: means over the part, but for the columns that end with _min and _max. The
// means of CauseColumns have all digits: times the length of the part, they add up to
// Result.Causes. It writes the header alone for a result that was made without Options.Series.
func (r *Result) WriteSeries(w io.Writer) error {
	out := bufio.NewWriter(w)
	out.WriteString(seriesHeader())
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
		for _, jobs := range b.lacked {
			line = append(line, ',')
			line = strconv.AppendFloat(line, float64(jobs)/1e6/b.seconds, 'f', -1, 64)
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}

const heldHeader = "by,class,from_s,to_s,gpus\n"

// WriteHeld writes as CSV how many GPUs the jobs of each size, and those of each tenant directly
// below the root, had over time: means over parts of equal length, without the lines of those
// that had none. Sizes are told in the parts of WriteSeries, tenants in at most 256 parts. It
// writes the header alone for a result that was made without Options.Series.
func (r *Result) WriteHeld(w io.Writer) error {
	out := bufio.NewWriter(w)
	out.WriteString(heldHeader)
	if r.series == nil {
		return out.Flush()
	}
	var line []byte
	write := func(by, class string, from, to time.Duration, gpus float64) {
		if gpus = rounded(gpus, 1e6); gpus == 0 {
			return
		}
		line = append(append(line[:0], by...), ',')
		line = append(appendField(line, class), ',')
		line = append(unit.AppendSeconds(line, from), ',')
		line = append(unit.AppendSeconds(line, to), ',')
		line = append(strconv.AppendFloat(line, gpus, 'f', -1, 64), '\n')
		out.Write(line)
	}
	for size, name := range sizeNames {
		for i, b := range r.series.buckets {
			from := r.series.start + time.Duration(i)*r.series.width
			write("size", name, from, min(from+r.series.width, r.series.end), safeShare(b.held[size], b.seconds))
		}
	}
	for _, d := range r.Dues {
		for i, slot := range d.slots {
			from := d.start + time.Duration(i)*d.width
			write("tenant", d.Name, from, from+time.Duration(math.Round(slot.seconds*1e9)), slot.gpus)
		}
	}
	return out.Flush()
}
