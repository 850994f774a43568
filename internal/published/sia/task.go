package sia

import (
	"math"

	"github.com/norn-scheduler/norn/perf"
)

// quirks are what sets the simulators of Sia and of Pollux apart.
type quirks struct {
	slow     map[string]float64 // by what an application is slower than measured
	restart  map[string]int     // seconds that a change costs
	sameFree bool               // a change to other nodes in like numbers costs nothing
	capped   bool               // batches are limited by what was measured where a job is
	largest  int                // replicas
	local    map[string]int     // the most examples on a GPU, where it is not what was measured
	fixed    map[string]int     // batch sizes that are not tuned
	prefer   []string           // GPU types, best first
	users    bool               // batches are what users ask for
	aware    bool               // jobs tell what they measure of one GPU type from what they measure of another
}

// The simulators.
var (
	ofSia = quirks{
		slow:     map[string]float64{"cifar10": 1.8, "imagenet": 1.2, "yolov3": 1.2, "bert": 1.2, "deepspeech2": 1.2, "ncf": 1.5},
		restart:  map[string]int{"cifar10": 50, "deepspeech2": 25, "bert": 120, "yolov3": 80, "imagenet": 250, "ncf": 15},
		sameFree: true, capped: true, largest: 64, prefer: []string{"dgx-ext", "azure", "quad", "rtx", "aws"},
	}
	ofAware = func() quirks { q := ofSia; q.aware = true; return q }()
	ofGavel = func() quirks { q := ofAware; q.users = true; return q }()

	ofPollux = quirks{largest: 64, local: map[string]int{"yolov3": 8}, fixed: map[string]int{"ncf": 32768}}
)

