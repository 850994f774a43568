package report

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/norn-scheduler/norn/cluster"
	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/longtest"
	"github.com/norn-scheduler/norn/internal/palette"
	"github.com/norn-scheduler/norn/job"
	"github.com/norn-scheduler/norn/policy/fifo"
)

// samplePage writes the page of three runs to a file.
func samplePage(t *testing.T) string {
	t.Helper()
	opt := Options{Series: true, Intervals: true, MaxIntervals: 500}
	var runs []Named
	for _, u := range []struct {
		name string
		setup
	}{
		{"fifo", setup{policy: first(t, fifo.Strict)}},
		{"fifo mode=easy", setup{policy: first(t, fifo.EASY)}},
		{"churn", setup{}},
	} {
		u.jobs, u.seed, u.opt = 300, 5, opt
		c, s := play(t, u.setup)
		runs = append(runs, Named{u.name, c.Result(s)})
	}
	return writePage(t, Meta{Title: "Three policies", Trace: "random", Cluster: "28 GPUs", Seed: "5"}, runs)
}

func writePage(t *testing.T, m Meta, runs []Named) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteHTML(f, m, runs); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

var plots = []string{"jct", "wait", "used", "queue", "rho"}

// drawn checks that every chart shows something.
func (b *browser) drawn() {
	b.t.Helper()
	for _, id := range plots {
		if n := b.colours("#plot-" + id + " canvas"); n < 5 {
			b.t.Errorf("chart %s shows %d colours", id, n)
		}
	}
	if n := b.colours("#gantt canvas"); n < 10 {
		b.t.Errorf("the chart of GPUs by time shows %d colours", n)
	}
}

func TestPageOnDesktop(t *testing.T) {
	longtest.Skip(t)
	b := open(t, samplePage(t), 1280, 900, false)
	b.drawn()
	b.NoOverflow(".scroll, .runs")
	testZoom(b)
	testPick(b)
	testRuns(b)
	testChips(b)
	testApart(b)
	testTail(b)
	testDownloads(b)
	testLooks(b)
	testSorting(b)
	testPrint(b)
	b.Check()
}

// testZoom zooms and moves with buttons, keys, the wheel and by dragging.
func testZoom(b *browser) {
	at := func(edge string) float64 { return eval[float64](b, `nornReport.gantt.view.`+edge) }
	before := b.picture()
	// step does something, and checks that an extent of the view shrinks or
	// that its start moves the way it should.
	step := func(what string, act func(), measure func() float64, sign float64) {
		b.t.Helper()
		was := measure()
		act()
		after := b.picture()
		if after == before {
			b.t.Errorf("%s changes nothing in the picture", what)
		}
		if now := measure(); (now-was)*sign <= 0 {
			b.t.Errorf("%s turns %v into %v", what, was, now)
		}
		before = after
	}
	time := func() float64 { return at("t1") - at("t0") }
	rows := func() float64 { return at("y1") - at("y0") }
	start := func() float64 { return at("t0") }
	whole, all := time(), rows()
	step("the button to zoom in", func() { b.Click(`#gantt [data-do="in"]`) }, time, -1)
	step("the button for GPUs", func() { b.Click(`#gantt [data-do="taller"]`) }, rows, -1)
	step("the key +", func() { b.key("+") }, time, -1)
	step("the key ]", func() { b.key("]") }, rows, -1)
	step("the arrow to the right", func() { b.key(kb.ArrowRight) }, start, 1)
	x, y := b.middle(`#gantt canvas`)
	step("the wheel", func() { b.wheel(x, y) }, time, -1)
	step("dragging to the right", func() { b.drag(x, y, 90) }, start, -1)
	b.key("0")
	b.Frame()
	if time() != whole || rows() != all {
		b.t.Errorf("%v seconds and %v GPUs in view after showing all, want %v and %v", time(), rows(), whole, all)
	}
}

func (b *browser) wheel(x, y float64) {
	b.t.Helper()
	call(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: chromedp.MouseWheel, X: x, Y: y, DeltaX: 0.01, DeltaY: -200})
}

