package trace

import (
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

type sliceSource []Entry

func (s *sliceSource) Next(e *Entry) error {
	if len(*s) == 0 {
		return io.EOF
	}
	*e, *s = (*s)[0], (*s)[1:]
	return nil
}

// Rows of equal submission come in the order of their keys however the file
// arranges them.
func TestByKeyIgnoresTheOrderOfEqualRows(t *testing.T) {
	want := "a1 a2 a10 b c1 c02 c3 d"
	at := map[string]time.Duration{"a": 0, "b": 5, "c": 5, "d": 9}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		keys := strings.Fields(want)
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		slices.SortStableFunc(keys, func(x, y string) int { return int(at[x[:1]] - at[y[:1]]) })
		var s sliceSource
		for _, k := range keys {
			e := Entry{}
			e.Job.Key, e.Job.Submit = k, at[k[:1]]
			s = append(s, e)
		}
		src := ByKey(&s)
		var got []string
		var e Entry
		for src.Next(&e) == nil {
			if int(e.Job.ID) != len(got) {
				t.Fatalf("job %s has number %d, want %d", e.Job.Key, e.Job.ID, len(got))
			}
			got = append(got, e.Job.Key)
		}
		if g := strings.Join(got, " "); g != want {
			t.Fatalf("got %s, want %s", g, want)
		}
	}
}

func TestCompareKeysIsAnOrder(t *testing.T) {
	keys := []string{"", "1", "01", "2", "10", "a", "a1b", "a1c", "a2", "a02", "a10", "b", "9a", "99999999999999999999999", "100000000000000000000000"}
	sign := func(n int) int { return min(1, max(-1, n)) }
	for _, a := range keys {
		for _, b := range keys {
			if sign(CompareKeys(a, b)) != -sign(CompareKeys(b, a)) {
				t.Errorf("%q and %q: not antisymmetric", a, b)
			}
			for _, c := range keys {
				if CompareKeys(a, b) < 0 && CompareKeys(b, c) < 0 && CompareKeys(a, c) >= 0 {
					t.Errorf("%q < %q < %q but not %q < %q", a, b, c, a, c)
				}
			}
		}
	}
}
