package state

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// UsedWindow is the time for which measurements of a device are kept.
const UsedWindow = time.Minute

// sample is a measurement of a device that holds from a moment on.
type sample struct {
	at     time.Duration
	use    float64
	memory unit.Bytes
}

// Window sums up the measurements of a device over some time.
type Window struct {
	Use    float64       // mean, 0 to 1
	Memory unit.Bytes    // the largest amount that was taken, in bytes
	Since  time.Duration // moment of the latest measurement
	Known  bool          // whether it was measured at all
}

// UsedOver is the use of a device over the given last time, UsedWindow at most.
// A measurement counts until the next one.
func (s *State) UsedOver(d cluster.DeviceID, last time.Duration) Window {
	if int(d) >= len(s.windows) || len(s.windows[d]) == 0 {
		return Window{}
	}
	samples := s.windows[d]
	from := max(samples[0].at, s.Now-min(last, UsedWindow))
	now := samples[len(samples)-1]
	w := Window{Use: now.use, Memory: now.memory, Since: now.at, Known: true}
	if from >= s.Now {
		return w
	}
	w.Use = 0
	for i, p := range samples {
		end := s.Now
		if i+1 < len(samples) {
			end = samples[i+1].at
		}
		if end > from || i+1 == len(samples) {
			w.Use += p.use * (end - max(from, p.at)).Seconds()
			w.Memory = max(w.Memory, p.memory)
		}
	}
	w.Use /= (s.Now - from).Seconds()
	return w
}

// sampled notes a measurement of a device, and forgets samples that are older
// than any window.
func (s *State) sampled(d cluster.DeviceID, use float64, memory unit.Bytes) {
	for int(d) >= len(s.windows) {
		s.windows = append(s.windows, nil)
	}
	kept := s.windows[d]
	for len(kept) > 1 && kept[1].at <= s.Now-UsedWindow {
		kept = kept[1:]
	}
	if n := len(kept); n > 0 && kept[n-1].at == s.Now {
		kept = kept[:n-1]
	}
	s.lists.measure(d, s.windows[d], s.Now)
	s.windows[d] = append(kept, sample{s.Now, use, memory})
}