func (b *browser) drag(x, y, dx float64) {
	b.t.Helper()
	b.Do(chromedp.MouseEvent(chromedp.MousePressed, x, y, chromedp.ButtonLeft, chromedp.ClickCount(1)),
		chromedp.MouseEvent(chromedp.MouseMoved, x+dx/2, y, chromedp.ButtonLeft),
		chromedp.MouseEvent(chromedp.MouseMoved, x+dx, y, chromedp.ButtonLeft),
		chromedp.MouseEvent(chromedp.MouseReleased, x+dx, y, chromedp.ButtonLeft, chromedp.ClickCount(1)))
}

// barAt is a point of the window on the longest bar, and the key of its job.
const barAt = `(() => {
	const g = nornReport.gantt, d = nornReport.draw, b = g.bars;
	document.querySelector('#gantt canvas').scrollIntoView({block: 'center'});
	let best = 0;
	const area = (i) => (b.end[i] - b.start[i]) * b.height[b.box[i]];
	for (let i = 0; i < b.n; i++) if (area(i) > area(best)) best = i;
	const box = document.querySelector('#gantt canvas').getBoundingClientRect();
	return {x: box.left + d.x((b.start[best] + b.end[best]) / 2), y: box.top + d.y(b.top[b.box[best]] + b.height[b.box[best]] / 2), key: g.jobs[b.job[best]].key};
})()`

type point struct {
	X, Y float64
	Key  string
}

// testPick hovers over a bar and picks it.
func testPick(b *browser) {
	at := eval[point](b, barAt)
	b.Do(chromedp.MouseEvent(chromedp.MouseMoved, at.X, at.Y))
	b.Frame()
	tip := b.Text("#gantt-tip")
	for _, want := range []string{"Job " + at.Key, "GPU", "From ", "How it ended: ", "submitted at", "tenant "} {
		if !strings.Contains(tip, want) {
			b.t.Errorf("the tip %q does not say %q", tip, want)
		}
	}
	b.Do(chromedp.MouseClickXY(at.X, at.Y))
	b.Frame()
	if picked := b.Text("#gantt-picked"); !strings.Contains(picked, "Job "+at.Key) {
		b.t.Errorf("picked %q, want job %s", picked, at.Key)
	}
	was := b.Text("#gantt-picked")
	b.key("n")
	b.Frame()
	if picked := b.Text("#gantt-picked"); !strings.HasPrefix(picked, "Job ") || picked == was {
		b.t.Errorf("the key n turns %q into %q", was, picked)
	}
}

// testRuns selects another run and other colours.
func testRuns(b *browser) {
	before := b.picture()
	b.choose("#gantt-run", "2")
	after := b.picture()
	if after == before || eval[int](b, `nornReport.gantt.run`) != 2 {
		b.t.Error("selecting another run changes nothing")
	}
	if note := b.Text("#gantt-note"); !strings.Contains(note, "left out") {
		b.t.Errorf("the note %q does not say how many intervals are left out", note)
	}
	for _, colour := range []string{"tenant", "size", "ending"} {
		b.choose("#gantt-colour", colour)
		now := b.picture()
		if now == after {
			b.t.Errorf("colouring by %s changes nothing", colour)
		}
		after = now
		if n := eval[int](b, `document.getElementById('gantt-legend').children.length`); n < 3 {
			b.t.Errorf("the legend of colours by %s has %d entries", colour, n)
		}
	}
	b.choose("#tenants-run", "1")
	if shown := eval[string](b, `[...document.querySelectorAll('.by-run')].filter(e => !e.hidden).map(e => e.dataset.run).join()`); shown != "1,1" {
		b.t.Errorf("tenants and shares of runs %q are shown, want those of run 1", shown)
	}
}

// testChips hides a run and shows it again, and makes the others pale.
func testChips(b *browser) {
	pointer := func(kind string) {
		eval[bool](b, fmt.Sprintf(`document.querySelector('.chip[data-run="0"]').dispatchEvent(new PointerEvent(%q))`, kind))
	}
	before := b.image("#plot-jct canvas")
	pointer("pointerenter")
	if b.image("#plot-jct canvas") == before {
		b.t.Error("pointing at a run changes nothing")
	}
	pointer("pointerleave")
	if b.image("#plot-jct canvas") != before {
		b.t.Error("pointing elsewhere does not restore the chart")
	}
	b.Click(`.chip[data-run="0"]`)
	pointer("pointerleave")
	if b.image("#plot-jct canvas") == before {
		b.t.Error("hiding a run changes nothing")
	}
	b.Click(`.chip[data-run="0"]`)
	pointer("pointerleave")
	if b.image("#plot-jct canvas") != before {
		b.t.Error("showing a run again does not restore the chart")
	}
}

