package pop_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/norn-scheduler/norn/internal/workers"
	"github.com/norn-scheduler/norn/policy/gavel"
	"github.com/norn-scheduler/norn/policy/pop"
	"github.com/norn-scheduler/norn/solve"
)

// sixJobs are A, A', B, B', C, C' of the acceptance section of the spec, numbered as
// given.
func sixJobs(numbers ...int64) *gavel.Problem {
	p := &gavel.Problem{Capacity: []float64{2, 2}}
	for i, n := range numbers {
		speed := [][]float64{{40, 10}, {12, 4}, {100, 50}}[i/2]
		p.Jobs = append(p.Jobs, gavel.Job{ID: n, Size: 1, Weight: 1, Speed: speed})
	}
	return p
}

func shares(p *gavel.Problem, a gavel.Allocation) []float64 {
	out := make([]float64, len(p.Jobs))
	for m := range p.Jobs {
		j := &p.Jobs[m]
		for t, s := range j.Speed {
			out[m] += s * a[m][t]
		}
		out[m] /= p.Equal(j)
	}
	return out
}

func solved(t testing.TB, p *gavel.Problem, parts, jobs int) gavel.Allocation {
	t.Helper()
	a, err := pop.Solve(p, parts, jobs, pop.Number, gavel.MaxMin)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Acceptance 1: one part is the whole.
func TestIdentity(t *testing.T) {
	p := random(40)
	want, err := gavel.MaxMin(p)
	if err != nil {
		t.Fatal(err)
	}
	got := solved(t, p, 1, 1)
	for m := range want {
		if !slices.Equal(got[m], want[m]) {
			t.Fatalf("job %d has %v, want %v", m, got[m], want[m])
		}
	}
}

// Acceptance 2 and 3: an even split loses nothing, an uneven one 5.47 %.
func TestSplits(t *testing.T) {
	for _, k := range []struct {
		numbers []int64
		want    float64
	}{{[]int64{0, 1, 2, 3, 4, 5}, 8. / 11}, {[]int64{0, 2, 4, 1, 3, 5}, 11. / 16}} {
		p := sixJobs(k.numbers...)
		if got := slices.Min(shares(p, solved(t, p, 2, 1))); math.Abs(got-k.want) > 1e-6 {
			t.Errorf("numbers %v: the smallest share is %v, want %v", k.numbers, got, k.want)
		}
	}
	p := sixJobs(0, 2, 4, 1, 3, 5)
	if got := shares(p, solved(t, p, 2, 1))[3:]; math.Abs(slices.Min(got)-9./13) > 1e-6 {
		t.Errorf("the shares of the second part are %v, the smallest should be 9/13", got)
	}
}

// Acceptance 4: what is left over is handed out in turn, and the answer fits.
func TestRemainders(t *testing.T) {
	p := sixJobs(0, 1, 2, 3, 4, 5)
	p.Capacity = []float64{5, 3}
	split, _ := pop.Split(p, 2, 1, pop.Number)
	if got := fmt.Sprint(split[0].Capacity, split[1].Capacity); got != "[3 1] [2 2]" {
		t.Errorf("the parts have %s", got)
	}
	q := random(100)
	for _, parts := range []int{1, 2, 4, 8} {
		used := make([]float64, len(q.Capacity))
		for m, x := range solved(t, q, parts, 8) {
			for k := range x {
				used[k] += x[k] * q.Jobs[m].Size
			}
		}
		for k := range used {
			if used[k] > q.Capacity[k]*(1+1e-9) {
				t.Errorf("%d parts use %v GPUs of type %d, there are %v", parts, used[k], k, q.Capacity[k])
			}
		}
	}
}

// Acceptance 5: a job that leaves changes nothing in the other parts.
func TestSticky(t *testing.T) {
	p := random(64)
	before := solved(t, p, 4, 8)
	gone := p.Jobs[10].ID
	q := *p
	q.Jobs = slices.DeleteFunc(slices.Clone(p.Jobs), func(j gavel.Job) bool { return j.ID == gone })
	for m, x := range solved(t, &q, 4, 8) {
		if id := q.Jobs[m].ID; id%4 != gone%4 && !slices.Equal(x, before[id]) {
			t.Fatalf("job %d of another part had %v and has %v", id, before[id], x)
		}
	}
}

// Section 2.3b: a job that needs more than a part has makes for fewer parts, and so
// do few jobs.
func TestFewerParts(t *testing.T) {
	p := random(64)
	p.Jobs[3].Size = slices.Max(p.Capacity) / 2
	if split, _ := pop.Split(p, 8, 1, pop.Alike); len(split) != 2 {
		t.Errorf("with a job of half a type there are %d parts", len(split))
	}
	if split, _ := pop.Split(random(20), 8, 8, pop.Alike); len(split) != 2 {
		t.Errorf("20 jobs are in %d parts", len(split))
	}
}

// random is a problem of so many single-GPU jobs, a fifth as many GPUs of each type.
func random(jobs int) *gavel.Problem {
	r := rand.New(rand.NewPCG(7, uint64(jobs)))
	p := &gavel.Problem{Capacity: []float64{float64(jobs / 5), float64(jobs / 5), float64(jobs / 5)}}
	for i := range jobs {
		fast := 1 + 9*r.Float64()
		p.Jobs = append(p.Jobs, gavel.Job{ID: int64(i), Size: 1, Weight: 1, Speed: []float64{1, 1 + (fast-1)*r.Float64(), fast}})
	}
	return p
}

// Acceptance 6: with eight parts the mean throughput is within 1 % of that of the
// whole; dealt out alike, the smallest share, which is the objective, is within 2 %.
func TestQuality(t *testing.T) {
	for _, jobs := range []int{512, 1024} {
		p := random(jobs)
		whole := shares(p, solved(t, p, 1, 8))
		for _, parts := range []int{2, 4, 8} {
			for _, deal := range []pop.Deal{pop.Alike, pop.Number} {
				a, err := pop.Solve(p, parts, 8, deal, gavel.MaxMin)
				if err != nil {
					t.Fatal(err)
				}
				got, mean := shares(p, a), 0.0
				for m := range got {
					mean += got[m] / whole[m] / float64(len(got))
				}
				least := slices.Min(got) / slices.Min(whole)
				t.Logf("%d jobs, %d parts, deal %d: mean ratio %.4f, smallest share %.4f", jobs, parts, deal, mean, least)
				if mean < 0.99 || least < 0.98 && deal == pop.Alike {
					t.Errorf("%d jobs, %d parts, deal %d: mean ratio %v, smallest share %v", jobs, parts, deal, mean, least)
				}
			}
		}
	}
}

// TestSideBySide: the answer is the same however many parts are solved at a time.
func TestSideBySide(t *testing.T) {
	for _, program := range []gavel.Program{gavel.MaxMin, gavel.FinishTimes, gavel.Makespan} {
		var want gavel.Allocation
		for _, each := range []solve.Each{nil, solve.Serial{}, workers.Pool(2), workers.Pool(8)} {
			p := random(400)
			p.Each = each
			got, err := pop.Solve(p, 8, 8, pop.Alike, program)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%T: %v, want %v", each, got, want)
			}
		}
	}
}

