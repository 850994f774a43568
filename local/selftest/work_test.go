package selftest

import (
	"strings"
	"testing"
)

// TestExpected: what must come of the work is what comes of it, and any other number of
// steps, or none, gives something else.
func TestExpected(t *testing.T) {
	p := &processors{}
	words, rounds := p.size()
	if err := p.put(beginning(words)); err != nil {
		t.Fatal(err)
	}
	seen := map[uint32]int{}
	got := make([]uint32, words)
	for steps := range 100 {
		if err := p.take(got); err != nil {
			t.Fatal(err)
		}
		d := digest(got)
		if want := expected(words, rounds, steps); d != want {
			t.Fatalf("after %d steps %08x, not %08x", steps, d, want)
		}
		if before, ok := seen[d]; ok {
			t.Fatalf("%d steps give what %d give", steps, before)
		}
		seen[d] = steps
		if err := p.compute(); err != nil {
			t.Fatal(err)
		}
	}
	of := map[uint32]int{}
	for steps := range 100 { // of a GPU
		d := expected(gpuWords, gpuRounds, steps)
		if before, ok := of[d]; ok {
			t.Fatalf("%d steps on a GPU give what %d give", steps, before)
		}
		of[d] = steps
	}
}

// TestIntact: memory that was changed is not taken for intact.
func TestIntact(t *testing.T) {
	p := &processors{}
	if err := p.hold(1 << 16); err != nil {
		t.Fatal(err)
	}
	if ok, err := p.intact(); !ok || err != nil {
		t.Error(ok, err)
	}
	p.held[0][1<<13]++
	if ok, err := p.intact(); ok || err != nil {
		t.Error(ok, err)
	}
}

// TestNear: 5 per cent, or a little that does not matter.
func TestNear(t *testing.T) {
	for _, c := range []struct {
		a, b, apart float64
		want        bool
	}{{100, 96, 0, true}, {96, 100, 0, true}, {100, 94, 0, false}, {94, 100, 0, false}, {0, 3, 4, true}, {0, 5, 4, false}} {
		if got := near(c.a, c.b, c.apart); got != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// TestNames: each check has a name of its own and says what it is about.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range Names() {
		if seen[n[0]] || n[0] == "" || n[1] == "" || strings.ContainsAny(n[0], " ,") || !Known(n[0]) {
			t.Errorf("%q", n)
		}
		seen[n[0]] = true
	}
	if Known("") || Known("typos") {
		t.Error("a check that is none is known")
	}
}