// testApart draws each chart once for each run that is shown.
func testApart(b *browser) {
	charts := func() int { return eval[int](b, `document.querySelectorAll('#plot-jct canvas').length`) }
	b.Click(`#apart`)
	if n := charts(); n != 3 {
		b.t.Errorf("%d charts of three runs", n)
	}
	b.Click(`.chip[data-run="1"]`)
	if n, names := charts(), b.Text(`#plot-jct .canvas`); n != 2 || !strings.Contains(names, "churn") || strings.Contains(names, "mode=easy") {
		b.t.Errorf("with a hidden run there are %d charts: %q", n, names)
	}
	b.NoOverflow(".scroll, .runs")
	b.Click(`.chip[data-run="1"]`)
	b.Click(`#apart`)
	if n := charts(); n != 1 {
		b.t.Errorf("%d charts of all runs", n)
	}
	b.drawn()
}

// testTail looks at the share of jobs above a value: what is left of one.
func testTail(b *browser) {
	before := b.image("#plot-jct canvas")
	b.Click(`#plot-jct [data-plot="tail"]`)
	if b.image("#plot-jct canvas") == before {
		b.t.Error("the tail looks like the whole")
	}
	if wrong := eval[int](b, `(() => { const p = nornReport.plots.jct; return p.lines().flatMap((l, r) => l.filter((v, i) => {
		const share = p.spec.lines[r][i];
		return share < 1 ? Math.abs(v - (1 - share)) > 1e-12 || v < p.least() : v !== null;
	})).length })()`); wrong != 0 {
		b.t.Errorf("%d points of the tail are wrong", wrong)
	}
	b.Click(`#plot-jct [data-plot="tail"]`)
	if b.image("#plot-jct canvas") != before {
		b.t.Error("the whole does not look as before")
	}
}

// testDownloads takes the data of charts, and the charts as pictures.
func testDownloads(b *browser) {
	eval[bool](b, `(() => { window.saved = []; window.realSave = Norn.save; Norn.save = (...f) => saved.push(f); return true; })()`)
	for _, id := range plots {
		b.Click(`#plot-` + id + ` [data-plot="csv"]`)
		b.Click(`#plot-` + id + ` [data-plot="svg"]`)
	}
	files := eval[[][3]string](b, `saved`)
	eval[bool](b, `(() => { Norn.save = realSave; return true; })()`)
	if len(files) != 2*len(plots) {
		b.t.Fatalf("%d files, want two for each of %d charts", len(files), len(plots))
	}
	for i, f := range files {
		if want := plots[i/2] + []string{".csv", ".svg"}[i%2]; f[0] != want {
			b.t.Errorf("file %d is called %s, want %s", i, f[0], want)
		}
		if i%2 == 1 {
			lines, err := shapes(f[2], "path")
			if err != nil || lines < 6 || !strings.Contains(f[2], "mode=easy") {
				b.t.Errorf("%s has %d lines: %v", f[0], lines, err)
			}
			continue
		}
		rows, err := csv.NewReader(strings.NewReader(f[2])).ReadAll()
		if err != nil || len(rows) < 50 || !slices.Contains(rows[0], "fifo mode=easy") {
			b.t.Errorf("%s has %d rows under %q: %v", f[0], len(rows), rows[:1], err)
		}
	}
	// A share of jobs ends at one, as in the chart.
	rows := strings.Split(strings.TrimSpace(files[0][2]), "\n")
	if last := rows[len(rows)-1]; !strings.HasSuffix(last, ",1,1,1") {
		b.t.Errorf("the last row of %s is %q", files[0][0], last)
	}
	// The browser takes a file as one, under the strict policy of the page.
	b.Click(`#plot-jct [data-plot="csv"]`)
	b.Frame()
}