// BenchmarkParts is the time of a program in so many parts, one after another and two at a
// time: what smaller problems gain, and what two cores gain. One part is gavel.
func BenchmarkParts(b *testing.B) {
	for _, jobs := range []int{500, 2000} {
		for _, parts := range []int{1, 2, 4, 8, 16} {
			for name, each := range map[string]solve.Each{"serial": solve.Serial{}, "two": workers.Pool(2)} {
				p := random(jobs)
				p.Each = each
				b.Run(fmt.Sprintf("%djobs/%dparts/%s", jobs, parts, name), func(b *testing.B) {
					for b.Loop() {
						if _, err := pop.Solve(p, parts, 8, pop.Alike, gavel.MaxMin); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// Jobs may share GPUs with those of their part: what is put together fits, and everybody
// has what her part gave her.
func TestPairs(t *testing.T) {
	p := &gavel.Problem{Capacity: []float64{6, 4}, Beside: [][][]float64{{{0.6, 0.6}, {0.8, 0.9}}, {{0.7, 0.8}, {0.3, 0.3}}}}
	for m := range 40 {
		p.Jobs = append(p.Jobs, gavel.Job{ID: int64(m), Size: 1, Weight: 1, Kind: m % 2, Speed: []float64{2 + float64(m%3), 1}})
	}
	a, err := pop.Solve(p, 4, 8, pop.Alike, gavel.MaxMin)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Pairs) == 0 || len(a) != len(p.Jobs)+len(p.Pairs) {
		t.Fatalf("%d rows for %d jobs and %d pairs", len(a), len(p.Jobs), len(p.Pairs))
	}
	time, used := make([]float64, len(p.Jobs)), make([]float64, 2)
	for r, x := range a {
		who := []int{r}
		if r >= len(p.Jobs) {
			who = []int{p.Pairs[r-len(p.Jobs)].A, p.Pairs[r-len(p.Jobs)].B}
		}
		for k, v := range x {
			used[k] += v
			for _, m := range who {
				time[m] += v
			}
		}
	}
	for m, v := range time {
		if v > 1+1e-6 {
			t.Errorf("job %d has %v of its time", m, v)
		}
	}
	for k, v := range used {
		if v > p.Capacity[k]*(1+1e-6) {
			t.Errorf("%v GPUs of type %d are given", v, k)
		}
	}
	whole, err := gavel.MaxMin(p)
	if err != nil {
		t.Fatal(err)
	}
	least := func(a gavel.Allocation) float64 {
		worst := math.Inf(1)
		for m, r := range p.Throughputs(a) {
			worst = min(worst, r/p.Equal(&p.Jobs[m]))
		}
		return worst
	}
	q := *p
	q.Beside, q.Pairs = nil, nil
	alone, err := gavel.MaxMin(&q)
	if err != nil {
		t.Fatal(err)
	}
	if in, all, none := least(a), least(whole), least(alone); in < 0.9*all || all < 1.05*none {
		t.Errorf("the smallest share is %v in parts, %v as a whole, %v when nobody shares", in, all, none)
	}
}
