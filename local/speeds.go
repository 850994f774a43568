package local

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/live"
	"github.com/norn-scheduler/norn/local/rundir"
)

// gauges is the daemon as it measures how fast jobs run.
type gauges struct{ *Daemon }

// gauge measures how fast a job makes progress, from what it reports: its rate over
// stretches of time, against its rate when it had its devices for itself.
type gauge struct {
	run     int
	setting []int64       // the allocation of the job and the jobs beside it, constant over a stretch
	began   time.Duration // of the stretch, by the clock of its reports
	from    float64       // the work that had been reported then
	last    float64       // that was reported last
	news    int           // reports of more work since
	most    float64       // work that came with one report, in this run
	told    bool          // of its speed under this setting

	// Alone holds its rates alone, by the devices it runs on (see sizeOf), in the
	// units that it reports. They are kept from run to run, beside the job, so that
	// the next daemon knows them.
	Alone map[string]rate `json:"alone"`
}

// rate is work in units of a job's own in a second.
type rate struct {
	Steps   float64 `json:"steps,omitempty"`
	Samples float64 `json:"samples,omitempty"`
	Told    bool    `json:"told,omitempty"` // Steps is the job's word
}

// of is the rate in one of the units.
func (r *rate) of(samples bool) *float64 {
	if samples {
		return &r.Samples
	}
	return &r.Steps
}

// leastNews is the least number of reports of more work in a stretch.
const leastNews = 3

// gaugeSpeed takes in a report. Once the job has run under the same conditions
// for long enough, its speed is its rate divided by its rate alone. If that
// differs noticeably from the believed speed, the engine is told.
func (d gauges) gaugeSpeed(l *entry, r *api.Report) {
	rec, a, def := d.State().Record(l.ID), d.State().Alloc(l.ID), &d.opt.Defaults
	if def.SpeedFor <= 0 || a == nil || l.stage != up || rec.Phase != job.Running || rec.Profiling || rec.Merged != job.Apart || d.Loop.Now() < rec.Ready {
		return
	}
	g := &l.gauge
	if r.Alone > 0 {
		d.toldAlone(l, a, 1/float64(r.Alone))
	}
	done, samples := float64(r.Step), r.Samples > 0 && !g.Alone[d.sizeOf(a)].Told
	if samples {
		done = float64(r.Samples)
	}
	// A report may be late, and its time by the task's own clock is right all the same.
	now, own := d.Loop.Now(), r.At > 0
	if own {
		now = r.At.Duration()
	}
	setting := d.setting(l, a, samples, own)
	if again := g.run == l.Run && done >= g.last; !again || now < g.began || !slices.Equal(setting, g.setting) {
		begun := gauge{run: l.Run, setting: setting, began: now, from: done, last: done, Alone: g.Alone}
		if again && setting[0] == g.setting[0] { // in the same unit
			begun.most = g.most
		}
		*g = begun
		return
	}
	if done == g.last { // a stretch begins and ends with a step
		d.standing(l, rec, a, now-g.began, samples)
		return
	}
	g.most, g.last = max(g.most, done-g.last), done
	if g.news++; g.news < leastNews || now-g.began < def.SpeedFor {
		return
	}
	have := d.rateOf(l, done-g.from, now-g.began, samples)
	g.began, g.from, g.news = now, done, 0
	d.gauged(l, rec, a, have, samples)
}

// rateOf is the rate of work that a job has reported over a span.
func (d gauges) rateOf(l *entry, work float64, took time.Duration, samples bool) float64 {
	have := work / took.Seconds()
	if !samples {
		have *= d.stepSize(l)
	}
	return have
}

// standing takes in that a job beside others has made no step since its last one, so long into
// a stretch. It is at most as fast as if one came now, and this is told when it is less than
// what is believed: a job that its neighbours bring to a standstill makes no step to be seen by.
func (d gauges) standing(l *entry, rec *job.Record, a *cluster.Alloc, took time.Duration, samples bool) {
	g, def := &l.gauge, &d.opt.Defaults
	alone := g.Alone[d.sizeOf(a)]
	base := *alone.of(samples)
	if took < 2*def.SpeedFor || g.most == 0 || base <= 0 || !d.neighbours(l, a) || d.undisturbed(l, a) {
		return
	}
	speed := d.speedOf(rec, a, d.rateOf(l, g.last-g.from+g.most, took, samples)/base)
	if speed < rec.Speed*(1-def.SpeedMargin) {
		d.tellSpeed(l, speed)
	}
}

