package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-scheduler/norn/internal/palette"
)

// chart has everything that a chart can have.
func chart() *Chart {
	nan := math.NaN()
	return &Chart{
		Keys: []Key{{Name: "fifo"}, {Name: "srtf(a=<1>)", Look: 1}, {Name: "bars", Look: 2, Area: true}, {Name: "other", Fill: "#123456", Area: true}},
		Panels: []Panel{
			{
				Title: "lines & areas", X: Axis{Title: "Time (h)", Zero: true}, Y: Axis{Title: "Share", Percent: true, From: 0, To: 1},
				Lines: []Line{
					{X: []float64{0, 1, 2, 3}, Y: []float64{0.1, 0.5, nan, 0.9}, Step: true},
					{Look: 1, X: []float64{0, 1, 3}, Y: []float64{0.9, 0.5, 0.4}, Low: []float64{0.8, nan, 0.3}, High: []float64{1, nan, 0.5}, Points: true},
				},
				Areas: []Area{{Look: 2, X: []float64{0, 1, 2}, Low: []float64{0, 0, 0.1}, High: []float64{0.2, 0.1, 0.2}}},
				Marks: []float64{2},
			},
			{
				X: Axis{Names: []string{"one", "a name that is too long for its place"}}, Y: Axis{Title: "JCT (h)", Log: true}, Rules: []float64{1},
				Bars: []Bar{{At: 0, Width: 0.5, From: nan, To: 2, Low: 1, High: 3, Mark: 9}, {Look: 9, At: 1, Width: 0.5, From: 0.5, To: 20, Low: nan, High: nan, Mark: nan}, {At: 1, Width: 0.2, From: nan, To: nan}},
			},
			{X: Axis{Title: "Time (h)", From: 0, To: 9}, Y: Axis{Title: "GPU", From: 0, To: 8, Down: true}, Boxes: []Box{{0, 4, 0, 8, "#00ff00"}, {4, 5, 2, 3, "#0000ff"}}},
		},
	}
}

func written(t *testing.T, c *Chart, f Format, s Style) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b, f, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestEqual: equal charts give equal files, byte by byte.
func TestEqual(t *testing.T) {
	for _, f := range Formats() {
		if one, two := written(t, chart(), f, Style{}), written(t, chart(), f, Style{}); one != two {
			t.Errorf("two %s differ", f)
		}
		if one, two := written(t, chart(), f, Style{}), written(t, chart(), f, Style{Serif: true}); one == two {
			t.Errorf("two faces give equal %s", f)
		}
	}
}

// TestSVG: it is well-formed, as large as was asked for, and has the texts in it; nothing in it
// lies far outside.
func TestSVG(t *testing.T) {
	text := written(t, chart(), SVG, Style{Width: DoubleColumn, Height: 400, Size: 9, Serif: true})
	d := xml.NewDecoder(strings.NewReader(text))
	texts := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if c, ok := token.(xml.CharData); ok {
			texts[string(c)]++
		}
	}
	for _, want := range []string{"fifo", "srtf(a=<1>)", "lines & areas", "Share", "100%", "a name that is too long for its place", "one", "JCT (h)", "10", "GPU"} {
		if texts[want] != 1 {
			t.Errorf("%q is there %d times", want, texts[want])
		}
	}
	if texts["Time (h)"] != 2 { // above the names of the second panel, and below all
		t.Errorf("the title of X is there %d times", texts["Time (h)"])
	}
	if !strings.HasPrefix(text, `<svg xmlns="http://www.w3.org/2000/svg" width="504pt" height="400pt" viewBox="0 0 504 400" font-family="'Liberation Serif', `) || !strings.Contains(text, `font-size="9"`) {
		t.Errorf("%.300s", text)
	}
	for _, m := range regexp.MustCompile(`[ML](-?[0-9.]+) (-?[0-9.]+)`).FindAllStringSubmatch(text, -1) {
		x, _ := strconv.ParseFloat(m[1], 64)
		y, err := strconv.ParseFloat(m[2], 64)
		if err != nil || x < -1 || x > 505 || y < -1 || y > 800 {
			t.Errorf("a point lies at %s, %s", m[1], m[2])
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("a place is not a number")
	}
}

