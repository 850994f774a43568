package draw

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/norn-scheduler/norn/internal/palette"
)

// layout is a chart that has its places on paper.
type layout struct {
	*Chart
	font          *font
	size          float64 // of letters
	width, height float64
	frames        []frame
	keys          []placed
	rows          int // of the legend
}

// frame is a panel on paper.
type frame struct {
	*Panel
	x, y          scale
	left, top     float64
	right, bottom float64
	xTicks        []tick
	yTicks        []tick
	turned        bool // names along X are written upwards
}

// placed is a key on paper.
type placed struct {
	Key
	at   point // of its sample
	name string
}

// Lengths in sizes of letters.
const (
	lead     = 1.35 // from one line of text to the next
	gap      = 0.4  // between things
	sample   = 2.6  // length of the sample in a key
	edge     = 0.5  // around all
	least    = 3.0  // of the shortest side of axes
	panelled = 10.0 // height of the axes of one of several panels
)

// layout finds the places of everything.
func (c *Chart) layout(s Style) (*layout, error) {
	f, err := newFont(s.Serif)
	if err != nil {
		return nil, err
	}
	l := &layout{Chart: c, font: f, size: cmp.Or(s.Size, 8), width: cmp.Or(s.Width, SingleColumn), height: s.Height}
	l.legend()
	above := l.size * (edge + lead*float64(l.rows))
	if l.rows > 0 {
		above += l.size * gap
	}
	l.frames = make([]frame, len(c.Panels))
	left, below := 0.0, make([]float64, len(c.Panels))
	for i := range c.Panels {
		p := &l.frames[i]
		p.Panel = &c.Panels[i]
		p.x, p.y = newScale(&p.X, p.xs), newScale(&p.Y, p.ys)
		left = max(left, l.left(p))
	}
	fixed := above + l.size*edge
	for i := range l.frames {
		p := &l.frames[i]
		p.left, p.right = left, l.width-l.size*1.2
		below[i] = l.below(p, i)
		fixed += below[i] + l.heading(p)
	}
	if l.height == 0 {
		each := l.size * panelled
		if len(l.frames) == 1 {
			each = min(0.55*l.width, 24*l.size)
		}
		l.height = fixed + each*float64(len(l.frames))
	}
	room := (l.height - fixed) / float64(len(l.frames))
	if room < l.size*least || l.width-l.size*1.2-left < l.size*least {
		return nil, fmt.Errorf("the axes have no room on %g x %g points: give more, or smaller letters", l.width, l.height)
	}
	y := above
	for i := range l.frames {
		p := &l.frames[i]
		p.top = y + l.heading(p)
		p.bottom = p.top + room
		y = p.bottom + below[i]
		l.axes(p)
	}
	return l, nil
}

// heading is the height of the title of a panel.
func (l *layout) heading(p *frame) float64 {
	if p.Title == "" {
		return 0
	}
	return l.size * lead
}

// axes gives the scales of a panel their places and marks.
func (l *layout) axes(p *frame) {
	p.x.start, p.x.stop = p.left, p.right
	p.y.start, p.y.stop = p.bottom, p.top
	if p.Y.Down {
		p.y.start, p.y.stop = p.top, p.bottom
	}
	if p.X.Names == nil {
		p.xTicks = l.apart(&p.x)
	}
	if p.Y.Names == nil {
		p.yTicks = p.y.ticks(min(int((p.bottom-p.top)/(l.size*2)), 9))
	}
}

// apart are the ticks of X, as many as there are texts for beside each other.
func (l *layout) apart(s *scale) []tick {
	for most := 9; ; most-- {
		ticks, wide := s.ticks(most), 0.0
		n := 0
		for _, t := range ticks {
			if t.text != "" {
				wide = max(wide, l.font.width(t.text, l.size))
				n++
			}
		}
		if most == 1 || float64(n)*(wide+l.size) <= s.stop-s.start {
			return ticks
		}
	}
}

// left is the room that a panel needs to the left of its axes.
func (l *layout) left(p *frame) float64 {
	wide := 0.0
	for _, name := range p.Y.Names {
		wide = max(wide, min(l.font.width(name, l.size), l.width/4))
	}
	for most := 1; p.Y.Names == nil && most < 10; most++ { // how many there will be is not known yet
		for _, t := range p.y.ticks(most) {
			wide = max(wide, l.font.width(t.text, l.size))
		}
	}
	wide += l.size * (edge + gap)
	if p.Y.Title != "" {
		wide += l.size * lead
	}
	return wide
}

