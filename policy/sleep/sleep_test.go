package sleep

import (
	"math"
	"strings"
	"testing"
)

// after is a sleeper that has seen some uses.
func after(c *CES, uses ...float64) *sleeper {
	return &sleeper{period: c.Period, buffer: c.Buffer, keep: c.Keep, cut: c.cut, uses: uses}
}

// TestCut is the example of the specification of Helios, section 7.3, with the settings that the
// paper's code has for Earth. The forecast is that of the day before: it is made to fall as the
// example says.
func TestCut(t *testing.T) {
	earth := NewCES()
	earth.History, earth.Future, earth.Fallen, earth.Falls, earth.Least, earth.Buffer = 6, 18, 1, 1, 5, 5
	for _, c := range []struct {
		name        string
		near, far   float64 // mean change over 18 and 36 steps, on the day before
		awake, want int
	}{
		{"sleeps", -3, -4, 130, 10},
		{"rises again", -3, -2, 130, 0},
		{"too few", -3, -4, 124, 0},
		{"does not fall", -0.5, -1, 130, 0},
	} {
		uses := make([]float64, day)
		for i := range uses {
			switch {
			case i == 0:
				uses[i] = 0
			case i < 18: // the mean of 18 steps, the first of which is 0, is c.near
				uses[i] = c.near * 18 / 17
			case i < 36:
				uses[i] = (c.far*36 - c.near*18) / 18
			}
		}
		copy(uses[day-6:], []float64{120, 120, 119, 118, 118, 117})
		s := after(earth, uses...)
		near, far := s.model.foretell(s.uses, 115, 18)
		if math.Abs(near-115-c.near) > 1e-9 || math.Abs(far-115-c.far) > 1e-9 {
			t.Fatalf("%s: %v and %v are foretold", c.name, near, far)
		}
		if got := earth.cut(s, c.awake, 115, 115); got != c.want {
			t.Errorf("%s: %d nodes go to sleep, want %d", c.name, got, c.want)
		}
	}
}

// TestStable: after a wake no node goes to sleep for two hours (section 7.4), and none while too little
// is known.
func TestStable(t *testing.T) {
	c := NewCES()
	falling := make([]float64, day+40)
	for i := range falling {
		falling[i] = float64(400 - i)
	}
	s := after(c, falling...)
	s.stable = len(s.uses) + 1
	if got := c.cut(s, 215, 200, 200); got != 0 {
		t.Errorf("%d nodes go to sleep although one was just woken", got)
	}
	s.stable--
	if got := c.cut(s, 215, 200, 200); got != 10 {
		t.Errorf("%d nodes go to sleep, want 10", got)
	}
	if got := c.cut(after(c, falling[:day/2]...), 215, 200, 200); got != 0 {
		t.Errorf("%d nodes go to sleep on the first day, of which no other tells anything", got)
	}
	if got := c.cut(after(c, 3, 4), 20, 5, 5); got != 10 {
		t.Errorf("%d nodes go to sleep in the first hour, in which only the buffer is awake", got)
	}
}

// TestForecast: the mean over the next three hours of a use that follows the day and the week is
// foretold from what is known. The error is symmetric, as in the paper, which tells 3.6 % for Earth.
func TestForecast(t *testing.T) {
	var f forecast
	var uses []float64
	sum, n := 0.0, 0
	use := func(i int) float64 {
		level := 60.0
		if i/day%7 > 4 {
			level = 40
		}
		return math.Round(level + 15*math.Sin(2*math.Pi*float64(i%day)/day) + 3*math.Sin(float64(i*i)))
	}
	for i := range 6 * week {
		if i >= 4*week && i%5 == 0 {
			near, _ := f.foretell(uses, use(i), 18)
			is := 0.0
			for k := range 18 {
				is += use(i+k) / 18
			}
			sum, n = sum+2*math.Abs(near-is)/(near+is), n+1
		}
		uses = append(uses, use(i))
	}
	if smape := sum / float64(n); smape > 0.036 {
		t.Errorf("an error of %.1f %%", 100*smape)
	}
}

// TestParse reads sleepers with settings, and says what is wrong with others.
func TestParse(t *testing.T) {
	c, err := Parse(" ces(buffer=7, his_thr=1)")
	if err != nil || c.(*CES).Buffer != 7 || c.(*CES).Fallen != 1 || c.(*CES).Keep != 12 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = Parse("vanilla"); err != nil || c.(*Vanilla).Period != DefaultPeriod {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"cess": "did you mean ces", "": "there are ces, vanilla", "ces(": "closing parenthesis", "ces(x=1)": "x", "ces(buffer=a)": "buffer", "vanilla(period=0)": "second",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