// maxEpochs is how long applications are trained.
var maxEpochs = map[string]int{"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}

// key is what a measurement is kept by, whatever the GPU type: the first counts.
type key struct{ nodes, replicas, local int }

// task is a job.
type task struct {
	id      int
	name    string
	arrives int // seconds
	asks    int // replicas
	target  int // batch size
	app     *application
	quirks  *quirks

	on        string // GPU type; empty: none
	nodes     []int  // of the type, one for each replica, in order
	placement []int  // replicas on each node
	batch     perf.Batch
	fits      map[string]*fit
	noise     perf.Noise

	slowed   float64 // by others that are spread over the same nodes
	epoch    int
	progress float64 // steps of the first batch size
	pause    int     // seconds of a restart that are left
	service  int     // GPU-seconds
	restarts int     // -1: it has not begun
	now      int     // seconds
	end      int     // -1: it has not ended

	rivals, rounds int // jobs that were there in the rounds in which it was, and those rounds
}

// fit is what was measured of a task, and the model that was fitted to it.
type fit struct {
	seen     map[key]bool
	measured []perf.Measurement
	largest  int // replicas it has run with
	time     perf.StepTime
	fitted   bool
}

// fit is what was measured on a GPU type; without regard to types where the task knows
// nothing of them.
func (t *task) fit(on string) *fit {
	if !t.quirks.aware {
		on = ""
	}
	f := t.fits[on]
	if f == nil {
		if t.fits == nil {
			t.fits = map[string]*fit{}
		}
		f = &fit{seen: map[key]bool{}}
		t.fits[on] = f
	}
	return f
}

// speedsOf is how fast the task is on a GPU type.
func (t *task) speedsOf(on string) *speeds { return t.app.types[on] }

// localMost is the most examples on a GPU of a type.
func (t *task) localMost(on string) int {
	if most, ok := t.quirks.local[t.app.name]; ok {
		return most
	}
	return t.speedsOf(on).localMost
}

// goodput is what is believed of the task with at most so many examples on a GPU.
func (t *task) goodput(on string, localMost int) *perf.Goodput {
	return &perf.Goodput{Time: t.fit(on).time, Noise: t.noise, Batches: perf.Batches{
		First: t.app.first(), Most: t.app.most(), LocalMin: t.speedsOf(on).localMin, LocalMost: localMost, Accumulate: true,
	}}
}

// tune chooses the batch size for what the task holds.
func (t *task) tune() {
	s := t.speedsOf(t.on)
	at := shapeOf(t.placement)
	most := t.localMost(t.on)
	if t.quirks.capped {
		most = s.localMostOn(t.placement)
	}
	size, fixed := t.quirks.fixed[t.app.name]
	if t.quirks.users {
		size, fixed = t.target, true
	}
	if !fixed && !t.fit(t.on).fitted {
		size, fixed = max(t.app.first(), s.localMin*at.replicas), true
	}
	if fixed {
		local := ceil(float64(size) / float64(at.replicas))
		t.batch.Accum = ceil(float64(local)/float64(most)) - 1
		if at.replicas == 1 && size > t.app.first() {
			t.batch.Accum = max(1, t.batch.Accum)
		}
		t.batch.Local = ceil(float64(local) / float64(t.batch.Accum+1))
	} else if b, value := t.goodput(t.on, most).Best(at.replicas, at.nodes > 1); value > 0 {
		t.batch = b
	} else {
		t.batch = perf.Batch{Local: max(1, s.localMin)}
	}
	if n := s.most[at.replicas]; t.quirks.capped && n > 0 {
		t.batch.Local = min(t.batch.Local, n)
	}
	t.batch.Local = max(1, min(t.batch.Local, t.app.most()/(at.replicas*(t.batch.Accum+1))))
}

// ceil rounds up, but for what a division leaves.
func ceil(x float64) int { return int(math.Ceil(x - 1e-8)) }

// step trains for some seconds.
func (t *task) step(seconds int) {
	if t.end >= 0 {
		return
	}
	if len(t.placement) == 0 {
		t.now += seconds
		return
	}
	gpus := shapeOf(t.placement).replicas
	pass := func(d int) {
		t.now += d
		t.service += d * gpus
		seconds -= d
	}
	wait := min(t.pause, seconds)
	t.pause -= wait
	pass(wait)
	for seconds > 0 && t.end < 0 {
		rate := t.rate()
		next := t.app.progressAt(t.epoch + 1)
		if t.progress+rate*float64(seconds) < next {
			t.progress += rate * float64(seconds)
			pass(seconds)
		} else {
			t.epoch++
			took := min(seconds, int(math.RoundToEven((next-t.progress)/rate)))
			if t.epoch > t.app.epochs-1 {
				t.end = t.now + took
			}
			t.progress = next
			pass(took)
		}
		t.tune()
	}
	t.now += seconds
}

// rate is the progress in a second, which the task observes as well.
func (t *task) rate() float64 {
	at := shapeOf(t.placement)
	size := at.replicas * t.batch.Local * (t.batch.Accum + 1)
	t.noise = t.app.noise(size, t.epoch)
	step, sync := t.speedsOf(t.on).times(t.placement, t.batch.Local)
	t.observe(at, step, sync)
	rate := t.noise.Gain(float64(size)/float64(t.app.first())) / (step + (step-sync)*float64(t.batch.Accum))
	if slow, ok := t.quirks.slow[t.app.name]; ok {
		rate /= slow
	}
	return rate * (1 - t.slowed)
}

// observe notes a measurement, if it is the first of its kind, and fits anew.
func (t *task) observe(at shape, step, sync float64) {
	k, f := key{at.nodes, at.replicas, t.batch.Local}, t.fit(t.on)
	if f.seen[k] || t.quirks.users { // whose models nobody asks for
		return
	}
	f.seen[k] = true
	f.measured = append(f.measured, perf.Measurement{Replicas: at.replicas, Spread: at.nodes > 1, Local: t.batch.Local, Pass: step - sync, Step: step})
	f.largest = max(f.largest, at.replicas)
	f.time, f.fitted = perf.Fit(f.measured), true
}

// move gives the task other GPUs, or none.
func (t *task) move(on string, placement []int) {
	same := t.on == on && shapesEqual(t.placement, placement)
	t.on, t.placement = on, placement
	if len(placement) == 0 {
		t.on, t.batch.Local = "", 0
		return
	}
	if same && t.quirks.sameFree {
		return
	}
	t.tune()
	t.restarts++
	t.pause = 30
	if s, ok := t.quirks.restart[t.app.name]; ok {
		t.pause = s
	}
}

func shapesEqual(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
