package topoaware

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/fabric"
	"github.com/norn-scheduler/norn/perf"
)

// minsky is the layout of the machine of the paper: two GPUs at each of two sockets.
func minsky(t *testing.T) *layout {
	t.Helper()
	l, err := cluster.LinkPreset("minsky", 4)
	if err != nil {
		t.Fatal(err)
	}
	return newLayout(l)
}

// measured are run times that the authors published: AlexNet with batches of 1 and 4.
func measured() *perf.Sockets {
	s := &perf.Sockets{}
	s.Alone(alexnet(1, 1), 69.165, 0)
	s.Alone(alexnet(1, 2), 127.415, 159.115)
	s.Alone(alexnet(4, 1), 109.435, 0)
	s.Beside(alexnet(1, 1), alexnet(4, 1), 75.03)
	s.Beside(alexnet(4, 1), alexnet(1, 1), 114.86)
	return s
}

func alexnet(batch, gpus int) perf.Sized {
	return perf.Sized{Model: "bvlc_alexnet", Batch: batch, GPUs: gpus}
}

func near(a, b float64) bool { return math.Abs(a-b) < 5e-5 }

// TestDistances: the constants of the authors' code for two and three GPUs are what a layout gives (section 2.1).
func TestDistances(t *testing.T) {
	l := minsky(t)
	if l.best[2] != 1 || l.best[3] != 41 || l.worst[2] != 40 || l.worst[3] != 60 {
		t.Errorf("best %v, worst %v", l.best, l.worst)
	}
}

// TestUtility is acceptance A: two GPUs of an empty machine, with equal weights.
func TestUtility(t *testing.T) {
	j := judge{weights: Neutral.Weights()}
	n := node{layout: minsky(t), free: 0b1111}
	for _, c := range []struct {
		set         fabric.Set
		own, system float64
	}{{0b0011, 1, 0.5278}, {0b0101, 0.2534, 0.3612}} {
		of := j.of(alexnet(1, 2), &n, c.set)
		if own, system := j.own(&of), j.system(&of, &n); !near(own, c.own) || !near(system, c.system) {
			t.Errorf("set %b: %.4f to the job and %.4f to all, want %.4f and %.4f", c.set, own, system, c.own, c.system)
		}
	}
}

// TestInterference is acceptance C: AlexNet with batches of 1 beside AlexNet with batches of 4, and at the other
// socket. The reading of the code and ours.
func TestInterference(t *testing.T) {
	n := node{layout: minsky(t), free: 0b1110, running: []neighbour{{alexnet(4, 1), 0b01}}}
	ratio := 69.165 / 75.03
	for _, c := range []struct {
		reading Reading
		own     float64
	}{{Ratio, 0.1887}, {Loss, 0.2 / (0.1 + math.Sqrt(1-ratio))}} {
		j := judge{weights: Neutral.Weights(), reading: c.reading, known: measured()}
		beside, apart := j.of(alexnet(1, 1), &n, 0b0010), j.of(alexnet(1, 1), &n, 0b0100)
		if got := j.own(&beside); !near(got, c.own) {
			t.Errorf("reading %v: %.4f beside, want %.4f", c.reading, got, c.own)
		}
		if got := j.own(&apart); !near(got, 1) {
			t.Errorf("reading %v: %.4f apart, want 1", c.reading, got)
		}
		if want := c.reading.cost(109.435 / 114.86); !near(beside.caused, want) {
			t.Errorf("reading %v: what is caused costs %.4f, want %.4f", c.reading, beside.caused, want)
		}
	}
}

// TestBounds: utilities and costs are above 0 and at most 1, and a job on one GPU has no cost of communication,
// on random layouts with random neighbours (acceptance E).
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "devices")
		links := cluster.NewLinks(size)
		for i := range size {
			for k := range i {
				links.Connect(i, k, cluster.Link{Class: rapid.SampledFrom([]cluster.LinkClass{cluster.NVLink, cluster.PCIeSwitch, cluster.Socket, cluster.CrossSocket}).Draw(t, "class")})
			}
		}
		n := node{layout: newLayout(links), free: fabric.Set(rapid.Uint32Range(1, 1<<size-1).Draw(t, "free"))}
		known := &perf.Sockets{}
		for a := range 3 {
			known.Alone(alexnet(1, a+1), 100, float64(rapid.IntRange(0, 150).Draw(t, "across")))
			for b := range 3 {
				known.Beside(alexnet(1, a+1), alexnet(1, b+1), float64(rapid.IntRange(0, 1000).Draw(t, "beside")))
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "running") {
			n.running = append(n.running, neighbour{alexnet(1, rapid.IntRange(1, 3).Draw(t, "of")), rapid.Uint32Range(1, 1<<len(n.sockets)-1).Draw(t, "on")})
		}
		j := judge{Preset(rapid.IntRange(0, 3).Draw(t, "weights")).Weights(), Reading(rapid.IntRange(0, 1).Draw(t, "reading")), known}
		k := alexnet(1, rapid.IntRange(1, n.free.Len()).Draw(t, "gpus"))
		best := j.best(k, &n, n.free)
		n.free.Each(k.GPUs, func(s fabric.Set) {
			c := j.of(k, &n, s)
			for _, x := range []float64{c.communication, c.suffered, c.caused, c.fragmentation} {
				if !(x >= least && x <= 1) {
					t.Errorf("set %b: costs %+v", s, c)
				}
			}
			own, system := j.own(&c), j.system(&c, &n)
			if !(own > 0 && own <= 1+1e-9 && system > 0 && system <= 1+1e-9) || k.GPUs == 1 && c.communication != least {
				t.Errorf("set %b: %v to the job, %v to all, costs %+v", s, own, system, c)
			}
			if system > best.system {
				t.Errorf("set %b is worth %v, the best one %v", s, system, best.system)
			}
		})
		for _, s := range []fabric.Set{best.set, j.fill(k, &n, n.free).set} {
			if s.Len() != k.GPUs || s&^n.free != 0 {
				t.Errorf("%b is chosen of %b for %d GPUs", s, n.free, k.GPUs)
			}
		}
	})
}

// BenchmarkChoose is a choice on a node of 8 and of 16 GPUs, all free, with a neighbour, which was not made before.
func BenchmarkChoose(b *testing.B) {
	for layout, size := range map[string]int{"dgx1": 8, "torus-2d": 16} {
		links, err := cluster.LinkPreset(layout, size)
		if err != nil {
			b.Fatal(err)
		}
		n := node{layout: newLayout(links), free: 1<<size - 2, running: []neighbour{{alexnet(4, 1), 1}}}
		j := judge{weights: Neutral.Weights(), known: measured()}
		b.Run(layout, func(b *testing.B) {
			for b.Loop() {
				j.best(alexnet(1, size/2), &n, n.free)
			}
		})
	}
}