// tellSpeed tells the engine how fast a job is with its devices.
func (d gauges) tellSpeed(l *entry, speed float64) {
	if d.Loop.Touch(l.ID) != nil {
		return
	}
	l.gauge.told = true
	d.Loop.Emit(eventlog.Event{Kind: eventlog.Speed, Job: l.ID, Speed: max(speed, slowest)})
}

// speedOf is the speed of a job with its devices that is a part of its rate alone on them.
func (d gauges) speedOf(rec *job.Record, a *cluster.Alloc, part float64) float64 {
	return math.Round(d.alonePace(rec, a)*min(fastest, part)*1000) / 1000
}

// SpeedLag implements engine.Measuring. A stretch begins with the first report
// after a change, and ends with the first report after it has been long enough.
func (d *Daemon) SpeedLag() time.Duration {
	if d.opt.Defaults.SpeedFor <= 0 {
		return 0
	}
	return d.opt.Defaults.SpeedFor*3/2 + time.Second
}

// gauged takes in the rate of a stretch.
func (d gauges) gauged(l *entry, rec *job.Record, a *cluster.Alloc, have float64, samples bool) {
	alone := l.gauge.Alone[d.sizeOf(a)]
	// What a job does with another batch says nothing of how fast it is with its own.
	if base := alone.of(samples); d.undisturbed(l, a) && !alone.Told && (*base == 0 || d.ownBatch(l)) {
		first := *base == 0
		if *base += (have - *base) / 8; first {
			*base = have
		}
		d.keepAlone(l, a, alone, first)
	}
	base := *alone.of(samples)
	if base <= 0 {
		return // it is not known how fast it is alone
	}
	speed := d.speedOf(rec, a, have/base)
	// A speed beside neighbours is told once even if it is as believed.
	news := !l.gauge.told && d.neighbours(l, a)
	if news || math.Abs(speed-rec.Speed) > d.opt.Defaults.SpeedMargin*max(speed, rec.Speed) {
		d.tellSpeed(l, speed)
	}
}

// ownBatch tells whether a job trains with the batch that it came with.
func (d gauges) ownBatch(l *entry) bool {
	own, told := l.Spec.Batch, d.ordered(l)
	return own <= 0 || told <= 0 || told == own
}

// stepSize is the size of a step of a job with the batch that it was told,
// relative to a step with its own batch.
func (d gauges) stepSize(l *entry) float64 {
	own, told := l.Spec.Batch, d.ordered(l)
	if own <= 0 || told <= 0 || l.gauge.Alone[d.sizeOf(d.State().Alloc(l.ID))].Told {
		return 1
	}
	return float64(told) / float64(own)
}

// Bounds of believed speeds: no job is many times as fast as alone, and a job
// that makes a step now and then does not stand still.
const (
	fastest = 2
	slowest = 0.001
)

// toldAlone takes a job's own word on its rate alone.
func (d gauges) toldAlone(l *entry, a *cluster.Alloc, steps float64) {
	alone := l.gauge.Alone[d.sizeOf(a)]
	if news := alone.Steps != steps || !alone.Told; news {
		d.keepAlone(l, a, rate{Steps: steps, Samples: alone.Samples, Told: true}, true)
	}
}

// keepAlone notes the rate of a job alone, on disk too when it is new.
func (d gauges) keepAlone(l *entry, a *cluster.Alloc, r rate, news bool) {
	if l.gauge.Alone == nil {
		l.gauge.Alone = map[string]rate{}
	}
	l.gauge.Alone[d.sizeOf(a)] = r
	if !news {
		return
	}
	kept := gauge{Alone: map[string]rate{}}
	for size, r := range l.gauge.Alone {
		kept.Alone[size] = r
	}
	dir, file := d.store.jobDir(live.BaseOf(l.Key)), ratesFile(l.Key)
	d.Loop.Act(&l.Lane, func() {
		if err := rundir.Write(dir, file, kept); err != nil && !os.IsNotExist(err) {
			d.log.Error("how fast a job is alone cannot be noted", "job", l.Key, "error", err)
		}
	})
}

