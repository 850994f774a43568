package report

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	inbrowser "github.com/norn-scheduler/norn/internal/browser"
)

// browser is a report open in a real browser. Whatever goes wrong in it fails the test.
type browser struct {
	*inbrowser.Page
	t *testing.T
}

// open shows a file in a window of that size.
func open(t *testing.T, path string, width, height int64, phone bool) *browser {
	t.Helper()
	b := &browser{inbrowser.Open(t, path, inbrowser.Window{Width: width, Height: height, Phone: phone}), t}
	if !eval[bool](b, `Boolean(window.nornReport && window.nornReport.ready)`) {
		b.Check()
		t.Fatal("the page's program did not run to its end")
	}
	b.Frame()
	return b
}

// call runs a command of the browser.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	return inbrowser.Call(b.Page, command, params)
}

// eval evaluates an expression of the page, and waits when it is a promise.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	return inbrowser.Eval[T](b.Page, expression)
}

// key presses a key while the chart of GPUs by time has the focus.
func (b *browser) key(key string) {
	b.t.Helper()
	b.Do(chromedp.Focus(chromedp.CSS("#gantt canvas")), chromedp.KeyEvent(key))
}

// choose selects an option as a user does.
func (b *browser) choose(selector, value string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.value = %q; return e.dispatchEvent(new Event('change')); })()`, selector, value))
}

// touch puts fingers on the page; none lifts them.
func (b *browser) touch(kind input.DispatchTouchEventType, at ...[2]float64) {
	b.t.Helper()
	points := []*input.TouchPoint{}
	for i, p := range at {
		points = append(points, &input.TouchPoint{X: p[0], Y: p[1], ID: ptr(float64(i))})
	}
	call(b, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: points})
}

// image is what a canvas shows.
func (b *browser) image(selector string) string {
	b.t.Helper()
	b.Frame()
	return eval[string](b, fmt.Sprintf(`document.querySelector(%q).toDataURL()`, selector))
}

// picture is what the chart of GPUs by time shows.
func (b *browser) picture() string {
	b.t.Helper()
	return b.image("#gantt canvas")
}

// colours is how many different colours a canvas shows.
func (b *browser) colours(selector string) int {
	b.t.Helper()
	return eval[int](b, fmt.Sprintf(`(() => {
		const c = document.querySelector(%q);
		if (!c || c.width === 0 || c.height === 0) return 0;
		const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', { willReadFrequently: true });
		copy.drawImage(c, 0, 0);
		return new Set(new Uint32Array(copy.getImageData(0, 0, c.width, c.height).data.buffer)).size;
	})()`, selector))
}

// middle is the middle of an element, in the window.
func (b *browser) middle(selector string) (x, y float64) {
	b.t.Helper()
	at := eval[[]float64](b, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: 'center'});
		const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()`, selector))
	return at[0], at[1]
}
