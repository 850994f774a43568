package afs_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/perf"
	"github.com/norn-scheduler/norn/policy/afs"
	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/sim/simtest"
)

// draw makes random claims whose speeds grow by less and less.
func draw(t *rapid.T) []*afs.Claim {
	n := rapid.IntRange(1, 6).Draw(t, "jobs")
	works, speeds := make([]float64, n), make([][]float64, n)
	for i := range n {
		works[i] = float64(rapid.IntRange(1, 100).Draw(t, "work"))
		p, gain := 0.0, 1.0
		for range rapid.IntRange(1, 8).Draw(t, "most") {
			p += gain
			speeds[i] = append(speeds[i], p)
			gain *= float64(rapid.IntRange(50, 99).Draw(t, "gain")) / 100
		}
	}
	return claims(works, speeds...)
}

func divide(c []*afs.Claim, gpus int) []int {
	for i := range c {
		c[i].Type = afs.NoType
	}
	afs.Divide([]int64{int64(gpus) * 1000}, c)
	return sizes(c)
}

// TestInvariants: all GPUs are given out while any job can use one. No job goes
// without while there are as many GPUs as jobs. One GPU more takes nothing from
// any job. The unit in which work and speed are counted does not matter.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		gpus := rapid.IntRange(1, 20).Draw(t, "gpus")
		got := divide(c, gpus)
		sum, most := 0, 0
		for i, n := range got {
			sum, most = sum+n, most+c[i].Steps
			if n == 0 && len(c) <= gpus {
				t.Fatalf("job %d of %d gets none of %d GPUs", i, len(c), gpus)
			}
		}
		if sum != min(gpus, most) {
			t.Fatalf("%v of %d GPUs, %d could be used", got, gpus, most)
		}
		for i, n := range divide(c, gpus+1) {
			if n < got[i] {
				t.Fatalf("with one GPU more job %d gets %d instead of %d", i, n, got[i])
			}
		}
		k := rapid.IntRange(0, len(c)-1).Draw(t, "job")
		speed := c[k].Speed
		c[k].Left *= 4
		c[k].Speed = func(typ, n int) float64 { return 4 * speed(typ, n) }
		if again := divide(c, gpus); !slices.Equal(got, again) {
			t.Fatalf("%v, and %v when job %d counts its work in another unit", got, again, k)
		}
	})
}

// TestCycle: the paper says that the relation is transitive, so that it does not matter
// in which order jobs are compared. It is not: the third of these three jobs is ahead of
// the first for the fourth GPU (0.51/1.51 > 0.585/1.75), the first ahead of the second
// (0.5/1.5 < 0.585/1.75), and the second ahead of the third (0.51/1.51 < 0.5/1). The
// order is that of submission.
func TestCycle(t *testing.T) {
	works := []float64{1.001, 1.004, 2.002}
	speeds := [][]float64{{1, 1.75, 2.335}, {1, 1.5}, {1, 1.51}}
	two := func(i, j, gpus int) []int {
		return divide(claims([]float64{works[i], works[j]}, speeds[i], speeds[j]), gpus)
	}
	if a, b, c := two(0, 2, 4), two(0, 1, 4), two(1, 2, 3); !slices.Equal(a, []int{2, 2}) || !slices.Equal(b, []int{3, 1}) || !slices.Equal(c, []int{2, 1}) {
		t.Errorf("in pairs %v, %v, %v; want [2 2], [3 1], [2 1]", a, b, c)
	}
	if got := divide(claims(works, speeds...), 5); !slices.Equal(got, []int{2, 1, 2}) {
		t.Errorf("all three: %v, want [2 1 2]", got)
	}
	slices.Reverse(works)
	slices.Reverse(speeds)
	if got := divide(claims(works, speeds...), 5); !slices.Equal(got, []int{1, 1, 3}) {
		t.Errorf("in the opposite order: %v, want [1 1 3]", got)
	}
}

// TestRegulated: regulated shares are legal, give out all GPUs where no range is in
// the way, and leave nobody without who had some.
func TestRegulated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "node")
		left := node * rapid.IntRange(1, 6).Draw(t, "nodes")
		var shares []int
		var ranges []afs.Range
		sum := left
		for left > 0 {
			n := rapid.IntRange(1, left).Draw(t, "share")
			shares, ranges = append(shares, n), append(ranges, afs.Range{Least: 1, Most: 1 << 20})
			left -= n
		}
		got := afs.Regulate(shares, ranges, node)
		for i, n := range got {
			if n < 1 || n > node && n%node != 0 || n < node && n&(n-1) != 0 {
				t.Fatalf("%v on nodes of %d becomes %v: job %d", shares, node, got, i)
			}
			sum -= n
		}
		if sum != 0 {
			t.Fatalf("%v on nodes of %d becomes %v: %d GPUs are left", shares, node, got, sum)
		}
	})
}

// TestElastic: random elastic jobs, some of which fail, on random nodes, with
// transitions that cost time: the invariants of every run hold, every job ends, and
// a policy that starts anew at any moment decides the same.
func TestElastic(t *testing.T) {
	for name, make := range map[string]func() (sched.Policy, error){
		"afs": afs.NewConfig().Policy, "afs-p": func() (sched.Policy, error) {
			c := afs.NewBlind()
			c.Unit = 20 * time.Second
			return c.Policy()
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				shape := simtest.Shape{Costs: rapid.Bool().Draw(t, "costs"), Failures: rapid.Bool().Draw(t, "failures")}
				w := simtest.Draw(t, shape)
				for i := range w.Jobs {
					d := job.GPUs(w.Jobs[i].GPUs)
					d.Roles[0].Min = rapid.Int32Range(1, d.Roles[0].Tasks).Draw(t, "min")
					d.Roles[0].Max = rapid.Int32Range(d.Roles[0].Tasks, 10).Draw(t, "max")
					w.Jobs[i].Demand = &d
				}
				w.Model = perf.Analytic{Scaling: 0.7, Spread: 1}
				w.Speeds, w.Make = perf.Analytic{Scaling: 0.7, Spread: 1}, make
				nodes := rapid.SliceOfN(rapid.SampledFrom([]int{2, 4, 4, 4, 8}), 1, 4).Draw(t, "nodes")
				w.Fresh(t, shape, nodes)
				first, err := simtest.Try(w.Config, w.Jobs...)
				if err != nil {
					t.Fatalf("%v\n%s", err, strings.Join(first.Log, "\n"))
				}
				w.Fresh(t, shape, nodes)
				w.Restart = true
				again, err := simtest.Try(w.Config, w.Jobs...)
				if err != nil {
					t.Fatalf("with restarts: %v\n%s", err, strings.Join(again.Log, "\n"))
				}
				for _, j := range w.Jobs {
					r, s := first.Record(j.Key), again.Record(j.Key)
					if !r.Phase.Over() && !r.Reason.Never() {
						t.Fatalf("job %s was left %v\n%s", j.Key, r.Phase, strings.Join(first.Log, "\n"))
					}
					if r.End != s.End || r.Resizes != s.Resizes {
						t.Fatalf("job %s ends at %v, and at %v with restarts\n%s\n---\n%s", j.Key, r.End, s.End, strings.Join(first.Log, "\n"), strings.Join(again.Log, "\n"))
					}
				}
			})
		})
	}
}
