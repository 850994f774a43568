package sim

import (
	"math"
	"slices"
	"time"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/eventlog"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/state/dense"
)

// sharing is what the world knows of jobs that share devices or are trained
// together. One job changes the speeds of others, and whether their memory
// suffices. The world reports that in the same instant, as soon as it is asked
// again.
type sharing struct {
	on     bool
	model  sharingModel
	gone   dense.Set          // jobs that have left their devices since they last came; the state may not know yet
	dirty  []cluster.DeviceID // whose holders have changed
	merged []job.ID           // whose training has changed
	ids    []job.ID           // scratch of holders
	others []perf.Sharer      // scratch
	last   []perf.Sharer      // scratch of speed: a job and who was beside it on the device before
	lastOn cluster.TypeID     // the type of that
}

// sharingModel is what Config.Sharing can tell beside speeds; nil: it cannot.
type sharingModel struct {
	batched  perf.Batched
	spilling perf.Spilling
	capping  perf.Capping
	gauged   perf.Gauged
}

// sharingModelOf asks a model once what it can tell.
func sharingModelOf(m perf.Sharing) (of sharingModel) {
	of.batched, _ = m.(perf.Batched)
	of.spilling, _ = m.(perf.Spilling)
	of.capping, _ = m.(perf.Capping)
	of.gauged, _ = m.(perf.Gauged)
	return of
}

// spills tells whether a job can do with main memory where that of a device runs out.
func (m *sharingModel) spills(s perf.Sharer) bool { return m.spilling != nil && m.spilling.Spills(s) }

// share begins to keep account of who shares what, when anything asks for it.
func (w *Sim) share() {
	s := &w.shared
	s.on = w.cfg.Sharing != nil || w.cfg.Transfer != nil || w.cfg.Measure
	if !s.on {
		return
	}
	if w.cfg.Sharing == nil {
		w.cfg.Sharing = perf.Alone{}
	}
	s.model = sharingModelOf(w.cfg.Sharing)
	if w.cfg.Transfer == nil {
		w.cfg.Transfer = perf.Strangers{}
	}
}

// holders are the jobs that are on a device, in order of arrival. The slice is valid
// until one of them leaves or another device is asked about.
func (w *Sim) holders(d cluster.DeviceID) []job.ID {
	s := &w.shared
	s.ids = s.ids[:0]
	for _, id := range w.state.On(d) {
		if w.stands(id) {
			s.ids = append(s.ids, id)
		}
	}
	return s.ids
}

// stands tells whether a job is on the devices that the state knows of. One that was
// assigned them has not come yet.
func (w *Sim) stands(id job.ID) bool {
	return w.state.Record(id).Phase == job.Running && !w.shared.gone.Has(int(id))
}

// comes notes that a job comes to devices.
func (w *Sim) comes(id job.ID, a *cluster.Alloc) {
	w.cfg.Linked.Enter(w.state.Record(id).Job, w.state.Cluster, a)
	if w.shared.on {
		w.shared.gone.Remove(int(id))
		w.adjusts(a)
	}
}

// leaves notes that a job has left its devices, if it was there.
func (w *Sim) leaves(id job.ID) {
	w.courses.next.Remove(int32(id))
	w.cfg.Linked.Leave(id)
	if w.shared.on && w.stands(id) {
		w.shared.gone.Add(int(id))
		w.adjusts(w.state.Alloc(id))
	}
}

// adjusts notes that something changes on the devices of a.
func (w *Sim) adjusts(a *cluster.Alloc) {
	if !w.shared.on {
		return
	}
	for i := range a.Shares {
		w.shared.dirty = append(w.shared.dirty, a.Shares[i].Device)
	}
}

// unsettled tells whether something has changed of which the world has not told
// the consequences.
func (w *Sim) unsettled() bool {
	return len(w.shared.dirty)+len(w.shared.merged)+len(w.meter.pending)+len(w.courses.news) > 0 || w.cfg.Linked.Unsettled()
}

