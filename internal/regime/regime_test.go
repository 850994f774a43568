package regime

import "testing"

// The tables of doublings and of critical epochs, at the epochs where they change.
func TestRules(t *testing.T) {
	lm := Shape{Model: "LM", Batch: 10, GPUs: 1}
	for epoch, want := range map[int]int{0: 10, 10: 10, 11: 20, 20: 20, 21: 40, 40: 40, 41: 80, 500: 80} {
		if got := lm.GNS(epoch); got != want {
			t.Errorf("under GNS LM has a batch of %d in epoch %d, want %d", got, epoch, want)
		}
	}
	for _, c := range []struct {
		s             Shape
		epoch, epochs int
		want          int
	}{
		{lm, 9, 20, 10}, {lm, 10, 20, 80},
		{lm, 30, 100, 10}, {lm, 31, 100, 80}, // never in the first 30 % of the job
		{Shape{Model: "ResNet-50", Batch: 32, GPUs: 1}, 29, 40, 128}, {Shape{Model: "ResNet-50", Batch: 32, GPUs: 1}, 30, 40, 32},
		{Shape{Model: "ResNet-18", Batch: 16, GPUs: 1}, 149, 300, 256}, {Shape{Model: "ResNet-18", Batch: 16, GPUs: 1}, 150, 300, 16},
		{Shape{Model: "Transformer", Batch: 16, GPUs: 1}, 99, 100, 16},
	} {
		if got := c.s.Accordion(c.epoch, c.epochs); got != c.want {
			t.Errorf("under Accordion %+v has a batch of %d in epoch %d of %d, want %d", c.s, got, c.epoch, c.epochs, c.want)
		}
	}
	if got := (Shape{Model: "ResNet-50", Batch: 64, GPUs: 1}).GNS(101); got != 128 {
		t.Errorf("ResNet-50 has %d from epoch 101 on, want 128", got)
	}
	if n := Iterations("LM", 10); n != 5968 {
		t.Errorf("an epoch of LM has %d steps with a batch of 10", n)
	}
}
