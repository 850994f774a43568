package rounds

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/job"
)

// TestMemo: what is rounded is what is remembered, to the bit.
func TestMemo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.Bool().Draw(t, "own")
		l := layout{own: own, pairs: rapid.Bool().Draw(t, "pairs")}
		l.together = !l.pairs && rapid.Bool().Draw(t, "together")
		a := account{known: true, epoch: rapid.Int64Range(0, epochs-1).Draw(t, "epoch"), check: uint8(rapid.IntRange(0, checks-1).Draw(t, "check")), stamp: uint8(rapid.IntRange(0, stamps).Draw(t, "stamp"))}
		if last := rapid.Bool().Draw(t, "solo"); l.together {
			a.near = last
		} else {
			a.solo = last
		}
		if own {
			a.own = rapid.Float32().Draw(t, "number")
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "claims") {
			c := Claim{
				Target: rapid.Float64Range(0, 1).Draw(t, "target"), Received: rapid.Float64Range(0, 300).Draw(t, "received"),
				Deficit: rapid.Float64Range(-300, 300).Draw(t, "deficit"),
			}
			with := job.None
			if l.pairs {
				with = rapid.SampledFrom([]job.ID{job.None, 0, 1, guests - 1, guests, 3*guests + 5}).Draw(t, "with")
			}
			a.entries = append(a.entries, entry{cluster.TypeID(7 * i), with, l.together && rapid.Bool().Draw(t, "near"), c})
		}
		a.shorten(l)
		var b account
		b.read(a.memo(l), l)
		if len(a.entries) != len(b.entries) || b.epoch != a.epoch || b.check != a.check || b.own != a.own || b.stamp != a.stamp || b.solo != a.solo || b.near != a.near || !b.known {
			t.Fatalf("%+v is read as %+v", a, b)
		}
		for i := range a.entries {
			if l.pairs {
				if b.entries[i].with != job.None-job.ID(guest(a.entries[i].with)) {
					t.Fatalf("%+v is read as %+v", a.entries[i], b.entries[i])
				}
				b.entries[i].with = a.entries[i].with
			}
			if a.entries[i] != b.entries[i] {
				t.Fatalf("%+v is read as %+v", a.entries[i], b.entries[i])
			}
		}
	})
	var none account
	if none.read(job.Memo{}, layout{}); none.known {
		t.Error("a job on which nothing is written has claims")
	}
}

// TestRounding: targets are never rounded down to nothing, and what does not fit
// is cut.
func TestRounding(t *testing.T) {
	for _, k := range []struct{ in, want Claim }{
		{Claim{1e-6, 0, 0}, Claim{1.0 / maxTarget, 0, 0}},
		{Claim{2, 1000, -1000}, Claim{1, maxReceived, -maxDeficit}},
		{Claim{0.5, 1.1, 0.6}, Claim{math.Round(0.5*maxTarget) / maxTarget, 1, 0.5}},
	} {
		if (layout{}).round(&k.in); k.in != k.want {
			t.Errorf("%+v, want %+v", k.in, k.want)
		}
	}
}