// settle tells what has become of the jobs on devices whose holders have changed:
// who has no memory left, and who runs at another speed.
func (w *Sim) settle(now time.Duration, out []eventlog.Event) []eventlog.Event {
	s := &w.shared
	out = w.report(now, out)
	s.merged = w.cfg.Linked.Changed(s.merged)
	if len(s.dirty)+len(s.merged) == 0 {
		return out
	}
	slices.Sort(s.dirty)
	s.dirty = slices.Compact(s.dirty)
	for i := 0; i < len(s.dirty); i++ { // who is thrown off makes more of them dirty
		out = w.exhaust(s.dirty[i], now, out)
	}
	if w.cfg.Measure {
		for _, d := range s.dirty {
			out = append(out, w.measured(d, now))
		}
	}
	ids := s.merged
	for _, d := range s.dirty {
		ids = append(ids, w.holders(d)...)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		out = w.repace(id, now, out)
	}
	s.dirty, s.merged = s.dirty[:0], ids[:0]
	return out
}

// repace tells of the speed of a running job, if it has changed.
func (w *Sim) repace(id job.ID, now time.Duration, out []eventlog.Event) []eventlog.Event {
	r := w.state.Record(id)
	if r.Phase != job.Running || w.phase(id) != job.Running || r.Profiling {
		return out
	}
	speed := w.speed(id, w.state.Alloc(id))
	if speed == r.Speed {
		return out
	}
	w.schedule(id, max(now, r.Ready), r.ProgressAt(now), speed)
	return append(out, eventlog.Event{Time: now, Kind: eventlog.Speed, Job: id, Speed: speed})
}

// speed is how fast a job really runs on devices, with those who share them.
func (w *Sim) speed(id job.ID, a *cluster.Alloc) float64 {
	r := w.state.Record(id)
	speed := w.alone(id, a)
	if s, ok := w.withoutGPUs(id, a); ok {
		speed = s
	}
	if !w.shared.on {
		return speed
	}
	if w.loads.stalled(id, w.state.Now) {
		return 0
	}
	partner, gain := w.gain(id)
	speed *= gain
	worst := math.Inf(1)
	w.shared.last = w.shared.last[:0]
	for i := range a.Shares {
		d, factor := a.Shares[i].Device, 1.0
		if others := w.beside(d, id, partner); len(others) > 0 || a.Shares[i].Throttle > 0 || a.Shares[i].Batch > 0 {
			own, typ := perf.Sharer{Job: r.Job, Share: a.Shares[i], Load: w.loads.of(id)}, w.state.Cluster.TypeOf(d)
			if w.shared.like(typ, own, others) { // as on a device before, of which there are eight in many gangs
				continue
			}
			factor = perf.Among(w.cfg.Sharing, own, others, w.state.Cluster.Type(typ))
		}
		worst = min(worst, factor)
	}
	if len(a.Shares) == 0 {
		return speed
	}
	return speed * worst
}

// gain is the factor on the speed of a job by what another one has taught it or teaches
// it, and with which job it is trained as one.
func (w *Sim) gain(id job.ID) (partner job.ID, factor float64) {
	partner, factor = job.None, 1
	switch r := w.state.Record(id); {
	case r.Merged == job.After && w.state.Known(r.With):
		factor = w.cfg.Transfer.After(r.Job, w.state.Record(r.With).Job)
	case r.Merged == job.Together && w.phaseOf(r.With) == job.Running:
		partner = r.With
		factor, _ = w.cfg.Transfer.Together(r.Job, w.state.Record(partner).Job, [2]time.Duration{w.left(id), w.left(partner)})
	}
	meters{w}.mark(id, w.state.Now)
	w.truth.of(id).gain = factor
	return partner, factor
}

// like tells whether a job and those beside it have the same parts of a device as they
// had of the one that was asked about before, and notes them.
func (s *sharing) like(t cluster.TypeID, own perf.Sharer, others []perf.Sharer) bool {
	alike := func(a, b perf.Sharer) bool { a.Share.Device = b.Share.Device; return a == b }
	if len(s.last) == len(others)+1 && s.lastOn == t && alike(s.last[0], own) && slices.EqualFunc(s.last[1:], others, alike) {
		return true
	}
	s.last, s.lastOn = append(append(s.last[:0], own), others...), t
	return false
}

