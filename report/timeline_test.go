package report

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/job"
)

// TestPlaces checks that each job has as many GPUs in the chart as it held. If
// leaving takes no time, no two jobs hold the same place at one time.
func TestPlaces(t *testing.T) {
	for seed := range uint64(4) {
		calm := seed%2 == 0
		c, s := play(t, setup{jobs: 250, seed: seed, calm: calm, opt: Options{Intervals: true}})
		chart := c.Result(s).chart
		if chart.dropped != 0 || len(chart.bars) < 250 {
			t.Fatalf("%d bars, %d dropped", len(chart.bars), chart.dropped)
		}
		held := map[*job.Job]float64{}
		for i := range chart.bars {
			a := &chart.bars[i]
			var height int64
			for _, x := range chart.boxes[a.box : a.box+a.n] {
				height += x.height
				if x.top < 0 || x.top+x.height > chart.height {
					t.Fatalf("box %+v is not within %d", x, chart.height)
				}
			}
			if height != int64(a.milli) || a.end <= a.start {
				t.Fatalf("job %s holds %d in the chart, %v in the run, from %v to %v", a.job.Key, height, a.milli, a.start, a.end)
			}
			held[a.job] += a.weight() / 1000
			for j := range chart.bars[:i] {
				if !calm {
					break
				}
				if b := &chart.bars[j]; b.end > a.start && overlap(chart, a, b) {
					t.Fatalf("jobs %s and %s overlap at %v", a.job.Key, b.job.Key, a.start)
				}
			}
		}
		for id := range job.ID(s.Jobs()) {
			if r := s.Record(id); !near(held[r.Job], r.ServiceAt(s.Now)) {
				t.Errorf("job %s held %v GPU-seconds in the chart, %v in the run", r.Job.Key, held[r.Job], r.ServiceAt(s.Now))
			}
		}
	}
}

func overlap(t *timeline, a, b *bar) bool {
	for _, x := range t.boxes[a.box : a.box+a.n] {
		for _, y := range t.boxes[b.box : b.box+b.n] {
			if x.top < y.top+y.height && y.top < x.top+x.height {
				return true
			}
		}
	}
	return false
}

// TestLargestIntervalsAreKept compares a bounded collector with one that keeps
// all.
func TestLargestIntervalsAreKept(t *testing.T) {
	u := setup{jobs: 300, seed: 11, opt: Options{Intervals: true}}
	c, s := play(t, u)
	all := c.Result(s).chart
	u.opt.MaxIntervals = 40
	c, s = play(t, u)
	some := c.Result(s).chart
	if len(some.bars) == 0 || len(some.bars) > 40 || len(some.bars)+some.dropped != len(all.bars) || len(some.boxes) > 4*40 {
		t.Fatalf("%d bars and %d dropped, of %d", len(some.bars), some.dropped, len(all.bars))
	}
	var kept, whole float64
	for i := range some.bars {
		kept += some.bars[i].weight()
	}
	for i := range all.bars {
		whole += all.bars[i].weight()
	}
	if !near(kept/3.6e6+some.lost, whole/3.6e6) {
		t.Errorf("%v GPU-hours kept and %v lost, of %v", kept/3.6e6, some.lost, whole/3.6e6)
	}
}

