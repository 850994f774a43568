package muxflow

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/kit/beside"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/unit"
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
	for range min(times, 63) - 1 {
		if cool >= g.Most/2 {
			return g.Most
		}
		cool *= 2
	}
	return min(cool, g.Most)
}

// memo is what is remembered of a service: how its GPU stands and what it uses.
type memo struct {
	over   bool          // it was used too much
	times  int           // so often
	at     time.Duration // over: since when it has been calm; else since when the service has been slow; 0: it is not
	day    int           // the half day, from the start of the run, in which peak was the most it used
	peak   int           // thousandths
	before int           // the most in the half day before
}

const (
	mark     uint64 = 0x6d75 << 48
	markMask uint64 = 0xffff << 48
	halfDay         = 12 * time.Hour
)

func (m memo) pack() job.Memo {
	bits := mark | uint64(m.times&0x3f)<<41 | uint64(m.day&0xffff)<<24 | uint64(m.peak&0x7ff)<<12 | uint64(m.before&0x7ff)
	if m.over {
		bits |= 1 << 47
	}
	return job.Memo{int64(bits), int64(m.at)}
}

func unpack(m job.Memo) memo {
	bits := uint64(m[0])
	if bits&markMask != mark {
		return memo{}
	}
	return memo{bits>>47&1 == 1, int(bits >> 41 & 0x3f), time.Duration(m[1]), int(bits >> 24 & 0xffff), int(bits >> 12 & 0x7ff), int(bits & 0x7ff)}
}

// most is the most that a service used of its GPU in the last half day to day.
func (m memo) most() float64 { return float64(max(m.peak, m.before)) / 1000 }

// health is how a GPU of a service stands.
func (f *policy) health(v *sched.View, d cluster.DeviceID, s seat, m memo) Health {
	j := v.Job(s.service)
	g := &f.cfg.Guard
	switch {
	case !v.Cluster().UsableDevice(d):
		return Unhealthy
	case j.Phase() != job.Running || j.Run() < g.Init:
		return Init
	case m.over:
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
func (f *policy) next(v *sched.View, d cluster.DeviceID, s seat, m memo) (memo, string) {
	g := &f.cfg.Guard
	m = m.turn(v.Now, f.online(v, d, s))
	is, known := f.metrics(v, d, s)
	slow := known && is.Latency > g.Latency
	why := ""
	switch {
	case m.over && known && g.IsCalm(is):
		if m.at == 0 {
			m.at = max(1, v.Now)
		}
		if v.Now-m.at >= g.CoolFor(m.times) {
			m.over, m.at = false, 0
		}
	case m.over:
		m.at = 0
	case known && g.Above(is):
		why = fmt.Sprintf("%.0f%% of its GPU and %.0f%% of the memory are in use", 100*is.Use, 100*is.Memory)
	case slow && m.at == 0:
		m.at = max(1, v.Now)
	case slow && v.Now-m.at >= g.Slow:
		why = fmt.Sprintf("the service takes %.2f times as long as alone", is.Latency)
	case !slow:
		m.at = 0
	}
	if why != "" {
		m.over, m.times, m.at = true, min(m.times+1, 63), 0
	}
	return m, why
}

// turn notes what a service uses.
func (m memo) turn(now time.Duration, use float64) memo {
	milli := min(1000, int(use*100+0.5)*10)
	if day := int(now/halfDay) & 0xffff; day != m.day {
		if m.before = m.peak; day != (m.day+1)&0xffff {
			m.before = 0
		}
		m.day, m.peak = day, 0
	}
	m.peak = max(m.peak, milli)
	return m
}

// watch looks at the GPUs of all services, and has offline jobs make room on those that
// are used too much.
func (f *policy) watch(v *sched.View, p *sched.Plan) {
	f.slots = f.slots[:0]
	for d := range cluster.DeviceID(v.Cluster().Devices()) {
		s := f.seat(v, d)
		if s.service == job.None || !beside.Divisible(v, d) || v.Job(s.service).Phase() != job.Running {
			continue
		}
		j := v.Job(s.service)
		if a := v.Alloc(s.service); a.Shares[0].Device != d || len(a.Shares) > 1 {
			continue // a service on several GPUs is left alone
		}
		m, why := f.next(v, d, s, unpack(j.Memo()))
		if m != unpack(j.Memo()) || uint64(j.Memo()[0])&markMask != mark {
			p.Remember(s.service, m.pack())
		}
		if why != "" && s.offline != job.None && s.others == 0 && p.Holding(s.offline) != nil {
			p.Stop(s.offline, job.Reason{Code: job.MakesRoom, Job: s.service, Text: "makes room for service " + j.Spec().Key + ": " + why})
		}
		if f.health(v, d, s, m) == Healthy && s.others == 0 {
			f.slots = append(f.slots, f.slot(v, d, s.service, m))
		}
	}
}

// freed tells whether a GPU has begun to take offline jobs at this moment.
func (f *policy) freed(v *sched.View) bool {
	for i := range f.slots {
		s := &f.slots[i]
		j := v.Job(s.service)
		if m := unpack(j.Memo()); m.over || j.Run() == f.cfg.Guard.Init {
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
	m := unpack(j.Memo())
	after := func(t, by time.Duration) time.Duration {
		if by >= unit.Never-t || t+by <= v.Now {
			return unit.Never
		}
		return t + by
	}
	switch {
	case m.over && m.at > 0 && wanted:
		return after(m.at, g.CoolFor(m.times))
	case !m.over && m.at > 0 && s.offline != job.None:
		return after(m.at, g.Slow)
	case wanted:
		return after(v.Now-j.Run(), g.Init)
	}
	return unit.Never
}
