package tenant_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/tenant"
)

func gpus(n int) tenant.Amount { return tenant.Amount{GPU: unit.Milli(n) * unit.One} }

func mustAdd(t *testing.T, tree *tenant.Tree, name string, parent tenant.ID, guarantee, limit int, weight float64) tenant.ID {
	t.Helper()
	id, err := tree.Add(name, parent, unit.Milli(guarantee)*unit.One, unit.Milli(limit)*unit.One, weight)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestDecay holds usage against the sum over small steps of what was held, each
// weighed by how long ago it lies.
func TestDecay(t *testing.T) {
	const step = 0.01 // seconds
	for _, halfLife := range []time.Duration{0, 7 * time.Second, 3 * time.Minute} {
		r := rand.New(rand.NewPCG(1, uint64(halfLife)))
		tree := tenant.NewTree(halfLife)
		id := mustAdd(t, tree, "a", tenant.Root, 0, 0, 0)
		keep := 1.0
		if halfLife > 0 {
			keep = math.Exp2(-step / halfLife.Seconds())
		}
		now, held, sum := 0, 0, 0.0 // now in steps
		for range 40 {
			for range r.IntN(3000) {
				sum = sum*keep + float64(held)*step
				now++
			}
			at := time.Duration(float64(now) * step * float64(time.Second))
			if got := tree.Usage(id, at); math.Abs(got-sum) > 1e-3*(1+sum) {
				t.Fatalf("half-life %v: usage at %v is %v, step by step it is %v", halfLife, at, got, sum)
			}
			if more := r.IntN(9) - 4; held+more >= 0 {
				sign := 1
				if more < 0 {
					sign = -1
				}
				tree.Hold(id, gpus(sign*more), sign, at)
				held += more
			}
		}
	}
}

// TestHalfLife is the definition: what was used a half-life ago counts half.
func TestHalfLife(t *testing.T) {
	tree := tenant.NewTree(time.Hour)
	id := tree.Get("a")
	tree.Hold(id, gpus(4), 1, 0)
	tree.Hold(id, gpus(4), -1, time.Second)
	before := tree.Usage(id, time.Second)
	if math.Abs(before-4) > 0.001 {
		t.Errorf("4 GPUs for 1 s are %v GPU-seconds", before)
	}
	for n := 1; n < 5; n++ {
		want := before / math.Exp2(float64(n))
		if got := tree.Usage(id, time.Second+time.Duration(n)*time.Hour); math.Abs(got-want) > 1e-9 {
			t.Errorf("after %d half-lives %v is left of %v, want %v", n, got, before, want)
		}
	}
	if tree.HalfLife() != time.Hour {
		t.Errorf("half-life %v", tree.HalfLife())
	}
}

// TestTree checks that what a tenant holds and has used counts for all above it,
// and for nobody else.
func TestTree(t *testing.T) {
	tree := tenant.NewTree(time.Minute)
	top := mustAdd(t, tree, "top", tenant.Root, 4, 10, 2)
	left := mustAdd(t, tree, "left", top, 3, 6, 0)
	right := mustAdd(t, tree, "right", top, 0, 0, 0)
	other := tree.Get("other")
	tree.Hold(left, gpus(5), 1, 0)
	tree.Hold(right, gpus(3), 1, 10*time.Second)
	for _, c := range []struct {
		id   tenant.ID
		used int
	}{{left, 5}, {right, 3}, {top, 8}, {other, 0}, {tenant.Root, 8}} {
		if e := tree.At(c.id); e.Used != gpus(c.used) {
			t.Errorf("%q: used %v, want %+v", e.Name, e.Used, c)
		}
	}
	at := 42 * time.Second
	if sum := tree.Usage(left, at) + tree.Usage(right, at); math.Abs(sum-tree.Usage(top, at)) > 1e-9 || tree.Usage(top, at) != tree.Usage(tenant.Root, at) {
		t.Errorf("usage of the children is %v, of their parent %v, of the root %v", sum, tree.Usage(top, at), tree.Usage(tenant.Root, at))
	}
	if tree.Usage(other, at) != 0 {
		t.Error("a tenant without jobs has used something")
	}
	tree.Hold(left, gpus(5), -1, at)
	if e := tree.At(top); e.Used != gpus(3) || e.Guarantee != 4*unit.One || e.Limit != 10*unit.One || e.Weight != 2 {
		t.Errorf("%+v", e)
	}
}

func TestDominant(t *testing.T) {
	held := tenant.Amount{GPU: 2000, CPU: 12000, Memory: 3 * unit.GiB}
	for _, c := range []struct {
		total tenant.Amount
		want  float64
	}{
		{tenant.Amount{GPU: 8000, CPU: 96000, Memory: 96 * unit.GiB}, 0.25},
		{tenant.Amount{GPU: 16000, CPU: 24000, Memory: 96 * unit.GiB}, 0.5},
		{tenant.Amount{GPU: 16000, CPU: 0, Memory: 4 * unit.GiB}, 0.75},
		{tenant.Amount{GPU: 16000}, 0.125},
		{tenant.Amount{}, 0},
	} {
		if got := held.Dominant(c.total); got != c.want {
			t.Errorf("share of %+v is %v, want %v", c.total, got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	tree := tenant.NewTree(0)
	a := mustAdd(t, tree, "a", tenant.Root, 2, 4, 1)
	for _, c := range []struct {
		name             string
		parent           tenant.ID
		guarantee, limit unit.Milli
		weight           float64
		want             string
	}{
		{"b", 7, 0, 0, 1, "unknown parent"},
		{"b", -1, 0, 0, 1, "unknown parent"},
		{"b", tenant.Root, 3000, 2000, 1, "below its guarantee"},
		{"b", tenant.Root, -1, 0, 1, "below its guarantee"},
		{"b", tenant.Root, 0, 0, -1, "weight"},
		{"b", tenant.Root, 0, 0, math.NaN(), "weight"},
		{"b", tenant.Root, 0, 0, math.Inf(1), "weight"},
		{"a", a, 0, 0, 1, "another parent"},
	} {
		if _, err := tree.Add(c.name, c.parent, c.guarantee, c.limit, c.weight); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c, err)
		}
	}
	if e := tree.At(a); tree.Len() != 2 || e.Guarantee != 2000 || e.Limit != 4000 {
		t.Errorf("an error has changed the tree: %d tenants, %+v", tree.Len(), e)
	}
	if _, known := tree.Lookup("b"); known {
		t.Error("a tenant that was refused is known")
	}
	id := tree.Get("new")
	if e := tree.At(id); e.Parent != tenant.Root || e.Guarantee != 0 || e.Limit != tenant.Unlimited || e.Weight != 1 || tree.Get("new") != id {
		t.Errorf("a tenant met for the first time is %+v", e)
	}
}