// below is the room that a panel needs below its axes. The title of X stands below the last
// of several panels that have the same.
func (l *layout) below(p *frame, i int) float64 {
	high := l.size * lead
	if p.X.Names != nil {
		slot := (p.right - p.left) / float64(len(p.X.Names))
		for _, name := range p.X.Names {
			if wide := l.font.width(name, l.size); wide > slot-l.size*0.3 {
				p.turned = true
				high = max(high, min(wide, 12*l.size)+l.size*gap)
			}
		}
	}
	if l.titled(i) {
		high += l.size * lead
	}
	return high + l.size*gap
}

// titled tells whether the title of X stands below a panel.
func (l *layout) titled(i int) bool {
	title := l.Panels[i].X.Title
	return title != "" && (i == len(l.Panels)-1 || l.Panels[i+1].X.Title != title)
}

// legend places the keys in rows.
func (l *layout) legend() {
	left, right := l.size*edge, l.width-l.size*edge
	x := left
	for _, k := range l.Keys {
		name := l.font.cut(k.Name, l.size, right-left-l.size*(sample+gap))
		wide := l.size*(sample+gap) + l.font.width(name, l.size)
		if l.rows == 0 || x+wide > right {
			l.rows++
			x = left
		}
		l.keys = append(l.keys, placed{k, point{x, l.size * (edge + lead*(float64(l.rows)-0.5))}, name})
		x += wide + l.size
	}
}

// xs are the values of X that must be seen.
func (p *Panel) xs(see func(float64)) {
	for i := range p.Lines {
		each(p.Lines[i].X, see)
	}
	for i := range p.Areas {
		each(p.Areas[i].X, see)
	}
	for i := range p.Boxes {
		see(p.Boxes[i].X0)
		see(p.Boxes[i].X1)
	}
	each(p.Marks, see)
}

// ys are the values of Y that must be seen.
func (p *Panel) ys(see func(float64)) {
	for i := range p.Lines {
		each(p.Lines[i].Y, see)
		each(p.Lines[i].Low, see)
		each(p.Lines[i].High, see)
	}
	for i := range p.Areas {
		each(p.Areas[i].Low, see)
		each(p.Areas[i].High, see)
	}
	for i := range p.Boxes {
		see(p.Boxes[i].Y0)
		see(p.Boxes[i].Y1)
	}
	for i := range p.Bars {
		b := &p.Bars[i]
		each([]float64{b.From, b.To, b.Low, b.High, b.Mark}, see)
	}
	each(p.Rules, see)
}

func each(values []float64, see func(float64)) {
	for _, v := range values {
		see(v)
	}
}

// draw puts everything on paper.
func (l *layout) draw(on canvas) {
	for i := range l.keys {
		l.key(on, &l.keys[i])
	}
	for i := range l.frames {
		p := &l.frames[i]
		l.grid(on, p)
		on.clip(p.left, p.top, p.right-p.left, p.bottom-p.top)
		l.content(on, p)
		on.unclip()
		l.frame(on, p, l.titled(i))
	}
}

func (l *layout) key(on canvas, k *placed) {
	x, y, wide := k.at.x, k.at.y, l.size*sample
	switch {
	case k.Fill != "":
		on.fill(x+wide/4, y-l.size*0.4, wide*3/4, l.size*0.8, k.Fill)
	case k.Area:
		l.block(on, x+wide/4, y-l.size*0.4, wide*3/4, l.size*0.8, k.Look)
	default:
		on.line([]point{{x, y}, {x + wide, y}}, l.pen(k.Look))
	}
	on.text(point{x + l.size*(sample+gap), y + l.size*0.35}, k.name, l.size, 0, black)
}

// pen is that of a series.
func (l *layout) pen(look int) pen {
	_, dash := palette.Look(look)
	dash = slices.Clone(dash)
	for i := range dash {
		dash[i] *= l.size / 14
	}
	return pen{Tint(look), l.size * 0.14, dash}
}

// grid draws thin lines across a panel.
func (l *layout) grid(on canvas, p *frame) {
	thin := pen{faint, 0.4, nil}
	for _, t := range p.yTicks {
		if y := p.y.at(t.at); t.text != "" {
			on.line([]point{{p.left, y}, {p.right, y}}, thin)
		}
	}
	for _, t := range p.xTicks {
		if x := p.x.at(t.at); t.text != "" && p.Boxes == nil {
			on.line([]point{{x, p.top}, {x, p.bottom}}, thin)
		}
	}
}

