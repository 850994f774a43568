package lucid

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/norn-scheduler/norn/internal/published/harness"
)

// packed is lucid itself, which this package does not play through the engine.
// The published code subtracts the progress of every second in floating point.
// It never gives a job back its full speed that came to another one's GPUs. It
// lets a node go and come while the clock runs. Time is in ticks of a second
// here, and only those are visited at which something can change.
//
// Nouns: the score of a job is 0, 1 or 2, the more it disturbs others; its rank is
// its predicted GPU time; a guest is a job that came to the GPUs of another one, the
// host.
type packed struct {
	in    *packedInput
	temps []change // of the number of nodes of the profiler
}

// The settings of the published code for Venus.
const (
	profilerNodes = 2
	profilerLimit = 200 // seconds
	profilerGPUs  = 8   // of a job that is profiled, at most
	mostScore     = 2   // of two jobs together
	cardMemory    = 24576
	quiet         = 2   // jobs in ten minutes up to which nobody shares
	period        = 600 // seconds of a forecast
	echoed        = "vcYVn"
)

// lenders are the virtual clusters that give the profiler a node each.
var lenders = []string{"vc8Gr", "vcefl"}

// packedJob is a job as the published code keeps it.
type packedJob struct {
	key, vc          string
	gpus             int
	submit, duration int64
	traits           traits
	rank             float64

	start, end, profQueue int64
	skip                  bool // it ended in the profiler

	node    int
	more    []int   // further nodes of a large job
	left    float64 // at the tick seen
	rate    float64
	seen    int64
	order   int64      // of its start
	partner *packedJob // with whom it shares
	guest   bool
}

// change is that the profiler gains or loses a node at a tick.
type change struct {
	at int64
	by int
}

// due is the tick at which a job ends if its rate stays.
func (j *packedJob) due() int64 { return j.seen + ticks(j.left, j.rate) + 1 }

// setRate changes the rate of a job after the progress of a tick.
func (j *packedJob) setRate(rate float64, now int64) {
	j.left, _ = countDown(j.left, j.rate, now-j.seen)
	j.seen, j.rate = now, rate
}

// ticks is how often rate is subtracted from left until nothing is left.
func ticks(left, rate float64) int64 {
	_, n := countDown(left, rate, math.MaxInt64)
	return n
}

// countDown subtracts rate from left, up to most times or until nothing is left, as
// floating point does it one by one. While a number stays between two powers of
// two, each subtraction takes the same away, once the first one has settled how
// ties are rounded.
func countDown(left, rate float64, most int64) (float64, int64) {
	n := int64(0)
	for left > 0 && n < most {
		left -= rate
		n++
		step := left - (left - rate)
		floor := math.Exp2(math.Floor(math.Log2(left)))
		if left <= rate || step <= 0 {
			continue
		}
		if k := min(int64((left-floor)/step)-1, most-n); k > 0 {
			left -= float64(k) * step
			n += k
		}
	}
	return left, n
}

// profile runs the profiler over all jobs, in order of submission. It has the jobs
// with the fewest GPUs first and stops at the first that has no room.
func (p *packed) profile(ctx context.Context, jobs []*packedJob) error {
	var line, running []*packedJob
	free := []int{nodeGPUs, nodeGPUs}
	next, now := 0, windowBegin
	for next < len(jobs) || len(line)+len(running) > 0 {
		if now%65536 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		running = slices.DeleteFunc(running, func(j *packedJob) bool {
			if j.end == now {
				free[j.node] += j.gpus
			}
			return j.end == now
		})
		for ; next < len(jobs) && jobs[next].submit == now; next++ {
			if jobs[next].gpus <= profilerGPUs {
				line = append(line, jobs[next])
			}
		}
		slices.SortStableFunc(line, func(a, b *packedJob) int { return cmp.Compare(a.gpus, b.gpus) })
		for len(line) > 0 {
			j := line[0]
			if j.node = bestFit(free, j.gpus); j.node < 0 {
				break
			}
			free[j.node] -= j.gpus
			j.start, j.profQueue, j.skip = now, now-j.submit, j.duration <= profilerLimit
			j.end = now + min(j.duration, profilerLimit)
			line, running = line[1:], append(running, j)
		}
		free = p.scale(now, len(line), free)
		now++
	}
	return nil
}

// scale borrows a node when many wait and gives it back when few will come.
func (p *packed) scale(now int64, waiting int, free []int) []int {
	switch {
	case now%10 == 0 && waiting > 10 && len(free) == profilerNodes:
		p.temps = append(p.temps, change{now, 1})
		return append(free, nodeGPUs)
	case now%100 == 0 && waiting < 5 && len(free) > profilerNodes && free[profilerNodes] == nodeGPUs && !(p.in.forecast.gpus(now) > profilerGPUs*5):
		p.temps = append(p.temps, change{now, -1})
		return free[:profilerNodes]
	}
	return free
}

// bestFit is the node with the fewest free GPUs that suffice, or -1.
func bestFit(free []int, gpus int) int {
	best := -1
	for i, f := range free {
		if f >= gpus && (best < 0 || f < free[best]) {
			best = i
		}
	}
	return best
}

// play runs the profiler and then the virtual clusters, which know nothing of each
// other.
func (p *packed) play(ctx context.Context, vcs []vc, jobs []*packedJob) (*harness.Result, error) {
	if err := p.profile(ctx, jobs); err != nil {
		return nil, err
	}
	for _, c := range vcs {
		nodes := c.nodes
		if slices.Contains(lenders, c.name) {
			nodes--
		}
		v := &packedVC{in: p.in, idle: nodes * nodeGPUs}
		for n := range nodes {
			v.free, v.names = append(v.free, nodeGPUs), append(v.names, n)
		}
		if c.name == echoed {
			v.temps = p.temps
		}
		for _, j := range jobs {
			if j.vc == c.name && !j.skip {
				v.arrivals = append(v.arrivals, j)
			}
		}
		if err := v.run(ctx); err != nil {
			return nil, err
		}
		if len(v.line) > 0 {
			return nil, fmt.Errorf("job %s: virtual cluster %s never has room for it", v.line[0].key, c.name)
		}
	}
	return packedResult(jobs), nil
}

func packedResult(jobs []*packedJob) *harness.Result {
	r := &harness.Result{Columns: strings.Split(columns, ","), Rows: make([]harness.Row, len(jobs))}
	for i, j := range jobs {
		r.Rows[i] = harness.Row{Key: j.key, Submit: float64(j.submit), Start: float64(j.start), End: float64(j.end), Job: int32(i)}
	}
	r.Append = func(dst []byte, row *harness.Row) []byte {
		j := jobs[row.Job]
		dst = append(append(append(dst, j.key...), ','), j.vc...)
		waited := j.profQueue
		if !j.skip {
			waited += j.start - j.submit
		}
		return harness.AppendInts(dst, int64(j.gpus), j.submit, j.start, j.end, j.end-j.submit, j.duration, waited, 0)
	}
	return r
}
