// Package browser has tests open pages in a real browser. A page that throws an error, logs
// something, or asks the network for anything fails its test.
package browser

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
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Action is a step of a user of a page.
type Action = chromedp.Action[chromedp.Void]

// Page is a page open in a real browser. Whatever goes wrong in it fails the test.
type Page struct {
	t   *testing.T
	ctx context.Context
	own string // how addresses of its requests begin

	mu       sync.Mutex
	problems []string
}

// Window is what a page is shown in, in pixels.
type Window struct {
	Width, Height int64
	Phone         bool // touched, at twice the pixels
}

// Path is the path of a browser. Without one the test is skipped, but not where CI is set.
func Path(t *testing.T) string {
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

// Open shows a file in a window. A request for anything else is a problem.
func Open(t *testing.T, path string, w Window) *Page {
	t.Helper()
	return show(t, (&url.URL{Scheme: "file", Path: path}).String(), "file:", w)
}

// OpenURL shows an address in a window. A request to another origin, such as
// http://127.0.0.1:7078, is a problem.
func OpenURL(t *testing.T, address, origin string, w Window) *Page {
	t.Helper()
	return show(t, address, origin+"/", w)
}

// started is the browser of a package whose tests are run by Main.
var started struct {
	wanted  bool
	browser context.Context // nil: none has been needed yet
	stop    func()
}

// Main runs the tests of a package with one browser for all of them, which takes a second or two less for each than a
// browser of its own. TestMain hands its result to os.Exit.
func Main(m *testing.M) int {
	started.wanted = true
	code := m.Run()
	if started.stop != nil {
		started.stop()
	}
	return code
}

// launch starts a browser, and shows nothing in it.
func launch(t *testing.T) (ctx context.Context, stop func()) {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(Path(t)), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true), chromedp.DisableGPU)
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stopBrowser := chromedp.NewContext(alloc)
	stop = func() { stopBrowser(); stopAlloc() }
	if err := chromedp.Do(ctx); err != nil {
		stop()
		t.Fatal(err)
	}
	return ctx, stop
}

// tab is a window of its own in the browser of the package, with nothing in common with others.
func tab(t *testing.T) (ctx context.Context, stop func()) {
	t.Helper()
	if !started.wanted {
		return launch(t)
	}
	if started.browser == nil {
		started.browser, started.stop = launch(t)
	}
	ctx, closeTab := chromedp.NewContext(started.browser, chromedp.WithNewBrowserContext())
	return ctx, closeTab
}

// show shows an address. Addresses of requests begin with own, or are a problem.
func show(t *testing.T, address, own string, w Window) *Page {
	t.Helper()
	ctx, stop := tab(t)
	ctx, expire := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(func() { expire(); stop() })
	p := &Page{t: t, ctx: ctx, own: own}
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatal(err)
	}
	size := chromedp.EmulateViewport(w.Width, w.Height)
	if w.Phone {
		size = chromedp.EmulateViewport(w.Width, w.Height, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2))
	}
	Call(p, network.Enable, network.EnableParams{})
	p.Do(size, chromedp.Navigate(address))
	return p
}

// listen notes whatever goes wrong.
func (p *Page) listen(ev any) {
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
		if !strings.HasPrefix(ev.Request.URL, p.own) {
			problem = "asks the network for " + ev.Request.URL
		}
	}
	if problem != "" {
		p.mu.Lock()
		p.problems = append(p.problems, problem)
		p.mu.Unlock()
	}
}

// Check fails the test for whatever has gone wrong so far.
func (p *Page) Check() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		p.t.Error(problem)
	}
	p.problems = nil
}

// Forget forgets whatever has gone wrong so far, and returns it.
func (p *Page) Forget() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.problems
	p.problems = nil
	return out
}

// Picture is the whole page, in PNG.
func (p *Page) Picture() []byte {
	p.t.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	return picture
}

// Do takes steps of a user.
func (p *Page) Do(steps ...Action) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.Check()
		p.t.Fatal(err)
	}
}

// Call runs a command of the browser.
func Call[P, R any](p *Page, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	out, err := chromedp.Call(p.ctx, command, params)
	if err != nil {
		p.Check()
		p.t.Fatal(err)
	}
	return out
}

