package param

import "testing"

// TestNear says which words are offered for one that is mistyped.
func TestNear(t *testing.T) {
	known := []string{"fifo", "sjf", "srtf", "srsf", "las", "tiresias", "drf"}
	for word, want := range map[string]string{
		"tiresas":  "; did you mean tiresias?",
		"Tiresias": "; did you mean tiresias?",
		"tiersias": "; did you mean tiresias?",
		"fifi":     "; did you mean fifo?",
		"srxf":     "; did you mean srtf or srsf?",
		"gavel":    "",
		"":         "",
		"x":        "",
		"ls":       "; did you mean las?",
	} {
		if got := Near(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Near("job1", []string{"job2", "job3", "job4", "job5"}); got != "; did you mean job2 or job3 or job4?" {
		t.Errorf("%q", got)
	}
}

// TestDistance checks distances by hand.
func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "a", 0}, {"ab", "ba", 1}, {"abc", "ac", 1}, {"ac", "abc", 1}, {"kitten", "sitting", 3}, {"abc", "xyz", 3}} {
		if got := distance(c.a, c.b, 9); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
	if got := distance("a", "abcdef", 2); got != 3 {
		t.Errorf("%d, want more than 2", got)
	}
}