// TestPDF: it has the letters in it, and no date but the beginning of time.
func TestPDF(t *testing.T) {
	text := written(t, chart(), PDF, Style{})
	for _, want := range []string{"%PDF-", "/FontFile2", "/MediaBox [0 0 239.76 ", "D:19700101000000"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
	if len(text) > 100_000 {
		t.Errorf("%d bytes: are letters in it that it does not use?", len(text))
	}
	odd := chart()
	odd.Keys[0].Name, odd.Panels[0].Title = "作业 \x00\xff ρ 🎉", strings.Repeat("long ", 99)
	written(t, odd, PDF, Style{})
	written(t, odd, SVG, Style{})
}

// TestNoRoom: charts that cannot be drawn are refused in words.
func TestNoRoom(t *testing.T) {
	for _, c := range []struct {
		chart  *Chart
		format Format
		style  Style
		want   string
	}{
		{&Chart{}, SVG, Style{}, "needs something to draw"},
		{chart(), "png", Style{}, `"png" is no format of charts: write one of svg, pdf`},
		{chart(), SVG, Style{Height: 100}, "the axes have no room on 239.76 x 100 points"},
		{chart(), SVG, Style{Width: 50}, "the axes have no room on 50 x "},
	} {
		var b bytes.Buffer
		if err := c.chart.Write(&b, c.format, c.style); err == nil || !strings.Contains(err.Error(), c.want) || b.Len() > 0 {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestTicks fixes the marks of axes.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis      Axis
		low, high float64
		most      int
		want      string
	}{
		{Axis{}, 0, 1, 5, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{Axis{Percent: true}, 0, 1, 5, "0% 20% 40% 60% 80% 100%"},
		{Axis{Percent: true}, 0, 0.011, 3, "0.0% 0.5% 1.0%"},
		{Axis{}, -1, 3, 4, "-1 0 1 2 3"},
		{Axis{}, 0, 120000, 4, "0 50,000 100,000"},
		{Axis{}, 0, 0.9, 4, "0.00 0.25 0.50 0.75"},
		{Axis{Log: true}, 0.5, 2000, 5, "1 10 100 1000"},
		{Axis{Log: true}, 0.001, 1e9, 5, "0.001 1 1000 1e6 1e9"},
		{Axis{Log: true, Percent: true}, 0.001, 1, 5, "0.1% 1% 10% 100%"},
		{Axis{Log: true}, 1, 9, 5, "1 2 5"},
	} {
		s := scale{Axis: &c.axis, low: c.low, high: c.high}
		var got []string
		for _, tick := range s.ticks(c.most) {
			if tick.text != "" {
				got = append(got, tick.text)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("from %g to %g: %s, want %s", c.low, c.high, text, c.want)
		}
	}
}

// TestScale: values between the ends lie between their places, in order; ticks lie within.
func TestScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &Axis{Log: rapid.Bool().Draw(t, "log"), Zero: rapid.Bool().Draw(t, "zero")}
		values := rapid.SliceOfN(rapid.Float64Range(-1e12, 1e12), 0, 9).Draw(t, "values")
		s := newScale(a, func(see func(float64)) { each(values, see) })
		s.start, s.stop = 100, 0
		if !(s.low < s.high) {
			t.Fatalf("from %v to %v", s.low, s.high)
		}
		for _, v := range values {
			if y := s.at(v); (!a.Log || v >= 1/extreme) && (y < -1e-6 || y > 100+1e-6) {
				t.Fatalf("%v is at %v, from %v to %v", v, y, s.low, s.high)
			}
		}
		ticks := s.ticks(rapid.IntRange(1, 9).Draw(t, "most"))
		if len(ticks) > 200 {
			t.Fatalf("%d ticks", len(ticks))
		}
		for i, tick := range ticks {
			if y := s.at(tick.at); y < -1e-3 || y > 100+1e-3 || i > 0 && tick.at <= ticks[i-1].at {
				t.Fatalf("tick %d of %v at %v", i, tick, y)
			}
		}
	})
}

// TestCross: hatching stays inside, and fills what it covers.
func TestCross(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64Range(0.1, 99)
		x, y, wide, high := f.Draw(t, "x"), f.Draw(t, "y"), f.Draw(t, "wide"), f.Draw(t, "high")
		sin, cos := math.Sincos(rapid.Float64Range(-math.Pi, math.Pi).Draw(t, "angle"))
		inside := (x+wide*rapid.Float64Range(0.01, 0.99).Draw(t, "u"))*sin + (y+high*rapid.Float64Range(0.01, 0.99).Draw(t, "v"))*cos
		a, b, ok := cross(x, y, wide, high, sin, cos, inside)
		if !ok {
			t.Fatal("a line through the middle does not cross")
		}
		for _, p := range []point{a, b} {
			if p.x < x-1e-3 || p.x > x+wide+1e-3 || p.y < y-1e-3 || p.y > y+high+1e-3 || math.Abs(p.x*sin+p.y*cos-inside) > 1e-6 {
				t.Fatalf("%v", p)
			}
		}
		if _, _, ok := cross(x, y, wide, high, sin, cos, inside+1e4); ok {
			t.Fatal("a line far away crosses")
		}
	})
}

// TestLooks: series can be told apart, in grey too, where there are up to 64.
func TestLooks(t *testing.T) {
	seen := map[string]bool{}
	for i := range palette.Looks * palette.Looks {
		name, dash := palette.Look(i)
		key := fmt.Sprint(name, dash)
		if seen[key] || !regexp.MustCompile("^#[0-9a-f]{6}$").MatchString(Tint(i)) {
			t.Errorf("look %d: %s, %s", i, key, Tint(i))
		}
		seen[key] = true
	}
	if palette.Light("none") != "" {
		t.Error("there is a colour that is not there")
	}
}

// TestCut: a text fits, and keeps its beginning.
func TestCut(t *testing.T) {
	f, err := newFont(false)
	if err != nil {
		t.Fatal(err)
	}
	if w := f.width("Norn", 10); math.Abs(w-(7.22+5.56+3.33+5.56)) > 0.02 { // widths of Arial
		t.Errorf("Norn is %v wide", w)
	}
	long := "tiresias(limits=500,5000)"
	if got := f.cut(long, 8, 60); !strings.HasPrefix(got, "tiresias") || !strings.HasSuffix(got, "…") || f.width(got, 8) > 60 {
		t.Errorf("%q", got)
	}
	if got := f.cut(long, 8, 600); got != long {
		t.Errorf("%q", got)
	}
}