// shapes counts the elements of a name in a picture, which must be well-formed.
func shapes(svg, name string) (int, error) {
	n := 0
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		tok, err := d.Token()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == name {
			n++
		}
	}
}

// TestPageWithDates: a trace that tells the time of day has dates on its axes, marks at midnight, and
// many nodes are coloured by who had them.
func TestPageWithDates(t *testing.T) {
	longtest.Skip(t)
	c, s := play(t, setup{jobs: 300, seed: 5, opt: Options{Series: true, Intervals: true}, sized: func(t *testing.T) *cluster.Cluster {
		c := cluster.New()
		typ, err := c.AddType(cluster.GPUType{Name: "V100"})
		for range 40 {
			if err == nil {
				_, err = c.AddNode(cluster.NodeSpec{CPU: 64 * unit.One, GPUs: []cluster.GPUs{{Type: typ, Count: 8}}})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}})
	m := Meta{Title: "Dated", Begins: time.Date(2017, 10, 3, 21, 30, 0, 0, time.UTC)}
	b := open(t, writePage(t, m, []Named{{"fifo", c.Result(s)}}), 1280, 900, false)
	b.drawn()
	if at := eval[string](b, `Norn.when(9000)`); at != "2017-10-04 00:00" {
		t.Errorf("two and a half hours later it is %q", at)
	}
	if marks := eval[string](b, `Norn.marks(0, 90000, 21600).map((v) => Norn.clock(v, 21600)).join()`); marks != "10-04,06:00,12:00,18:00" {
		t.Errorf("the marks of a day are %q", marks)
	}
	if title := eval[string](b, `nornReport.plots.used.titles().join()`); title != "date and time (UTC),share of GPUs" {
		t.Errorf("the axes are called %q", title)
	}
	if ends := b.Text(".ends"); !strings.HasPrefix(ends, "2017-10-0") {
		t.Errorf("who had the GPUs from when to when: %q", ends)
	}
	if colour := eval[string](b, `nornReport.gantt.colouring + document.getElementById('gantt-colour').value`); colour != "tenanttenant" {
		t.Errorf("40 nodes are coloured by %q", colour)
	}
	b.Check()
}

// TestStacked: classes lie on top of each other, up to what all had together; those that had nothing
// are left out.
func TestStacked(t *testing.T) {
	v := stacked([]heldClass{{"a", "c0", []float64{0.5, 0.25}}, {"none", "c1", []float64{0, 0}}, {"b", "c2", []float64{0.25, 0.75}}})
	want := []layerView{{"b", "c2", "M0 1V0.25H1V0H2V1Z"}, {"a", "c0", "M0 1V0.5H1V0.75H2V1Z"}}
	if v.Slots != 2 || !slices.Equal(v.Layers, want) {
		t.Errorf("%d slots, %+v, want %+v", v.Slots, v.Layers, want)
	}
	if v := stacked(nil); v.Slots != 0 {
		t.Errorf("nothing has %d slots", v.Slots)
	}
}

// TestHeldClasses: classes by size and by tenant have together what was allocated, however many tenants
// there are.
func TestHeldClasses(t *testing.T) {
	var dues []Due
	for i := range shownHolders + 5 {
		dues = append(dues, Due{Name: strconv.Itoa(i), Allocated: float64(i), slots: []dueSlot{{allocated: 0.01}, {allocated: 0.02}}})
	}
	classes := heldByTenant(dues)
	if last := classes[len(classes)-1]; len(classes) != shownHolders+1 || last.name != "others" || math.Abs(last.shares[1]-0.1) > 1e-12 {
		t.Errorf("%d classes, the last %+v", len(classes), last)
	}
	if classes[0].name != "13" {
		t.Errorf("the first class is tenant %s, want the one with the most GPU time", classes[0].name)
	}
	for name, u := range runsOverTime(t) {
		c, s := play(t, u)
		ser := c.Result(s).series
		for k := range heldBySize(ser)[0].shares {
			sum, used, there := 0.0, 0.0, 0.0
			step := (len(ser.buckets) + shownParts - 1) / shownParts
			for _, b := range ser.buckets[k*step : min((k+1)*step, len(ser.buckets))] {
				for _, h := range b.held {
					used += h
				}
				there += b.there
			}
			for _, class := range heldBySize(ser) {
				sum += class.shares[k]
			}
			if math.Abs(sum-safeShare(used, there)) > 1e-9 {
				t.Fatalf("%s, part %d: %v of the GPUs in classes, %v in all", name, k, sum, safeShare(used, there))
			}
		}
	}
}

// testLooks: the page has the dashes of package palette, so that 64 runs differ.
func testLooks(b *browser) {
	lists := eval[[][]float64](b, `Norn.dashes`)
	for run := range palette.Looks * palette.Looks {
		name, lengths := palette.Look(run)
		at := eval[[]int](b, fmt.Sprintf(`[Norn.dash(%d), %d %% 8]`, run, run))
		if !slices.Equal(lists[at[0]], lengths) || at[0] != dash(run) || name != "s"+strconv.Itoa(at[1]) {
			b.t.Fatalf("run %d has dashes %v, want %v", run, lists[at[0]], lengths)
		}
	}
}

// testSorting sorts the comparison by its second column, both ways.
func testSorting(b *browser) {
	column := `[...document.querySelectorAll('#compare tbody tr')].map(r => Number(r.cells[1].dataset.value))`
	button := `#compare thead th:nth-child(2) button`
	b.Click(button)
	up := eval[[]float64](b, column)
	b.Click(button)
	down := eval[[]float64](b, column)
	for i := range up {
		if i > 0 && up[i] < up[i-1] || up[i] != down[len(down)-1-i] {
			b.t.Fatalf("sorted up: %v, down: %v", up, down)
		}
	}
	if order := eval[string](b, `document.querySelector('#compare thead th:nth-child(2)').getAttribute('aria-sort')`); order != "descending" {
		b.t.Errorf("aria-sort is %q", order)
	}
}

// testPrint looks at the page as it is printed by a reader who likes it dark.
func testPrint(b *browser) {
	b.Media("print", "dark")
	b.drawn()
	if shown := eval[string](b, `[...document.querySelectorAll('select, .tools')].filter(e => e.offsetParent !== null).map(e => e.id).join()`); shown != "" {
		b.t.Errorf("in print, selectors are shown: %s", shown)
	}
	if card := eval[string](b, `getComputedStyle(document.querySelector('.card')).backgroundColor`); card != "rgb(255, 255, 255)" {
		b.t.Errorf("in print, cards are %s", card)
	}
	if cut := eval[int](b, `[...document.querySelectorAll('canvas')].filter(c => c.getBoundingClientRect().right > c.closest('.card').getBoundingClientRect().right).length`); cut != 0 {
		b.t.Errorf("in print, %d charts are cut", cut)
	}
	if pdf := b.PDF(); len(pdf) < 10_000 {
		b.t.Errorf("the printed page has %d bytes", len(pdf))
	}
	b.Media("", "")
	b.drawn()
}

func TestPageOnPhone(t *testing.T) {
	longtest.Skip(t)
	b := open(t, samplePage(t), 390, 844, true)
	b.drawn()
	b.NoOverflow(".scroll, .runs")
	span := func() float64 { return eval[float64](b, `nornReport.gantt.view.t1 - nornReport.gantt.view.t0`) }
	whole, before := span(), b.picture()
	x, y := b.middle(`#gantt canvas`)
	for _, dx := range []float64{30, 60, 90} {
		kind := input.DispatchTouchEventTypeTouchMove
		if dx == 30 {
			kind = input.DispatchTouchEventTypeTouchStart
		}
		b.touch(kind, [2]float64{x - dx, y}, [2]float64{x + dx, y})
	}
	b.touch(input.DispatchTouchEventTypeTouchEnd)
	if b.picture() == before || span() >= whole {
		t.Errorf("%v seconds in view of %v after pinching", span(), whole)
	}
	b.Click(`#gantt [data-do="reset"]`)
	b.Frame()
	at := eval[point](b, barAt)
	b.touch(input.DispatchTouchEventTypeTouchStart, [2]float64{at.X, at.Y})
	b.touch(input.DispatchTouchEventTypeTouchEnd)
	b.Frame()
	if picked := b.Text("#gantt-picked"); !strings.Contains(picked, "Job "+at.Key) {
		t.Errorf("tapping job %s picks %q", at.Key, picked)
	}
	b.NoOverflow(".scroll, .runs")
	b.Check()
}

func TestPageInTheDark(t *testing.T) {
	longtest.Skip(t)
	b := open(t, samplePage(t), 1100, 800, false)
	light := b.image("#plot-jct canvas")
	b.Media("", "dark")
	b.drawn()
	if b.image("#plot-jct canvas") == light {
		t.Error("the charts do not follow the colours of the page")
	}
	b.Check()
}

// hostile is text that would break a careless page.
var hostile = []string{
	`</script><script>window.pwned = 1</script>`, `"><img src=x onerror="window.pwned = 2">`, `'; window.pwned = 3; //`, "{{.}} ${window.pwned=4} `",
	"\u2028\u2029\x00\x01\n\r\t", `<!--`, `]]>`, "名前 \U0001F680 é \u202Etxet", "bad \xff\xfe utf-8", strings.Repeat("long", 2500), `\u003c/script>`, `&lt;b&gt;`, "",
}

func TestPageWithHostileNames(t *testing.T) {
	longtest.Skip(t)
	name := func(i int) string { return fmt.Sprint(hostile[i%len(hostile)], i/len(hostile)) }
	var runs []Named
	for i := range 2 {
		c, s := play(t, setup{jobs: 150, seed: uint64(i), name: name, tenant: hostile, opt: Options{Series: true, Intervals: true}})
		runs = append(runs, Named{hostile[i], c.Result(s)})
	}
	runs = append(runs, Named{hostile[9], runs[0].Result})
	path := writePage(t, Meta{Title: hostile[0] + hostile[1], Trace: hostile[9], Cluster: hostile[4], Seed: hostile[2]}, runs)
	b := open(t, path, 390, 844, true)
	b.drawn()
	b.NoOverflow(".scroll, .runs")
	for range 30 {
		b.key("n")
	}
	b.choose("#gantt-colour", "tenant")
	b.Frame()
	if eval[bool](b, `'pwned' in window`) {
		t.Errorf("the page ran a user's string: pwned = %v", eval[int](b, `window.pwned`))
	}
	keys := eval[[]string](b, `nornReport.gantt.jobs.map(j => j.key)`)
	want := map[string]bool{}
	for i := range 150 {
		want[clean(short(name(i)))] = true
	}
	for _, k := range keys {
		if !want[k] {
			t.Errorf("the page knows a job %q that was never there", k)
		}
	}
	if n := eval[int](b, `document.querySelectorAll('img, script').length`); n != 2 {
		t.Errorf("%d scripts and images, want the page's own 2 scripts", n)
	}
	b.Check()
}

func ptr[T any](v T) *T { return &v }

// TestPageStandsAlone checks that nothing in the page points anywhere else, and
// that its lists keep to their bounds.
func TestPageStandsAlone(t *testing.T) {
	text, err := os.ReadFile(samplePage(t))
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Replace(string(text), "/*! https://github.com/leeoniya/uPlot (v1.6.32) */", "", 1)
	for _, bad := range []string{"http://", "https://", "src=", "href=\"/", "@import", "url(", "ZgotmplZ", "<nil>", "%!"} {
		if i := strings.Index(page, bad); i >= 0 {
			t.Errorf("the page contains %q: %s", bad, page[max(0, i-80):i+80])
		}
	}
	if !strings.Contains(page, "Leon Sorokin") || !strings.Contains(page, "MIT License") {
		t.Error("the page does not carry the licence of uPlot")
	}
	data := page[strings.Index(page, `id="data">`)+len(`id="data">`):]
	var got pageData
	if err := json.Unmarshal([]byte(data[:strings.Index(data, "</script>")]), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Runs) != 3 || len(got.Seconds) > 512 || len(got.Rhos) > 512 || len(got.Seconds) < 50 {
		t.Errorf("%d runs, %d points of times, %d of rho", len(got.Runs), len(got.Seconds), len(got.Rhos))
	}
	for _, r := range got.Runs {
		if n := len(r.Series.Used.Mean); n > 2000 || n < 100 || len(r.JCT) != len(got.Seconds) || len(r.Rho) != len(got.Rhos) || r.JCT[len(r.JCT)-1] != 1 {
			t.Errorf("%s: %d points over time, %d and %d of distributions", r.Name, n, len(r.JCT), len(r.Rho))
		}
		if r.Chart.N == 0 || r.Chart.N > 500 {
			t.Errorf("%s: %d intervals", r.Name, r.Chart.N)
		}
	}
}

// TestPageBesideBaseline: the page says on top what the comparison comes to, who gains and who
// loses, why jobs waited, and what each reason means. What happened is a row of its own, and
// in no chart of what only a simulation knows.
func TestPageBesideBaseline(t *testing.T) {
	longtest.Skip(t)
	var runs []Named
	c := &Comparison{Base: 1}
	for _, u := range []setup{{policy: first(t, fifo.Strict)}, {}} {
		u.jobs, u.seed, u.opt = 300, 5, Options{Series: true}
		col, s := play(t, u)
		if len(runs) == 0 {
			for id := range s.Jobs() {
				r := s.Record(job.ID(id))
				c.Jobs = append(c.Jobs, Job{Tenant: r.Job.Tenant, GPUs: gpusOf(r.Job), Submit: r.Job.Submit, Length: r.Progress, Was: FateOf(r)})
			}
			c.Runs = append(c.Runs, Run{Name: AsItWas, Real: true, Fates: Fates(s)})
			runs = append(runs, Named{AsItWas, Happened(c.Jobs, u.opt)})
		}
		runs = append(runs, Named{[]string{"", "fifo", "churn"}[len(runs)], col.Result(s)})
		c.Runs = append(c.Runs, Run{Name: runs[len(runs)-1].Name, Fates: Fates(s)})
	}
	b := open(t, writePage(t, Meta{Title: "Beside fifo", Comparison: c}, runs), 390, 844, true)
	if got := b.Text("#verdict"); got != c.Verdict() || !strings.HasPrefix(got, "churn") {
		t.Errorf("on top it says %q, want %q", got, c.Verdict())
	}
	if got := b.Text("#checks"); !strings.Contains(got, "Simulated fifo waits for") || !strings.Contains(got, "off by 0%") {
		t.Errorf("of what happened it says %q", got)
	}
	if n := eval[int](b, `document.querySelectorAll('#compare tbody tr').length`); n != 3 {
		t.Errorf("%d rows", n)
	}
	waits := eval[string](b, `document.getElementById('h-waits').parentElement.textContent`)
	for _, r := range runs[1:] {
		for _, w := range r.Result.Reasons {
			if meaning := reasonMeanings[w.Reason]; !strings.Contains(waits, meaning) || !strings.Contains(waits, w.Cause.String()) {
				t.Errorf("%s is not explained", w.Reason)
			}
		}
	}
	if strings.Contains(waits, AsItWas) || !strings.Contains(eval[string](b, `document.getElementById('h-gain').parentElement.textContent`), "length") {
		t.Error("what happened has reasons, or nobody gains")
	}
	b.NoOverflow(".scroll, .runs")
	b.Check()
}

// TestPageOfTheTableAlone checks that a page can be made of results without
// series and intervals, and of no results.
func TestPageOfTheTableAlone(t *testing.T) {
	longtest.Skip(t)
	c, s := play(t, setup{jobs: 50, seed: 1})
	b := open(t, writePage(t, Meta{Title: "Figures alone"}, []Named{{"fifo", c.Result(s)}}), 390, 844, true)
	if n := eval[int](b, `document.querySelectorAll('canvas').length`); n != 0 {
		t.Errorf("%d charts without data", n)
	}
	if text := b.Text("main"); !strings.Contains(text, "makespan") || !strings.Contains(text, "vision") {
		t.Errorf("the page says %q", text)
	}
	b.NoOverflow(".scroll, .runs")
	b.Check()
	open(t, writePage(t, Meta{Title: "Nothing"}, nil), 800, 600, false).Check()
}
