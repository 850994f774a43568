package report

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

type action = chromedp.Action[chromedp.Void]

// browser is a page open in a real browser. Whatever goes wrong in it fails the
// test.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// findBrowser is the path of a browser. Without one the test is skipped, but not
// where CI is set.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no chromium in the PATH")
	}
	t.Skip("no chromium in the PATH: the page is not tested in a browser")
	return ""
}

// open shows a file in a window of that size.
func open(t *testing.T, path string, width, height int64, phone bool) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(findBrowser(t)), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true), chromedp.DisableGPU)
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(alloc)
	ctx, expire := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(func() { expire(); stop(); stopAlloc() })
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	size := chromedp.EmulateViewport(width, height)
	if phone {
		size = chromedp.EmulateViewport(width, height, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	}
	call(b, network.Enable, network.EnableParams{})
	b.do(size, chromedp.Navigate((&url.URL{Scheme: "file", Path: path}).String()))
	if !eval[bool](b, `Boolean(window.nornReport && window.nornReport.ready)`) {
		b.check()
		t.Fatal("the page's program did not run to its end")
	}
	b.frame()
	return b
}

// listen notes whatever goes wrong.
func (b *browser) listen(ev any) {
	problem := ""
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		problem = fmt.Sprintf("script error: %+v", ev.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		problem = fmt.Sprintf("console %s", ev.Type)
		for _, arg := range ev.Args {
			problem += fmt.Sprintf(" %s", arg.Value)
		}
	case *log.EventEntryAdded:
		problem = fmt.Sprintf("log %s: %s", ev.Entry.Level, ev.Entry.Text)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(ev.Request.URL, "file:") {
			problem = "asks the network for " + ev.Request.URL
		}
	}
	if problem != "" {
		b.mu.Lock()
		b.problems = append(b.problems, problem)
		b.mu.Unlock()
	}
}

// check fails the test for whatever has gone wrong so far.
func (b *browser) check() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Error(p)
	}
	b.problems = nil
}

func (b *browser) do(steps ...action) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.check()
		b.t.Fatal(err)
	}
}

// call runs a command of the browser.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	out, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.check()
		b.t.Fatal(err)
	}
	return out
}

// eval evaluates an expression of the page, and waits when it is a promise.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.check()
		b.t.Fatal(err)
	}
	return out
}

// frame waits until the page was drawn.
func (b *browser) frame() {
	b.t.Helper()
	eval[bool](b, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// click clicks the first element that matches.
func (b *browser) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// key presses a key while the chart of GPUs by time has the focus.
func (b *browser) key(key string) {
	b.t.Helper()
	b.do(chromedp.Focus(chromedp.CSS("#gantt canvas")), chromedp.KeyEvent(key))
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

// media makes the page believe that it is shown on another medium.
func (b *browser) media(medium, scheme string) {
	b.t.Helper()
	p := emulation.SetEmulatedMediaParams{Media: medium}
	if scheme != "" {
		p.Features = []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	}
	call(b, emulation.SetEmulatedMedia, p)
	b.frame()
}

// text is the text of an element as it is shown, empty when it is hidden.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`(() => { const e = document.querySelector(%q); return e.offsetParent === null ? '' : e.innerText; })()`, selector))
}

// image is what a canvas shows.
func (b *browser) image(selector string) string {
	b.t.Helper()
	b.frame()
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

// noOverflow checks that the page is no wider than its window.
func (b *browser) noOverflow() {
	b.t.Helper()
	if wide := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
		b.t.Errorf("the page is %d pixels wider than the window: %s", wide, eval[string](b, `[...document.querySelectorAll('body *')]
			.filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, .runs')).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join('\n')`))
	}
}

// middle is the middle of an element, in the window.
func (b *browser) middle(selector string) (x, y float64) {
	b.t.Helper()
	at := eval[[]float64](b, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: 'center'});
		const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()`, selector))
	return at[0], at[1]
}
