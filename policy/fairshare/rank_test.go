package fairshare

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/sched"
	"github.com/norn-scheduler/norn/tenant"
)

// TestUsage holds the usage of accounts against the sum over seconds of what
// jobs held, each weighed by how many periods ago it lies. The same jobs counted
// in another way, attempt by attempt as a policy that starts anew does, give the
// same.
func TestUsage(t *testing.T) {
	for _, halfLife := range []time.Duration{0, 40 * time.Second, 10 * time.Minute} {
		r := rand.New(rand.NewPCG(3, uint64(halfLife)))
		const period, gpus, end = 7, 3, 900
		u := newUsage(period*time.Second, halfLife)
		u.all, u.of, u.held = []account{{}}, []int32{0}, []int64{0}
		q := past{}
		held := make([]bool, end+1)
		for s, holds := 0, false; s < end; s++ {
			if r.IntN(25) == 0 {
				q = u.after(q, int64(s)*1000, gpus*1000)
				holds = !holds
				q.holds = holds
				u.advance(int64(s) * 1000)
				u.hold(0, map[bool]int64{true: gpus * 1000}[holds], int64(s)*1000)
			}
			held[s] = holds
		}
		u.advance(end * 1000)
		q = u.after(q, end*1000, gpus*1000)
		want := 0.0
		for s, holds := range held[:end/period*period] {
			if holds {
				want += gpus * math.Pow(u.decay, float64(end/period-1-s/period))
			}
		}
		if got := u.all[0].usage / 1e6; math.Abs(got-want) > 1e-9*(1+want) {
			t.Errorf("half-life %v: usage is %v GPU-seconds, second by second it is %v", halfLife, got, want)
		}
		if got := q.usage / 1e6; math.Abs(got-want) > 1e-9*(1+want) {
			t.Errorf("half-life %v: attempt by attempt usage is %v, second by second it is %v", halfLife, got, want)
		}
	}
}

// TestNote: what is noted on a job is read again, even where it says nothing but
// that there was an attempt.
func TestNote(t *testing.T) {
	for _, q := range []past{{}, {1.5, 0, 0, false}, {0, int64(maxPeriod/time.Millisecond) - 1, 1 << 40, true}, {math.Pi, 1, 12345, true}, {holds: true}} {
		written, err := sched.Written(q.note())
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := sched.NoteOf[note](written); !ok || got.past != q {
			t.Errorf("%+v is read as %+v, %v", q, got, ok)
		}
	}
}

// forest is a tree of tenants with accounts and what each has used.
type forest struct {
	tree  *tenant.Tree
	usage *usage
}

func (f *forest) tenant(t *testing.T, name string, above tenant.ID, weight float64) tenant.ID {
	t.Helper()
	id, err := f.tree.Add(name, above, 0, 0, weight)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (f *forest) user(at tenant.ID, name string, used float64) int {
	f.usage.all = append(f.usage.all, account{tenant: at, user: name, usage: used})
	return len(f.usage.all) - 1
}

// TestFairTree: an account below the better served of two tenants comes after
// all below the other, however little it has used itself.
func TestFairTree(t *testing.T) {
	f := forest{tenant.NewTree(0), newUsage(time.Minute, 0)}
	heavy, light := f.tenant(t, "heavy", tenant.Root, 1), f.tenant(t, "light", tenant.Root, 1)
	users := []int{f.user(heavy, "none", 0), f.user(heavy, "most", 900), f.user(light, "much", 90), f.user(light, "little", 10)}
	var r ranks
	r.fairTree(f.usage, f.tree)
	for i, want := range []float64{0.5, 0.25, 0.75, 1} {
		if got := r.factor[users[i]]; got != want {
			t.Errorf("%s has factor %v, want %v", f.usage.all[users[i]].user, got, want)
		}
	}
}

// TestFairTreeWeights: twice the weight and twice the usage is a tie, and those
// below tied tenants are ordered together; equal accounts get the same factor,
// and the next one is as many ranks lower as there are equals.
func TestFairTreeWeights(t *testing.T) {
	f := forest{tenant.NewTree(0), newUsage(time.Minute, 0)}
	a, b, c := f.tenant(t, "a", tenant.Root, 1), f.tenant(t, "b", tenant.Root, 2), f.tenant(t, "c", tenant.Root, 1)
	users := []int{
		f.user(a, "a1", 30), f.user(a, "a2", 10), // level 40/(30*2), 40/(10*2)
		f.user(b, "b1", 60), f.user(b, "b2", 20), // the same
		f.user(c, "c1", 1000),
	}
	var r ranks
	r.fairTree(f.usage, f.tree)
	for i, want := range []float64{0.6, 1, 0.6, 1, 0.2} {
		if got := r.factor[users[i]]; got != want {
			t.Errorf("%s has factor %v, want %v", f.usage.all[users[i]].user, got, want)
		}
	}
}

// TestClassic computes 2^(-U/(S d)) by hand: both tenants have half of the
// shares. x has used 3/4, all of it by u; v has used nothing, but counts half of
// what its tenant used.
func TestClassic(t *testing.T) {
	f := forest{tenant.NewTree(0), newUsage(time.Minute, 0)}
	x, y := f.tenant(t, "x", tenant.Root, 1), f.tenant(t, "y", tenant.Root, 1)
	users := []int{f.user(x, "u", 75), f.user(x, "v", 0), f.user(y, "w", 25)}
	var r ranks
	r.classic(f.usage, f.tree, 1)
	for i, want := range []float64{math.Exp2(-0.75 / 0.25), math.Exp2(-0.375 / 0.25), math.Exp2(-0.25 / 0.5)} {
		if got := r.factor[users[i]]; math.Abs(got-want) > 1e-8 {
			t.Errorf("%s has factor %v, want %v", f.usage.all[users[i]].user, got, want)
		}
	}
	r.classic(f.usage, f.tree, 3)
	if got, want := r.factor[users[0]], math.Exp2(-1); math.Abs(got-want) > 1e-8 {
		t.Errorf("damped by 3, u has factor %v, want %v", got, want)
	}
}

// TestClassicOfSlurm is the example of Slurm's page Classic Fairshare Algorithm: accounts A and
// D with 40 and 60 shares, B and C below A with 30 and 10, E and F below D with 25 and 35. Users
// 1 to 5 have used 0.2, 0.25, 0, 0.25 and 0 of the machine; the rest is charged to an
// account with next to no shares.
func TestClassicOfSlurm(t *testing.T) {
	f := forest{tenant.NewTree(0), newUsage(time.Minute, 0)}
	a, d := f.tenant(t, "A", tenant.Root, 40), f.tenant(t, "D", tenant.Root, 60)
	b, c := f.tenant(t, "B", a, 30), f.tenant(t, "C", a, 10)
	e, g := f.tenant(t, "E", d, 25), f.tenant(t, "F", d, 35)
	users := []int{f.user(b, "1", 20), f.user(c, "2", 25), f.user(c, "3", 0), f.user(e, "4", 25), f.user(g, "5", 0)}
	f.user(f.tenant(t, "rest", tenant.Root, 1e-9), "rest", 30)
	var r ranks
	r.classic(f.usage, f.tree, 1)
	for i, want := range []float64{0.408479, 0.022097, 0.125000, 0.500000, 0.749154} {
		if got := r.factor[users[i]]; math.Abs(got-want) > 1e-6 {
			t.Errorf("user %d has factor %.6f, want %.6f", i+1, got, want)
		}
	}
}
