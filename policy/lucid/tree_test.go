package lucid

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/shared"
	"github.com/norn-scheduler/norn/policy/kit/profiles"
)

// uses is a job alone.
func usesAlone(gpu, bandwidth float64, mb int, mixed bool) profiles.Use {
	return profiles.Use{GPU: gpu, Bandwidth: bandwidth, Memory: unit.Bytes(mb) << 20, Mixed: mixed}
}

// measuredAlone are the 66 sorts of jobs that the authors measured, by model, batch size and
// precision, and their scores.
func measuredAlone(t testing.TB) (names []string, uses []profiles.Use, scores []Score) {
	t.Helper()
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, r := range shared.Rows(t, "data/lucid/single_data.csv")[1:] {
		names = append(names, strings.Join(r[:4], " "))
		uses = append(uses, usesAlone(number(r[5])/100, number(r[6])/100, int(number(r[7])), r[3] == "1"))
		scores = append(scores, Score(number(r[8])))
	}
	return names, uses, scores
}

// Section 3.5.1: a pruned tree that is grown from the measurements of the authors tells 62 of
// them rightly, which is 94 % as in the paper. It tells the examples of the specification.
func TestTreeMeasured(t *testing.T) {
	names, uses, scores := measuredAlone(t)
	tree := GrowTree(uses, scores)
	right := 0
	for i := range uses {
		if tree.Score(&uses[i]) == scores[i] {
			right++
		}
	}
	if len(uses) != 66 || right != 62 || len(tree.nodes) > 20 {
		t.Errorf("%d of %d right with %d nodes", right, len(uses), len(tree.nodes))
	}
	for name, want := range map[string]Score{
		"BERT SQuAD 32 0": Jumbo, "DCGAN LSUN 32 0": Medium, "EfficientNet CIFAR-10 32 0": Tiny, "LSTM Wikitext2 64 0": Jumbo,
		"MobileNetV2 CIFAR-10 32 0": Medium, "MobileNetV2 CIFAR-10 128 0": Jumbo, "MobileNetV3 ImageNet 32 0": Tiny,
	} {
		found := false
		for i := range names {
			if names[i] == name {
				found = true
				if got := tree.Score(&uses[i]); got != want {
					t.Errorf("%s: %v, want %v: %s", name, got, want, tree.because(&uses[i]))
				}
			}
		}
		if !found {
			t.Errorf("%s was not measured; there are %q", name, names)
		}
	}
}

// TestTreeByHand: of twelve jobs those up to half of the time are tiny, and of the others those
// with less than 4 GiB medium.
func TestTreeByHand(t *testing.T) {
	var uses []profiles.Use
	var scores []Score
	for i := range 12 {
		u, s := usesAlone(0.2, 0.1, 9000, false), Tiny
		if i >= 4 {
			u.GPU, s = 0.8, Jumbo
			if i >= 8 {
				u.Memory, s = 3<<30, Medium
			}
		}
		uses, scores = append(uses, u), append(scores, s)
	}
	tree := GrowTree(uses, scores)
	for i := range uses {
		if got := tree.Score(&uses[i]); got != scores[i] {
			t.Errorf("job %d: %v, want %v", i, got, scores[i])
		}
	}
	if got := tree.because(&uses[11]); got != "GPU use above 0.5, GPU memory up to 5.9" {
		t.Errorf("because of %q", got)
	}
	if (&Tree{}).Score(&uses[0]) != Jumbo || GrowTree(nil, nil).Score(&uses[0]) != Jumbo || GrowTree(uses[:1], scores[:1]).because(&uses[0]) != "as nearly all jobs" {
		t.Error("of no jobs something is told")
	}
}

// TestTreeNoWorse: a tree is never more often wrong about what it was grown from than the
// commonest score, and equal jobs in another order give the same answers.
func TestTreeNoWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "jobs")
		uses, scores := make([]profiles.Use, n), make([]Score, n)
		var c counts
		for i := range uses {
			uses[i] = usesAlone(rapid.Float64Range(0, 1).Draw(t, "use"), rapid.Float64Range(0, 1).Draw(t, "traffic"), rapid.IntRange(0, 30000).Draw(t, "MB"), rapid.Bool().Draw(t, "mixed"))
			scores[i] = Score(rapid.IntRange(0, 2).Draw(t, "score"))
			c[scores[i]]++
		}
		tree, right := GrowTree(uses, scores), 0
		for i := range uses {
			if tree.Score(&uses[i]) == scores[i] {
				right++
			}
		}
		if right < c[c.most()] {
			t.Fatalf("%d right, by the commonest score %d of %d", right, c[c.most()], n)
		}
	})
}
