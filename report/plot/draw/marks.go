package draw

import (
	"cmp"
	"math"
)

// content draws what is over the axes of a panel.
func (l *layout) content(on canvas, p *frame) {
	for i := range p.Areas {
		l.area(on, p, &p.Areas[i])
	}
	for _, b := range p.Boxes {
		x0, x1, y0, y1 := p.x.at(b.X0), p.x.at(b.X1), p.y.at(b.Y0), p.y.at(b.Y1)
		wide, high := x1-x0, math.Abs(y1-y0)
		if wide > 4*hair { // neighbours of one colour are told apart
			wide -= hair
		}
		if high > 8*hair {
			high -= hair
		}
		on.fill(x0, min(y0, y1), wide, high, b.Fill)
	}
	for i := range p.Bars {
		l.bar(on, p, &p.Bars[i])
	}
	for i := range p.Lines {
		l.line(on, p, &p.Lines[i])
	}
	for _, v := range p.Rules {
		y := p.y.at(v)
		on.line([]point{{p.left, y}, {p.right, y}}, pen{grey, 0.6, []float64{2, 2}})
	}
	for _, v := range p.Marks {
		x := p.x.at(v)
		on.line([]point{{x, p.top}, {x, p.bottom}}, pen{grey, 0.6, []float64{2, 2}})
	}
}

// hair is the width of the gap between boxes.
const hair = 0.2

// fine is how close together points on paper need not be told apart.
const fine = 0.08

// thin appends a point unless it lies on the one before, within what can be seen.
func thin(points []point, p point) []point {
	if n := len(points); n > 0 && math.Abs(points[n-1].x-p.x) < fine && math.Abs(points[n-1].y-p.y) < fine {
		return points
	}
	return append(points, p)
}

// line draws a line, in pieces where values are missing.
func (l *layout) line(on canvas, p *frame, s *Line) {
	how := l.pen(s.Look)
	var piece []point
	flush := func() {
		if len(piece) > 1 {
			on.line(piece, how)
		}
		piece = piece[:0]
	}
	last := math.NaN()
	for i := range s.X {
		if math.IsNaN(s.Y[i]) || math.IsNaN(s.X[i]) {
			flush()
			continue
		}
		at := point{p.x.at(s.X[i]), p.y.at(s.Y[i])}
		if s.Step && len(piece) > 0 && at.y != last {
			piece = thin(piece, point{at.x, last})
		}
		piece = thin(piece, at)
		last = at.y
	}
	flush()
	for i := range s.X {
		if math.IsNaN(s.Y[i]) {
			continue
		}
		x, y := p.x.at(s.X[i]), p.y.at(s.Y[i])
		if s.Low != nil && !math.IsNaN(s.Low[i]) && !math.IsNaN(s.High[i]) {
			l.interval(on, x, p.y.at(s.Low[i]), p.y.at(s.High[i]), pen{how.colour, 0.6, nil})
		}
		if r := l.size * 0.2; s.Points {
			on.polygon([]point{{x - r, y}, {x, y - r}, {x + r, y}, {x, y + r}}, how.colour)
		}
	}
}

// interval draws a line with caps.
func (l *layout) interval(on canvas, x, low, high float64, how pen) {
	cap := l.size * 0.22
	on.line([]point{{x, low}, {x, high}}, how)
	on.line([]point{{x - cap, low}, {x + cap, low}}, how)
	on.line([]point{{x - cap, high}, {x + cap, high}}, how)
}

// area fills what is between two curves of steps.
func (l *layout) area(on canvas, p *frame, a *Area) {
	var upper, lower []point
	for i, x := range a.X {
		at := p.x.at(x)
		if n := len(upper); n > 0 {
			upper, lower = thin(upper, point{at, upper[n-1].y}), append(lower, point{at, lower[len(lower)-1].y})
		}
		upper, lower = thin(upper, point{at, p.y.at(a.High[i])}), append(lower, point{at, p.y.at(a.Low[i])})
	}
	if len(upper) == 0 {
		return
	}
	outline := upper
	for i := len(lower) - 1; i >= 0; i-- {
		outline = thin(outline, lower[i])
	}
	on.polygon(outline, cmp.Or(a.Fill, Tint(a.Look)))
}

// bar draws a bar with its interval and its mark.
func (l *layout) bar(on canvas, p *frame, b *Bar) {
	foot := p.y.start
	if !math.IsNaN(b.From) {
		foot = p.y.at(b.From)
	}
	if math.IsNaN(b.To) {
		return
	}
	x0, x1, y := p.x.at(b.At-b.Width/2), p.x.at(b.At+b.Width/2), p.y.at(b.To)
	l.block(on, x0, min(foot, y), x1-x0, math.Abs(foot-y), b.Look)
	middle, edge := (x0+x1)/2, pen{black, 0.6, nil}
	if !math.IsNaN(b.Low) && !math.IsNaN(b.High) {
		l.interval(on, middle, p.y.at(b.Low), p.y.at(b.High), edge)
	}
	if m := p.y.at(b.Mark); !math.IsNaN(b.Mark) {
		half := (x1 - x0) * 0.4
		on.line([]point{{middle, y}, {middle, m}}, edge)
		on.line([]point{{middle - half, m}, {middle + half, m}}, pen{black, 1, nil})
	}
}
