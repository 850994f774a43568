package param

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-scheduler/norn/cluster/unit"
)

type settings struct {
	on     bool
	n      int
	x      float64
	list   []float64
	d      time.Duration
	choice string
}

func (s *settings) params() Set {
	return Set{
		Bool("on", &s.on, "a yes or no"),
		Int("n", &s.n, 1, 9, "GPUs", "a count"),
		Float("x", &s.x, 0, math.Inf(1), "ratio", "a ratio"),
		Floats("list", &s.list, "GPU-seconds", "limits"),
		Duration("d", &s.d, "a time"),
		Choice("choice", &s.choice, []Option[string]{{"first", "1"}, {"second", "2"}}, "one of two"),
	}
}

func fresh() *settings {
	return &settings{n: 3, x: 0.5, list: []float64{1, 2.5}, d: 90 * time.Second, choice: "1"}
}

func TestSet(t *testing.T) {
	for _, c := range []struct{ name, value, get string }{
		{"on", "true", "true"}, {"on", "0", "false"}, {"n", "9", "9"}, {"x", "0", "0"}, {"x", "inf", "inf"}, {"x", " 2.5 ", "2.5"},
		{"list", "3,4.5", "3,4.5"}, {"list", "[3, 4]", "3,4"}, {"list", "", ""}, {"d", "2h", "2h0m0s"}, {"d", "0.5", "500ms"},
		{"d", "2d", "48h0m0s"}, {"d", "never", "never"}, {"choice", "second", "second"},
	} {
		s := fresh()
		set := s.params()
		if err := set.Set(c.name, c.value); err != nil {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
			continue
		}
		i := slices.IndexFunc(set, func(p Param) bool { return p.Name == c.name })
		if got := set[i].Get(); got != c.get {
			t.Errorf("%s=%s is shown as %q, want %q", c.name, c.value, got, c.get)
		}
		// A value that is shown can be set again and means the same.
		again := fresh().params()
		if err := again.Set(c.name, set[i].Get()); err != nil || again[i].Get() != c.get {
			t.Errorf("%s=%s: %v, %q", c.name, set[i].Get(), err, again[i].Get())
		}
	}
	s := fresh()
	if err := s.params().Set("d", "never"); err != nil || s.d != unit.Never {
		t.Errorf("never is %v, %v", s.d, err)
	}
}

func TestSetErrors(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"speed", "1", `unknown parameter "speed"; known are: choice, d, list, n, on, x`},
		{"on", "yes", "on=yes: write true or false"},
		{"n", "0", "n=0: write a whole number from 1 to 9"},
		{"n", "10", "n=10: write a whole number from 1 to 9"},
		{"n", "2.5", "n=2.5: write a whole number from 1 to 9"},
		{"x", "-1", "x=-1: write a number from 0 to inf"},
		{"x", "nan", "x=nan: write a number from 0 to inf"},
		{"list", "1,two", "list=1,two: write numbers with commas between them"},
		{"list", "1,nan", "list=1,nan: write numbers with commas between them"},
		{"d", "-5", "d=-5: write seconds, a duration like 90s, 1h30m or 2d, or never"},
		{"d", "soon", "d=soon: write seconds, a duration like 90s, 1h30m or 2d, or never"},
		{"choice", "third", "choice=third: write one of first, second"},
	} {
		s := fresh()
		before := strings.Join(s.params().Changed(), " ")
		err := s.params().Set(c.name, c.value)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s=%s: %v, want %s", c.name, c.value, err, c.want)
		}
		if after := strings.Join(s.params().Changed(), " "); after != before {
			t.Errorf("%s=%s failed and changed %s", c.name, c.value, after)
		}
	}
}

// TestChanged: what differs from the defaults, in the order of the settings.
func TestChanged(t *testing.T) {
	s := fresh()
	set := s.params()
	for _, kv := range [][2]string{{"d", "1m"}, {"n", "4"}, {"x", "0.5"}} {
		if err := set.Set(kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	if got := set.Changed(); !slices.Equal(got, []string{"n=4", "d=1m0s"}) {
		t.Errorf("changed are %v", got)
	}
	if set[5].Unit != "first|second" || set[5].Default != "first" || set[4].Default != "1m30s" {
		t.Errorf("%+v", set[5])
	}
}
