// Package profiles is what policies believe of how jobs use GPUs, from what was measured of
// them (perf.Reading).
//
// Nouns: the Use of a job is what it uses of each of its GPUs while it has them for itself. A
// Book holds the uses of all jobs that were measured. Jobs alike train the same model in the
// same configuration; where no model is told they are those of a user under one name.
package profiles

import (
	"fmt"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/perf/predict"
)

// Use is what a job uses of each of its GPUs while it has them for itself.
type Use struct {
	GPU       float64    // part of the time for which its kernels run, 0 to 1
	Bandwidth float64    // part of the bandwidth of the memory, 0 to 1
	Memory    unit.Bytes // 0: not known
	Mixed     bool       // it trains in mixed precision, as its user tells
}

// Book is what was measured of jobs. It is a fold over measurements.
type Book struct {
	// Told says that what users tell of their jobs is believed until it is measured.
	Told bool

	own   map[int64]*measured // by perf.SerialOf
	alike map[kin]*measured
	order []int64 // of own, as they were measured first
}

// measured sums up measurements of one job, or of jobs alike.
type measured struct {
	n              int
	gpu, bandwidth float64 // sums
	least, most    float64 // of gpu
	memory         unit.Bytes
	mixed          bool
}

// kin is what jobs alike have in common.
type kin struct {
	model, dataset string
	batch          int
	mixed          bool
	user, name     string // where no model is told
}

// kinOf is the kin of a job; ok is false for one that tells nothing by which others are like it.
func kinOf(j *job.Job) (k kin, ok bool) {
	if j.Model != "" {
		return kin{model: j.Model, dataset: j.Dataset, batch: j.Batch, mixed: mixed(j)}, true
	}
	name := predict.Name(j)
	return kin{user: j.User, name: name}, name != ""
}

func mixed(j *job.Job) bool { return j.Hints != nil && j.Hints.Mixed }

// Observe takes in a measurement of a job. It is false for one that tells nothing of its use
// alone.
func (b *Book) Observe(j *job.Job, m *perf.Reading) bool {
	gpu, ok := m.Figure(perf.GPUUse)
	if !ok || len(m.Setup.Beside) > 0 {
		return false
	}
	if b.own == nil {
		b.own, b.alike = map[int64]*measured{}, map[kin]*measured{}
	}
	serial := perf.SerialOf(j)
	if b.own[serial] == nil {
		b.own[serial] = &measured{mixed: mixed(j)}
		b.order = append(b.order, serial)
	}
	bandwidth, _ := m.Figure(perf.MemoryUse)
	memory, _ := m.Figure(perf.GPUMemory)
	add(b.own, serial, gpu, bandwidth, memory)
	if k, ok := kinOf(j); ok {
		if b.alike[k] == nil {
			b.alike[k] = &measured{mixed: mixed(j)}
		}
		add(b.alike, k, gpu, bandwidth, memory)
	}
	return true
}

func add[K comparable](to map[K]*measured, k K, gpu, bandwidth, memory float64) {
	x := to[k]
	if x.n == 0 {
		x.least, x.most = gpu, gpu
	}
	x.n++
	x.gpu, x.bandwidth = x.gpu+gpu, x.bandwidth+bandwidth
	x.least, x.most = min(x.least, gpu), max(x.most, gpu)
	x.memory = max(x.memory, unit.Bytes(min(max(0, memory), 1<<52)))
}

// use is the mean of what was measured.
func (x *measured) use() Use {
	n := float64(x.n)
	return Use{GPU: min(1, max(0, x.gpu/n)), Bandwidth: min(1, max(0, x.bandwidth/n)), Memory: x.memory, Mixed: x.mixed}
}

// alikeWithin is by how much the use of a GPU by jobs alike may differ, for others like them
// to be believed to use as much.
const alikeWithin = 0.1

// Of is what a job is believed to use: what was measured of it, of jobs alike if they used
// nearly the same, or what its user tells. from says which; ok is false where nothing is known.
func (b *Book) Of(j *job.Job) (u Use, from Source, ok bool) {
	if x := b.own[perf.SerialOf(j)]; x != nil {
		return x.use(), Source{own: x.n}, true
	}
	if k, same := kinOf(j); same {
		if x := b.alike[k]; x != nil && x.n > 1 && x.most-x.least <= alikeWithin {
			return x.use(), Source{alike: x.n}, true
		}
	}
	if b.Told {
		u, ok = Told(j)
	}
	return u, Source{}, ok
}

// Own is what was measured of a job itself, and how often; n is 0 where nothing was.
func (b *Book) Own(j *job.Job) (u Use, n int) { return b.At(perf.SerialOf(j)) }

// At is Own for the number of a job for life.
func (b *Book) At(serial int64) (u Use, n int) {
	if x := b.own[serial]; x != nil {
		return x.use(), x.n
	}
	return u, 0
}

// All are the numbers for life of the jobs that were measured, in order. The list must not be
// changed.
func (b *Book) All() []int64 { return b.order }

// Told is what the user of a job tells that it uses; ok is false where that is nothing.
func Told(j *job.Job) (u Use, ok bool) {
	h := j.Hints
	if h == nil || h.GPUUse <= 0 {
		return u, false
	}
	return Use{GPU: min(1, h.GPUUse), Bandwidth: min(1, max(0, h.MemoryUse)), Memory: h.GPUMemory, Mixed: h.Mixed}, true
}

// Source is where a use comes from. The zero Source is what the user tells.
type Source struct{ own, alike int } // measurements

// String is a clause: as measured once, as 12 measurements of jobs alike tell.
func (s Source) String() string {
	switch {
	case s.own > 0:
		return "as " + unit.Count(s.own, "measurement") + " of it " + tells(s.own)
	case s.alike > 0:
		return "as " + unit.Count(s.alike, "measurement") + " of jobs alike " + tells(s.alike)
	}
	return "as its user tells"
}

func tells(n int) string {
	if n == 1 {
		return "tells"
	}
	return "tell"
}

// String is a clause: it keeps a GPU busy for 58 % of the time and takes 2.4GiB of its memory.
func (u Use) String() string {
	text := fmt.Sprintf("it keeps a GPU busy for %.0f %% of the time, and the way to its memory for %.0f %%", 100*u.GPU, 100*u.Bandwidth)
	if u.Memory > 0 {
		text += fmt.Sprintf("; it takes %.1f GiB of that", float64(u.Memory)/float64(unit.GiB))
	}
	return text
}
