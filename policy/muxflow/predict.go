package muxflow

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict/boost"
)

// The values of a measurement of an offline job beside a service, at that moment.
const (
	Share            = "share"             // part of the multiprocessors that it may use, 0 to 1
	ServiceUse       = "service"           // part that the service uses, 0 to 1
	ServiceBandwidth = "service-bandwidth" // part of the bandwidth of memory that the service uses, 0 to 1
)

// features are what the speed of a pair depends on: the use of the service (its peak, where a
// speed is predicted), the bandwidth of memory that it uses, the share, and what the job uses
// alone of both.
type features [5]float64

// formula is the speed by Worth.
func (x features) formula() float64 { return Worth(x[3], x[4], int(x[2]*1000+0.5), x[1]) }

// alone is the speed that a job has with its share where nothing else is in its way.
func (x features) alone() float64 { return Worth(x[3], 0, int(x[2]*1000+0.5), 0) }

// Trees is how the predictor grows its trees: what a small network does in the paper.
func Trees() boost.Config {
	return boost.Config{Trees: 100, Depth: 5, Leaf: 3, Bins: 64, Rate: 0.1}
}

// Believer makes what the policy believes of speeds beside services from what is measured of
// them. It is nil where speeds are told by the formula.
func (c *Config) Believer(prior perf.Prior) perf.Believer {
	if c.Worths == Formula {
		return nil
	}
	return &believer{rows: c.Rows, told: prior.Told, types: map[string]*predictor{}}
}

// believer is what is believed of jobs beside services: a predictor for each GPU type. It
// implements perf.Sharing and perf.Telling.
type believer struct {
	rows  int  // from which a predictor learns first
	told  bool // until then the formula counts; else the share alone
	types map[string]*predictor
}

// predictor predicts speeds on one GPU type.
type predictor struct {
	x, y  []float64
	next  int          // rows at which it learns anew
	model *boost.Model // nil: it has not learnt
	from  int          // rows from which it learnt
	off   float64      // its mean error on these
}

// When a predictor learns anew, and from how much.
const (
	growth   = 1.5
	mostRows = 4096 // the last to come
)

// Observe implements perf.Believer.
func (b *believer) Observe(j *job.Job, m *perf.Reading) {
	factor, ok := m.Figure(perf.Factor)
	share, shared := m.Figure(Share)
	service, served := m.Figure(ServiceUse)
	bandwidth, _ := m.Figure(ServiceBandwidth)
	if !ok || !shared || !served || m.Setup.Tasks != 1 {
		return
	}
	p := b.types[m.Setup.Type]
	if p == nil {
		p = &predictor{next: b.rows}
		b.types[m.Setup.Type] = p
	}
	use, own := demand(j)
	p.x, p.y = append(p.x, service, bandwidth, share, use, own), append(p.y, min(1, max(0, factor)))
	if len(p.y) >= p.next {
		p.next = int(math.Ceil(growth * float64(len(p.y))))
		p.learn()
	}
}

// learn grows the trees of a predictor from the last of its rows.
func (p *predictor) learn() {
	const wide = len(features{})
	from := max(0, len(p.y)-mostRows)
	x, y := p.x[from*wide:], p.y[from:]
	model, err := boost.Train(Trees(), x, y)
	if err != nil { // which finite numbers cannot cause
		return
	}
	p.model, p.from, p.off = model, len(y), 0
	for i := range y {
		p.off += math.Abs(model.Predict(x[i*wide:(i+1)*wide])-y[i]) / float64(len(y))
	}
}

// worth is the speed of a pair that is believed, 0 to 1.
func (b *believer) worth(typ string, x *features) float64 {
	if p := b.types[typ]; p != nil && p.model != nil {
		return min(1, max(0, p.model.Predict(x[:])))
	}
	if b.told {
		return x.formula()
	}
	return x.alone()
}

// Beside implements perf.Sharing: a job beside one service has half of the GPU. Others are
// believed not to be disturbed.
func (b *believer) Beside(j *job.Job, others []*job.Job, t cluster.GPUType) float64 {
	if len(others) != 1 || j.Kind == job.Inference || others[0].Kind != job.Inference {
		return 1
	}
	use, own := demand(j)
	service, bandwidth := demand(others[0])
	return max(leastWorth, b.worth(t.Name, &features{service, bandwidth, 0.5, use, own}))
}

// leastWorth is the least that Beside tells.
const leastWorth = 0.01

// Grounds implements perf.Telling.
func (b *believer) Grounds(j *job.Job) []string {
	if j.Kind == job.Inference {
		return nil
	}
	var out []string
	for _, typ := range slices.Sorted(maps.Keys(b.types)) {
		p := b.types[typ]
		if p.model == nil {
			out = append(out, fmt.Sprintf("its speed beside services on %s is taken to follow from its share, since only %s were made there", typ, unit.Count(len(p.y), "measurement")))
			continue
		}
		out = append(out, fmt.Sprintf("its speed beside services on %s is predicted from %s, which are told with a mean error of %.3f", typ, unit.Count(p.from, "measurement"), p.off))
	}
	return out
}

// GainGrounds implements perf.Telling: jobs learn nothing from each other here.
func (b *believer) GainGrounds(_, _ *job.Job) string { return "" }