func ratesFile(key string) string { return "rates-" + key + ".json" }

// readAlone reads the known rates of a job alone.
func (d gauges) readAlone(l *entry) {
	recovery(d).readFile(d.store.jobDir(live.BaseOf(l.Key)), ratesFile(l.Key), &l.gauge, "how fast it is alone is measured anew")
}

// sizeOf names the number and type of the devices of a job, on which its rate
// alone depends.
func (d gauges) sizeOf(a *cluster.Alloc) string {
	if len(a.Shares) == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", len(a.Shares), d.State().Cluster.Type(d.State().Cluster.TypeOf(a.Shares[0].Device)).Name)
}

// setting is all on which the rate of a job depends: its allocation, those of the
// other jobs on its devices, what is counted and by which clock.
func (d gauges) setting(l *entry, a *cluster.Alloc, samples, own bool) []int64 {
	out := []int64{0, 0}
	if samples {
		out[0] = 1
	}
	if own {
		out[1] = 1
	}
	parts := func(id job.ID, a *cluster.Alloc) {
		out = append(out, int64(id))
		for i := range a.Pieces {
			out = append(out, int64(a.Pieces[i].CPU), int64(a.Pieces[i].Memory))
		}
		for i := range a.Shares {
			s := &a.Shares[i]
			out = append(out, int64(s.Device), int64(s.Milli), int64(s.Throttle), int64(s.Batch))
		}
	}
	parts(l.ID, a)
	d.eachBeside(l, a, parts)
	return out
}

// eachBeside visits the jobs that hold parts of the devices of a job.
func (d gauges) eachBeside(l *entry, a *cluster.Alloc, visit func(id job.ID, a *cluster.Alloc)) {
	for p := range cluster.PoolID(d.State().Cluster.Pools()) {
		for i := range d.State().Running(p).All() {
			id := job.ID(i)
			alloc := d.State().Alloc(id)
			if id == l.ID || alloc == nil || !overlap(alloc, a) {
				continue
			}
			visit(id, alloc)
		}
	}
}

// overlap tells whether two have a device in common.
func overlap(a, b *cluster.Alloc) bool {
	return slices.ContainsFunc(a.Shares, func(s cluster.Share) bool {
		return slices.ContainsFunc(b.Shares, func(o cluster.Share) bool { return o.Device == s.Device })
	})
}

// undisturbed tells whether a job has its devices for itself, and all the
// processors that it asked for. A job that stands still beside it takes nothing
// from it.
func (d gauges) undisturbed(l *entry, a *cluster.Alloc) bool {
	if cpus, _ := live.Beside(a); live.ThrottleOf(a) > 0 || cpus < l.Spec.CPUs {
		return false
	}
	alone := true
	d.eachBeside(l, a, func(_ job.ID, alloc *cluster.Alloc) { alone = alone && live.ThrottleOf(alloc) >= 1000 })
	return alone
}

// neighbours tells whether any other job holds parts of the devices of a job.
func (d gauges) neighbours(l *entry, a *cluster.Alloc) bool {
	any := false
	d.eachBeside(l, a, func(job.ID, *cluster.Alloc) { any = true })
	return any
}

// rescaled is the believed speed of a job after its parts of the same devices
// have changed, until it is measured. It follows from the turns alone.
func (d gauges) rescaled(r *job.Record, was, a *cluster.Alloc) float64 {
	before, now := 1000-live.ThrottleOf(was), 1000-live.ThrottleOf(a)
	if before == 0 || r.Speed <= 0 {
		return d.speed(r, a)
	}
	return r.Speed * float64(now) / float64(before)
}

// ordered is the batch size that a job is told to train with, if any: by an operator,
// or as the policy has it for its devices together.
func (d *Daemon) ordered(l *entry) int {
	batch := 0
	if a := d.State().Alloc(l.ID); a != nil {
		for i := range a.Shares {
			batch += int(a.Shares[i].Batch)
		}
	}
	return cmp.Or(batch, l.batch)
}