// withoutGPUs is the speed of a job on a host device, where it takes its time
// without GPUs. ok is false on GPUs, and for a job that does not declare that
// time.
func (w *Sim) withoutGPUs(id job.ID, a *cluster.Alloc) (speed float64, ok bool) {
	h := w.state.Record(id).Job.Hints
	if h == nil || h.CPUTime <= 0 || len(a.Shares) == 0 || !w.state.Cluster.Type(w.state.Cluster.TypeOf(a.Shares[0].Device)).Host {
		return 0, false
	}
	return float64(w.truth.of(id).work()) / float64(h.CPUTime), true
}

// phaseOf is phase for a job that may not be there.
func (w *Sim) phaseOf(id job.ID) job.Phase {
	if !w.state.Known(id) {
		return job.Unknown
	}
	return w.phase(id)
}

// left is the work that a job still has.
func (w *Sim) left(id job.ID) time.Duration {
	return max(0, w.truth.of(id).work()-w.state.Record(id).ProgressAt(w.state.Now))
}

// beside are the jobs on a device but for two, and the parts that they have.
func (w *Sim) beside(d cluster.DeviceID, self, partner job.ID) []perf.Sharer {
	w.shared.others = w.shared.others[:0]
	for _, id := range w.holders(d) {
		if id == self || id == partner {
			continue
		}
		w.shared.others = append(w.shared.others, w.sharer(id, d))
	}
	return w.shared.others
}

// sharer is a job on a device, and the part that it has.
func (w *Sim) sharer(id job.ID, d cluster.DeviceID) perf.Sharer {
	o := perf.Sharer{Job: w.state.Record(id).Job, Load: w.loads.of(id)}
	if a := w.state.Alloc(id); a != nil {
		if at := slices.IndexFunc(a.Shares, func(s cluster.Share) bool { return s.Device == d }); at >= 0 {
			o.Share = a.Shares[at]
		}
	}
	return o
}

// memory is what a job really takes of the memory of each of its GPUs.
func (w *Sim) memory(id job.ID) unit.Bytes {
	if m := w.truth.of(id).GPUMemory; m > 0 {
		return m
	}
	return perf.MemoryOf(w.state.Record(id).Job)
}

// grown is how much more memory a job takes with the batch that it was told than with
// its own.
func (w *Sim) grown(s perf.Sharer) unit.Bytes {
	if b := w.shared.model.batched; b != nil && s.Share.Batch > 0 {
		if st := b.Stepping(s.Job); st != nil {
			return st.Grows(int(s.Share.Batch))
		}
	}
	return 0
}

// memoryOn is the memory of a device, in bytes, that jobs really take which
// need it there. spilled is the memory of jobs there that can do with main
// memory.
func (w *Sim) memoryOn(d cluster.DeviceID) (sum, spilled unit.Bytes) {
	for _, id := range w.holders(d) {
		s := w.sharer(id, d)
		m := w.memory(id) + w.grown(s)
		if w.shared.model.spills(s) {
			spilled += min(m, s.Share.Memory)
			continue
		}
		sum += m
	}
	return sum, spilled
}