// TestLanes checks the places of shares of a device that is shared.
func TestLanes(t *testing.T) {
	l := &lanes{top: []int64{0}, size: []int64{4000}, taken: make([][]extent, 1)}
	for i, c := range []struct {
		milli, start, end int64
		want              []box
	}{
		{1000, 0, 10, []box{{0, 1000}}},
		{2000, 0, 5, []box{{1000, 2000}}},
		{500, 1, 20, []box{{3000, 500}}},
		{500, 1, 20, []box{{3500, 500}}},
		{0, 2, 20, []box{{0, 0}}},                     // a guest runs in the gaps
		{2500, 10, 12, []box{{0, 2500}}},              // two have left
		{500, 11, 40, []box{{2500, 500}}},             // what is left
		{3000, 20, 30, []box{{0, 2500}, {3000, 500}}}, // in two parts
		{4000, 40, 50, []box{{0, 4000}}},              // all of it
	} {
		got := l.place(nil, []span{{0, 1, int32(c.milli)}}, time.Duration(c.start), time.Duration(c.end))
		same := len(got) == len(c.want)
		for k := range got {
			same = same && got[k] == c.want[k]
		}
		if !same {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
}

// unpack reads varints as the page does.
type unpack struct{ b []byte }

func (u *unpack) uint() uint64 {
	v, n := binary.Uvarint(u.b)
	u.b = u.b[n:]
	return v
}

func (u *unpack) int() int64 {
	v, n := binary.Varint(u.b)
	u.b = u.b[n:]
	return v
}

func newUnpack(t *testing.T, text string) *unpack {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return &unpack{b}
}

// TestPacking packs a chart and reads it again.
func TestPacking(t *testing.T) {
	c, s := play(t, setup{jobs: 200, seed: 2, opt: Options{Intervals: true}, name: func(i int) string { return "jöb-" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) }})
	chart := c.Result(s).chart
	table := newJobTable()
	const tick = 10 * time.Millisecond
	p := chart.pack(table, tick)
	u := newUnpack(t, p.Packed)
	start, j := int64(0), int64(0)
	for i := range chart.bars {
		b := &chart.bars[i]
		start += u.int()
		length := int64(u.uint())
		j += u.int()
		flags := u.uint()
		other, n := uint64(0), uint64(1)
		if flags&2 != 0 {
			other = u.uint()
		}
		if flags&1 != 0 {
			n = u.uint()
		}
		if start != int64(b.start/tick) || start+length != int64(b.end/tick) || table.facts[j].key != b.job.Key || n != uint64(b.n) {
			t.Fatalf("bar %d: from %d for %d of job %q in %d boxes, want %+v", i, start, length, table.facts[j].key, n, b)
		}
		if (b.other != nil) != (flags&2 != 0) || b.other != nil && table.facts[other].key != b.other.Key {
			t.Fatalf("bar %d names job %d", i, other)
		}
		if _, text := b.ended(); p.Why[flags>>2].Text != text {
			t.Fatalf("bar %d: %q, want %q", i, p.Why[flags>>2].Text, text)
		}
		top := int64(0)
		for _, x := range chart.boxes[b.box : b.box+b.n] {
			top += u.int() * p.Unit
			if height := int64(u.uint()) * p.Unit; top != x.top || height != x.height {
				t.Fatalf("bar %d: box %d %d, want %+v", i, top, height, x)
			}
		}
	}
	if len(u.b) != 0 || p.N != len(chart.bars) {
		t.Errorf("%d bytes are left", len(u.b))
	}
	checkJobs(t, table, tick)
}

func checkJobs(t *testing.T, table *jobTable, tick time.Duration) {
	t.Helper()
	p := table.pack(tick)
	u, keys := newUnpack(t, p.Packed), strings.Split(p.Keys, "\n")
	key, submit := "", int64(0)
	for i, f := range table.facts {
		key = key[:u.uint()] + keys[i]
		name, tenant, gpu := p.Names[u.uint()], p.Tenants[u.uint()], unit.Milli(u.uint())
		submit += u.int()
		if key != f.key || name != f.name || tenant != f.tenant || gpu != f.gpu || submit != int64(f.submit/tick) {
			t.Fatalf("job %d: %q %q %q %v %d, want %+v", i, key, name, tenant, gpu, submit, f)
		}
	}
	if len(u.b) != 0 {
		t.Errorf("%d bytes are left", len(u.b))
	}
}

func TestShort(t *testing.T) {
	for _, c := range [][2]string{
		{"", ""}, {"abc", "abc"}, {strings.Repeat("x", 120), strings.Repeat("x", 120)}, {strings.Repeat("x", 121), strings.Repeat("x", 120) + "…"},
		{strings.Repeat("é", 120), strings.Repeat("é", 120)}, {strings.Repeat("é", 500), strings.Repeat("é", 120) + "…"}, {"a\xffb", "a\uFFFDb"},
	} {
		if got := short(c[0]); got != c[1] {
			t.Errorf("%q becomes %q", c[0], got)
		}
	}
	if n := sharedASCII("jöb-1", "jöb-2"); n != 1 {
		t.Errorf("%d shared bytes, want those before the first that is not ASCII", n)
	}
}

func TestTick(t *testing.T) {
	for _, c := range [][2]time.Duration{
		{0, time.Millisecond}, {time.Hour, time.Millisecond}, {24 * time.Hour, 10 * time.Millisecond}, {20 * 24 * time.Hour, 100 * time.Millisecond},
		{90 * 24 * time.Hour, time.Second}, {100 * 365 * 24 * time.Hour, time.Second},
	} {
		if got := tickFor(c[0]); got != c[1] {
			t.Errorf("%v: %v, want %v", c[0], got, c[1])
		}
	}
}