// Eval evaluates an expression of the page, and waits when it is a promise.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	out, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Check()
		p.t.Fatal(err)
	}
	return out
}

// PDF is the page as it is printed.
func (p *Page) PDF() []byte {
	p.t.Helper()
	pdf, err := chromedp.Run(p.ctx, chromedp.PrintToPDF(chromedp.PDFPrintBackground(), chromedp.PDFPreferCSSPageSize()))
	if err != nil {
		p.t.Fatal(err)
	}
	return pdf
}

// Frame waits until the page was drawn.
func (p *Page) Frame() {
	p.t.Helper()
	Eval[bool](p, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// Click clicks the first element that matches, once it has stood where it is for a tenth of a second. What comes in
// between the aim and the click may move it from under the mouse: a click that hits something else is kept from the page,
// and tried again.
func (p *Page) Click(selector string) {
	p.t.Helper()
	for range 5 {
		p.Until(fmt.Sprintf(`(() => {
			const r = document.querySelector(%q).getBoundingClientRect(), at = r.x + "," + r.y;
			[window.still, window.stood] = [window.stood === at ? window.still + 1 : 0, at];
			return window.still > 5;
		})()`, selector))
		Eval[bool](p, fmt.Sprintf(`(() => {
			window.hit = false;
			addEventListener('click', (e) => {
				window.hit = document.querySelector(%q).contains(e.target);
				if (!window.hit) { e.preventDefault(); e.stopImmediatePropagation(); }
			}, { capture: true, once: true });
			return true;
		})()`, selector))
		p.Do(chromedp.Click(chromedp.CSS(selector)))
		if Eval[bool](p, `window.hit !== false`) { // a page that is another now knows nothing of it
			return
		}
	}
	p.t.Fatalf("five clicks at %s hit something else; the page says:\n%s", selector, p.Words())
}

// Media makes the page believe that it is shown on another medium. scheme is light, dark, or
// empty.
func (p *Page) Media(medium, scheme string) {
	p.t.Helper()
	params := emulation.SetEmulatedMediaParams{Media: medium}
	if scheme != "" {
		params.Features = []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	}
	Call(p, emulation.SetEmulatedMedia, params)
	p.Frame()
}

// Text is the text of an element as it is shown, empty when it is hidden.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	return Eval[string](p, fmt.Sprintf(`(() => { const e = document.querySelector(%q); return e.offsetParent === null ? '' : e.innerText; })()`, selector))
}

// NoOverflow checks that the page is no wider than its window. Elements within those that
// match scrolled may be.
func (p *Page) NoOverflow(scrolled string) {
	p.t.Helper()
	if wide := Eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
		p.t.Errorf("the page is %d pixels wider than the window: %s", wide, Eval[string](p, fmt.Sprintf(`[...document.querySelectorAll('body *')]
			.filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(%q)).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join('\n')`, scrolled)))
	}
}

// Until waits until an expression of the page is true, and fails the test if it never is.
func (p *Page) Until(expression string) {
	p.t.Helper()
	if !Eval[bool](p, fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + 20000;
		const look = () => { let ok = false; try { ok = Boolean(%s); } catch {} if (ok) done(true); else if (performance.now() > end) done(false); else setTimeout(look, 20); };
		look();
	})`, expression)) {
		p.Check()
		p.t.Fatalf("it never came to %s; the page says:\n%s", expression, p.Words())
	}
}

// Says waits until an element has a text.
func (p *Page) Says(selector, text string) {
	p.t.Helper()
	p.Until(fmt.Sprintf(`document.querySelector(%q).innerText.includes(%q)`, selector, text))
}

// Words are what the page shows.
func (p *Page) Words() string {
	p.t.Helper()
	return Eval[string](p, `document.body.innerText`)
}

// Press presses the button of that name.
func (p *Page) Press(name string) {
	p.t.Helper()
	p.Until(fmt.Sprintf(`(() => { const b = [...document.querySelectorAll('button')].find((b) => (b.getAttribute('aria-label') || b.innerText) === %q && b.offsetParent); b.click(); return true; })()`, name))
}