// exhaust throws off a device whose memory runs out those who came last, of
// those who need it, until it suffices. A job that needs more than there is for
// it alone fails in the end.
func (w *Sim) exhaust(d cluster.DeviceID, now time.Duration, out []eventlog.Event) []eventlog.Event {
	has := w.state.Cluster.Type(w.state.Cluster.TypeOf(d)).Memory
	for has > 0 {
		on := w.holders(d)
		last := overCap(w, d)
		if need, _ := w.memoryOn(d); last < 0 && need <= has {
			break
		}
		if last < 0 {
			last = len(on) - 1
			for w.shared.model.spills(w.sharer(on[last], d)) { // somebody does not, who needs it
				last--
			}
		}
		id, alone := on[last], len(on) == 1
		r := w.state.Record(id)
		w.leaves(id)
		w.told = append(w.told, told{id, job.Waiting})
		w.timers.Remove(int32(id))
		delete(w.breaks, id)
		ev := eventlog.Event{
			Time: now, Kind: eventlog.Evict, Job: id, Kept: w.saved(r, now),
			Reason: job.Reason{Code: job.OutOfMemory, Need: int32(d), Job: job.None},
		}
		if alone && w.memory(id) > has && w.tooLarge(id) {
			ev = eventlog.Event{Time: now, Kind: eventlog.End, Job: id, Outcome: job.FailedPhase}
			w.told[len(w.told)-1].phase = job.FailedPhase
		}
		out = append(out, ev)
	}
	return out
}

// mostTries is how often a job may be put on a GPU that is too small for it alone.
const mostTries = 3

// tooLarge tells whether a job fails for good because it needed more memory
// than a GPU has. Its program would have ended each time, and its memory was
// not declared.
func (w *Sim) tooLarge(id job.ID) bool {
	w.truth.of(id).large++
	return w.truth.of(id).large >= mostTries
}

// overCap is the place, among those on a device, of one that takes more of its memory
// than it can; -1: there is none.
func overCap(w *Sim, d cluster.DeviceID) int {
	caps := w.shared.model.capping
	if caps == nil {
		return -1
	}
	return slices.IndexFunc(w.holders(d), func(id job.ID) bool {
		s := w.sharer(id, d)
		return caps.Caps(s) && w.memory(id) > s.Share.Memory
	})
}

// measured is what is in use of a device.
func (w *Sim) measured(d cluster.DeviceID, now time.Duration) eventlog.Event {
	use := 0.0
	gauge := w.shared.model.gauged
	for _, id := range w.holders(d) {
		if gauge != nil {
			use += gauge.Busy(w.sharer(id, d), w.beside(d, id, job.None), w.state.Cluster.Type(w.state.Cluster.TypeOf(d)))
		} else if h := w.state.Record(id).Job.Hints; h != nil {
			use += h.GPUUse
		}
	}
	memory, spilled := w.memoryOn(d)
	if spilled > 0 {
		memory = max(memory, min(memory+spilled, w.state.Cluster.Type(w.state.Cluster.TypeOf(d)).Memory))
	}
	return eventlog.Event{Time: now, Kind: eventlog.Used, Job: job.None, Device: d, Use: min(1, use), Memory: memory}
}

// warm tells whether devices have a runtime of a job's backbone.
func (w *Sim) warm(j *job.Job, a *cluster.Alloc) bool {
	for i := range a.Shares {
		if w.state.Runtime(a.Shares[i].Device) != j.Backbone {
			return false
		}
	}
	return j.Backbone != "" && len(a.Shares) > 0
}

// Profile implements engine.Profiler.
func (w *Sim) Profile(id job.ID, a *cluster.Alloc) (delay time.Duration) {
	r := w.state.Record(id)
	w.comes(id, a)
	w.timers.Remove(int32(id))
	delay = pipelines{w}.delay(r, a)
	w.truth.of(id).began = w.state.Now + delay
	return delay
}

// Merge implements engine.Merger: who gives up what the other has taught loses
// the work that rests on it; those who were trained as one keep what they know.
func (w *Sim) Merge(id job.ID, how job.Merge, with job.ID) (kept time.Duration) {
	r := w.state.Record(id)
	if r.Phase == job.Running {
		meters{w}.look(id)
	}
	kept = r.ProgressAt(w.state.Now)
	if r.Merged == job.After && how != job.After {
		kept = 0
	}
	w.shared.merged = append(w.shared.merged, id)
	return kept
}

// KnowsSpeeds implements engine.Exact: the simulator tells in the same instant of
// every speed that changes.
func (w *Sim) KnowsSpeeds() bool { return true }
