package state

import (
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
)

// UsedWindow is how far back it is known what was measured of a device.
const UsedWindow = time.Minute

// sample is what was measured of a device from a moment on.
type sample struct {
	at     time.Duration
	use    float64
	memory unit.Bytes
}

// Window is what was measured of a device over some time.
type Window struct {
	Use    float64       // mean, 0 to 1
	Memory unit.Bytes    // the most that was taken
	Since  time.Duration // when it was measured last: nothing has changed since
	Known  bool          // it was measured
}

// UsedOver is what was measured of a device over the last time, UsedWindow at most:
// what was measured last counts until something else is.
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

// sampled notes what was measured of a device, and forgets what is older than any
// window.
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
	s.windows[d] = append(kept, sample{s.Now, use, memory})
}
