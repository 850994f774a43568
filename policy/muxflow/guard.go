package muxflow

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
)

// Guard is when a GPU takes offline jobs.
type Guard struct {
	Init    time.Duration // for which a service is measured first
	Use     float64       // limits, 0 to 1
	Memory  float64
	Latency float64 // of a service, against alone; above it for
	Slow    time.Duration
	Calm    float64 // part of the limits below which a GPU is calm
	Cool    time.Duration
	Most    time.Duration
}

// Health is whether a GPU of a service takes offline jobs.
type Health uint8

// The states.
const (
	Init      Health = iota // it has not been measured for long enough
	Healthy                 // it takes offline jobs
	Overlimit               // it was used too much and has not been calm for long enough since
	Unhealthy               // it or its node does not work
)

// Metrics is what was measured of a GPU: parts of it in use, 0 to 1, and by how much
// longer the service takes than alone.
type Metrics struct{ Use, Memory, Latency float64 }

// Above tells whether any metric is above its limit; latency must be for some time, so
// that it is not looked at here.
func (g Guard) Above(m Metrics) bool { return m.Use > g.Use || m.Memory > g.Memory }

// IsCalm tells whether all metrics are below the limits by a margin.
func (g Guard) IsCalm(m Metrics) bool {
	return m.Use < g.Calm*g.Use && m.Memory < g.Calm*g.Memory && m.Latency <= g.Latency
}

// CoolFor is for how long a GPU must be calm after it was used too much for so many
// times.
func (g Guard) CoolFor(times int) time.Duration {
	cool := g.Cool
	for range times - 1 {
		if cool >= g.Most/2 {
			return g.Most
		}
		cool *= 2
	}
	return min(cool, g.Most)
}

// halfDay is for how long the peak of a service is that of now.
const halfDay = 12 * time.Hour

// most is the most that a service used of its GPU in the last half day to day.
func (n note) most() float64 { return float64(max(n.peak, n.before)) / 100 }

// health is how a GPU of a service stands.
func (f *policy) health(v *sched.View, d cluster.DeviceID, s seat, n note) Health {
	j := v.Job(s.service)
	g := &f.cfg.Guard
	switch {
	case !v.Cluster().UsableDevice(d):
		return Unhealthy
	case j.Phase() != job.Running || j.RunTime() < g.Init:
		return Init
	case n.over:
		return Overlimit
	}
	return Healthy
}

// metrics is what was measured of a GPU of a service; ok is false where nothing was.
func (f *policy) metrics(v *sched.View, d cluster.DeviceID, s seat) (m Metrics, ok bool) {
	u := v.Used(d)
	j := v.Job(s.service)
	m = Metrics{Use: u.Use, Latency: 1}
	if has := v.Cluster().Type(v.Cluster().TypeOf(d)).Memory; has > 0 {
		m.Memory = float64(u.Memory) / float64(has)
	}
	if s.offline != job.None && j.Phase() == job.Running {
		if m.Latency = 1e9; j.Speed() > 0 {
			m.Latency = 1 / j.Speed()
		}
	}
	return m, u.Known
}

// online is what a service itself uses of a GPU: what is measured less what the job
// beside it is seen to use.
func (f *policy) online(v *sched.View, d cluster.DeviceID, s seat) float64 {
	u := v.Used(d)
	if !u.Known {
		use, _ := demand(v.Job(s.service).Spec())
		return use
	}
	if s.offline != job.None {
		j := v.Job(s.offline)
		use, _ := demand(j.Spec())
		return max(0, u.Use-use*j.Speed())
	}
	return u.Use
}

// next is what is remembered of a service from now on, and why the offline job beside
// it must make room, if it must.
func (f *policy) next(v *sched.View, d cluster.DeviceID, s seat, n note) (note, string) {
	g := &f.cfg.Guard
	n = n.turn(v.Now, f.online(v, d, s))
	is, known := f.metrics(v, d, s)
	slow := known && is.Latency > g.Latency
	why := ""
	switch {
	case n.over && known && g.IsCalm(is):
		if n.since < 0 {
			n.since = v.Now
		}
		if v.Now-n.since >= g.CoolFor(n.times) {
			n.over, n.since = false, -1
		}
	case n.over:
		n.since = -1
	case known && g.Above(is):
		why = fmt.Sprintf("%.0f%% of its GPU and %.0f%% of the memory are in use", 100*is.Use, 100*is.Memory)
	case slow && n.since < 0:
		n.since = v.Now
	case slow && v.Now-n.since >= g.Slow:
		why = fmt.Sprintf("the service takes %.2f times as long as alone", is.Latency)
	case !slow:
		n.since = -1
	}
	if why != "" {
		n.over, n.times, n.since = true, n.times+1, -1
	}
	return n, why
}

// turn notes what a service uses, in whole per cent, so that it is not noted anew
// whenever it uses a little more than ever before.
func (n note) turn(now time.Duration, use float64) note {
	if day := int(now / halfDay); day != n.day {
		if n.before = n.peak; day != n.day+1 {
			n.before = 0
		}
		n.day, n.peak = day, 0
	}
	n.peak = max(n.peak, min(100, int(use*100+0.5)))
	return n
}

// watch looks at the GPUs of all services, and has offline jobs make room on those that
// are used too much.
func (f *policy) watch(v *sched.View, p *sched.Plan) {
	f.slots = f.slots[:0]
	for d := range v.Devices() {
		s := f.seat(v, d)
		if s.service == job.None || !beside.Divisible(v, d) || v.Job(s.service).Phase() != job.Running {
			continue
		}
		j := v.Job(s.service)
		if a := v.Alloc(s.service); a.Shares[0].Device != d || len(a.Shares) > 1 {
			continue // a service on several GPUs is left alone
		}
		was, _ := sched.Recall[note](j)
		n, why := f.next(v, d, s, was)
		if n != was {
			p.Remember(s.service, &n)
		}
		if why != "" && s.offline != job.None && s.others == 0 && p.Alloc(s.offline) != nil {
			p.Stop(s.offline, job.Reason{Code: job.MakesRoom, Job: s.service, Text: "makes room for service " + j.Spec().Key + ": " + why})
		}
		if f.health(v, d, s, n) == Healthy && s.others == 0 {
			f.slots = append(f.slots, f.slot(v, d, s.service, n))
		}
	}
}

// freed tells whether a GPU has begun to take offline jobs at this moment.
func (f *policy) freed(v *sched.View) bool {
	for i := range f.slots {
		s := &f.slots[i]
		j := v.Job(s.service)
		if n, _ := sched.Recall[note](j); n.over || j.RunTime() == f.cfg.Guard.Init {
			return true
		}
	}
	return false
}

// turns is when a GPU of a service may change its health by itself.
func (f *policy) turns(v *sched.View, s seat, wanted bool) time.Duration {
	g := &f.cfg.Guard
	j := v.Job(s.service)
	if j.Phase() != job.Running {
		return unit.Never
	}
	n, _ := sched.Recall[note](j)
	after := func(t, by time.Duration) time.Duration {
		if by >= unit.Never-t || t+by <= v.Now {
			return unit.Never
		}
		return t + by
	}
	switch {
	case n.over && n.since >= 0 && wanted:
		return after(n.since, g.CoolFor(n.times))
	case !n.over && n.since >= 0 && s.offline != job.None:
		return after(n.since, g.Slow)
	case wanted:
		return after(v.Now-j.RunTime(), g.Init)
	}
	return unit.Never
}
