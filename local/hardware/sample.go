package hardware

import (
	"fmt"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

// Sample is one look at a device. A figure that the driver does not tell is 0.
type Sample struct {
	Measured  bool
	Used      unit.Bytes
	Util      float64 // part of the time in which it computed, 0 to 1
	Celsius   float64
	Watts     float64
	Processes []Process // that compute on it, whoever started them, by number
	Trouble   string    // why it must take no new work, a sentence; empty: it works
}

// Process is a process on a GPU.
type Process struct {
	PID  int // as the driver numbers it: that of the machine, not of a container
	Used unit.Bytes
}

// reading is what a driver tells of a device.
type reading struct {
	Sample
	ecc      int64   // uncorrected memory errors since the driver was loaded; -1: not known
	slowdown float64 // temperature at which the driver slows the GPU down; 0: not known
}

// probe reads the figures of one device. An error means that it cannot be used.
type probe interface{ read() (reading, error) }

// Sampler looks at the devices of a Machine. A device is in trouble while
//
//   - its driver cannot read it (it is lost, has fallen off the bus, needs a
//     reset), or has not answered for some seconds;
//   - it has had uncorrected memory errors that it had not when the Sampler was
//     made, until their count falls, as a reset makes it, or Forgive;
//   - it is as hot as where its driver slows it down, until it is 5 degrees below.
//
// It is not safe for concurrent use.
type Sampler struct {
	devices []watched
	expire  func() <-chan time.Time // sends when a driver has been waited for long enough
}

// patience is how long a driver may take to answer.
const patience = 5 * time.Second

// cooled is how far below the slowdown temperature a GPU must fall to count as
// cool again.
const cooled = 5

// watched is a device with what is known of it from before.
type watched struct {
	probe   probe
	pending chan answer // of a driver that has not answered yet
	seen    bool        // the fields below are set
	base    int64       // uncorrected errors that are no trouble
	last    int64       // uncorrected errors in the last reading that told them
	hot     bool
}

type answer struct {
	reading
	err error
}

// Sampler makes a sampler.
func (m *Machine) Sampler() *Sampler {
	s := &Sampler{devices: make([]watched, len(m.Devices)), expire: func() <-chan time.Time { return time.After(patience) }}
	for i := range m.Devices {
		s.devices[i].probe = m.Devices[i].probe
	}
	return s
}

// Sample looks at each device, in the order of Machine.Devices. It returns after
// some seconds even if a driver hangs, and does not wait for that one again.
func (s *Sampler) Sample() []Sample {
	out := make([]Sample, len(s.devices))
	asked := make([]bool, len(s.devices))
	waits := false
	for i := range s.devices {
		asked[i] = s.devices[i].ask()
		waits = waits || asked[i]
	}
	var expired <-chan time.Time
	if waits {
		expired = s.expire()
	}
	for i := range s.devices {
		d := &s.devices[i]
		if d.pending == nil {
			continue
		}
		got, ok := d.poll()
		if !ok && asked[i] && waits {
			select {
			case got = <-d.pending:
				ok = true
			case <-expired:
				waits = false
			}
		}
		if !ok {
			out[i].Trouble = "its driver does not answer"
			continue
		}
		d.pending = nil
		out[i] = d.judge(got)
	}
	return out
}

// ask asks the driver, unless it still owes an answer.
func (d *watched) ask() bool {
	if d.probe == nil || d.pending != nil {
		return false
	}
	reply := make(chan answer, 1)
	d.pending = reply
	go func(p probe) {
		r, err := p.read()
		reply <- answer{r, err}
	}(d.probe)
	return true
}

// poll takes an answer that is there.
func (d *watched) poll() (answer, bool) {
	select {
	case a := <-d.pending:
		return a, true
	default:
		return answer{}, false
	}
}

// judge says whether a device is in trouble.
func (d *watched) judge(a answer) Sample {
	if a.err != nil {
		return Sample{Trouble: a.err.Error()}
	}
	out := a.Sample
	if a.ecc >= 0 {
		if !d.seen || a.ecc < d.last {
			d.base, d.seen = a.ecc, true
		}
		d.last = a.ecc
	}
	if a.slowdown > 0 && a.Celsius > 0 {
		switch {
		case a.Celsius >= a.slowdown:
			d.hot = true
		case a.Celsius <= a.slowdown-cooled:
			d.hot = false
		}
	}
	switch {
	case d.last > d.base:
		out.Trouble = fmt.Sprintf("it has had %s that cannot be corrected; a reset of the GPU clears it", counted(d.last-d.base, "memory error"))
	case d.hot:
		out.Trouble = fmt.Sprintf("it is at %.0f degrees, and slows down at %.0f", a.Celsius, a.slowdown)
	}
	return out
}

func counted(n int64, what string) string {
	if n == 1 {
		return "a " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Forgive takes the memory errors that a device has had as no trouble from now on,
// as when an operator puts it back into use.
func (s *Sampler) Forgive(device int) {
	if device >= 0 && device < len(s.devices) {
		s.devices[device].base = s.devices[device].last
	}
}
