package watch

import (
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestFeed: what is found at once after a watch broke off is told in an order in which it can
// have come about, whatever the order of the list. Faults in it are found all the same.
func TestFeed(t *testing.T) {
	for _, twice := range []bool{false, true} {
		s := tell(Options{})
		s.has("n", 8)
		f := &feed[*core.Pod]{last: map[types.UID]*core.Pod{}, begun: make(chan struct{}), frees: over,
			tell: func(p *core.Pod, gone bool) { s.state.pod(time.Unix(0, 0), p, gone) }}
		before := []any{
			made("ends", []change{asks(4, 1), on("n"), has("0,1,2,3")}), made("goes", []change{asks(4, 1), on("n"), has("4,5,6,7")}),
		}
		after := []any{
			made("a", []change{asks(4, 1), on("n"), has("0,1,2,3")}), made("b", []change{asks(4, 1), on("n"), has("4,5,6,7")}),
			made("ends", []change{asks(4, 1), on("n"), has("0,1,2,3"), ended(core.PodSucceeded)}),
		}
		if twice {
			after = append(after, made("c", []change{asks(1, 1), on("n"), has("7")}))
		}
		for _, all := range [][]any{before, after} {
			if err := f.Replace(all, ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Update(made("a", []change{asks(4, 1), on("n"), has("0,1,2,3"), noted("other")})); err != nil {
			t.Fatal(err)
		}
		if found := len(s.wrong); twice && found != 2 || !twice && found != 0 {
			t.Errorf("a device is given twice: %v; found: %q", twice, s.wrong)
		}
		if err := f.Delete(&core.Node{}); err == nil {
			t.Error("a node among pods")
		}
	}
}