// frame draws the axes of a panel with their texts.
func (l *layout) frame(on canvas, p *frame, titled bool) {
	axis := pen{grey, 0.6, nil}
	on.line([]point{{p.left, p.top}, {p.left, p.bottom}, {p.right, p.bottom}}, axis)
	l.besides(on, p)
	l.beneath(on, p)
	if p.Title != "" {
		on.text(point{p.left, p.top - l.size*gap}, l.font.cut(p.Title, l.size, p.right-p.left), l.size, 0, black)
	}
	if p.Y.Title != "" {
		text := l.font.cut(p.Y.Title, l.size, max(p.bottom-p.top, l.size*10))
		wide := l.font.width(text, l.size)
		middle := (p.top + p.bottom + wide) / 2
		on.text(point{l.size * (edge + 0.8), min(middle, l.height-l.size*edge)}, text, l.size, 90, black)
	}
	if titled {
		text := l.font.cut(p.X.Title, l.size, l.width-2*l.size)
		on.text(point{(p.left + p.right - l.font.width(text, l.size)) / 2, p.bottom + l.below(p, len(l.Panels)-1) - l.size*gap*1.2}, text, l.size, 0, black)
	}
}

// besides writes the texts of Y.
func (l *layout) besides(on canvas, p *frame) {
	short := pen{grey, 0.6, nil}
	for _, t := range p.yTicks {
		y, long := p.y.at(t.at), l.size*0.3
		if t.minor {
			long /= 2
		}
		on.line([]point{{p.left - long, y}, {p.left, y}}, short)
		on.text(point{p.left - l.size*gap - l.font.width(t.text, l.size), y + l.size*0.35}, t.text, l.size, 0, black)
	}
	for i, name := range p.Y.Names {
		text := l.font.cut(name, l.size, l.width/4)
		on.text(point{p.left - l.size*gap - l.font.width(text, l.size), p.y.at(float64(i)) + l.size*0.35}, text, l.size, 0, black)
	}
}

// beneath writes the texts of X.
func (l *layout) beneath(on canvas, p *frame) {
	short := pen{grey, 0.6, nil}
	for _, t := range p.xTicks {
		x, long := p.x.at(t.at), l.size*0.3
		if t.minor {
			long /= 2
		}
		on.line([]point{{x, p.bottom}, {x, p.bottom + long}}, short)
		wide := l.font.width(t.text, l.size)
		on.text(point{min(x-wide/2, l.width-wide-1), p.bottom + l.size*1.25}, t.text, l.size, 0, black)
	}
	for i, name := range p.X.Names {
		x := p.x.at(float64(i))
		if p.turned {
			text := l.font.cut(name, l.size, 12*l.size)
			on.text(point{x + l.size*0.35, p.bottom + l.size*gap + l.font.width(text, l.size)}, text, l.size, 90, black)
			continue
		}
		on.text(point{x - l.font.width(name, l.size)/2, p.bottom + l.size*1.25}, name, l.size, 0, black)
	}
}

// hatchings are angles of white lines over the areas of looks, in degrees; the first has none.
var hatchings = [palette.Looks][]float64{nil, {45}, {-45}, {90}, {0}, {45, -45}, {0, 90}, {60}}

// block fills a rectangle as a look has it.
func (l *layout) block(on canvas, x, y, wide, high float64, look int) {
	if wide <= 0 || high <= 0 {
		return
	}
	on.fill(x, y, wide, high, Tint(look))
	for _, degrees := range hatchings[(look+look/palette.Looks)%palette.Looks] {
		l.hatch(on, x, y, wide, high, degrees)
	}
}

// hatch draws white lines over a rectangle, all over the paper in step.
func (l *layout) hatch(on canvas, x, y, wide, high, degrees float64) {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	low, top := math.Inf(1), math.Inf(-1)
	for _, c := range []point{{x, y}, {x + wide, y}, {x, y + high}, {x + wide, y + high}} {
		d := c.x*sin + c.y*cos
		low, top = min(low, d), max(top, d)
	}
	step := l.size * 0.45
	for d := math.Ceil(low/step) * step; d <= top; d += step {
		if a, b, ok := cross(x, y, wide, high, sin, cos, d); ok {
			on.line([]point{a, b}, pen{white, l.size * 0.07, nil})
		}
	}
}

// cross is the part of the line px*sin + py*cos = d that lies in a rectangle.
func cross(x, y, wide, high, sin, cos, d float64) (a, b point, ok bool) {
	var found []point
	add := func(p point) {
		if p.x >= x-1e-6 && p.x <= x+wide+1e-6 && p.y >= y-1e-6 && p.y <= y+high+1e-6 {
			found = append(found, p)
		}
	}
	if math.Abs(cos) > 1e-9 {
		add(point{x, (d - x*sin) / cos})
		add(point{x + wide, (d - (x+wide)*sin) / cos})
	}
	if math.Abs(sin) > 1e-9 {
		add(point{(d - y*cos) / sin, y})
		add(point{(d - (y+high)*cos) / sin, y + high})
	}
	if len(found) < 2 {
		return a, b, false
	}
	a, b = found[0], found[0]
	for _, p := range found {
		if math.Hypot(p.x-a.x, p.y-a.y) > math.Hypot(b.x-a.x, b.y-a.y) {
			b = p
		}
	}
	return a, b, a != b
}
